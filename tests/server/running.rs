//! A server in this process, on ports of its own.

use std::{net::SocketAddr, sync::Arc, sync::mpsc, thread, time::Duration};

use capi_version_guard::{
    config::Config,
    fleet::{Event, Fleet, Index},
    server::{self, Addresses, Certificate, ServerError, Setup, body::Limits, self_made, tls::CertificateFiles},
};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use serde_json::json;
use tempfile::TempDir;

use crate::client::{Connection, Response};

/// A server, stopped without grace at the end of its test.
pub struct Running {
    pub addresses: Addresses,
    pub ca: Vec<u8>,
    pub fleet: Arc<Fleet>,
    signals: UnboundedSender<&'static str>,
    thread: Option<thread::JoinHandle<Result<(), ServerError>>>,
    _certificate: TempDir,
}

impl Running {
    /// With the fleet of [`index`] and the default limits.
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Setup)) -> Self {
        let made = self_made::make("127.0.0.1".parse().unwrap()).unwrap();
        let certificate = tempfile::tempdir().unwrap();
        let files = CertificateFiles {
            certificate: certificate.path().join("tls.crt"),
            private_key: certificate.path().join("tls.key"),
        };
        std::fs::write(&files.certificate, &made.pair.certificate).unwrap();
        std::fs::write(&files.private_key, &made.pair.private_key).unwrap();
        let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut setup = Setup {
            fleet: Arc::new(Fleet::from(index())),
            kubernetes: None,
            max_control_plane_kinds: 10,
            config: Config::default(),
            listen: Addresses { webhook: free, health: free, metrics: free },
            certificate: Certificate::Files(files),
            certificate_poll: Duration::from_millis(20),
            limits: Limits::default(),
            grace: Duration::ZERO,
        };
        change(&mut setup);
        let fleet = Arc::clone(&setup.fleet);
        let (signals, received) = unbounded();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            actix_web::rt::System::new().block_on(async {
                let bound = server::start(setup)?;
                tell.send(bound.addresses()).unwrap();
                bound.run(received).await
            })
        });
        let addresses = told.recv().expect("the server to start");
        Self { addresses, ca: made.ca, fleet, signals, thread: Some(thread), _certificate: certificate }
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.addresses.webhook, &self.ca)
    }

    /// Sends a POST on a connection of its own.
    pub fn post(&self, target: &str, body: impl AsRef<[u8]>) -> Response {
        self.connect().post(target, body.as_ref())
    }

    pub fn health(&self, target: &str) -> Response {
        Connection::plain(self.addresses.health).get(target)
    }

    pub fn metrics(&self) -> String {
        Connection::plain(self.addresses.metrics).get("/metrics").body
    }

    /// The value of the series that is written like this.
    pub fn metric(&self, series: &str) -> String {
        let text = self.metrics();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series} in\n{text}")).to_owned()
    }

    pub fn signal(&self, name: &'static str) {
        self.signals.unbounded_send(name).unwrap();
    }

    /// Waits until the server has ended by itself.
    pub fn ended(mut self) -> Result<(), ServerError> {
        self.thread.take().unwrap().join().expect("no panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = self.signals.unbounded_send("SIGTERM");
            let _ = self.signals.unbounded_send("SIGTERM");
            let _ = thread.join();
        }
    }
}

/// `ClusterClass` a/quick with two versions, and Cluster a/c1 at the first of them.
pub fn index() -> Index {
    let mut index = Index::default();
    index.handle_class(Event::Applied(
        serde_json::from_value(json!({
            "metadata": {"name": "quick", "namespace": "a"},
            "spec": {"kubernetesVersions": ["v1.31.2", "v1.32.4"]}
        }))
        .unwrap(),
    ));
    index.handle_cluster(Event::Applied(serde_json::from_value(cluster("c1", "v1.31.2")).unwrap()));
    index.handle_class(Event::Completed);
    index.handle_cluster(Event::Completed);
    index
}

/// Cluster a/`name` of class a/quick.
pub fn cluster(name: &str, version: &str) -> serde_json::Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {"topology": {"classRef": {"name": "quick"}, "version": version}}
    })
}

/// A review of the creation of a Cluster.
pub fn creation(uid: &str, cluster: &serde_json::Value) -> String {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "resource": {"group": "cluster.x-k8s.io", "version": "v1beta2", "resource": "clusters"},
            "operation": "CREATE",
            "name": cluster["metadata"]["name"],
            "namespace": cluster["metadata"]["namespace"],
            "object": cluster,
            "dryRun": false
        }
    })
    .to_string()
}

pub const CLUSTERS: &str = "/validate/clusters?timeout=10s";
