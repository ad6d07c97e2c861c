//! A Runtime SDK extension that records what Cluster API asks it, and blocks where it is told to.
//! Source of the protocol: Cluster API, api/runtime/hooks/v1alpha1 (1.14).

use std::{collections::HashMap, io::BufReader, sync::Arc};

use anyhow::Result;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::stack::{control_plane::ControlPlane, http, tls};

const VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

/// The hooks of an upgrade that it registers for; all but the second may block.
pub const HOOKS: [&str; 9] = [
    "BeforeClusterCreate",
    "AfterControlPlaneInitialized",
    "BeforeClusterUpgrade",
    "BeforeControlPlaneUpgrade",
    "AfterControlPlaneUpgrade",
    "BeforeWorkersUpgrade",
    "AfterWorkersUpgrade",
    "AfterClusterUpgrade",
    "BeforeClusterDelete",
];

/// A question that it was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub hook: String,
    pub namespace: String,
    pub cluster: String,
    /// "from -> to", or the version that was reached, or nothing.
    pub versions: String,
}

/// The extension, serving until the program ends.
#[derive(Clone, Default)]
pub struct Extension {
    calls: Arc<Mutex<Vec<Call>>>,
    /// Which hook blocks, by namespace.
    blocking: Arc<Mutex<HashMap<String, String>>>,
}

impl Extension {
    /// Serves it with the certificate in `directory`, and registers it.
    pub fn start(control_plane: &ControlPlane) -> Result<Self> {
        let extension = Self::default();
        let this = extension.clone();
        let port = tls::listen(&control_plane.directory, move |stream| {
            let mut stream = BufReader::new(stream);
            // Cluster API breaks connections off as it likes.
            while let Ok(Some((path, body))) = http::read_post(&mut stream) {
                let answer = this.answer(&path, &body);
                if http::answer(stream.get_mut(), 200, "", &answer).is_err() {
                    return;
                }
            }
        })?;
        let client = json!({"url": format!("https://localhost:{port}"), "caBundle": control_plane.ca_bundle()?});
        control_plane.create(
            "extension",
            vec![json!({
                "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
                "metadata": {"name": "recorder"}, "spec": {"clientConfig": client},
            })],
        )?;
        control_plane.kubectl(&["wait", "extensionconfig/recorder", "--for=condition=Discovered", "--timeout=30s"])?;
        Ok(extension)
    }

    /// What it was asked about a Cluster, repeated questions once.
    pub fn calls(&self, namespace: &str) -> Vec<Call> {
        let mut calls: Vec<_> = self.calls.lock().iter().filter(|call| call.namespace == namespace).cloned().collect();
        calls.dedup();
        calls
    }

    /// From now on `hook` blocks Clusters of `namespace`; with none, nothing does.
    pub fn block(&self, namespace: &str, hook: Option<&str>) {
        let mut blocking = self.blocking.lock();
        match hook {
            Some(hook) => blocking.insert(namespace.to_owned(), hook.to_owned()),
            None => blocking.remove(namespace),
        };
    }

    /// The answer to a question at ".../v1alpha1/hook/handler?timeout=..", in lower case.
    fn answer(&self, path: &str, body: &[u8]) -> Value {
        let path = path.split('?').next().unwrap_or_default();
        let segment = path.strip_prefix(&format!("/{VERSION}/")).unwrap_or(path).split('/').next().unwrap_or_default();
        if segment == "discovery" {
            let handlers = HOOKS.map(
                |hook| json!({"name": hook.to_ascii_lowercase(), "requestHook": {"apiVersion": VERSION, "hook": hook}}),
            );
            return json!({"apiVersion": VERSION, "kind": "DiscoveryResponse", "status": "Success", "handlers": handlers});
        }
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let hook = HOOKS.iter().find(|hook| hook.eq_ignore_ascii_case(segment)).copied().unwrap_or("an unknown hook");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let versions = match (&request["fromKubernetesVersion"], &request["toKubernetesVersion"]) {
            (Value::String(from), Value::String(to)) => format!("{from} -> {to}"),
            _ => text(&request["kubernetesVersion"]),
        };
        let namespace = text(&request["cluster"]["metadata"]["namespace"]);
        let cluster = text(&request["cluster"]["metadata"]["name"]);
        let blocks = self.blocking.lock().get(&namespace).is_some_and(|blocking| blocking == hook);
        self.calls.lock().push(Call { hook: hook.to_owned(), namespace, cluster, versions });
        // So often it asks again.
        let retry = if blocks { 1 } else { 0 };
        json!({"apiVersion": VERSION, "kind": format!("{hook}Response"), "status": "Success", "retryAfterSeconds": retry})
    }
}
