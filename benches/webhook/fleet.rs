//! The part with a real API server: memory and cold start with 10,000 Clusters and 1,000 classes, without and with what runs
//! of them.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde_json::{Value, json};

use crate::{
    baseline,
    client::{Connection, Server, request},
    reviews,
    stack::{
        control_plane::{ControlPlane, client_config},
        http, install,
    },
    table::Table,
};

const NAMESPACES: usize = 100;
const CLASSES: usize = 1_000;
const CLUSTERS: usize = 10_000;
/// MachineDeployments of each Cluster.
const WORKERS: usize = 5;

/// The binary, running.
struct Webhook {
    child: Child,
    webhook: Server,
    health: u16,
    metrics: u16,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Webhook {
    /// Starts the binary and gives back the seconds until it was ready.
    fn start(control_plane: &ControlPlane) -> (Self, f64) {
        let file = |name: &str| control_plane.directory.join(name).display().to_string();
        std::fs::write(file("webhook.kubeconfig"), control_plane.webhook_kubeconfig(control_plane.port)).unwrap();
        let start = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_capi-version-guard"))
            .args(["serve", "--kubeconfig", &file("webhook.kubeconfig")])
            .args(["--listen=127.0.0.1:0", "--health-listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0"])
            .args(["--tls-cert-file", &file("tls.crt"), "--tls-private-key-file", &file("tls.key")])
            .env("RUST_LOG", "info")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut port = |of: &str| loop {
            let line = lines.next().expect("the webhook ended").unwrap();
            if line.contains("listening on") && line.contains(of) {
                let address = line.split("127.0.0.1:").nth(1).unwrap();
                return address.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u16>().unwrap();
            }
        };
        let (webhook, health, metrics) = (port("(webhook)"), port("(health)"), port("(metrics)"));
        // Its later lines must go somewhere, or it would wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let webhook = Self { child, webhook: Server { address: ([127, 0, 0, 1], webhook).into() }, health, metrics };
        while !webhook.is_ready() {
            std::thread::sleep(Duration::from_millis(2));
        }
        (webhook, start.elapsed().as_secs_f64())
    }

    fn is_ready(&self) -> bool {
        http::get(self.health, "/readyz").is_ok_and(|(code, _)| code == 200)
    }

    /// Waits until all that runs is known, and gives back the seconds since `start`.
    fn knows_what_runs(&self, start: Instant) -> f64 {
        let kind = "KubeadmControlPlane.controlplane.cluster.x-k8s.io";
        let wanted = [("MachineDeployment", CLUSTERS * WORKERS), (kind, CLUSTERS)]
            .map(|(kind, count)| format!("capi_version_guard_index_objects{{kind=\"{kind}\"}} {count}\n"));
        while !http::get(self.metrics, "/metrics").is_ok_and(|(_, text)| wanted.iter().all(|line| text.contains(line)))
        {
            assert!(start.elapsed() < Duration::from_mins(2), "what runs is not known");
            std::thread::sleep(Duration::from_millis(10));
        }
        start.elapsed().as_secs_f64()
    }

    /// Resident memory in MB.
    fn rss(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

pub fn run(table: &mut Table) {
    let directory = tempfile::tempdir().unwrap();
    let control_plane = ControlPlane::start(directory.path()).unwrap();
    install::namespace_and_rights(&control_plane).unwrap();
    create_fleet(&control_plane);
    let mut starts = Vec::new();
    for _ in 0..4 {
        starts.push(Webhook::start(&control_plane).1);
    }
    let (webhook, seconds) = Webhook::start(&control_plane);
    starts.push(seconds);
    starts.sort_by(f64::total_cmp);
    table.at_most("10,000 Clusters, 1,000 classes: cold start to ready, median of 5", starts[2], 2.0, " s");
    table.plain("the same: memory when ready", format!("{:.1} MB", webhook.rss()));
    load(&webhook);
    table.plain("the same: memory after 20,000 reviews", format!("{:.1} MB", webhook.rss()));
    for _ in 0..3 {
        // A new API server does not know the place in the history where the watch stood, so all is listed anew.
        control_plane.restart_api_server().unwrap();
        touch(&control_plane);
        std::thread::sleep(Duration::from_secs(8));
        assert!(webhook.is_ready(), "not ready after a restart of the API server");
    }
    load(&webhook);
    table.at_most("the same: memory after load and relists", webhook.rss(), 30.0, " MB");
    drop(webhook);
    create_what_runs(&control_plane);
    let start = Instant::now();
    let (webhook, _) = Webhook::start(&control_plane);
    let seconds = webhook.knows_what_runs(start);
    table.plain("with 10,000 control planes and 50,000 MachineDeployments: start to known", format!("{seconds:.1} s"));
    table.plain("the same: memory when known", format!("{:.1} MB", webhook.rss()));
    for _ in 0..3 {
        control_plane.restart_api_server().unwrap();
        touch(&control_plane);
        std::thread::sleep(Duration::from_secs(20));
        webhook.knows_what_runs(Instant::now());
    }
    load(&webhook);
    table.at_most("the same: memory after load and relists", webhook.rss(), 60.0, " MB");
}

/// 20,000 reviews of Clusters and 500 of classes, on 16 connections.
fn load(webhook: &Webhook) {
    let cluster = request("/validate/clusters", &reviews::cluster());
    let class = request("/validate/clusterclasses", &reviews::class("class-0", 34_000));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut connection = Connection::open(webhook.webhook);
                for n in 0..1_280 {
                    connection.call(if n % 40 == 39 { &class } else { &cluster });
                }
            });
        }
    });
}

fn create_fleet(control_plane: &ControlPlane) {
    let namespaces = (0..NAMESPACES)
        .map(|n| ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": format!("team-{n:03}")}})));
    let versions = baseline::versions();
    let object = |kind: &str, n: usize, name: String, spec: Value| {
        let path = format!(
            "/apis/cluster.x-k8s.io/v1beta2/namespaces/team-{:03}/{}",
            n % NAMESPACES,
            if kind == "Cluster" { "clusters" } else { "clusterclasses" }
        );
        (
            path,
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}),
        )
    };
    let template = |kind: &str| json!({"templateRef": {"apiVersion": "x.example/v1", "kind": kind, "name": "t"}});
    let classes = (0..CLASSES).map(|n| {
        let spec = json!({"kubernetesVersions": versions, "infrastructure": template("ClusterTemplate"),
                          "controlPlane": template("ControlPlaneTemplate")});
        object("ClusterClass", n, format!("class-{}", n / NAMESPACES), spec)
    });
    let clusters = (0..CLUSTERS).map(|n| {
        let class = format!("class-{}", n / NAMESPACES % (CLASSES / NAMESPACES));
        let name = cluster_name(n);
        let spec = json!({"topology": {"classRef": {"name": class}, "version": versions[n % versions.len()]},
                          "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io",
                                              "kind": "KubeadmControlPlane", "name": name}});
        object("Cluster", n, name, spec)
    });
    post(control_plane, namespaces.collect());
    post(control_plane, classes.collect());
    post(control_plane, clusters.collect());
}

fn cluster_name(n: usize) -> String {
    format!("cluster-{n:022}")
}

/// A control plane object and some MachineDeployments of every Cluster.
fn create_what_runs(control_plane: &ControlPlane) {
    let versions = baseline::versions();
    let template = |group: &str| json!({"apiGroup": format!("{group}.cluster.x-k8s.io"), "kind": "T", "name": "t"});
    let objects = (0..CLUSTERS).flat_map(|n| {
        let (name, namespace) = (cluster_name(n), format!("team-{:03}", n % NAMESPACES));
        let version = versions[n % versions.len()].clone();
        let labels = json!({"cluster.x-k8s.io/cluster-name": name, "topology.cluster.x-k8s.io/owned": ""});
        let (path, api_version) =
            ("/apis/controlplane.cluster.x-k8s.io/v1beta2", "controlplane.cluster.x-k8s.io/v1beta2");
        let object = json!({
            "apiVersion": api_version, "kind": "KubeadmControlPlane", "metadata": {"name": name, "labels": labels},
            "spec": {"version": version, "replicas": 3, "kubeadmConfigSpec": {"format": "cloud-config"},
                     "machineTemplate": {"spec": {"infrastructureRef": template("infrastructure")}}},
        });
        let one = (format!("{path}/namespaces/{namespace}/kubeadmcontrolplanes"), object);
        let workers = (0..WORKERS).map(move |at| {
            let own = json!({"topology.cluster.x-k8s.io/deployment-name": format!("md-{at}")});
            let object = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
                "metadata": {"name": format!("{name}-md-{at}-4kq9z"), "labels": labels},
                "spec": {"clusterName": name, "selector": {"matchLabels": own}, "template": {
                    "metadata": {"labels": own},
                    "spec": {"clusterName": name, "version": version,
                             "bootstrap": {"configRef": template("bootstrap")},
                             "infrastructureRef": template("infrastructure")}}},
            });
            (format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machinedeployments"), object)
        });
        std::iter::once(one).chain(workers)
    });
    post(control_plane, objects.collect());
}

/// Moves the API server's history on, so that the place where a watch stood before a restart is too old.
fn touch(control_plane: &ControlPlane) {
    static TOUCHES: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let touch = TOUCHES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let namespace = json!({"metadata": {"name": format!("touch-{touch}")}});
    post(control_plane, vec![("/api/v1/namespaces".to_owned(), namespace)]);
}

/// Creates objects, sixteen at a time.
fn post(control_plane: &ControlPlane, objects: Vec<(String, Value)>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = client_config(&control_plane.admin_kubeconfig("default")).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let send = async |(path, object): (String, Value)| {
            let request = ::http::Request::post(path).header("Content-Type", "application/json");
            client.request::<Value>(request.body(object.to_string().into_bytes()).unwrap()).await
        };
        stream::iter(objects).map(send).buffer_unordered(16).try_for_each(async |_| Ok(())).await.unwrap();
    });
}
