//! The rules, from both objects and a fleet to the whole texts that people read: tables of cases in tests/cases/rules. Each
//! case runs twice: as a rule's, and as an AdmissionReview that is sent to a judge whose index was told of the fleet.
//!
//! A case gives `cluster` or `class` with `old` and `new` (both: UPDATE, one of them: CREATE or DELETE; they are called a/b
//! and a/q unless they say otherwise), the `fleet` (classes by key; `users` of class a/q by version), what is `running` of the
//! Cluster, which Cluster API is `installed` (its version; absent: the newest known), `runtimeSDK` and `modes`. What it
//! expects: `denied` (the message; absent: allowed), `causes` (their fields), `warnings`; `unjudged`: allowed before anything
//! is looked up.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use capi_version_guard::{
    config,
    fleet::{self, ClassEntry, ClusterState, Event, Index, Overlay},
    model::{
        Change, Cluster, ClusterClass, ControlPlaneKind, ControlPlaneState, Provider, Running, WorkerKind,
        distinct_workers,
    },
    planner::Installed,
    review::{self, Question},
    rules::{ClassCase, ClusterCase, RULES},
    server::judge::Judge,
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
    /// Absent: nothing yet, so that no rule has anything to say of it.
    running: Option<Runs>,
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
            None | Some("unknown") => ControlPlaneState::Unknown,
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
    index.handle_class(Event::Restarted);
    for (key, class) in &fleet.classes {
        let (namespace, name) = key.split_once('/').unwrap();
        let mut object = json!({"metadata": {"namespace": namespace, "name": name}, "spec": {}});
        if !class.versions.is_empty() {
            object["spec"]["kubernetesVersions"] = json!(class.versions);
        }
        if let Some(extension) = &class.extension {
            object["spec"]["upgrade"]["external"]["generateUpgradePlanExtension"] = json!(extension);
        }
        index.handle_class(Event::Listed(serde_json::from_value(object).unwrap()));
    }
    index.handle_class(Event::Completed);
    index
}

/// The users of class a/q.
fn users(fleet: &Fleet) -> Overlay {
    let mut overlay = Overlay::default();
    for users in &fleet.users {
        let nothing = Running { control_plane: ControlPlaneState::NotCreated, workers: None };
        let running = users.running.as_ref().map_or(nothing, Running::from);
        let width = users.count.to_string().len().max(2);
        for n in 1..=users.count {
            let mut metadata = json!({"namespace": users.namespace, "name": format!("{}{n:0width$}", users.prefix)});
            if users.deleting {
                metadata["deletionTimestamp"] = json!("2026-12-01T00:00:00Z");
            }
            let topology = json!({"classRef": {"name": "q", "namespace": "a"}, "version": users.version});
            let object = json!({"metadata": metadata, "spec": {"paused": users.paused, "topology": topology}});
            let cluster: Cluster = serde_json::from_value(object).unwrap();
            let state = ClusterState::of(&cluster, running.clone()).unwrap();
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
                index.users(&change.object().key(), &users(&case.fleet))
            } else {
                asked.users.clone()
            };
            let findings = asked.with_users(users).findings();
            Some(Verdict::new("ClusterClass", &change.object().key(), findings, &modes))
        }
        _ => panic!("{}: a case is of a cluster or of a class", case.name),
    }
}

/// The kind of the control plane that a case's Cluster has.
fn kind(kubeadm: bool) -> ControlPlaneKind {
    let kind = if kubeadm { "KubeadmControlPlane" } else { "OtherControlPlane" };
    ControlPlaneKind { group: "controlplane.cluster.x-k8s.io".into(), kind: kind.into() }
}

/// Gives `cluster` a reference to a control plane object, as far as it runs one, and puts what runs of it into `index`.
fn run(cluster: &mut Value, runs: &Runs, index: &mut Index) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (namespace, name) = (text(&cluster["metadata"]["namespace"]), text(&cluster["metadata"]["name"]));
    let object = format!("{name}-x7k2p");
    let named = &cluster["spec"]["controlPlaneRef"]["kind"];
    let kind = kind(if named.is_null() { runs.kubeadm } else { named == "KubeadmControlPlane" });
    if runs.control_plane.as_deref() != Some("not-created") && named.is_null() {
        let (group, kind) = (&*kind.group, &*kind.kind);
        cluster["spec"]["controlPlaneRef"] = json!({"apiGroup": group, "kind": kind, "name": object});
    }
    if index.control_planes(&kind).is_none() && !matches!(runs.control_plane.as_deref(), None | Some("unknown")) {
        index.handle_control_planes(&kind, Event::Restarted);
        index.handle_control_planes(&kind, Event::Completed);
    }
    if let Some(version) = runs.control_plane.as_ref().filter(|version| version.starts_with('v')) {
        let status = if runs.moving { json!({"version": "v1.0.0"}) } else { json!({"version": version}) };
        let object = json!({
            "metadata": {"namespace": namespace, "name": object}, "spec": {"version": version}, "status": status,
        });
        index.handle_control_planes(&kind, Event::Applied(serde_json::from_value(object).unwrap()));
    }
    if runs.workers.is_some() && !index.workers(WorkerKind::MachinePool).synced() {
        index.handle_workers(WorkerKind::MachineDeployment, Event::Restarted);
        index.handle_workers(WorkerKind::MachineDeployment, Event::Completed);
        index.workers_not_served(WorkerKind::MachinePool);
    }
    for (at, version) in runs.workers.iter().flatten().enumerate() {
        let labels = json!({"cluster.x-k8s.io/cluster-name": name, "topology.cluster.x-k8s.io/owned": ""});
        let set = json!({
            "metadata": {"namespace": namespace, "name": format!("{name}-md-{at}"), "labels": labels},
            "spec": {"template": {"spec": {"version": version}}},
        });
        index.handle_workers(WorkerKind::MachineDeployment, Event::Applied(serde_json::from_value(set).unwrap()));
    }
}

/// The object of a case as the API server would send it.
fn sent(object: &Value, kind: &str, name: &str) -> Value {
    let mut object = object.clone();
    let fields = object.as_object_mut().unwrap();
    fields.insert("apiVersion".to_owned(), json!("cluster.x-k8s.io/v1beta2"));
    fields.insert("kind".to_owned(), json!(kind));
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut().unwrap();
    metadata.entry("name").or_insert_with(|| json!(name));
    metadata.entry("namespace").or_insert_with(|| json!("a"));
    object
}

/// The whole answer to the case's change, sent as an AdmissionReview, by a server that knows the case's fleet from its watches.
fn answer(case: &Case) -> Value {
    let mut index = index(&case.fleet);
    index.handle_cluster(Event::Restarted);
    index.handle_cluster(Event::Completed);
    for (key, state) in users(&case.fleet).0 {
        let state = state.unwrap();
        let mut cluster = json!({
            "metadata": {"namespace": &*key.namespace, "name": &*key.name},
            "spec": {"topology": {"classRef": {"name": "q", "namespace": "a"}, "version": &*state.version}},
        });
        if state.deleting {
            cluster["metadata"]["deletionTimestamp"] = json!("2026-12-01T00:00:00Z");
        }
        run(&mut cluster, &Runs::from(&state.running), &mut index);
        index.handle_cluster(Event::Applied(serde_json::from_value(cluster).unwrap()));
    }
    let (kind, resource, name, objects) = match (&case.cluster, &case.class) {
        (Some(objects), None) => ("Cluster", "clusters", "b", objects),
        (None, Some(objects)) => ("ClusterClass", "clusterclasses", "q", objects),
        _ => panic!("{}: a case is of a cluster or of a class", case.name),
    };
    let mut request = json!({
        "uid": "00000000-0000-4000-8000-000000000001",
        "resource": {"group": "cluster.x-k8s.io", "version": "v1beta2", "resource": resource},
        "operation": match (&objects.old, &objects.new) {
            (Some(_), Some(_)) => "UPDATE",
            (None, _) => "CREATE",
            (_, None) => "DELETE",
        },
    });
    for (field, object) in [("oldObject", &objects.old), ("object", &objects.new)] {
        if let Some(object) = object {
            let mut object = sent(object, kind, name);
            if kind == "Cluster" && objects.old.is_some() && object["spec"].is_object() {
                run(&mut object, &case.running, &mut index);
            }
            request[field] = object;
        }
    }
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let bytes = serde_json::to_vec(&review).unwrap();
    let fleet = fleet::Fleet::from(index);
    fleet.set_installed(
        case.installed.as_deref().map_or_else(Installed::default, |it| Installed::of_version(it).unwrap()),
    );
    let modes: Vec<String> = case.modes.iter().map(|(rule, mode)| format!("  {rule}: {mode}\n")).collect();
    let config = config::parse(&format!("runtimeSDK: {}\nrules:\n{}", case.runtime_sdk, modes.concat())).unwrap();
    let judge = Judge::new(Arc::new(fleet), None, config);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    let answer = if kind == "Cluster" {
        let request = review::parse::<Cluster>(&bytes).unwrap();
        let Question::Judge(change) = &request.question else { panic!("{}: not judged", case.name) };
        let judgement = runtime.block_on(judge.cluster(change, false, deadline)).unwrap();
        request.respond(&change.object().metadata.name, &judgement.verdict, BTreeMap::new())
    } else {
        let request = review::parse::<ClusterClass>(&bytes).unwrap();
        let Question::Judge(change) = &request.question else { panic!("{}: not judged", case.name) };
        let judgement = runtime.block_on(judge.class(change, false, deadline)).unwrap();
        request.respond(&change.object().metadata.name, &judgement.verdict, BTreeMap::new())
    };
    serde_json::from_slice(&answer).unwrap()
}

impl From<&Running> for Runs {
    fn from(running: &Running) -> Self {
        let workers = running.workers.as_ref().map(|it| it.iter().map(ToString::to_string).collect());
        let (control_plane, moving, kubeadm) = match &running.control_plane {
            ControlPlaneState::Unknown => ("unknown".to_owned(), false, false),
            ControlPlaneState::Missing => ("missing".to_owned(), false, false),
            ControlPlaneState::NotCreated => ("not-created".to_owned(), false, false),
            ControlPlaneState::At { version, settled, provider } => {
                (version.to_string(), !settled, *provider == Provider::Kubeadm)
            }
        };
        Self { control_plane: Some(control_plane), moving, kubeadm, workers }
    }
}

#[test]
fn every_case_gets_the_same_answer_as_an_admission_review() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/rules");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in &files {
        for case in cases(file) {
            seen += 1;
            let response = answer(&case)["response"].take();
            let mut differs = |what: &str, is: &str, expected: &str| {
                if is != expected {
                    let theme = file.file_stem().unwrap().to_string_lossy();
                    wrong.push(format!("{theme}: {}: {what}\n  is:        {is}\n  should be: {expected}", case.name));
                }
            };
            let message = response["status"]["message"].as_str().unwrap_or_default();
            differs("denied", message, case.denied.as_deref().unwrap_or_default());
            differs("allowed", &response["allowed"].to_string(), &case.denied.is_none().to_string());
            let texts = |list: &Value, at: &str| -> Vec<String> {
                let items = list.as_array().into_iter().flatten();
                items.map(|item| item.pointer(at).unwrap().as_str().unwrap().to_owned()).collect()
            };
            differs("warnings", &texts(&response["warnings"], "").join("\n"), &case.warnings.join("\n"));
            let causes = texts(&response["status"]["details"]["causes"], "/field");
            differs("causes", &causes.join(" "), &case.causes.join(" "));
        }
    }
    assert!(wrong.is_empty(), "{} of {seen} cases:\n{}", wrong.len(), wrong.join("\n"));
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
