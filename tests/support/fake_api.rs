//! A scripted API server: a kube client whose every request is answered by the next step of a script.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::{Arc, Mutex},
};

use capi_version_guard::fleet::{Freshness, watch::Connect};
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use serde_json::{Value, json};

/// How one request is answered.
#[derive(Clone)]
pub enum Answer {
    /// A status code and a whole body.
    Whole(u16, Value),
    /// A watch that sends these lines and then stays open for ever.
    Watch(Vec<String>),
    /// A watch that sends these lines and then ends, as after its timeout.
    EndingWatch(Vec<String>),
    /// A status code and a text that is no JSON.
    Text(u16, &'static str),
    /// No answer, ever.
    Silence,
}

impl Answer {
    async fn response(self) -> Result<Response<UnsyncBoxBody<bytes::Bytes, Infallible>>, Infallible> {
        let (status, body) = match self {
            Self::Whole(status, value) => (status, body(vec![value.to_string()], true)),
            Self::Watch(lines) => (200, body(lines, false)),
            Self::EndingWatch(lines) => (200, body(lines, true)),
            Self::Text(status, text) => (status, body(vec![text.to_owned()], true)),
            Self::Silence => futures::future::pending().await,
        };
        Ok(Response::builder().status(status).body(body).unwrap())
    }
}

/// The script, and what was asked so far.
#[derive(Clone, Default)]
pub struct Api {
    script: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

/// A script for each path, and what was asked so far.
///
/// A path without a script is not served. A script that is played out never answers again, unless it is an answer for
/// always.
#[derive(Clone, Default)]
pub struct Paths {
    scripts: Arc<Mutex<HashMap<String, Script>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

enum Script {
    Steps(VecDeque<Answer>),
    Always(Answer),
}

impl Paths {
    /// Plays these answers to requests for `path`, from now on.
    pub fn play(&self, path: &str, steps: impl IntoIterator<Item = Answer>) -> &Self {
        self.scripts.lock().unwrap().insert(path.to_owned(), Script::Steps(steps.into_iter().collect()));
        self
    }

    /// Gives this answer to every request for `path`, from now on.
    pub fn always(&self, path: &str, answer: Answer) -> &Self {
        self.scripts.lock().unwrap().insert(path.to_owned(), Script::Always(answer));
        self
    }

    /// Serves `path` no more.
    pub fn drop(&self, path: &str) {
        self.scripts.lock().unwrap().remove(path);
    }

    /// The requests so far whose path begins like this: `<path>?<query>`.
    pub fn asked(&self, path: &str) -> Vec<String> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.starts_with(path)).cloned().collect()
    }

    /// A client that talks to it.
    pub fn client(&self) -> Client {
        let paths = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            paths.asked.lock().unwrap().push(request.uri().to_string());
            let answer = match paths.scripts.lock().unwrap().get_mut(request.uri().path()) {
                None => Answer::Text(404, "404 page not found\n"),
                Some(Script::Always(answer)) => answer.clone(),
                Some(Script::Steps(steps)) => steps.pop_front().unwrap_or(Answer::Silence),
            };
            answer.response()
        });
        Client::new(service, "default")
    }
}

impl Connect for Paths {
    fn connect(&self, _: &Arc<Freshness>) -> Result<Client, kube::Error> {
        Ok(self.client())
    }
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
                next.unwrap_or(Answer::Silence).response().await
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
