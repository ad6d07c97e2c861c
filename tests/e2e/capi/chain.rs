//! Chained upgrades, read hop by hop.
//!
//! The control plane is held at each hop until the Cluster tells of it, as a real one takes its time. That is more than
//! realism. When Cluster API 1.14.2 sends the control plane to its next version, it marks AfterControlPlaneUpgrade (and the
//! hooks of the workers) as pending, and in the same reconcile takes the mark back, by a patch of the Cluster that was
//! computed before. The next reconcile that finds the control plane still upgrading sets the mark anew. If the control
//! plane has arrived by then, as one that answers at once has, the hook is never called.
//! Source: reconcileControlPlane and reconcileCluster (core/reconcilers/topology/cluster), computeCluster and
//! computeControlPlaneVersion (exp/topology/desiredstate).

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{
    World,
    story::{Story, pending, same, step, text},
};

/// By kubectl alone, as a person would.
pub fn three_hops(world: &World) -> Result<()> {
    let story = Story::guarded(world, "three-hops")?;
    story.file("class.json", &story.class("quick", &["v1.30.4", "v1.31.9", "v1.32.4", "v1.33.1"]))?;
    story.file("cluster.json", &story.cluster("prod", "v1.30.4", None))?;
    story.says("kubectl create -f class.json", "clusterclass.cluster.x-k8s.io/quick created")?;
    story.says("kubectl create -f cluster.json", "cluster.cluster.x-k8s.io/prod created")?;
    story.settled("prod")?;

    story.hold("prod", &["v1.31.9", "v1.32.4", "v1.33.1"])?;
    story.says(
        r#"kubectl patch cluster prod --type merge -p '{"spec": {"topology": {"version": "v1.33.1"}}}'"#,
        "cluster.cluster.x-k8s.io/prod patched",
    )?;
    story.stands(
        "prod",
        "step v1.31.9; control plane: v1.30.4 v1.31.9, plan v1.32.4 v1.33.1; workers: none, plan none; \
         pending AfterClusterUpgrade AfterControlPlaneUpgrade",
    )?;
    story.hold("prod", &["v1.32.4", "v1.33.1"])?;
    story.stands(
        "prod",
        "step v1.32.4; control plane: v1.31.9 v1.32.4, plan v1.33.1; workers: none, plan none; \
         pending AfterClusterUpgrade AfterControlPlaneUpgrade",
    )?;
    story.hold("prod", &["v1.33.1"])?;
    story.stands(
        "prod",
        "step v1.33.1; control plane: v1.32.4 v1.33.1, plan none; workers: none, plan none; \
         pending AfterClusterUpgrade AfterControlPlaneUpgrade",
    )?;
    story.hold("prod", &[])?;
    story.settled("prod")?;
    story.stands("prod", "step none; control plane: v1.33.1, plan none; workers: none, plan none; pending none")?;
    let columns = "VERSION:.spec.topology.version,RUNS:.status.controlPlane.versions[*].version";
    story
        .says(&format!("kubectl get cluster prod -o custom-columns={columns}"), "VERSION   RUNS\nv1.33.1   v1.33.1")?;

    same(
        "the hooks",
        &story.hooks(),
        &[
            "BeforeClusterCreate",
            "AfterControlPlaneInitialized",
            "BeforeClusterUpgrade v1.30.4 -> v1.33.1",
            "BeforeControlPlaneUpgrade v1.30.4 -> v1.31.9",
            "AfterControlPlaneUpgrade v1.31.9",
            "BeforeControlPlaneUpgrade v1.31.9 -> v1.32.4",
            "AfterControlPlaneUpgrade v1.32.4",
            "BeforeControlPlaneUpgrade v1.32.4 -> v1.33.1",
            "AfterControlPlaneUpgrade v1.33.1",
            "AfterClusterUpgrade v1.33.1",
        ],
    )?;
    same(
        "what was asked for",
        &story.history.asked(),
        &["control plane v1.30.4", "control plane v1.31.9", "control plane v1.32.4", "control plane v1.33.1"],
    )?;
    // The mark is set, taken back and set anew while the control plane is held: see above.
    let marks = story.history.tell("Cluster", |cluster| Some(format!("{}, {}", step(cluster), pending(cluster))));
    let set_anew = [
        "none, AfterClusterUpgrade",
        "none, AfterClusterUpgrade AfterControlPlaneUpgrade",
        "v1.31.9, AfterClusterUpgrade",
        "v1.31.9, AfterClusterUpgrade AfterControlPlaneUpgrade",
    ];
    ensure!(marks.windows(set_anew.len()).any(|window| window == set_anew), "the mark was not taken back: {marks:#?}");
    story.nothing_was_denied()?;
    same(
        "the verdicts of the webhook, installed as it is shipped",
        &story.verdicts()?,
        &["CREATE ClusterClass quick: allowed", "CREATE Cluster prod: allowed", "UPDATE Cluster prod: allowed"],
    )
}

/// Workers may be three minors behind their control plane, so they have to step once on the way.
pub fn five_hops_with_workers(world: &World) -> Result<()> {
    let story = Story::guarded(world, "five-hops")?;
    let listed = ["v1.30.4", "v1.31.9", "v1.32.4", "v1.33.1", "v1.34.2", "v1.35.0"];
    story.create(&story.class("quick", &listed))?;
    story.create(&story.cluster("prod", "v1.30.4", Some(1)))?;
    story.settled("prod")?;

    let hops = [
        (
            "v1.31.9",
            "control plane: v1.30.4 v1.31.9, plan v1.32.4 v1.33.1 v1.34.2 v1.35.0; \
             workers: v1.30.4, plan v1.33.1 v1.35.0; pending AfterClusterUpgrade AfterControlPlaneUpgrade",
        ),
        (
            "v1.32.4",
            "control plane: v1.31.9 v1.32.4, plan v1.33.1 v1.34.2 v1.35.0; \
             workers: v1.30.4, plan v1.33.1 v1.35.0; pending AfterClusterUpgrade AfterControlPlaneUpgrade",
        ),
        (
            "v1.33.1",
            "control plane: v1.32.4 v1.33.1, plan v1.34.2 v1.35.0; workers: v1.30.4, plan v1.33.1 v1.35.0; \
             pending AfterClusterUpgrade AfterControlPlaneUpgrade AfterWorkersUpgrade BeforeWorkersUpgrade",
        ),
        (
            "v1.34.2",
            "control plane: v1.33.1 v1.34.2, plan v1.35.0; workers: v1.33.1, plan v1.35.0; \
             pending AfterClusterUpgrade AfterControlPlaneUpgrade",
        ),
        (
            "v1.35.0",
            "control plane: v1.34.2 v1.35.0, plan none; workers: v1.33.1, plan v1.35.0; \
             pending AfterClusterUpgrade AfterControlPlaneUpgrade AfterWorkersUpgrade BeforeWorkersUpgrade",
        ),
    ];
    let versions = hops.map(|(version, _)| version);
    story.hold("prod", &versions)?;
    story.change("prod", &json!({"spec": {"topology": {"version": "v1.35.0"}}}))?;
    for (at, (version, stands)) in hops.iter().enumerate() {
        story.stands("prod", &format!("step {version}; {stands}"))?;
        story.hold("prod", &versions[at + 1..])?;
    }
    story.settled("prod")?;
    story.stands("prod", "step none; control plane: v1.35.0, plan none; workers: v1.35.0, plan none; pending none")?;

    same(
        "the hooks",
        &story.hooks(),
        &[
            "BeforeClusterCreate",
            "AfterControlPlaneInitialized",
            "BeforeClusterUpgrade v1.30.4 -> v1.35.0",
            "BeforeControlPlaneUpgrade v1.30.4 -> v1.31.9",
            "AfterControlPlaneUpgrade v1.31.9",
            "BeforeControlPlaneUpgrade v1.31.9 -> v1.32.4",
            "AfterControlPlaneUpgrade v1.32.4",
            "BeforeControlPlaneUpgrade v1.32.4 -> v1.33.1",
            "AfterControlPlaneUpgrade v1.33.1",
            "BeforeWorkersUpgrade v1.30.4 -> v1.33.1",
            "AfterWorkersUpgrade v1.33.1",
            "BeforeControlPlaneUpgrade v1.33.1 -> v1.34.2",
            "AfterControlPlaneUpgrade v1.34.2",
            "BeforeControlPlaneUpgrade v1.34.2 -> v1.35.0",
            "AfterControlPlaneUpgrade v1.35.0",
            "BeforeWorkersUpgrade v1.33.1 -> v1.35.0",
            "AfterWorkersUpgrade v1.35.0",
            "AfterClusterUpgrade v1.35.0",
        ],
    )?;
    same(
        "what was asked for",
        &story.history.asked(),
        &[
            "control plane v1.30.4",
            "workers v1.30.4",
            "control plane v1.31.9",
            "control plane v1.32.4",
            "control plane v1.33.1",
            "workers v1.33.1",
            "control plane v1.34.2",
            "control plane v1.35.0",
            "workers v1.35.0",
        ],
    )?;
    let target =
        story.history.tell("Cluster", |cluster| Some(text(&cluster["spec"]["topology"]["version"]).to_owned()));
    same("the targets", &target, &["v1.30.4", "v1.35.0"])?;
    story.nothing_was_denied()?;
    same(
        "the verdicts of the webhook, installed as it is shipped",
        &story.verdicts()?,
        &["CREATE ClusterClass quick: allowed", "CREATE Cluster prod: allowed", "UPDATE Cluster prod: allowed"],
    )
}
