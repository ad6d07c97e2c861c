//! `fleet::watch` against a scripted API server: what runs, and which Cluster API is installed.

mod support;

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use capi_version_guard::{
    fleet::{
        Fleet,
        watch::{self, Access, KindState},
    },
    model::{Cluster, ControlPlaneState, Running, WorkerKind},
    planner::Release,
};
use serde_json::{Value, json};
use support::{
    cluster, control_plane, definition,
    fake_api::{Answer, Paths, event, page, status},
    referring, worker_set,
};

const CLUSTERS: &str = "/apis/cluster.x-k8s.io/v1beta2/clusters";
const CLASSES: &str = "/apis/cluster.x-k8s.io/v1beta2/clusterclasses";
const DEPLOYMENTS: &str = "/apis/cluster.x-k8s.io/v1beta2/machinedeployments";
const POOLS: &str = "/apis/cluster.x-k8s.io/v1beta2/machinepools";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KUBEADM: &str = "/apis/controlplane.cluster.x-k8s.io/v1beta2/kubeadmcontrolplanes";
const KUBEADM_V1BETA1: &str = "/apis/controlplane.cluster.x-k8s.io/v1beta1/kubeadmcontrolplanes";
const KUBEADM_DEFINITION: &str = "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io";
const INVENTORY: &str = "/apis/clusterctl.cluster.x-k8s.io/v1alpha3/providers";
const OPERATOR: &str = "/apis/operator.cluster.x-k8s.io/v1alpha2/coreproviders";
const GROUP: &str = "controlplane.cluster.x-k8s.io";

/// A fleet that follows a scripted API server, until it is dropped. Time is virtual.
struct Following {
    api: Paths,
    fleet: Arc<Fleet>,
    log: Log,
    task: tokio::task::JoinHandle<Result<(), kube::Error>>,
    _subscriber: tracing::subscriber::DefaultGuard,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What was logged at `warn` and above.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Following {
    /// Follows these Clusters and what `script` adds.
    async fn start(clusters: &[Value], script: impl FnOnce(&Paths)) -> Self {
        Self::at_most(watch::MAX_KINDS, clusters, script).await
    }

    async fn at_most(max_kinds: usize, clusters: &[Value], script: impl FnOnce(&Paths)) -> Self {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            // As the program sets it: kube's own line about each 403 is not wanted besides ours.
            .with_env_filter("warn,kube_runtime::watcher=error")
            .with_target(false)
            .without_time()
            .with_ansi(false)
            .finish();
        let subscriber = tracing::subscriber::set_default(subscriber);
        let api = Paths::default();
        api.play(CLUSTERS, [page(clusters, None)]).play(CLASSES, [page(&[], None)]);
        api.play(DEPLOYMENTS, [page(&[], None)]).play(POOLS, [page(&[], None)]);
        script(&api);
        let fleet = Arc::new(Fleet::default());
        let task = tokio::spawn(watch::run(api.clone(), Arc::clone(&fleet), max_kinds));
        let following = Self { api, fleet, log, task, _subscriber: subscriber };
        following.seconds(10).await;
        following
    }

    async fn seconds(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert!(!self.task.is_finished(), "following never ends");
    }

    /// What the index says of a Cluster.
    fn running(&self, cluster: &Value) -> Running {
        let cluster: Cluster = serde_json::from_value(cluster.clone()).unwrap();
        self.fleet.index.read().running(&cluster)
    }

    fn control_plane(&self, cluster: &Value) -> String {
        match self.running(cluster).control_plane {
            ControlPlaneState::At { version, settled, .. } => format!("{version} {settled}"),
            state => format!("{state:?}"),
        }
    }

    fn workers(&self, cluster: &Value) -> Option<String> {
        self.running(cluster).workers.map(|versions| versions.join(" "))
    }

    /// How it stands with each kind of control planes.
    fn kinds(&self) -> Vec<String> {
        let all = self.fleet.control_planes.all().into_iter();
        all.map(|(kind, state)| match state {
            KindState::Met => format!("{kind}: met"),
            KindState::Followed(_) => format!("{kind}: followed"),
            KindState::Unreadable(reason) => format!("{kind}: {reason}"),
        })
        .collect()
    }

    fn warnings(&self) -> Vec<String> {
        let text = String::from_utf8(self.log.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line.trim_start().to_owned()).collect()
    }
}

fn kubeadm(name: &str) -> Value {
    referring(cluster("a", name, "k", "v1.31.1"), GROUP, "KubeadmControlPlane")
}

fn define(api: &Paths, name: &str, labels: Value) {
    api.always(&format!("{DEFINITIONS}/{name}"), Answer::Whole(200, definition(name, &labels)));
}

fn define_kubeadm(api: &Paths) {
    define(
        api,
        KUBEADM_DEFINITION,
        json!({"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}),
    );
}

fn forbidden() -> Answer {
    Answer::Whole(403, status(403, "Forbidden"))
}

#[tokio::test(start_paused = true)]
async fn worker_sets_of_topologies_are_followed_in_pages() {
    let c1 = cluster("a", "c1", "k", "v1.31.1");
    let following = Following::start(std::slice::from_ref(&c1), |api| {
        api.play(
            DEPLOYMENTS,
            [
                page(&[worker_set("a", "md1", "c1", "v1.30.0")], Some("token")),
                page(&[worker_set("a", "md2", "c1", "v1.31.1"), worker_set("a", "md3", "c2", "v1.29.0")], None),
                Answer::Watch(vec![event("DELETED", worker_set("a", "md1", "c1", "v1.30.0"))]),
            ],
        );
        let added = event("ADDED", worker_set("a", "mp1", "c1", "v1.30.4"));
        api.play(POOLS, [page(&[], None), Answer::Watch(vec![added])]);
    })
    .await;
    assert_eq!(following.workers(&c1).as_deref(), Some("v1.30.4 v1.31.1"));
    let owned = "labelSelector=topology.cluster.x-k8s.io%2Fowned";
    let expected = [
        format!("{DEPLOYMENTS}?&{owned}&limit=100"),
        format!("{DEPLOYMENTS}?&{owned}&limit=100&continue=token"),
        format!("{DEPLOYMENTS}?&watch=true&timeoutSeconds=25&{owned}&allowWatchBookmarks=true&resourceVersion=100"),
    ];
    assert_eq!(following.api.asked(DEPLOYMENTS).get(..3), Some(expected.as_slice()));
    assert!(WorkerKind::ALL.iter().all(|kind| following.fleet.workers(*kind).access() == Access::Granted));
    assert_eq!(following.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn machine_pools_that_are_not_served_are_none_until_they_are() {
    let c1 = cluster("a", "c1", "k", "v1.31.1");
    let following = Following::start(std::slice::from_ref(&c1), |api| {
        api.play(DEPLOYMENTS, [page(&[worker_set("a", "md1", "c1", "v1.30.0")], None)]);
        api.drop(POOLS);
    })
    .await;
    assert_eq!(following.workers(&c1).as_deref(), Some("v1.30.0"));
    assert_eq!(following.fleet.workers(WorkerKind::MachinePool).access(), Access::NotServed);
    following.seconds(3_600).await;
    assert_eq!(following.api.asked(POOLS).len(), 123, "twice a minute, after the first seconds");
    assert_eq!(following.warnings(), [""; 0], "that is normal");
    assert_eq!(following.workers(&c1).as_deref(), Some("v1.30.0"), "still known");

    following.api.play(POOLS, [page(&[worker_set("a", "mp1", "c1", "v1.31.1")], None)]);
    following.seconds(31).await;
    assert_eq!(following.workers(&c1).as_deref(), Some("v1.30.0 v1.31.1"));
    assert_eq!(following.fleet.workers(WorkerKind::MachinePool).access(), Access::Granted);
}

#[tokio::test(start_paused = true)]
async fn worker_sets_that_are_forbidden_are_unknown_and_said_once() {
    let c1 = cluster("a", "c1", "k", "v1.31.1");
    let following = Following::start(std::slice::from_ref(&c1), |api| {
        api.always(DEPLOYMENTS, forbidden());
    })
    .await;
    following.seconds(3_600).await;
    assert_eq!(following.workers(&c1), None);
    assert_eq!(following.fleet.workers(WorkerKind::MachineDeployment).access(), Access::Forbidden);
    let asked = following.api.asked(DEPLOYMENTS).len();
    assert!((15..45).contains(&asked), "every three minutes, not {asked} times an hour");
    let told = "WARN forbidden to read the machinedeployments, so it cannot be told which versions workers run; grant get, list \
                and watch on machinedeployments.cluster.x-k8s.io kind=\"MachineDeployment\"";
    assert_eq!(following.warnings(), [told]);

    following.api.play(DEPLOYMENTS, [page(&[worker_set("a", "md1", "c1", "v1.30.0")], None)]);
    following.seconds(181).await;
    assert_eq!(following.workers(&c1).as_deref(), Some("v1.30.0"));
}

#[tokio::test(start_paused = true)]
async fn control_planes_are_followed_when_a_cluster_refers_to_their_kind() {
    let c1 = cluster("a", "c1", "k", "v1.31.1");
    let following = Following::start(&[], |api| {
        api.play(CLUSTERS, [page(std::slice::from_ref(&c1), None)]);
        define_kubeadm(api);
        let changed = event("MODIFIED", control_plane("a", "c1", "v1.31.1"));
        api.play(KUBEADM, [page(&[control_plane("a", "c1", "v1.30.0")], None), Answer::Watch(vec![changed])]);
    })
    .await;
    assert_eq!(following.control_plane(&c1), "NotCreated");
    assert_eq!(following.api.asked(DEFINITIONS), [""; 0], "no Cluster refers to any");

    let following = Following::start(&[kubeadm("c1"), kubeadm("c2")], |api| {
        define_kubeadm(api);
        let changed = event("MODIFIED", control_plane("a", "c1", "v1.31.1"));
        api.play(KUBEADM, [page(&[control_plane("a", "c1", "v1.30.0")], None), Answer::Watch(vec![changed])]);
    })
    .await;
    assert_eq!(following.control_plane(&kubeadm("c1")), "v1.31.1 true");
    assert_eq!(following.control_plane(&kubeadm("c2")), "Missing");
    assert_eq!(following.kinds(), ["KubeadmControlPlane.controlplane.cluster.x-k8s.io: followed"]);
    assert_eq!(following.api.asked(DEFINITIONS), [format!("{DEFINITIONS}/{KUBEADM_DEFINITION}")], "looked up once");
    assert_eq!(following.api.asked(KUBEADM).first(), Some(&format!("{KUBEADM}?&limit=100")));
    assert_eq!(following.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_no_cluster_refers_to_any_more_is_forgotten_after_a_while() {
    let following = Following::start(&[kubeadm("c1")], |api| {
        define_kubeadm(api);
        api.play(KUBEADM, [page(&[control_plane("a", "c1", "v1.30.0")], None), Answer::Watch(vec![])]);
        // A silent watch is given up after 30 s; the next one tells that the only Cluster is gone.
        let gone = Answer::Watch(vec![event("DELETED", kubeadm("c1"))]);
        api.play(CLUSTERS, [page(&[kubeadm("c1")], None), Answer::Watch(vec![]), gone]);
    })
    .await;
    following.seconds(30).await;
    assert_eq!(following.kinds().len(), 1);
    following.seconds(500).await;
    assert_eq!(following.kinds().len(), 1, "a Cluster that comes back finds it known");
    following.seconds(120).await;
    assert_eq!(following.kinds(), [""; 0]);
    assert!(following.fleet.index.read().followed_control_planes().next().is_none());
    let asked = following.api.asked(KUBEADM).len();
    following.seconds(600).await;
    assert_eq!(following.api.asked(KUBEADM).len(), asked, "its stream has ended");
}

/// What makes a kind unreadable, and what is said of it.
#[tokio::test(start_paused = true)]
async fn kinds_that_cannot_be_read_are_said_once_and_looked_for_again() {
    struct Case {
        kind: (&'static str, &'static str),
        script: fn(&Paths),
        reason: &'static str,
        /// Requests in an hour at most.
        requests: usize,
    }
    let no_label: fn(&Paths) = |api| define(api, KUBEADM_DEFINITION, json!({"cluster.x-k8s.io/provider": "v1beta2"}));
    let cases = [
        Case {
            kind: (GROUP, "KubeadmControlPlane"),
            script: |_| {},
            reason: "there is no CustomResourceDefinition kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
            requests: 26,
        },
        Case {
            kind: (GROUP, "KubeadmControlPlane"),
            script: no_label,
            reason: "CustomResourceDefinition kubeadmcontrolplanes.controlplane.cluster.x-k8s.io has no label \
                     cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1 that names its API versions, as those of control \
                     plane providers have",
            requests: 26,
        },
        Case {
            kind: (GROUP, "KubeadmControlPlane"),
            script: |api| {
                api.always(&format!("{DEFINITIONS}/{KUBEADM_DEFINITION}"), forbidden());
            },
            reason: "reading definitions is forbidden; grant get on customresourcedefinitions.apiextensions.k8s.io",
            requests: 26,
        },
        Case {
            kind: (GROUP, "KubeadmControlPlane"),
            script: |api| {
                define_kubeadm(api);
                api.always(KUBEADM, forbidden());
            },
            reason: "reading it is forbidden; grant get, list and watch on \
                     kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
            requests: 70,
        },
        Case {
            kind: (GROUP, "KubeadmControlPlane"),
            script: define_kubeadm,
            reason: "the API server does not serve kubeadmcontrolplanes.v1beta2.controlplane.cluster.x-k8s.io",
            requests: 54,
        },
        Case {
            kind: ("", "Secret"),
            script: |_| {},
            reason: "no CustomResourceDefinition can have this group and kind",
            requests: 0,
        },
        Case {
            kind: ("a.b/../../v1", "Secret?x=\n"),
            script: |_| {},
            reason: "no CustomResourceDefinition can have this group and kind",
            requests: 0,
        },
    ];
    for Case { kind: (group, kind), script, reason, requests } in cases {
        let c1 = referring(cluster("a", "c1", "k", "v1.31.1"), group, kind);
        let following = Following::start(std::slice::from_ref(&c1), script).await;
        following.seconds(3_600).await;
        assert_eq!(following.control_plane(&c1), "Unknown", "{reason}");
        assert_eq!(following.kinds(), [format!("{kind}.{group}: {reason}")]);
        let asked = following.api.asked(DEFINITIONS).len() + following.api.asked(KUBEADM).len();
        assert!(asked <= requests, "{asked} requests: {reason}");
        let warnings = following.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        let beginning = format!(
            "WARN control planes of this kind cannot be read, so it cannot be told which versions they run: {reason} kind="
        );
        assert!(warnings[0].starts_with(&beginning), "{}", warnings[0]);
        assert!(warnings[0].ends_with("used_by=\"1 Cluster\""), "{}", warnings[0]);

        define_kubeadm(&following.api);
        following.api.play(KUBEADM, [page(&[control_plane("a", "c1", "v1.30.0")], None), Answer::Watch(vec![])]);
        following.seconds(181).await;
        let expected = if kind == "KubeadmControlPlane" { "v1.30.0 true" } else { "Unknown" };
        assert_eq!(following.control_plane(&c1), expected, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_served_no_more_is_looked_up_anew() {
    let following = Following::start(&[kubeadm("c1")], |api| {
        define(api, KUBEADM_DEFINITION, json!({"cluster.x-k8s.io/v1beta1": "v1alpha4_v1beta1"}));
        let list = page(&[control_plane("a", "c1", "v1.30.0")], None);
        let not_served = Answer::Text(404, "404 page not found\n");
        api.play(KUBEADM_V1BETA1, [list, Answer::Watch(vec![])].into_iter().chain(vec![not_served; 20]));
    })
    .await;
    define_kubeadm(&following.api);
    following.api.play(KUBEADM, [page(&[control_plane("a", "c1", "v1.31.1")], None), Answer::Watch(vec![])]);
    assert_eq!(following.control_plane(&kubeadm("c1")), "v1.30.0 true");
    following.seconds(60).await;
    assert_eq!(following.control_plane(&kubeadm("c1")), "v1.31.1 true");
    assert_eq!(following.warnings(), [""; 0]);
}

/// It answers 404 and 403 until it has read its definitions and its roles.
#[tokio::test(start_paused = true)]
async fn a_restart_of_the_api_server_makes_nothing_unknown() {
    let not_served = || Answer::Text(404, "404 page not found\n");
    let restart = |list: Answer| {
        [list.clone(), Answer::Watch(vec![]), not_served(), forbidden(), not_served(), list, Answer::Watch(vec![])]
    };
    let following = Following::start(&[kubeadm("c1")], |api| {
        define_kubeadm(api);
        api.play(KUBEADM, restart(page(&[control_plane("a", "c1", "v1.30.0")], None)));
        api.play(DEPLOYMENTS, restart(page(&[worker_set("a", "md1", "c1", "v1.30.0")], None)));
        api.play(POOLS, restart(page(&[], None)));
        api.play(INVENTORY, restart(page(&[core("v1.12.3")], None)));
        // Without an operator; it is forbidden as well for a moment.
        let operator = [not_served(), not_served(), not_served(), forbidden(), forbidden()];
        api.play(OPERATOR, operator.into_iter().chain(vec![not_served(); 9]));
    })
    .await;
    for _ in 0..60 {
        following.seconds(1).await;
        assert_eq!(following.control_plane(&kubeadm("c1")), "v1.30.0 true");
        assert_eq!(following.workers(&kubeadm("c1")).as_deref(), Some("v1.30.0"));
        assert_eq!(following.fleet.cluster_api().version, "v1.12.3");
    }
    let (pools, objects) = (following.api.asked(POOLS).len(), following.api.asked(KUBEADM).len());
    assert!(pools >= 7 && objects >= 7, "all of it was played");
    assert_eq!(following.warnings(), [""; 0]);
}

/// A long list is cut short by the next restart, so none is ever complete.
#[tokio::test(start_paused = true)]
async fn restarts_in_a_row_make_nothing_unknown_either() {
    let all = worker_set("a", "md1", "c1", "v1.30.0");
    let following = Following::start(&[kubeadm("c1")], |api| {
        define_kubeadm(api);
        api.play(KUBEADM, [page(&[], None), Answer::Watch(vec![])]);
        let first = [page(std::slice::from_ref(&all), None), Answer::Watch(vec![])];
        let cut = || [vec![forbidden(); 8], vec![page(std::slice::from_ref(&all), Some("token"))]].concat();
        let cuts = (0..5).flat_map(|_| cut());
        api.play(DEPLOYMENTS, first.into_iter().chain(cuts));
    })
    .await;
    following.seconds(120).await;
    assert_eq!(following.workers(&kubeadm("c1")).as_deref(), Some("v1.30.0"));
    assert!(following.api.asked(DEPLOYMENTS).len() >= 47, "all of it was played");
    assert_eq!(following.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_api_server_make_no_kind_unreadable() {
    let error = || Answer::Whole(500, status(500, "InternalError"));
    let following = Following::start(&[kubeadm("c1")], |api| {
        let path = format!("{DEFINITIONS}/{KUBEADM_DEFINITION}");
        let found = definition(KUBEADM_DEFINITION, &json!({"cluster.x-k8s.io/v1beta2": "v1beta2"}));
        api.play(&path, [error(), Answer::Whole(200, found)]);
        api.play(KUBEADM, [error(), page(&[control_plane("a", "c1", "v1.30.0")], None), Answer::Watch(vec![])]);
    })
    .await;
    following.seconds(30).await;
    assert_eq!(following.control_plane(&kubeadm("c1")), "v1.30.0 true");
}

#[tokio::test(start_paused = true)]
async fn no_more_kinds_are_followed_than_the_limit_allows() {
    let kind = |n: usize| format!("Kind{n}ControlPlane");
    let clusters: Vec<_> = (0..4)
        // Kind 2 has the most Clusters, so it comes first; those without a definition take no place.
        .flat_map(|n| (0..if n == 2 { 3 } else { 1 }).map(move |m| (n, m)))
        .map(|(n, m)| referring(cluster("a", &format!("c{n}-{m}"), "k", "v1.31.1"), GROUP, &kind(n)))
        .collect();
    let following = Following::at_most(2, &clusters, |api| {
        for n in 1..4 {
            define(api, &format!("kind{n}controlplanes.{GROUP}"), json!({"cluster.x-k8s.io/v1beta2": "v1"}));
            api.play(&format!("/apis/{GROUP}/v1/kind{n}controlplanes"), [page(&[], None), Answer::Watch(vec![])]);
        }
    })
    .await;
    let over = "2 kinds are followed already; raise --max-control-plane-kinds";
    let [zero, one, three] = [0, 1, 3].map(|n| format!("Kind{n}ControlPlane.{GROUP}: "));
    let kinds = following.kinds();
    assert_eq!(kinds.iter().filter(|kind| kind.ends_with(": followed")).count(), 2, "{kinds:#?}");
    assert!(kinds.contains(&format!("Kind2ControlPlane.{GROUP}: followed")), "{kinds:#?}");
    let missing = "there is no CustomResourceDefinition kind0controlplanes.controlplane.cluster.x-k8s.io";
    assert!(kinds.contains(&format!("{zero}{missing}")), "{kinds:#?}");
    assert!([one, three].iter().any(|kind| kinds.contains(&format!("{kind}{over}"))), "{kinds:#?}");
}

#[tokio::test(start_paused = true)]
async fn however_many_kinds_authors_name_only_so_many_are_looked_for() {
    let clusters: Vec<_> = (0..500)
        .map(|n| referring(cluster("a", &format!("c{n:03}"), "k", "v1.31.1"), GROUP, &format!("Kind{n}")))
        .collect();
    let following = Following::start(&clusters, |_| {}).await;
    following.seconds(3_600).await;
    assert!(following.api.asked(DEFINITIONS).len() <= 100 * 26, "{}", following.api.asked(DEFINITIONS).len());
    assert_eq!(following.kinds().len(), 100);
    let more = "Clusters refer to more than 100 kinds of control planes; the others are not looked for";
    let warnings = following.warnings();
    assert_eq!((warnings.len(), warnings.iter().filter(|line| line.contains(more)).count()), (101, 1));
}

/// The entry of clusterctl's inventory for a provider.
fn provider(provider_type: &str, name: &str, version: &str) -> Value {
    json!({"metadata": {"namespace": name, "name": name, "resourceVersion": "1"},
           "type": provider_type, "providerName": name, "version": version})
}

fn core(version: &str) -> Value {
    provider("CoreProvider", "cluster-api", version)
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_of_cluster_api_is_noticed_in_clusterctls_inventory() {
    let others =
        [provider("InfrastructureProvider", "cluster-api", "v1.99.0"), provider("CoreProvider", "x", "v1.99.0")];
    let following = Following::start(&[], |api| {
        let upgraded = event("MODIFIED", core("v1.13.0"));
        let list = [others.as_slice(), &[core("v1.12.3")]].concat();
        api.play(INVENTORY, [page(&list, None), Answer::EndingWatch(vec![]), Answer::EndingWatch(vec![upgraded])]);
    })
    .await;
    following.seconds(30).await;
    let told = following.fleet.cluster_api();
    assert_eq!((told.version.as_str(), told.told_by.as_str()), ("v1.13.0", "clusterctl"));
    assert_eq!(following.fleet.installed().release, Some(Release::V1_13));
    assert_eq!(following.warnings(), [""; 0], "an installation without the operator is normal");
}

#[tokio::test(start_paused = true)]
async fn what_cluster_api_is_installed_is_said_once() {
    let operated = |status: Value| {
        json!({"metadata": {"namespace": "c", "name": "cluster-api", "resourceVersion": "1"},
                                          "spec": {"version": "v1.15.0"}, "status": status})
    };
    let cases: [(&str, Value, &str, &str, &[&str]); 6] = [
        (
            INVENTORY,
            core("v1.15.0"),
            "v1.15.0",
            "clusterctl",
            &[
                "WARN Cluster API v1.15.0 is installed, and 1.15 is newer than this program knows; it judges by the newest that \
               it knows told_by=\"clusterctl\"",
            ],
        ),
        (
            INVENTORY,
            core("v1.11.4"),
            "v1.11.4",
            "clusterctl",
            &[
                "WARN Cluster API v1.11.4 is installed, which has no version lists; the rules on lists and paths stay idle \
               told_by=\"clusterctl\"",
            ],
        ),
        (OPERATOR, operated(json!({"installedVersion": "v1.14.2"})), "v1.14.2", "operator", &[]),
        (
            OPERATOR,
            operated(json!({})),
            "v1.15.0",
            "operator",
            &[
                "WARN Cluster API v1.15.0 is installed, and 1.15 is newer than this program knows; it judges by the newest that \
             it knows told_by=\"operator\"",
            ],
        ),
        (INVENTORY, provider("CoreProvider", "x", "v1.15.0"), "v1.14", "default", &[]),
        (
            INVENTORY,
            core("main"),
            "v1.14",
            "default",
            &["WARN what tells the version of Cluster API names none; set --cluster-api-version"],
        ),
    ];
    for (path, object, version, told_by, warnings) in cases {
        let following = Following::start(&[], |api| {
            api.play(path, [page(std::slice::from_ref(&object), None), Answer::Watch(vec![])]);
        })
        .await;
        following.seconds(3_600).await;
        let told = following.fleet.cluster_api();
        assert_eq!((told.version.as_str(), told.told_by.as_str()), (version, told_by), "{object}");
        assert_eq!(following.warnings(), warnings, "{object}");
    }
}

#[tokio::test(start_paused = true)]
async fn providers_that_are_forbidden_are_said_once_with_what_to_grant() {
    let following = Following::start(&[], |api| {
        api.always(INVENTORY, forbidden());
    })
    .await;
    following.seconds(3_600).await;
    let told = "WARN forbidden to read the providers, so they cannot tell which Cluster API is installed; grant get, list and \
                watch on providers.clusterctl.cluster.x-k8s.io, or set --cluster-api-version kind=\"Provider\"";
    assert_eq!(following.warnings(), [told]);
    assert_eq!(following.fleet.cluster_api().told_by.as_str(), "default");
    assert!(following.api.asked(INVENTORY).len() < 45);
}
