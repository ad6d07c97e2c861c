//! A control plane object of any provider, by Cluster API's contract for them.
//!
//! Source: Cluster API v1.14 `internal/contract/controlplane.go` (`Version`, `StatusVersion`, `IsProvisioning`,
//! `IsUpgrading`).

use std::{fmt, sync::Arc};

use serde::Deserialize;

use super::{
    ControlPlaneRef, Metadata,
    metadata::{null_is_default, versions},
};
use crate::version::KubernetesVersion;

/// A kind of control plane objects. Which version of it is read is for the one who reads.
///
/// Ordered by group, then kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ControlPlaneKind {
    /// The API group.
    pub group: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
}

impl From<&ControlPlaneRef> for ControlPlaneKind {
    fn from(reference: &ControlPlaneRef) -> Self {
        Self { group: reference.group.as_str().into(), kind: reference.kind.as_str().into() }
    }
}

/// As Kubernetes writes it: `KubeadmControlPlane.controlplane.cluster.x-k8s.io`.
impl fmt::Display for ControlPlaneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.group)
    }
}

/// What a judgement needs of a control plane object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ControlPlane {
    /// `metadata`.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    spec: Spec,
    #[serde(deserialize_with = "null_is_default")]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "null_is_default")]
    version: String,
    /// Since the v1beta2 contract's addition in Cluster API 1.14: one entry per version that a machine runs.
    #[serde(deserialize_with = "versions")]
    versions: Vec<String>,
}

impl ControlPlane {
    /// Puts a control plane together that was not read from an API server's JSON.
    pub(crate) fn from_parts(metadata: Metadata, version: String, status_version: String) -> Self {
        let status = Status { version: status_version, versions: Vec::new() };
        Self { metadata, spec: Spec { version }, status }
    }

    /// `spec.version`: what the control plane is to run, which is what Cluster API plans from.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.spec.version
    }

    /// Whether it runs what it is to run: it reports versions, and none below `spec.version`. Cluster API refuses version
    /// changes until then.
    #[must_use]
    pub fn settled(&self) -> bool {
        let Ok(wanted) = KubernetesVersion::parse_lenient(&self.spec.version) else { return false };
        let reported: Vec<&String> = match self.status.versions.as_slice() {
            [] => Some(&self.status.version).filter(|text| !text.is_empty()).into_iter().collect(),
            versions => versions.iter().collect(),
        };
        let reached = |text: &&String| {
            let version = KubernetesVersion::parse_lenient(text);
            // Unordered build tags count as lower, as in Cluster API: `>= 1` holds for its "order unknown".
            version.is_ok_and(|version| wanted.cmp_with_build(&version).is_some_and(std::cmp::Ordering::is_le))
        };
        !reported.is_empty() && reported.iter().all(reached)
    }
}
