//! Cluster API objects as this program reads them: the few fields that a judgement needs, out of both API versions.
//!
//! Everything is optional and unknown fields are passed over, so that an object of a newer Cluster API, one with
//! `managedFields` of an API version that no longer exists, or one with odd metadata still decodes. What the API
//! server's schema guarantees (a topology has a version) is not checked again here.

mod change;
mod cluster;
mod cluster_class;
mod control_plane;
mod metadata;
mod running;
mod worker_set;

use std::{fmt, sync::Arc};

pub use self::{
    change::Change,
    cluster::{Cluster, ControlPlaneRef, Progress, Topology},
    cluster_class::ClusterClass,
    control_plane::{ControlPlane, ControlPlaneKind},
    metadata::{Annotations, Labels, Metadata, annotation, label},
    running::{ControlPlaneState, Provider, Running, distinct_workers},
    worker_set::{WorkerKind, WorkerSet},
};

/// The API group of Cluster and `ClusterClass`.
pub const GROUP: &str = "cluster.x-k8s.io";

/// The API group that Cluster API's own providers of control planes have, and most others.
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";

/// Namespace and name of a namespaced object; for a class, this is its *class key*.
///
/// Ordered by namespace, then name. Cloning shares the texts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace; empty where a manifest leaves it out and nothing else says it.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Makes the key of `namespace`/`name`.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
