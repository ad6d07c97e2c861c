//! A Cluster, in v1beta1 (`topology.class`, `topology.classNamespace`) or v1beta2 (`topology.classRef`).

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

use super::{Metadata, ObjectKey, annotation, metadata::null_is_default};
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
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    paused: bool,
    topology: Option<Topology>,
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
    pub(crate) fn from_parts(metadata: Metadata, paused: bool, topology: Option<Topology>) -> Self {
        Self { metadata, spec: Spec { paused, topology } }
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
        ObjectKey::new(self.metadata.namespace.as_str(), self.metadata.name.as_str())
    }

    /// Whether it is paused, by its spec or by the annotation.
    #[must_use]
    pub fn paused(&self) -> bool {
        self.spec.paused || self.metadata.annotations.has(annotation::PAUSED)
    }
}
