//! A Cluster, in v1beta1 (`topology.class`, `topology.classNamespace`) or v1beta2 (`topology.classRef`).

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

use super::{
    Metadata, ObjectKey, annotation,
    metadata::{null_is_default, versions},
};
use crate::version::KubernetesVersion;

/// What a judgement needs of a Cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Cluster {
    /// `metadata`.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    spec: Spec,
    #[serde(deserialize_with = "null_is_default")]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    paused: bool,
    topology: Option<Topology>,
    control_plane_ref: Option<ControlPlaneRef>,
}

/// `status`, reduced to what Cluster API 1.14 tells of an upgrade under way.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "null_is_default")]
    control_plane: Progress,
    #[serde(deserialize_with = "null_is_default")]
    workers: Progress,
}

/// How far an upgrade is, as Cluster API 1.14 writes it into a Cluster's status. It comes from kubelets and from the last
/// plan that worked, so it is shown to people and never planned from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Progress {
    /// The versions that run.
    #[serde(deserialize_with = "versions")]
    pub versions: Vec<String>,
    /// The versions still ahead, the target last.
    #[serde(deserialize_with = "versions")]
    pub upgrade_plan: Vec<String>,
}

/// `spec.controlPlaneRef`: the control plane object, which is in the Cluster's own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ControlPlaneRef {
    /// The API group (`apiGroup`; in v1beta1 the part of `apiVersion` before the slash).
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
}

impl<'de> Deserialize<'de> for ControlPlaneRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Wire {
            #[serde(deserialize_with = "null_is_default")]
            api_group: String,
            #[serde(deserialize_with = "null_is_default")]
            api_version: String,
            #[serde(deserialize_with = "null_is_default")]
            kind: String,
            #[serde(deserialize_with = "null_is_default")]
            name: String,
        }

        let Wire { api_group, api_version, kind, name } = Wire::deserialize(deserializer)?;
        let of_version = || api_version.split_once('/').map_or_else(String::new, |(group, _)| group.to_owned());
        let group = if api_group.is_empty() { of_version() } else { api_group };
        Ok(Self { group, kind, name })
    }
}

/// `spec.topology`, reduced to the class reference and the version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// `classRef.name`, in v1beta1 `class`.
    pub class: String,
    /// `classRef.namespace`, in v1beta1 `classNamespace`; empty means the Cluster's own namespace.
    pub class_namespace: String,
    /// `version`, as the object has it.
    pub version: String,
}

impl<'de> Deserialize<'de> for Topology {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Wire {
            #[serde(deserialize_with = "null_is_default")]
            class_ref: ClassRef,
            #[serde(deserialize_with = "null_is_default")]
            class: String,
            #[serde(deserialize_with = "null_is_default")]
            class_namespace: String,
            #[serde(deserialize_with = "null_is_default")]
            version: String,
        }

        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct ClassRef {
            #[serde(deserialize_with = "null_is_default")]
            name: String,
            #[serde(deserialize_with = "null_is_default")]
            namespace: String,
        }

        let wire = Wire::deserialize(deserializer)?;
        // One of the two forms is empty: each API version's schema knows only its own.
        let or = |a: String, b: String| if a.is_empty() { b } else { a };
        Ok(Self {
            class: or(wire.class_ref.name, wire.class),
            class_namespace: or(wire.class_ref.namespace, wire.class_namespace),
            version: wire.version,
        })
    }
}

impl Cluster {
    /// Puts a Cluster together that was not read from an API server's JSON.
    pub(crate) fn from_parts(
        metadata: Metadata,
        paused: bool,
        topology: Option<Topology>,
        control_plane_ref: Option<ControlPlaneRef>,
    ) -> Self {
        Self { metadata, spec: Spec { paused, topology, control_plane_ref }, status: Status::default() }
    }

    /// `spec.controlPlaneRef`; `None` until Cluster API has made the control plane object. An empty one counts as none.
    #[must_use]
    pub fn control_plane_ref(&self) -> Option<&ControlPlaneRef> {
        self.spec.control_plane_ref.as_ref().filter(|reference| !reference.name.is_empty())
    }

    /// What the status says of the control plane (Cluster API 1.14 and later; empty before).
    #[must_use]
    pub fn control_plane_progress(&self) -> &Progress {
        &self.status.control_plane
    }

    /// What the status says of the workers (Cluster API 1.14 and later; empty before).
    #[must_use]
    pub fn workers_progress(&self) -> &Progress {
        &self.status.workers
    }

    /// The topology, if this Cluster has one. An empty one counts as none, as in Cluster API (`Topology.IsDefined`).
    #[must_use]
    pub fn topology(&self) -> Option<&Topology> {
        self.spec.topology.as_ref().filter(|topology| **topology != Topology::default())
    }

    /// `spec.topology.version` after Cluster API's defaulting, which puts a missing `v` in front.
    #[must_use]
    pub fn version(&self) -> Option<Cow<'_, str>> {
        self.topology().map(|topology| KubernetesVersion::with_default_v(&topology.version))
    }

    /// The key of the class that the topology names: an omitted namespace is the Cluster's own, so writing that one out
    /// changes nothing (`Cluster.GetClassKey`).
    #[must_use]
    pub fn class_key(&self) -> Option<ObjectKey> {
        self.topology().map(|topology| {
            let own = &self.metadata.namespace;
            let namespace = if topology.class_namespace.is_empty() { own } else { &topology.class_namespace };
            ObjectKey::new(namespace.as_str(), topology.class.as_str())
        })
    }

    /// The Cluster's own key.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        self.metadata.key()
    }

    /// Whether it is paused, by its spec or by the annotation.
    #[must_use]
    pub fn paused(&self) -> bool {
        self.spec.paused || self.metadata.annotations.has(annotation::PAUSED)
    }
}
