//! The Clusters with a topology: what each says of itself, and the state that it is in.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use super::{super::source::Fold, shared::Pool};
use crate::model::{Cluster, ControlPlaneKind, ObjectKey, Running, annotation};

/// Which class a Cluster uses at which version, whether it is going away, and what runs of it.
///
/// Ordered as rows of users are shown: by the version's text, the living first, then by what runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

    /// Whether a Cluster in either state says the same of itself, whatever runs: the same class, version and deletion.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        (&self.class, &self.version, self.deleting) == (&other.class, &other.version, other.deleting)
    }
}

/// What a Cluster says of itself beyond its [`ClusterState`]: its name, and where to look for what runs. Shared by all
/// places that hold a Cluster, each of which costs a pointer; never changed, but replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) key: ObjectKey,
    pub(super) control_plane: Option<ControlPlaneName>,
    /// The annotation `upgrade-step`: the control plane's version while an upgrade runs.
    pub(super) step: Option<Arc<str>>,
}

/// The control plane object that a Cluster refers to, in its own namespace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ControlPlaneName {
    pub(super) kind: Arc<ControlPlaneKind>,
    pub(super) name: Box<str>,
}

/// A Cluster, where it is looked up or ordered by its key.
#[derive(Clone, Debug)]
pub(super) struct Member(pub(super) Arc<Identity>);

impl Member {
    pub(super) fn key(&self) -> &ObjectKey {
        &self.0.key
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Member {}

impl PartialOrd for Member {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Member {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(other.key())
    }
}

impl Hash for Member {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Borrow<ObjectKey> for Member {
    fn borrow(&self) -> &ObjectKey {
        self.key()
    }
}

/// The Clusters with a topology, by key.
///
/// The fold knows a Cluster's own words only; what runs is filled in by the index above it.
#[derive(Debug, Default)]
pub struct ClusterIndex {
    by_key: HashMap<Member, Arc<ClusterState>>,
    texts: Pool<str>,
    kinds: Pool<ControlPlaneKind>,
    /// States of which nobody has yet looked what runs.
    states: Pool<ClusterState>,
}

impl ClusterIndex {
    /// The state of one Cluster.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&ClusterState> {
        self.by_key.get(key).map(|state| &**state)
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

    pub(super) fn member(&self, key: &ObjectKey) -> Option<(Member, Arc<ClusterState>)> {
        self.by_key.get_key_value(key).map(|(member, state)| (member.clone(), Arc::clone(state)))
    }

    pub(super) fn set(&mut self, key: &ObjectKey, state: Arc<ClusterState>) {
        if let Some(known) = self.by_key.get_mut(key) {
            *known = state;
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Member, &mut Arc<ClusterState>)> {
        self.by_key.iter_mut()
    }

    /// The identity of `cluster`, sharing what the known one and other Clusters have already.
    fn identity(&mut self, cluster: &Cluster) -> Identity {
        let meta = &cluster.metadata;
        let known = self.by_key.get_key_value(&cluster.key()).map(|(known, _)| known.key().clone());
        let control_plane = cluster.control_plane_ref().map(|reference| {
            let kind = ControlPlaneKind::from(reference);
            let kind = self.kinds.shared_with(&kind, || Arc::new(kind.clone()));
            ControlPlaneName { kind, name: reference.name.as_str().into() }
        });
        Identity {
            key: known.unwrap_or_else(|| ObjectKey::new(self.texts.shared(&meta.namespace), meta.name.as_str())),
            control_plane,
            step: meta.annotations.value(annotation::UPGRADE_STEP).map(|step| self.texts.shared(step)),
        }
    }
}

impl Fold for ClusterIndex {
    type Object = Cluster;

    fn apply(&mut self, cluster: Cluster) -> ObjectKey {
        let Some(state) = ClusterState::of(&cluster, Running::default()) else {
            let key = cluster.key();
            self.remove(&key);
            return key;
        };
        let identity = self.identity(&cluster);
        let key = identity.key.clone();
        let shared_texts = || {
            let texts = &mut self.texts;
            let class = ObjectKey::new(texts.shared(&state.class.namespace), texts.shared(&state.class.name));
            Arc::new(ClusterState { class: Arc::new(class), version: texts.shared(&state.version), ..state.clone() })
        };
        let shared = self.states.shared_with(&state, shared_texts);
        let known = self.by_key.get_key_value(&key);
        // What runs is not looked up anew for a mere change of labels.
        let state =
            known.map(|(_, known)| known).filter(|known| known.says_the_same(&shared)).map_or(shared, Arc::clone);
        if known.is_some_and(|(known, _)| *known.0 == identity) {
            self.set(&key, state);
        } else {
            // A map keeps the key that it has.
            self.by_key.remove(&key);
            self.by_key.insert(Member(Arc::new(identity)), state);
        }
        key
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.by_key.remove(key);
    }
}
