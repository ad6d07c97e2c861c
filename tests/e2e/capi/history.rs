//! What was stored of the objects of a namespace, every state of them in the order of the writes.
//!
//! An observer that keeps the last state sees neither a version that was asked for and taken back, nor in which order control
//! plane and workers moved. A watch tells of every write, and resource versions order the writes of all kinds.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use futures::StreamExt;
use kube::{
    api::DynamicObject,
    runtime::{WatchStreamExt, watcher},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    story::text,
    system::{
        System, Tasks,
        api::CORE,
        definitions::{CONTROL_PLANE, resource},
    },
};

const KINDS: [(&str, &str); 3] =
    [(CORE, "Cluster"), (CORE, "MachineDeployment"), (CONTROL_PLANE, "SimulatedControlPlane")];

/// The history of a namespace, from its beginning.
pub struct History {
    /// By resource version: states of all kinds.
    states: Arc<Mutex<BTreeMap<u64, Value>>>,
    _tasks: Tasks,
}

impl History {
    /// Watches `namespace`, in which there is nothing yet, on the system's runtime.
    pub fn begin(system: &System, namespace: &str) -> Self {
        let states: Arc<Mutex<BTreeMap<u64, Value>>> = Arc::default();
        let mut tasks = Tasks::default();
        let _runtime = system.handle.enter();
        for (group_version, kind) in KINDS {
            let resource = resource(group_version, kind);
            let objects = kube::Api::<DynamicObject>::namespaced_with(system.api.client(), namespace, &resource);
            let mut events = watcher(objects, watcher::Config::default()).default_backoff().applied_objects().boxed();
            let states = Arc::clone(&states);
            tasks.spawn(async move {
                while let Some(event) = events.next().await {
                    match event {
                        Ok(object) => {
                            let mut state = serde_json::to_value(&object).unwrap_or_default();
                            // A watch leaves it out.
                            state["kind"] = kind.into();
                            states.lock().insert(revision(&state), state);
                        }
                        Err(error) => eprintln!("history: {error}"),
                    }
                }
            });
        }
        Self { states, _tasks: tasks }
    }

    /// Waits until it holds what is stored of a Cluster now.
    pub async fn catch_up(&self, cluster: &Value) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(30);
        while !self.states.lock().contains_key(&revision(cluster)) {
            ensure!(Instant::now() < end, "the history lacks revision {}", revision(cluster));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// What `tell` tells of the states of a kind, in the order of the writes; what is repeated is told once.
    pub fn tell(&self, kind: &str, tell: impl Fn(&Value) -> Option<String>) -> Vec<String> {
        let states = self.states.lock();
        let mut told: Vec<_> = states.values().filter(|state| state["kind"] == kind).filter_map(tell).collect();
        told.dedup();
        told
    }

    /// Which versions control plane and workers were asked for, as one sequence.
    pub fn asked(&self) -> Vec<String> {
        let states = self.states.lock();
        let mut last = BTreeMap::new();
        let mut asked = Vec::new();
        for state in states.values() {
            let (who, at) = match text(&state["kind"]) {
                "SimulatedControlPlane" => ("control plane", "/spec/version"),
                "MachineDeployment" => ("workers", "/spec/template/spec/version"),
                _ => continue,
            };
            let version = state.pointer(at).map(text).unwrap_or_default();
            // Whoever has several worker sets shall see each of them.
            if last.insert((who, text(&state["metadata"]["name"])), version) != Some(version) {
                asked.push(format!("{who} {version}"));
            }
        }
        asked
    }

    /// How many writes changed more of the Clusters than their status. Each of them passed admission.
    pub fn writes(&self) -> usize {
        let states = self.states.lock();
        let mut last: BTreeMap<&str, Value> = BTreeMap::new();
        let clusters = states.values().filter(|state| state["kind"] == "Cluster");
        clusters
            .filter(|state| {
                let mut written = (*state).clone();
                for (of, name) in [("", "status"), ("metadata", "resourceVersion"), ("metadata", "managedFields")] {
                    let holder = if of.is_empty() { &mut written } else { &mut written[of] };
                    holder.as_object_mut().map(|holder| holder.remove(name));
                }
                last.insert(text(&state["metadata"]["name"]), written.clone()) != Some(written)
            })
            .count()
    }
}

/// The resource version of an object: one counter for all kinds, since they share one etcd.
pub fn revision(object: &Value) -> u64 {
    text(&object["metadata"]["resourceVersion"]).parse().unwrap_or_default()
}

/// The versions in a list of `{version, ..}`, with blanks between them.
pub fn versions(list: Option<&Value>) -> String {
    let versions: Vec<_> =
        list.and_then(Value::as_array).into_iter().flatten().map(|entry| text(&entry["version"])).collect();
    if versions.is_empty() { "none".to_owned() } else { versions.join(" ") }
}
