//! `fleet::watch` against a scripted API server: what it asks, and that no fault leaves the index wrong.

mod support;

use std::{sync::Arc, time::Duration};

use capi_version_guard::{
    fleet::{Fleet, Overlay, watch},
    model::ObjectKey,
};
use serde_json::{Value, json};
use support::{
    class, cluster,
    fake_api::{Answer, Paths, event, page, status},
};

const CLUSTERS: &str = "/apis/cluster.x-k8s.io/v1beta2/clusters";
const CLASSES: &str = "/apis/cluster.x-k8s.io/v1beta2/clusterclasses";

/// Follows a script for Clusters, and one class, for a minute of virtual time. Gives back the fleet and what Clusters were
/// asked for.
async fn follow(clusters: Vec<Answer>) -> (Arc<Fleet>, Vec<String>) {
    let api = Paths::default();
    api.play(CLUSTERS, clusters).play(CLASSES, [page(&[class("a", "k", &["v1.30.0"])], None)]);
    let fleet = Arc::new(Fleet::default());
    let forever = watch::run(api.clone(), Arc::clone(&fleet), watch::MAX_KINDS);
    tokio::time::timeout(Duration::from_secs(60), forever).await.expect_err("following never ends");
    (fleet, api.asked(&format!("{CLUSTERS}?")))
}

/// The versions in use of class a/k, with the names of their Clusters.
fn users(fleet: &Fleet) -> Value {
    let users = fleet.index.read().users(&ObjectKey::new("a", "k"), &Overlay::default());
    let names = |sample: &[ObjectKey]| sample.iter().map(|key| key.name.to_string()).collect::<Vec<_>>().join(" ");
    users.versions.iter().map(|used| (used.version.to_string(), json!(names(&used.sample)))).collect()
}

#[tokio::test(start_paused = true)]
async fn pages_and_then_a_watch_fill_the_index() {
    let (fleet, asked) = follow(vec![
        page(&[cluster("a", "c1", "k", "v1.30.0")], Some("token")),
        page(&[cluster("a", "c2", "k", "v1.30.0")], None),
        Answer::Watch(vec![
            event("ADDED", cluster("a", "c3", "k", "v1.31.0")),
            event("MODIFIED", cluster("a", "c1", "k", "v1.31.0")),
            event("DELETED", cluster("a", "c2", "k", "v1.30.0")),
        ]),
    ])
    .await;
    assert_eq!(users(&fleet), json!({"v1.31.0": "c1 c3"}));
    assert!(fleet.index.read().clusters.synced() && fleet.index.read().classes.synced());
    // Never resourceVersion=0: that is served from a cache which ignores the page size and may be old.
    let first_three = [
        "/apis/cluster.x-k8s.io/v1beta2/clusters?&limit=100",
        "/apis/cluster.x-k8s.io/v1beta2/clusters?&limit=100&continue=token",
        "/apis/cluster.x-k8s.io/v1beta2/clusters?&watch=true&timeoutSeconds=25&allowWatchBookmarks=true&resourceVersion=100",
    ];
    assert_eq!(asked.get(..3), Some(first_three.map(str::to_owned).as_slice()));
}

#[tokio::test(start_paused = true)]
async fn before_the_list_is_complete_nothing_is_known_and_nothing_synced() {
    let (fleet, _) = follow(vec![page(&[cluster("a", "c1", "k", "v1.30.0")], Some("token")), Answer::Silence]).await;
    assert_eq!(users(&fleet), json!({}));
    assert!(!fleet.index.read().clusters.synced());
}

#[tokio::test(start_paused = true)]
async fn a_lost_place_in_the_history_ends_in_a_new_list_without_the_objects_that_went_meanwhile() {
    let (fleet, _) = follow(vec![
        page(&[cluster("a", "gone", "k", "v1.30.0"), cluster("a", "c1", "k", "v1.30.0")], None),
        Answer::Watch(vec![event("ERROR", status(410, "Expired"))]),
        page(&[cluster("a", "c1", "k", "v1.31.0")], None),
        Answer::Watch(vec![]),
    ])
    .await;
    assert_eq!(users(&fleet), json!({"v1.31.0": "c1"}));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_at_its_last_bookmark() {
    let bookmark = json!({"kind": "Cluster", "apiVersion": "v1", "metadata": {"resourceVersion": "222"}});
    let (fleet, asked) = follow(vec![
        page(&[cluster("a", "c1", "k", "v1.30.0")], None),
        Answer::EndingWatch(vec![event("BOOKMARK", bookmark)]),
        Answer::Watch(vec![event("ADDED", cluster("a", "c2", "k", "v1.30.0"))]),
    ])
    .await;
    assert_eq!(users(&fleet), json!({"v1.30.0": "c1 c2"}));
    assert!(
        asked.get(2).is_some_and(|third| third.contains("watch=true") && third.contains("resourceVersion=222")),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn errors_are_repeated_with_growing_pauses_until_the_list_succeeds() {
    let error = || Answer::Whole(500, status(500, "InternalError"));
    let (fleet, asked) = follow(vec![
        error(),
        Answer::Whole(403, status(403, "Forbidden")),
        Answer::Whole(200, json!("no list")),
        error(),
        page(&[cluster("a", "c1", "k", "v1.30.0")], None),
        Answer::Watch(vec![]),
    ])
    .await;
    assert_eq!(users(&fleet), json!({"v1.30.0": "c1"}));
    assert!(asked.len() < 10, "no hot loop: {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_is_counted_and_stops_nothing() {
    let broken = |name: &str| {
        let mut broken = cluster("a", name, "k", "v1.30.0");
        broken["spec"]["topology"]["version"] = json!(5);
        broken
    };
    let list = || page(&[broken("c1"), broken("c2"), cluster("a", "c3", "k", "v1.30.0")], None);
    let (fleet, _) = follow(vec![
        list(),
        Answer::Watch(vec![event("MODIFIED", broken("c3")), event("ADDED", cluster("a", "c4", "k", "v1.30.0"))]),
    ])
    .await;
    assert_eq!(users(&fleet), json!({"v1.30.0": "c4"}), "c3 is not what it was");
    assert_eq!(fleet.index.read().clusters.undecodable(), 3);
    let (fleet, _) = follow(vec![
        list(),
        Answer::Watch(vec![event("MODIFIED", cluster("a", "c1", "k", "v1.31.0")), event("DELETED", broken("c2"))]),
    ])
    .await;
    assert_eq!(users(&fleet), json!({"v1.30.0": "c3", "v1.31.0": "c1"}));
    assert_eq!(fleet.index.read().clusters.undecodable(), 0);
}

#[tokio::test(start_paused = true)]
async fn odd_objects_decode() {
    let odd = [
        json!({"metadata": {"namespace": "a", "name": "no-spec"}}),
        json!({"metadata": {"namespace": "a", "name": "null-spec", "annotations": null, "labels": [1]}, "spec": null}),
        json!({"metadata": {"namespace": "a", "name": "v1beta1", "annotations": {"a": 5}},
               "spec": {"topology": {"class": "k", "version": "1.30.0"}}}),
    ];
    let (fleet, _) = follow(vec![page(&odd, None), Answer::Watch(vec![])]).await;
    assert_eq!(users(&fleet), json!({"v1.30.0": "v1beta1"}));
    assert_eq!(fleet.index.read().clusters.undecodable(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_no_event_leads_to_a_new_list_because_what_it_said_is_lost() {
    let (fleet, _) = follow(vec![
        page(&[cluster("a", "c1", "k", "v1.30.0")], None),
        Answer::Watch(vec![r#"{"type":"ADDED","object":"#.to_owned() + "garbage}"]),
        page(&[cluster("a", "c1", "k", "v1.31.0")], None),
        Answer::Watch(vec![]),
    ])
    .await;
    assert_eq!(users(&fleet), json!({"v1.31.0": "c1"}));
}
