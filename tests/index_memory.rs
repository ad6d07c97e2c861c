//! `fleet::index`: what a Cluster costs in memory, also after relists and updates, and that nothing piles up.
//!
//! One test in one process: it counts every allocation.

use std::{
    alloc::System,
    io::{self, Write},
};

use capi_version_guard::{
    fleet::{Event, Index},
    model::Cluster,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CLUSTERS: usize = 10_000;
const BYTES_PER_CLUSTER: usize = 300;

fn heap() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// The Cluster with this number: a name of 30 characters, one of 100 namespaces and 10 classes, a uid of its own.
fn cluster(number: usize, version: usize) -> Cluster {
    let object = serde_json::json!({
        "metadata": {
            "namespace": format!("namespace-{:02}", number % 100),
            "name": format!("cluster-with-a-long-name-{number:05}"),
            "uid": format!("00000000-0000-4000-8000-{number:012x}"),
        },
        "spec": {"topology": {
            "classRef": {"namespace": "classes", "name": format!("class-{}", number / 100 % 10)},
            "version": format!("v1.{}.{}", 30 + version % 4, version / 4 % 10),
        }},
    });
    let cluster: Cluster = serde_json::from_value(object).unwrap();
    assert_eq!(cluster.metadata.name.len(), 30);
    cluster
}

fn list(index: &mut Index) {
    index.handle_cluster(Event::Restarted);
    for number in 0..CLUSTERS {
        index.handle_cluster(Event::Listed(cluster(number, number)));
    }
    index.handle_cluster(Event::Completed);
}

fn holds(what: &str, before: usize, index: &Index) {
    assert_eq!(index.clusters.objects().len(), CLUSTERS);
    let each = (heap() - before) / CLUSTERS;
    // Not println!: the harness keeps what a passing test prints with it.
    let mut output = io::stdout();
    writeln!(output, "{what}: {each} bytes of heap per Cluster, {CLUSTERS} Clusters").unwrap();
    assert!(each <= BYTES_PER_CLUSTER, "{what}: {each} bytes per Cluster");
}

#[test]
fn a_cluster_costs_at_most_300_bytes_and_nothing_piles_up() {
    let before = heap();
    let mut index = Index::default();
    list(&mut index);
    assert_eq!(index.versions_in_use(), 10 * 40, "40 versions, each in use with each class");
    holds("after the first list", before, &index);

    for _ in 0..3 {
        list(&mut index);
    }
    holds("after three relists", before, &index);

    for round in 1..=10 {
        for number in 0..CLUSTERS {
            // A step that is no multiple of a count above, so that Clusters cross in every order.
            let number = number * 7_919 % CLUSTERS;
            index.handle_cluster(Event::Applied(cluster(number, number + round)));
        }
    }
    holds("after ten updates of each", before, &index);

    // Clusters that come and go in namespaces, classes and versions that nobody else has, one without a topology too.
    for number in 0..50_000 {
        let mut object = serde_json::json!({
            "metadata": {"namespace": format!("passing-namespace-{number}"), "name": "c"},
            "spec": {"topology": {
                "classRef": {"name": format!("passing-class-{number}")},
                "version": format!("v1.30.{number}"),
            }},
        });
        let passing: Cluster = serde_json::from_value(object.clone()).unwrap();
        let key = passing.key();
        index.handle_cluster(Event::Applied(passing));
        object["spec"]["topology"] = serde_json::Value::Null;
        index.handle_cluster(Event::Applied(serde_json::from_value(object).unwrap()));
        index.handle_cluster(Event::Deleted(key));
    }
    holds("after 50,000 passing Clusters", before, &index);
}
