//! Reviews of the sizes that are met: a Cluster of 7.6 KB, a class of 34 KB, a class of 2 MB.

use serde_json::{Value, json};

/// What a Cluster or class of these names is asked about.
fn review(resource: &str, kind: &str, old: &Value, new: &Value) -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": kind},
            "resource": {"group": "cluster.x-k8s.io", "version": "v1beta2", "resource": resource},
            "requestKind": {"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": kind},
            "requestResource": {"group": "cluster.x-k8s.io", "version": "v1beta2", "resource": resource},
            "name": new["metadata"]["name"], "namespace": "team-000", "operation": "UPDATE",
            "userInfo": {"username": "system:serviceaccount:capi-system:capi-manager", "groups": ["system:masters"]},
            "object": new, "oldObject": old, "dryRun": false,
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    });
    serde_json::to_vec(&review).unwrap()
}

fn metadata(name: &str, managed_fields: usize) -> Value {
    let entry = |n: usize| {
        json!({"manager": "manager", "operation": "Apply", "apiVersion": "cluster.x-k8s.io/v1beta1",
               "time": "2026-11-30T10:00:00Z", "fieldsType": "FieldsV1",
               "fieldsV1": {"f:spec": {"f:topology": {"f:workers": {format!("f:machineDeployments-{n}"): {}}}}}})
    };
    json!({"name": name, "namespace": "team-000", "uid": "0b5c7e9c-5c4d-4d58-8a57-1f6f5d1d2f11",
           "resourceVersion": "123456", "generation": 7, "creationTimestamp": "2026-01-01T00:00:00Z",
           "labels": {"team": "a"}, "finalizers": ["cluster.cluster.x-k8s.io"],
           "managedFields": (0..managed_fields).map(entry).collect::<Vec<_>>()})
}

/// A Cluster that goes up one version, 7.6 KB.
pub fn cluster() -> Vec<u8> {
    let cluster = |version: &str| {
        let variable = |n: usize| json!({"name": format!("variable-{n}"), "value": {"some": "text", "number": n}});
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata("cluster-0", 9),
               "spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16"]}}, "topology": {
                   "classRef": {"name": "class-0"}, "version": version,
                   "controlPlane": {"replicas": 3}, "variables": (0..14).map(variable).collect::<Vec<_>>(),
                   "workers": {"machineDeployments": [{"class": "default", "name": "md-0", "replicas": 3}]}}}})
    };
    review("clusters", "Cluster", &cluster("v1.30.0"), &cluster("v1.31.0"))
}

/// A class of about `bytes` in the whole review, whose list grows by one version.
pub fn class(name: &str, bytes: usize) -> Vec<u8> {
    let class = |versions: &[String]| {
        let patch = |n: usize| {
            json!({"name": format!("patch-{n}"), "description": "Sets the image of the machines from a variable.",
                   "definitions": [{"selector": {"kind": "DockerMachineTemplate", "apiVersion": "v1beta2",
                       "matchResources": {"controlPlane": true}}, "jsonPatches": [{"op": "add",
                       "path": "/spec/template/spec/customImage", "valueFrom": {"template": "kindest/node:{{ .x }}"}}]}]})
        };
        let patches = bytes / 2 / 370;
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": metadata(name, 4),
               "spec": {"kubernetesVersions": versions, "patches": (0..patches).map(patch).collect::<Vec<_>>()}})
    };
    let versions = crate::baseline::versions();
    let mut more = versions.clone();
    more.push("v1.70.0".to_owned());
    review("clusterclasses", "ClusterClass", &class(&versions), &class(&more))
}
