//! Clients of v1beta1 and of v1beta2 get the same verdicts in the same words.
//!
//! The rules of webhook-config name v1beta2 alone. With matchPolicy Equivalent the API server has Cluster API's own webhook
//! convert what a client of v1beta1 sends, and only then asks. In v1beta1 a Cluster names its class in `topology.class` and
//! `topology.classNamespace`, and a class its templates in `ref`.

use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    World,
    story::{Story, in_short, same, text},
};

/// What a client does, in its version.
enum Step {
    /// A command, and what it prints. `{v}` is the client's version, `@class(name)` how it writes a reference to a class.
    /// Where Cluster API refuses as well, the API server tells whichever answered first, so there are two.
    Run(&'static str, &'static [&'static str]),
    /// A Cluster settles.
    Settles(&'static str),
    /// The control plane of a Cluster goes to none of these versions from now on.
    Holds(&'static str, &'static [&'static str]),
    /// The control plane of a Cluster is sent to a version.
    Reaches(&'static str, &'static str),
}

const STEPS: &[Step] = &[
    Step::Run(
        "kubectl create -f early.json",
        &["cluster.cluster.x-k8s.io/early created\n\
             Warning: Cluster {ns}/early: spec.topology.classRef: ClusterClass {ns}/late does not exist; nothing \
             is created until it does, and its list has to carry v1.30.4 (class-exists)\n\
             (Cluster API warns)"],
    ),
    Step::Run(
        "kubectl create -f late-too-high.json",
        &["Error from server (Forbidden): error when creating \"late-too-high.json\": admission webhook \
             \"clusterclasses.capi-version-guard.io\" denied the request: ClusterClass {ns}/late: \
             spec.kubernetesVersions: v1.30.4 is missing while 1 Cluster uses it ({ns}/early); Cluster API refuses \
             every write of a Cluster outside of its class's list, finalizer removal included; list it, or leave \
             the class without a list (list-covers-clusters)"],
    ),
    Step::Run("kubectl create -f late.json", &["clusterclass.cluster.x-k8s.io/late created"]),
    Step::Run("kubectl create -f quick.json", &["clusterclass.cluster.x-k8s.io/quick created"]),
    Step::Run("kubectl create -f high.json", &["clusterclass.cluster.x-k8s.io/high created"]),
    Step::Run("kubectl create -f prod.json", &["cluster.cluster.x-k8s.io/prod created"]),
    Step::Run("kubectl create -f lab.json", &["cluster.cluster.x-k8s.io/lab created"]),
    Step::Settles("prod"),
    Step::Settles("lab"),
    Step::Run(
        r#"kubectl patch clusters.{v}.cluster.x-k8s.io lab --type merge -p '{"spec": {"topology": {"version": "v1.31.0-rc.1"}}}'"#,
        &["Error from server (Forbidden): admission webhook \"clusters.capi-version-guard.io\" denied the \
             request: Cluster {ns}/lab: spec.topology.version: v1.31.0-rc.1 is lower than v1.31.0, the current \
             version; what follows the - is a pre-release: Cluster API admits a lower one but has no plan that \
             leads down to it; choose v1.31.0 or higher (version-not-lowered)"],
    ),
    Step::Run(
        r#"kubectl patch clusters.{v}.cluster.x-k8s.io lab --type merge -p '{"spec": {"topology": {@class(high), "version": "v1.33.1"}}}'"#,
        &["Error from server (Forbidden): admission webhook \"clusters.capi-version-guard.io\" denied the \
             request: Cluster {ns}/lab: spec.topology.version: ClusterClass {ns}/high has no v1.32 entry between \
             v1.31.0 (running) and v1.33.1; add one to spec.kubernetesVersions (version-reachable)"],
    ),
    Step::Run(
        r#"kubectl patch clusters.{v}.cluster.x-k8s.io lab --type merge -p '{"spec": {"topology": {"version": "v1.32.9"}}}'"#,
        &[
            "Error from server (Forbidden): admission webhook \"clusters.capi-version-guard.io\" denied the \
             request: Cluster {ns}/lab: spec.topology.version: v1.32.9 is not in spec.kubernetesVersions of \
             ClusterClass {ns}/quick; choose v1.32.2 or v1.33.1, or add v1.32.9 to the class (version-listed)",
            "(Cluster API refuses)",
        ],
    ),
    Step::Run(
        r#"kubectl patch clusters.{v}.cluster.x-k8s.io lab --type merge -p '{"spec": {"topology": {@class({ns}-b/quick)}}}'"#,
        &["cluster.cluster.x-k8s.io/lab patched"],
    ),
    Step::Run(
        r#"kubectl patch clusters.{v}.cluster.x-k8s.io lab --type merge -p '{"spec": {"topology": {"version": "v1.32.2"}}}'"#,
        &["cluster.cluster.x-k8s.io/lab patched"],
    ),
    Step::Settles("lab"),
    Step::Holds("prod", &["v1.31.0", "v1.32.2", "v1.33.1"]),
    Step::Run(
        r#"kubectl patch clusters.{v}.cluster.x-k8s.io prod --type merge -p '{"spec": {"topology": {"version": "v1.33.1"}}}'"#,
        &["cluster.cluster.x-k8s.io/prod patched"],
    ),
    Step::Reaches("prod", "v1.31.0"),
    Step::Run(
        r#"kubectl patch clusterclasses.{v}.cluster.x-k8s.io quick --type merge -p '{"spec": {"kubernetesVersions": ["v1.33.1"]}}'"#,
        &["Error from server (Forbidden): admission webhook \"clusterclasses.capi-version-guard.io\" denied the \
             request: ClusterClass {ns}/quick: spec.kubernetesVersions: 1 Cluster ({ns}/prod) loses its way to \
             v1.33.1: the list has no v1.32 entry between v1.31.0 (running) and v1.33.1; Cluster API stops in the \
             middle of an upgrade; keep the entries until these Clusters have arrived (list-keeps-paths)"],
    ),
    Step::Run(
        r#"kubectl patch clusterclasses.{v}.cluster.x-k8s.io quick --type json -p '[{"op": "add", "path": "/spec/kubernetesVersions/-", "value": "1.34.0"}]'"#,
        &["clusterclass.cluster.x-k8s.io/quick patched\n\
             Warning: ClusterClass {ns}/quick: spec.kubernetesVersions[5]: no Cluster can name 1.34.0: a Cluster's \
             version is v<major>.<minor>.<patch> with all its parts; write v1.34.0 (list-syntax)"],
    ),
    Step::Run(
        "kubectl delete clusterclasses.{v}.cluster.x-k8s.io quick",
        &[
            "Error from server (Forbidden): admission webhook \"clusterclasses.capi-version-guard.io\" denied the \
             request: ClusterClass {ns}/quick: 1 Cluster uses this class ({ns}/prod); without it Cluster API \
             refuses every write of its Clusters; first move these to another class or delete them (class-in-use)",
            "(Cluster API refuses)",
        ],
    ),
    Step::Holds("prod", &[]),
    Step::Settles("prod"),
];

/// What the webhook's log says, the two changes of `lab` that are admitted as one.
const VERDICTS: &[&str] = &[
    "CREATE Cluster early: allowed with class-exists",
    "CREATE ClusterClass late: denied by list-covers-clusters",
    "CREATE ClusterClass late: allowed",
    "CREATE ClusterClass quick: allowed",
    "CREATE ClusterClass high: allowed",
    "CREATE Cluster prod: allowed",
    "CREATE Cluster lab: allowed",
    "UPDATE Cluster lab: denied by version-not-lowered",
    "UPDATE Cluster lab: denied by version-reachable",
    "UPDATE Cluster lab: denied by version-listed",
    "UPDATE Cluster lab: allowed",
    "UPDATE Cluster prod: allowed",
    "UPDATE ClusterClass quick: denied by list-keeps-paths",
    "UPDATE ClusterClass quick: allowed with list-syntax",
    "DELETE ClusterClass quick: denied by class-in-use",
];

pub fn same_verdicts(world: &World) -> Result<()> {
    // Both at a time: a Cluster without a class takes Cluster API 4 s.
    thread::scope(|scope| {
        let clients = ["v1beta1", "v1beta2"].map(|version| scope.spawn(move || client(world, version)));
        for client in clients {
            client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        Ok(())
    })
}

fn client(world: &World, version: &str) -> Result<()> {
    let namespace = format!("clients-{version}");
    let story = Story::guarded(world, &namespace)?;
    let other = Story::guarded(world, &format!("{namespace}-b"))?;
    let listed = ["v1.30.4", "v1.31.0-rc.1", "v1.31.0", "v1.32.2", "v1.33.1"];
    other.create(&other.class("quick", &listed))?;
    let of = |class: &str, mut cluster: Value| {
        cluster["spec"]["topology"]["classRef"] = json!({"name": class, "namespace": namespace});
        cluster
    };
    for (name, object) in [
        ("early", of("late", story.cluster("early", "v1.30.4", None))),
        ("late-too-high", story.class("late", &["v1.31.0"])),
        ("late", story.class("late", &["v1.30.4", "v1.31.0"])),
        ("quick", story.class("quick", &listed)),
        ("high", story.class("high", &["v1.33.1", "v1.34.2"])),
        ("prod", of("quick", story.cluster("prod", "v1.30.4", None))),
        ("lab", of("quick", story.cluster("lab", "v1.31.0", None))),
    ] {
        let object = if version == "v1beta1" { in_v1beta1(object)? } else { object };
        story.file(&format!("{name}.json"), &object)?;
    }
    for step in STEPS {
        match step {
            Step::Run(command, says) => {
                let command = in_words_of(version, command);
                let said = undeprecated(version, &story.run(&command.replace("{ns}", &namespace))?)?;
                let said = in_short(&said).replace(&namespace, "{ns}");
                ensure!(
                    says.contains(&said.as_str()),
                    "{command}\nshould say:\n{}\nbut says:\n{said}",
                    says.join("\nor:\n")
                );
            }
            Step::Settles(cluster) => story.settled(cluster)?,
            Step::Holds(cluster, versions) => story.hold(cluster, versions)?,
            Step::Reaches(cluster, version) => story.reaches(cluster, version)?,
        }
    }
    same("the verdicts", &story.verdicts()?, VERDICTS)?;
    // The other tests rely on it.
    ensure!(story.none_was_denied().is_err(), "the witness did not see the denials");
    Ok(())
}

/// A command with the placeholders that depend on the client filled.
fn in_words_of(version: &str, command: &str) -> String {
    let mut filled = command.replace("{v}", version);
    while let Some((before, rest)) = filled.split_once("@class(") {
        let (class, after) = rest.split_once(')').unwrap_or((rest, ""));
        let reference = match (version, class.split_once('/')) {
            ("v1beta1", None) => format!(r#""class": "{class}""#),
            ("v1beta1", Some((namespace, name))) => format!(r#""class": "{name}", "classNamespace": "{namespace}""#),
            (_, None) => format!(r#""classRef": {{"name": "{class}"}}"#),
            (_, Some((namespace, name))) => format!(r#""classRef": {{"name": "{name}", "namespace": "{namespace}"}}"#),
        };
        filled = format!("{before}{reference}{after}");
    }
    filled
}

/// The text without the API server's warning of v1beta1, which has to be there.
fn undeprecated(version: &str, said: &str) -> Result<String> {
    let (warnings, rest): (Vec<_>, Vec<_>) =
        said.lines().partition(|line| line.starts_with("Warning: cluster.x-k8s.io/v1beta1 "));
    ensure!(warnings.is_empty() == (version == "v1beta2"), "a client of {version} was told: {said}");
    Ok(rest.join("\n"))
}

/// A Cluster or a class as it is written in v1beta1.
fn in_v1beta1(mut object: Value) -> Result<Value> {
    fn refer(of: &mut Value) {
        *of = json!({"ref": of["templateRef"].take()});
    }
    object["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
    if text(&object["kind"]) == "Cluster" {
        let topology = object["spec"]["topology"].as_object_mut().context("a Cluster without a topology")?;
        let class = topology.remove("classRef").context("a topology without a class")?;
        topology.insert("class".to_owned(), class["name"].clone());
        topology.insert("classNamespace".to_owned(), class["namespace"].clone());
        return Ok(object);
    }
    let spec = &mut object["spec"];
    refer(&mut spec["infrastructure"]);
    refer(&mut spec["controlPlane"]);
    for class in spec["workers"]["machineDeployments"].as_array_mut().into_iter().flatten() {
        refer(&mut class["bootstrap"]);
        refer(&mut class["infrastructure"]);
        *class = json!({
            "class": class["class"],
            "template": {"bootstrap": class["bootstrap"], "infrastructure": class["infrastructure"]},
        });
    }
    Ok(object)
}
