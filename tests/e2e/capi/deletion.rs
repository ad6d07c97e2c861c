//! A Cluster in any state can be deleted: with this project's webhook as without it, and as far as Cluster API can.
//!
//! Cluster API itself leaves some Clusters as they are. Its webhook checks every update of a Cluster, the removal of a
//! finalizer included: while the class is gone or does not list the version, the finalizer stays (G2, G4). A Cluster that
//! has no finalizer yet, since Cluster API could not add it either, goes at once. Pauses, hooks and finalizers of others are
//! waited for, as they should be.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{World, story::Story};

struct Case {
    /// A part of the namespaces' names.
    state: &'static str,
    /// Brings the Cluster `prod` into the state.
    make: fn(&Story) -> Result<()>,
    /// If it does not go by itself: sees that it stays and why, and helps.
    help: Option<fn(&Story) -> Result<()>>,
}

const CASES: &[Case] = &[
    Case { state: "settled", make: settled_with_workers, help: None },
    Case { state: "mid-chain", make: in_the_middle_of_a_chain, help: None },
    Case { state: "trapped", make: trapped, help: None },
    Case { state: "unlisted", make: unlisted, help: None },
    Case { state: "unlisted-finalizer", make: unlisted_with_a_finalizer, help: Some(list_the_version) },
    Case { state: "classless-finalizer", make: classless_with_a_finalizer, help: Some(create_the_class) },
    Case { state: "paused", make: paused, help: Some(unpause) },
    Case { state: "hooked", make: held_by_a_hook, help: Some(unblock) },
    Case { state: "backed-up", make: with_a_finalizer_of_others, help: Some(remove_the_finalizer) },
];

pub fn every_state(world: &World) -> Result<()> {
    thread::scope(|scope| {
        let running: Vec<_> = CASES
            .iter()
            .flat_map(|case| [true, false].map(|guarded| (case, guarded)))
            .map(|(case, guarded)| scope.spawn(move || delete(world, case, guarded)))
            .collect();
        // All of them are told: one that fails tells little of the others.
        let failed: Vec<_> = running
            .into_iter()
            .filter_map(|case| match case.join() {
                Ok(done) => done.err().map(|error| format!("{error:#}")),
                Err(_) => Some("a case panicked".to_owned()),
            })
            .collect();
        ensure!(failed.is_empty(), "{}", failed.join("\n"));
        Ok(())
    })
}

fn delete(world: &World, case: &Case, guarded: bool) -> Result<()> {
    let namespace = format!("deletion-{}-{}", case.state, if guarded { "guarded" } else { "unguarded" });
    let story = if guarded { Story::guarded(world, &namespace)? } else { Story::unguarded(world, &namespace)? };
    (case.make)(&story).with_context(|| format!("{namespace}: failed to bring it into its state"))?;
    story.delete("prod")?;
    if let Some(help) = case.help {
        help(&story).with_context(|| namespace.clone())?;
    }
    story.gone("prod")?;
    for kind in ["MachineDeployment", "Machine", "SimulatedControlPlane"] {
        let left = story.system.observer.objects(kind, &namespace);
        ensure!(left.is_empty(), "{namespace}: {} of kind {kind} are left", left.len());
    }
    if guarded {
        story.none_was_denied().with_context(|| namespace.clone())?;
    }
    Ok(())
}

fn settled(story: &Story) -> Result<()> {
    settle(story, None)
}

fn settled_with_workers(story: &Story) -> Result<()> {
    settle(story, Some(1))
}

fn settle(story: &Story, workers: Option<u32>) -> Result<()> {
    story.create(&story.class("quick", &["v1.30.4", "v1.31.9", "v1.32.4"]))?;
    story.create(&story.cluster("prod", "v1.30.4", workers))?;
    story.settled("prod")
}

fn in_the_middle_of_a_chain(story: &Story) -> Result<()> {
    settled(story)?;
    story.hold("prod", &["v1.31.9"])?;
    story.change("prod", &json!({"spec": {"topology": {"version": "v1.32.4"}}}))?;
    story.reaches("prod", "v1.31.9")
}

/// G5: a target to which no plan leads, which this project's webhook would have denied.
fn trapped(story: &Story) -> Result<()> {
    story.create(&story.class("quick", &[]))?;
    story.create(&story.class("high", &["v1.32.4", "v1.33.1"]))?;
    story.create(&story.cluster("prod", "v1.30.4", None))?;
    story.settled("prod")?;
    let trap = json!({"spec": {"topology": {"classRef": {"name": "high"}, "version": "v1.33.1"}}});
    story.system.handle.block_on(story.unguarded_api().merge(&story.cluster_path("prod"), &trap))?.object()?;
    story.fails("prod")
}

/// G1: a class that came after the Cluster and does not list its version, which this project's webhook would have denied.
fn unlisted(story: &Story) -> Result<()> {
    locked(story, &story.cluster("prod", "v1.30.4", None))
}

fn unlisted_with_a_finalizer(story: &Story) -> Result<()> {
    locked(story, &with_finalizers(story.cluster("prod", "v1.30.4", None), &[OWN]))
}

fn locked(story: &Story, cluster: &Value) -> Result<()> {
    story.create(cluster)?;
    let class = story.class("quick", &["v1.31.9"]);
    story.system.handle.block_on(story.unguarded_api().create(&class))?.object()?;
    story.is_refused_by_cluster_api("kubectl label cluster prod team=a")
}

fn list_the_version(story: &Story) -> Result<()> {
    story.is_refused_by_cluster_api(REMOVE)?;
    story.says(
        r#"kubectl patch clusterclass quick --type merge -p '{"spec": {"kubernetesVersions": ["v1.30.4", "v1.31.9"]}}'"#,
        "clusterclass.cluster.x-k8s.io/quick patched",
    )
}

fn classless_with_a_finalizer(story: &Story) -> Result<()> {
    story.create(&with_finalizers(story.cluster("prod", "v1.30.4", None), &[OWN])).map(drop)
}

fn create_the_class(story: &Story) -> Result<()> {
    story.is_refused_by_cluster_api(REMOVE)?;
    story.create(&story.class("quick", &["v1.30.4"])).map(drop)
}

fn paused(story: &Story) -> Result<()> {
    settled(story)?;
    story.change("prod", &json!({"spec": {"paused": true}})).map(drop)
}

fn unpause(story: &Story) -> Result<()> {
    stays(story)?;
    story.change("prod", &json!({"spec": {"paused": null}})).map(drop)
}

fn held_by_a_hook(story: &Story) -> Result<()> {
    settled(story)?;
    story.world.extension.block(&story.namespace, Some("BeforeClusterDelete"));
    Ok(())
}

fn unblock(story: &Story) -> Result<()> {
    let start = Instant::now();
    while !story.hooks().iter().any(|hook| hook == "BeforeClusterDelete") {
        ensure!(start.elapsed() < Duration::from_secs(60), "the hook is not called");
        thread::sleep(Duration::from_millis(50));
    }
    stays(story)?;
    story.world.extension.block(&story.namespace, None);
    Ok(())
}

fn with_a_finalizer_of_others(story: &Story) -> Result<()> {
    settled(story)?;
    let finalizers = json!({"metadata": {"finalizers": [OWN, "backup.example.com/done"]}});
    story.change("prod", &finalizers).map(drop)
}

fn remove_the_finalizer(story: &Story) -> Result<()> {
    let alone = json!(["backup.example.com/done"]);
    story.wait("the finalizer of others is the last", |observer| {
        let cluster = observer.object("Cluster", &story.namespace, "prod")?;
        (cluster["metadata"]["finalizers"] == alone).then_some(())
    })?;
    story.says(REMOVE, "cluster.cluster.x-k8s.io/prod patched")
}

/// What Cluster API waits for before it lets a Cluster go.
const OWN: &str = "cluster.cluster.x-k8s.io";

/// As people do when nothing else helps.
const REMOVE: &str = r#"kubectl patch cluster prod --type merge -p '{"metadata": {"finalizers": null}}'"#;

fn with_finalizers(mut cluster: Value, finalizers: &[&str]) -> Value {
    cluster["metadata"]["finalizers"] = json!(finalizers);
    cluster
}

/// It is still there when others are long gone.
fn stays(story: &Story) -> Result<()> {
    thread::sleep(Duration::from_secs(2));
    let cluster = story.stored("prod")?;
    ensure!(cluster["metadata"].get("deletionTimestamp").is_some(), "it is not being deleted");
    Ok(())
}
