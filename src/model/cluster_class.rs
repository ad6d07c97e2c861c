//! A `ClusterClass`: its list of versions and the extension that plans in the list's place. Both have the same shape in
//! v1beta2 (Cluster API >= 1.12) and v1beta1 (>= 1.13).

use serde::Deserialize;

use super::{Metadata, ObjectKey, metadata::null_is_default};

/// What a judgement needs of a `ClusterClass`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClusterClass {
    /// `metadata`.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    kubernetes_versions: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    upgrade: Upgrade,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Upgrade {
    #[serde(deserialize_with = "null_is_default")]
    external: External,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct External {
    generate_upgrade_plan_extension: Option<String>,
}

impl ClusterClass {
    /// Puts a class together that was not read from an API server's JSON.
    pub(crate) fn from_parts(metadata: Metadata, kubernetes_versions: Vec<String>, extension: Option<String>) -> Self {
        let external = External { generate_upgrade_plan_extension: extension };
        Self { metadata, spec: Spec { kubernetes_versions, upgrade: Upgrade { external } } }
    }

    /// `spec.kubernetesVersions`, in its order, as the object has it; empty if there is no list, which allows every
    /// version.
    #[must_use]
    pub fn versions(&self) -> &[String] {
        &self.spec.kubernetes_versions
    }

    /// `spec.upgrade.external.generateUpgradePlanExtension`: the handler that plans upgrades in the list's place.
    #[must_use]
    pub fn extension(&self) -> Option<&str> {
        self.spec.upgrade.external.generate_upgrade_plan_extension.as_deref()
    }

    /// The class's own key.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        self.metadata.key()
    }
}
