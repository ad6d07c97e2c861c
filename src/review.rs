//! `AdmissionReview` JSON to a change, and a verdict back to JSON. Pure.
//!
//! One pass over slim structs, never a `serde_json::Value`: a class can be a megabyte, twice in a review, and nearly all
//! of it is patches and variables that nobody here looks at.
//!
//! Source: `k8s.io/api/admission/v1`; what the API server accepts as an answer is in
//! `apiserver/pkg/admission/plugin/webhook/request/admissionreview.go`.

use std::collections::BTreeMap;

use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};

use crate::{
    model::{Change, Cluster, ClusterClass, GROUP, Metadata},
    verdict::{Verdict, explanation},
};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// A kind of object that is judged.
pub trait Judged: DeserializeOwned + Default {
    /// The resource, as in a webhook rule.
    const RESOURCE: &'static str;
    /// The kind.
    const KIND: &'static str;
    /// The object's metadata.
    fn metadata_mut(&mut self) -> &mut Metadata;
}

impl Judged for Cluster {
    const RESOURCE: &'static str = "clusters";
    const KIND: &'static str = "Cluster";

    fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }
}

impl Judged for ClusterClass {
    const RESOURCE: &'static str = "clusterclasses";
    const KIND: &'static str = "ClusterClass";

    fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }
}

/// A request that can be answered.
#[derive(Debug)]
pub struct Request<T> {
    /// To be given back; new for every call, so no key for anything else.
    pub uid: String,
    /// "CREATE", "UPDATE" or "DELETE", else what it says.
    pub operation: String,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// What is asked.
    pub question: Question<T>,
}

/// What a review asks.
#[derive(Debug)]
pub enum Question<T> {
    /// To judge a change.
    Judge(Change<T>),
    /// Something that is not judged here; the text says what it was and which rule to narrow.
    NotJudged(String),
    /// A change that does not decode.
    Undecodable(String),
}

/// Bytes that are no review, so that there is no uid to answer to.
#[derive(Debug, thiserror::Error)]
pub enum ParseReviewError {
    /// No JSON of that shape.
    #[error("failed to decode the request as an AdmissionReview")]
    Decode(#[from] serde_json::Error),
    /// Another kind of JSON object.
    #[error(
        "failed to read the request: its kind is {kind:?} and its apiVersion {api_version:?}, not \"AdmissionReview\" and \
         \"admission.k8s.io/v1\""
    )]
    Kind {
        /// Its apiVersion.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// A review without a request, or a request without a uid.
    #[error("failed to read the AdmissionReview: it has no request.uid")]
    NoUid,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "T: DeserializeOwned")]
struct Wire<T> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<WireRequest<T>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "T: DeserializeOwned")]
struct WireRequest<T> {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource: Resource,
    sub_resource: Option<String>,
    #[serde(default)]
    operation: String,
    name: Option<String>,
    namespace: Option<String>,
    dry_run: Option<bool>,
    object: Option<T>,
    old_object: Option<T>,
}

#[derive(Default, Deserialize)]
struct Resource {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resource: String,
}

/// Reads a review of `T`.
///
/// # Errors
/// If the bytes carry no uid to answer to. A readable review of something else, or of an object that does not decode, is
/// no error but a [`Question`] of its own, because it has to be answered under its uid.
pub fn parse<T: Judged>(bytes: &[u8]) -> Result<Request<T>, ParseReviewError> {
    match serde_json::from_slice::<Wire<T>>(bytes) {
        Ok(wire) => Ok(read(wire)?),
        // The objects may be of another kind with another shape, or broken; the rest tells who asks for what.
        Err(error) => {
            let request = read::<T, IgnoredAny>(serde_json::from_slice(bytes)?)?;
            Ok(match request.question {
                Question::NotJudged(_) => request,
                Question::Judge(_) | Question::Undecodable(_) => Request {
                    question: Question::Undecodable(format!("failed to decode the {}: {error}", T::KIND)),
                    ..request
                },
            })
        }
    }
}

/// Turns what was decoded into a question about a `T`. `O` is what the objects were decoded as.
fn read<T: Judged, O: IntoJudged<T>>(wire: Wire<O>) -> Result<Request<T>, ParseReviewError> {
    if wire.api_version != API_VERSION || wire.kind != KIND {
        return Err(ParseReviewError::Kind { api_version: wire.api_version, kind: wire.kind });
    }
    let request = wire.request.filter(|request| !request.uid.is_empty()).ok_or(ParseReviewError::NoUid)?;
    let WireRequest { uid, resource, sub_resource, operation, name, namespace, dry_run, object, old_object } = request;
    let complete = |object: O| {
        let mut object = object.into_judged();
        let metadata = object.metadata_mut();
        // With generateName the API server fills in the name of the request, not always that of the object.
        for (field, from) in [(&mut metadata.name, &name), (&mut metadata.namespace, &namespace)] {
            if field.is_empty() {
                field.clone_from(from.as_ref().unwrap_or(&String::new()));
            }
        }
        object
    };
    let (old, new) = (old_object.map(&complete), object.map(&complete));
    let sub_resource = sub_resource.filter(|sub_resource| !sub_resource.is_empty());
    let question = if resource.group != GROUP || resource.resource != T::RESOURCE || sub_resource.is_some() {
        let sub_resource = sub_resource.map_or_else(String::new, |sub_resource| format!("/{sub_resource}"));
        not_judged(&format!("{}{sub_resource} of group {:?}", resource.resource, resource.group))
    } else {
        match (operation.as_str(), old, new) {
            ("CREATE", _, Some(new)) => Question::Judge(Change::Create(new)),
            ("UPDATE", Some(old), Some(new)) => Question::Judge(Change::Update { old, new }),
            // The old object is sent since Kubernetes 1.15; the name is enough to say who would miss a class.
            ("DELETE", old, _) => Question::Judge(Change::Delete(old.unwrap_or_else(|| complete(O::nothing())))),
            ("CREATE" | "UPDATE", old, _) => {
                let lacking = if operation == "UPDATE" && old.is_none() { "oldObject" } else { "object" };
                Question::Undecodable(format!("failed to read the {operation} of a {}: it has no {lacking}", T::KIND))
            }
            _ => not_judged(&format!("the operation {operation:?}")),
        }
    };
    Ok(Request { uid, operation, dry_run: dry_run.unwrap_or_default(), question })
}

fn not_judged<T>(what: &str) -> Question<T> {
    Question::NotJudged(format!(
        "capi-version-guard does not judge {what}; narrow the rules of its ValidatingWebhookConfiguration to clusters \
         and clusterclasses of {GROUP}"
    ))
}

/// What the objects of a review were decoded as.
trait IntoJudged<T>: DeserializeOwned {
    fn into_judged(self) -> T;
    fn nothing() -> Self;
}

impl<T: Judged> IntoJudged<T> for T {
    fn into_judged(self) -> T {
        self
    }

    fn nothing() -> Self {
        T::default()
    }
}

impl<T: Judged> IntoJudged<T> for IgnoredAny {
    fn into_judged(self) -> T {
        T::default()
    }

    fn nothing() -> Self {
        Self
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: BTreeMap<&'static str, String>,
}

/// A `meta/v1` Status, as in a denial, and as the body of an HTTP error (the API server shows the message of such a body
/// and loses any other).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    api_version: &'static str,
    kind: &'static str,
    /// "Failure"; the name is the API's.
    #[serde(rename = "status")]
    outcome: &'static str,
    code: u16,
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

#[derive(Debug, Serialize)]
struct Details {
    group: &'static str,
    kind: &'static str,
    name: String,
    causes: Vec<Cause>,
}

#[derive(Debug, Serialize)]
struct Cause {
    reason: &'static str,
    message: String,
    field: String,
}

impl Status {
    /// A failure with an HTTP status code, a reason of `meta/v1`, and a text for people.
    #[must_use]
    pub fn failure(code: u16, reason: &'static str, message: String) -> Self {
        Self { api_version: "v1", kind: "Status", outcome: "Failure", code, reason, message, details: None }
    }

    /// Its JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        to_json(self)
    }
}

impl<T: Judged> Request<T> {
    /// The answer to a judged change. `name` is the object's; `audit` goes to the API server's audit log, where each key
    /// stands behind the webhook's name.
    ///
    /// A denial is always 403 Forbidden. `kubectl apply --force`, and GitOps controllers that force, take 422 Invalid
    /// and 409 Conflict as "delete and create anew", which destroys a running cluster.
    #[must_use]
    pub fn respond(&self, name: &str, verdict: &Verdict, mut audit: BTreeMap<&'static str, String>) -> Vec<u8> {
        let rules = verdict.rules();
        if !rules.is_empty() {
            audit.insert("rules", rules.join(","));
        }
        let status = (!verdict.allowed()).then(|| {
            let causes = verdict.denials.iter().map(|finding| Cause {
                reason: finding.rule,
                message: explanation(finding),
                field: finding.field.clone().into_owned(),
            });
            let details = Details { group: GROUP, kind: T::KIND, name: name.to_owned(), causes: causes.collect() };
            Status { details: Some(details), ..Status::failure(403, "Forbidden", verdict.message()) }
        });
        self.answer(status, verdict.warning_texts(), audit)
    }

    /// The answer to a review that asks for something else: allowed, with the text as a warning.
    #[must_use]
    pub fn respond_not_judged(&self, warning: &str) -> Vec<u8> {
        self.answer(None, vec![warning.to_owned()], BTreeMap::new())
    }

    /// The answer to a change that does not decode: refused as a bad request, since nothing can be said of it.
    #[must_use]
    pub fn respond_undecodable(&self, message: &str) -> Vec<u8> {
        self.answer(Some(Status::failure(400, "BadRequest", message.to_owned())), Vec::new(), BTreeMap::new())
    }

    fn answer(&self, status: Option<Status>, warnings: Vec<String>, audit: BTreeMap<&'static str, String>) -> Vec<u8> {
        let response =
            Response { uid: &self.uid, allowed: status.is_none(), status, warnings, audit_annotations: audit };
        to_json(&Answer { api_version: API_VERSION, kind: KIND, response })
    }
}

/// Serializes plain structs of text and numbers, which cannot fail; an empty body would be taken as a failed call.
fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
