//! The fleet: which Cluster uses which class at which version.
//!
//! `index` is a pure fold of events into what a judgement looks up; `watch` (Kubernetes) and `manifests` (files) feed it.

mod index;
pub mod manifests;
pub mod watch;

pub use self::index::{
    ClassEntry, ClassEvent, ClusterEntry, ClusterEvent, ClusterIndex, ClusterState, Event, Index, Overlay, SAMPLE,
    Source, Users, VersionInUse,
};
