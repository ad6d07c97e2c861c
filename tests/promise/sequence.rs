//! Sequences of writes and of what providers do, as data.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The Clusters of a sequence all are in its own namespace; classes are there too, or in the second one (`other/a`).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sequence {
    /// Each write waits until the one before it has had its effect. Otherwise writes follow each other at once.
    pub quiet: bool,
    pub steps: Vec<Step>,
}

/// One write of a user, or one event of a provider.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Step {
    CreateClass {
        class: String,
        versions: Option<Vec<String>>,
        extension: Option<String>,
    },
    /// Sets the whole list; none clears it.
    SetList {
        class: String,
        versions: Option<Vec<String>>,
    },
    SetExtension {
        class: String,
        extension: Option<String>,
    },
    DeleteClass {
        class: String,
    },
    /// With `restored`, as a backup holds it: with Cluster API's finalizer.
    CreateCluster {
        cluster: String,
        class: String,
        version: String,
        workers: bool,
        restored: bool,
    },
    Upgrade {
        cluster: String,
        version: String,
    },
    /// To another class, and to another version if one is given.
    Rebase {
        cluster: String,
        class: String,
        version: Option<String>,
    },
    /// Sets an annotation, or removes it.
    Annotate {
        cluster: String,
        annotation: Annotation,
        set: bool,
    },
    Pause {
        cluster: String,
        paused: bool,
    },
    DeleteCluster {
        cluster: String,
    },
    /// The control plane does not reach this version until it is released; `partly`: one of its machines runs it.
    Hold {
        cluster: String,
        version: String,
        partly: bool,
    },
    Release {
        cluster: String,
    },
    /// The workers' version is changed by hand, past the topology.
    Workers {
        cluster: String,
        version: String,
    },
}

/// Annotations that matter to upgrades.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Annotation {
    /// Cluster API skips its checks of transitions.
    SkipVersionCheck,
    /// Cluster API's upgrade waits for a user.
    BeforeUpgradeHook,
    /// Says nothing to Cluster API.
    Note,
}

impl Annotation {
    pub fn name(self) -> &'static str {
        match self {
            Self::SkipVersionCheck => "unsafe.topology.cluster.x-k8s.io/disable-update-version-check",
            Self::BeforeUpgradeHook => "before-upgrade.hook.cluster.cluster.x-k8s.io/promise",
            Self::Note => "promise/note",
        }
    }
}

impl Step {
    /// Whether a user writes it to the API server; the others are the providers' doing.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Hold { .. } | Self::Release { .. } | Self::Workers { .. })
    }

    /// The Cluster that it is about.
    pub fn cluster(&self) -> Option<&str> {
        match self {
            Self::CreateCluster { cluster, .. }
            | Self::Upgrade { cluster, .. }
            | Self::Rebase { cluster, .. }
            | Self::Annotate { cluster, .. }
            | Self::Pause { cluster, .. }
            | Self::DeleteCluster { cluster }
            | Self::Hold { cluster, .. }
            | Self::Release { cluster }
            | Self::Workers { cluster, .. } => Some(cluster),
            _ => None,
        }
    }
}

/// The two namespaces of a sequence.
#[derive(Clone)]
pub struct Namespaces(pub String);

impl Namespaces {
    pub fn own(&self) -> &str {
        &self.0
    }

    pub fn other(&self) -> String {
        format!("{}-other", self.0)
    }

    /// Namespace and name of a class.
    pub fn class(&self, class: &str) -> (String, String) {
        match class.strip_prefix("other/") {
            Some(name) => (self.other(), name.to_owned()),
            None => (self.0.clone(), class.to_owned()),
        }
    }

    /// How a Cluster refers to a class.
    pub fn reference(&self, class: &str) -> Value {
        let (namespace, name) = self.class(class);
        // Without a namespace it is the Cluster's own; null removes one in a patch.
        if namespace == self.0 {
            json!({"name": name, "namespace": null})
        } else {
            json!({"name": name, "namespace": namespace})
        }
    }
}
