//! One etcd, two API servers, three replicas of the webhook behind one port, each with its watches held back.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use kube::Client;
use serde_json::json;

use crate::{
    sleeper::Sleeper,
    stack::{
        control_plane::{AnotherApiServer, ControlPlane, client_config},
        etcd::Etcd,
        install::{self, Replica, Role},
        slow_watch::SlowWatch,
        spread,
        webhook::{self, Webhook, size},
    },
};

/// The namespace of all that is written.
pub const NAMESPACE: &str = "race";

const REPLICAS: [&str; 3] = ["replica-a", "replica-b", "replica-c"];

/// Everything that runs; it ends in this order.
pub struct World {
    pub sleeper: Sleeper,
    replicas: Vec<Webhook>,
    watches: Vec<SlowWatch>,
    another: AnotherApiServer,
    control_plane: ControlPlane,
}

impl World {
    pub fn start(directory: &Path, seed: u64) -> Result<Self> {
        let control_plane = ControlPlane::start(directory)?;
        let another = control_plane.start_another_api_server()?;
        install::namespace_and_rights(&control_plane)?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        control_plane.create(NAMESPACE, vec![namespace])?;
        let (mut replicas, mut watches) = (Vec::new(), Vec::new());
        // Two replicas follow one API server, the third the other one.
        for (name, api_server) in REPLICAS.into_iter().zip([control_plane.port, another.port].into_iter().cycle()) {
            let watch = SlowWatch::before(api_server, directory)?;
            let mut replica = Webhook::new(name, &control_plane, None)?;
            replica.start_behind(&control_plane, watch.port)?;
            replicas.push(replica);
            watches.push(watch);
        }
        for replica in &mut replicas {
            replica.wait_until_ready()?;
        }
        let service = spread::over(replicas.iter().map(|replica| replica.port).collect())?;
        install::webhook_configurations(&control_plane, &[Replica { port: service, role: Role::Guard }])?;
        let sleeper = Sleeper::start(&control_plane, seed)?;
        let world = Self { sleeper, replicas, watches, another, control_plane };
        world.wait_until_called()?;
        Ok(world)
    }

    /// Each API server learns of webhook configurations by a watch, some milliseconds after they were made.
    fn wait_until_called(&self) -> Result<()> {
        let probe = self.control_plane.directory.join("probe.json");
        let class_ref = json!({"name": "probe"});
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "probe", "namespace": NAMESPACE},
            "spec": {"topology": {"classRef": class_ref, "version": "v1.31.0"}},
        });
        std::fs::write(&probe, cluster.to_string())?;
        for port in self.api_servers() {
            let kubeconfig = self.control_plane.directory.join(format!("admin-{port}.kubeconfig"));
            std::fs::write(&kubeconfig, self.control_plane.admin_kubeconfig_at(port))?;
            let (kubeconfig, probe) = (format!("--kubeconfig={}", kubeconfig.display()), probe.display().to_string());
            let start = Instant::now();
            loop {
                let (marks, calls) = (self.marks(), self.sleeper.calls());
                self.control_plane.kubectl(&[&kubeconfig, "create", "--dry-run=server", "-f", &probe])?;
                if !self.verdicts_since(&marks)?.is_empty() && self.sleeper.calls() > calls {
                    break;
                }
                ensure!(
                    start.elapsed() < Duration::from_secs(30),
                    "the API server at {port} does not call the webhooks"
                );
                thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    fn api_servers(&self) -> [u16; 2] {
        [self.control_plane.port, self.another.port]
    }

    /// A client of each API server.
    pub async fn clients(&self) -> Result<Vec<Client>> {
        let mut clients = Vec::new();
        for port in self.api_servers() {
            let mut config = client_config(&self.control_plane.admin_kubeconfig_at(port)).await?;
            // Every answer counts.
            config.default_retry = false;
            clients.push(Client::try_from(config)?);
        }
        Ok(clients)
    }

    pub fn etcd(&self) -> Etcd {
        self.control_plane.etcd()
    }

    /// Holds the watches of all replicas back.
    pub fn delay_watches(&self, by: Duration) {
        for watch in &self.watches {
            watch.delay(by);
        }
    }

    /// Where the logs of the replicas end now.
    pub fn marks(&self) -> Vec<usize> {
        self.replicas.iter().map(|replica| size(&replica.log())).collect()
    }

    /// The verdicts of all replicas since then.
    pub fn verdicts_since(&self, marks: &[usize]) -> Result<Vec<webhook::VerdictLine>> {
        let all: Result<Vec<_>> = (self.replicas.iter().zip(marks))
            .map(|(replica, mark)| webhook::verdicts(&replica.log(), *mark, &[NAMESPACE.to_owned()]))
            .collect();
        Ok(all?.into_iter().flatten().collect())
    }
}
