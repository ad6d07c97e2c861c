//! Carries a sequence out.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    sequence::{Annotation, Namespaces, Sequence, Step},
    system::{
        System,
        api::{self, Answer, Api, class_path, cluster_path},
        definitions::CONTROL_PLANE,
        fleet,
        observe::{Outcome, Patience},
        providers::Behavior,
    },
    verdicts::Verdicts,
};

/// Cluster API's finalizer: what a restored Cluster carries.
const FINALIZER: &str = "cluster.cluster.x-k8s.io";

/// What waits for a user is given so long to come to rest.
const REST: Duration = Duration::from_millis(500);

/// What became of one write.
#[derive(Clone, Debug)]
pub struct Written {
    pub answer: Denial,
    /// The rules of ours that denied it.
    pub ours: BTreeSet<String>,
    /// Warnings of ours.
    pub warned: BTreeSet<String>,
}

/// Whether a write was done.
#[derive(Clone, Debug, PartialEq)]
pub enum Denial {
    Done,
    /// There was nothing to write to, or it was there already: no admission was asked.
    Missed,
    /// Refused, with the message.
    Refused(String),
}

/// A sequence under way.
pub struct Run<'a> {
    pub system: &'a System,
    pub verdicts: &'a Verdicts,
    pub namespaces: Namespaces,
    /// What is held.
    held: Vec<(String, Vec<String>)>,
    /// How many rules have denied something in the namespaces so far.
    denied: usize,
}

impl<'a> Run<'a> {
    /// Makes the namespaces and the templates.
    pub async fn begin(system: &'a System, verdicts: &'a Verdicts, name: &str, guarded: bool) -> Result<Self> {
        let namespaces = Namespaces(name.to_owned());
        system.namespace(namespaces.own(), guarded).await?;
        system.namespace(&namespaces.other(), guarded).await?;
        Ok(Self { system, verdicts, namespaces, held: Vec::new(), denied: 0 })
    }

    /// Makes one step; what a provider does is always done.
    pub async fn step(&mut self, step: &Step) -> Result<Written> {
        if !step.is_write() {
            self.provide(step).await?;
            return Ok(Written { answer: Denial::Done, ours: BTreeSet::new(), warned: BTreeSet::new() });
        }
        let before = self.verdicts.denied(&self.namespaces);
        // Between two steps only controllers write.
        ensure!(before.len() == self.denied, "a controller's write was denied by {:?}", before.get(self.denied..));
        let answer = self.write(step, &self.system.api, "").await?;
        let after = self.verdicts.denied(&self.namespaces);
        self.denied = after.len();
        let (ours, warned) = match &answer {
            Some(answer) => {
                // Both webhooks may refuse; the API server then tells what one of them says.
                let mut ours: BTreeSet<String> = if answer.is_ok() {
                    BTreeSet::new()
                } else {
                    after[before.len()..].iter().filter(|rule| denies(rule)).cloned().collect()
                };
                ours.extend(rule_of(answer.message()));
                ensure!(
                    !ours.is_empty() || answer.is_ok() || !answer.message().contains("capi-version-guard"),
                    "{}",
                    answer.message()
                );
                (ours, answer.warnings.iter().filter_map(|warning| rule_of(warning)).collect())
            }
            None => Default::default(),
        };
        Ok(Written { answer: denial(answer)?, ours, warned })
    }

    /// Whether Cluster API would take a write: asked by a user for whom this project's webhook is not called.
    pub async fn would_be_taken(&self, step: &Step) -> Result<Denial> {
        denial(self.write(step, &self.system.unguarded, "?dryRun=All").await?)
    }

    async fn provide(&mut self, step: &Step) -> Result<()> {
        let namespace = self.namespaces.own().to_owned();
        match step {
            Step::Hold { cluster, version, partly } => {
                let at = match self.held.iter().position(|(of, _)| of == cluster) {
                    Some(at) => at,
                    None => {
                        self.held.push((cluster.clone(), Vec::new()));
                        self.held.len() - 1
                    }
                };
                self.held[at].1.push(version.clone());
                let behavior = Behavior { held: self.held[at].1.clone(), partly: *partly, delay: Duration::ZERO };
                self.system.providers.behave(&namespace, cluster, behavior).await
            }
            Step::Release { cluster } => {
                self.held.retain(|(of, _)| of != cluster);
                self.system.providers.behave(&namespace, cluster, Behavior::default()).await
            }
            Step::Workers { cluster, version } => {
                let (_, workers) = self.system.observer.parts(&namespace, cluster);
                for set in workers {
                    let name = set["metadata"]["name"].as_str().unwrap_or_default();
                    let path = api::path(api::CORE, "machinedeployments", &namespace, name);
                    let change = json!({"spec": {"template": {"spec": {"version": version}}}});
                    // Cluster API may refuse such a version; then it was not changed.
                    self.system.unguarded.merge(&path, &change).await?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Writes to the API server. None if there is nothing to write to.
    async fn write(&self, step: &Step, api: &Api, query: &str) -> Result<Option<Answer>> {
        let own = self.namespaces.own();
        let merge = "application/merge-patch+json";
        let (method, path, content, body) = match step {
            Step::CreateClass { class, versions, extension } => {
                let (namespace, name) = self.namespaces.class(class);
                let mut object = fleet::class(&namespace, &name, versions.as_deref());
                if let Some(extension) = extension {
                    object["spec"]["upgrade"] = external(Some(extension));
                }
                ("POST", api::collection_of(&object), "application/json", Some(object))
            }
            Step::SetList { class, versions } => {
                let (namespace, name) = self.namespaces.class(class);
                ("PATCH", class_path(&namespace, &name), merge, Some(json!({"spec": {"kubernetesVersions": versions}})))
            }
            Step::SetExtension { class, extension } => {
                let (namespace, name) = self.namespaces.class(class);
                let upgrade = extension.as_ref().map_or(Value::Null, |extension| external(Some(extension)));
                ("PATCH", class_path(&namespace, &name), merge, Some(json!({"spec": {"upgrade": upgrade}})))
            }
            Step::DeleteClass { class } => {
                let (namespace, name) = self.namespaces.class(class);
                ("DELETE", class_path(&namespace, &name), "application/json", None)
            }
            Step::CreateCluster { cluster, class, version, workers, restored } => {
                let mut object = fleet::cluster(own, cluster, "", version, workers.then_some(0));
                object["spec"]["topology"]["classRef"] = self.namespaces.reference(class);
                if *restored {
                    object["metadata"]["finalizers"] = json!([FINALIZER]);
                }
                ("POST", api::collection_of(&object), "application/json", Some(object))
            }
            Step::Upgrade { cluster, version } => {
                let change = json!({"spec": {"topology": {"version": version}}});
                ("PATCH", cluster_path(own, cluster), merge, Some(change))
            }
            Step::Rebase { cluster, class, version } => {
                let mut topology = json!({"classRef": self.namespaces.reference(class)});
                if let Some(version) = version {
                    topology["version"] = json!(version);
                }
                ("PATCH", cluster_path(own, cluster), merge, Some(json!({"spec": {"topology": topology}})))
            }
            Step::Annotate { cluster, annotation, set } => {
                let value = if *set { json!("promise") } else { Value::Null };
                let change = json!({"metadata": {"annotations": {annotation.name(): value}}});
                ("PATCH", cluster_path(own, cluster), merge, Some(change))
            }
            Step::Pause { cluster, paused } => {
                ("PATCH", cluster_path(own, cluster), merge, Some(json!({"spec": {"paused": paused}})))
            }
            Step::DeleteCluster { cluster } => ("DELETE", cluster_path(own, cluster), "application/json", None),
            Step::Hold { .. } | Step::Release { .. } | Step::Workers { .. } => return Ok(None),
        };
        let answer = api.send(method, &format!("{path}{query}"), content, body.as_ref()).await?;
        // Not there, or there already. A conflict with a controller's write is none: a merge patch is tried again by the server.
        if matches!(answer.code, 404 | 409) {
            return Ok(None);
        }
        Ok(Some(answer))
    }

    /// Waits until every Cluster is at rest: settled, gone, stuck, or waiting for a provider or a user.
    pub async fn rest(&self) -> Result<Vec<(String, Rest)>> {
        let own = self.namespaces.own();
        let mut all = Vec::new();
        // The observer may be behind the API server.
        let list =
            self.system.api.get(&format!("/apis/{}/namespaces/{own}/clusters", api::CORE)).await?.context("no list")?;
        for cluster in list["items"].as_array().into_iter().flatten() {
            self.system.observer.saw(cluster).await?;
            let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
            all.push((name.to_owned(), self.rest_of(name).await?));
        }
        Ok(all)
    }

    async fn rest_of(&self, cluster: &str) -> Result<Rest> {
        let observer = &self.system.observer;
        let namespace = self.namespaces.own();
        let held =
            self.held.iter().find(|(of, _)| of == cluster).map(|(_, versions)| versions.clone()).unwrap_or_default();
        let waits = || {
            let object = observer.object("Cluster", namespace, cluster);
            is_held(observer.parts(namespace, cluster).0.as_ref(), &held) || is_kept(object.as_ref())
        };
        let missing = || {
            let object = observer.object("Cluster", namespace, cluster)?;
            let class = object.pointer("/spec/topology/classRef")?;
            let space = class["namespace"].as_str().unwrap_or(namespace);
            let name = class["name"].as_str()?;
            let deleting = object["metadata"].get("deletionTimestamp").is_some();
            (!deleting && observer.object("ClusterClass", space, name).is_none())
                .then(|| format!("ClusterClass {space}/{name} is missing"))
        };
        // A chain stays where it is held, who waits for a user comes to rest, and nothing goes on without a class.
        let rests = async {
            loop {
                let seen =
                    observer.wait_for(Duration::from_mins(10), |_| (waits() || missing().is_some()).then_some(()));
                if seen.await.is_none() {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(REST).await;
                match missing() {
                    Some(why) => return Rest::Stuck(why),
                    None if waits() => return Rest::Waiting,
                    None => {}
                }
            }
        };
        let settled = self.settle(cluster);
        tokio::select! {
            rest = rests => Ok(rest),
            outcome = settled => Ok(match outcome? {
                Outcome::Settled => Rest::Settled,
                Outcome::Gone => Rest::Gone,
                Outcome::Stuck(why) => Rest::Stuck(why),
            }),
        }
    }

    async fn settle(&self, cluster: &str) -> Result<Outcome> {
        let namespace = self.namespaces.own();
        self.system.observer.settle(namespace, cluster, Patience::default(), || self.nudge(cluster)).await
    }

    /// Makes the manager look at a Cluster again, by a heartbeat of its control plane.
    async fn nudge(&self, cluster: &str) -> Result<()> {
        let namespace = self.namespaces.own();
        let beat = json!({"status": {"beat": Instant::now().elapsed().as_nanos().to_string() + &nonce()}});
        if let (Some(control_plane), _) = self.system.observer.parts(namespace, cluster) {
            let name = control_plane["metadata"]["name"].as_str().unwrap_or_default();
            let path = api::path(CONTROL_PLANE, "simulatedcontrolplanes", namespace, name);
            self.system.unguarded.merge(&format!("{path}/status"), &beat).await?;
        } else {
            let note = json!({"metadata": {"annotations": {"promise/beat": nonce()}}});
            self.system.unguarded.merge(&cluster_path(namespace, cluster), &note).await?;
        }
        Ok(())
    }

    /// Lets everything go on that a provider or a user held, and waits for the end.
    pub async fn finish(&mut self) -> Result<Vec<(String, Rest)>> {
        let own = self.namespaces.own().to_owned();
        for (cluster, _) in std::mem::take(&mut self.held) {
            self.system.providers.behave(&own, &cluster, Behavior::default()).await?;
        }
        let list =
            self.system.api.get(&format!("/apis/{}/namespaces/{own}/clusters", api::CORE)).await?.context("no list")?;
        for cluster in list["items"].as_array().into_iter().flatten() {
            let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
            self.system.observer.forget(&own, name);
            if is_kept(Some(cluster)) {
                let release = json!({
                    "metadata": {"annotations": {Annotation::BeforeUpgradeHook.name(): null}}, "spec": {"paused": null},
                });
                self.system.unguarded.merge(&cluster_path(&own, name), &release).await?.object()?;
            }
        }
        self.rest().await
    }

    /// Removes what would go on to cost the manager time. What cannot be deleted stays.
    pub async fn end(&self) -> Result<()> {
        let own = self.namespaces.own();
        for cluster in self.system.observer.objects("Cluster", own) {
            let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
            self.system.unguarded.delete(&cluster_path(own, name)).await?;
        }
        Ok(())
    }
}

/// How a Cluster is at rest.
#[derive(Clone, Debug, PartialEq)]
pub enum Rest {
    Settled,
    Gone,
    /// For a provider or a user.
    Waiting,
    Stuck(String),
}

impl Rest {
    /// Whether it got where it was sent.
    pub fn is_fine(&self) -> bool {
        matches!(self, Self::Settled | Self::Gone)
    }
}

/// Carries all of `steps` out in a fresh pair of namespaces, and lets them come to an end.
pub async fn replay(
    system: &System,
    verdicts: &Verdicts,
    name: &str,
    guarded: bool,
    sequence: &Sequence,
) -> Result<Vec<(String, Rest)>> {
    let mut run = Run::begin(system, verdicts, name, guarded).await?;
    for step in &sequence.steps {
        run.step(step).await?;
        if sequence.quiet {
            run.rest().await?;
        }
    }
    let rests = run.finish().await?;
    run.end().await?;
    Ok(rests)
}

/// Whether the control plane is asked for a version that it is held from.
fn is_held(control_plane: Option<&Value>, held: &[String]) -> bool {
    let Some(control_plane) = control_plane else { return false };
    let (asked, there) = (&control_plane["spec"]["version"], &control_plane["status"]["version"]);
    asked != there && held.iter().any(|version| asked == version)
}

/// Whether a user keeps a Cluster from going on.
fn is_kept(cluster: Option<&Value>) -> bool {
    let Some(cluster) = cluster else { return false };
    let annotated = cluster["metadata"]["annotations"].get(Annotation::BeforeUpgradeHook.name()).is_some();
    cluster["spec"]["paused"] == true || annotated
}

fn external(extension: Option<&String>) -> Value {
    json!({"external": {"generateUpgradePlanExtension": extension}})
}

fn denial(answer: Option<Answer>) -> Result<Denial> {
    let Some(answer) = answer else { return Ok(Denial::Missed) };
    match answer.code {
        0..300 => Ok(Denial::Done),
        // Refused by a webhook, by a webhook of Cluster API, or by the definition's schema.
        400 | 403 | 422 => Ok(Denial::Refused(answer.message().to_owned())),
        code => anyhow::bail!("the API server answered {code}: {}", answer.message()),
    }
}

/// Whether a rule denies by default; the others say something in a denial, too.
fn denies(rule: &str) -> bool {
    let known = capi_version_guard::rules::RULES.iter().find(|known| known.name == rule);
    known.is_some_and(|known| known.default == capi_version_guard::rules::Mode::Deny)
}

/// The rule in a text of ours: `... (version-listed)`.
fn rule_of(text: &str) -> Option<String> {
    let (_, rule) = text.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    capi_version_guard::rules::RULES.iter().any(|known| known.name == rule).then(|| rule.to_owned())
}

/// A text that is another one each time.
fn nonce() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}
