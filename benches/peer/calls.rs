//! Reviews sent straight to both, in turn.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};

use crate::{
    client::{Connection, one_second, request},
    figures::p50_p99,
    fleet::{VERSIONS, World},
    peer::{Pair, Peer, Reviews},
    table::{Better, Table},
};

const CLUSTER_CALLS: usize = 4_000;
const CLASS_CALLS: usize = 100;
/// A tick of the processor time is what a hundred class updates cost us, so ours are counted over more.
const OUR_CLASS_CALLS: usize = 10_000;
const SLICES: usize = 8;
const CONNECTIONS: usize = 16;
const DENIALS: usize = 11;

pub fn run(world: &World, pair: &Pair, table: &mut Table) -> Result<()> {
    let reviews = Reviews::new(world)?;
    class(world, pair, &reviews.class, table);
    denial(world, pair, &reviews.drop, table)?;
    for (what, review) in [("version", &reviews.version), ("label", &reviews.label)] {
        let what = format!("Cluster, {what} changes, review of {:.1} KB", review.len() as f64 / 1e3);
        cluster(pair, &what, review, table);
    }
    table.row("memory after all of it", pair.ours.rss(), pair.theirs.rss(), " MB", Better::Less, None);
    Ok(())
}

fn both(pair: &Pair) -> [&Peer; 2] {
    [&pair.ours, &pair.theirs]
}

/// Opens a connection to both, and calls both a few times; what they do once is not measured.
fn open(pair: &Pair, at: usize, review: &[u8]) -> [(Connection, Vec<u8>); 2] {
    both(pair).map(|peer| {
        let request = request(peer.paths[at], review);
        let mut connection = Connection::open(peer.server);
        for _ in 0..3 {
            connection.call(&request);
            let answer = connection.body();
            assert!(answer.contains(r#""allowed":true"#), "{answer}");
        }
        (connection, request)
    })
}

/// Calls both in turn; gives back the seconds of each call, ours first.
fn in_turn(connections: &mut [(Connection, Vec<u8>); 2], calls: usize) -> [Vec<f64>; 2] {
    let mut times = [Vec::with_capacity(calls), Vec::with_capacity(calls)];
    for n in 0..calls {
        // Neither always goes first.
        for at in [n % 2, 1 - n % 2] {
            let (connection, request) = &mut connections[at];
            times[at].push(connection.call(request));
        }
    }
    times
}

fn class(world: &World, pair: &Pair, review: &[u8], table: &mut Table) {
    let what = format!("ClusterClass of {} Clusters, review of {:.1} KB", world.clusters, review.len() as f64 / 1e3);
    let mut connections = open(pair, 1, review);
    let mut times = [Vec::new(), Vec::new()];
    let (theirs, _) = pair.theirs.cost(|| times = in_turn(&mut connections, CLASS_CALLS));
    let memory = [pair.ours.rss(), pair.theirs.rss()];
    let (ours, _) = pair.ours.cost(|| {
        let (connection, request) = &mut connections[0];
        for _ in 0..OUR_CLASS_CALLS {
            connection.call(request);
        }
    });
    let [(our_p50, our_p99), (their_p50, their_p99)] = times.map(p50_p99);
    table.row(format!("{what}: p50"), our_p50 * 1e3, their_p50 * 1e3, " ms", Better::Less, Some(500.0));
    table.row(format!("{what}: p99"), our_p99 * 1e3, their_p99 * 1e3, " ms", Better::Less, None);
    let [ours, theirs] = [ours / OUR_CLASS_CALLS as f64, theirs / CLASS_CALLS as f64].map(|seconds| seconds * 1e3);
    table.row(format!("{what}: processor time"), ours, theirs, " ms", Better::Less, Some(1000.0));
    table.row("memory after 100 class updates", memory[0], memory[1], " MB", Better::Less, Some(10.0));
}

fn denial(world: &World, pair: &Pair, review: &[u8], table: &mut Table) -> Result<()> {
    let mut times = [Vec::new(), Vec::new()];
    let mut sizes = [0, 0];
    for _ in 0..DENIALS {
        for (at, peer) in both(pair).into_iter().enumerate() {
            let (answer, seconds) = whole_answer(peer, &request(peer.paths[1], review))?;
            times[at].push(seconds * 1e3);
            let text = String::from_utf8_lossy(&answer);
            ensure!(text.contains(r#""allowed":false"#) && text.contains("v1.30.0"), "{text}");
            sizes[at] = answer.len();
        }
    }
    let [our_p50, their_p50] = times.map(|times| p50_p99(times).0);
    let users = world.clusters.div_ceil(VERSIONS);
    let what = format!("ClusterClass, a version of {users} Clusters dropped");
    table.row(format!("{what}: answer"), sizes[0] as f64 / 1e3, sizes[1] as f64 / 1e3, " KB", Better::Less, None);
    table.row(format!("{what}: p50"), our_p50, their_p50, " ms", Better::Less, None);
    Ok(())
}

/// The body of an answer that may come in chunks, and the seconds that it took once the connection was there.
fn whole_answer(peer: &Peer, request: &[u8]) -> Result<(Vec<u8>, f64)> {
    let mut connector = SslConnector::builder(SslMethod::tls_client())?;
    connector.set_verify(SslVerifyMode::NONE);
    let stream = TcpStream::connect(peer.server.address)?;
    stream.set_nodelay(true)?;
    let mut stream = connector.build().connect("localhost", stream).ok().context("failed to agree on TLS")?;
    let split = request.windows(2).position(|two| two == b"\r\n").context("a request without a head")?;
    let start = Instant::now();
    stream.write_all(&[&request[..split], b"\r\nConnection: close", &request[split..]].concat())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let seconds = start.elapsed().as_secs_f64();
    let head =
        answer.windows(4).position(|four| four == b"\r\n\r\n").context("an answer without an end of its head")?;
    let chunked = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase().contains("transfer-encoding: chunked");
    let mut rest = &answer[head + 4..];
    if !chunked {
        return Ok((rest.to_vec(), seconds));
    }
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").context("a chunk without a size")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end])?, 16)?;
        if size == 0 {
            return Ok((body, seconds));
        }
        body.extend_from_slice(rest.get(end + 2..end + 2 + size).context("a chunk is cut off")?);
        rest = &rest[end + 2 + size + 2..];
    }
}

fn cluster(pair: &Pair, what: &str, review: &[u8], table: &mut Table) {
    let mut connections = open(pair, 0, review);
    let [(our_p50, our_p99), (their_p50, their_p99)] = in_turn(&mut connections, CLUSTER_CALLS).map(p50_p99);
    table.row(format!("{what}: p50"), our_p50 * 1e3, their_p50 * 1e3, " ms", Better::Less, None);
    table.row(format!("{what}: p99"), our_p99 * 1e3, their_p99 * 1e3, " ms", Better::Less, None);
    let mut many = both(pair).map(|peer| {
        let connections: Vec<_> = (0..CONNECTIONS).map(|_| Connection::open(peer.server)).collect();
        (peer, request(peer.paths[0], review), connections, Load::default())
    });
    for _ in 0..SLICES {
        for (peer, request, connections, load) in &mut many {
            let mut calls = 0;
            let (cpu, seconds) = peer.cost(|| calls = one_second(request, connections));
            load.rates.push(calls as f64 / seconds);
            load.calls += calls;
            load.cpu += cpu;
        }
    }
    let [ours, theirs] = many.map(|(.., load)| load);
    let per_cpu = [ours.calls as f64 / ours.cpu, theirs.calls as f64 / theirs.cpu];
    let [ours, theirs] = [ours.rates, theirs.rates].map(|rates| p50_p99(rates).0);
    table.row(format!("{what}: {CONNECTIONS} connections"), ours, theirs, "/s", Better::More, None);
    table.row(format!("{what}: per processor second"), per_cpu[0], per_cpu[1], "", Better::More, Some(10.0));
}

#[derive(Default)]
struct Load {
    rates: Vec<f64>,
    calls: usize,
    cpu: f64,
}
