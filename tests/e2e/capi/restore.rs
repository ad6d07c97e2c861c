//! Clusters that are created anew from what was stored of them: moved by `clusterctl move`, or restored from a backup.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    World,
    story::{Story, same, text},
    system::{
        api::{self, CORE},
        definitions::{KINDS, plural},
    },
};

/// As `clusterctl move` does it (cmd/clusterctl/client/cluster/mover.go): Cluster and class are paused; every object is
/// created at the other place after its owners, with its metadata and its owners' new uids, without its status; the old
/// ones are deleted in the opposite order; then the class is resumed, and the Cluster. Here the other place is a namespace.
struct Move<'a> {
    from: &'a Story<'a>,
    to: &'a Story<'a>,
}

pub fn settled_cluster_moves(world: &World) -> Result<()> {
    let (from, to) = (Story::guarded(world, "move-settled")?, Story::guarded_and_empty(world, "move-settled-to")?);
    from.create(&from.class("quick", &["v1.30.4", "v1.31.9", "v1.32.4"]))?;
    from.create(&from.cluster("prod", "v1.30.4", Some(1)))?;
    from.settled("prod")?;
    let machines = names(&from, "Machine");
    Move { from: &from, to: &to }.run()?;
    to.settled("prod")?;
    ensure!(names(&to, "Machine") == machines, "{:?} became {:?}", machines, names(&to, "Machine"));
    // It is no less a Cluster there than it was before.
    to.change("prod", &json!({"spec": {"topology": {"version": "v1.31.9"}}}))?;
    to.settled("prod")?;
    moved_undenied(&from, &to, &["UPDATE Cluster prod: allowed"])
}

pub fn cluster_moves_in_the_middle_of_a_chain(world: &World) -> Result<()> {
    let (from, to) = (Story::guarded(world, "move-mid-chain")?, Story::guarded_and_empty(world, "move-mid-chain-to")?);
    from.create(&from.class("quick", &["v1.30.4", "v1.31.9", "v1.32.4", "v1.33.1"]))?;
    from.create(&from.cluster("prod", "v1.30.4", Some(1)))?;
    from.settled("prod")?;
    from.hold("prod", &["v1.31.9"])?;
    from.change("prod", &json!({"spec": {"topology": {"version": "v1.33.1"}}}))?;
    from.reaches("prod", "v1.31.9")?;
    Move { from: &from, to: &to }.run()?;
    to.settled("prod")?;
    same(
        "what was asked for",
        &to.history.asked(),
        &[
            // As they were created; what comes then is the rest of the chain.
            "workers v1.30.4",
            "control plane v1.31.9",
            "control plane v1.32.4",
            "control plane v1.33.1",
            "workers v1.33.1",
        ],
    )?;
    moved_undenied(&from, &to, &[])
}

fn moved_undenied(from: &Story, to: &Story, then: &[&str]) -> Result<()> {
    from.none_was_denied()?;
    to.nothing_was_denied()?;
    let moved = ["CREATE ClusterClass quick: allowed", "CREATE Cluster prod: allowed"];
    same("the verdicts", &to.verdicts()?, &[&moved, then].concat())
}

impl Move<'_> {
    fn run(&self) -> Result<()> {
        let pause = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": "true"}}});
        self.from.change("prod", &json!({"spec": {"paused": true}}))?;
        self.from.merge(&self.from.class_path("quick"), &pause)?;
        let mut waiting = self.from.backup()?;
        let mut moved = Vec::new();
        let mut uids = HashMap::new();
        while !waiting.is_empty() {
            let known: Vec<_> = waiting.iter().map(|object| text(&object["metadata"]["uid"]).to_owned()).collect();
            let (next, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|object| {
                let mut owners = owners(object);
                // A class is referred to, not an owner, and yet comes first.
                let comes_later = object["kind"] == "Cluster" && !uids.contains_key("ClusterClass");
                !comes_later && !owners.any(|owner| known.contains(&text(&owner["uid"]).to_owned()))
            });
            ensure!(!next.is_empty(), "the owners of {later:?} own each other");
            for object in next {
                let created = self.to.create(&anew(&object, &self.to.namespace, &uids))?;
                uids.insert(text(&object["metadata"]["uid"]).to_owned(), created["metadata"]["uid"].clone());
                uids.insert(text(&object["kind"]).to_owned(), Value::Null);
                moved.push(object);
            }
            waiting = later;
        }
        for object in moved.iter().rev() {
            self.from.remove(object)?;
        }
        let resume = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}});
        self.to.merge(&self.to.class_path("quick"), &resume)?;
        self.to.change("prod", &json!({"spec": {"paused": null}})).map(drop)
    }
}

/// A backup comes back with the Clusters before the classes, and with finalizers. A class from an older backup, which does
/// not list what the Cluster runs, is denied: it would have locked the Cluster (G1).
pub fn clusters_before_classes(world: &World) -> Result<()> {
    let restored = restore_the_wrong_way_round(world, "restore", Story::guarded, true)?;
    restored.says(
        "kubectl create -f old-class.json",
        "Error from server (Forbidden): error when creating \"old-class.json\": admission webhook \
         \"clusterclasses.capi-version-guard.io\" denied the request: ClusterClass {ns}/quick: spec.kubernetesVersions: \
         v1.31.9 is missing while 1 Cluster uses it ({ns}/prod); Cluster API refuses every write of a Cluster outside of its \
         class's list, finalizer removal included; list it, or leave the class without a list (list-covers-clusters)",
    )?;
    restored.says("kubectl create -f class.json", "clusterclass.cluster.x-k8s.io/quick created")?;
    restored.settled("prod")?;
    ensure!(names(&restored, "SimulatedControlPlane").len() == 1, "it was not the control plane of the backup");
    same(
        "the verdicts",
        &restored.verdicts()?,
        &[
            "CREATE Cluster prod: allowed with class-exists",
            "CREATE ClusterClass quick: denied by list-covers-clusters",
            "CREATE ClusterClass quick: allowed",
        ],
    )
}

/// The same without this project's webhook: what the denial prevents.
pub fn clusters_before_classes_unguarded(world: &World) -> Result<()> {
    let restored = restore_the_wrong_way_round(world, "restore-unguarded", Story::unguarded, false)?;
    restored.says("kubectl create -f old-class.json", "clusterclass.cluster.x-k8s.io/quick created")?;
    restored.fails("prod")?;
    restored.is_refused_by_cluster_api("kubectl label cluster prod team=a")?;
    restored
        .is_refused_by_cluster_api(r#"kubectl patch cluster prod --type merge -p '{"metadata": {"finalizers": null}}'"#)
}

fn restore_the_wrong_way_round<'a>(
    world: &'a World,
    name: &str,
    begin: fn(&'a World, &str) -> Result<Story<'a>>,
    guarded: bool,
) -> Result<Story<'a>> {
    let source = Story::guarded(world, &format!("{name}-source"))?;
    source.create(&source.class("quick", &["v1.30.4", "v1.31.9"]))?;
    source.create(&source.cluster("prod", "v1.31.9", None))?;
    source.settled("prod")?;
    let restored = begin(world, name)?;
    let (mut early, late): (Vec<_>, Vec<_>) =
        source.backup()?.into_iter().partition(|object| object["kind"] != "ClusterClass");
    // The Cluster is the first of all.
    early.sort_by_key(|object| object["kind"] != "Cluster");
    for object in &early {
        // Those are made by the namespace and the provider, and a restore leaves alone what is there.
        if object["metadata"]["name"] == "simulated" || object["kind"] == "Secret" {
            continue;
        }
        let anew = anew(object, &restored.namespace, &HashMap::new());
        ensure!(object["kind"] != "Cluster" || anew["metadata"]["finalizers"] != Value::Null, "it has no finalizer");
        restored.create(&anew)?;
    }
    let class = anew(late.first().context("the backup has no class")?, &restored.namespace, &HashMap::new());
    restored.file("class.json", &class)?;
    restored.file("old-class.json", &restored.class("quick", &["v1.30.4"]))?;
    ensure!(guarded != restored.verdicts()?.is_empty(), "the webhook was to be asked: {guarded}");
    Ok(restored)
}

impl Story<'_> {
    /// All objects of the namespace that a move takes along.
    fn backup(&self) -> Result<Vec<Value>> {
        let core = ["ClusterClass", "Cluster", "MachineDeployment", "MachineSet", "Machine"]
            .map(|kind| (CORE, kind.to_owned()));
        let simulated = KINDS.iter().flat_map(|(group_version, kind)| {
            [format!("{kind}Template"), (*kind).to_owned()].map(|kind| (*group_version, kind))
        });
        let kinds = core.into_iter().chain(simulated).chain([("v1", "Secret".to_owned())]);
        let mut all = Vec::new();
        for (group_version, kind) in kinds {
            let path = api::path(group_version, &plural(&kind), &self.namespace, "");
            let list = self.read(path.trim_end_matches('/'))?.with_context(|| format!("no {kind} are served"))?;
            for item in list["items"].as_array().into_iter().flatten() {
                let mut object = item.clone();
                // Items of a list leave them out.
                object["apiVersion"] = json!(group_version);
                object["kind"] = json!(kind);
                all.push(object);
            }
        }
        Ok(all)
    }

    /// Deletes an object for good, with its finalizers.
    fn remove(&self, object: &Value) -> Result<()> {
        let path = api::path(
            text(&object["apiVersion"]),
            &plural(text(&object["kind"])),
            &self.namespace,
            text(&object["metadata"]["name"]),
        );
        let handle = &self.system.handle;
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        loop {
            let deleted = handle.block_on(self.system.api.delete(&path))?;
            if deleted.is_ok() || deleted.code == 404 {
                break;
            }
            // Cluster API counts the users of a class in its cache, which may still hold the last one.
            let is_ours = deleted.message().contains("capi-version-guard");
            ensure!(!is_ours && std::time::Instant::now() < end, "{path}: {}", deleted.message());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let removed = handle.block_on(self.system.api.merge(&path, &json!({"metadata": {"finalizers": null}})))?;
        if removed.code == 404 { Ok(()) } else { removed.object().map(drop) }
    }
}

/// The object as it is created elsewhere. Owners that are not known there are left out.
fn anew(object: &Value, namespace: &str, uids: &HashMap<String, Value>) -> Value {
    let mut anew = object.clone();
    let kept = |name: &str| object["metadata"].get(name).cloned();
    let mut metadata = json!({"namespace": namespace});
    for name in ["name", "labels", "annotations", "finalizers"] {
        if let Some(value) = kept(name) {
            metadata[name] = value;
        }
    }
    let owners: Vec<_> = owners(object)
        .filter_map(|owner| {
            let mut owner = owner.clone();
            owner["uid"] = uids.get(text(&owner["uid"]))?.clone();
            Some(owner)
        })
        .collect();
    metadata["ownerReferences"] = json!(owners);
    anew["metadata"] = metadata;
    anew.as_object_mut().map(|anew| anew.remove("status"));
    anew
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

fn names(story: &Story, kind: &'static str) -> Vec<String> {
    let objects = story.system.observer.objects(kind, &story.namespace);
    objects.iter().map(|object| text(&object["metadata"]["name"]).to_owned()).collect()
}
