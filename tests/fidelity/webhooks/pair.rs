//! Changes to judge: a few facts each, from which the same manifests are made for Cluster API and for us.

use std::borrow::Cow;

use capi_version_guard::version::KubernetesVersion;
use serde_json::{Value, json};

/// A Cluster, as far as its manifest differs from another one's.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub namespace: &'static str,
    pub name: String,
    /// Without one it is not managed by a topology.
    pub topology: Option<Topology>,
    /// Whether it refers to a control plane.
    pub created: bool,
    pub deleting: bool,
    /// The annotation that turns off the checks of version transitions.
    pub skips: bool,
    /// The annotation that allows a topology to be added.
    pub adopts: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    pub class_namespace: Option<&'static str>,
    pub class: &'static str,
    pub version: String,
}

/// A class, as far as its manifest differs from another one's.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub namespace: &'static str,
    pub name: &'static str,
    pub versions: Vec<String>,
    pub extension: Option<String>,
}

/// A change, and what there is besides. `old` alone is a DELETE, `new` alone a CREATE.
#[derive(Clone, Debug, PartialEq)]
pub enum Pair {
    Cluster {
        old: Option<Cluster>,
        new: Option<Cluster>,
        classes: Vec<Class>,
        /// The version that everything runs.
        runs: String,
        /// Whether there is anything besides the control plane.
        workers: bool,
    },
    Class {
        old: Option<Class>,
        new: Option<Class>,
        clusters: Vec<Cluster>,
    },
}

impl Cluster {
    pub fn class_key(&self) -> Option<(&'static str, &'static str)> {
        self.topology.as_ref().map(|topology| (topology.class_namespace.unwrap_or(self.namespace), topology.class))
    }

    /// The version as everybody reads it: Cluster API's defaulting puts a missing `v` in front.
    pub fn version(&self) -> Option<Cow<'_, str>> {
        self.topology.as_ref().map(|topology| KubernetesVersion::with_default_v(&topology.version))
    }

    pub fn manifest(&self) -> Value {
        let mut metadata = json!({"namespace": self.namespace, "name": self.name, "annotations": {}});
        if self.deleting {
            metadata["deletionTimestamp"] = json!("2026-12-01T00:00:00Z");
            metadata["finalizers"] = json!(["cluster.cluster.x-k8s.io"]);
        }
        for (has, key) in [
            (self.skips, "unsafe.topology.cluster.x-k8s.io/disable-update-version-check"),
            (self.adopts, "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check"),
        ] {
            if has {
                metadata["annotations"][key] = json!("");
            }
        }
        let mut spec = json!({});
        if self.created {
            let kind = "KubeadmControlPlane";
            let reference = json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": kind, "name": self.name});
            spec["controlPlaneRef"] = reference;
        }
        if let Some(topology) = &self.topology {
            let mut class = json!({"name": topology.class});
            if let Some(namespace) = topology.class_namespace {
                class["namespace"] = json!(namespace);
            }
            spec["topology"] = json!({"classRef": class, "version": topology.version});
        }
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata, "spec": spec})
    }
}

impl Class {
    pub fn key(&self) -> (&'static str, &'static str) {
        (self.namespace, self.name)
    }

    pub fn carries(&self, version: &str) -> bool {
        self.versions.is_empty() || self.versions.iter().any(|listed| listed == version)
    }

    pub fn manifest(&self) -> Value {
        let template = |group: &str, kind: &str| {
            let api_version = format!("{group}.cluster.x-k8s.io/v1beta2");
            json!({"templateRef": {"apiVersion": api_version, "kind": format!("{kind}Template"), "name": "t"}})
        };
        let mut spec = json!({
            "infrastructure": template("infrastructure", "DockerCluster"),
            "controlPlane": template("controlplane", "KubeadmControlPlane"),
        });
        if !self.versions.is_empty() {
            spec["kubernetesVersions"] = json!(self.versions);
        }
        if let Some(extension) = &self.extension {
            spec["upgrade"]["external"]["generateUpgradePlanExtension"] = json!(extension);
        }
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
            "metadata": {"namespace": self.namespace, "name": self.name}, "spec": spec,
        })
    }
}

impl Pair {
    /// The manifests, as the oracle reads them.
    pub fn question(&self) -> Value {
        let both = |old: Option<Value>, new: Option<Value>| {
            let mut objects = json!({});
            for (name, object) in [("old", old), ("new", new)] {
                if let Some(object) = object {
                    objects[name] = object;
                }
            }
            objects
        };
        match self {
            Self::Cluster { old, new, classes, workers, .. } => json!({
                "cluster": both(old.as_ref().map(Cluster::manifest), new.as_ref().map(Cluster::manifest)),
                "classes": classes.iter().map(Class::manifest).collect::<Vec<_>>(),
                "workers": workers,
            }),
            Self::Class { old, new, clusters } => json!({
                "class": both(old.as_ref().map(Class::manifest), new.as_ref().map(Class::manifest)),
                "clusters": clusters.iter().map(Cluster::manifest).collect::<Vec<_>>(),
            }),
        }
    }

    /// The pairs that have one thing less.
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        match self {
            Self::Cluster { new, classes, workers, .. } => {
                for (at, class) in classes.iter().enumerate() {
                    for less in class.smaller() {
                        smaller.push(self.with(|pair| {
                            if let Self::Cluster { classes, .. } = pair {
                                classes[at] = less;
                            }
                        }));
                    }
                }
                if *workers {
                    smaller.push(self.with(|pair| {
                        if let Self::Cluster { workers, .. } = pair {
                            *workers = false;
                        }
                    }));
                }
                for unset in [|new: &mut Cluster| new.skips = false, |new: &mut Cluster| new.deleting = false] {
                    if new.is_some() {
                        smaller.push(self.with(|pair| {
                            if let Self::Cluster { new: Some(new), .. } = pair {
                                unset(new);
                            }
                        }));
                    }
                }
            }
            Self::Class { old, new, clusters } => {
                let variants = |class: &Option<Class>| class.iter().flat_map(Class::smaller).collect::<Vec<_>>();
                for less in variants(old) {
                    smaller.push(Self::Class { old: Some(less), new: new.clone(), clusters: clusters.clone() });
                }
                for less in variants(new) {
                    smaller.push(Self::Class { old: old.clone(), new: Some(less), clusters: clusters.clone() });
                }
                for at in 0..clusters.len() {
                    let mut clusters = clusters.clone();
                    clusters.remove(at);
                    smaller.push(Self::Class { old: old.clone(), new: new.clone(), clusters });
                }
            }
        }
        smaller.retain(|one| one != self);
        smaller
    }

    fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut pair = self.clone();
        change(&mut pair);
        pair
    }
}

impl Class {
    fn smaller(&self) -> Vec<Self> {
        let shorter = (0..self.versions.len()).map(|at| {
            let mut class = self.clone();
            class.versions.remove(at);
            class
        });
        shorter.chain([Self { extension: None, ..self.clone() }]).filter(|less| less != self).collect()
    }
}
