//! A Runtime SDK extension that records what Cluster API asks it, and blocks where it is told to.
//! Source of the protocol: Cluster API, api/runtime/hooks/v1alpha1 (1.14).

use std::{
    collections::HashMap,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    sync::{Arc, mpsc},
    thread,
};

use actix_web::{App, HttpResponse, HttpServer, rt, web};
use anyhow::{Context, Result};
use openssl::ssl::{SslAcceptor, SslFiletype, SslMethod};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::stack::control_plane::ControlPlane;

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
        let port = extension.serve(&control_plane.directory)?;
        let ca = std::fs::read(control_plane.directory.join("ca.crt"))?;
        let client = json!({
            "url": format!("https://localhost:{port}"), "caBundle": openssl::base64::encode_block(&ca),
        });
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

    fn serve(&self, directory: &Path) -> Result<u16> {
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls())?;
        acceptor.set_certificate_chain_file(directory.join("tls.crt"))?;
        acceptor.set_private_key_file(directory.join("tls.key"), SslFiletype::PEM)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let this = self.clone();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            rt::System::new().block_on(async move {
                let answer = move |path: web::Path<String>, body: web::Bytes| {
                    let answer = this.answer(&path, &body);
                    async move { HttpResponse::Ok().json(answer) }
                };
                let server = HttpServer::new(move || {
                    let hooks = web::resource("/hooks.runtime.cluster.x-k8s.io/v1alpha1/{hook:.*}");
                    App::new().service(hooks.route(web::post().to(answer.clone())))
                });
                let server = server.workers(1).disable_signals().listen_openssl(listener, acceptor);
                let _ = tell.send(server.as_ref().map(drop).map_err(ToString::to_string));
                if let Ok(server) = server {
                    // It ends with the program.
                    let _ = server.run().await;
                }
            });
        });
        told.recv()?.map_err(anyhow::Error::msg).context("failed to serve the extension")?;
        Ok(port)
    }

    /// The answer to a question at "hook/handler", in lower case.
    fn answer(&self, path: &str, body: &[u8]) -> Value {
        if path == "discovery" {
            let handlers = HOOKS.map(
                |hook| json!({"name": hook.to_ascii_lowercase(), "requestHook": {"apiVersion": VERSION, "hook": hook}}),
            );
            return json!({"apiVersion": VERSION, "kind": "DiscoveryResponse", "status": "Success", "handlers": handlers});
        }
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let segment = path.split('/').next().unwrap_or_default();
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
