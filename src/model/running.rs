//! What runs of a Cluster: the version of its control plane object and those of its worker sets.
//!
//! Cluster API plans from these texts, not from the topology's version, which is where the Cluster shall go. For a plain
//! change of the version it insists that all are the same; for everything else (a rebase in the middle of an upgrade, a
//! changed list, an adoption) what runs has to be looked up.

use std::sync::Arc;

use super::{CONTROL_PLANE_GROUP, ControlPlane};

/// What is known to run of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Running {
    /// The control plane.
    pub control_plane: ControlPlaneState,
    /// The distinct template versions of the topology's worker sets, deleting and paused ones included, in the order of
    /// their texts, empty ones left out; `None` if the worker sets are not known.
    pub workers: Option<Arc<[Arc<str>]>>,
}

/// What is known of a Cluster's control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ControlPlaneState {
    /// It cannot be told: its kind cannot be read, or nobody has looked.
    #[default]
    Unknown,
    /// `spec.controlPlaneRef` is not set: there is none yet, and nothing is planned.
    NotCreated,
    /// `spec.controlPlaneRef` names an object that is not there: Cluster API cannot reconcile the Cluster at all.
    Missing,
    /// The object is there.
    At {
        /// Its `spec.version`.
        version: Arc<str>,
        /// Whether it runs that version already.
        settled: bool,
        /// Whose it is.
        provider: Provider,
    },
}

/// Who provides a control plane, as far as it makes a difference for versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Provider {
    /// Cluster API's own `KubeadmControlPlane`: its webhook puts a missing `v` in front and then insists on a strict
    /// version.
    Kubeadm,
    /// Any other.
    #[default]
    Other,
}

impl ControlPlaneState {
    /// What an object at `version` says. One without a version says nothing that a plan could begin with.
    #[must_use]
    pub fn at(version: Arc<str>, settled: bool, provider: Provider) -> Self {
        if version.is_empty() { Self::Unknown } else { Self::At { version, settled, provider } }
    }

    /// What `object` says.
    #[must_use]
    pub fn of(object: &ControlPlane, provider: Provider) -> Self {
        Self::at(object.version().into(), object.settled(), provider)
    }
}

impl Provider {
    /// The provider of control planes of this kind.
    #[must_use]
    pub fn of(group: &str, kind: &str) -> Self {
        let kubeadm = group == CONTROL_PLANE_GROUP && kind == "KubeadmControlPlane";
        if kubeadm { Self::Kubeadm } else { Self::Other }
    }
}

impl Running {
    /// The control plane's version, if it is known.
    #[must_use]
    pub fn control_plane_version(&self) -> Option<&str> {
        match &self.control_plane {
            ControlPlaneState::At { version, .. } => Some(version),
            ControlPlaneState::Unknown | ControlPlaneState::NotCreated | ControlPlaneState::Missing => None,
        }
    }

    /// Whether everything that is known to run is at `version`, byte for byte.
    #[must_use]
    pub fn all_at(&self, version: &str) -> bool {
        self.control_plane_version() == Some(version)
            && self.workers.as_ref().is_some_and(|workers| workers.iter().all(|worker| **worker == *version))
    }
}

/// The form in which [`Running`] holds worker versions.
#[must_use]
pub fn distinct_workers<T: Into<Arc<str>>>(versions: impl IntoIterator<Item = T>) -> Arc<[Arc<str>]> {
    let mut distinct: Vec<Arc<str>> = versions.into_iter().map(Into::into).filter(|text| !text.is_empty()).collect();
    distinct.sort();
    distinct.dedup();
    distinct.into()
}
