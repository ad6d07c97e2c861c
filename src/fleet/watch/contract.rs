//! Where the objects of a control plane kind are: the kind's CustomResourceDefinition says it.
//!
//! A Cluster names group and kind of its control plane, never a version or a resource. Cluster API finds both by the
//! definition's name, which it computes, and by the label that says which API versions keep its contract. What does not
//! carry that label is no control plane, whatever a Cluster's author writes.
//!
//! Source: Cluster API v1.14 `util/contract/contract.go` (`CalculateCRDName`), `internal/contract/version.go`
//! (`GetLatestContractAndAPIVersionFromContract`).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, api::ApiResource, core::Version};

use super::{follow::Refusal, watched::resource};
use crate::{model::ControlPlaneKind, text::quoted};

/// The contracts that Cluster API 1.12 and later take, the preferred one first.
const CONTRACTS: [&str; 2] = ["cluster.x-k8s.io/v1beta2", "cluster.x-k8s.io/v1beta1"];

/// Why a kind of control planes cannot be read. The texts say what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// No such kind can exist, so nothing is asked.
    #[error("no CustomResourceDefinition can have this group and kind")]
    Illegal,
    /// There is no definition.
    #[error("there is no CustomResourceDefinition {0}")]
    NoDefinition(String),
    /// The definition has no contract label.
    #[error(
        "CustomResourceDefinition {0} has no label {v2} or {v1} that names its API versions, as those of control plane \
         providers have",
        v2 = CONTRACTS[0],
        v1 = CONTRACTS[1]
    )]
    NoContract(String),
    /// The webhook may not look at definitions.
    #[error("reading definitions is forbidden; grant get on customresourcedefinitions.apiextensions.k8s.io")]
    DefinitionForbidden,
    /// The version that the label names is not served.
    #[error("the API server does not serve {0}")]
    NotServed(String),
    /// The webhook may not read the objects.
    #[error("reading it is forbidden; grant get, list and watch on {0}")]
    Forbidden(String),
    /// So many kinds are followed already.
    #[error("{0} kinds are followed already; raise --max-control-plane-kinds")]
    OverLimit(usize),
}

impl Unreadable {
    /// The API server refused the objects themselves.
    pub(crate) fn refused(refusal: Refusal, resource: &ApiResource) -> Self {
        let ApiResource { group, version, plural, .. } = resource;
        match refusal {
            Refusal::NotServed => Self::NotServed(format!("{plural}.{version}.{group}")),
            Refusal::Forbidden => Self::Forbidden(format!("{plural}.{group}")),
        }
    }
}

/// Why it is not known where a kind is.
#[derive(Debug)]
pub(crate) enum Unresolved {
    /// It cannot be read, until someone changes something.
    Unreadable(Unreadable),
    /// The API server did not say.
    Failed(kube::Error),
}

/// Asks the API server where the objects of `kind` are.
pub(crate) async fn resolve(client: &Client, kind: &ControlPlaneKind) -> Result<ApiResource, Unresolved> {
    let (group, plural) = legal(kind).ok_or(Unresolved::Unreadable(Unreadable::Illegal))?;
    let name = format!("{plural}.{group}");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = match definitions.get_metadata(&name).await {
        Ok(definition) => definition,
        Err(error) => {
            return Err(match Refusal::of(&error) {
                Some(Refusal::NotServed) => Unresolved::Unreadable(Unreadable::NoDefinition(name)),
                Some(Refusal::Forbidden) => Unresolved::Unreadable(Unreadable::DefinitionForbidden),
                None => Unresolved::Failed(error),
            });
        }
    };
    let labels = definition.metadata.labels.unwrap_or_default();
    let label = |key: &&str| labels.get(*key).filter(|value| !value.is_empty());
    let version = CONTRACTS.iter().find_map(label).and_then(|versions| newest(versions));
    match version {
        Some(version) => Ok(resource(group, version, &kind.kind, &plural)),
        None => Err(Unresolved::Unreadable(Unreadable::NoContract(name))),
    }
}

/// The newest API version of a contract label's value, in Kubernetes' own order of them. One that is no legal version would
/// change the path that is made of it.
fn newest(versions: &str) -> Option<&str> {
    let legal = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    versions.split('_').max_by_key(|version| Version::parse(version).priority()).filter(legal)
}

/// Group and resource of a kind, if the API server could have them at all: both become parts of a path, and both are what
/// a Cluster's author wrote.
fn legal(kind: &ControlPlaneKind) -> Option<(&str, String)> {
    let ControlPlaneKind { group, kind } = kind;
    let legal_kind = kind.len() <= 63 && kind.starts_with(|c: char| c.is_ascii_alphabetic());
    let legal_kind = legal_kind && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    // A definition's group has a dot; the groups without one are Kubernetes' own.
    (legal_kind && is_dns_subdomain(group) && group.contains('.')).then(|| (&**group, plural(&kind.to_lowercase())))
}

/// Whether the text is a DNS-1123 subdomain, which every namespace, every API group and every name of our kinds is.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let ends = |end: Option<char>| end.is_some_and(|c| c.is_ascii_alphanumeric());
    let (first, last) = (text.chars().next(), text.chars().next_back());
    text.len() <= 253 && text.bytes().all(legal) && ends(first) && ends(last) && !text.contains("..")
}

/// The plural that Cluster API's contract gives a kind in lower case: the regular English one. Irregular nouns (`index`,
/// `datum`) are not known here; their kinds are told as having no definition.
fn plural(kind: &str) -> String {
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| kind.ends_with(suffix));
    if let Some(stem) = kind.strip_suffix('y').filter(|_| !ends(&["ay", "ey", "oy", "uy"])) {
        return format!("{stem}ies");
    }
    if ends(&["ch", "sh", "x", "ss", "us", "tz", "zz"]) || ends(&["o"]) && !ends(&["io", "ano", "lo", "to", "oo"]) {
        return format!("{kind}es");
    }
    if kind.ends_with('s') { kind.to_owned() } else { format!("{kind}s") }
}

/// A kind as it may stand in one line of a log: it is what a Cluster's author wrote.
#[must_use]
pub fn kind_name(kind: &ControlPlaneKind) -> String {
    quoted(&kind.to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{is_dns_subdomain, legal, newest, plural};
    use crate::model::ControlPlaneKind;

    #[test]
    fn nothing_that_could_change_a_path_is_a_name() {
        for name in ["a", "team-a", "a.b-c.d", "0", &"x".repeat(253)] {
            assert!(is_dns_subdomain(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../a", "%2e%2e", "a#b", "a?b", "A", "a b", "-a", "a-", "a..b", "ä"] {
            assert!(!is_dns_subdomain(name), "{name}");
        }
        assert!(!is_dns_subdomain(&"x".repeat(254)));
    }

    #[test]
    fn a_kind_that_no_definition_can_have_is_not_asked_for() {
        let name = |group: &str, kind: &str| {
            let kind = ControlPlaneKind { group: group.into(), kind: kind.into() };
            legal(&kind).map(|(group, plural)| format!("{plural}.{group}"))
        };
        let expected = "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io";
        assert_eq!(name("controlplane.cluster.x-k8s.io", "KubeadmControlPlane").as_deref(), Some(expected));
        for (group, kind) in [
            ("", "Secret"),
            ("apps", "Deployment"),
            ("a.b/../..", "K"),
            ("A.b", "K"),
            ("a.b", ""),
            ("a.b", "K/x"),
            ("a.b", "../K"),
            ("a.b", "K?watch=true"),
            ("a.b", "1K"),
            ("a.b", "K."),
            ("a.b", "Kä"),
            ("a.b", &"K".repeat(64)),
        ] {
            assert_eq!(name(group, kind), None, "{group} {kind}");
        }
    }

    /// What gobuffalo/flect v1.0.3, the library that Cluster API asks, answers.
    #[test]
    fn plurals_are_those_of_cluster_apis_contract() {
        for (singular, expected) in [
            ("kubeadmcontrolplane", "kubeadmcontrolplanes"),
            ("rosacontrolplane", "rosacontrolplanes"),
            ("policy", "policies"),
            ("gateway", "gateways"),
            ("class", "classes"),
            ("box", "boxes"),
            ("branch", "branches"),
            ("status", "statuses"),
            ("nodes", "nodes"),
            ("hero", "heroes"),
            ("repo", "repoes"),
            ("studio", "studios"),
            ("silo", "silos"),
            ("blitz", "blitzes"),
        ] {
            assert_eq!(plural(singular), expected);
        }
    }

    #[test]
    fn the_newest_version_is_the_one_that_kubernetes_prefers() {
        for (label, expected) in [
            ("v1beta1", Some("v1beta1")),
            ("v1alpha4_v1beta1", Some("v1beta1")),
            ("v1beta2_v1beta1", Some("v1beta2")),
            ("v1_v2beta1", Some("v1")),
            ("v1beta2_v1beta10", Some("v1beta10")),
            ("v2_v10", Some("v10")),
            ("old_v1alpha1", Some("v1alpha1")),
            ("", None),
            ("_", None),
            ("../v1", None),
            ("v1.2", None),
        ] {
            assert_eq!(newest(label), expected, "{label}");
        }
    }
}
