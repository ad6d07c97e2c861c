//! What several test binaries share.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod fake_api;

use serde_json::{Value, json};

/// A Cluster with a topology, as the API server would send it.
pub fn cluster(namespace: &str, name: &str, class: &str, version: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
                     "managedFields": [{"apiVersion": "cluster.x-k8s.io/v1alpha3", "fieldsV1": {"f:spec": {}}}]},
        "spec": {"topology": {"classRef": {"name": class}, "version": version}},
    })
}

/// A class with this list; without one if it is empty.
pub fn class(namespace: &str, name: &str, versions: &[&str]) -> Value {
    let mut class = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"namespace": namespace, "name": name, "resourceVersion": "1"},
        "spec": {},
    });
    if !versions.is_empty() {
        class["spec"]["kubernetesVersions"] = json!(versions);
    }
    class
}
