//! The fleet: which Cluster uses which class at which version, and what runs of it.
//!
//! `index` is a pure fold of the events of each `source` (Clusters, classes, worker sets, each kind of control plane
//! objects) into what a judgement looks up; `watch` (Kubernetes) and `manifests` (files, read by `document`)
//! feed it.

mod cluster_api;
mod document;
mod index;
pub mod manifests;
mod source;
pub mod watch;

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;

use crate::{model::WorkerKind, planner::Installed};

pub use self::{
    cluster_api::{ClusterApi, ToldBy},
    index::{
        ClassEntry, ClassEvent, ClassIndex, ClusterEvent, ClusterIndex, ClusterState, ControlPlaneEvent,
        ControlPlaneIndex, Index, Overlay, SAMPLE, Together, Users, VersionInUse, WorkerEvent, WorkerIndex,
    },
    source::{Event, Fold, Source},
    watch::{ControlPlaneKinds, Freshness, KindState, OptionalSource},
};

/// The index as the server shares it, with how it stands with each of its sources.
///
/// One writer per source holds the lock for one event; a judgement holds it for one look-up, so it sees one state of
/// all sources.
#[derive(Debug, Default)]
pub struct Fleet {
    /// The index.
    pub index: RwLock<Index>,
    /// How fresh the Clusters are.
    pub clusters: Arc<Freshness>,
    /// How fresh the classes are.
    pub classes: Arc<Freshness>,
    deployments: OptionalSource,
    pools: OptionalSource,
    /// How it stands with the kinds of control planes that Clusters refer to.
    pub control_planes: ControlPlaneKinds,
    cluster_api: RwLock<ClusterApi>,
}

impl Fleet {
    /// How it stands with a kind of worker sets.
    #[must_use]
    pub fn workers(&self, kind: WorkerKind) -> &OptionalSource {
        match kind {
            WorkerKind::MachineDeployment => &self.deployments,
            WorkerKind::MachinePool => &self.pools,
        }
    }

    /// How long ago the source of what runs was heard of that was silent for longest; `None` if there is none, as for a
    /// fleet of files.
    #[must_use]
    pub fn running_staleness(&self) -> Option<Duration> {
        let workers = [&self.deployments, &self.pools].map(|source| source.freshness.staleness());
        let kinds = self.control_planes.all().into_iter().map(|(_, state)| match state {
            KindState::Followed(freshness) => freshness.staleness(),
            KindState::Met | KindState::Unreadable(_) => None,
        });
        workers.into_iter().chain(kinds).flatten().max()
    }

    /// What plans depend on of the Cluster API that is installed.
    #[must_use]
    pub fn installed(&self) -> Installed {
        self.cluster_api.read().installed
    }

    /// The Cluster API that is installed.
    #[must_use]
    pub fn cluster_api(&self) -> ClusterApi {
        self.cluster_api.read().clone()
    }

    /// Says what plans depend on, whichever release that is.
    pub fn set_installed(&self, installed: Installed) {
        self.cluster_api.write().installed = installed;
    }

    /// Says which Cluster API is installed. Gives back what was thought before.
    pub fn set_cluster_api(&self, now: ClusterApi) -> ClusterApi {
        std::mem::replace(&mut self.cluster_api.write(), now)
    }
}

impl From<Index> for Fleet {
    fn from(index: Index) -> Self {
        Self { index: RwLock::new(index), ..Self::default() }
    }
}
