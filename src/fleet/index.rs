//! The index: a pure fold of events, keyed twice, by Cluster and by class.
//!
//! A class change must cost O(distinct versions in use), not O(Clusters), so each class keeps its users in one ordered
//! set per version. The sets share the keys with the main map: a Cluster costs about 260 bytes of heap (a test holds it
//! to 300). No kube `Store`: that would keep whole objects and has no second key.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::source::{Event, Fold, Source};
use crate::model::{Cluster, ClusterClass, ObjectKey, Running};

/// How many users of a version are named to a reader.
pub const SAMPLE: usize = 5;

/// Everything known of the fleet. Both halves are relisted independently.
#[derive(Debug, Default)]
pub struct Index {
    /// The Clusters with a topology.
    pub clusters: Source<ClusterIndex>,
    /// The classes.
    pub classes: Source<ClassIndex>,
}

/// An event of the Clusters' source.
pub type ClusterEvent = Event<Cluster>;
/// An event of the classes' source.
pub type ClassEvent = Event<ClusterClass>;

/// What is known of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassEntry {
    /// `spec.kubernetesVersions`, in order; empty without a list.
    pub versions: Vec<Arc<str>>,
    /// The extension that plans, if any.
    pub extension: Option<Arc<str>>,
}

impl From<&ClusterClass> for ClassEntry {
    fn from(class: &ClusterClass) -> Self {
        Self {
            versions: class.versions().iter().map(|version| Arc::from(version.as_str())).collect(),
            extension: class.extension().map(Arc::from),
        }
    }
}

impl ClassEntry {
    /// Whether a Cluster of this class may name `version`: byte for byte in the list, or there is no list.
    #[must_use]
    pub fn carries(&self, version: &str) -> bool {
        self.versions.is_empty() || self.versions.iter().any(|listed| **listed == *version)
    }
}

/// The classes, by key.
#[derive(Debug, Default)]
pub struct ClassIndex(HashMap<ObjectKey, ClassEntry>);

impl ClassIndex {
    /// What is known of one class.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&ClassEntry> {
        self.0.get(key)
    }

    /// How many classes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Fold for ClassIndex {
    type Object = ClusterClass;

    fn apply(&mut self, class: ClusterClass) -> ObjectKey {
        let key = class.key();
        self.0.insert(key.clone(), ClassEntry::from(&class));
        key
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }
}

/// What is known of one Cluster with a topology, all of it shared text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEntry {
    /// `metadata.uid`.
    pub uid: Uid,
    /// The class that it uses, and how.
    pub state: ClusterState,
}

/// Which class a Cluster uses at which version, and whether it is going away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterState {
    /// The class key.
    pub class: Arc<ObjectKey>,
    /// `spec.topology.version`, with a `v`.
    pub version: Arc<str>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What runs.
    pub running: Running,
}

impl ClusterState {
    /// The state that `cluster` is in; `None` without a topology.
    #[must_use]
    pub fn of(cluster: &Cluster, running: Running) -> Option<Self> {
        Some(Self {
            class: Arc::new(cluster.class_key()?),
            version: cluster.version()?.into(),
            deleting: cluster.metadata.deleting,
            running,
        })
    }
}

/// An object's uid: 16 bytes where it is a UUID in the usual form, as the API server makes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uid {
    /// A UUID.
    Uuid([u8; 16]),
    /// Anything else.
    Other(Arc<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let uuid = || {
            let dashes = [8, 13, 18, 23].iter().all(|&at| text.as_bytes().get(at) == Some(&b'-'));
            let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
            let canonical = text.len() == 36 && dashes && digits.len() == 32 && !digits.contains(char::is_uppercase);
            canonical.then(|| u128::from_str_radix(&digits, 16).ok()).flatten()
        };
        uuid().map_or_else(|| Self::Other(text.into()), |number| Self::Uuid(number.to_be_bytes()))
    }
}

/// The Clusters with a topology, by key and by class.
#[derive(Debug, Default)]
pub struct ClusterIndex {
    by_key: HashMap<ObjectKey, ClusterEntry>,
    by_class: HashMap<Arc<ObjectKey>, Versions>,
    texts: Texts,
}

/// Texts that many have, each stored once.
///
/// Texts that nobody has any more are looked for when the pool has doubled since the last search: years of versions do
/// not pile up, and no way of losing the last holder (an answer that outlives its Cluster is one) has to be foreseen.
#[derive(Debug, Default)]
struct Texts {
    pool: HashSet<Arc<str>>,
    search_at: usize,
}

impl Texts {
    const LEAST: usize = 64;

    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.pool.get(text) {
            return Arc::clone(known);
        }
        if self.pool.len() >= self.search_at {
            self.pool.retain(|text| Arc::strong_count(text) > 1);
            self.search_at = Self::LEAST.max(2 * self.pool.len());
        }
        let text: Arc<str> = text.into();
        self.pool.insert(Arc::clone(&text));
        text
    }
}

/// The users of one class. A `BTreeMap` for the versions, so that readers see them in one order.
type Versions = BTreeMap<(Arc<str>, bool), BTreeSet<ObjectKey>>;

impl Fold for ClusterIndex {
    type Object = Cluster;

    fn apply(&mut self, cluster: Cluster) -> ObjectKey {
        let meta = &cluster.metadata;
        let namespace = self.texts.shared(&meta.namespace);
        let key = self
            .by_key
            .get_key_value(&ObjectKey::new(Arc::clone(&namespace), meta.name.as_str()))
            .map_or_else(|| ObjectKey::new(namespace, meta.name.as_str()), |(known, _)| known.clone());
        let (Some(class), Some(version)) = (cluster.class_key(), cluster.version()) else {
            self.remove(&key);
            return key;
        };
        let class = self.shared_class(&class);
        let (version, deleting) = (self.texts.shared(&version), meta.deleting);
        let state = ClusterState { class, version, deleting, running: Running::default() };
        let entry = ClusterEntry { uid: Uid::from(meta.uid.as_str()), state };
        if let Some(known) = self.by_key.get_mut(&key) {
            if known.state == entry.state {
                known.uid = entry.uid;
                return key;
            }
            self.remove(&key);
        }
        let versions = self.by_class.entry(Arc::clone(&entry.state.class)).or_default();
        versions.entry((Arc::clone(&entry.state.version), entry.state.deleting)).or_default().insert(key.clone());
        self.by_key.insert(key.clone(), entry);
        key
    }

    fn remove(&mut self, key: &ObjectKey) {
        let Some(ClusterEntry { state, .. }) = self.by_key.remove(key) else { return };
        let ClusterState { class, version, deleting, running: _ } = state;
        if let Some(versions) = self.by_class.get_mut(&class) {
            let slot = (version, deleting);
            if let Some(users) = versions.get_mut(&slot) {
                users.remove(key);
                if users.is_empty() {
                    versions.remove(&slot);
                }
            }
            if versions.is_empty() {
                self.by_class.remove(&class);
            }
        }
    }
}

impl ClusterIndex {
    fn shared_class(&mut self, class: &ObjectKey) -> Arc<ObjectKey> {
        match self.by_class.get_key_value(class) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::new(ObjectKey::new(self.texts.shared(&class.namespace), self.texts.shared(&class.name))),
        }
    }

    /// What is known of one Cluster.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&ClusterEntry> {
        self.by_key.get(key)
    }

    /// How many Clusters there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// How many distinct pairs of class and version are in use.
    #[must_use]
    pub fn versions_in_use(&self) -> usize {
        self.by_class.values().map(BTreeMap::len).sum()
    }

    /// Who uses `class`, by version, where `overlay` is newer than the index. Costs O(distinct versions + overlay).
    #[must_use]
    pub fn users(&self, class: &ObjectKey, overlay: &Overlay) -> Users {
        self.users_naming(class, overlay, |_| true)
    }

    /// The same, but names Clusters only of those versions that `named` asks for: the names are what costs.
    #[must_use]
    pub fn users_naming(&self, class: &ObjectKey, overlay: &Overlay, named: impl Fn(&ClusterState) -> bool) -> Users {
        let mut counts: BTreeMap<(Arc<str>, bool, Running), VersionInUse> = BTreeMap::new();
        let slot = |state: &ClusterState| (Arc::clone(&state.version), state.deleting, state.running.clone());
        for ((version, deleting), users) in self.by_class.get(class).into_iter().flatten() {
            let state = ClusterState {
                class: Arc::new(class.clone()),
                version: Arc::clone(version),
                deleting: *deleting,
                running: Running::default(),
            };
            let shown = if named(&state) { SAMPLE } else { 0 };
            let sample = users.iter().filter(|key| !overlay.0.contains_key(key)).take(shown).cloned().collect();
            let slot = (Arc::clone(version), *deleting, Running::default());
            counts.insert(slot, VersionInUse::new(version, *deleting, users.len(), sample));
        }
        for (key, newer) in &overlay.0 {
            if let Some(known) = self.by_key.get(key).filter(|known| *known.state.class == *class)
                && let Some(used) = counts.get_mut(&slot(&known.state))
            {
                used.clusters -= 1;
            }
            if let Some(newer) = newer.as_ref().filter(|newer| *newer.class == *class) {
                let used = counts
                    .entry(slot(newer))
                    .or_insert_with(|| VersionInUse::new(&newer.version, newer.deleting, 0, Vec::new()));
                used.running = newer.running.clone();
                used.clusters += 1;
                if named(newer) {
                    used.sample.push(key.clone());
                    used.sample.sort();
                    used.sample.truncate(SAMPLE);
                }
            }
        }
        Users { versions: counts.into_values().filter(|used| used.clusters > 0).collect() }
    }
}

/// What is known of some Clusters beyond the index: live reads, and changes admitted but not yet seen. `None` says that
/// the Cluster is not there, or has no topology.
#[derive(Clone, Debug, Default)]
pub struct Overlay(pub BTreeMap<ObjectKey, Option<ClusterState>>);

/// Who uses a class: plain counts, which is all that a rule sees of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// One row per version and deletion state, ordered by the version's text, the living first.
    pub versions: Vec<VersionInUse>,
}

impl Users {
    /// How many Clusters use the class, the deleting ones included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.versions.iter().map(|used| used.clusters).sum()
    }
}

/// A version in use, by how many Clusters, and the names of the first few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInUse {
    /// The version, with a `v`.
    pub version: Arc<str>,
    /// Whether these Clusters are being deleted.
    pub deleting: bool,
    /// What runs of them.
    pub running: Running,
    /// How many.
    pub clusters: usize,
    /// The first [`SAMPLE`] of them by namespace and name, if their names were asked for.
    pub sample: Vec<ObjectKey>,
}

impl VersionInUse {
    fn new(version: &Arc<str>, deleting: bool, clusters: usize, sample: Vec<ObjectKey>) -> Self {
        Self { version: Arc::clone(version), deleting, running: Running::default(), clusters, sample }
    }
}
