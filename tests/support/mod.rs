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

/// The same Cluster with a control plane object of this kind and of its own name.
pub fn referring(mut cluster: Value, group: &str, kind: &str) -> Value {
    let name = cluster["metadata"]["name"].clone();
    cluster["spec"]["controlPlaneRef"] = json!({"apiGroup": group, "kind": kind, "name": name});
    cluster
}

/// A control plane object.
pub fn control_plane(namespace: &str, name: &str, version: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "resourceVersion": "1"},
        "spec": {"version": version}, "status": {"version": version},
    })
}

/// A worker set of the Cluster `cluster`, of either kind.
pub fn worker_set(namespace: &str, name: &str, cluster: &str, version: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "resourceVersion": "1",
                     "labels": {"cluster.x-k8s.io/cluster-name": cluster, "topology.cluster.x-k8s.io/owned": ""}},
        "spec": {"clusterName": cluster, "template": {"spec": {"version": version}}},
    })
}

/// The metadata of a CustomResourceDefinition that has these labels.
pub fn definition(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": name, "labels": labels}})
}
