//! A control plane object of any provider, by Cluster API's contract for them.
//!
//! Source: Cluster API v1.14 `internal/contract/controlplane.go` (`Version`, `StatusVersion`, `IsProvisioning`,
//! `IsUpgrading`).

use serde::{Deserialize, Deserializer};

use super::{Metadata, metadata::null_is_default};
use crate::version::KubernetesVersion;

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
    #[serde(deserialize_with = "version_texts")]
    versions: Vec<String>,
}

fn version_texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Item {
        #[serde(default, deserialize_with = "null_is_default")]
        version: String,
    }

    let items: Option<Vec<Item>> = Option::deserialize(deserializer)?;
    Ok(items.unwrap_or_default().into_iter().map(|item| item.version).filter(|text| !text.is_empty()).collect())
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
