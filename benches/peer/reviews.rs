//! Reviews as the API server words them, of objects that are there.

use serde_json::{Value, json};

/// What an update from `old` to `new` is asked about.
pub fn update(resource: &str, old: &Value, new: &Value) -> Vec<u8> {
    let kind = json!({"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": old["kind"]});
    let of = json!({"group": "cluster.x-k8s.io", "version": "v1beta2", "resource": resource});
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": kind, "resource": of, "requestKind": kind,
            "requestResource": of, "name": old["metadata"]["name"], "namespace": old["metadata"]["namespace"],
            "operation": "UPDATE", "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
            "object": new, "oldObject": old, "dryRun": false,
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    });
    review.to_string().into_bytes()
}

/// `old` with `value` at a place that is there.
pub fn with(old: &Value, pointer: &str, value: Value) -> Value {
    let mut new = old.clone();
    *new.pointer_mut(pointer).unwrap() = value;
    new
}
