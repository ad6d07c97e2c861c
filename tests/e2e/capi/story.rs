//! What the tests are told with: a namespace, kubectl in it, Clusters and classes, and what became of them.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use capi_version_guard::rules::RULES;
use serde_json::{Value, json};

use crate::{
    World,
    history::{History, versions},
    stack::{control_plane::OTHER_ADMIN, webhook::verdicts},
    system::{
        System, UNGUARDED,
        api::{Api, class_path, cluster_path},
        definitions, fleet,
        observe::{Observer, PENDING_HOOKS, Standing, UPGRADE_STEP, topology_reconciled},
        providers::Behavior,
    },
};

/// In namespaces with this label the witness is asked about every write.
pub const WITNESSED: &str = "guard-of-the-tests/witnessed";

/// How long anything may take. On an idle machine nothing takes more than a few seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// A namespace in which something happens.
pub struct Story<'a> {
    pub world: &'a World,
    pub system: &'a System,
    pub namespace: String,
    pub history: History,
    /// Where kubectl runs.
    directory: PathBuf,
}

impl<'a> Story<'a> {
    /// A namespace with the templates of a class. This project's webhook guards it, and the witness sees every write.
    pub fn guarded(world: &'a World, namespace: &str) -> Result<Self> {
        Self::begin(world, namespace, json!({WITNESSED: ""}), &definitions::templates(namespace, "simulated"))
    }

    /// The same without this project's webhook.
    pub fn unguarded(world: &'a World, namespace: &str) -> Result<Self> {
        Self::begin(world, namespace, json!({UNGUARDED: ""}), &definitions::templates(namespace, "simulated"))
    }

    /// A guarded namespace with nothing in it.
    pub fn guarded_and_empty(world: &'a World, namespace: &str) -> Result<Self> {
        Self::begin(world, namespace, json!({WITNESSED: ""}), &[])
    }

    fn begin(world: &'a World, namespace: &str, labels: Value, given: &[Value]) -> Result<Self> {
        let system = &world.system;
        let directory = system.control_plane.directory.join(namespace);
        fs::create_dir(&directory)?;
        let control_plane = &system.control_plane;
        fs::write(directory.join("kubeconfig"), control_plane.admin_kubeconfig(namespace))?;
        let exempt = control_plane.kubeconfig(OTHER_ADMIN, namespace, control_plane.port);
        fs::write(directory.join("exempt"), exempt)?;
        let story = Self {
            world,
            system,
            namespace: namespace.to_owned(),
            history: History::begin(system, namespace),
            directory,
        };
        system.handle.block_on(system.namespace_with(namespace, labels))?;
        for object in given {
            story.create(object)?;
        }
        Ok(story)
    }

    /// A class of simulated templates, with a class of workers. Without versions it has no list.
    pub fn class(&self, name: &str, versions: &[&str]) -> Value {
        let versions: Vec<_> = versions.iter().map(ToString::to_string).collect();
        fleet::class(&self.namespace, name, Some(&versions[..]).filter(|versions| !versions.is_empty()))
    }

    /// A Cluster of the class `quick`, with a set of so many workers if a number is given.
    pub fn cluster(&self, name: &str, version: &str, workers: Option<u32>) -> Value {
        fleet::cluster(&self.namespace, name, "quick", version, workers)
    }

    /// Creates an object.
    pub fn create(&self, object: &Value) -> Result<Value> {
        let created = self.system.handle.block_on(self.system.api.create(object))?.object();
        created.with_context(|| format!("failed to create {} {}", object["kind"], object["metadata"]["name"]))
    }

    /// Changes a Cluster.
    pub fn change(&self, cluster: &str, change: &Value) -> Result<Value> {
        self.merge(&self.cluster_path(cluster), change)
    }

    /// Changes the object at a path.
    pub fn merge(&self, path: &str, change: &Value) -> Result<Value> {
        self.system.handle.block_on(self.system.api.merge(path, change))?.object()
    }

    /// Reads what is at a path.
    pub fn read(&self, path: &str) -> Result<Option<Value>> {
        self.system.handle.block_on(self.system.api.get(path))
    }

    /// The API as the user for whom this project's webhook is not called: by it comes in what the webhook would deny.
    pub fn unguarded_api(&self) -> &Api {
        &self.system.unguarded
    }

    /// Deletes a Cluster, which is always admitted.
    pub fn delete(&self, cluster: &str) -> Result<()> {
        let deleted = self.system.handle.block_on(self.system.api.delete(&self.cluster_path(cluster)))?;
        deleted.object().map(drop).context("a Cluster cannot be deleted")
    }

    /// The path of a Cluster.
    pub fn cluster_path(&self, name: &str) -> String {
        cluster_path(&self.namespace, name)
    }

    /// The path of a class.
    pub fn class_path(&self, name: &str) -> String {
        class_path(&self.namespace, name)
    }

    /// What is stored of a Cluster now.
    pub fn stored(&self, cluster: &str) -> Result<Value> {
        self.read(&self.cluster_path(cluster))?.with_context(|| format!("{}/{cluster} is gone", self.namespace))
    }

    /// From now on the control plane of a Cluster goes to none of these versions; one of its machines alone runs them.
    pub fn hold(&self, cluster: &str, versions: &[&str]) -> Result<()> {
        let held = versions.iter().map(ToString::to_string).collect();
        let behavior = Behavior { held, partly: true, ..Behavior::default() };
        self.system.handle.block_on(self.system.providers.behave(&self.namespace, cluster, behavior))
    }

    /// Runs a command with kubectl at hand (`--kubeconfig exempt` is the user for whom this project's webhook is not called), and compares all that it prints, [`in_short`]. `{ns}` is the namespace.
    pub fn says(&self, command: &str, expected: &str) -> Result<()> {
        let fill = |text: &str| text.replace("{ns}", &self.namespace);
        let (said, expected) = (in_short(&self.run(&fill(command))?), fill(expected));
        ensure!(said == expected, "{command}\nshould say:\n{expected}\nbut says:\n{said}");
        Ok(())
    }

    /// Runs a command that Cluster API's own webhook refuses, whatever it warns of before.
    pub fn is_refused_by_cluster_api(&self, command: &str) -> Result<()> {
        let said = in_short(&self.run(command)?);
        ensure!(
            said.lines().last() == Some("(Cluster API refuses)"),
            "{command}\nshould be refused, but says:\n{said}"
        );
        Ok(())
    }

    /// Runs a command with kubectl at hand: what it prints, on standard output and then on standard error.
    pub fn run(&self, command: &str) -> Result<String> {
        let programs = &self.system.control_plane.programs;
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(&self.directory)
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("HOME", &self.system.control_plane.directory)
            .env("KUBECONFIG", self.directory.join("kubeconfig"))
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("failed to run {command}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(format!("{}{}", text(&output.stdout), text(&output.stderr)))
    }

    /// Writes a manifest for kubectl.
    pub fn file(&self, name: &str, object: &Value) -> Result<()> {
        fs::write(self.directory.join(name), object.to_string()).context("failed to write a manifest")
    }

    /// Waits until `found` finds something.
    pub fn wait<T>(&self, what: &str, found: impl Fn(&Observer) -> Option<T>) -> Result<T> {
        let found = self.system.handle.block_on(self.system.observer.wait_for(LIMIT, found));
        found.with_context(|| format!("{}: waited in vain until {what}", self.namespace))
    }

    /// Waits until a Cluster stands like that, as [`standing`] tells it.
    pub fn stands(&self, cluster: &str, expected: &str) -> Result<()> {
        let now = |observer: &Observer| {
            observer.object("Cluster", &self.namespace, cluster).map(|cluster| standing(&cluster)).unwrap_or_default()
        };
        let stands = self.wait("a Cluster stands", |observer| (now(observer) == expected).then_some(()));
        stands.with_context(|| format!("it should stand\n{expected}\nbut stands\n{}", now(&self.system.observer)))
    }

    /// Waits until the manager says that it cannot reconcile a Cluster's topology.
    pub fn fails(&self, cluster: &str) -> Result<()> {
        let fails = |observer: &Observer| {
            let cluster = observer.object("Cluster", &self.namespace, cluster)?;
            (topology_reconciled(&cluster)?["reason"] == "ReconcileFailed").then_some(())
        };
        self.wait(&format!("the topology of {cluster} fails"), fails)
    }

    /// Waits until the control plane of a Cluster is sent to a version.
    pub fn reaches(&self, cluster: &str, version: &str) -> Result<()> {
        let reaches = |observer: &Observer| {
            let (control_plane, _) = observer.parts(&self.namespace, cluster);
            (control_plane?["spec"]["version"] == version).then_some(())
        };
        self.wait(&format!("the control plane of {cluster} is sent to {version}"), reaches)
    }

    /// Waits until a Cluster has settled at its target.
    pub fn settled(&self, cluster: &str) -> Result<()> {
        // What was just written may not have been seen yet.
        let written = self.stored(cluster)?;
        self.system.handle.block_on(self.system.observer.saw(&written))?;
        let standing = |observer: &Observer| observer.standing(&self.namespace, cluster);
        let settled = |observer: &Observer| (standing(observer) == Standing::Settled).then_some(());
        self.wait(&format!("{cluster} settles"), settled).with_context(|| {
            let observer = &self.system.observer;
            format!("{:?}, {:?}", standing(observer), observer.errors(&self.namespace, cluster).last())
        })?;
        let stored = self.stored(cluster)?;
        self.system.handle.block_on(self.history.catch_up(&stored))
    }

    /// Waits until a Cluster is gone.
    pub fn gone(&self, cluster: &str) -> Result<()> {
        let gone = |observer: &Observer| observer.object("Cluster", &self.namespace, cluster).is_none().then_some(());
        self.wait("it is gone", gone)
    }

    /// What the extension was asked, a line each. Cluster API asks again when its cache does not show yet that a question was
    /// answered, so only the first of the same questions is told.
    pub fn hooks(&self) -> Vec<String> {
        let mut hooks = Vec::new();
        for call in self.world.extension.calls(&self.namespace) {
            let hook = format!("{} {}", call.hook, call.versions).trim_end().to_owned();
            if !hooks.contains(&hook) {
                hooks.push(hook);
            }
        }
        hooks
    }

    /// The verdicts of this project's webhook, installed as webhook-config says. What is repeated is told once: when a patch
    /// meets a controller's write, the API server tries it again by itself, and asks again.
    pub fn verdicts(&self) -> Result<Vec<String>> {
        let mut verdicts = self.verdicts_in(&self.system.webhook.log())?;
        verdicts.dedup();
        Ok(verdicts)
    }

    /// The witness was asked about every write that changed a Cluster, and nothing was denied.
    pub fn nothing_was_denied(&self) -> Result<()> {
        let asked = self.none_was_denied()?;
        let writes = self.history.writes();
        ensure!(asked >= writes, "{writes} writes changed Clusters, and the witness was asked {asked} times");
        Ok(())
    }

    /// Neither the webhook nor the witness denied a write. How many of Clusters the witness was asked about.
    pub fn none_was_denied(&self) -> Result<usize> {
        let witnessed = self.verdicts_in(&self.world.witness.log())?;
        let all = [&witnessed[..], &self.verdicts()?].concat();
        let denied: Vec<_> = all.iter().filter(|verdict| verdict.contains(": denied by ")).collect();
        ensure!(denied.is_empty(), "these were denied: {denied:#?}");
        let asked = witnessed.iter().filter(|verdict| verdict.contains(" Cluster ")).count();
        ensure!(asked > 0, "the witness was asked about no write of a Cluster");
        Ok(asked)
    }

    fn verdicts_in(&self, log: &std::path::Path) -> Result<Vec<String>> {
        let verdicts = verdicts(log, 0, std::slice::from_ref(&self.namespace))?;
        let tell = |allowed, rules: &str| match (allowed, rules) {
            (true, "") => "allowed".to_owned(),
            (true, rules) => format!("allowed with {rules}"),
            (false, rules) => format!("denied by {rules}"),
        };
        let lines = verdicts.iter().map(|line| {
            let kind = if line.resource == "clusters" { "Cluster" } else { "ClusterClass" };
            format!("{} {kind} {}: {}", line.operation, line.name, tell(line.allowed, &line.rules))
        });
        Ok(lines.collect())
    }
}

/// How far a Cluster is, as it says itself in its annotations and its status.
pub fn standing(cluster: &Value) -> String {
    let status = |pointer: &str| versions(cluster.pointer(pointer));
    format!(
        "step {}; control plane: {}, plan {}; workers: {}, plan {}; pending {}",
        step(cluster),
        status("/status/controlPlane/versions"),
        status("/status/controlPlane/upgradePlan"),
        status("/status/workers/versions"),
        status("/status/workers/upgradePlan"),
        pending(cluster)
    )
}

/// The version that its control plane is sent to.
pub fn step(cluster: &Value) -> &str {
    cluster["metadata"]["annotations"][UPGRADE_STEP].as_str().unwrap_or("none")
}

/// The hooks that a Cluster says are still to be called.
pub fn pending(cluster: &Value) -> String {
    cluster["metadata"]["annotations"][PENDING_HOOKS].as_str().unwrap_or("none").replace(',', " ")
}

/// What kubectl printed, with this project's words as they are, and Cluster API's in short.
pub fn in_short(said: &str) -> String {
    let is_ours = |line: &str| RULES.iter().any(|rule| line.ends_with(&format!("({})", rule.name)));
    let lines = said.lines().map(|line| match line {
        // That one is kubectl's own.
        warning if warning.starts_with("Warning: resource ") => warning,
        warning if warning.starts_with("Warning: ") && !is_ours(warning) => "(Cluster API warns)",
        // A denial of this project's webhook is never "invalid".
        refusal if refusal.contains(r#"admission webhook "validation."#) => "(Cluster API refuses)",
        refusal if refusal.starts_with("The Cluster") && refusal.contains(" is invalid: ") => "(Cluster API refuses)",
        line => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The text of a JSON value; nothing if it is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Compares lines; says both if they differ.
pub fn same(what: &str, said: &[String], expected: &[&str]) -> Result<()> {
    ensure!(
        said.iter().map(String::as_str).eq(expected.iter().copied()),
        "{what} should be:\n{}\nbut are:\n{}",
        expected.join("\n"),
        said.join("\n")
    );
    Ok(())
}
