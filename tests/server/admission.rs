//! Reviews, and requests that are none.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    client::Response,
    running::{CLUSTERS, Running, cluster, creation},
};

const ALLOWED: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u1","allowed":true,"auditAnnotations":{"basis":"manifests"}}}"#;

/// The body of an HTTP error.
fn status(code: u16, reason: &str, message: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Status","status":"Failure","code":{code},"reason":"{reason}","message":{}}}"#,
        Value::from(message)
    )
}

#[test]
fn readable_reviews_are_answered_with_200_and_their_uid() {
    let server = Running::start();
    let good = cluster("b", "v1.31.2");
    let review = |change: &dyn Fn(&mut Value)| {
        let mut review: Value = serde_json::from_str(&creation("u1", &good)).unwrap();
        change(&mut review["request"]);
        review.to_string()
    };
    let cases = [
        ("a good version", CLUSTERS, review(&|_| {}), ALLOWED.to_owned()),
        (
            "a bad version",
            CLUSTERS,
            creation("u2", &cluster("b", "v1.33.0")),
            json!({
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {
                    "uid": "u2",
                    "allowed": false,
                    "status": {
                        "apiVersion": "v1",
                        "kind": "Status",
                        "status": "Failure",
                        "code": 403,
                        "reason": "Forbidden",
                        "message": "Cluster a/b: spec.topology.version: v1.33.0 is not in spec.kubernetesVersions of \
                                    ClusterClass a/quick; choose v1.32.4, or add v1.33.0 to the class (version-listed)",
                        "details": {
                            "group": "cluster.x-k8s.io",
                            "kind": "Cluster",
                            "name": "b",
                            "causes": [{
                                "reason": "version-listed",
                                "message": "v1.33.0 is not in spec.kubernetesVersions of ClusterClass a/quick; choose \
                                            v1.32.4, or add v1.33.0 to the class",
                                "field": "spec.topology.version"
                            }]
                        }
                    },
                    "auditAnnotations": {"basis": "manifests", "rules": "version-listed"}
                }
            })
            .to_string(),
        ),
        (
            "the deletion of a Cluster, which is not judged by anything",
            CLUSTERS,
            review(&|request| {
                request["operation"] = "DELETE".into();
                request["oldObject"] = request["object"].take();
            }),
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u1","allowed":true,"auditAnnotations":{"basis":"request"}}}"#.to_owned(),
        ),
        (
            "a class in use that is deleted",
            "/validate/clusterclasses?timeout=10s",
            review(&|request| {
                request["resource"]["resource"] = "clusterclasses".into();
                request["operation"] = "DELETE".into();
                request["name"] = "quick".into();
                request["object"] = Value::Null;
                request["oldObject"] = json!({"metadata": {"name": "quick", "namespace": "a"}});
            }),
            json!({
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {
                    "uid": "u1",
                    "allowed": false,
                    "status": {
                        "apiVersion": "v1",
                        "kind": "Status",
                        "status": "Failure",
                        "code": 403,
                        "reason": "Forbidden",
                        "message": "ClusterClass a/quick: 1 Cluster uses this class (a/c1); without it Cluster API refuses \
                                    every write of its Clusters; first move these to another class or delete them \
                                    (class-in-use)",
                        "details": {
                            "group": "cluster.x-k8s.io",
                            "kind": "ClusterClass",
                            "name": "quick",
                            "causes": [{
                                "reason": "class-in-use",
                                "message": "1 Cluster uses this class (a/c1); without it Cluster API refuses every \
                                            write of its Clusters; first move these to another class or delete them",
                                "field": ""
                            }]
                        }
                    },
                    "auditAnnotations": {"basis": "manifests", "rules": "class-in-use"}
                }
            })
            .to_string(),
        ),
        (
            "another resource",
            CLUSTERS,
            review(&|request| request["resource"] = json!({"group": "", "version": "v1", "resource": "pods"})),
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u1","allowed":true,"warnings":["capi-version-guard does not judge pods of group \"\"; narrow the rules of its ValidatingWebhookConfiguration to clusters and clusterclasses of cluster.x-k8s.io"]}}"#.to_owned(),
        ),
        (
            "an object that does not decode",
            CLUSTERS,
            review(&|request| request["object"]["spec"]["topology"] = json!([1])),
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u1","allowed":false,"status":{"apiVersion":"v1","kind":"Status","status":"Failure","code":400,"reason":"BadRequest","message":"..."}}}"#.to_owned(),
        ),
    ];
    for (name, target, body, expected) in cases {
        let Response { status, headers, body } = server.post(target, body);
        assert_eq!(status, 200, "{name}");
        assert!(headers.contains(&("content-type".to_owned(), "application/json".to_owned())), "{name}: {headers:?}");
        let (body, expected): (Value, Value) = (from_json(&body), from_json(&expected));
        if name == "an object that does not decode" {
            // The text is the decoder's; its beginning is ours.
            let message = body["response"]["status"]["message"].as_str().unwrap();
            assert!(message.starts_with("failed to decode the Cluster: "), "{message}");
            let mut body = body.clone();
            body["response"]["status"]["message"] = "...".into();
            assert_eq!(body, expected, "{name}");
        } else {
            assert_eq!(body, expected, "{name}");
        }
    }
}

fn from_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn what_is_no_review_is_answered_with_a_status() {
    let server = Running::start();
    let review = creation("u1", &cluster("b", "v1.31.2"));
    let request = |line: &str, headers: &str, body: &str| {
        format!("{line} HTTP/1.1\r\nHost: webhook\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    let post = |headers: &str, body: &str| request("POST /validate/clusters?timeout=10s", headers, body);
    let nothing = "there is nothing at this path; the webhooks are /validate/clusters and /validate/clusterclasses";
    let bomb = "[".repeat(1_000_000);
    let deep = format!("{}{}", r#"{"a":"#.repeat(100_000), "1");
    let cases = [
        ("another path", request("POST /", "", &review), 404, "NotFound", nothing),
        ("a path with a slash too much", request("POST /validate/clusters/", "", &review), 404, "NotFound", nothing),
        ("a path with dots", request("POST /validate/../validate/clusters", "", &review), 404, "NotFound", nothing),
        ("a path to be decoded", request("POST //evil.example/%2e%2e", "", ""), 404, "NotFound", nothing),
        (
            "another method",
            request("GET /validate/clusters", "", ""),
            405,
            "MethodNotAllowed",
            "reviews are sent by POST",
        ),
        (
            "another method, at classes",
            request("DELETE /validate/clusterclasses", "", ""),
            405,
            "MethodNotAllowed",
            "reviews are sent by POST",
        ),
        (
            "YAML",
            post("Content-Type: application/yaml\r\n", &review),
            415,
            "UnsupportedMediaType",
            "failed to read the request: its Content-Type is \"application/yaml\"; send application/json",
        ),
        (
            "a packed body",
            post("Content-Type: application/json\r\nContent-Encoding: gzip\r\n", &review),
            415,
            "UnsupportedMediaType",
            "failed to read the request: its Content-Encoding is \"gzip\"; send it as it is",
        ),
        (
            "a body packed twice",
            post("Content-Encoding: identity\r\nContent-Encoding: br\r\n", &review),
            415,
            "UnsupportedMediaType",
            "failed to read the request: its Content-Encoding is \"br\"; send it as it is",
        ),
        (
            "no body",
            post("", ""),
            400,
            "BadRequest",
            "failed to decode the request as an AdmissionReview: EOF while parsing a value at line 1 column 0",
        ),
        (
            "no JSON",
            post("", "kind: AdmissionReview"),
            400,
            "BadRequest",
            "failed to decode the request as an AdmissionReview: expected value at line 1 column 1",
        ),
        (
            "another kind",
            post("", r#"{"apiVersion":"v1","kind":"Po\nd"}"#),
            400,
            "BadRequest",
            "failed to read the request: its kind is \"Po\\nd\" and its apiVersion \"v1\", not \"AdmissionReview\" and \"admission.k8s.io/v1\"",
        ),
        (
            "no uid",
            post("", r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}"#),
            400,
            "BadRequest",
            "failed to read the AdmissionReview: it has no request.uid",
        ),
        (
            "a million brackets",
            post("", &bomb),
            400,
            "BadRequest",
            "failed to decode the request as an AdmissionReview: invalid type: sequence, expected a string at line 1 column \
             1",
        ),
        (
            "objects in objects, unknown to us",
            post("", &deep),
            400,
            "BadRequest",
            "failed to decode the request as an AdmissionReview: EOF while parsing an object at line 1 column 500001",
        ),
    ];
    for (name, bytes, code, reason, message) in cases {
        let mut connection = server.connect();
        connection.send(bytes.as_bytes());
        let response = connection.response();
        assert_eq!(response.body, status(code, reason, message), "{name}");
        assert_eq!(response.status, code, "{name}");
        assert_eq!(response.header("content-type"), Some("application/json"), "{name}");
        assert_eq!(response.header("location"), None, "{name}");
        assert_eq!(response.header("retry-after"), None, "{name}");
        assert_eq!(response.header("allow"), (code == 405).then_some("POST"), "{name}");
    }
}

#[test]
fn a_depth_bomb_in_an_object_is_refused_and_the_server_lives() {
    let server = Running::start();
    let review = creation("u1", &cluster("b", "v1.31.2"));
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let bomb = format!("{}1{}", open.repeat(1_000_000), close.repeat(1_000_000));
        let at = review.find(r#""spec":{"#).unwrap() + r#""spec":{"#.len();
        let (before, after) = review.split_at(at);
        let response = server.post(CLUSTERS, format!(r#"{before}"x":{bomb},{after}"#));
        // Unknown fields are passed over without recursion, however deep they are.
        assert_eq!((response.status, response.body.as_str()), (200, ALLOWED));
    }
    assert_eq!(server.post(CLUSTERS, &review).body, ALLOWED);
}

#[test]
fn headers_that_the_api_server_may_send_change_nothing() {
    let server = Running::start();
    let review = creation("u1", &cluster("b", "v1.31.2"));
    let headers = [
        "",
        "Content-Type: application/json\r\n",
        "Content-Type: Application/JSON; charset=utf-8\r\n",
        "Content-Encoding: identity\r\n",
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=b\r\n",
        "Accept: application/json, */*\r\nUser-Agent: kube-apiserver-admission\r\nAccept-Encoding: gzip\r\n",
        "Authorization: Bearer x\r\n",
    ];
    let mut connection = server.connect();
    for header in headers {
        let length = review.len();
        connection.send(
            format!("POST {CLUSTERS} HTTP/1.1\r\nHost: webhook\r\n{header}Content-Length: {length}\r\n\r\n{review}")
                .as_bytes(),
        );
        let response = connection.response();
        assert_eq!((response.status, response.body.as_str()), (200, ALLOWED), "{header}");
        assert!(!response.closes(), "{header}");
    }
}

#[test]
fn a_body_without_a_length_is_read() {
    let server = Running::start();
    let review = creation("u1", &cluster("b", "v1.31.2"));
    let (first, second) = review.split_at(100);
    let mut connection = server.connect();
    connection
        .send(format!("POST {CLUSTERS} HTTP/1.1\r\nHost: webhook\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes());
    for part in [first, second, ""] {
        connection.send(format!("{:x}\r\n{part}\r\n", part.len()).as_bytes());
    }
    assert_eq!(connection.response().body, ALLOWED);
    assert_eq!(connection.post(CLUSTERS, review.as_bytes()).body, ALLOWED, "the connection is still good");
}

#[test]
fn a_fleet_that_is_not_listed_yet_gives_no_verdict() {
    let server = Running::with(|setup| setup.fleet = Arc::default());
    let response = server.post(CLUSTERS, creation("u1", &cluster("b", "v1.31.2")));
    let message = "capi-version-guard has not listed the ClusterClasses yet; try again in a few seconds";
    assert_eq!((response.status, response.body.as_str()), (503, status(503, "ServiceUnavailable", message).as_str()));
    assert_eq!(response.header("retry-after"), Some("1"));
    assert_eq!(server.metric("capi_version_guard_refused_requests_total{reason=\"unavailable\"}"), "1");
    // The ratchet needs no fleet.
    let mut unchanged: Value = from_json(&creation("u1", &cluster("b", "v1.31.2")));
    unchanged["request"]["operation"] = "UPDATE".into();
    unchanged["request"]["oldObject"] = unchanged["request"]["object"].clone();
    assert_eq!(
        server.post(CLUSTERS, unchanged.to_string()).body,
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u1","allowed":true,"auditAnnotations":{"basis":"request"}}}"#
    );
}
