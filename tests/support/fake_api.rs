//! A scripted API server: a kube client whose every request is answered by the next step of a script.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use serde_json::{Value, json};

/// How one request is answered.
pub enum Answer {
    /// A status code and a whole body.
    Whole(u16, Value),
    /// A watch that sends these lines and then stays open for ever.
    Watch(Vec<String>),
    /// A watch that sends these lines and then ends, as after its timeout.
    EndingWatch(Vec<String>),
    /// No answer, ever.
    Silence,
}

/// The script, and what was asked so far.
#[derive(Clone, Default)]
pub struct Api {
    script: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

type Chunk = http_body::Frame<bytes::Bytes>;

impl Api {
    /// An API server that gives these answers in this order, then none.
    pub fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self { script: Arc::new(Mutex::new(script.into_iter().collect())), ..Self::default() }
    }

    /// The requests so far: `<path>?<query>`.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// A client that talks to it.
    pub fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                api.asked.lock().unwrap().push(request.uri().to_string());
                let next = api.script.lock().unwrap().pop_front();
                let (status, body) = match next.unwrap_or(Answer::Silence) {
                    Answer::Whole(status, value) => (status, body(vec![value.to_string()], true)),
                    Answer::Watch(lines) => (200, body(lines, false)),
                    Answer::EndingWatch(lines) => (200, body(lines, true)),
                    Answer::Silence => futures::future::pending().await,
                };
                Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }
}

fn body(lines: Vec<String>, ends: bool) -> UnsyncBoxBody<bytes::Bytes, Infallible> {
    let chunks = stream::iter(lines).map(|line| Ok(Chunk::data(format!("{line}\n").into())));
    let body = if ends { chunks.boxed() } else { chunks.chain(stream::pending()).boxed() };
    UnsyncBoxBody::new(StreamBody::new(body))
}

/// A page of a list.
pub fn page(items: &[Value], next: Option<&str>) -> Answer {
    let metadata = json!({"resourceVersion": "100", "continue": next.unwrap_or_default()});
    Answer::Whole(200, json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}))
}

/// A watch event, its type in front as the API server writes it.
pub fn event(kind: &str, object: Value) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

/// An error as the API server words it.
pub fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
           "message": format!("scripted {code}")})
}
