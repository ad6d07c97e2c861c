//! `server::judge`: what is read from the API server before a refusal, and what is answered when it cannot be.

mod support;

use std::{sync::Arc, time::Duration};

use capi_version_guard::{
    config::Config,
    fleet::{Event, Fleet},
    model::{Change, Cluster, ClusterClass, ControlPlaneKind, WorkerKind},
    server::{
        judge::{Basis, Judge, Judgement, Unavailable},
        live::Live,
    },
};
use serde_json::{Value, json};
use support::{
    class, cluster, control_plane, definition,
    fake_api::{Answer, Api, Paths, status},
    referring, worker_set,
};
use tokio::{runtime::Handle, time::Instant};

/// A fleet that the watch has told these objects of.
fn fleet(clusters: &[Value], classes: &[Value]) -> Arc<Fleet> {
    let fleet = Arc::new(Fleet::default());
    feed(&fleet, clusters, classes);
    fleet
}

fn feed(fleet: &Fleet, clusters: &[Value], classes: &[Value]) {
    let mut index = fleet.index.write();
    index.handle_cluster(Event::Restarted);
    for object in clusters {
        index.handle_cluster(Event::Listed(read(object)));
    }
    index.handle_cluster(Event::Completed);
    index.handle_class(Event::Restarted);
    for object in classes {
        index.handle_class(Event::Listed(read(object)));
    }
    index.handle_class(Event::Completed);
    fleet.clusters.touch();
    fleet.classes.touch();
}

fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap()
}

fn judge(fleet: &Arc<Fleet>, live: Vec<Answer>) -> (Judge, Api) {
    let api = Api::new(live);
    let judge =
        Judge::new(Arc::clone(fleet), Some(Live::with_client(api.client(), Handle::current())), Config::default());
    (judge, api)
}

fn update<T: serde::de::DeserializeOwned>(old: &Value, new: &Value) -> Change<T> {
    Change::Update { old: read(old), new: read(new) }
}

async fn on_cluster(judge: &Judge, change: &Change<Cluster>) -> Result<Judgement, Unavailable> {
    judge.cluster(change, false, Instant::now() + Duration::from_secs(5)).await
}

async fn on_class(judge: &Judge, change: &Change<ClusterClass>) -> Result<Judgement, Unavailable> {
    judge.class(change, false, Instant::now() + Duration::from_secs(5)).await
}

fn found(object: Value) -> Answer {
    Answer::Whole(200, object)
}

fn gone() -> Answer {
    Answer::Whole(404, status(404, "NotFound"))
}

const CLASS_PATH: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/a/clusterclasses/k";

#[tokio::test(start_paused = true)]
async fn a_change_without_a_change_asks_nobody_even_before_the_first_list() {
    let (judge, api) = judge(&Arc::new(Fleet::default()), vec![]);
    let c = cluster("a", "c", "k", "v1.30.0");
    let said = on_cluster(&judge, &update(&c, &c)).await.unwrap();
    assert!(said.verdict.allowed());
    assert_eq!(said.basis, Basis::Request);
    let k = class("a", "k", &["v1.30.0"]);
    assert!(on_class(&judge, &update(&k, &k)).await.unwrap().verdict.allowed());
    assert!(on_class(&judge, &Change::Create(read(&class("a", "k", &[])))).await.unwrap().verdict.allowed());
    assert_eq!(api.asked(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn before_the_first_list_the_answer_is_try_again_and_after_a_while_no_longer_soon() {
    let (judge, _) = judge(&Arc::new(Fleet::default()), vec![]);
    let change = update(&cluster("a", "c", "k", "v1.30.0"), &cluster("a", "c", "k", "v1.31.0"));
    let message = "capi-version-guard has not listed the ClusterClasses yet; try again in a few seconds".to_owned();
    assert_eq!(
        on_cluster(&judge, &change).await.unwrap_err(),
        Unavailable { message: message.clone(), retry_soon: true }
    );
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(on_cluster(&judge, &change).await.unwrap_err(), Unavailable { message, retry_soon: false });
    let shrink = update(&class("a", "k", &["v1.30.0", "v1.31.0"]), &class("a", "k", &["v1.31.0"]));
    assert_eq!(
        on_class(&judge, &shrink).await.unwrap_err().message,
        "capi-version-guard has not listed the Clusters yet; try again in a few seconds"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_index_allows_is_allowed_without_a_read() {
    let (judge, api) = judge(&fleet(&[], &[class("a", "k", &["v1.30.0", "v1.31.0"])]), vec![]);
    let change = update(&cluster("a", "c", "k", "v1.30.0"), &cluster("a", "c", "k", "v1.31.0"));
    let said = on_cluster(&judge, &change).await.unwrap();
    assert!(said.verdict.allowed() && said.basis == Basis::Index && said.staleness.is_some());
    assert!(api.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_confirmed_and_taken_back_if_the_class_carries_the_version_by_now() {
    let fleet = fleet(&[], &[class("a", "k", &["v1.30.0"])]);
    let change = update(&cluster("a", "c", "k", "v1.30.0"), &cluster("a", "c", "k", "v1.31.0"));

    let (behind, api) = judge(&fleet, vec![found(class("a", "k", &["v1.30.0", "v1.31.0"]))]);
    let said = on_cluster(&behind, &change).await.unwrap();
    assert!(said.verdict.allowed() && said.basis == Basis::Live);
    assert_eq!(api.asked(), [CLASS_PATH]);

    let (confirmed, _) = judge(&fleet, vec![found(class("a", "k", &["v1.30.0"]))]);
    let said = on_cluster(&confirmed, &change).await.unwrap();
    assert_eq!(
        said.verdict.message(),
        "Cluster a/c: spec.topology.version: v1.31.0 is not in spec.kubernetesVersions of ClusterClass a/k; \
         add v1.31.0 to the class (version-listed)"
    );
    assert_eq!(said.basis, Basis::Live);
}

#[tokio::test(start_paused = true)]
async fn a_missing_class_is_read_before_it_is_called_missing() {
    let change = Change::Create(read(&cluster("a", "c", "k", "v1.31.0")));
    let (late, _) = judge(&fleet(&[], &[]), vec![found(class("a", "k", &["v1.30.0"]))]);
    assert!(!on_cluster(&late, &change).await.unwrap().verdict.allowed());
    let (missing, _) = judge(&fleet(&[], &[]), vec![gone()]);
    let said = on_cluster(&missing, &change).await.unwrap();
    assert!(said.verdict.allowed());
    assert_eq!(
        said.verdict.warning_texts(),
        [
            "Cluster a/c: spec.topology.classRef: ClusterClass a/k does not exist; nothing is created until it does, and \
          its list has to carry v1.31.0 (class-exists)"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_gives_no_verdict() {
    let change = Change::Create(read(&cluster("a", "c", "k", "v1.31.0")));
    let cases = [
        (Answer::Silence, "the API server did not answer in time"),
        (Answer::Whole(403, status(403, "Forbidden")), "ApiError: scripted 403: Forbidden"),
        (Answer::Whole(200, json!("nonsense")), ""),
    ];
    for (answer, reason) in cases {
        let (judge, _) = judge(&fleet(&[], &[]), vec![answer]);
        let said = on_cluster(&judge, &change).await.unwrap_err();
        let expected =
            format!("capi-version-guard cannot confirm its verdict: failed to read ClusterClass a/k: {reason}");
        assert!(said.message.starts_with(&expected), "{}", said.message);
        assert!(!said.retry_soon);
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_name_that_is_no_name_is_never_put_into_a_path() {
    let (judge, api) = judge(&fleet(&[], &[]), vec![]);
    let change = Change::Create(read(&cluster("a", "c", "../../secrets", "v1.31.0")));
    assert!(on_cluster(&judge, &change).await.unwrap().verdict.allowed());
    assert!(api.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_cluster_that_confirms_suffices_to_refuse_a_class_change() {
    let clusters: Vec<_> = (0..9).map(|n| cluster("a", &format!("c{n}"), "k", "v1.30.0")).collect();
    let fleet = fleet(&clusters, &[class("a", "k", &["v1.30.0", "v1.31.0"])]);
    let shrink = update(&class("a", "k", &["v1.30.0", "v1.31.0"]), &class("a", "k", &["v1.31.0"]));
    let (judge, api) = judge(
        &fleet,
        vec![
            gone(),
            found(cluster("a", "c1", "k", "v1.31.0")),
            found(cluster("a", "c2", "other", "v1.30.0")),
            found(cluster("a", "c3", "k", "v1.30.0")),
            gone(),
        ],
    );
    let said = on_class(&judge, &shrink).await.unwrap();
    assert_eq!(
        said.verdict.message(),
        "ClusterClass a/k: spec.kubernetesVersions: v1.30.0 is missing while 5 Clusters use it (a/c3, a/c5, a/c6, a/c7, \
         a/c8); Cluster API refuses every write of a Cluster outside of its class's list, finalizer removal included; keep it listed until \
         no Cluster uses it (list-covers-clusters)",
        "those that were read and have moved on are neither counted nor named"
    );
    assert_eq!(api.asked().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn if_all_named_have_moved_on_the_next_are_asked_and_then_the_change_is_allowed() {
    let clusters: Vec<_> = (0..7).map(|n| cluster("a", &format!("c{n}"), "k", "v1.30.0")).collect();
    let fleet = fleet(&clusters, &[class("a", "k", &["v1.30.0", "v1.31.0"])]);
    let (judge, api) = judge(&fleet, (0..7).map(|_| gone()).collect());
    let delete = Change::Delete(read(&class("a", "k", &["v1.30.0", "v1.31.0"])));
    let said = on_class(&judge, &delete).await.unwrap();
    assert!(said.verdict.allowed() && said.basis == Basis::Live);
    assert_eq!(api.asked().len(), 7);
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_far_behind_answers_try_again_rather_than_reading_for_ever() {
    let clusters: Vec<_> = (0..30).map(|n| cluster("a", &format!("c{n:02}"), "k", "v1.30.0")).collect();
    let fleet = fleet(&clusters, &[class("a", "k", &["v1.30.0"])]);
    let (judge, api) = judge(&fleet, (0..30).map(|_| gone()).collect());
    let said = on_class(&judge, &Change::Delete(read(&class("a", "k", &["v1.30.0"])))).await.unwrap_err();
    let message = "capi-version-guard's index of Clusters is behind the API server; try again".to_owned();
    assert_eq!(said, Unavailable { message, retry_soon: true });
    assert_eq!(api.asked().len(), 15);
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_cluster_to_be_refused_is_refused_without_a_read() {
    let (judge, api) = judge(&fleet(&[], &[]), vec![]);
    let said = on_class(&judge, &Change::Create(read(&class("a", "k", &["latest"])))).await.unwrap();
    assert!(!said.verdict.allowed());
    assert!(api.asked().is_empty());
}

/// Two writers pass each other within one replica: the Cluster's change is admitted but not yet on the watch.
#[tokio::test(start_paused = true)]
async fn an_admitted_cluster_change_counts_before_the_watch_shows_it() {
    let (wide, narrow) = (class("a", "k", &["v1.30.0", "v1.31.0"]), class("a", "k", &["v1.30.0"]));
    let (from, to) = (cluster("a", "c", "k", "v1.30.0"), cluster("a", "c", "k", "v1.31.0"));
    let fleet = fleet(std::slice::from_ref(&from), std::slice::from_ref(&wide));
    let shrink = update(&wide, &narrow);

    let (stored, _) = judge(&fleet, vec![found(to.clone())]);
    assert!(on_cluster(&stored, &update(&from, &to)).await.unwrap().verdict.allowed());
    assert!(!on_class(&stored, &shrink).await.unwrap().verdict.allowed(), "the read confirms it");

    let (on_its_way, _) = judge(&fleet, vec![found(from.clone()), found(from.clone())]);
    assert!(on_cluster(&on_its_way, &update(&from, &to)).await.unwrap().verdict.allowed());
    let message = "a change of Cluster a/c was admitted a moment ago and is not stored yet; try again".to_owned();
    assert_eq!(on_class(&on_its_way, &shrink).await.unwrap_err(), Unavailable { message, retry_soon: true });
    tokio::time::advance(Duration::from_secs(3)).await;
    assert!(on_class(&on_its_way, &shrink).await.unwrap().verdict.allowed(), "the write failed elsewhere");

    let (dry, _) = judge(&fleet, vec![]);
    let deadline = Instant::now() + Duration::from_secs(5);
    assert!(dry.cluster(&update(&from, &to), true, deadline).await.unwrap().verdict.allowed());
    assert!(on_class(&dry, &shrink).await.unwrap().verdict.allowed(), "a dry run leaves nothing");

    let (seen, _) = judge(&fleet, vec![]);
    assert!(on_cluster(&seen, &update(&from, &to)).await.unwrap().verdict.allowed());
    feed(&fleet, std::slice::from_ref(&to), std::slice::from_ref(&wide));
    feed(&fleet, std::slice::from_ref(&from), std::slice::from_ref(&wide));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(on_class(&seen, &shrink).await.is_ok_and(|said| said.verdict.allowed()), "nothing is remembered for ever");
}

#[tokio::test(start_paused = true)]
async fn an_admitted_class_change_counts_before_the_watch_shows_it() {
    let (wide, narrow) = (class("a", "k", &["v1.30.0", "v1.31.0"]), class("a", "k", &["v1.30.0"]));
    let (from, to) = (cluster("a", "c", "k", "v1.30.0"), cluster("a", "c", "k", "v1.31.0"));
    let fleet = fleet(std::slice::from_ref(&from), std::slice::from_ref(&wide));
    let upgrade = update(&from, &to);

    let (stored, _) = judge(&fleet, vec![found(narrow.clone())]);
    assert!(on_class(&stored, &update(&wide, &narrow)).await.unwrap().verdict.allowed());
    assert!(!on_cluster(&stored, &upgrade).await.unwrap().verdict.allowed(), "the read confirms it");

    let (on_its_way, _) = judge(&fleet, vec![found(wide.clone()), found(wide.clone())]);
    assert!(on_class(&on_its_way, &update(&wide, &narrow)).await.unwrap().verdict.allowed());
    let message = "a change of ClusterClass a/k was admitted a moment ago and is not stored yet; try again".to_owned();
    assert_eq!(on_cluster(&on_its_way, &upgrade).await.unwrap_err(), Unavailable { message, retry_soon: true });
    tokio::time::advance(Duration::from_secs(3)).await;
    assert!(on_cluster(&on_its_way, &upgrade).await.unwrap().verdict.allowed(), "the write failed elsewhere");
}

#[tokio::test(start_paused = true)]
async fn manifests_are_the_truth_and_nobody_is_asked() {
    let fleet = fleet(&[cluster("a", "c", "k", "v1.30.0")], &[class("a", "k", &["v1.30.0"])]);
    let judge = Judge::new(fleet, None, Config::default());
    let said = on_class(&judge, &Change::Delete(read(&class("a", "k", &["v1.30.0"])))).await.unwrap();
    assert_eq!(
        said.verdict.message(),
        "ClusterClass a/k: 1 Cluster uses this class (a/c); without it Cluster API refuses every write of its Clusters; first \
         move these to another class or delete them (class-in-use)"
    );
    assert_eq!((said.basis, said.staleness), (Basis::Manifests, None));
}

/// Cluster a/`name`, which refers to a control plane object of its own name.
fn running_cluster(name: &str, class: &str, version: &str) -> Value {
    referring(cluster("a", name, class, version), "controlplane.cluster.x-k8s.io", "KubeadmControlPlane")
}

fn workers(versions: &[&str]) -> Vec<Value> {
    let set = |(at, version): (usize, &&str)| worker_set("a", &format!("c-md-{at}"), "c", version);
    versions.iter().enumerate().map(set).collect()
}

/// Tells the fleet that this runs of Cluster a/c.
fn feed_running(fleet: &Fleet, control_plane_version: &str, worker_versions: &[&str]) {
    let kind = ControlPlaneKind { group: "controlplane.cluster.x-k8s.io".into(), kind: "KubeadmControlPlane".into() };
    let mut index = fleet.index.write();
    index.handle_control_planes(&kind, Event::Restarted);
    index.handle_control_planes(&kind, Event::Listed(read(&control_plane("a", "c", control_plane_version))));
    index.handle_control_planes(&kind, Event::Completed);
    index.handle_workers(WorkerKind::MachineDeployment, Event::Restarted);
    for set in workers(worker_versions) {
        index.handle_workers(WorkerKind::MachineDeployment, Event::Listed(read(&set)));
    }
    index.handle_workers(WorkerKind::MachineDeployment, Event::Completed);
    index.workers_not_served(WorkerKind::MachinePool);
}

const NEXT_PATH: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/a/clusterclasses/next";
const CLUSTER_PATH: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/a/clusters/c";
const DEFINITION_PATH: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kubeadmcontrolplanes.controlplane.cluster.x-k8s.io";
const CONTROL_PLANE_PATH: &str = "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/a/kubeadmcontrolplanes/c";
const DEPLOYMENTS_PATH: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/a/machinedeployments";

/// An API server where this runs of Cluster a/c. MachinePools are not served.
fn api_server(control_plane_version: &str, worker_versions: &[&str]) -> Paths {
    let api = Paths::default();
    let labels = json!({"cluster.x-k8s.io/v1beta2": "v1beta2"});
    let definition = definition("kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", &labels);
    api.always(DEFINITION_PATH, found(definition));
    api.always(CONTROL_PLANE_PATH, found(control_plane("a", "c", control_plane_version)));
    let list = json!({"metadata": {"resourceVersion": "1"}, "items": workers(worker_versions)});
    api.always(DEPLOYMENTS_PATH, found(list));
    api
}

fn judge_by(fleet: &Arc<Fleet>, api: &Paths) -> Judge {
    let live = Live::with_client(api.client(), Handle::current());
    Judge::new(Arc::clone(fleet), Some(live), Config::default())
}

const LONG: [&str; 4] = ["v1.30.0", "v1.31.0", "v1.32.0", "v1.33.0"];
const NO_WAY: &str = "Cluster a/c: spec.topology.classRef: ClusterClass a/next has no v1.32 entry between v1.31.0 \
                      (running) and v1.33.0; add one to spec.kubernetesVersions, or rebase once this Cluster is at \
                      v1.33.0 (version-reachable)";

fn rebase() -> Change<Cluster> {
    update(&running_cluster("c", "k", "v1.33.0"), &running_cluster("c", "next", "v1.33.0"))
}

#[tokio::test(start_paused = true)]
async fn a_rebase_without_a_way_is_confirmed_by_what_runs_and_by_both_classes() {
    let fleet =
        fleet(&[running_cluster("c", "k", "v1.33.0")], &[class("a", "k", &LONG), class("a", "next", &["v1.33.0"])]);
    feed_running(&fleet, "v1.31.0", &["v1.30.0"]);
    let api = api_server("v1.31.0", &["v1.30.0"]);
    api.always(CLASS_PATH, found(class("a", "k", &LONG)));
    api.always(NEXT_PATH, found(class("a", "next", &["v1.33.0"])));
    let said = on_cluster(&judge_by(&fleet, &api), &rebase()).await.unwrap();
    assert_eq!((said.verdict.message().as_str(), said.basis), (NO_WAY, Basis::Live));
    for path in [CLASS_PATH, NEXT_PATH, DEFINITION_PATH, CONTROL_PLANE_PATH, DEPLOYMENTS_PATH] {
        assert_eq!(api.asked(path).len(), 1, "{path}");
    }
    let selector = "?&labelSelector=cluster.x-k8s.io%2Fcluster-name%3Dc%2Ctopology.cluster.x-k8s.io%2Fowned";
    assert_eq!(api.asked(DEPLOYMENTS_PATH), [format!("{DEPLOYMENTS_PATH}{selector}")]);

    // It has arrived, and the watch has not shown it yet.
    let arrived = api_server("v1.33.0", &["v1.33.0"]);
    arrived.always(CLASS_PATH, found(class("a", "k", &LONG)));
    arrived.always(NEXT_PATH, found(class("a", "next", &["v1.33.0"])));
    let said = on_cluster(&judge_by(&fleet, &arrived), &rebase()).await.unwrap();
    assert!(said.verdict.allowed() && said.verdict.warnings.is_empty() && said.basis == Basis::Live);

    // The old class is gone by now, so there was no way before either.
    let classless = api_server("v1.31.0", &["v1.30.0"]);
    classless.always(CLASS_PATH, gone());
    classless.always(NEXT_PATH, found(class("a", "next", &["v1.33.0"])));
    let said = on_cluster(&judge_by(&fleet, &classless), &rebase()).await.unwrap();
    assert!(said.verdict.allowed());
    assert_eq!(said.verdict.warning_texts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rebase_of_what_the_index_does_not_know_is_judged_by_what_is_read() {
    let fleet =
        fleet(&[running_cluster("c", "k", "v1.33.0")], &[class("a", "k", &LONG), class("a", "next", &["v1.33.0"])]);
    let api = api_server("v1.31.0", &["v1.30.0"]);
    api.always(CLASS_PATH, found(class("a", "k", &LONG)));
    api.always(NEXT_PATH, found(class("a", "next", &["v1.33.0"])));
    let said = on_cluster(&judge_by(&fleet, &api), &rebase()).await.unwrap();
    assert_eq!(said.verdict.message(), NO_WAY);
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_cannot_be_read_is_told_of_and_denies_nothing() {
    let fleet =
        fleet(&[running_cluster("c", "k", "v1.33.0")], &[class("a", "k", &LONG), class("a", "next", &["v1.33.0"])]);
    let api = api_server("v1.31.0", &["v1.30.0"]);
    api.always(CONTROL_PLANE_PATH, Answer::Whole(403, status(403, "Forbidden")));
    api.always(CLASS_PATH, found(class("a", "k", &LONG)));
    api.always(NEXT_PATH, found(class("a", "next", &["v1.33.0"])));
    let said = on_cluster(&judge_by(&fleet, &api), &rebase()).await.unwrap();
    assert!(said.verdict.allowed());
    assert_eq!(
        said.verdict.warning_texts(),
        [
            "Cluster a/c: spec.topology.classRef: cannot tell whether Cluster API gets from what runs to v1.33.0; the control \
          plane cannot be read; see the logs and /readyz?verbose of capi-version-guard (version-reachable)"
        ]
    );
    // While an upgrade runs Cluster API itself writes where the control plane is.
    let mut stepping = running_cluster("c", "next", "v1.33.0");
    stepping["metadata"]["annotations"]["topology.internal.cluster.x-k8s.io/upgrade-step"] = json!("v1.31.0");
    let change = update(&running_cluster("c", "k", "v1.33.0"), &stepping);
    let said = on_cluster(&judge_by(&fleet, &api), &change).await.unwrap();
    assert_eq!(said.verdict.message(), NO_WAY);
}

#[tokio::test(start_paused = true)]
async fn a_read_of_what_runs_that_fails_gives_no_verdict() {
    let fleet =
        fleet(&[running_cluster("c", "k", "v1.33.0")], &[class("a", "k", &LONG), class("a", "next", &["v1.33.0"])]);
    feed_running(&fleet, "v1.31.0", &["v1.30.0"]);
    let api = api_server("v1.31.0", &["v1.30.0"]);
    api.always(CONTROL_PLANE_PATH, Answer::Whole(500, status(500, "InternalError")));
    api.always(CLASS_PATH, found(class("a", "k", &LONG)));
    api.always(NEXT_PATH, found(class("a", "next", &["v1.33.0"])));
    let said = on_cluster(&judge_by(&fleet, &api), &rebase()).await.unwrap_err();
    assert!(!said.retry_soon);
    let begin = "capi-version-guard cannot confirm its verdict: failed to read KubeadmControlPlane";
    assert!(said.message.starts_with(begin), "{}", said.message);
}

#[tokio::test(start_paused = true)]
async fn a_plain_change_of_the_version_that_leads_there_is_allowed_without_a_read() {
    let fleet = fleet(&[running_cluster("c", "k", "v1.30.0")], &[class("a", "k", &LONG)]);
    let change = update(&running_cluster("c", "k", "v1.30.0"), &running_cluster("c", "k", "v1.33.0"));
    let api = Paths::default();
    let said = on_cluster(&judge_by(&fleet, &api), &change).await.unwrap();
    assert!(said.verdict.allowed() && said.basis == Basis::Index);
    assert!(api.asked("/").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_takes_a_way_is_confirmed_by_what_runs_of_one_cluster() {
    let fleet = fleet(&[running_cluster("c", "k", "v1.33.0")], &[class("a", "k", &LONG)]);
    feed_running(&fleet, "v1.31.0", &["v1.30.0"]);
    let shrink = update(&class("a", "k", &LONG), &class("a", "k", &["v1.33.0"]));
    let api = api_server("v1.31.0", &["v1.30.0"]);
    api.always(CLUSTER_PATH, found(running_cluster("c", "k", "v1.33.0")));
    let said = on_class(&judge_by(&fleet, &api), &shrink).await.unwrap();
    assert_eq!(
        said.verdict.message(),
        "ClusterClass a/k: spec.kubernetesVersions: 1 Cluster (a/c) loses its way to v1.33.0: the list has no v1.32 entry \
         between v1.31.0 (running) and v1.33.0; Cluster API stops in the middle of an upgrade; keep the entries until \
         these Clusters have arrived (list-keeps-paths)"
    );
    assert_eq!(said.basis, Basis::Live);

    let arrived = api_server("v1.33.0", &["v1.33.0"]);
    arrived.always(CLUSTER_PATH, found(running_cluster("c", "k", "v1.33.0")));
    let said = on_class(&judge_by(&fleet, &arrived), &shrink).await.unwrap();
    assert!(said.verdict.allowed() && said.basis == Basis::Live);
}

#[tokio::test(start_paused = true)]
async fn an_admitted_version_counts_for_a_list_before_its_upgrade_begins() {
    let fleet = fleet(&[running_cluster("c", "k", "v1.30.0")], &[class("a", "k", &LONG)]);
    feed_running(&fleet, "v1.30.0", &["v1.30.0"]);
    let api = api_server("v1.30.0", &["v1.30.0"]);
    api.always(CLUSTER_PATH, found(running_cluster("c", "k", "v1.33.0")));
    let judge = judge_by(&fleet, &api);
    let upgrade = update(&running_cluster("c", "k", "v1.30.0"), &running_cluster("c", "k", "v1.33.0"));
    assert!(on_cluster(&judge, &upgrade).await.unwrap().verdict.allowed());
    // The watch has not shown it yet, and what runs goes on meanwhile.
    feed_running(&fleet, "v1.31.0", &["v1.30.0"]);
    let shrink = update(&class("a", "k", &LONG), &class("a", "k", &["v1.30.0", "v1.31.0", "v1.33.0"]));
    let said = on_class(&judge, &shrink).await.unwrap();
    assert!(said.verdict.message().contains("1 Cluster (a/c) loses its way to v1.33.0"), "{}", said.verdict.message());
}

#[tokio::test(start_paused = true)]
async fn where_workers_make_the_difference_and_are_not_known_they_are_read() {
    let fleet = fleet(&[running_cluster("c", "k", "v1.31.0+a")], &[class("a", "k", &[])]);
    let change = update(&running_cluster("c", "k", "v1.31.0+a"), &running_cluster("c", "k", "v1.31.0+b"));
    let api = api_server("v1.31.0+a", &["v1.31.0+a"]);
    api.always(CLASS_PATH, found(class("a", "k", &[])));
    let said = on_cluster(&judge_by(&fleet, &api), &change).await.unwrap();
    assert_eq!(
        said.verdict.message(),
        "Cluster a/c: spec.topology.version: once the control plane is at v1.31.0+b, workers at v1.31.0+a cannot follow; \
         Cluster API finds no order between build tags that differ in a part that is not a number; choose a higher patch \
         number, or tags that differ in a number, as +build.1 and +build.2 (version-reachable)"
    );
    let bare = api_server("v1.31.0+a", &[]);
    bare.always(CLASS_PATH, found(class("a", "k", &[])));
    let said = on_cluster(&judge_by(&fleet, &bare), &change).await.unwrap();
    assert!(said.verdict.allowed() && said.verdict.warnings.is_empty() && said.basis == Basis::Live);
}
