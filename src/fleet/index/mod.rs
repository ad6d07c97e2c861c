//! The index: a pure fold of the events of all sources into what a judgement looks up.
//!
//! A class change must cost O(distinct states in use), not O(Clusters), so each class keeps its users in one ordered set per
//! state: version, deletion, and what runs. What runs comes from other sources than the Cluster, so their events move
//! Clusters between the sets; a relist of such a source sorts all Clusters anew, once. Everything that several places hold
//! is stored once, and a Cluster is a pointer wherever it stands: about 210 bytes of heap, plus about 60 for its control
//! plane object and about 100 for each worker set (a test holds all three). No kube `Store`: that would keep whole objects
//! and has no second key.

mod classes;
mod clusters;
mod control_planes;
mod groups;
mod observed;
mod shared;
mod workers;

use std::{collections::BTreeMap, sync::Arc};

pub use self::{
    classes::{ClassEntry, ClassIndex},
    clusters::{ClusterIndex, ClusterState},
    control_planes::ControlPlaneIndex,
    groups::{Overlay, SAMPLE, Together, Users, VersionInUse},
    workers::WorkerIndex,
};
use self::{
    clusters::Member,
    groups::Groups,
    observed::{Observed, Of},
};
use super::source::{Event, Source};
use crate::model::{Cluster, ClusterClass, ControlPlane, ControlPlaneKind, ObjectKey, Running, WorkerKind, WorkerSet};

/// An event of the Clusters' source.
pub type ClusterEvent = Event<Cluster>;
/// An event of the classes' source.
pub type ClassEvent = Event<ClusterClass>;
/// An event of a control plane kind's source.
pub type ControlPlaneEvent = Event<ControlPlane>;
/// An event of a worker kind's source.
pub type WorkerEvent = Event<WorkerSet>;

/// Everything known of the fleet. Every source is relisted by itself.
#[derive(Debug, Default)]
pub struct Index {
    /// The Clusters with a topology.
    pub clusters: Source<ClusterIndex>,
    /// The classes.
    pub classes: Source<ClassIndex>,
    observed: Observed,
    groups: Groups,
}

impl Index {
    /// An index for manifests: what they do not hold may exist nevertheless. See [`Index::running`].
    #[must_use]
    pub fn of_manifests() -> Self {
        Self { observed: Observed { manifests: true, ..Observed::default() }, ..Self::default() }
    }

    /// The worker sets of one kind.
    #[must_use]
    pub fn workers(&self, kind: WorkerKind) -> &Source<WorkerIndex> {
        self.observed.workers(kind)
    }

    /// The control plane objects of one kind; `None` if the kind is not followed.
    #[must_use]
    pub fn control_planes(&self, kind: &ControlPlaneKind) -> Option<&Source<ControlPlaneIndex>> {
        self.observed.control_planes.get(kind)
    }

    /// The kinds of control planes that are followed, in the order of their groups and kinds.
    pub fn followed_control_planes(&self) -> impl Iterator<Item = (&ControlPlaneKind, &Source<ControlPlaneIndex>)> {
        self.observed.control_planes.iter()
    }

    /// The kinds of control planes that Clusters with a topology refer to, with the number of these Clusters.
    #[must_use]
    pub fn control_plane_kinds(&self) -> BTreeMap<ControlPlaneKind, usize> {
        self.groups.control_plane_kinds().map(|(kind, clusters)| (kind.clone(), clusters)).collect()
    }

    /// Folds in an event of the Clusters' source.
    pub fn handle_cluster(&mut self, event: ClusterEvent) {
        let Some(key) = self.clusters.concerns_now(&event, Cluster::key) else {
            let complete = matches!(event, Event::Completed);
            self.clusters.handle(event);
            if complete {
                self.settle_all();
            }
            return;
        };
        let before = self.clusters.objects().member(&key);
        self.clusters.handle(event);
        self.settle(&key, before);
    }

    /// Folds in an event of the classes' source.
    pub fn handle_class(&mut self, event: ClassEvent) {
        self.classes.handle(event);
    }

    /// Folds in an event of a worker kind's source.
    pub fn handle_workers(&mut self, kind: WorkerKind, event: WorkerEvent) {
        let source = self.observed.workers_mut(kind);
        let Some(key) = source.concerns_now(&event, |set| set.metadata.key()) else {
            let complete = matches!(event, Event::Completed);
            source.handle(event);
            if complete {
                self.settle_all();
            }
            return;
        };
        let (owner, undecodable) = (source.objects().cluster_of(&key), source.undecodable());
        source.handle(event);
        if source.undecodable() != undecodable {
            // Whose the set is cannot be told, so no Cluster of its namespace is known as before. This is rare.
            return self.settle_all();
        }
        let new_owner = source.objects().cluster_of(&key);
        for owner in [owner.filter(|owner| new_owner.as_ref() != Some(owner)), new_owner].into_iter().flatten() {
            self.settle_known(&owner);
        }
    }

    /// Says that a kind of worker sets is not served by the API server: it is known completely, and there are none.
    pub fn workers_not_served(&mut self, kind: WorkerKind) {
        self.handle_workers(kind, Event::Restarted);
        self.handle_workers(kind, Event::Completed);
    }

    /// Says that a kind of worker sets cannot be read any more: nothing is known of it.
    pub fn forget_workers(&mut self, kind: WorkerKind) {
        *self.observed.workers_mut(kind) = Source::default();
        self.settle_all();
    }

    /// Folds in an event of a control plane kind's source; the kind is followed from the first one on.
    pub fn handle_control_planes(&mut self, kind: &ControlPlaneKind, event: ControlPlaneEvent) {
        let source = match self.observed.control_planes.get_mut(kind) {
            Some(source) => source,
            None => self.observed.control_planes.entry(kind.clone()).or_default(),
        };
        let key = source.concerns_now(&event, |object| object.metadata.key());
        let complete = matches!(event, Event::Completed);
        source.handle(event);
        let concerned = match key {
            Some(key) => self.groups.referrers(kind, &key),
            None if complete => self.groups.all_referrers(kind),
            None => return,
        };
        for cluster in concerned {
            self.settle_known(&cluster);
        }
    }

    /// Says that a control plane kind cannot be read, or is not followed any more: nothing is known of it.
    pub fn forget_control_planes(&mut self, kind: &ControlPlaneKind) {
        self.observed.control_planes.remove(kind);
        for cluster in self.groups.all_referrers(kind) {
            self.settle_known(&cluster);
        }
    }

    /// What is known to run of `cluster`, which need not be in the index.
    ///
    /// The control plane is
    /// - not created, without `spec.controlPlaneRef`;
    /// - unknown, while its kind is not followed or not listed yet, and if the object does not decode or has no version. Then
    ///   Cluster API's annotation for the time of an upgrade tells the version, if it is there;
    /// - missing, if the kind is listed and the object is not there. But in a fleet of manifests it is unknown then: they
    ///   rarely hold what controllers made.
    ///
    /// The workers are known when the lists of both kinds are complete and every set in the Cluster's namespace decodes. In
    /// a fleet of manifests, they are known if the files hold a worker set of the Cluster or its control plane object: who
    /// keeps the one in files keeps the other.
    #[must_use]
    pub fn running(&self, cluster: &Cluster) -> Running {
        self.observed.running_of(cluster)
    }

    /// Who uses `class`, by state, where `overlay` is newer than the index. Costs O(distinct states + overlay).
    #[must_use]
    pub fn users(&self, class: &ObjectKey, overlay: &Overlay) -> Users {
        self.users_naming(class, overlay, |_| true)
    }

    /// The same, but names Clusters only of those states that `named` asks for: the names are what costs.
    #[must_use]
    pub fn users_naming(&self, class: &ObjectKey, overlay: &Overlay, named: impl Fn(&ClusterState) -> bool) -> Users {
        self.groups.users(class, overlay, |key| self.clusters.objects().get(key), named)
    }

    /// How many distinct pairs of class and version are in use.
    #[must_use]
    pub fn versions_in_use(&self) -> usize {
        self.groups.versions_in_use()
    }

    /// Looks anew what runs of a Cluster of which another source told something.
    fn settle_known(&mut self, key: &ObjectKey) {
        let before = self.clusters.objects().member(key);
        self.settle(key, before);
    }

    /// Puts a Cluster, which was `before`, into the group of what it is now.
    fn settle(&mut self, key: &ObjectKey, before: Option<(Member, Arc<ClusterState>)>) {
        let after = self.clusters.objects().member(key).map(|(member, state)| {
            let running = self.observed.running(&Of::member(&member));
            let state = if state.running == running { state } else { with(&state, running) };
            (member, state)
        });
        if let (Some((old, old_state)), Some((new, new_state))) = (&before, &after)
            && Arc::ptr_eq(&old.0, &new.0)
            && old_state == new_state
        {
            return;
        }
        if let Some((member, state)) = before {
            self.groups.leave(&member, &state);
        }
        if let Some((member, state)) = after {
            let state = self.groups.join(&member, &state);
            self.clusters.objects_mut().set(key, state);
        }
    }

    /// Looks anew what runs of every Cluster.
    fn settle_all(&mut self) {
        self.groups = Groups::default();
        for (member, state) in self.clusters.objects_mut().iter_mut() {
            let running = self.observed.running(&Of::member(member));
            if state.running != running {
                *state = with(state, running);
            }
            *state = self.groups.join(member, state);
        }
    }
}

/// The same state but for what runs.
fn with(state: &ClusterState, running: Running) -> Arc<ClusterState> {
    let ClusterState { class, version, deleting, running: _ } = state;
    Arc::new(ClusterState { class: Arc::clone(class), version: Arc::clone(version), deleting: *deleting, running })
}
