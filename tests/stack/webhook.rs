//! The webhook as a process: the built binary, with the rights of its ServiceAccount.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{control_plane::ControlPlane, http, process::Process};

/// A replica, running or killed.
pub struct Webhook {
    name: &'static str,
    directory: PathBuf,
    api_server: u16,
    config: Option<PathBuf>,
    /// What it logs, as RUST_LOG says it.
    pub levels: &'static str,
    /// More of its flags.
    pub args: Vec<String>,
    /// The port of the reviews; a replica that is started again has the same one.
    pub port: u16,
    health_port: u16,
    process: Option<Process>,
}

/// A line of its log that tells of a verdict.
#[derive(Debug, Deserialize)]
pub struct VerdictLine {
    pub resource: String,
    pub operation: String,
    pub namespace: String,
    pub name: String,
    pub allowed: bool,
    /// Those that spoke, with commas.
    pub rules: String,
    pub basis: String,
    pub microseconds: u64,
}

impl Webhook {
    /// A replica that is not started yet. `config` is the text of its configuration file, if it has one.
    pub fn new(name: &'static str, control_plane: &ControlPlane, config: Option<&str>) -> Result<Self> {
        let directory = control_plane.directory.clone();
        let config = match config {
            Some(text) => {
                let file = directory.join(format!("{name}.yaml"));
                fs::write(&file, text)?;
                Some(file)
            }
            None => None,
        };
        Ok(Self {
            name,
            directory,
            api_server: control_plane.port,
            config,
            // The verdicts that the ratchet gives are told at this level only, and calls are counted by their lines.
            levels: "info,capi_version_guard=debug",
            args: Vec::new(),
            port: 0,
            health_port: 0,
            process: None,
        })
    }

    /// Starts it and waits until it is ready.
    pub fn start(&mut self, control_plane: &ControlPlane) -> Result<()> {
        self.start_behind(control_plane, self.api_server)?;
        self.wait_until_ready()
    }

    /// Waits until it is ready.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let health_port = self.health_port;
        let process = self.process.as_mut().context("it was not started")?;
        // What runs is listed a moment after the Clusters; a note that begins with [!] says that something is missing.
        let complete = |(code, report): &(u16, String)| *code == 200 && !report.contains("[!]");
        process.wait_until("ready", || http::get(health_port, "/readyz?verbose").ok().filter(complete))?;
        Ok(())
    }

    /// Starts it with an API server behind `port`, and waits until it listens.
    pub fn start_behind(&mut self, control_plane: &ControlPlane, port: u16) -> Result<()> {
        self.kill();
        let file = |name: &str| self.directory.join(name);
        let kubeconfig = file(&format!("{}.kubeconfig", self.name));
        fs::write(&kubeconfig, control_plane.webhook_kubeconfig(port))?;
        let mut args = vec!["serve".to_owned(), "--log-format=json".to_owned()];
        args.push(format!("--kubeconfig={}", kubeconfig.display()));
        args.push(format!("--listen=127.0.0.1:{}", self.port));
        args.push("--health-listen=127.0.0.1:0".to_owned());
        args.push("--metrics-listen=127.0.0.1:0".to_owned());
        args.push(format!("--tls-cert-file={}", file("tls.crt").display()));
        args.push(format!("--tls-private-key-file={}", file("tls.key").display()));
        args.extend(self.config.as_ref().map(|config| format!("--config={}", config.display())));
        args.extend(self.args.iter().cloned());
        let log = self.log();
        let before = size(&log);
        let binary = Path::new(env!("CARGO_BIN_EXE_capi-version-guard"));
        let levels = ("RUST_LOG", self.levels);
        let mut process = Process::start(self.name, binary, &args, &[levels], &log)?;
        let ports = ["(webhook)", "(health)", "(metrics)"];
        let [webhook, health, _] =
            process.wait_until("listening", || all(ports.map(|what| listening_port(&log, before, what))))?;
        (self.port, self.health_port) = (webhook, health);
        self.process = Some(process);
        Ok(())
    }

    /// The id of its process; none if it does not run.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Whether it is there.
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// What `/readyz` says.
    pub fn readiness(&self) -> Result<(u16, String)> {
        http::get(self.health_port, "/readyz?verbose")
    }

    /// The file of its logs.
    pub fn log(&self) -> PathBuf {
        self.directory.join(format!("{}.log", self.name))
    }
}

/// The verdicts on objects of `namespaces` that `log` tells of behind `offset`.
pub fn verdicts(log: &Path, offset: usize, namespaces: &[String]) -> Result<Vec<VerdictLine>> {
    let text = fs::read_to_string(log)?;
    let new = text.get(offset..).context("the log shrank")?;
    let lines = new.lines().filter_map(|line| serde_json::from_str::<VerdictLine>(line).ok());
    Ok(lines.filter(|line| namespaces.contains(&line.namespace)).collect())
}

/// The size of a file; 0 if there is none.
pub fn size(file: &Path) -> usize {
    fs::metadata(file).map_or(0, |metadata| usize::try_from(metadata.len()).unwrap_or(usize::MAX))
}

fn all<const N: usize>(ports: [Option<u16>; N]) -> Option<[u16; N]> {
    let mut all = [0; N];
    for (slot, port) in all.iter_mut().zip(ports) {
        *slot = port?;
    }
    Some(all)
}

/// The port in `listening on https://127.0.0.1:41234 (webhook)`.
fn listening_port(log: &Path, offset: usize, what: &str) -> Option<u16> {
    #[derive(Deserialize)]
    struct Line {
        message: String,
    }
    let text = fs::read_to_string(log).ok()?;
    let messages = text.get(offset..)?.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    messages.filter(|line| line.message.starts_with("listening on ") && line.message.ends_with(what)).find_map(|line| {
        let (_, port) = line.message.trim_end_matches(what).trim_end().rsplit_once(':')?;
        port.parse().ok()
    })
}

/// The configuration that switches every rule off.
pub fn all_rules_off() -> Result<String> {
    let rules: Vec<_> = capi_version_guard::rules::RULES.iter().map(|rule| format!("  {}: off\n", rule.name)).collect();
    ensure!(!rules.is_empty(), "there are no rules");
    Ok(format!("rules:\n{}", rules.concat()))
}
