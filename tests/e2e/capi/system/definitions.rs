//! The kinds of the simulated providers, by Cluster API's provider contract v1beta2.
//! Source: Cluster API, docs/book/src/developer/providers/contracts (1.14).

use kube::{api::ApiResource, core::GroupVersionKind};
use serde_json::{Value, json};

/// "group/version" of the simulated infrastructure.
pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1";
/// "group/version" of the simulated bootstrap configs.
pub const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io/v1";
/// "group/version" of the simulated control planes. The webhook's own RBAC covers this group.
pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1";

/// "group/version" and kind of the four kinds; each has a template too, whose kind ends in `Template`.
pub const KINDS: [(&str, &str); 4] = [
    (INFRASTRUCTURE, "SimulatedCluster"),
    (INFRASTRUCTURE, "SimulatedMachine"),
    (CONTROL_PLANE, "SimulatedControlPlane"),
    (BOOTSTRAP, "SimulatedConfig"),
];

/// The eight definitions.
pub fn all() -> Vec<Value> {
    KINDS
        .iter()
        .flat_map(|(group_version, kind)| {
            [definition(group_version, kind), definition(group_version, &format!("{kind}Template"))]
        })
        .collect()
}

/// The templates of a class in `namespace`: one of each kind, all named alike.
pub fn templates(namespace: &str, name: &str) -> Vec<Value> {
    let template = |(group_version, kind): &(&str, &str)| {
        json!({
            "apiVersion": group_version, "kind": format!("{kind}Template"),
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"template": {"spec": {}}},
        })
    };
    KINDS.iter().map(template).collect()
}

/// The plural of a kind.
pub fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    if kind.ends_with('s') { format!("{kind}es") } else { format!("{kind}s") }
}

/// A kind as a client watches it.
pub fn resource(group_version: &str, kind: &str) -> ApiResource {
    let (group, version) = group_version.split_once('/').unwrap_or_default();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural(kind))
}

fn definition(group_version: &str, kind: &str) -> Value {
    let (group, version) = group_version.split_once('/').unwrap();
    let plural = plural(kind);
    // Everything is kept: what a contract's object may carry differs between releases.
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"cluster.x-k8s.io/v1beta2": version}},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_ascii_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
            }],
        },
    })
}
