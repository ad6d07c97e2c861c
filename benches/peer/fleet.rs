//! The system, and the fleet: one class with 30 versions, and 10,000 paused Clusters that use it.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{
    installed, progress,
    stack::{control_plane::ControlPlane, webhook::Webhook},
    system::{
        api::{self, Api},
        definitions::{self, CONTROL_PLANE},
        fleet,
        manager::{Manager, Options, Release},
        start_cluster_api,
    },
};

/// How many versions the class lists; the Clusters are spread over them.
pub const VERSIONS: usize = 30;
/// So many of the Clusters, the first ones, have a control plane and are ready for another version.
pub const ASKED_ABOUT: usize = 200;
pub const CLASS: &str = "class-0";
const NAMESPACES: usize = 100;
const PARALLEL: usize = 16;

/// What runs.
pub struct World {
    // Dropped in this order.
    pub webhook: Webhook,
    pub manager: Manager,
    pub api: Api,
    pub runtime: Runtime,
    pub control_plane: ControlPlane,
    /// How many there are.
    pub clusters: usize,
}

/// The version at a place of the list, or the one behind its end.
pub fn version(at: usize) -> String {
    format!("v1.{}.0", 30 + at)
}

pub fn versions() -> Vec<String> {
    (0..VERSIONS).map(version).collect()
}

pub fn namespace(n: usize) -> String {
    format!("team-{:03}", n % NAMESPACES)
}

pub fn name(n: usize) -> String {
    format!("cluster-{n:05}")
}

impl World {
    /// Starts the system and creates the fleet. Then neither webhook is running, and only Cluster API's are installed.
    pub fn start(directory: &Path, release: &Release, clusters: usize) -> Result<Self> {
        let (control_plane, manager) = start_cluster_api(directory, release, Options { runtime_sdk: true })?;
        let mut webhook = Webhook::new("guard", &control_plane, None)?;
        webhook.levels = "info";
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let api = runtime.block_on(Api::new(&control_plane.admin_kubeconfig("default")))?;
        let mut world = Self { webhook, manager, api, runtime, control_plane, clusters };
        world.create_fleet()?;
        Ok(world)
    }

    /// Reads an object.
    pub fn object(&self, path: &str) -> Result<Value> {
        self.runtime.block_on(self.api.get(path))?.with_context(|| format!("{path} is not there"))
    }

    /// The class.
    pub fn class(&self) -> Result<Value> {
        self.object(&api::class_path(&namespace(0), CLASS))
    }

    fn create_fleet(&mut self) -> Result<()> {
        let namespace_object = |n| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(n)}});
        self.create((0..NAMESPACES).map(namespace_object))?;
        self.create(definitions::templates(&namespace(0), "simulated"))?;
        self.create([fleet::class(&namespace(0), CLASS, Some(&versions()))])?;
        // A Cluster whose class is not reconciled costs two seconds.
        let class = format!("clusterclass/{CLASS}");
        let team = namespace(0);
        let reconciled = ["wait", &class, "-n", &team, "--for=condition=VariablesReady", "--timeout=60s"];
        self.control_plane.kubectl(&reconciled)?;
        // Nobody is asked, and nobody looks on: that saves most of the time.
        self.manager.kill();
        let configurations = installed::all(self)?;
        installed::delete(self, &configurations)?;
        self.wait_until_nobody_is_asked()?;
        progress("creating Clusters");
        let asked_about = self.clusters.min(ASKED_ABOUT);
        self.create((0..self.clusters).map(cluster))?;
        self.create((0..asked_about).map(control_plane))?;
        let clusters = (0..self.clusters).map(|n| (api::cluster_path(&namespace(n), &name(n)), noted_by_manager()));
        self.write_statuses(clusters)?;
        // Cluster API refuses the next version of a Cluster whose control plane tells no version.
        let control_planes = (0..asked_about).map(|n| {
            let version = version(n % VERSIONS);
            let status = json!({"version": version, "versions": [{"version": version, "replicas": 3}]});
            (api::path(CONTROL_PLANE, "simulatedcontrolplanes", &namespace(n), &name(n)), status)
        });
        self.write_statuses(control_planes)?;
        installed::create(self, &configurations)
    }

    /// The API server learns of deleted webhooks a moment later.
    fn wait_until_nobody_is_asked(&self) -> Result<()> {
        let start = Instant::now();
        let path = format!("/apis/{}/namespaces/{}/clusters?dryRun=All", api::CORE, namespace(0));
        loop {
            let answer = self.runtime.block_on(self.api.send("POST", &path, "application/json", Some(&cluster(0))))?;
            if answer.is_ok() {
                return Ok(());
            }
            ensure!(start.elapsed() < Duration::from_secs(30), "a Cluster cannot be created: {}", answer.message());
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn write_statuses(&self, statuses: impl IntoIterator<Item = (String, Value)>) -> Result<()> {
        let one = async |(path, status): (String, Value)| {
            let path = format!("{path}/status");
            let written = self.api.merge(&path, &json!({"status": status})).await?;
            written.object().with_context(|| format!("failed to write {path}"))
        };
        let all = stream::iter(statuses).map(one).buffer_unordered(PARALLEL);
        self.runtime.block_on(all.try_for_each(async |_| Ok(())))
    }

    fn create(&self, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        let one = async |object: Value| {
            let name = object["metadata"]["name"].clone();
            self.api.create(&object).await?.object().with_context(|| format!("failed to create {name}"))
        };
        let all = stream::iter(objects).map(one).buffer_unordered(PARALLEL);
        self.runtime.block_on(all.try_for_each(async |_| Ok(())))
    }
}

fn cluster(n: usize) -> Value {
    let mut cluster = json!({
        "apiVersion": api::CORE, "kind": "Cluster",
        "metadata": {
            "namespace": namespace(n), "name": name(n), "labels": {"tier": "prod"},
            "finalizers": ["cluster.cluster.x-k8s.io"],
        },
        "spec": {
            "paused": true,
            "topology": {
                "classRef": {"name": CLASS, "namespace": namespace(0)}, "version": version(n % VERSIONS),
                "controlPlane": {"replicas": 3},
                "workers": {"machineDeployments": [{"class": "default", "name": "md-0", "replicas": 3}]},
            },
        },
    });
    if n < ASKED_ABOUT {
        let control_plane =
            json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "SimulatedControlPlane", "name": name(n)});
        cluster["spec"]["controlPlaneRef"] = control_plane;
    }
    cluster
}

/// What the manager notes on a paused Cluster: it would take four writes for each, and minutes for all.
fn noted_by_manager() -> Value {
    let message = "Cluster spec.paused is set to true";
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "Paused", "message": message, "observedGeneration": 1,
               "lastTransitionTime": "2026-12-01T00:00:00Z"})
    };
    let old = json!({"type": "TopologyReconciled", "status": "False", "severity": "Info", "reason": "Paused",
                     "message": message, "lastTransitionTime": "2026-12-01T00:00:00Z"});
    json!({
        "conditions": [condition("Paused", "True"), condition("TopologyReconciled", "False")],
        "deprecated": {"v1beta1": {"conditions": [old]}},
    })
}

fn control_plane(n: usize) -> Value {
    let labels = json!({"cluster.x-k8s.io/cluster-name": name(n), "topology.cluster.x-k8s.io/owned": ""});
    json!({
        "apiVersion": CONTROL_PLANE, "kind": "SimulatedControlPlane",
        "metadata": {"namespace": namespace(n), "name": name(n), "labels": labels},
        "spec": {"version": version(n % VERSIONS), "replicas": 3},
    })
}
