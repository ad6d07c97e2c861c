//! The objects that race.

use capi_version_guard::model::ObjectKey;
use serde_json::{Value, json};

use crate::{
    replay::{Change, Topology},
    world::NAMESPACE,
};

/// The media type of what is not a patch.
pub const JSON: &str = "application/json";

/// Where objects of a kind are created.
pub fn collection(plural: &str) -> String {
    format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/{plural}")
}

/// The revision at which an object was written, as it says itself.
pub fn resource_version(object: &Value) -> Option<String> {
    object["metadata"]["resourceVersion"].as_str().map(str::to_owned)
}

/// What a write of a Cluster does.
pub fn cluster_change(name: &str, class: &str, version: &str) -> Change {
    let class = ObjectKey::new(NAMESPACE, class);
    Change::Cluster(ObjectKey::new(NAMESPACE, name), Some(Topology { class, version: version.to_owned() }))
}

/// A Cluster, labelled with the class whose writers made it.
pub fn cluster(name: &str, race: &str, class: &str, version: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"race": race}},
        "spec": {"topology": {"classRef": {"name": class}, "version": version}},
    })
}

/// A class with this list; null for none.
pub fn class(name: &str, list: &Value) -> Value {
    let template = |kind: &str, group: &str| {
        let api_version = format!("{group}.cluster.x-k8s.io/v1beta2");
        json!({"templateRef": {"apiVersion": api_version, "kind": kind, "name": "template"}})
    };
    let mut class = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "infrastructure": template("DockerClusterTemplate", "infrastructure"),
            "controlPlane": template("KubeadmControlPlaneTemplate", "controlplane"),
        },
    });
    if !list.is_null() {
        class["spec"]["kubernetesVersions"] = list.clone();
    }
    class
}
