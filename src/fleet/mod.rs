//! The fleet: which Cluster uses which class at which version, and what runs of it.
//!
//! `index` is a pure fold of the events of each `source` (Clusters, classes, worker sets, each kind of control plane
//! objects) into what a judgement looks up; `watch` (Kubernetes) and `manifests` (files, read by `document`, which are
//! written as `wire` says) feed it.

mod document;
mod index;
pub mod manifests;
mod source;
pub mod watch;
mod wire;

use parking_lot::RwLock;

use crate::planner::Installed;

pub use self::{
    index::{
        ClassEntry, ClassEvent, ClassIndex, ClusterEvent, ClusterIndex, ClusterState, ControlPlaneEvent,
        ControlPlaneIndex, Index, Overlay, SAMPLE, Together, Users, VersionInUse, WorkerEvent, WorkerIndex,
    },
    source::{Event, Fold, Source},
    watch::Freshness,
};

/// The index as the server shares it, with how fresh each of its sources is.
///
/// One writer per source holds the lock for one event; a judgement holds it for one look-up, so it sees one state of
/// both sources.
#[derive(Debug, Default)]
pub struct Fleet {
    /// The index.
    pub index: RwLock<Index>,
    /// How fresh the Clusters are.
    pub clusters: Freshness,
    /// How fresh the classes are.
    pub classes: Freshness,
    installed: RwLock<Installed>,
}

impl Fleet {
    /// The Cluster API that is installed.
    #[must_use]
    pub fn installed(&self) -> Installed {
        *self.installed.read()
    }

    /// Notes which Cluster API is installed.
    pub fn set_installed(&self, installed: Installed) {
        *self.installed.write() = installed;
    }
}

impl From<Index> for Fleet {
    fn from(index: Index) -> Self {
        Self { index: RwLock::new(index), ..Self::default() }
    }
}
