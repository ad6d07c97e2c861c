//! The history of Clusters and classes, replayed: which commit broke the invariant, and whether a denial was a false one.
//!
//! The invariant: a Cluster's class, if it is there and has a list, carries the Cluster's version. Not only the last state
//! counts but every revision, since a write skew that someone repairs a moment later was one. Versions, keys and
//! membership are read and computed by the library's own functions.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use capi_version_guard::{
    fleet::ClassEntry,
    model::{Cluster, ClusterClass, ObjectKey},
};

use crate::stack::etcd::Event;

/// Where the API server keeps Cluster API's objects.
pub const PREFIX: &str = "/registry/cluster.x-k8s.io/";

/// The class and the version of a Cluster with a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pub class: ObjectKey,
    pub version: String,
}

/// What an object is from a revision on; `None` if it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Cluster(ObjectKey, Option<Topology>),
    Class(ObjectKey, Option<ClassEntry>),
}

/// One change, committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub revision: u64,
    pub change: Change,
}

/// A commit that broke the invariant.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation<'a> {
    pub commit: &'a Commit,
    /// The Clusters that were inside their class's list before it, and are outside of it since.
    pub clusters: BTreeSet<ObjectKey>,
}

/// A change that was asked for, and the revisions between which it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub change: Change,
    /// What was committed when the request began.
    pub from: u64,
    /// What was committed when its answer was there.
    pub to: u64,
}

/// What etcd tells, as a commit; `None` for kinds that the invariant does not speak of.
pub fn commit(event: &Event) -> Result<Option<Commit>> {
    let path = event.key.strip_prefix(PREFIX).with_context(|| format!("{} is not below {PREFIX}", event.key))?;
    let parts: Vec<_> = path.split('/').collect();
    let [plural, namespace, name] = parts[..] else { bail!("{} names no object of a namespace", event.key) };
    let key = ObjectKey::new(namespace, name);
    let value = event.value.as_deref();
    let change = match plural {
        "clusters" => {
            let cluster: Option<Cluster> = value.map(serde_json::from_slice).transpose()?;
            let topology = cluster.and_then(|cluster| {
                Some(Topology { class: cluster.class_key()?, version: cluster.version()?.into_owned() })
            });
            Change::Cluster(key, topology)
        }
        "clusterclasses" => {
            let class: Option<ClusterClass> = value.map(serde_json::from_slice).transpose()?;
            Change::Class(key, class.as_ref().map(ClassEntry::from))
        }
        _ => return Ok(None),
    };
    Ok(Some(Commit { revision: event.revision, change }))
}

/// Every commit that broke the invariant.
pub fn violations(history: &[Commit]) -> Vec<Violation<'_>> {
    let mut state = State::default();
    let mut found = Vec::new();
    for commit in history {
        let before = state.outside();
        state.apply(&commit.change);
        let clusters: BTreeSet<_> = state.outside().difference(&before).cloned().collect();
        if !clusters.is_empty() {
            found.push(Violation { commit, clusters });
        }
    }
    found
}

/// For each change that was denied: whether it was legal at every revision while it was asked for. Then its denial was
/// false, whichever of these revisions it was judged by.
pub fn legal_throughout(history: &[Commit], denied: &[Asked]) -> Vec<bool> {
    let mut state = State::default();
    let mut legal = vec![true; denied.len()];
    let mut look = |state: &State, first: u64, last: u64| {
        for (legal, asked) in legal.iter_mut().zip(denied) {
            if *legal && first <= asked.to && asked.from <= last {
                *legal = state.allows(&asked.change);
            }
        }
    };
    let mut since = 0;
    for commit in history {
        look(&state, since, commit.revision - 1);
        state.apply(&commit.change);
        since = commit.revision;
    }
    look(&state, since, u64::MAX);
    legal
}

/// All objects at one revision.
#[derive(Default)]
struct State {
    clusters: BTreeMap<ObjectKey, Topology>,
    classes: BTreeMap<ObjectKey, ClassEntry>,
}

impl State {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Cluster(key, topology) => replace(&mut self.clusters, key, topology.as_ref()),
            Change::Class(key, class) => replace(&mut self.classes, key, class.as_ref()),
        }
    }

    fn outside(&self) -> BTreeSet<ObjectKey> {
        let outside = self.clusters.iter().filter(|(_, topology)| !self.carries(topology));
        outside.map(|(key, _)| key.clone()).collect()
    }

    fn carries(&self, topology: &Topology) -> bool {
        self.classes.get(&topology.class).is_none_or(|class| class.carries(&topology.version))
    }

    /// Whether the change breaks nothing here. A class that Clusters use may not go either: that is a rule of ours.
    fn allows(&self, change: &Change) -> bool {
        let users = |key: &ObjectKey| {
            let key = key.clone();
            self.clusters.values().filter(move |topology| topology.class == key)
        };
        match change {
            Change::Cluster(_, topology) => topology.as_ref().is_none_or(|topology| self.carries(topology)),
            Change::Class(key, Some(class)) => users(key).all(|topology| class.carries(&topology.version)),
            Change::Class(key, None) => users(key).next().is_none(),
        }
    }
}

fn replace<T: Clone>(all: &mut BTreeMap<ObjectKey, T>, key: &ObjectKey, value: Option<&T>) {
    match value {
        Some(value) => all.insert(key.clone(), value.clone()),
        None => all.remove(key),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("team", name)
    }

    /// `cluster a quick v1.32.0`, `cluster a gone`, `class quick v1.31.0 v1.32.0` (none: no list), `class quick gone`.
    fn change(text: &str) -> Change {
        let words: Vec<_> = text.split(' ').collect();
        match words[..] {
            ["cluster", name, "gone"] => Change::Cluster(key(name), None),
            ["cluster", name, class, version] => {
                Change::Cluster(key(name), Some(Topology { class: key(class), version: version.to_owned() }))
            }
            ["class", name, "gone"] => Change::Class(key(name), None),
            ["class", name, ref versions @ ..] => {
                let versions = versions.iter().map(|version| (*version).into()).collect();
                Change::Class(key(name), Some(ClassEntry { versions, extension: None }))
            }
            _ => panic!("no change: {text}"),
        }
    }

    /// One change a line, at revisions 10, 20, 30 and so on.
    fn history(lines: &[&str]) -> Vec<Commit> {
        let revisions = (10..).step_by(10);
        lines.iter().zip(revisions).map(|(line, revision)| Commit { revision, change: change(line) }).collect()
    }

    #[test]
    fn every_commit_that_breaks_the_invariant_is_found_and_no_other() {
        type Found<'a> = &'a [(u64, &'a [&'a str])];
        let cases: &[(&str, &[&str], Found<'_>)] = &[
            ("nothing happened", &[], &[]),
            (
                "a clean history",
                &["class k v1 v2", "cluster a k v1", "cluster a k v2", "class k v2", "cluster a gone", "class k v1"],
                &[],
            ),
            ("a class without a list carries all", &["class k", "cluster a k v9"], &[]),
            ("a Cluster whose class is missing", &["cluster a k v9", "class other v1"], &[]),
            ("a Cluster outside of its class", &["class k v1", "cluster a k v2"], &[(20, &["a"])]),
            (
                "a class that drops a version in use",
                &["class k v1 v2", "cluster a k v2", "class k v1"],
                &[(30, &["a"])],
            ),
            ("a list where there was none", &["class k", "cluster a k v2", "class k v1"], &[(30, &["a"])]),
            ("a class that comes after its Clusters", &["cluster a k v2", "class k v1"], &[(20, &["a"])]),
            ("a rebase", &["class k v1", "class l v2", "cluster a l v2", "cluster a k v2"], &[(40, &["a"])]),
            (
                "a skew that is repaired at once is one",
                &["class k v1", "cluster a k v2", "cluster a gone", "class k v1 v2"],
                &[(20, &["a"])],
            ),
            (
                "what is broken is counted when it breaks, not as long as it stays so",
                &["class k v1", "cluster a k v2", "cluster b k v1", "class k v1 v3", "cluster c k v2"],
                &[(20, &["a"]), (50, &["c"])],
            ),
            (
                "what breaks a second time is counted twice",
                &["class k v1", "cluster a k v2", "class k v1 v2", "class k v1"],
                &[(20, &["a"]), (40, &["a"])],
            ),
            (
                "one commit, two Clusters",
                &["class k", "cluster a k v2", "cluster b k v3", "cluster c k v1", "class k v1"],
                &[(50, &["a", "b"])],
            ),
            ("membership is equality of bytes", &["class k 1 v2", "cluster a k v1"], &[(20, &["a"])]),
        ];
        for (name, lines, expected) in cases {
            let history = history(lines);
            let found = violations(&history);
            let found: Vec<_> =
                found.iter().map(|violation| (violation.commit.revision, violation.clusters.clone())).collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(revision, clusters)| (*revision, clusters.iter().map(|name| key(name)).collect()))
                .collect();
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn a_denial_is_false_only_if_the_change_was_legal_at_every_revision_meanwhile() {
        // Revisions:           10            20                30             40            50
        let lines = ["class k v1 v2", "class k v1", "class k v1 v2", "cluster a k v2", "cluster a gone"];
        let cases = [
            ("before the class was narrow", "cluster b k v2", 10, 19, true),
            ("while it was being narrowed", "cluster b k v2", 10, 20, false),
            ("while it was narrow", "cluster b k v2", 22, 25, false),
            ("while it was being widened", "cluster b k v2", 29, 35, false),
            ("after it was widened", "cluster b k v2", 30, 99, true),
            ("narrow in between", "cluster b k v2", 10, 99, false),
            ("a version that is always listed", "cluster b k v1", 0, 99, true),
            ("a class that is missing", "cluster b other v9", 0, 99, true),
            ("before the Cluster was there", "class k v1", 30, 39, true),
            ("while it is there", "class k v1", 41, 45, false),
            ("when it had just gone", "class k v1", 49, 50, false),
            ("after it had gone", "class k v1", 50, 50, true),
            ("a list that covers it", "class k v2", 0, 99, true),
            ("no list", "class k", 0, 99, true),
            ("a class in use does not go", "class k gone", 40, 40, false),
            ("a class that nobody uses goes", "class k gone", 50, 60, true),
        ];
        let denied: Vec<_> =
            cases.iter().map(|(_, text, from, to, _)| Asked { change: change(text), from: *from, to: *to }).collect();
        let legal = legal_throughout(&history(&lines), &denied);
        for ((name, .., expected), legal) in cases.iter().zip(legal) {
            assert_eq!(legal, *expected, "{name}");
        }
    }

    #[test]
    fn what_etcd_holds_is_read_as_the_webhook_reads_it() {
        let cluster = r#"{"metadata": {"namespace": "team", "name": "a"}, "spec": {"topology":
            {"classRef": {"name": "k"}, "version": "1.32.0"}}}"#;
        let class = r#"{"metadata": {"namespace": "team", "name": "k"}, "spec": {"kubernetesVersions": ["v1", "v2"]}}"#;
        let cases = [
            ("clusters/team/a", Some(cluster), Some("cluster a k v1.32.0")),
            ("clusters/team/a", Some(r#"{"spec": {}}"#), Some("cluster a gone")),
            ("clusters/team/a", None, Some("cluster a gone")),
            ("clusterclasses/team/k", Some(class), Some("class k v1 v2")),
            ("clusterclasses/team/k", Some("{}"), Some("class k")),
            ("clusterclasses/team/k", None, Some("class k gone")),
            ("machinedeployments/team/m", Some("{}"), None),
        ];
        for (path, value, expected) in cases {
            let event = Event {
                revision: 7,
                key: format!("{PREFIX}{path}"),
                value: value.map(|value| value.as_bytes().to_vec()),
            };
            let expected = expected.map(|text| Commit { revision: 7, change: change(text) });
            assert_eq!(commit(&event).unwrap(), expected, "{path}: {value:?}");
        }
        for (key, value) in [("/registry/pods/a/b", "{}"), ("/registry/cluster.x-k8s.io/clusters/a", "{}")] {
            let event = Event { revision: 7, key: key.to_owned(), value: Some(value.into()) };
            assert!(commit(&event).is_err(), "{key}");
        }
        let broken = Event { revision: 7, key: format!("{PREFIX}clusters/team/a"), value: Some(b"k8s\0".to_vec()) };
        assert!(commit(&broken).is_err());
    }
}
