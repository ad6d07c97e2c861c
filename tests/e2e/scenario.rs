//! Scenarios as data: `tests/cases/e2e/*.yaml`.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One scenario. `{ns}` stands for a namespace of its own, and `{ns}-b` for a second one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// The sentence that it proves.
    pub name: String,
    /// What is there before the webhook is installed, so also what it would not let in.
    #[serde(default)]
    pub given: Vec<Object>,
    /// Many Clusters that are there before the webhook as well.
    #[serde(default)]
    pub given_clusters: Vec<Bulk>,
    /// Files in the directory in which the commands run.
    #[serde(default)]
    pub files: BTreeMap<String, Vec<Object>>,
    /// Labels of the namespace.
    #[serde(default)]
    pub namespace_labels: BTreeMap<String, String>,
    /// What is done.
    pub steps: Vec<Step>,
}

/// One step: a command line, or something that happens to the webhook or the fleet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Step {
    /// A line for the shell, with the real kubectl.
    pub run: Option<String>,
    /// Its exit code.
    pub exit: i32,
    /// All that it prints to stdout.
    pub stdout: String,
    /// All that it prints to stderr.
    pub stderr: String,
    /// How often the webhook is called for the objects of the scenario's namespaces.
    pub calls: Option<usize>,
    /// What is then found in objects.
    pub then: Vec<Assertion>,
    /// What the step leaves alone.
    pub unchanged: Vec<Place>,
    /// What happens to the webhook before the command, if there is one.
    pub webhook: Option<WebhookEvent>,
    /// What happens to the API server before that.
    pub api_server: Option<ApiServerEvent>,
    /// What happens to the webhook two seconds after the command has begun.
    pub meanwhile: Option<WebhookEvent>,
    /// Wait until the replica that the API server never answered is this old.
    pub unsynced_for_seconds: Option<u64>,
    /// Clusters to create, many at once.
    pub create_clusters: Option<Bulk>,
}

/// What happens to the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookEvent {
    /// It crashes.
    Killed,
    /// It is there again, and ready.
    Restarted,
    /// It is there again, but the API server does not answer it.
    Unsynced,
    /// The API server answers it.
    Answered,
    /// It is ready, and then its connections to the API server are cut. Only behind the two above.
    CutOff,
}

/// What happens to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiServerEvent {
    /// It crashes and comes back, so that every watch is cut.
    Restarted,
}

/// Many Clusters of one class and version, with names from `<prefix>0` on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    pub count: usize,
    pub prefix: String,
    pub of: String,
    pub version: String,
}

/// A place in an object of the API server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// `clusters/prod`.
    pub of: String,
    /// A JSON pointer.
    pub at: String,
}

/// What has to stand at a place. Null: nothing, or the object is gone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assertion {
    pub of: String,
    pub at: String,
    pub is: Value,
}

/// A Cluster or ClusterClass in short.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Object {
    /// The name of a Cluster.
    pub cluster: Option<String>,
    /// The name of a ClusterClass.
    pub class: Option<String>,
    /// Instead of a name.
    pub generate_name: Option<String>,
    /// Its namespace; `{ns}` if it is not stated.
    pub namespace: Option<String>,
    /// A Cluster's class: `quick` or `{ns}-b/quick`. Without it the Cluster has no topology.
    pub of: Option<String>,
    /// A Cluster's version.
    pub version: Option<String>,
    /// A class's list.
    pub versions: Vec<String>,
    /// A class's `generateUpgradePlanExtension`.
    pub extension: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    pub paused: bool,
    /// What runs of a given Cluster; if it is not stated, a control plane at the Cluster's version and no workers.
    pub runs: Option<Runs>,
    /// It is deleted and waits for its finalizers. In `given` only.
    pub deleting: bool,
}

/// What runs of a Cluster, in objects of the real kinds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Runs {
    /// The version of its `KubeadmControlPlane`, which runs it; without one there is none.
    pub control_plane: Option<String>,
    /// What the control plane says that it runs, if that is another version.
    pub reports: Option<String>,
    /// The versions of its `MachineDeployment`s.
    pub workers: Vec<String>,
    /// `spec.controlPlaneRef` names an object that is not there.
    pub missing: bool,
}

impl Bulk {
    /// The Clusters, in `namespace`. Nothing runs of them.
    pub fn clusters(&self, namespace: &str) -> Vec<Object> {
        let cluster = |at| Object {
            cluster: Some(format!("{}{at}", self.prefix)),
            namespace: Some(namespace.to_owned()),
            of: Some(self.of.clone()),
            version: Some(self.version.clone()),
            runs: Some(Runs::default()),
            ..Object::default()
        };
        (0..self.count).map(cluster).collect()
    }
}

/// An object that runs of a Cluster.
#[derive(Clone, Debug)]
pub struct RunningObject {
    /// `<group>/<version>/namespaces/<namespace>/<plural>`.
    pub collection: String,
    pub manifest: Value,
    /// What its controller would write.
    pub status: Option<Value>,
}

impl Object {
    /// The plural of its kind.
    pub fn resource(&self) -> &'static str {
        if self.class.is_some() { "clusterclasses" } else { "clusters" }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.cluster.as_deref().or(self.class.as_deref()).unwrap_or_default()
    }

    /// The object in full. Without a stated namespace it has none, as a manifest that goes where kubectl is pointed.
    pub fn manifest(&self) -> Value {
        let mut metadata = Map::new();
        let mut set = |key: &str, value: Value, is_set: bool| {
            if is_set {
                metadata.insert(key.to_owned(), value);
            }
        };
        set("name", json!(self.name()), self.generate_name.is_none());
        set("generateName", json!(self.generate_name), self.generate_name.is_some());
        set("namespace", json!(self.namespace), self.namespace.is_some());
        set("labels", json!(self.labels), !self.labels.is_empty());
        set("annotations", json!(self.annotations), !self.annotations.is_empty());
        set("finalizers", json!(self.finalizers), !self.finalizers.is_empty());
        let (kind, spec) =
            if self.class.is_some() { ("ClusterClass", self.class_spec()) } else { ("Cluster", self.cluster_spec()) };
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec})
    }

    /// The name of its control plane object.
    fn control_plane(&self) -> String {
        format!("{}-x7k2p", self.name())
    }

    /// A given Cluster runs what its topology says, if nothing else is stated.
    pub fn run(&mut self) {
        if self.of.is_some() && self.runs.is_none() {
            let version = self.version.clone().unwrap_or_default();
            // What is no version cannot run.
            let runs = version.starts_with("v1.").then_some(version);
            self.runs = Some(Runs { control_plane: runs, ..Runs::default() });
        }
    }

    /// The objects that run of it, with their statuses.
    pub fn running(&self) -> Vec<RunningObject> {
        let (Some(runs), Some(namespace)) = (&self.runs, &self.namespace) else { return Vec::new() };
        let name = self.name();
        let template = |kind: &str, group: &str| json!({"apiGroup": format!("{group}.cluster.x-k8s.io"), "kind": kind, "name": "template"});
        let labels = json!({"cluster.x-k8s.io/cluster-name": name, "topology.cluster.x-k8s.io/owned": ""});
        let control_plane = runs.control_plane.as_ref().map(|version| {
            let infrastructure = template("DockerMachineTemplate", "infrastructure");
            RunningObject {
                collection: format!(
                    "controlplane.cluster.x-k8s.io/v1beta2/namespaces/{namespace}/kubeadmcontrolplanes"
                ),
                manifest: json!({
                    "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
                    "kind": "KubeadmControlPlane",
                    "metadata": {"name": self.control_plane(), "labels": labels},
                    "spec": {
                        "version": version,
                        "replicas": 1,
                        "machineTemplate": {"spec": {"infrastructureRef": infrastructure}},
                        "kubeadmConfigSpec": {"format": "cloud-config"},
                    },
                }),
                status: Some(json!({"version": runs.reports.as_ref().unwrap_or(version)})),
            }
        });
        let workers = runs.workers.iter().enumerate().map(|(at, version)| RunningObject {
            collection: format!("cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machinedeployments"),
            manifest: json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2",
                "kind": "MachineDeployment",
                "metadata": {"name": format!("{name}-md-{at}-4kq9z"), "labels": labels},
                "spec": {
                    "clusterName": name,
                    "selector": {"matchLabels": {"topology.cluster.x-k8s.io/deployment-name": format!("md-{at}")}},
                    "template": {
                        "metadata": {"labels": {"topology.cluster.x-k8s.io/deployment-name": format!("md-{at}")}},
                        "spec": {
                            "clusterName": name,
                            "version": version,
                            "bootstrap": {"configRef": template("KubeadmConfigTemplate", "bootstrap")},
                            "infrastructureRef": template("DockerMachineTemplate", "infrastructure"),
                        },
                    },
                },
            }),
            status: None,
        });
        control_plane.into_iter().chain(workers).collect()
    }

    fn class_spec(&self) -> Value {
        let template = |kind: &str, group: &str| {
            let api_version = format!("{group}.cluster.x-k8s.io/v1beta2");
            json!({"templateRef": {"apiVersion": api_version, "kind": kind, "name": "template"}})
        };
        let mut spec = json!({
            "infrastructure": template("DockerClusterTemplate", "infrastructure"),
            "controlPlane": template("KubeadmControlPlaneTemplate", "controlplane"),
        });
        if !self.versions.is_empty() {
            spec["kubernetesVersions"] = json!(self.versions);
        }
        if let Some(extension) = &self.extension {
            spec["upgrade"] = json!({"external": {"generateUpgradePlanExtension": extension}});
        }
        spec
    }

    fn cluster_spec(&self) -> Value {
        let mut spec = json!({"paused": self.paused});
        if self.runs.as_ref().is_some_and(|runs| runs.control_plane.is_some() || runs.missing) {
            spec["controlPlaneRef"] = json!({
                "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": self.control_plane(),
            });
        }
        if let Some(of) = &self.of {
            let class_ref = match of.split_once('/') {
                Some((namespace, name)) => json!({"name": name, "namespace": namespace}),
                None => json!({"name": of}),
            };
            spec["topology"] = json!({"classRef": class_ref, "version": self.version});
        }
        spec
    }
}

impl Scenario {
    /// Whether it needs the webhook for itself.
    pub fn is_exclusive(&self) -> bool {
        self.steps.iter().any(|step| {
            step.webhook.is_some()
                || step.api_server.is_some()
                || step.meanwhile.is_some()
                || step.create_clusters.is_some()
        })
    }

    /// How old the replica has to be that the API server never answered.
    pub fn unsynced_for(&self) -> Duration {
        Duration::from_secs(self.steps.iter().filter_map(|step| step.unsynced_for_seconds).max().unwrap_or_default())
    }

    /// Every string of it with the placeholders replaced.
    pub fn fill(&mut self, replace: &dyn Fn(&str) -> String) {
        let set = |text: &mut String| *text = replace(text);
        for object in self.given.iter_mut().chain(self.files.values_mut().flatten()) {
            let Object { cluster, class, generate_name, namespace, of, version, .. } = object;
            [cluster, class, generate_name, namespace, of, version].into_iter().flatten().for_each(set);
        }
        for step in &mut self.steps {
            step.run.iter_mut().for_each(set);
            set(&mut step.stdout);
            set(&mut step.stderr);
            step.then.iter_mut().for_each(|assertion| set(&mut assertion.of));
            step.unchanged.iter_mut().for_each(|place| set(&mut place.of));
            for assertion in &mut step.then {
                if let Value::String(text) = &mut assertion.is {
                    set(text);
                }
            }
        }
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.steps.is_empty(), "it has no steps");
        for (at, step) in self.steps.iter().enumerate() {
            ensure!(
                step.run.is_some() || step.webhook.is_some() || step.create_clusters.is_some(),
                "step {at} does nothing"
            );
            ensure!(
                step.run.is_none() || step.calls.is_some() || self.is_exclusive() || !self.namespace_labels.is_empty(),
                "step {at} does not say how often the webhook is called"
            );
        }
        Ok(())
    }
}

/// All scenarios, each with the name of its file.
pub fn load() -> Result<Vec<(String, Scenario)>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/e2e");
    let mut files: Vec<_> = fs::read_dir(&directory)?
        .map(|file| Ok(file?.path()))
        .collect::<Result<_>>()
        .context("failed to list cases")?;
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let theme = file.file_stem().and_then(|stem| stem.to_str()).context("a file without a name")?;
        let text = fs::read_to_string(&file)?;
        let scenarios: Vec<Scenario> =
            serde_saphyr::from_str(&text).with_context(|| format!("failed to read {}", file.display()))?;
        for scenario in scenarios {
            scenario.check().with_context(|| format!("{theme}::{}", scenario.name))?;
            all.push((theme.to_owned(), scenario));
        }
    }
    // What needs the webhook for itself comes after the others, and what waits for something to grow old comes last.
    all.sort_by_key(|(_, scenario)| (scenario.unsynced_for(), scenario.is_exclusive()));
    ensure!(all.len() >= 40, "only {} scenarios were found in {}", all.len(), directory.display());
    Ok(all)
}
