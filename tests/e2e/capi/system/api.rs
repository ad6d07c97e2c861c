//! Requests to the API server, as JSON.

use anyhow::Result;
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::stack::control_plane::client_config;

/// Clusters, ClusterClasses and the like.
pub const CORE: &str = "cluster.x-k8s.io/v1beta2";

/// An API client.
#[derive(Clone)]
pub struct Api(Client);

/// What the API server said to a request.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The object, or a Status.
    pub body: Value,
    /// The texts of its warnings.
    pub warnings: Vec<String>,
}

impl Answer {
    /// The object, or an error with the message of the Status.
    pub fn object(self) -> Result<Value> {
        anyhow::ensure!(self.code < 300, "{} {}", self.code, self.message());
        Ok(self.body)
    }

    /// Whether it was done.
    pub fn is_ok(&self) -> bool {
        self.code < 300
    }

    /// The message of the Status.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Api {
    /// A client of whom `kubeconfig` names.
    pub async fn new(kubeconfig: &str) -> Result<Self> {
        let mut config = client_config(kubeconfig).await?;
        // A create of a Cluster with a missing class takes 4 s in Cluster API's webhooks.
        config.read_timeout = None;
        Ok(Self(Client::try_from(config)?))
    }

    /// The client below it.
    pub fn client(&self) -> Client {
        self.0.clone()
    }

    /// Sends a request.
    pub async fn send(&self, method: &str, path: &str, content: &str, body: Option<&Value>) -> Result<Answer> {
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", content);
        let response = self.0.send(request.body(Body::from(body))?).await?;
        let (head, body) = response.into_parts();
        let warnings = head.headers.get_all("Warning").iter().filter_map(|value| value.to_str().ok().map(warning));
        let warnings = warnings.collect();
        let bytes = body.collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!({"message": String::from_utf8_lossy(&bytes).into_owned()}));
        Ok(Answer { code: head.status.as_u16(), body, warnings })
    }

    /// Reads an object; none if it is not there.
    pub async fn get(&self, path: &str) -> Result<Option<Value>> {
        let answer = self.send("GET", path, "application/json", None).await?;
        if answer.code == 404 { Ok(None) } else { answer.object().map(Some) }
    }

    /// Creates an object where its kind, namespace and name say.
    pub async fn create(&self, object: &Value) -> Result<Answer> {
        self.send("POST", &collection_of(object), "application/json", Some(object)).await
    }

    /// Merges `change` into the object at `path`.
    pub async fn merge(&self, path: &str, change: &Value) -> Result<Answer> {
        self.send("PATCH", path, "application/merge-patch+json", Some(change)).await
    }

    /// Deletes the object at `path`.
    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send("DELETE", path, "application/json", None).await
    }
}

/// The path of a namespaced object.
pub fn path(group_version: &str, plural: &str, namespace: &str, name: &str) -> String {
    format!("{}/{name}", collection(group_version, plural, namespace))
}

/// The path of a Cluster.
pub fn cluster_path(namespace: &str, name: &str) -> String {
    path(CORE, "clusters", namespace, name)
}

/// The path of a ClusterClass.
pub fn class_path(namespace: &str, name: &str) -> String {
    path(CORE, "clusterclasses", namespace, name)
}

fn collection(group_version: &str, plural: &str, namespace: &str) -> String {
    // The core group has another root.
    let root = if group_version.contains('/') { "apis" } else { "api" };
    match namespace {
        "" => format!("/{root}/{group_version}/{plural}"),
        _ => format!("/{root}/{group_version}/namespaces/{namespace}/{plural}"),
    }
}

/// The path of the kind of a namespaced object.
pub fn collection_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]);
    let plural = super::definitions::plural(&kind);
    collection(&text(&object["apiVersion"]), &plural, &text(&object["metadata"]["namespace"]))
}

/// The text in `299 - "text"`.
fn warning(header: &str) -> String {
    let text = header.split_once('"').map_or(header, |(_, text)| text);
    text.strip_suffix('"').unwrap_or(text).replace("\\\"", "\"")
}
