//! A webhook that records what it is asked, and over which connection.
//!
//! Its HTTP is written by hand: no server framework tells when the other side closes an idle connection.

use std::{
    io::{BufReader, Read, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use openssl::ssl::NameType;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    client::{self, send, thing, things},
    stack::{control_plane::ControlPlane, http, tls},
    until,
};

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The path, with the query.
    pub path: String,
    /// The API server's port: it tells connections apart.
    pub connection: u16,
    /// Whose certificate the API server asks for.
    pub server_name: Option<String>,
    /// `request` of the review.
    pub request: Value,
}

/// An answer.
pub enum Answer {
    /// It may be, and this is said of it.
    Allow(Vec<String>),
    /// No review: the code, more headers (each with its line end), and the message of the Status.
    Http(u16, &'static str, &'static str),
    /// The connection is closed.
    Close,
}

/// An idle connection that the API server closed.
#[derive(Clone, Debug)]
pub struct Closed {
    pub connection: u16,
    /// Since the last answer.
    pub idle: Duration,
}

/// A webhook that serves until the program ends.
pub struct Hook {
    pub port: u16,
    calls: Arc<Mutex<Vec<Call>>>,
    closed: Arc<Mutex<Vec<Closed>>>,
}

/// The object by which is found out whether the hook is called. It is always allowed.
const PROBE: &str = "probe";

impl Hook {
    /// Serves with the certificate of `control_plane`.
    pub fn start(
        control_plane: &ControlPlane,
        answer: impl Fn(&Call) -> Answer + Send + Sync + 'static,
    ) -> Result<Self> {
        let (calls, closed) = (Arc::<Mutex<Vec<Call>>>::default(), Arc::<Mutex<Vec<Closed>>>::default());
        let (record, note) = (Arc::clone(&calls), Arc::clone(&closed));
        let port = tls::listen(&control_plane.directory, move |stream| {
            let Ok(peer) = stream.get_ref().peer_addr() else { return };
            let server_name = stream.ssl().servername(NameType::HOST_NAME).map(str::to_owned);
            let mut stream = BufReader::new(stream);
            let mut last_answer = None;
            let exchange = |stream: &mut BufReader<_>| {
                serve(stream, |path, request| {
                    let call = Call { path, connection: peer.port(), server_name: server_name.clone(), request };
                    record.lock().push(call.clone());
                    if call.request["name"] == PROBE { Answer::Allow(Vec::new()) } else { answer(&call) }
                })
            };
            while let Ok(true) = exchange(&mut stream) {
                last_answer = Some(Instant::now());
            }
            if let Some(since) = last_answer {
                note.lock().push(Closed { connection: peer.port(), idle: since.elapsed() });
            }
        })?;
        Ok(Self { port, calls, closed })
    }

    /// A webhook of a configuration: it is asked about things of v1 in `namespace`, and called at `url` or `service`.
    pub fn entry(control_plane: &ControlPlane, namespace: &str, address: &Value, more: &Value) -> Result<Value> {
        let mut entry = json!({
            "name": "recorder.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": address,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{
                "apiGroups": ["facts.example.com"], "apiVersions": ["v1"], "resources": ["things"],
                "operations": ["CREATE", "UPDATE"],
            }],
        });
        entry["clientConfig"]["caBundle"] = json!(control_plane.ca_bundle()?);
        for (key, value) in more.as_object().into_iter().flatten() {
            entry[key] = value.clone();
        }
        Ok(entry)
    }

    /// Registers it at its URL for `namespace`, with `more` fields of the webhook, and waits until it is called.
    pub fn register(&self, control_plane: &ControlPlane, namespace: &str, more: &Value) -> Result<()> {
        let address = json!({"url": format!("https://localhost:{}/", self.port)});
        self.register_entries(control_plane, namespace, vec![Self::entry(control_plane, namespace, &address, more)?])
    }

    /// Registers `entries` as webhooks and waits until all of them are called.
    pub fn register_entries(&self, control_plane: &ControlPlane, namespace: &str, entries: Vec<Value>) -> Result<()> {
        let expected = entries.len();
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": namespace}, "webhooks": entries,
        });
        let collection = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let created = send(control_plane, "POST", collection, &configuration)?;
        anyhow::ensure!(created.code == 201, "the configuration is refused: {created:?}");
        let path = format!("{}?dryRun=All", things("v1", namespace));
        // The API server learns of configurations and Services by watches, so the first answers may be failures.
        until("the hook is called", Duration::from_mins(1), || {
            self.calls.lock().clear();
            let answer: client::Answer = send(control_plane, "POST", &path, &thing("v1", PROBE))?;
            Ok((answer.code == 201 && self.calls.lock().len() == expected).then_some(()))
        })?;
        self.calls.lock().clear();
        Ok(())
    }

    /// All calls since it was registered.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    /// The connections that were closed when they were idle.
    pub fn closed(&self) -> Vec<Closed> {
        self.closed.lock().clone()
    }
}

/// Reads one call and answers it; `false` if there will be no other.
fn serve(stream: &mut BufReader<impl Read + Write>, answer: impl FnOnce(String, Value) -> Answer) -> Result<bool> {
    let Some((path, body)) = http::read_post(stream)? else { return Ok(false) };
    let mut review: Value = serde_json::from_slice(&body)?;
    let request = review["request"].take();
    let (code, headers, body) = match answer(path, request.clone()) {
        Answer::Allow(warnings) => (200, "", http::admits(&request, &warnings)),
        Answer::Http(code, headers, message) => {
            let status = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "message": message,
            });
            (code, headers, status)
        }
        Answer::Close => return Ok(false),
    };
    http::answer(stream.get_mut(), code, headers, &body)?;
    Ok(true)
}
