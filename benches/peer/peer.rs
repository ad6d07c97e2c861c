//! The two processes: their processor time, their memory, and how long they take to start.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    client::{Connection, Server, request},
    figures::p50_p99,
    fleet::{self, World},
    reviews,
    system::api,
    table::{Better, Table},
};

/// A second of /proc in ticks: USER_HZ, the same on every Linux that this runs on.
const TICKS: f64 = 100.0;
const STARTS: usize = 3;

/// A process that serves webhooks.
#[derive(Clone, Copy)]
pub struct Peer {
    pub id: u32,
    pub server: Server,
    /// Where it validates Clusters, and where ClusterClasses.
    pub paths: [&'static str; 2],
    /// Seconds of processor time that it uses in a second when nobody asks.
    pub idle: f64,
}

/// Both.
pub struct Pair {
    pub ours: Peer,
    pub theirs: Peer,
}

impl Peer {
    fn new(id: u32, port: u16, paths: [&'static str; 2]) -> Self {
        Self { id, server: Server { address: ([127, 0, 0, 1], port).into() }, paths, idle: 0.0 }
    }

    /// Processor time used so far, in seconds.
    pub fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id)).unwrap();
        // The name in parentheses may hold anything; utime and stime are the 14th and 15th field of all.
        let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().unwrap()).sum();
        ticks / TICKS
    }

    /// Processor time that `work` costs it beyond what it uses anyway, and the seconds that the work took.
    pub fn cost(&self, work: impl FnOnce()) -> (f64, f64) {
        let (start, before) = (Instant::now(), self.cpu());
        work();
        let seconds = start.elapsed().as_secs_f64();
        ((self.cpu() - before - self.idle * seconds).max(0.0), seconds)
    }

    /// Resident memory in MB.
    pub fn rss(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id)).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }

    /// Waits until it has nothing to do.
    pub fn rest(&self) {
        let start = Instant::now();
        let mut quiet = 0;
        while quiet < 4 {
            assert!(start.elapsed() < Duration::from_mins(10), "process {} does not come to rest", self.id);
            let before = self.cpu();
            thread::sleep(Duration::from_millis(500));
            quiet = if self.cpu() - before <= 0.03 { quiet + 1 } else { 0 };
        }
    }

    /// Waits until it admits `review`, and gives back the seconds since `start`.
    fn admits(&self, at: usize, review: &[u8], start: Instant) -> f64 {
        let request = request(self.paths[at], review);
        let mut connection = Connection::open(self.server);
        loop {
            connection.call(&request);
            let answer = connection.body();
            if answer.contains(r#""allowed":true"#) {
                return start.elapsed().as_secs_f64();
            }
            assert!(start.elapsed() < Duration::from_mins(1), "{answer}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The reviews that are asked again and again; both admit them.
pub struct Reviews {
    /// A Cluster goes up one version.
    pub version: Vec<u8>,
    /// A label of a Cluster changes.
    pub label: Vec<u8>,
    /// A class lists one version more.
    pub class: Vec<u8>,
    /// A class drops the version of every 30th Cluster; nobody admits that.
    pub drop: Vec<u8>,
}

impl Reviews {
    pub fn new(world: &World) -> Result<Self> {
        let cluster = world.object(&api::cluster_path(&fleet::namespace(0), &fleet::name(0)))?;
        let class = world.class()?;
        let list =
            |versions: Vec<String>| -> Value { reviews::with(&class, "/spec/kubernetesVersions", json!(versions)) };
        let mut more = fleet::versions();
        more.push(fleet::version(fleet::VERSIONS));
        let up = reviews::with(&cluster, "/spec/topology/version", json!(fleet::version(1)));
        let label = reviews::with(&cluster, "/metadata/labels/tier", json!("test"));
        Ok(Self {
            version: reviews::update("clusters", &cluster, &up),
            label: reviews::update("clusters", &cluster, &label),
            class: reviews::update("clusterclasses", &class, &list(more)),
            drop: reviews::update("clusterclasses", &class, &list(fleet::versions()[1..].to_vec())),
        })
    }
}

impl Pair {
    /// Starts both some times in turn, with the fleet there, and leaves them running and at rest.
    pub fn start(world: &mut World, table: &mut Table) -> Result<Self> {
        let theirs = |world: &World| {
            let paths =
                ["/validate-cluster-x-k8s-io-v1beta2-cluster", "/validate-cluster-x-k8s-io-v1beta2-clusterclass"];
            Peer::new(world.manager.id(), world.manager.port, paths)
        };
        let ours = |world: &World| {
            let id = world.webhook.id().context("the webhook does not run")?;
            anyhow::Ok(Peer::new(id, world.webhook.port, ["/validate/clusters", "/validate/clusterclasses"]))
        };
        // It was dead while the fleet was made.
        world.manager.restart()?;
        theirs(world).rest();
        let reviews = Reviews::new(world)?;
        let mut times: [[Vec<f64>; 3]; 2] = Default::default();
        for _ in 0..STARTS {
            let start = Instant::now();
            world.webhook.start(&world.control_plane)?;
            let ready = start.elapsed().as_secs_f64();
            let peer = ours(world)?;
            let verdicts = [peer.admits(0, &reviews.version, start), peer.admits(1, &reviews.class, start)];
            for (times, time) in times[0].iter_mut().zip([ready, verdicts[0], verdicts[1]]) {
                times.push(time);
            }
            peer.rest();

            let start = Instant::now();
            let ready = world.manager.restart()?.as_secs_f64();
            let peer = theirs(world);
            let verdicts = [peer.admits(0, &reviews.version, start), peer.admits(1, &reviews.class, start)];
            for (times, time) in times[1].iter_mut().zip([ready, verdicts[0], verdicts[1]]) {
                times.push(time);
            }
            // It looks at every paused Cluster once.
            peer.rest();
        }
        let [ours_took, theirs_took] = times.map(|of| of.map(|times| p50_p99(times).0));
        for (at, what) in ["ready", "first verdict on a Cluster", "first verdict on a ClusterClass"].iter().enumerate()
        {
            let what = format!("start with {} Clusters to {what}, median of {STARTS}", world.clusters);
            table.row(what, ours_took[at], theirs_took[at], " s", Better::Less, None);
        }
        let mut pair = Self { ours: ours(world)?, theirs: theirs(world) };
        ensure!(pair.ours.id != pair.theirs.id, "one process cannot be both");
        for peer in [&mut pair.ours, &mut pair.theirs] {
            peer.rest();
            let (used, seconds) = peer.cost(|| thread::sleep(Duration::from_secs(10)));
            peer.idle = used / seconds;
        }
        table.row(
            "processor time when idle",
            pair.ours.idle * 1e3,
            pair.theirs.idle * 1e3,
            " ms/s",
            Better::Less,
            None,
        );
        table.row("memory when idle", pair.ours.rss(), pair.theirs.rss(), " MB", Better::Less, None);
        Ok(pair)
    }
}
