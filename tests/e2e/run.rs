//! Runs one scenario and compares.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    World, api,
    scenario::{ApiServerEvent, Scenario, Step, WebhookEvent},
    stack::{
        gate::Gate,
        webhook::{VerdictLine, size, verdicts},
    },
};

/// How long a denial's message may be.
const LONGEST_MESSAGE: usize = 1024;

/// Runs `scenario` in `namespace`, which holds what is given already.
pub fn run(world: &World, namespace: &str, mut scenario: Scenario) -> Result<()> {
    // Not while others wait for their turn.
    thread::sleep(scenario.unsynced_for().saturating_sub(world.unsynced_since.elapsed()));
    let exclusive = scenario.is_exclusive();
    // What changes the webhook waits until no other scenario needs it, and the others wait for it.
    let (_alone, _among_others) =
        if exclusive { (Some(world.turn.write()), None) } else { (None, Some(world.turn.read())) };
    let webhook = format!("https://127.0.0.1:{}", world.guard.lock().port);
    let unsynced = format!("https://127.0.0.1:{}", world.unsynced.port);
    let address = webhook.trim_start_matches("https://").to_owned();
    scenario.fill(&|text| {
        let text = text.replace("{ns}", namespace).replace("{webhook}", &webhook);
        text.replace("{webhook-address}", &address).replace("{unsynced}", &unsynced)
    });
    let directory = world.control_plane.directory.join(namespace);
    fs::create_dir(&directory)?;
    fs::write(directory.join("kubeconfig"), world.control_plane.admin_kubeconfig(namespace))?;
    for (file, objects) in &scenario.files {
        let documents: Vec<_> = objects.iter().map(|object| object.manifest().to_string()).collect();
        fs::write(directory.join(file), documents.join("\n---\n"))?;
    }
    let mut run = Run { world, namespace, directory, gate: None };
    let done = scenario.steps.iter().enumerate().try_for_each(|(at, step)| {
        run.step(step).with_context(|| format!("step {}: {}", at + 1, step.run.as_deref().unwrap_or_default()))
    });
    if exclusive {
        // Whatever it did, the next one finds the webhook there and ready.
        let mut guard = world.guard.lock();
        if !guard.runs() || run.gate.is_some() {
            guard.start(&world.control_plane)?;
        }
    }
    done
}

struct Run<'a> {
    world: &'a World,
    namespace: &'a str,
    directory: PathBuf,
    /// What stands between a restarted webhook and the API server.
    gate: Option<Gate>,
}

impl Run<'_> {
    fn step(&mut self, step: &Step) -> Result<()> {
        if let Some(ApiServerEvent::Restarted) = step.api_server {
            self.world.control_plane.restart_api_server()?;
        }
        if let Some(event) = step.webhook {
            self.happen(event)?;
        }
        if let Some(bulk) = &step.create_clusters {
            let clusters = bulk.clusters(self.namespace);
            api::with(&self.world.control_plane, |api| api.create(clusters))?;
        }
        let Some(command) = &step.run else { return Ok(()) };
        let before: Vec<_> =
            step.unchanged.iter().map(|place| self.value(&place.of, &place.at)).collect::<Result<_>>()?;
        let logs = [self.world.guard.lock().log(), self.world.shadow.log()];
        let offsets = logs.each_ref().map(|log| size(log));
        let (directory, programs) = (self.directory.clone(), &self.world.control_plane.programs);
        let (exit, stdout, stderr) = thread::scope(|scope| {
            let running = scope.spawn(|| execute(command, &directory, programs));
            if let Some(event) = step.meanwhile {
                thread::sleep(Duration::from_secs(2));
                ensure!(!running.is_finished(), "the command was done before {event:?} could happen");
                self.happen(event)?;
            }
            running.join().ok().context("the command's thread panicked")?
        })?;

        let mut wrong = String::new();
        let mut differ = |what: &str, expected: &str, got: &str| {
            if expected.trim_end() != got.trim_end() {
                // Writing to a String cannot fail.
                let _ = write!(wrong, "\n{what} should be:\n{}\nbut is:\n{}", expected.trim_end(), got.trim_end());
            }
        };
        differ("the exit code", &step.exit.to_string(), &exit.to_string());
        differ("stdout", &step.stdout, &stdout);
        differ("stderr", &step.stderr, &stderr);
        for assertion in &step.then {
            let what = format!("{} of {}", assertion.at, assertion.of);
            differ(&what, &assertion.is.to_string(), &self.value(&assertion.of, &assertion.at)?.to_string());
        }
        for (place, before) in step.unchanged.iter().zip(before) {
            ensure!(!before.is_null(), "{} of {} was not there", place.at, place.of);
            let what = format!("{} of {}", place.at, place.of);
            differ(&what, &before.to_string(), &self.value(&place.of, &place.at)?.to_string());
        }
        if let Some(calls) = step.calls {
            let namespaces = [self.namespace.to_owned(), format!("{}-b", self.namespace)];
            let [guard, shadow] = [0, 1].map(|at| verdicts(&logs[at], offsets[at], &namespaces));
            let (guard, shadow) = (guard?, shadow?);
            differ("the number of calls", &calls.to_string(), &guard.len().to_string());
            if let Some(disagreement) = disagreement(&guard, &shadow) {
                differ("what conditions and ratchet say of the step", "the same", &disagreement);
            }
        }
        ensure!(wrong.is_empty(), "{wrong}");
        if let Some((_, message)) = stderr.split_once("denied the request: ") {
            // Behind it kubectl may say more.
            let length = message.lines().next().map_or(0, str::len);
            ensure!(length <= LONGEST_MESSAGE, "the message has {length} bytes");
        }
        Ok(())
    }

    fn value(&self, of: &str, at: &str) -> Result<Value> {
        api::with(&self.world.control_plane, |api| api.value(self.namespace, of, at))
    }

    fn gate(&self) -> Result<&Gate> {
        self.gate.as_ref().context("the webhook was not started as an unsynced one")
    }

    fn happen(&mut self, event: WebhookEvent) -> Result<()> {
        let control_plane = &self.world.control_plane;
        let mut guard = self.world.guard.lock();
        match event {
            WebhookEvent::Killed => guard.kill(),
            WebhookEvent::Restarted => {
                guard.start(control_plane)?;
                self.gate = None;
            }
            WebhookEvent::Unsynced => {
                let gate = self.gate.insert(Gate::closed(control_plane.port)?);
                guard.start_behind(control_plane, gate.port)?;
                let (code, report) = guard.readiness()?;
                ensure!(code == 503, "it is ready without having seen an object: {report}");
                for kind in ["clusters", "clusterclasses"] {
                    let line = format!("[-]{kind}-synced failed: not listed yet\n");
                    ensure!(report.contains(&line), "the readiness report lacks {line:?}: {report}");
                }
            }
            WebhookEvent::Answered => self.gate()?.open(),
            WebhookEvent::CutOff => {
                guard.wait_until_ready()?;
                self.gate()?.close();
            }
        }
        Ok(())
    }
}

/// Runs a line as a user's shell would; kubectl is the one that was built.
fn execute(line: &str, directory: &Path, programs: &Path) -> Result<(i32, String, String)> {
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let home = directory.parent().context("the directory of a scenario is in another")?;
    let output = Command::new("timeout")
        .args(["--kill-after=5", "60", "bash", "-c", line])
        .current_dir(directory)
        .env("PATH", path)
        .env("HOME", home)
        .env("KUBECONFIG", directory.join("kubeconfig"))
        .stdin(Stdio::null())
        .output()
        .context("failed to run timeout (of coreutils)")?;
    let code = output.status.code().context("the command was killed")?;
    Ok((code, String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?))
}

/// The conditions of webhook-config and the ratchet of the program draw the same line. The guard was called through the
/// conditions, the shadow without them.
///
/// Both take a class's new extension for a change, but the verdict on it rests on the request alone, as the ratchet's
/// own does; so of such an update the shadow cannot tell.
fn disagreement(guard: &[VerdictLine], shadow: &[VerdictLine]) -> Option<String> {
    let on_request_alone = |line: &&VerdictLine| line.basis == "request";
    let is_class_update = |line: &&VerdictLine| line.resource == "clusterclasses" && line.operation == "UPDATE";
    let unsure = shadow.iter().filter(|line| is_class_update(line) && on_request_alone(line)).count();
    let ratcheted = shadow.iter().filter(|line| line.resource == "clusters" && on_request_alone(line)).count();
    let judged = shadow.len() - unsure - ratcheted;
    let agree = (judged..=judged + unsure).contains(&guard.len());
    (!agree).then(|| format!("guard: {guard:?}, shadow: {shadow:?}"))
}
