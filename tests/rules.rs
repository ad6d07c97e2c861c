//! The rules, from both objects and a fleet to the whole texts that people read: tables of cases in tests/cases/rules.
//!
//! A case gives `cluster` or `class` with `old` and `new` (both: UPDATE, one of them: CREATE or DELETE; they are called a/b
//! and a/q unless they say otherwise), the `fleet` (classes by key; `users` of class a/q by version), what is `running` of the
//! Cluster, which Cluster API is `installed` (its version; absent: the newest known), `runtimeSDK` and `modes`. What it
//! expects: `denied` (the message; absent: allowed), `causes` (their fields), `warnings`; `unjudged`: allowed before anything
//! is looked up.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use capi_version_guard::{
    config,
    fleet::{ClassEntry, ClusterState, Event, Index, Overlay},
    model::{Change, Cluster, ClusterClass, ControlPlaneState, Provider, Running, distinct_workers},
    planner::Installed,
    rules::{ClassCase, ClusterCase, RULES},
    verdict::Verdict,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Case {
    name: String,
    cluster: Option<Objects>,
    class: Option<Objects>,
    #[serde(default)]
    fleet: Fleet,
    #[serde(default)]
    running: Runs,
    installed: Option<String>,
    #[serde(default = "yes", rename = "runtimeSDK")]
    runtime_sdk: bool,
    #[serde(default)]
    modes: BTreeMap<String, String>,
    denied: Option<String>,
    #[serde(default)]
    causes: Vec<String>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    unjudged: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Objects {
    old: Option<Value>,
    new: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Fleet {
    classes: BTreeMap<String, Class>,
    users: Vec<Users>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Class {
    versions: Vec<String>,
    extension: Option<String>,
}

/// Clusters of class a/q at one version: `count` of them, called c01 and so on, in `namespace`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Users {
    version: String,
    #[serde(default = "one")]
    count: usize,
    #[serde(default = "namespace")]
    namespace: String,
    #[serde(default = "prefix")]
    prefix: String,
    #[serde(default)]
    deleting: bool,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    running: Runs,
}

/// What runs: the control plane's version, `missing` or `not-created` (absent: not known), and the workers' versions
/// (absent: not known).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct Runs {
    control_plane: Option<String>,
    /// Whether the control plane is still on its way to its version.
    moving: bool,
    /// Whether it is one of Cluster API's own.
    kubeadm: bool,
    workers: Option<Vec<String>>,
}

impl From<&Runs> for Running {
    fn from(runs: &Runs) -> Self {
        let provider = if runs.kubeadm { Provider::Kubeadm } else { Provider::Other };
        let control_plane = match runs.control_plane.as_deref() {
            None => ControlPlaneState::Unknown,
            Some("missing") => ControlPlaneState::Missing,
            Some("not-created") => ControlPlaneState::NotCreated,
            Some(version) => ControlPlaneState::At { version: version.into(), settled: !runs.moving, provider },
        };
        let workers = runs.workers.as_ref().map(|it| distinct_workers(it.iter().map(String::as_str)));
        Self { control_plane, workers }
    }
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

fn namespace() -> String {
    "a".to_owned()
}

fn prefix() -> String {
    "c".to_owned()
}

/// A change of the two objects, which get the names that they do not have.
fn change<T: for<'de> Deserialize<'de>>(objects: &Objects, name: &str) -> Change<T> {
    let read = |object: &Value| -> T {
        let mut object = object.clone();
        let metadata = object.as_object_mut().unwrap().entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            if !metadata.contains_key("generateName") {
                metadata.entry("name").or_insert_with(|| json!(name));
            }
            metadata.entry("namespace").or_insert_with(|| json!("a"));
        }
        serde_json::from_value(object).unwrap()
    };
    match (&objects.old, &objects.new) {
        (Some(old), Some(new)) => Change::Update { old: read(old), new: read(new) },
        (None, Some(new)) => Change::Create(read(new)),
        (Some(old), None) => Change::Delete(read(old)),
        (None, None) => panic!("a case without objects"),
    }
}

fn index(fleet: &Fleet) -> Index {
    let mut index = Index::default();
    index.classes.handle(Event::Restarted);
    for (key, class) in &fleet.classes {
        let (namespace, name) = key.split_once('/').unwrap();
        let mut object = json!({"metadata": {"namespace": namespace, "name": name}, "spec": {}});
        if !class.versions.is_empty() {
            object["spec"]["kubernetesVersions"] = json!(class.versions);
        }
        if let Some(extension) = &class.extension {
            object["spec"]["upgrade"]["external"]["generateUpgradePlanExtension"] = json!(extension);
        }
        index.classes.handle(Event::Listed(serde_json::from_value(object).unwrap()));
    }
    index.classes.handle(Event::Completed);
    index
}

/// The users of class a/q.
fn users(fleet: &Fleet) -> Overlay {
    let mut overlay = Overlay::default();
    for users in &fleet.users {
        let width = users.count.to_string().len().max(2);
        for n in 1..=users.count {
            let mut metadata = json!({"namespace": users.namespace, "name": format!("{}{n:0width$}", users.prefix)});
            if users.deleting {
                metadata["deletionTimestamp"] = json!("2026-12-01T00:00:00Z");
            }
            let topology = json!({"classRef": {"name": "q", "namespace": "a"}, "version": users.version});
            let object = json!({"metadata": metadata, "spec": {"paused": users.paused, "topology": topology}});
            let cluster: Cluster = serde_json::from_value(object).unwrap();
            let state = ClusterState::of(&cluster, Running::from(&users.running)).unwrap();
            overlay.0.insert(cluster.key(), Some(state));
        }
    }
    overlay
}

/// The verdict; `None` if there is nothing to judge.
fn judge(case: &Case) -> Option<Verdict> {
    let index = index(&case.fleet);
    let modes: Vec<String> = case.modes.iter().map(|(rule, mode)| format!("  {rule}: {mode}\n")).collect();
    let modes = config::parse(&format!("rules:\n{}", modes.concat())).unwrap().modes;
    let installed = case.installed.as_deref().map_or_else(Installed::default, |it| Installed::of_version(it).unwrap());
    let installed = Installed { runtime_sdk: case.runtime_sdk, ..installed };
    match (&case.cluster, &case.class) {
        (Some(objects), None) => {
            let change: Change<Cluster> = change(objects, "b");
            let asked = ClusterCase::of(&change)?;
            let class: Option<&ClassEntry> = index.classes.objects().get(&asked.class_key);
            let old_class = asked.old.as_ref().and_then(|old| index.classes.objects().get(&old.class_key));
            let running = Running::from(&case.running);
            let findings = ClusterCase { class, old_class, running, installed, ..asked }.findings();
            Some(Verdict::new("Cluster", &change.object().key(), findings, &modes))
        }
        (None, Some(objects)) => {
            let change: Change<ClusterClass> = change(objects, "q");
            let mut asked = ClassCase::of(&change)?;
            asked.installed = installed;
            let users = if asked.needs_users() {
                index.clusters.objects().users(&change.object().key(), &users(&case.fleet))
            } else {
                asked.users.clone()
            };
            let findings = asked.with_users(users).findings();
            Some(Verdict::new("ClusterClass", &change.object().key(), findings, &modes))
        }
        _ => panic!("{}: a case is of a cluster or of a class", case.name),
    }
}

fn cases(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn every_case_has_its_verdict_to_the_letter() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/rules");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut seen, mut wrong, mut spoke) = (0, Vec::new(), BTreeSet::new());
    for file in &files {
        for case in cases(file) {
            seen += 1;
            let verdict = judge(&case);
            let mut differs = |what: &str, is: &str, expected: &str| {
                if is != expected {
                    let theme = file.file_stem().unwrap().to_string_lossy();
                    wrong.push(format!("{theme}: {}: {what}\n  is:        {is}\n  should be: {expected}", case.name));
                }
            };
            differs("unjudged", &verdict.is_none().to_string(), &case.unjudged.to_string());
            let verdict = verdict.unwrap_or_default();
            differs("denied", &verdict.message(), case.denied.as_deref().unwrap_or_default());
            differs("warnings", &verdict.warning_texts().join("\n"), &case.warnings.join("\n"));
            let causes: Vec<_> = verdict.denials.iter().map(|finding| finding.field.to_string()).collect();
            differs("causes", &causes.join(" "), &case.causes.join(" "));
            spoke.extend(verdict.rules());
        }
    }
    assert!(wrong.is_empty(), "{} of {seen} cases:\n{}", wrong.len(), wrong.join("\n"));
    let all: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(spoke, all, "each rule speaks in some case");
    assert!(seen >= 130, "only {seen} cases");
    for rule in &RULES {
        let file = format!("{directory}/{}.yaml", rule.name);
        assert!(files.iter().any(|known| known == Path::new(&file)), "there is no {file}");
    }
}
