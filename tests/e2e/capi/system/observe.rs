//! What became of a Cluster: whether it has settled at its target, waits, or is stuck.

use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use futures::StreamExt;
use kube::{
    api::DynamicObject,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use super::{
    Tasks,
    api::{Api, CORE},
    definitions::{CONTROL_PLANE, resource},
    manager::Manager,
};
use crate::stack::http;

/// So often it is looked at the manager's log.
const TICK: Duration = Duration::from_millis(100);

/// The annotation of a Cluster that tells which version its control plane is sent to.
pub const UPGRADE_STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";
/// The annotation of a Cluster that tells which hooks are still to be called.
pub const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
const OWNED: &str = "topology.cluster.x-k8s.io/owned";

/// What is watched.
const KINDS: [(&str, &str); 5] = [
    (CORE, "Cluster"),
    (CORE, "ClusterClass"),
    (CORE, "MachineDeployment"),
    (CORE, "Machine"),
    (CONTROL_PLANE, "SimulatedControlPlane"),
];

/// All objects that matter, as the API server tells of them.
#[derive(Clone)]
pub struct Observer {
    objects: Arc<Mutex<HashMap<Key, Value>>>,
    /// The newest resource version of Clusters that was seen. Resource versions of a kind are numbers that grow (KEP-5504).
    newest: Arc<AtomicU64>,
    errors: Arc<Mutex<Errors>>,
    /// The port of the manager's metrics.
    metrics: u16,
    /// In which state a Cluster was found stuck, and why.
    stuck: Arc<Mutex<HashMap<(String, String), (BTreeSet<String>, String)>>>,
    /// Counts events.
    changed: watch::Receiver<u64>,
}

/// Kind, namespace, name.
type Key = (&'static str, String, String);

/// Where a Cluster stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Everything is at the target, and nothing is left to do.
    Settled,
    /// Something is under way or waited for; what was seen last.
    Moving(String),
    /// It is gone.
    Gone,
}

/// What waiting for a Cluster ended in.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Everything is at the target.
    Settled,
    /// It is gone.
    Gone,
    /// The providers have nothing to do, and the manager reports the same error again and again, or nothing at all happens.
    Stuck(String),
}

impl Observer {
    /// Watches on the current runtime, and reads the manager's log for its errors.
    pub fn start(api: &Api, manager: &Manager, tasks: &mut Tasks) -> Self {
        let (change, changed) = watch::channel(0);
        let change = Arc::new(change);
        let observer = Self {
            objects: Arc::default(),
            newest: Arc::default(),
            stuck: Arc::default(),
            metrics: manager.diagnostics_port,
            errors: Arc::new(Mutex::new(Errors { log: manager.log.clone(), read: 0, found: HashMap::new() })),
            changed,
        };
        for (group_version, kind) in KINDS {
            let resource = resource(group_version, kind);
            let mut events =
                watcher(kube::Api::<DynamicObject>::all_with(api.client(), &resource), watcher::Config::default())
                    .default_backoff()
                    .boxed();
            let (objects, change) = (Arc::clone(&observer.objects), Arc::clone(&change));
            let newest = Arc::clone(&observer.newest);
            tasks.spawn(async move {
                while let Some(event) = events.next().await {
                    let version = match &event {
                        Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object))
                            if kind == "Cluster" =>
                        {
                            revision(object)
                        }
                        _ => 0,
                    };
                    match event {
                        Ok(Event::Apply(object) | Event::InitApply(object)) => {
                            let value = serde_json::to_value(&object).unwrap_or_default();
                            objects.lock().insert(key(kind, &object), value);
                        }
                        Ok(Event::Delete(object)) => {
                            objects.lock().remove(&key(kind, &object));
                        }
                        // After a lost watch; what was deleted meanwhile is deleted again by nobody here.
                        Ok(Event::Init) => objects.lock().retain(|(of, ..), _| *of != kind),
                        Ok(Event::InitDone) => {}
                        Err(error) => eprintln!("observer: {error}"),
                    }
                    newest.fetch_max(version, Ordering::Relaxed);
                    change.send_modify(|count| *count += 1);
                }
            });
        }
        observer
    }

    /// An object as it was seen last.
    pub fn object(&self, kind: &'static str, namespace: &str, name: &str) -> Option<Value> {
        self.objects.lock().get(&(kind, namespace.to_owned(), name.to_owned())).cloned()
    }

    /// All objects of a kind in a namespace.
    pub fn objects(&self, kind: &'static str, namespace: &str) -> Vec<Value> {
        let objects = self.objects.lock();
        let mut found: Vec<_> = objects
            .iter()
            .filter(|((of, space, _), _)| *of == kind && space == namespace)
            .map(|(key, object)| (key.2.clone(), object.clone()))
            .collect();
        found.sort_by(|(left, _), (right, _)| left.cmp(right));
        found.into_iter().map(|(_, object)| object).collect()
    }

    /// Waits until `found` finds something, for at most `limit`.
    pub async fn wait_for<T>(&self, limit: Duration, found: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let mut changed = self.changed.clone();
        let end = Instant::now() + limit;
        loop {
            changed.mark_unchanged();
            if let Some(found) = found(self) {
                return Some(found);
            }
            if !matches!(tokio::time::timeout_at(end, changed.changed()).await, Ok(Ok(()))) {
                return found(self);
            }
        }
    }

    /// The control plane of a Cluster, and its worker sets.
    pub fn parts(&self, namespace: &str, cluster: &str) -> (Option<Value>, Vec<Value>) {
        let mine = |object: &Value| object["metadata"]["labels"][CLUSTER_NAME] == cluster;
        let object = self.object("Cluster", namespace, cluster);
        let control_plane = object
            .as_ref()
            .and_then(|object| object.pointer("/spec/controlPlaneRef/name").and_then(Value::as_str))
            .and_then(|name| self.object("SimulatedControlPlane", namespace, name));
        let workers = self.objects("MachineDeployment", namespace);
        let workers = workers.into_iter().filter(|set| mine(set) && set["metadata"]["labels"].get(OWNED).is_some());
        (control_plane, workers.collect())
    }

    /// Where a Cluster stands. It has settled if the topology is reconciled at its generation, no step of an upgrade and no hook
    /// is pending, and the control plane and all workers run its version, and only that. The condition alone is true up to 2 s early.
    pub fn standing(&self, namespace: &str, cluster: &str) -> Standing {
        let Some(object) = self.object("Cluster", namespace, cluster) else { return Standing::Gone };
        let moving = |what: String| Standing::Moving(what);
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        if object["metadata"].get("deletionTimestamp").is_some() {
            return moving("it is being deleted".to_owned());
        }
        let Some(target) = object.pointer("/spec/topology/version").and_then(Value::as_str) else {
            return moving("it has no topology".to_owned());
        };
        let condition = topology_reconciled(&object);
        match condition {
            Some(condition)
                if condition["status"] == "True"
                    && condition["observedGeneration"] == object["metadata"]["generation"] => {}
            Some(condition) => {
                return moving(format!("{}: {}", text(&condition["reason"]), text(&condition["message"])));
            }
            None => return moving("it is not reconciled yet".to_owned()),
        }
        for annotation in [UPGRADE_STEP, PENDING_HOOKS] {
            // Cluster API 1.12 leaves an empty step behind.
            let value = object["metadata"]["annotations"].get(annotation);
            if let Some(value) = value.filter(|value| *value != "") {
                return moving(format!("{annotation} is {}", text(value)));
            }
        }
        let (control_plane, workers) = self.parts(namespace, cluster);
        let Some(control_plane) = control_plane else { return moving("it has no control plane".to_owned()) };
        let versions = versions_of(&control_plane, "/spec/version");
        if versions.iter().any(|version| version != target) {
            return moving(format!("its control plane is at {versions:?}"));
        }
        for set in workers {
            let versions = versions_of(&set, "/spec/template/spec/version");
            let counts = ["replicas", "upToDateReplicas"].map(|count| set["status"][count].as_i64().unwrap_or(-1));
            let replicas = set["spec"]["replicas"].as_i64().unwrap_or(1);
            if versions.iter().any(|version| version != target) || counts != [replicas; 2] {
                return moving(format!("{} is at {versions:?}, {counts:?} of {replicas}", set["metadata"]["name"]));
            }
        }
        Standing::Settled
    }

    /// Waits until what the API server answered to a write of a Cluster has been seen.
    pub async fn saw(&self, written: &Value) -> Result<()> {
        let version = written.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        let version: u64 = version.parse().with_context(|| format!("no resource version in {written}"))?;
        let seen = |this: &Self| (this.newest.load(Ordering::Relaxed) >= version).then_some(());
        self.wait_for(Duration::from_secs(30), seen).await.with_context(|| format!("revision {version} is not seen"))
    }

    /// Waits until a Cluster has settled, is gone, or is stuck. An idle manager that has an error to report retries with growing
    /// pauses, so `nudge` makes it look again.
    pub async fn settle<F: Future<Output = Result<()>>>(
        &self,
        namespace: &str,
        cluster: &str,
        patience: Patience,
        nudge: impl Fn() -> F,
    ) -> Result<Outcome> {
        let known = (namespace.to_owned(), cluster.to_owned());
        let before = self.stuck.lock().get(&known).cloned();
        let mut seen = self.fingerprint(namespace, cluster);
        let mut errors = self.errors(namespace, cluster).len();
        let mut since = Instant::now();
        let (mut nudged, mut idle) = (since, 0);
        loop {
            let moved = self
                .wait_for(TICK, |this| match this.standing(namespace, cluster) {
                    Standing::Settled => Some(Some(Outcome::Settled)),
                    Standing::Gone => Some(Some(Outcome::Gone)),
                    Standing::Moving(_) => (this.fingerprint(namespace, cluster) != seen).then_some(None),
                })
                .await;
            match moved {
                Some(Some(outcome)) => return Ok(outcome),
                Some(None) => {
                    // Something happened: whatever was reported before may be over.
                    seen = self.fingerprint(namespace, cluster);
                    errors = self.errors(namespace, cluster).len();
                    since = Instant::now();
                    nudged = since;
                    idle = 0;
                }
                None => {
                    let all = self.errors(namespace, cluster);
                    let new = &all[errors.min(all.len())..];
                    let same = new.last().map_or(0, |last| new.iter().rev().take_while(|error| *error == last).count());
                    let known_error = since.elapsed() >= patience.quiet && same >= patience.repeats;
                    // It was stuck in this very state before; a manager that found a way would have gone on by now.
                    let as_before =
                        before.as_ref().filter(|(state, _)| *state == seen && since.elapsed() >= patience.quiet * 2);
                    if let Some((_, why)) = as_before {
                        return Ok(Outcome::Stuck(why.clone()));
                    }
                    if known_error || idle >= patience.idle {
                        let Standing::Moving(what) = self.standing(namespace, cluster) else { continue };
                        let why = new.last().cloned().unwrap_or(what);
                        self.stuck.lock().insert(known, (seen, why.clone()));
                        return Ok(Outcome::Stuck(why));
                    }
                    // A nudge has had its effect when every queue of the manager was empty behind it.
                    if nudged.elapsed() >= patience.quiet && self.is_idle()? {
                        idle += 1;
                        nudge().await?;
                        nudged = Instant::now();
                    }
                }
            }
        }
    }

    /// Makes [`Self::settle`] look anew at a Cluster that it found stuck.
    pub fn forget(&self, namespace: &str, cluster: &str) {
        self.stuck.lock().remove(&(namespace.to_owned(), cluster.to_owned()));
    }

    /// Whether the manager works on nothing, and nothing waits for it.
    fn is_idle(&self) -> Result<bool> {
        let (_, metrics) = http::get(self.metrics, "/metrics").context("failed to read the manager's metrics")?;
        let busy = metrics.lines().any(|line| {
            let counts = ["workqueue_depth{", "controller_runtime_active_workers{"];
            counts.iter().any(|count| line.starts_with(count)) && !line.ends_with(" 0")
        });
        Ok(!busy)
    }

    /// The errors that the manager reported of a Cluster's topology, in their order.
    pub fn errors(&self, namespace: &str, cluster: &str) -> Vec<String> {
        let mut errors = self.errors.lock();
        errors.read();
        errors.found.get(&(namespace.to_owned(), cluster.to_owned())).cloned().unwrap_or_default()
    }

    /// What changes when something happens to a Cluster or what belongs to it.
    fn fingerprint(&self, namespace: &str, cluster: &str) -> BTreeSet<String> {
        let (control_plane, workers) = self.parts(namespace, cluster);
        let machines = self.objects("Machine", namespace);
        let machines = machines.into_iter().filter(|machine| machine["metadata"]["labels"][CLUSTER_NAME] == cluster);
        let mut all: BTreeSet<_> = control_plane
            .into_iter()
            .chain(workers)
            .chain(machines)
            .map(|object| {
                // A nudge touches the control plane's status, and so do its heartbeats: only its versions tell.
                format!(
                    "{} {} {} {:?}",
                    object["metadata"]["uid"],
                    object["spec"],
                    object["status"]["versions"],
                    object["status"]["upToDateReplicas"]
                )
            })
            .collect();
        if let Some(cluster) = self.object("Cluster", namespace, cluster) {
            let reconciled = topology_reconciled(&cluster)
                .map(|condition| format!("{} {} {}", condition["status"], condition["reason"], condition["message"]));
            all.insert(format!(
                "{} {} {} {reconciled:?}",
                cluster["metadata"]["uid"], cluster["spec"], cluster["metadata"]["annotations"]
            ));
        }
        all
    }
}

/// When a Cluster counts as stuck: if nothing happened to it for some time, and the manager reported an error again and again.
#[derive(Clone, Copy)]
pub struct Patience {
    /// Nothing happened for so long.
    pub quiet: Duration,
    /// So often the same error was reported.
    pub repeats: usize,
    /// Without any error: so often the manager was nudged, had nothing more to do, and nothing had happened.
    pub idle: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self { quiet: Duration::from_secs(1), repeats: 6, idle: 4 }
    }
}

/// The versions of an object: the one that is asked for, and those that it tells of.
pub fn versions_of(object: &Value, spec: &str) -> BTreeSet<String> {
    let asked = object.pointer(spec).and_then(Value::as_str);
    let told = object.pointer("/status/versions").and_then(Value::as_array).into_iter().flatten();
    let told = told.filter_map(|version| version["version"].as_str());
    let one = object.pointer("/status/version").and_then(Value::as_str);
    asked.into_iter().chain(told).chain(one).map(ToOwned::to_owned).collect()
}

/// The condition that tells how far the topology is.
pub fn topology_reconciled(cluster: &Value) -> Option<&Value> {
    let conditions = cluster.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == "TopologyReconciled")
}

struct Errors {
    log: PathBuf,
    read: u64,
    /// By namespace and Cluster.
    found: HashMap<(String, String), Vec<String>>,
}

impl Errors {
    fn read(&mut self) {
        let mut text = String::new();
        let Ok(mut file) = File::open(&self.log) else { return };
        if file.seek(SeekFrom::Start(self.read)).is_err() || file.read_to_string(&mut text).is_err() {
            return;
        }
        // A line that is still being written is read the next time.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        for line in text[..whole].lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            if line["controller"] == "topology/cluster" && line["err"].is_string() {
                let cluster = |name: &str| line["Cluster"][name].as_str().unwrap_or_default().to_owned();
                let error = without_generated_names(line["err"].as_str().unwrap_or_default());
                self.found.entry((cluster("namespace"), cluster("name"))).or_default().push(error);
            }
        }
    }
}

/// A text in which names that Kubernetes generated (`prod-x7k2p`) are cut, so that the same error is the same text each time.
fn without_generated_names(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut cut = String::new();
    for word in text.split_inclusive(|c| !is_word(c)) {
        let (name, end) = word.split_at(word.find(|c| !is_word(c)).unwrap_or(word.len()));
        match name.rsplit_once('-') {
            Some((base, suffix)) if suffix.len() == 5 => cut.extend([base, "-*", end]),
            _ => cut.push_str(word),
        }
    }
    cut
}

fn revision(object: &DynamicObject) -> u64 {
    object.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn key(kind: &'static str, object: &DynamicObject) -> Key {
    let metadata = &object.metadata;
    (kind, metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}
