//! Writers that race: for each class one that narrows its list while others move Clusters out of the narrow list.
//!
//! Each class goes through rounds. A round sets the class to a wide list, to none, or takes it away; then one writer
//! narrows it (or creates it narrow) and three others write Clusters, most of them at the version that only the wide list
//! has. Each of the four begins at once or, in half of the cases, up to [`SPREAD`] later, by way of either API server. In
//! every second round all replicas have seen what the round begins with; in the others the watches still lag behind the
//! round before. A round ends with its Clusters deleted.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use capi_version_guard::{fleet::ClassEntry, model::ObjectKey};
use futures::future::try_join_all;
use kube::Client;
use serde_json::{Value, json};

use crate::{
    objects::{JSON, class, cluster, cluster_change, collection, resource_version},
    random::Random,
    replay::{Asked, Change},
    stack::etcd::Etcd,
    world::NAMESPACE,
};

/// The latest that a write begins in its round.
const SPREAD: Duration = Duration::from_millis(500);

/// Classes, each with writers of its own.
const CLASSES: usize = 16;
/// Clusters that are written in each round.
const CLUSTERS: usize = 3;

const BELOW: &str = "v1.31.0";
const INSIDE: &str = "v1.32.0";
/// The version that makes a Cluster and a narrow class exclude each other.
const OUTSIDE: &str = "v1.33.0";
const NARROW: [&str; 2] = [BELOW, INSIDE];
const WIDE: [&str; 3] = [BELOW, INSIDE, OUTSIDE];

/// The class without a list from which Clusters are rebased.
const PARKING: &str = "parking";

/// All that was asked, and what came of it.
#[derive(Default)]
pub struct Done {
    pub requests: Vec<Request>,
    /// Places in `requests`: a class write and a Cluster write of the same round that exclude each other.
    pub pairs: Vec<[usize; 2]>,
}

/// A request that was answered.
pub struct Request {
    pub asked: Asked,
    pub operation: &'static str,
    pub outcome: Outcome,
}

pub enum Outcome {
    /// Stored at this revision; none for what leaves no object behind.
    Admitted(Option<u64>),
    /// Our webhook denied it, with this text.
    Denied(String),
    /// Nothing was said about it: an error.
    NoVerdict(String),
}

/// What is sent.
struct Call {
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Value,
    operation: &'static str,
    change: Change,
    /// By way of which API server.
    client: usize,
}

/// Writes until there were at least so many racing pairs.
pub async fn run(clients: &[Client], etcd: Etcd, delay: Duration, pairs: usize, seed: u64) -> Result<Done> {
    let sender = Sender { clients, etcd, done: RefCell::default() };
    let parking = Writers { sender: &sender, class: PARKING.to_owned(), delay, random: Random(seed) };
    if parking.read().await?.is_none() {
        parking.settle(parking.class_call("create", Some(&[]), None, 0)).await?;
    }
    let classes = (0..CLASSES).map(async |number| {
        let random = Random(seed.wrapping_mul(1000).wrapping_add(number as u64));
        let mut writers = Writers { sender: &sender, class: format!("class-{number}"), delay, random };
        let mut round = 0;
        while sender.done.borrow().pairs.len() < pairs {
            writers.round(round % 2 == 0).await?;
            round += 1;
        }
        anyhow::Ok(())
    });
    try_join_all(classes).await?;
    Ok(sender.done.into_inner())
}

struct Sender<'a> {
    clients: &'a [Client],
    etcd: Etcd,
    done: RefCell<Done>,
}

/// The writers of one class.
struct Writers<'a> {
    sender: &'a Sender<'a>,
    class: String,
    delay: Duration,
    random: Random,
}

/// A write of a round.
struct Write {
    call: Call,
    after: Duration,
    races: bool,
}

impl Writers<'_> {
    async fn round(&mut self, all_seen: bool) -> Result<()> {
        let start: Option<&[&str]> = self.random.pick(&[Some(&WIDE[..]), Some(&WIDE[..]), Some(&[]), None]);
        let version = self.set(start).await?;
        let (mut givens, mut writes) = (Vec::new(), Vec::new());
        for number in 0..CLUSTERS {
            let (given, write) = self.cluster_write(number, start.is_some());
            givens.extend(given);
            writes.push(write);
        }
        try_join_all(givens.into_iter().map(|call| self.settle(call))).await?;
        if all_seen {
            tokio::time::sleep(self.delay + Duration::from_millis(200)).await;
        }
        let operation = if start.is_some() { self.random.pick(&["update", "patch", "apply"]) } else { "create" };
        let class_dry_run = self.random.once_in(8);
        let client = self.random.below(2);
        let mut call = self.class_call(operation, Some(&NARROW), version.as_deref(), client);
        if class_dry_run {
            call.dry_run();
        }
        writes.push(Write { call, after: self.after(), races: !class_dry_run });
        let races: Vec<_> = writes.iter().map(|write| write.races).collect();
        let places = try_join_all(writes.into_iter().map(async |Write { call, after, .. }| {
            tokio::time::sleep(after).await;
            Ok::<_, anyhow::Error>(self.sender.exchange(&call).await?.0)
        }));
        let places = places.await?;
        // The class write is the last one.
        if races[CLUSTERS] {
            let racing = (0..CLUSTERS).filter(|at| races[*at]).map(|at| [places[CLUSTERS], places[at]]);
            self.sender.done.borrow_mut().pairs.extend(racing);
        }
        let clusters = format!("{}?labelSelector=race%3D{}", collection("clusters"), self.class);
        self.sender.request(0, "DELETE", &clusters, JSON, &Value::Null).await?;
        Ok(())
    }

    /// At once, or later.
    fn after(&mut self) -> Duration {
        let later = self.random.below(usize::try_from(SPREAD.as_millis()).unwrap_or_default()) as u64;
        if self.random.once_in(2) { Duration::ZERO } else { Duration::from_millis(later) }
    }

    /// What has to be there before, and the write.
    fn cluster_write(&mut self, number: usize, class_is_there: bool) -> (Option<Call>, Write) {
        let version = if self.random.once_in(4) { INSIDE } else { OUTSIDE };
        let before = if version == OUTSIDE { INSIDE } else { BELOW };
        // Without its class a Cluster cannot be moved.
        let operations = ["create", "generate name", "apply", "patch", "rebase"];
        let operation = self.random.pick(if class_is_there { &operations } else { &operations[..3] });
        let name = format!("{}-{number}", self.class);
        let class = self.class.clone();
        let client = self.random.below(2);
        let one = format!("{}/{name}", collection("clusters"));
        let create = |body: Value, class: &str, version: &str| Call {
            method: "POST",
            path: format!("{}?", collection("clusters")),
            content_type: JSON,
            body,
            operation: "Cluster create",
            change: cluster_change(&name, class, version),
            client,
        };
        let patch = |body: Value, operation| Call {
            method: "PATCH",
            path: format!("{one}?"),
            content_type: "application/merge-patch+json",
            body,
            operation,
            change: cluster_change(&name, &class, version),
            client,
        };
        let (given, mut call) = match operation {
            "create" => (None, create(cluster(&name, &class, &class, version), &class, version)),
            "generate name" => {
                let mut body = cluster(&name, &class, &class, version);
                body["metadata"]["generateName"] = json!(format!("{name}-"));
                body["metadata"].as_object_mut().map(|metadata| metadata.remove("name"));
                let mut call = create(body, &class, version);
                call.operation = "Cluster create with generateName";
                (None, call)
            }
            "apply" => {
                // An apply that creates, or one that changes.
                let given = class_is_there && self.random.once_in(2);
                let given = given.then(|| create(cluster(&name, &class, &class, before), &class, before));
                let call = Call {
                    method: "PATCH",
                    path: format!("{one}?fieldManager=race&force=true"),
                    content_type: "application/apply-patch+yaml",
                    body: cluster(&name, &class, &class, version),
                    operation: "Cluster apply",
                    change: cluster_change(&name, &class, version),
                    client,
                };
                (given, call)
            }
            "patch" => {
                let given = create(cluster(&name, &class, &class, before), &class, before);
                (Some(given), patch(json!({"spec": {"topology": {"version": version}}}), "Cluster patch"))
            }
            _ => {
                let given = create(cluster(&name, &class, PARKING, version), PARKING, version);
                let body = json!({"spec": {"topology": {"classRef": {"name": class}}}});
                (Some(given), patch(body, "Cluster rebase"))
            }
        };
        let dry_run = self.random.once_in(8);
        if dry_run {
            call.dry_run();
        }
        (given, Write { call, after: self.after(), races: version == OUTSIDE && !dry_run })
    }

    /// Brings the class into this state, and gives back its resourceVersion.
    async fn set(&self, wanted: Option<&[&str]>) -> Result<Option<String>> {
        let class = self.read().await?;
        let operation = match (&class, wanted) {
            (None, None) => return Ok(None),
            (None, Some(_)) => "create",
            (Some(_), None) => "delete",
            (Some(class), Some(wanted)) => {
                let listed = class["spec"]["kubernetesVersions"].as_array().map_or(&[][..], Vec::as_slice);
                if listed.iter().map(Value::as_str).eq(wanted.iter().copied().map(Some)) {
                    return Ok(resource_version(class));
                }
                "update"
            }
        };
        let call = self.class_call(operation, wanted, class.as_ref().and_then(resource_version).as_deref(), 0);
        let class = self.settle(call).await?;
        Ok(resource_version(&class))
    }

    async fn read(&self) -> Result<Option<Value>> {
        let path = format!("{}/{}", collection("clusterclasses"), self.class);
        match self.sender.request(0, "GET", &path, JSON, &Value::Null).await {
            Ok(class) => Ok(Some(class)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn class_call(
        &self,
        operation: &'static str,
        versions: Option<&[&str]>,
        version: Option<&str>,
        client: usize,
    ) -> Call {
        let one = format!("{}/{}?", collection("clusterclasses"), self.class);
        let listed = versions.unwrap_or_default();
        let list = if listed.is_empty() { Value::Null } else { json!(listed) };
        let mut body = class(&self.class, &list);
        let (method, path, content_type, operation) = match operation {
            "create" => ("POST", format!("{}?", collection("clusterclasses")), JSON, "class create"),
            "update" => {
                body["metadata"]["resourceVersion"] = json!(version);
                ("PUT", one, JSON, "class update")
            }
            "patch" => {
                body = json!({"spec": {"kubernetesVersions": list}});
                ("PATCH", one, "application/merge-patch+json", "class patch")
            }
            "apply" => {
                let path = format!("{one}fieldManager=race&force=true");
                ("PATCH", path, "application/apply-patch+yaml", "class apply")
            }
            _ => {
                body = Value::Null;
                ("DELETE", one, JSON, "class delete")
            }
        };
        let entry = versions.map(|versions| ClassEntry {
            versions: versions.iter().map(|version| (*version).into()).collect(),
            extension: None,
        });
        let change = Change::Class(ObjectKey::new(NAMESPACE, self.class.as_str()), entry);
        Call { method, path, content_type, body, operation, change, client }
    }

    /// Sends what does not race until it is stored: a replica may ask for patience.
    async fn settle(&self, call: Call) -> Result<Value> {
        let start = Instant::now();
        loop {
            let (place, answer) = self.sender.exchange(&call).await?;
            if let Ok(answer) = answer {
                return Ok(answer);
            }
            if start.elapsed() > Duration::from_secs(30) {
                let done = self.sender.done.borrow();
                match &done.requests[place].outcome {
                    Outcome::Denied(text) | Outcome::NoVerdict(text) => bail!("{} fails: {text}", call.operation),
                    Outcome::Admitted(_) => {}
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Sender<'_> {
    /// Sends a call and notes what came of it; gives back where that is noted, and the answer.
    async fn exchange(&self, call: &Call) -> Result<(usize, kube::Result<Value>)> {
        let from = self.revision().await?;
        let answer = self.request(call.client, call.method, &call.path, call.content_type, &call.body).await;
        let to = self.revision().await?;
        let outcome = match &answer {
            Ok(object) => Outcome::Admitted(resource_version(object).and_then(|version| version.parse().ok())),
            Err(kube::Error::Api(status))
                if status.message.contains(".capi-version-guard.io\" denied the request: ") =>
            {
                Outcome::Denied(status.message.clone())
            }
            Err(kube::Error::Api(status)) => Outcome::NoVerdict(status.message.clone()),
            Err(error) => Outcome::NoVerdict(error.to_string()),
        };
        let asked = Asked { change: call.change.clone(), from, to };
        let mut done = self.done.borrow_mut();
        done.requests.push(Request { asked, operation: call.operation, outcome });
        Ok((done.requests.len() - 1, answer))
    }

    async fn request(
        &self,
        client: usize,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> kube::Result<Value> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", content_type);
        self.clients[client].request(request.body(body).map_err(kube::Error::HttpError)?).await
    }

    async fn revision(&self) -> Result<u64> {
        let etcd = self.etcd;
        tokio::task::spawn_blocking(move || etcd.revision()).await?
    }
}

impl Call {
    fn dry_run(&mut self) {
        self.path.push_str("&dryRun=All");
    }
}
