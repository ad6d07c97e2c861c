//! Sizes, times and how much at once.

use std::{
    thread,
    time::{Duration, Instant},
};

use capi_version_guard::server::body::LARGEST;

use crate::{
    client::Connection,
    running::{CLUSTERS, Running, cluster, creation},
};

const TOO_LARGE: &str = r#"{"apiVersion":"v1","kind":"Status","status":"Failure","code":413,"reason":"RequestEntityTooLarge","message":"failed to read the request: it is larger than 7 MiB"}"#;
const TOO_SLOW: &str = r#"{"apiVersion":"v1","kind":"Status","status":"Failure","code":408,"reason":"Timeout","message":"failed to read the request: it was not complete before its answer was due"}"#;

/// A review of exactly this many bytes.
fn review_of(size: usize) -> String {
    let review = creation("u1", &cluster("b", "v1.31.2"));
    format!("{review}{}", " ".repeat(size - review.len()))
}

fn head(target: &str, length: usize) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: webhook\r\nContent-Length: {length}\r\n\r\n")
}

#[test]
fn seven_mebibytes_pass_and_a_byte_more_does_not() {
    let server = Running::start();
    assert_eq!(server.post(CLUSTERS, review_of(LARGEST)).status, 200);

    let response = server.post(CLUSTERS, review_of(LARGEST + 1));
    assert_eq!((response.status, response.body.as_str()), (413, TOO_LARGE));
    assert!(response.closes(), "nobody reads the rest");

    // Without a length the limit is met on the way.
    let mut connection = server.connect();
    connection
        .send(format!("POST {CLUSTERS} HTTP/1.1\r\nHost: webhook\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes());
    let body = review_of(LARGEST + 1);
    connection.send(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes());
    let response = connection.response();
    assert_eq!((response.status, response.body.as_str()), (413, TOO_LARGE));
    assert_eq!(server.metric("capi_version_guard_refused_requests_total{reason=\"size\"}"), "2");
}

#[test]
fn a_declared_length_alone_costs_its_sender_nothing_and_us_neither() {
    // Room for one large body only: declarations of many must not take it.
    let server = Running::with(|setup| setup.limits.bytes = LARGEST + 1024);
    let mut idle: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for connection in &mut idle {
        connection.send(head(CLUSTERS, LARGEST).as_bytes());
    }
    assert_eq!(server.post(CLUSTERS, review_of(LARGEST)).status, 200);
}

#[test]
fn a_slow_body_ends_by_the_deadline_while_others_are_served() {
    let server = Running::start();
    let review = creation("u1", &cluster("b", "v1.31.2"));
    let started = Instant::now();
    let mut slow = server.connect();
    slow.send(head("/validate/clusters?timeout=2s", review.len()).as_bytes());
    slow.send(&review.as_bytes()[..10]);
    let mut other = server.connect();
    let mut answered = 0;
    while started.elapsed() < Duration::from_millis(700) {
        assert_eq!(other.post(CLUSTERS, review.as_bytes()).status, 200);
        answered += 1;
    }
    let response = slow.response();
    let took = started.elapsed();
    assert_eq!((response.status, response.body.as_str()), (408, TOO_SLOW));
    // A second less than the API server waits.
    assert!(took > Duration::from_millis(950) && took < Duration::from_millis(1900), "{took:?}");
    assert!(answered > 10, "{answered}");
    assert!(slow.ends(), "the rest of the body must not be taken for a request");
}

#[test]
fn many_that_dribble_do_not_keep_others_out() {
    const SLOW: usize = 300;
    let server = Running::start();
    let review = creation("u1", &cluster("b", "v1.31.2"));
    let mut slow: Vec<_> = (0..SLOW).map(|_| server.connect()).collect();
    for connection in &mut slow {
        connection.send(head("/validate/clusters?timeout=30s", LARGEST).as_bytes());
    }
    let mut times = Vec::new();
    for round in 0..5 {
        for connection in &mut slow {
            connection.send(b" ");
        }
        for _ in 0..20 {
            let started = Instant::now();
            let response = server.post(CLUSTERS, review.as_bytes());
            times.push(started.elapsed());
            assert_eq!(response.status, 200, "round {round}");
        }
    }
    times.sort();
    println!("new connection and review beside {SLOW} dribbling ones: p50 {:?}, p99 {:?}", times[50], times[98]);
}

#[test]
fn a_full_server_refuses_at_once_and_asks_to_come_back() {
    let review = creation("u1", &cluster("b", "v1.31.2"));
    let refused = |server: &Running, message: &str| {
        let started = Instant::now();
        let response = server.post(CLUSTERS, review.as_bytes());
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"Status","status":"Failure","code":503,"reason":"ServiceUnavailable","message":"{message}"}}"#
        );
        assert_eq!((response.status, &response.body), (503, &body));
        assert_eq!(response.header("retry-after"), Some("1"));
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    };

    let server = Running::with(|setup| setup.limits.requests = 0);
    refused(&server, "capi-version-guard judges 0 requests at once and no more; try again");
    assert_eq!(server.metric("capi_version_guard_refused_requests_total{reason=\"full\"}"), "1");

    let server = Running::with(|setup| setup.limits.bytes = 64 << 10);
    let mut large = server.connect();
    let body = review_of(64 << 10);
    large.send(head(CLUSTERS, body.len()).as_bytes());
    large.send(&body.as_bytes()[..body.len() - 1]);
    let full = "capi-version-guard holds 64 KiB of requests and no more; try again";
    // What was sent may not be there yet.
    let deadline = Instant::now() + Duration::from_secs(5);
    while server.post(CLUSTERS, review.as_bytes()).status == 200 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    refused(&server, full);
    large.send(b" ");
    assert_eq!(large.response().status, 200);
    assert_eq!(server.post(CLUSTERS, review.as_bytes()).status, 200, "the room is free again");
}

#[test]
fn idle_connections_outlive_the_defaults_of_the_framework() {
    let server = Running::start();
    let review = creation("u1", &cluster("b", "v1.31.2"));
    let mut used = server.connect();
    assert_eq!(used.post(CLUSTERS, review.as_bytes()).status, 200);
    // Opened in a burst and not needed: the API server pools it as well.
    let mut unused = server.connect();
    // The framework closes the one and the other after 5 s.
    thread::sleep(Duration::from_millis(6500));
    assert_eq!(used.post(CLUSTERS, review.as_bytes()).status, 200);
    assert_eq!(unused.post(CLUSTERS, review.as_bytes()).status, 200);
}

#[test]
fn the_first_request_on_a_new_connection_does_not_wait_for_an_acknowledgement() {
    let server = Running::start();
    let review = creation("u1", &cluster("b", "v1.31.2"));
    let mut times: Vec<_> = (0..50)
        .map(|_| {
            let started = Instant::now();
            let mut connection = Connection::open(server.addresses.webhook, &server.ca);
            assert_eq!(connection.post(CLUSTERS, review.as_bytes()).status, 200);
            started.elapsed()
        })
        .collect();
    times.sort();
    // No bound: other tests run beside this one. With Nagle's algorithm the median is above 40 ms.
    println!("new connection and first review: p50 {:?}, p98 {:?}", times[25], times[48]);
}
