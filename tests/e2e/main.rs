//! The built webhook behind a real kube-apiserver, changed with a real kubectl.
//!
//! The scenarios are data, in `tests/cases/e2e`. What they are given is created before the webhook is installed; then
//! webhook-config is applied, and the scenarios run. Besides the webhook itself a second one runs, the shadow: it is
//! asked about *everything*, and so shows that the conditions of webhook-config keep back what the webhook's own ratchet
//! would let pass, and nothing else.
//!
//! The control plane is built by `tests/controlplane/build.sh` when it is not there. If that fails, the test fails.
#![allow(missing_docs, reason = "nobody depends on a test")]

mod api;
mod run;
mod scenario;
#[path = "../stack/mod.rs"]
mod stack;

use std::{
    fs,
    path::Path,
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use parking_lot::{Mutex, RwLock};
use serde_json::json;

use crate::{
    scenario::{Object, Scenario},
    stack::{
        control_plane::ControlPlane,
        gate::Gate,
        install::{self, Replica, Role},
        trials,
        webhook::{self, Webhook, size},
    },
};

/// What all scenarios share. Its processes end with it, the API server last.
struct World {
    guard: Mutex<Webhook>,
    shadow: Webhook,
    unsynced: Webhook,
    unsynced_since: Instant,
    control_plane: ControlPlane,
    /// Held by every scenario; exclusively by one that does something to the webhook.
    turn: RwLock<()>,
}

fn main() -> ExitCode {
    trials::exit(run_all())
}

fn run_all() -> Result<ExitCode> {
    let arguments = Arguments::from_args();
    let scenarios = scenario::load()?;
    let named = |at: usize, theme: &str| format!("{theme}-{at}");
    if arguments.list {
        return Ok(trials::list(&arguments, scenarios.iter().map(|(theme, scenario)| trial_name(theme, scenario))));
    }
    let directory = stack::directory("e2e")?;
    let chosen = scenarios.iter().enumerate().filter(|(_, (theme, scenario))| {
        !arguments.is_filtered_out(&Trial::test(trial_name(theme, scenario), || Ok(())))
    });
    let given = chosen.map(|(at, (theme, scenario))| (named(at, theme), scenario.clone()));
    let world = Arc::new(World::start(directory.path(), given.collect())?);
    let trials = scenarios.into_iter().enumerate().map(|(at, (theme, scenario))| {
        let (world, namespace) = (Arc::clone(&world), named(at, &theme));
        Trial::test(trial_name(&theme, &scenario), move || {
            run::run(&world, &namespace, scenario).map_err(|error| Failed::from(format!("{namespace}: {error:#}")))
        })
    });
    Ok(trials::run(&arguments, trials, directory))
}

fn trial_name(theme: &str, scenario: &Scenario) -> String {
    format!("{theme}::{}", scenario.name)
}

impl World {
    fn start(directory: &Path, scenarios: Vec<(String, Scenario)>) -> Result<Self> {
        let control_plane = ControlPlane::start(directory)?;
        give(&control_plane, scenarios)?;
        install::namespace_and_rights(&control_plane)?;
        let mut guard = Webhook::new("guard", &control_plane, None)?;
        let mut shadow = Webhook::new("shadow", &control_plane, Some(&webhook::all_rules_off()?))?;
        let mut unsynced = Webhook::new("unsynced", &control_plane, None)?;
        guard.start(&control_plane)?;
        shadow.start(&control_plane)?;
        unsynced.start_behind(&control_plane, Gate::closed(control_plane.port)?.port)?;
        let unsynced_since = Instant::now();
        let replicas = [(&guard, Role::Guard), (&unsynced, Role::Unsynced), (&shadow, Role::Shadow)];
        install::webhook_configurations(
            &control_plane,
            &replicas.map(|(webhook, role)| Replica { port: webhook.port, role }),
        )?;
        let world =
            Self { guard: Mutex::new(guard), shadow, unsynced, unsynced_since, control_plane, turn: RwLock::new(()) };
        world.wait_until_called()?;
        Ok(world)
    }

    /// The API server learns of webhook configurations by a watch, some milliseconds after they were applied.
    fn wait_until_called(&self) -> Result<()> {
        let logs = [self.guard.lock().log(), self.shadow.log()];
        let sizes = logs.each_ref().map(|log| size(log));
        let probe = self.control_plane.directory.join("probe.json");
        let class = Object { class: Some("probe".to_owned()), ..Object::default() };
        fs::write(&probe, class.manifest().to_string())?;
        let start = Instant::now();
        loop {
            self.control_plane.kubectl(&["create", "--dry-run=server", "-f", &probe.display().to_string()])?;
            let called = |at: usize| {
                webhook::verdicts(&logs[at], sizes[at], &["default".to_owned()]).map(|verdicts| !verdicts.is_empty())
            };
            if called(0)? && called(1)? {
                return Ok(());
            }
            ensure!(start.elapsed() < Duration::from_secs(30), "the API server does not call the webhooks");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Creates what the scenarios are given, with the namespaces of all.
fn give(control_plane: &ControlPlane, scenarios: Vec<(String, Scenario)>) -> Result<()> {
    let (mut namespaces, mut objects) = (Vec::new(), Vec::new());
    for (namespace, mut scenario) in scenarios {
        scenario.fill(&|text| text.replace("{ns}", &namespace));
        namespaces.push((namespace.clone(), json!(scenario.namespace_labels)));
        namespaces.push((format!("{namespace}-b"), json!({})));
        for mut object in scenario.given {
            object.namespace.get_or_insert_with(|| namespace.clone());
            object.run();
            objects.push(object);
        }
        objects.extend(scenario.given_clusters.iter().flat_map(|bulk| bulk.clusters(&namespace)));
    }
    let running: Vec<_> = objects.iter().flat_map(Object::running).collect();
    let deleting: Vec<_> = objects.iter().filter(|object| object.deleting).cloned().collect();
    ensure!(deleting.iter().all(|object| !object.finalizers.is_empty()), "what deletes needs a finalizer to stay");
    api::with(control_plane, |api| {
        api.create_namespaces(namespaces).context("failed to create the namespaces")?;
        api.create(objects).context("failed to create what is given")?;
        api.run(running).context("failed to create what runs of it")?;
        api.delete(deleting).context("failed to delete what shall be deleting")
    })
}
