//! Our verdict on a change, from the same manifests.

use std::sync::Arc;

use capi_version_guard::{
    fleet::{ClassEntry, ClusterState, Index, Overlay},
    model::{self, Change, ControlPlaneState, ObjectKey, Provider, Running, distinct_workers},
    planner::Installed,
    rules::{ClassCase, ClusterCase},
    verdict::{Modes, Verdict},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::pair::{Class, Cluster, Pair};

/// The verdict; `None` if there is nothing to judge. This is the one place where cases are put together.
pub fn verdict(pair: &Pair) -> Option<Verdict> {
    match pair {
        Pair::Cluster { old, new, classes, runs, workers } => {
            let change: Change<model::Cluster> =
                change(old.as_ref().map(Cluster::manifest), new.as_ref().map(Cluster::manifest));
            let case = ClusterCase::of(&change)?;
            let entries: Vec<(ObjectKey, ClassEntry)> = classes.iter().map(entry).collect();
            let find = |key: &ObjectKey| entries.iter().find(|(known, _)| known == key).map(|(_, entry)| entry);
            let class = find(&case.class_key);
            let old_class = case.old.as_ref().and_then(|old| find(&old.class_key));
            let running = if old.is_some() { running(runs, *workers) } else { Running::default() };
            let case = ClusterCase { class, old_class, running, installed: Installed::default(), ..case };
            Some(Verdict::new("Cluster", &change.object().key(), case.findings(), &Modes::default()))
        }
        Pair::Class { old, new, clusters } => {
            let change: Change<model::ClusterClass> =
                change(old.as_ref().map(Class::manifest), new.as_ref().map(Class::manifest));
            let case = ClassCase::of(&change)?;
            let mut overlay = Overlay::default();
            for cluster in clusters {
                let read: model::Cluster = serde_json::from_value(cluster.manifest()).unwrap();
                let runs = running(&cluster.version().unwrap(), true);
                overlay.0.insert(read.key(), ClusterState::of(&read, runs));
            }
            let key = change.object().key();
            let users = if case.needs_users() { Index::default().users(&key, &overlay) } else { case.users.clone() };
            Some(Verdict::new("ClusterClass", &key, case.with_users(users).findings(), &Modes::default()))
        }
    }
}

fn change<T: DeserializeOwned>(old: Option<Value>, new: Option<Value>) -> Change<T> {
    let read = |object: Value| serde_json::from_value(object).unwrap();
    match (old, new) {
        (Some(old), Some(new)) => Change::Update { old: read(old), new: read(new) },
        (None, Some(new)) => Change::Create(read(new)),
        (Some(old), None) => Change::Delete(read(old)),
        (None, None) => panic!("a change without objects"),
    }
}

fn entry(class: &Class) -> (ObjectKey, ClassEntry) {
    let read: model::ClusterClass = serde_json::from_value(class.manifest()).unwrap();
    (read.key(), ClassEntry::from(&read))
}

fn running(version: &str, workers: bool) -> Running {
    let version: Arc<str> = version.into();
    let workers = distinct_workers(workers.then(|| Arc::clone(&version)));
    let control_plane = ControlPlaneState::At { version, settled: true, provider: Provider::Kubeadm };
    Running { control_plane, workers: Some(workers) }
}
