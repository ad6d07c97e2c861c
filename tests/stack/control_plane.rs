//! etcd and kube-apiserver, real ones, on free ports of loopback, with Cluster API's CRDs.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{certificates, etcd::Etcd, http, process::Process};

/// Who the tests are: cluster-admin.
const ADMIN: &str = "admin-of-the-tests";
/// Who the webhook is: the ServiceAccount of webhook-config, with its RBAC and nothing else.
const GUARD: &str = "service-account-of-the-webhook";

/// Who Cluster API's manager is: its ServiceAccount. Roles are not aggregated here, so it may do everything.
pub const MANAGER: &str = "service-account-of-the-manager";
/// A user who may do everything, like the admin, and whom a test may tell from it.
pub const OTHER_ADMIN: &str = "other-admin-of-the-tests";

/// A running control plane.
pub struct ControlPlane {
    /// Where its programs are, `kubectl` among them.
    pub programs: PathBuf,
    /// Its files; certificates of [`certificates::write`] too.
    pub directory: PathBuf,
    /// The API server's port.
    pub port: u16,
    etcd_port: u16,
    // Dropped in this order: an API server whose etcd is gone first fills its log.
    api_server: Mutex<Process>,
    _etcd: Process,
}

/// A second API server, as a control plane of several nodes has.
pub struct AnotherApiServer {
    /// Its port.
    pub port: u16,
    _process: Process,
}

impl ControlPlane {
    /// Builds what is not built yet, starts it, and installs the CRDs that the webhook reads.
    pub fn start(directory: &Path) -> Result<Self> {
        let control_plane = Self::without_crds(directory)?;
        let crds = control_plane.programs.join("crds.yaml");
        control_plane.kubectl(&["create", "-f", &crds.display().to_string()])?;
        let core = ["clusters", "clusterclasses", "machinedeployments", "machinepools"];
        let mut kinds = core.map(|kind| format!("cluster.x-k8s.io/v1beta2/{kind}")).to_vec();
        kinds.push("controlplane.cluster.x-k8s.io/v1beta2/kubeadmcontrolplanes".to_owned());
        kinds.push("clusterctl.cluster.x-k8s.io/v1alpha3/providers".to_owned());
        control_plane.wait_until_served(&kinds)?;
        Ok(control_plane)
    }

    /// Builds what is not built yet, and starts it.
    pub fn without_crds(directory: &Path) -> Result<Self> {
        let programs = programs()?;
        certificates::write(directory)?;
        fs::write(
            directory.join("tokens.csv"),
            format!(
                "{ADMIN},admin,admin,system:masters\n\
                 {OTHER_ADMIN},other-admin,other-admin,system:masters\n\
                 {MANAGER},system:serviceaccount:capi-system:capi-manager,manager,system:masters\n\
                 {GUARD},system:serviceaccount:capi-version-guard-system:capi-version-guard,guard,\
                 \"system:serviceaccounts,system:serviceaccounts:capi-version-guard-system,system:authenticated\"\n"
            ),
        )?;
        let [etcd_port, peer_port, port] = free_ports()?;
        let etcd = start_etcd(&programs, directory, etcd_port, peer_port)?;
        let api_server = start_api_server(&programs, directory, "api-server", etcd_port, port)?;
        Ok(Self {
            programs,
            directory: directory.to_owned(),
            port,
            etcd_port,
            api_server: Mutex::new(api_server),
            _etcd: etcd,
        })
    }

    /// Waits until all of `kinds` ("group/version/plural") are served. `kubectl wait` stumbles over a definition that has
    /// no conditions yet.
    pub fn wait_until_served(&self, kinds: &[String]) -> Result<()> {
        for kind in kinds {
            let start = Instant::now();
            while let Err(error) = self.kubectl(&["get", "--raw", &format!("/apis/{kind}")]) {
                ensure!(start.elapsed() < Duration::from_secs(30), "{kind} are not served after 30 s: {error:#}");
                thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Kills the API server and starts it again on the same port, so that every watch is cut.
    pub fn restart_api_server(&self) -> Result<()> {
        let mut api_server = self.api_server.lock();
        api_server.kill();
        *api_server = start_api_server(&self.programs, &self.directory, "api-server", self.etcd_port, self.port)?;
        Ok(())
    }

    /// Starts a second API server on the same etcd, and waits until it serves Clusters.
    pub fn start_another_api_server(&self) -> Result<AnotherApiServer> {
        let [port] = free_ports()?;
        let mut process =
            start_api_server(&self.programs, &self.directory, "another-api-server", self.etcd_port, port)?;
        let clusters = "/apis/cluster.x-k8s.io/v1beta2/clusters";
        process.wait_until("serving Clusters", || {
            http::get_tls(port, clusters, ADMIN).ok().filter(|(code, _)| *code == 200)
        })?;
        Ok(AnotherApiServer { port, _process: process })
    }

    /// Its etcd.
    pub fn etcd(&self) -> Etcd {
        Etcd { port: self.etcd_port }
    }

    /// The kubeconfig of a cluster-admin by way of the API server at `port`.
    pub fn admin_kubeconfig_at(&self, port: u16) -> String {
        self.kubeconfig(ADMIN, "default", port)
    }

    /// The kubeconfig of a cluster-admin whose default namespace is `namespace`.
    pub fn admin_kubeconfig(&self, namespace: &str) -> String {
        self.kubeconfig(ADMIN, namespace, self.port)
    }

    /// The kubeconfig of the webhook, by way of `port`.
    pub fn webhook_kubeconfig(&self, port: u16) -> String {
        self.kubeconfig(GUARD, "default", port)
    }

    /// The kubeconfig of whom `token` names.
    pub fn kubeconfig(&self, token: &str, namespace: &str, port: u16) -> String {
        let ca = self.directory.join("ca.crt");
        format!(
            r#"
apiVersion: v1
kind: Config
current-context: e2e
clusters: [{{name: e2e, cluster: {{server: "https://127.0.0.1:{port}", certificate-authority: {ca:?}}}}}]
users: [{{name: e2e, user: {{token: {token}}}}}]
contexts: [{{name: e2e, context: {{cluster: e2e, user: e2e, namespace: {namespace}}}}}]
"#
        )
    }

    /// The CA of everything that listens here, as a `caBundle` holds it.
    pub fn ca_bundle(&self) -> Result<String> {
        Ok(openssl::base64::encode_block(&fs::read(self.directory.join("ca.crt"))?))
    }

    /// Creates `objects` in their order, by way of a file of that name.
    pub fn create(&self, name: &str, objects: Vec<Value>) -> Result<()> {
        let file = self.directory.join(format!("{name}.json"));
        fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string())?;
        self.kubectl(&["create", "-f", &file.display().to_string()])?;
        Ok(())
    }

    /// Runs kubectl for the harness itself; fails with what it printed.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        let kubeconfig = self.directory.join("admin.kubeconfig");
        if !kubeconfig.exists() {
            fs::write(&kubeconfig, self.admin_kubeconfig("default"))?;
        }
        let output = Command::new(self.programs.join("kubectl"))
            .args(args)
            // The cache of what the API server serves is in the home directory, and shared by all scenarios.
            .env("HOME", &self.directory)
            .env("KUBECONFIG", &kubeconfig)
            .output()
            .context("failed to run kubectl")?;
        ensure!(
            output.status.success(),
            "kubectl {} failed: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// How a client reaches what a kubeconfig names.
pub async fn client_config(kubeconfig: &str) -> Result<Config> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// The directory of etcd, kube-apiserver, kubectl and crds.yaml, which a first call builds. This needs the network.
pub fn programs() -> Result<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/controlplane/build.sh");
    let output = Command::new(script)
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("failed to run {script}"))?;
    ensure!(output.status.success(), "the control plane cannot be built: {script} ended with {}", output.status);
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn start_etcd(programs: &Path, directory: &Path, port: u16, peer_port: u16) -> Result<Process> {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let args = [
        format!("--data-dir={}", directory.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    let mut etcd = Process::start("etcd", &programs.join("etcd"), &args, &[], &directory.join("etcd.log"))?;
    etcd.wait_until("healthy", || http::get(port, "/health").ok().filter(|(code, _)| *code == 200))?;
    Ok(etcd)
}

fn start_api_server(programs: &Path, directory: &Path, name: &str, etcd_port: u16, port: u16) -> Result<Process> {
    let file = |name: &str| directory.join(name).display().to_string();
    let args = [
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", file(name)),
        format!("--tls-cert-file={}", file("tls.crt")),
        format!("--tls-private-key-file={}", file("tls.key")),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--service-account-issuer=https://localhost".to_owned(),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--authorization-mode=RBAC".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
    ];
    let mut api_server = Process::start(
        "kube-apiserver",
        &programs.join("kube-apiserver"),
        &args,
        &[],
        &directory.join(format!("{name}.log")),
    )?;
    api_server.wait_until("ready", || http::get_tls(port, "/readyz", ADMIN).ok().filter(|(code, _)| *code == 200))?;
    Ok(api_server)
}

/// Ports that nobody listens on. All are held until all are known, so they differ.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
