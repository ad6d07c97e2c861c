//! A `MachineDeployment` or `MachinePool`: the two kinds of worker sets that a topology has.

use serde::Deserialize;

use super::{Metadata, metadata::null_is_default};

/// The kinds of worker sets that a topology has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkerKind {
    /// A `MachineDeployment`.
    MachineDeployment,
    /// A `MachinePool`, which Cluster API serves where its feature gate is on.
    MachinePool,
}

impl WorkerKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::MachineDeployment, Self::MachinePool];

    /// The kind's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MachineDeployment => "MachineDeployment",
            Self::MachinePool => "MachinePool",
        }
    }

    /// The name of its resource.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::MachineDeployment => "machinedeployments",
            Self::MachinePool => "machinepools",
        }
    }
}

/// What a judgement needs of a worker set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkerSet {
    /// `metadata`, with the labels that say whose it is.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    #[serde(deserialize_with = "null_is_default")]
    spec: MachineSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MachineSpec {
    #[serde(deserialize_with = "null_is_default")]
    version: String,
}

impl WorkerSet {
    /// Puts a worker set together that was not read from an API server's JSON.
    pub(crate) fn from_parts(metadata: Metadata, version: String) -> Self {
        Self { metadata, spec: Spec { template: Template { spec: MachineSpec { version } } } }
    }

    /// `spec.template.spec.version`; may be empty.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.spec.template.spec.version
    }

    /// The name of the Cluster whose topology made it; `None` for a set that nobody plans for.
    #[must_use]
    pub fn cluster_name(&self) -> Option<&str> {
        let labels = &self.metadata.labels;
        (labels.topology_owned && !labels.cluster_name.is_empty()).then_some(&labels.cluster_name)
    }
}
