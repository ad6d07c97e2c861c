//! What GitOps does all day: the same manifests are applied again, whatever state the Clusters are in.

use anyhow::Result;
use serde_json::json;

use crate::{World, story::Story};

/// With the same manifests in `class.json` and `cluster.json`: by the client, as a trial, and by the server. From the last
/// one on kubectl keeps no copy of the manifest in an annotation, so the first one comes first.
const AGAIN: &[(&str, &str)] = &[
    (
        "kubectl apply -f class.json -f cluster.json",
        "clusterclass.cluster.x-k8s.io/quick unchanged\ncluster.cluster.x-k8s.io/prod unchanged",
    ),
    (
        "kubectl apply --server-side --dry-run=server --field-manager=gitops -f class.json -f cluster.json",
        "clusterclass.cluster.x-k8s.io/quick serverside-applied (server dry run)\n\
         cluster.cluster.x-k8s.io/prod serverside-applied (server dry run)",
    ),
    (
        "kubectl apply --server-side --field-manager=gitops -f class.json -f cluster.json",
        "clusterclass.cluster.x-k8s.io/quick serverside-applied\ncluster.cluster.x-k8s.io/prod serverside-applied",
    ),
];

pub fn settled(world: &World) -> Result<()> {
    let story = begin(world, "gitops-settled")?;
    again(&story)?;
    story.settled("prod")?;
    story.nothing_was_denied()
}

/// The manifest holds the target, the Cluster is on its way.
pub fn in_the_middle_of_a_chain(world: &World) -> Result<()> {
    let story = begin(world, "gitops-mid-chain")?;
    story.hold("prod", &["v1.31.9"])?;
    story.file("cluster.json", &story.cluster("prod", "v1.32.4", None))?;
    story.says("kubectl apply -f cluster.json", "cluster.cluster.x-k8s.io/prod configured")?;
    story.reaches("prod", "v1.31.9")?;
    again(&story)?;
    story.hold("prod", &[])?;
    story.settled("prod")?;
    by_the_server_again(&story)?;
    story.nothing_was_denied()
}

/// G5: somebody whom the webhook does not see brought in a target that no plan reaches.
pub fn trapped(world: &World) -> Result<()> {
    let story = begin(world, "gitops-trapped")?;
    let mut trap = story.cluster("prod", "v1.33.1", None);
    trap["spec"]["topology"]["classRef"] = json!({"name": "high"});
    story.file("cluster.json", &trap)?;
    story.create(&story.class("high", &["v1.32.4", "v1.33.1"]))?;
    story.says("kubectl --kubeconfig exempt apply -f cluster.json", "cluster.cluster.x-k8s.io/prod configured")?;
    story.fails("prod")?;
    again(&story)?;
    // The way out is free as well.
    story.says(
        r#"kubectl patch clusterclass high --type merge -p '{"spec": {"kubernetesVersions": ["v1.31.9", "v1.32.4", "v1.33.1"]}}'"#,
        "clusterclass.cluster.x-k8s.io/high patched",
    )?;
    story.settled("prod")?;
    by_the_server_again(&story)?;
    story.none_was_denied().map(drop)
}

/// G1: a class that does not list the version of a Cluster that came before it, brought in by somebody whom the webhook does
/// not see. Cluster API refuses every write of the Cluster, even one that changes nothing; the webhook has nothing against it.
pub fn unlisted(world: &World) -> Result<()> {
    let story = Story::guarded(world, "gitops-unlisted")?;
    story.file("class.json", &story.class("quick", &["v1.31.9", "v1.32.4"]))?;
    story.file("cluster.json", &story.cluster("prod", "v1.30.4", None))?;
    story.says(
        "kubectl apply -f cluster.json",
        "cluster.cluster.x-k8s.io/prod created\n\
         Warning: Cluster {ns}/prod: spec.topology.classRef: ClusterClass {ns}/quick does not exist; nothing is created until \
         it does, and its list has to carry v1.30.4 (class-exists)\n\
         (Cluster API warns)",
    )?;
    story.says("kubectl --kubeconfig exempt apply -f class.json", "clusterclass.cluster.x-k8s.io/quick created")?;
    // Neither writes anything.
    let (client, says) = AGAIN[0];
    story.says(client, says)?;
    story.says("kubectl apply --server-side --field-manager=gitops -f cluster.json", "(Cluster API refuses)")?;
    story.says("kubectl apply --server-side --field-manager=gitops -f class.json", "(Cluster API refuses)")?;
    // The way out is free as well.
    story.says(
        r#"kubectl patch clusterclass quick --type merge -p '{"spec": {"kubernetesVersions": ["v1.30.4", "v1.31.9"]}}'"#,
        "clusterclass.cluster.x-k8s.io/quick patched",
    )?;
    story.settled("prod")?;
    story.none_was_denied().map(drop)
}

fn begin<'a>(world: &'a World, namespace: &str) -> Result<Story<'a>> {
    let story = Story::guarded(world, namespace)?;
    story.file("class.json", &story.class("quick", &["v1.30.4", "v1.31.9", "v1.32.4"]))?;
    story.file("cluster.json", &story.cluster("prod", "v1.30.4", None))?;
    story.says(
        "kubectl apply -f class.json -f cluster.json",
        "clusterclass.cluster.x-k8s.io/quick created\ncluster.cluster.x-k8s.io/prod created",
    )?;
    story.settled("prod")?;
    Ok(story)
}

fn again(story: &Story) -> Result<()> {
    AGAIN.iter().try_for_each(|(command, says)| story.says(command, says))
}

fn by_the_server_again(story: &Story) -> Result<()> {
    AGAIN[1..].iter().try_for_each(|(command, says)| story.says(command, says))
}
