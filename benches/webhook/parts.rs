//! The parts that need no API server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use capi_version_guard::{config::Config, fleet::Fleet, model::ClusterClass, review, server::judge::Judge};

use crate::{
    baseline,
    client::{Connection, Server, one_second, request},
    reviews,
    table::{Table, p50_p99},
};

/// A review of each size, against the baseline: latency on one connection, throughput on sixteen.
pub fn reviews(table: &mut Table, ours: Server, fixed: Server) {
    let sizes = [
        ("Cluster", "/validate/clusters", reviews::cluster(), 4_000, [1.5, 2.5]),
        ("ClusterClass", "/validate/clusterclasses", reviews::class("class-0", 34_600), 3_000, [2.0, 2.5]),
        ("ClusterClass", "/validate/clusterclasses", reviews::class("class-0", 2_240_000), 200, [2.0, 2.5]),
    ];
    for (kind, path, body, calls, [latency, throughput]) in sizes {
        let what = format!("{kind}, review of {:.1} KB", body.len() as f64 / 1e3);
        let request = request(path, &body);
        let (mut a, mut b) = (Connection::open(ours), Connection::open(fixed));
        a.call(&request);
        let answer = a.body();
        assert!(answer.contains(r#""allowed":true"#), "{answer}");
        let (mut by_us, mut by_fixed) = (Vec::new(), Vec::new());
        for n in 0..calls {
            // In turn, so that neither always finds the caches as the other left them.
            if n % 2 == 0 {
                by_us.push(a.call(&request));
                by_fixed.push(b.call(&request));
            } else {
                by_fixed.push(b.call(&request));
                by_us.push(a.call(&request));
            }
        }
        let ((our_p50, our_p99), (fixed_p50, fixed_p99)) = (p50_p99(by_us), p50_p99(by_fixed));
        table.at_most(format!("{what}: p50, ours / baseline"), our_p50 / fixed_p50, latency, "x");
        table.at_most(format!("{what}: p99, ours / baseline"), our_p99 / fixed_p99, latency, "x");
        table.plain(format!("{what}: p50 / p99"), format!("{:.0} / {:.0} us", our_p50 * 1e6, our_p99 * 1e6));
        let (our_rate, fixed_rate) = rates(&request, ours, fixed);
        table.at_most(
            format!("{what}: baseline / ours, 16 connections, throughput"),
            fixed_rate / our_rate,
            throughput,
            "x",
        );
        table.plain(format!("{what}: 16 connections"), format!("{our_rate:.0}/s"));
    }
}

/// Requests per second of both servers on 16 connections each, second by second in turn; medians.
fn rates(request: &[u8], ours: Server, fixed: Server) -> (f64, f64) {
    let open = |server: Server| (0..16).map(|_| Connection::open(server)).collect::<Vec<_>>();
    let (mut ours, mut fixed) = (open(ours), open(fixed));
    let (mut by_us, mut by_fixed) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        by_us.push(rate(request, &mut ours));
        by_fixed.push(rate(request, &mut fixed));
    }
    (p50_p99(by_us).0, p50_p99(by_fixed).0)
}

fn rate(request: &[u8], connections: &mut [Connection]) -> f64 {
    let start = Instant::now();
    let calls = one_second(request, connections);
    calls as f64 / start.elapsed().as_secs_f64()
}

/// The first request on a new connection, handshake included.
pub fn new_connections(table: &mut Table, ours: Server, fixed: Server) {
    let request = request("/validate/clusters", &reviews::cluster());
    let first = |server| {
        let start = Instant::now();
        Connection::open(server).call(&request);
        start.elapsed().as_secs_f64() * 1e3
    };
    // The connections of the part before are still being closed.
    std::thread::sleep(Duration::from_secs(1));
    let (mut by_us, mut by_fixed) = (Vec::new(), Vec::new());
    for _ in 0..1_000 {
        by_us.push(first(ours));
        by_fixed.push(first(fixed));
    }
    let ((our_p50, our_p99), (fixed_p50, fixed_p99)) = (p50_p99(by_us), p50_p99(by_fixed));
    table.at_most("first request on a new connection: p99", our_p99, 5.0, " ms");
    table.plain("the same of the baseline", format!("{fixed_p99:.2} ms"));
    table.plain("first request on a new connection: p50, ours / baseline", format!("{:.2}x", our_p50 / fixed_p50));
}

/// A class change with few and with very many Clusters of the class, from bytes to verdict in process.
pub fn users(table: &mut Table) {
    let fleets = [10, 10_000, 100_000];
    let judges = fleets.map(|clusters| {
        let fleet = Arc::new(Fleet::from(baseline::index(clusters)));
        Judge::new(fleet, None, Config::default())
    });
    let body = reviews::class("class-0", 34_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let once = |judge: &Judge| {
        let start = Instant::now();
        let request = review::parse::<ClusterClass>(&body).unwrap();
        let review::Question::Judge(change) = &request.question else { panic!("{request:?}") };
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        let judgement = runtime.block_on(judge.class(change, false, deadline)).unwrap();
        assert!(judgement.verdict.allowed(), "{}", judgement.verdict.message());
        start.elapsed().as_secs_f64() * 1e6
    };
    let mut times = fleets.map(|_| Vec::new());
    for _ in 0..2_000 {
        for (judge, times) in judges.iter().zip(&mut times) {
            times.push(once(judge));
        }
    }
    let [few, many, most] = times.map(|times| p50_p99(times).0);
    table.at_most("class update in process, p50: 100,000 Clusters / 10", most / few, 1.1, "x");
    table.plain("class update in process, p50: 10,000 Clusters / 10", format!("{:.2}x", many / few));
    table.plain("class update in process, p50: 10 Clusters", format!("{few:.0} us"));
}
