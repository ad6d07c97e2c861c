//! `server::live` against a scripted API server: what runs of one Cluster, read from etcd.

mod support;

use std::time::Duration;

use capi_version_guard::{
    model::{Cluster, ControlPlaneState, Provider, Running},
    server::live::Live,
};
use serde_json::{Value, json};
use support::{
    cluster, control_plane, definition,
    fake_api::{Answer, Paths, page, status},
    referring, worker_set,
};
use tokio::{runtime::Handle, time::Instant};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/\
                          kubeadmcontrolplanes.controlplane.cluster.x-k8s.io";
const OBJECT: &str = "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/a/kubeadmcontrolplanes/c1";
const OLD_OBJECT: &str = "/apis/controlplane.cluster.x-k8s.io/v1beta1/namespaces/a/kubeadmcontrolplanes/c1";
const DEPLOYMENTS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/a/machinedeployments";
const POOLS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/a/machinepools";

/// A Cluster with a KubeadmControlPlane, in the middle of an upgrade if `step` says so.
fn c1(step: Option<&str>) -> Value {
    let mut c1 = referring(cluster("a", "c1", "k", "v1.32.0"), "controlplane.cluster.x-k8s.io", "KubeadmControlPlane");
    if let Some(step) = step {
        c1["metadata"]["annotations"] = json!({"topology.internal.cluster.x-k8s.io/upgrade-step": step});
    }
    c1
}

/// An API server that has all of it; a test changes what it is about.
fn api() -> Paths {
    let api = Paths::default();
    let labels = json!({"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"});
    api.always(DEFINITION, Answer::Whole(200, definition("d", &labels)))
        .always(OBJECT, Answer::Whole(200, control_plane("a", "c1", "v1.31.1")))
        .always(
            DEPLOYMENTS,
            page(&[worker_set("a", "md", "c1", "v1.30.0"), worker_set("a", "md2", "c1", "v1.31.1")], None),
        )
        .always(POOLS, page(&[worker_set("a", "mp", "c1", "v1.30.0")], None));
    api
}

async fn read(api: &Paths, cluster: &Value) -> Result<Running, String> {
    read_with(&Live::with_client(api.client(), Handle::current()), cluster).await
}

async fn read_with(live: &Live, cluster: &Value) -> Result<Running, String> {
    let cluster: Cluster = serde_json::from_value(cluster.clone()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    live.running(&cluster, deadline).await.map_err(|error| error.to_string())
}

/// In short: the control plane, and the workers.
fn short(running: Result<Running, String>) -> (String, String) {
    let Running { control_plane, workers } = running.unwrap();
    let control_plane = match control_plane {
        ControlPlaneState::At { version, settled, provider } => {
            assert_eq!(provider, Provider::Kubeadm);
            format!("{version} {settled}")
        }
        state => format!("{state:?}"),
    };
    (control_plane, workers.map_or_else(|| "unknown".to_owned(), |workers| workers.join(" ")))
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_one_object_and_two_lists_by_label() {
    let api = api();
    let (control_plane, workers) = short(read(&api, &c1(None)).await);
    assert_eq!((control_plane.as_str(), workers.as_str()), ("v1.31.1 true", "v1.30.0 v1.31.1"));
    let mut asked = api.asked("");
    asked.sort();
    let selector = "?&labelSelector=cluster.x-k8s.io%2Fcluster-name%3Dc1%2Ctopology.cluster.x-k8s.io%2Fowned";
    let expected =
        [DEFINITION.to_owned(), format!("{DEPLOYMENTS}{selector}"), format!("{POOLS}{selector}"), OBJECT.to_owned()];
    assert_eq!(asked, expected);
}

#[tokio::test(start_paused = true)]
async fn where_a_kind_is_is_looked_up_once_in_a_minute() {
    let api = api();
    let live = Live::with_client(api.client(), Handle::current());
    for _ in 0..5 {
        read_with(&live, &c1(None)).await.unwrap();
    }
    assert_eq!((api.asked(DEFINITION).len(), api.asked(OBJECT).len()), (1, 5));
    tokio::time::advance(Duration::from_secs(61)).await;
    read_with(&live, &c1(None)).await.unwrap();
    assert_eq!(api.asked(DEFINITION).len(), 2);
}

/// What cannot be read is unknown, and then the annotation tells; what is not there is missing.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_no_error() {
    let forbidden = || Answer::Whole(403, status(403, "Forbidden"));
    type Change = Box<dyn Fn(&Paths)>;
    let set = |path: &'static str, answer: Answer| -> Change {
        Box::new(move |api: &Paths| {
            api.always(path, answer.clone());
        })
    };
    let drop = |path: &'static str| -> Change { Box::new(move |api: &Paths| api.drop(path)) };
    let mut undecodable_set = worker_set("a", "md", "c1", "v1.30.0");
    undecodable_set["spec"]["template"] = json!(5);
    let mut undecodable = control_plane("a", "c1", "v1.31.1");
    undecodable["spec"]["version"] = json!(5);
    let without_version = json!({"metadata": {"namespace": "a", "name": "c1"}, "spec": {}});
    let all = "v1.30.0 v1.31.1";
    let cases: [(Change, &str, &str, &str); 12] = [
        (set(OBJECT, Answer::Whole(404, status(404, "NotFound"))), "Missing", "Missing", all),
        (set(OBJECT, forbidden()), "Unknown", "v1.30.5 false", all),
        (drop(OBJECT), "Unknown", "v1.30.5 false", all),
        (set(OBJECT, Answer::Whole(200, undecodable)), "Unknown", "v1.30.5 false", all),
        (set(OBJECT, Answer::Whole(200, without_version)), "Unknown", "v1.30.5 false", all),
        (drop(DEFINITION), "Unknown", "v1.30.5 false", all),
        (set(DEFINITION, forbidden()), "Unknown", "v1.30.5 false", all),
        (set(DEFINITION, Answer::Whole(200, definition("d", &json!({})))), "Unknown", "v1.30.5 false", all),
        (drop(POOLS), "v1.31.1 true", "v1.31.1 true", all),
        (set(POOLS, forbidden()), "v1.31.1 true", "v1.31.1 true", "unknown"),
        (set(DEPLOYMENTS, page(&[undecodable_set], None)), "v1.31.1 true", "v1.31.1 true", "unknown"),
        (drop(DEPLOYMENTS), "v1.31.1 true", "v1.31.1 true", "v1.30.0"),
    ];
    for (at, (change, plain, in_mid_chain, workers)) in cases.iter().enumerate() {
        let api = api();
        change(&api);
        assert_eq!(short(read(&api, &c1(None)).await), (plain.to_string(), workers.to_string()), "case {at}");
        let upgrading = short(read(&api, &c1(Some("v1.30.5"))).await);
        assert_eq!(upgrading, (in_mid_chain.to_string(), workers.to_string()), "case {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_a_reference_has_no_control_plane_yet() {
    let (control_plane, workers) = short(read(&api(), &cluster("a", "c1", "k", "v1.32.0")).await);
    assert_eq!((control_plane.as_str(), workers.as_str()), ("NotCreated", "v1.30.0 v1.31.1"));
}

#[tokio::test(start_paused = true)]
async fn what_may_be_gone_at_the_next_try_is_an_error() {
    let failure = || Answer::Whole(500, status(500, "InternalError"));
    let object = "KubeadmControlPlane.controlplane.cluster.x-k8s.io a/c1";
    let cases = [
        (DEFINITION, failure(), format!("failed to read {object}: ApiError: scripted 500: InternalError")),
        (OBJECT, failure(), format!("failed to read {object}: ApiError: scripted 500: InternalError")),
        (OBJECT, Answer::Silence, format!("failed to read {object}: the API server did not answer in time")),
        (
            DEPLOYMENTS,
            failure(),
            "failed to read the MachineDeployments of Cluster a/c1: ApiError: scripted 500: InternalError".to_owned(),
        ),
        (
            POOLS,
            Answer::Whole(429, status(429, "TooManyRequests")),
            "failed to read the MachinePools of Cluster a/c1: ApiError: scripted 429: TooManyRequests".to_owned(),
        ),
    ];
    for (path, answer, expected) in cases {
        let api = api();
        api.always(path, answer);
        let error = read(&api, &c1(None)).await.unwrap_err();
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_served_no_more_is_looked_up_anew() {
    let api = api();
    let live = Live::with_client(api.client(), Handle::current());
    let old = definition("d", &json!({"cluster.x-k8s.io/v1beta1": "v1beta1"}));
    let new = definition("d", &json!({"cluster.x-k8s.io/v1beta2": "v1beta2"}));
    api.play(DEFINITION, [Answer::Whole(200, old), Answer::Whole(200, new)]);
    api.always(OLD_OBJECT, Answer::Whole(200, control_plane("a", "c1", "v1.30.0")));
    assert_eq!(short(read_with(&live, &c1(None)).await).0, "v1.30.0 true");
    api.drop(OLD_OBJECT);
    assert_eq!(short(read_with(&live, &c1(None)).await).0, "v1.31.1 true");
}

#[tokio::test(start_paused = true)]
async fn no_path_is_made_of_what_is_no_name() {
    for (group, kind, name, expected) in [
        ("", "Secret", "s", "Unknown"),
        ("controlplane.cluster.x-k8s.io/v1/../..", "Secret", "s", "Unknown"),
        ("controlplane.cluster.x-k8s.io", "Kubeadm/ControlPlane", "s", "Unknown"),
        ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "../secrets/s", "Missing"),
        ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "c1?watch=true", "Missing"),
    ] {
        let api = api();
        let mut odd = c1(None);
        odd["spec"]["controlPlaneRef"] = json!({"apiGroup": group, "kind": kind, "name": name});
        assert_eq!(short(read(&api, &odd).await).0, expected, "{group} {kind} {name}");
        assert_eq!(api.asked("").len(), 2, "only the worker sets: {:?}", api.asked(""));
    }
    let long = cluster("a", &"c".repeat(64), "k", "v1.32.0");
    let api = api();
    assert_eq!(short(read(&api, &long).await), ("NotCreated".to_owned(), String::new()));
    assert_eq!(api.asked(""), [""; 0], "no label has such a value");
}
