//! The Clusters by class and state, and by the control plane object that they refer to.
//!
//! A judgement of a class asks for one row per distinct state, so the groups are kept up to date instead of being counted
//! when they are asked for.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use super::clusters::{ClusterState, ControlPlaneName, Identity, Member};
use crate::model::{ControlPlaneKind, ObjectKey, Running};

/// How many users of a version are named to a reader.
pub const SAMPLE: usize = 5;

/// The users of each class, by state, and those who refer to each kind of control plane.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_class: HashMap<Arc<ObjectKey>, States>,
    by_control_plane: BTreeMap<Arc<ControlPlaneKind>, BTreeSet<Referrer>>,
}

/// The users of one class. A `BTreeMap`, so that readers see the states in one order.
type States = BTreeMap<Arc<ClusterState>, BTreeSet<Member>>;

impl Groups {
    /// Puts a Cluster where it belongs; returns its state as the group has it, which all of the group share.
    pub(super) fn join(&mut self, member: &Member, state: &Arc<ClusterState>) -> Arc<ClusterState> {
        if let Some(ControlPlaneName { kind, .. }) = &member.0.control_plane {
            self.by_control_plane.entry(Arc::clone(kind)).or_default().insert(Referrer(member.clone()));
        }
        let states = self.by_class.entry(Arc::clone(&state.class)).or_default();
        let state = states.get_key_value(state).map_or(state, |(known, _)| known);
        let state = Arc::clone(state);
        states.entry(Arc::clone(&state)).or_default().insert(member.clone());
        state
    }

    /// Takes a Cluster out of where it is.
    pub(super) fn leave(&mut self, member: &Member, state: &ClusterState) {
        if let Some(ControlPlaneName { kind, .. }) = &member.0.control_plane
            && let Some(referrers) = self.by_control_plane.get_mut(kind)
        {
            referrers.remove(&Referrer(member.clone()));
            if referrers.is_empty() {
                self.by_control_plane.remove(kind);
            }
        }
        if let Some(states) = self.by_class.get_mut(&state.class) {
            if let Some(users) = states.get_mut(state) {
                users.remove(member);
                if users.is_empty() {
                    states.remove(state);
                }
            }
            if states.is_empty() {
                self.by_class.remove(&state.class);
            }
        }
    }

    /// How many Clusters refer to each kind.
    pub(super) fn control_plane_kinds(&self) -> impl Iterator<Item = (&ControlPlaneKind, usize)> {
        self.by_control_plane.iter().map(|(kind, referrers)| (&**kind, referrers.len()))
    }

    /// The keys of the Clusters that refer to this control plane object. One, unless somebody made a mistake.
    pub(super) fn referrers(&self, kind: &ControlPlaneKind, object: &ObjectKey) -> Vec<ObjectKey> {
        let Some((kind, referrers)) = self.by_control_plane.get_key_value(kind) else { return Vec::new() };
        let first = Referrer(Member(Arc::new(Identity {
            key: ObjectKey::new(Arc::clone(&object.namespace), ""),
            control_plane: Some(ControlPlaneName { kind: Arc::clone(kind), name: (*object.name).into() }),
            step: None,
        })));
        let from_there = referrers.range((Bound::Included(&first), Bound::Unbounded));
        from_there
            .take_while(|referrer| referrer.object() == first.object())
            .map(|referrer| referrer.0.key().clone())
            .collect()
    }

    /// The keys of the Clusters that refer to this kind.
    pub(super) fn all_referrers(&self, kind: &ControlPlaneKind) -> Vec<ObjectKey> {
        self.by_control_plane.get(kind).into_iter().flatten().map(|referrer| referrer.0.key().clone()).collect()
    }

    pub(super) fn versions_in_use(&self) -> usize {
        let versions = |states: &States| {
            let mut versions: Vec<_> = states.keys().map(|state| &state.version).collect();
            versions.dedup();
            versions.len()
        };
        self.by_class.values().map(versions).sum()
    }

    /// Who uses `class`. `known` is the state of a Cluster in these groups.
    pub(super) fn users<'a>(
        &'a self,
        class: &ObjectKey,
        overlay: &'a Overlay,
        known: impl Fn(&ObjectKey) -> Option<&'a ClusterState>,
        named: impl Fn(&ClusterState) -> bool,
    ) -> Users {
        let mut rows: BTreeMap<&ClusterState, VersionInUse> = BTreeMap::new();
        for (state, users) in self.by_class.get(class).into_iter().flatten() {
            let shown = if named(state) { SAMPLE } else { 0 };
            let sample = users.iter().map(Member::key).filter(|key| !overlay.0.contains_key(key)).take(shown).cloned();
            rows.insert(state, VersionInUse::new(state, users.len(), sample.collect()));
        }
        for (key, newer) in &overlay.0 {
            if let Some(row) = known(key).filter(|known| *known.class == *class).and_then(|known| rows.get_mut(known)) {
                row.clusters -= 1;
            }
            if let Some(newer) = newer.as_ref().filter(|newer| *newer.class == *class) {
                let row = rows.entry(newer).or_insert_with(|| VersionInUse::new(newer, 0, Vec::new()));
                row.clusters += 1;
                if named(newer) {
                    row.sample.push(key.clone());
                    row.sample.sort();
                    row.sample.truncate(SAMPLE);
                }
            }
        }
        Users { versions: rows.into_values().filter(|row| row.clusters > 0).collect() }
    }
}

/// A Cluster, ordered by the control plane object that it refers to. All of one set refer to the same kind.
#[derive(Clone, Debug)]
struct Referrer(Member);

impl Referrer {
    fn object(&self) -> (&str, &str) {
        let name = self.0.0.control_plane.as_ref().map_or("", |control_plane| &control_plane.name);
        (&self.0.key().namespace, name)
    }
}

impl Ord for Referrer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.object().cmp(&other.object()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Referrer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Referrer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Referrer {}

/// What is known of some Clusters beyond the index: live reads, and changes admitted but not yet seen. `None` says that
/// the Cluster is not there, or has no topology.
#[derive(Clone, Debug, Default)]
pub struct Overlay(pub BTreeMap<ObjectKey, Option<ClusterState>>);

/// Who uses a class: plain counts, which is all that a rule sees of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// One row per distinct state, ordered by the version's text, then the living first, then by what runs.
    pub versions: Vec<VersionInUse>,
}

impl Users {
    /// How many Clusters use the class, the deleting ones included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.versions.iter().map(|used| used.clusters).sum()
    }
}

/// A version in use in one state, by how many Clusters, and the names of the first few.
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
    fn new(state: &ClusterState, clusters: usize, sample: Vec<ObjectKey>) -> Self {
        let ClusterState { version, deleting, running, .. } = state;
        Self { version: Arc::clone(version), deleting: *deleting, running: running.clone(), clusters, sample }
    }
}

/// Several rows taken together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Together<'a> {
    /// How many Clusters.
    pub clusters: usize,
    /// The first [`SAMPLE`] of them by namespace and name, as far as the rows name theirs.
    pub sample: Vec<&'a ObjectKey>,
}

impl<'a> Together<'a> {
    /// Counts a row in.
    pub fn add(&mut self, row: &'a VersionInUse) {
        self.clusters += row.clusters;
        self.sample.extend(&row.sample);
        self.sample.sort();
        self.sample.truncate(SAMPLE);
    }
}

impl<'a> FromIterator<&'a VersionInUse> for Together<'a> {
    fn from_iter<I: IntoIterator<Item = &'a VersionInUse>>(rows: I) -> Self {
        let mut together = Self::default();
        rows.into_iter().for_each(|row| together.add(row));
        together
    }
}
