//! Probes, metrics, and how the server leaves.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use capi_version_guard::{fleet::Event, model::ObjectKey};
use serde_json::Value;

use crate::{
    client::Connection,
    running::{CLUSTERS, Running, cluster, creation},
};

#[test]
fn a_server_is_ready_when_it_knows_both_kinds() {
    let server = Running::with(|setup| setup.fleet = Arc::default());
    let healthy = server.health("/healthz");
    assert_eq!((healthy.status, healthy.body.as_str()), (200, "ok"));

    let ready = server.health("/readyz");
    let text = "[-]clusters-synced failed: not listed yet\n[-]clusterclasses-synced failed: not listed yet\n\
                [+]clusters-fresh ok\n[+]clusterclasses-fresh ok\n[+]certificate ok\n[+]shutdown ok\nreadyz check failed\n";
    assert_eq!((ready.status, ready.body.as_str()), (503, text));

    server.fleet.index.write().handle_cluster(Event::Completed);
    let ready = server.health("/readyz");
    let text = "[+]clusters-synced ok\n[-]clusterclasses-synced failed: not listed yet\n\
                [+]clusters-fresh ok\n[+]clusterclasses-fresh ok\n[+]certificate ok\n[+]shutdown ok\nreadyz check failed\n";
    assert_eq!((ready.status, ready.body.as_str()), (503, text));

    server.fleet.index.write().handle_class(Event::Completed);
    let ready = server.health("/readyz");
    assert_eq!((ready.status, ready.body.as_str()), (200, "ok"));
    for target in ["/readyz?verbose", "/readyz?verbose=true", "/readyz?a=b&verbose"] {
        let text = "[+]clusters-synced ok\n[+]clusterclasses-synced ok\n[+]clusters-fresh ok\n\
                    [+]clusterclasses-fresh ok\n[+]certificate ok\n[+]shutdown ok\n\
                    [!]machinedeployments not listed yet\n[!]machinepools not listed yet\n\
                    [+]cluster-api v1.14 (source: default)\nreadyz check passed\n";
        let ready = server.health(target);
        assert_eq!((ready.status, ready.body.as_str()), (200, text), "{target}");
    }
    assert_eq!(server.health("/other").status, 404);
}

#[test]
fn every_metric_is_there_and_no_name_is() {
    let server = Running::start();
    let mut review: Value = serde_json::from_str(&creation("uid-1", &cluster("name-1", "v1.99.0"))).unwrap();
    assert_eq!(server.post(CLUSTERS, review.to_string()).status, 200);
    review["request"]["operation"] = "operation-1".into();
    assert_eq!(server.post(CLUSTERS, review.to_string()).status, 200);
    review["request"]["operation"] = "CREATE".into();
    review["request"]["object"]["spec"] = "spec-1".into();
    assert_eq!(server.post(CLUSTERS, review.to_string()).status, 200);
    assert_eq!(server.post("/path-1", "").status, 404);
    server.fleet.index.write().handle_class(Event::Undecodable(ObjectKey::new("namespace-1", "name-2")));
    server.fleet.clusters.touch();

    let response = Connection::plain(server.addresses.metrics).get("/metrics");
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    let text = response.body;
    assert!(text.ends_with("# EOF\n"), "{text}");
    for family in [
        "capi_version_guard_requests counter",
        "capi_version_guard_findings counter",
        "capi_version_guard_request_duration_seconds histogram",
        "capi_version_guard_refused_requests counter",
        "capi_version_guard_certificate_reload_failures counter",
        "capi_version_guard_certificate_not_after_timestamp_seconds gauge",
        "capi_version_guard_build info",
        "capi_version_guard_index_objects gauge",
        "capi_version_guard_index_undecodable gauge",
        "capi_version_guard_index_versions_in_use gauge",
        "capi_version_guard_index_staleness_seconds gauge",
        "capi_version_guard_index_forbidden gauge",
        "capi_version_guard_control_plane_kinds gauge",
        "capi_version_guard_cluster_api info",
    ] {
        assert_eq!(text.matches(&format!("# TYPE {family}\n")).count(), 1, "{family} in\n{text}");
    }
    for line in [
        "capi_version_guard_requests_total{resource=\"clusters\",operation=\"CREATE\",verdict=\"denied\"} 1",
        "capi_version_guard_requests_total{resource=\"clusters\",operation=\"CREATE\",verdict=\"undecodable\"} 1",
        "capi_version_guard_requests_total{resource=\"clusters\",operation=\"other\",verdict=\"not_judged\"} 1",
        "capi_version_guard_findings_total{rule=\"version-listed\",effect=\"deny\"} 1",
        "capi_version_guard_findings_total{rule=\"class-exists\",effect=\"warn\"} 0",
        "capi_version_guard_refused_requests_total{reason=\"path\"} 1",
        "capi_version_guard_request_duration_seconds_count{resource=\"clusters\"} 3",
        "capi_version_guard_index_objects{kind=\"Cluster\"} 1",
        "capi_version_guard_index_objects{kind=\"ClusterClass\"} 1",
        "capi_version_guard_index_undecodable{kind=\"Cluster\"} 0",
        "capi_version_guard_index_undecodable{kind=\"ClusterClass\"} 1",
        "capi_version_guard_index_objects{kind=\"MachineDeployment\"} 0",
        "capi_version_guard_index_objects{kind=\"MachinePool\"} 0",
        "capi_version_guard_index_versions_in_use 1",
        "capi_version_guard_index_forbidden{kind=\"MachineDeployment\"} 0",
        "capi_version_guard_index_forbidden{kind=\"MachinePool\"} 0",
        "capi_version_guard_control_plane_kinds{state=\"followed\"} 0",
        "capi_version_guard_control_plane_kinds{state=\"unreadable\"} 0",
        "capi_version_guard_cluster_api_info{version=\"v1.14\",source=\"default\",known=\"true\"} 1",
        "capi_version_guard_certificate_reload_failures_total 0",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} in\n{text}");
    }
    for part in [
        "capi_version_guard_request_duration_seconds_bucket{le=\"0.005\",resource=\"clusters\"} ",
        "capi_version_guard_index_staleness_seconds{kind=\"Cluster\"} 0.",
        concat!("capi_version_guard_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!text.contains("index_staleness_seconds{kind=\"ClusterClass\"}"), "never heard of");
    for name in ["-1", "-2", "quick", "c1", "v1.", "{kind=\"a"] {
        let labels = text.lines().filter(|line| !line.starts_with('#') && !line.contains("cluster_api_info"));
        let labels: Vec<_> = labels.collect();
        assert!(labels.iter().all(|line| !line.contains(name)), "{name} in\n{text}");
    }
}

#[test]
fn a_signal_makes_the_server_unready_then_ends_it_while_it_answers_on() {
    let server = Running::with(|setup| setup.grace = Duration::from_secs(1));
    let review = creation("u1", &cluster("b", "v1.31.2"));
    let mut before = server.connect();
    assert!(!before.post(CLUSTERS, review.as_bytes()).closes());
    let mut idle = server.connect();
    assert_eq!(idle.post(CLUSTERS, review.as_bytes()).status, 200);

    server.signal("SIGTERM");
    let told = Instant::now();
    let text = "[+]clusters-synced ok\n[+]clusterclasses-synced ok\n[+]clusters-fresh ok\n\
                [+]clusterclasses-fresh ok\n[+]certificate ok\n[-]shutdown failed: about to leave\nreadyz check failed\n";
    while server.health("/readyz").status == 200 {
        assert!(told.elapsed() < Duration::from_millis(500), "unready at once");
    }
    assert_eq!(server.health("/readyz").body, text);
    assert_eq!(server.health("/healthz").status, 200, "no restart while it drains");

    let response = before.post(CLUSTERS, review.as_bytes());
    assert_eq!((response.status, response.closes()), (200, true), "a connection of before is asked to close");
    assert!(before.ends());
    let mut new = server.connect();
    let response = new.post(CLUSTERS, review.as_bytes());
    assert_eq!((response.status, response.closes()), (200, true), "new connections are still served");
    assert_eq!(server.post("/", "").header("connection"), Some("close"), "errors close as well");

    // One that is on its way at the end of the grace is answered after it.
    let mut late = server.connect();
    late.send(
        format!("POST {CLUSTERS} HTTP/1.1\r\nHost: webhook\r\nContent-Length: {}\r\n\r\n", review.len()).as_bytes(),
    );
    let (address, ca) = (server.addresses.webhook, server.ca.clone());
    let ended = thread::spawn(move || server.ended());
    while Connection::try_open(address, &ca).is_ok() {
        assert!(told.elapsed() < Duration::from_secs(5), "the listener closes");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(told.elapsed() > Duration::from_millis(990), "not before the grace is over: {:?}", told.elapsed());
    assert!(idle.ends(), "idle connections are closed");
    late.send(review.as_bytes());
    let response = late.response();
    assert_eq!((response.status, response.closes()), (200, true));
    ended.join().unwrap().unwrap();
    assert!(told.elapsed() < Duration::from_secs(5), "nothing is left to wait for: {:?}", told.elapsed());
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let server = Running::with(|setup| setup.grace = Duration::from_mins(1));
    server.signal("SIGTERM");
    server.signal("SIGINT");
    let started = Instant::now();
    let error = server.ended().unwrap_err();
    assert_eq!(error.to_string(), "left at once at a second SIGINT; requests may be unanswered");
    assert!(started.elapsed() < Duration::from_secs(5));
}
