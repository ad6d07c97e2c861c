//! Chained upgrades.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    World,
    system::{
        System,
        api::{class_path, cluster_path},
        observe::{Outcome, Patience},
    },
};

/// A class of simulated templates, with a worker class.
pub fn class(namespace: &str, name: &str, versions: &[&str]) -> Value {
    let of = |group_version: &str, kind: &str| json!({"templateRef": {"apiVersion": group_version, "kind": kind, "name": "simulated"}});
    let machines = of("infrastructure.cluster.x-k8s.io/v1", "SimulatedMachineTemplate");
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "infrastructure": of("infrastructure.cluster.x-k8s.io/v1", "SimulatedClusterTemplate"),
            "controlPlane": of("controlplane.cluster.x-k8s.io/v1", "SimulatedControlPlaneTemplate"),
            "workers": {"machineDeployments": [{
                "class": "default",
                "bootstrap": of("bootstrap.cluster.x-k8s.io/v1", "SimulatedConfigTemplate"), "infrastructure": machines,
            }]},
            "kubernetesVersions": versions,
        },
    })
}

/// A Cluster of that class, with a worker set of so many replicas if any is given.
pub fn cluster(namespace: &str, name: &str, class: &str, version: &str, workers: Option<u32>) -> Value {
    let sets: Vec<_> =
        workers.into_iter().map(|replicas| json!({"class": "default", "name": "md", "replicas": replicas})).collect();
    let workers = if sets.is_empty() { json!({}) } else { json!({"workers": {"machineDeployments": sets}}) };
    let mut topology = json!({"classRef": {"name": class}, "version": version});
    topology.as_object_mut().unwrap().extend(workers.as_object().unwrap().clone());
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"topology": topology},
    })
}

/// Waits until a Cluster has settled at its target.
pub async fn settled(system: &System, written: &Value) -> Result<()> {
    system.observer.saw(written).await?;
    let name = |of: &str| written["metadata"][of].as_str().unwrap_or_default();
    let (namespace, cluster) = (name("namespace"), name("name"));
    let outcome = system.observer.settle(namespace, cluster, Patience::default(), async || Ok(())).await?;
    for machine in system.observer.objects("Machine", namespace) {
        if outcome != Outcome::Settled {
            println!("{:#}", machine["status"]);
        }
    }
    ensure!(outcome == Outcome::Settled, "{namespace}/{cluster}: {outcome:?}");
    Ok(())
}

pub fn three_hops(world: &World) -> Result<()> {
    let system = &world.system;
    system.handle.block_on(async {
        system.namespace("three-hops", true).await?;
        let versions = ["v1.30.4", "v1.31.9", "v1.32.4", "v1.33.1"];
        system.api.create(&class("three-hops", "quick", &versions)).await?.object()?;
        let created = system.api.create(&cluster("three-hops", "prod", "quick", "v1.30.4", None)).await?.object()?;
        settled(system, &created).await?;
        let to = json!({"spec": {"topology": {"version": "v1.33.1"}}});
        let patched = system.api.merge(&cluster_path("three-hops", "prod"), &to).await?.object()?;
        settled(system, &patched).await
    })?;
    let calls: Vec<_> = world
        .extension
        .calls("three-hops")
        .into_iter()
        .map(|call| format!("{} {}", call.hook, call.versions))
        .collect();
    println!("{calls:#?}");
    Ok(())
}

pub fn five_hops_with_workers(world: &World) -> Result<()> {
    let system = &world.system;
    system.handle.block_on(async {
        system.namespace("five-hops", true).await?;
        let versions = ["v1.30.4", "v1.31.9", "v1.32.4", "v1.33.1", "v1.34.2", "v1.35.0"];
        system.api.create(&class("five-hops", "quick", &versions)).await?.object()?;
        let created = system.api.create(&cluster("five-hops", "prod", "quick", "v1.30.4", Some(1))).await?.object()?;
        settled(system, &created).await?;
        let to = json!({"spec": {"topology": {"version": "v1.35.0"}}});
        let patched = system.api.merge(&cluster_path("five-hops", "prod"), &to).await?.object()?;
        settled(system, &patched).await
    })?;
    let calls: Vec<_> =
        world.extension.calls("five-hops").into_iter().map(|call| format!("{} {}", call.hook, call.versions)).collect();
    println!("{calls:#?}");
    let _ = (class_path("", ""), Duration::ZERO, None::<()>.context(""));
    Ok(())
}
