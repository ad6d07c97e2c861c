//! Cluster API's core manager: definitions, webhooks and the program, as `clusterctl init` would install them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::stack::{
    control_plane::{ControlPlane, MANAGER, free_ports},
    http,
    process::Process,
};

/// The release that is installed if nothing else is asked for.
pub const NEWEST: &str = "v1.14.2";

/// A built release.
#[derive(Clone)]
pub struct Release {
    /// Such as "v1.14.2".
    pub version: String,
    /// Where `manager` and `cluster-api.yaml` are.
    directory: PathBuf,
}

/// How the manager is started.
#[derive(Clone, Copy)]
pub struct Options {
    /// The gate `RuntimeSDK`.
    pub runtime_sdk: bool,
}

/// A running manager.
pub struct Manager {
    pub port: u16,
    /// Its metrics, in plain HTTP.
    pub diagnostics_port: u16,
    /// Lines of JSON.
    pub log: PathBuf,
    health_port: u16,
    program: PathBuf,
    args: Vec<String>,
    process: Process,
}

impl Release {
    /// Builds a release if this machine has not built it yet. This needs the network.
    pub fn build(version: &str) -> Result<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manager/build.sh");
        let output = Command::new(script)
            .arg(version)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("failed to run {script}"))?;
        ensure!(
            output.status.success(),
            "Cluster API {version} cannot be built: {script} ended with {}",
            output.status
        );
        Ok(Self { version: version.to_owned(), directory: PathBuf::from(String::from_utf8(output.stdout)?.trim()) })
    }
}

impl Manager {
    /// Installs `release` with its webhooks, starts its manager, and waits until it is ready.
    pub fn start(control_plane: &ControlPlane, release: &Release, options: Options) -> Result<Self> {
        let [port, health_port, diagnostics_port] = free_ports()?;
        let directory = &control_plane.directory;
        install(control_plane, release, port)?;
        let kubeconfig = directory.join("manager.kubeconfig");
        fs::write(&kubeconfig, control_plane.kubeconfig(MANAGER, "default", control_plane.port))?;
        let gates = ["ClusterTopology=true", "ReconcilerRateLimiting=false"].join(",");
        let args = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--webhook-port={port}"),
            format!("--webhook-cert-dir={}", directory.display()),
            format!("--health-addr=127.0.0.1:{health_port}"),
            format!("--diagnostics-address=127.0.0.1:{diagnostics_port}"),
            "--insecure-diagnostics".to_owned(),
            "--logging-format=json".to_owned(),
            format!("--feature-gates={gates},RuntimeSDK={}", options.runtime_sdk),
            // What the requests of one client may cost; with the defaults (20 a second) tens of Clusters wait for it.
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
        ];
        let (program, log) = (release.directory.join("manager"), directory.join("manager.log"));
        let process = run(&program, &args, &log, health_port)?;
        Ok(Self { port, diagnostics_port, log, health_port, program, args: args.to_vec(), process })
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills it and starts it again; gives back how long it took to be ready.
    pub fn restart(&mut self) -> Result<Duration> {
        self.process.kill();
        let start = Instant::now();
        self.process = run(&self.program, &self.args, &self.log, self.health_port)?;
        Ok(start.elapsed())
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

/// Starts it and waits until it is ready.
fn run(program: &Path, args: &[String], log: &Path, health_port: u16) -> Result<Process> {
    let env = [("POD_NAMESPACE", "capi-system"), ("POD_NAME", "manager"), ("POD_UID", "manager")];
    let mut process = Process::start("the manager", program, args, &env, log)?;
    process.wait_until("ready", || http::get(health_port, "/readyz").ok().filter(|(code, _)| *code == 200))?;
    Ok(process)
}

/// Applies what is no Pod: definitions and webhooks, called by URL, since no Service leads here.
fn install(control_plane: &ControlPlane, release: &Release, port: u16) -> Result<()> {
    let ca = control_plane.ca_bundle()?;
    let here = |config: &mut Value| {
        let path = config["service"]["path"].as_str().unwrap_or_default().to_owned();
        *config = json!({"url": format!("https://localhost:{port}{path}"), "caBundle": ca});
    };
    let mut definitions = Vec::new();
    let mut others = Vec::new();
    for mut object in documents(&release.directory.join("cluster-api.yaml"))? {
        match object["kind"].as_str().unwrap_or_default() {
            "CustomResourceDefinition" => {
                if let Some(config) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
                    here(config);
                }
                definitions.push(object);
            }
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
                for webhook in object["webhooks"].as_array_mut().context("a configuration without webhooks")? {
                    here(&mut webhook["clientConfig"]);
                }
                others.push(object);
            }
            "Namespace" => others.push(object),
            // Pods and certificates are not for here. Nor is RBAC: nobody aggregates roles here, so the manager is an admin.
            _ => {}
        }
    }
    // What clusterctl leaves behind: it says which release is installed.
    others.push(json!({
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
        "metadata": {"name": "cluster-api", "namespace": "capi-system"},
        "providerName": "cluster-api", "type": "CoreProvider", "version": release.version,
    }));
    let kinds: Vec<_> = definitions.iter().map(served).collect::<Result<_>>()?;
    control_plane.create("definitions", definitions)?;
    control_plane.wait_until_served(&kinds)?;
    control_plane.create("cluster-api", others)
}

/// "group/version/plural" of the stored version of a definition.
pub fn served(definition: &Value) -> Result<String> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned).context("a definition without a name");
    let versions = definition["spec"]["versions"].as_array().context("a definition without versions")?;
    let stored = versions.iter().find(|version| version["storage"] == true).context("no version is stored")?;
    let (group, plural) = (text(&definition["spec"]["group"])?, text(&definition["spec"]["names"]["plural"])?);
    Ok(format!("{group}/{}/{plural}", text(&stored["name"])?))
}

fn documents(file: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    text.split("\n---\n")
        .map(|document| serde_saphyr::from_str(document).with_context(|| format!("failed to parse {}", file.display())))
        .collect()
}
