//! `review`: what is read out of an AdmissionReview, and the whole answers.

use std::collections::BTreeMap;

use capi_version_guard::{
    model::{Change, Cluster, ClusterClass},
    review::{Judged, Question, Request, parse},
    rules::{ClassCase, ClusterCase},
    verdict::{Modes, Verdict},
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A review of an UPDATE of Cluster a/c, changed by `edit`.
fn review(edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let cluster = |version: &str| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
               "metadata": {"namespace": "a", "name": "c", "uid": "u",
                            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}\n"},
                            "managedFields": [{"apiVersion": "cluster.x-k8s.io/v1alpha3", "fieldsV1": {"f:spec": {}}}]},
               "spec": {"topology": {"classRef": {"name": "q"}, "version": version, "unknown": [1, {"x": null}]}}})
    };
    let mut review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "0-1", "kind": {"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": "Cluster"},
            "resource": {"group": "cluster.x-k8s.io", "version": "v1beta2", "resource": "clusters"},
            "name": "c", "namespace": "a", "operation": "UPDATE", "userInfo": {"username": "x"},
            "object": cluster("v1.31.0"), "oldObject": cluster("v1.30.0"), "dryRun": false,
            "options": {"kind": "UpdateOptions"}, "unknown": {"deep": [[[]]]},
        },
    });
    edit(&mut review);
    review.to_string().into_bytes()
}

fn cluster(bytes: &[u8]) -> Request<Cluster> {
    parse(bytes).unwrap()
}

/// What a question is, in a word and its texts.
fn told<T: std::fmt::Debug>(question: &Question<T>) -> String {
    match question {
        Question::Judge(Change::Create(_)) => "create".to_owned(),
        Question::Judge(Change::Update { .. }) => "update".to_owned(),
        Question::Judge(Change::Delete(_)) => "delete".to_owned(),
        Question::NotJudged(text) => format!("not judged: {text}"),
        Question::Undecodable(text) => format!("undecodable: {text}"),
    }
}

#[test]
fn both_objects_are_read() {
    let request = cluster(&review(|_| {}));
    assert_eq!((request.uid.as_str(), request.operation.as_str(), request.dry_run), ("0-1", "UPDATE", false));
    let Question::Judge(Change::Update { old, new }) = &request.question else { panic!("{request:?}") };
    assert_eq!((old.version().unwrap().as_ref(), new.version().unwrap().as_ref()), ("v1.30.0", "v1.31.0"));
    assert_eq!(new.key().to_string(), "a/c");
}

#[test]
fn every_shape_is_read_or_told_of() {
    let narrow = "narrow the rules of its ValidatingWebhookConfiguration to clusters and clusterclasses of \
                  cluster.x-k8s.io";
    let object = "/request/object";
    let cases: Vec<(&str, Vec<u8>, String)> = vec![
        ("CREATE", review(|r| r["request"]["operation"] = json!("CREATE")), "create".to_owned()),
        (
            "DELETE with a null object",
            review(|r| {
                r["request"]["operation"] = json!("DELETE");
                r["request"]["object"] = Value::Null;
            }),
            "delete".to_owned(),
        ),
        (
            "DELETE with two null objects",
            review(|r| {
                r["request"]["operation"] = json!("DELETE");
                r["request"]["object"] = Value::Null;
                r["request"]["oldObject"] = Value::Null;
            }),
            "delete".to_owned(),
        ),
        ("null metadata", review(|r| r["request"]["object"]["metadata"] = Value::Null), "update".to_owned()),
        (
            "odd annotations",
            review(|r| r["request"]["object"]["metadata"]["annotations"] = json!({"a": 5, "b": null})),
            "update".to_owned(),
        ),
        (
            "null annotations",
            review(|r| r["request"]["object"]["metadata"]["annotations"] = Value::Null),
            "update".to_owned(),
        ),
        (
            "no dryRun",
            review(|r| {
                r["request"].as_object_mut().unwrap().remove("dryRun");
            }),
            "update".to_owned(),
        ),
        ("null dryRun", review(|r| r["request"]["dryRun"] = Value::Null), "update".to_owned()),
        (
            "a subresource",
            review(|r| r["request"]["subResource"] = json!("status")),
            format!(
                "not judged: capi-version-guard does not judge clusters/status of group \"cluster.x-k8s.io\"; {narrow}"
            ),
        ),
        (
            "another resource, whose objects have another shape",
            review(|r| {
                r["request"]["resource"]["resource"] = json!("machines");
                r["request"]["object"]["spec"]["topology"] = json!("none");
            }),
            format!("not judged: capi-version-guard does not judge machines of group \"cluster.x-k8s.io\"; {narrow}"),
        ),
        (
            "another group",
            review(|r| r["request"]["resource"]["group"] = json!("x")),
            format!("not judged: capi-version-guard does not judge clusters of group \"x\"; {narrow}"),
        ),
        (
            "another operation",
            review(|r| r["request"]["operation"] = json!("CONNECT")),
            format!("not judged: capi-version-guard does not judge the operation \"CONNECT\"; {narrow}"),
        ),
        (
            "UPDATE without an old object",
            review(|r| r["request"]["oldObject"] = Value::Null),
            "undecodable: failed to read the UPDATE of a Cluster: it has no oldObject".to_owned(),
        ),
        (
            "CREATE without an object",
            review(|r| {
                r["request"]["operation"] = json!("CREATE");
                r["request"]["object"] = Value::Null;
            }),
            "undecodable: failed to read the CREATE of a Cluster: it has no object".to_owned(),
        ),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(told(&cluster(&bytes).question), expected, "{name}");
    }
    let number = review(|r| *r.pointer_mut(object).unwrap() = json!({"spec": {"topology": {"version": 1.30}}}));
    let text = told(&cluster(&number).question);
    assert!(
        text.starts_with(
            "undecodable: failed to decode the Cluster: invalid type: floating point `1.3`, expected a string at line 1"
        ),
        "{text}"
    );
}

#[test]
fn a_generated_name_is_taken_from_the_request() {
    let bytes = review(|r| {
        r["request"]["operation"] = json!("CREATE");
        r["request"]["object"]["metadata"] = json!({"generateName": "c-"});
        r["request"]["name"] = json!("c-x7zq2");
    });
    let Question::Judge(change) = cluster(&bytes).question else { panic!("not judged") };
    assert_eq!(change.object().key().to_string(), "a/c-x7zq2");
}

#[test]
fn bytes_without_a_uid_are_errors() {
    let error = |bytes: &[u8]| {
        let error = parse::<Cluster>(bytes).unwrap_err();
        std::iter::successors(std::error::Error::source(&error), |cause| cause.source())
            .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
    };
    assert_eq!(
        error(b""),
        "failed to decode the request as an AdmissionReview: EOF while parsing a value at line 1 column 0"
    );
    let not = "not \"AdmissionReview\" and \"admission.k8s.io/v1\"";
    assert_eq!(error(b"{}"), format!("failed to read the request: its kind is \"\" and its apiVersion \"\", {not}"));
    let beta = review(|r| r["apiVersion"] = json!("admission.k8s.io/v1beta1"));
    assert_eq!(
        error(&beta),
        format!(
            "failed to read the request: its kind is \"AdmissionReview\" and its apiVersion \"admission.k8s.io/v1beta1\", {not}"
        )
    );
    let no_uid = "failed to read the AdmissionReview: it has no request.uid";
    assert_eq!(error(&review(|r| r["request"]["uid"] = json!(""))), no_uid);
    assert_eq!(error(&review(|r| r["request"] = Value::Null)), no_uid);
    let deep = [b"{\"apiVersion\":".as_slice(), &b"[".repeat(1_000_000)].concat();
    assert!(parse::<Cluster>(&deep).is_err());
}

#[test]
fn a_denial_is_forbidden_with_all_of_it_in_the_message() {
    let bytes = review(|r| r["request"]["object"]["spec"]["topology"]["version"] = json!("v1.29.0"));
    let request = cluster(&bytes);
    let Question::Judge(change) = &request.question else { panic!("{request:?}") };
    let findings = ClusterCase::of(change).unwrap().findings();
    let verdict = Verdict::new("Cluster", &change.object().key(), findings, &Modes::default());
    let answer: Value =
        serde_json::from_slice(&request.respond("c", &verdict, BTreeMap::from([("basis", "index".to_owned())])))
            .unwrap();
    let lowered = "v1.29.0 is lower than v1.30.0, the current version; Cluster API does not downgrade; choose v1.30.0 or \
                   higher";
    assert_eq!(
        answer,
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {
                "uid": "0-1", "allowed": false,
                "status": {
                    "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
                    "message": format!("Cluster a/c: spec.topology.version: {lowered} (version-not-lowered)"),
                    "details": {"group": "cluster.x-k8s.io", "kind": "Cluster", "name": "c", "causes": [
                        {"reason": "version-not-lowered", "field": "spec.topology.version", "message": lowered},
                    ]},
                },
                "warnings": ["Cluster a/c: spec.topology.classRef: ClusterClass a/q does not exist; Cluster API refuses \
                              every update of this Cluster until it does; create the class first (class-exists)"],
                "auditAnnotations": {"basis": "index", "rules": "version-not-lowered,class-exists"},
            },
        })
    );
}

#[test]
fn an_allowed_change_says_nothing_more() {
    let request = cluster(&review(|_| {}));
    let answer: Value = serde_json::from_slice(&request.respond("c", &Verdict::default(), BTreeMap::new())).unwrap();
    let expected = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                          "response": {"uid": "0-1", "allowed": true}});
    assert_eq!(answer, expected);
}

#[test]
fn a_class_of_a_megabyte_is_read_for_its_list_alone() {
    let patch = json!({"name": "p", "definitions": [{"jsonPatches": [{"op": "add", "path": "/x", "value": "y"}]}]});
    let patches: Vec<_> = (0..9_000).map(|_| patch.clone()).collect();
    let class = |list: &[&str]| {
        json!({"metadata": {"namespace": "a", "name": "q"},
                                       "spec": {"patches": patches, "kubernetesVersions": list}})
    };
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "0-2", "resource": {"group": "cluster.x-k8s.io", "version": "v1beta2", "resource": "clusterclasses"},
        "operation": "UPDATE", "object": class(&["latest"]), "oldObject": class(&[])}});
    let bytes = review.to_string().into_bytes();
    assert!(bytes.len() > 1_500_000);
    let request = parse::<ClusterClass>(&bytes).unwrap();
    let Question::Judge(change) = &request.question else { panic!("not judged") };
    assert_eq!(ClassCase::of(change).unwrap().findings().len(), 1);
    assert_eq!(ClusterClass::RESOURCE, "clusterclasses");
}

proptest! {
    /// Half of a review, a review with a byte changed, or anything at all: an answer or an error, never a panic.
    #[test]
    fn no_bytes_make_it_panic(cut in 0_usize..2_000, at in 0_usize..2_000, byte in any::<u8>(), noise in any::<Vec<u8>>()) {
        let whole = review(|_| {});
        let _ = parse::<Cluster>(&whole[..cut.min(whole.len())]);
        let mut changed = whole.clone();
        let at = at % changed.len();
        changed[at] = byte;
        let _ = parse::<Cluster>(&changed);
        let _ = parse::<ClusterClass>(&changed);
        let _ = parse::<Cluster>(&noise);
    }
}
