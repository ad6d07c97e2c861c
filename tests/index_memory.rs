//! `fleet::index`: what a Cluster, its control plane object and a worker set cost in memory, also after relists and updates,
//! and that nothing piles up.
//!
//! One test in one process: it counts every allocation. The bytes are those asked for; an allocator rounds each up.

use std::{
    alloc::System,
    io::{self, Write},
};

use capi_version_guard::{
    fleet::{Event, Index, Overlay},
    model::{Cluster, ControlPlane, ControlPlaneKind, ObjectKey, WorkerKind, WorkerSet},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CLUSTERS: usize = 10_000;
const SETS_EACH: usize = 5;

const BYTES_PER_CLUSTER: usize = 300;
const BYTES_PER_CONTROL_PLANE: usize = 120;
const BYTES_PER_WORKER_SET: usize = 120;

const DEPLOYMENTS: WorkerKind = WorkerKind::MachineDeployment;

fn heap() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn kind() -> ControlPlaneKind {
    ControlPlaneKind { group: "controlplane.cluster.x-k8s.io".into(), kind: "KubeadmControlPlane".into() }
}

fn read<T: serde::de::DeserializeOwned>(object: serde_json::Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn version(number: usize) -> String {
    format!("v1.{}.{}", 30 + number % 4, number / 4 % 10)
}

/// The last five characters of a name that was made, different for each number.
fn suffix(number: usize) -> String {
    let digits = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = number * 7_919;
    (0..5)
        .map(|_| {
            let digit = digits[rest % digits.len()];
            rest /= digits.len();
            char::from(digit)
        })
        .collect()
}

fn namespace(number: usize) -> String {
    format!("namespace-{:02}", number % 100)
}

/// The Cluster with this number, in one of 100 namespaces and 10 classes, a uid of its own.
fn cluster(number: usize, at: usize) -> Cluster {
    let name = format!("prod-eu-{number:04}");
    read(serde_json::json!({
        "metadata": {
            "namespace": namespace(number),
            "name": name,
            "uid": format!("00000000-0000-4000-8000-{number:012x}"),
        },
        "spec": {
            "topology": {
                "classRef": {"namespace": "classes", "name": format!("class-{}", number / 100 % 10)},
                "version": version(at),
            },
            "controlPlaneRef": {
                "apiGroup": &*kind().group,
                "kind": &*kind().kind,
                "name": format!("{name}-{}", suffix(number)),
            },
        },
    }))
}

fn control_plane(number: usize, at: usize) -> ControlPlane {
    let metadata = serde_json::json!({
        "namespace": namespace(number),
        "name": format!("prod-eu-{number:04}-{}", suffix(number)),
    });
    let (spec, status) = (serde_json::json!({"version": version(at)}), serde_json::json!({"version": version(at)}));
    read(serde_json::json!({"metadata": metadata, "spec": spec, "status": status}))
}

/// The set with this number; five in a row belong to one Cluster.
fn worker_set(number: usize, at: usize) -> WorkerSet {
    let cluster = number / SETS_EACH;
    let name = format!("prod-eu-{cluster:04}");
    read(serde_json::json!({
        "metadata": {
            "namespace": namespace(cluster),
            "name": format!("{name}-md-{}-{}", number % SETS_EACH, suffix(number)),
            "labels": {"cluster.x-k8s.io/cluster-name": name, "topology.cluster.x-k8s.io/owned": ""},
        },
        "spec": {"template": {"spec": {"version": version(at)}}},
    }))
}

/// Objects come in the order of their keys, as an API server lists them.
fn in_order<T>(count: usize, make: impl Fn(usize) -> T, key: impl Fn(&T) -> ObjectKey) -> Vec<T> {
    let mut objects: Vec<T> = (0..count).map(make).collect();
    objects.sort_by_key(key);
    objects
}

fn list<T>(objects: Vec<T>, mut handle: impl FnMut(Event<T>)) {
    handle(Event::Restarted);
    objects.into_iter().for_each(|object| handle(Event::Listed(object)));
    handle(Event::Completed);
}

fn list_clusters(index: &mut Index) {
    list(in_order(CLUSTERS, |n| cluster(n, n), Cluster::key), |event| index.handle_cluster(event));
}

fn list_control_planes(index: &mut Index) {
    let objects = in_order(CLUSTERS, |n| control_plane(n, n), |object| object.metadata.key());
    list(objects, |event| index.handle_control_planes(&kind(), event));
}

fn list_workers(index: &mut Index) {
    let objects = in_order(CLUSTERS * SETS_EACH, |n| worker_set(n, n / SETS_EACH), |set| set.metadata.key());
    list(objects, |event| index.handle_workers(DEPLOYMENTS, event));
}

/// Says what each of `count` objects has added to the heap since `before`, and holds it to `most`.
fn holds(what: &str, before: usize, count: usize, most: usize) {
    // Not println!: the harness keeps what a passing test prints with it.
    let mut output = io::stdout();
    let each = (heap() - before).div_ceil(count);
    writeln!(output, "{what}: {each} bytes of heap each, {count} of them").unwrap();
    assert!(each <= most, "{what}: {each} bytes each");
}

#[test]
fn each_object_stays_within_its_bytes() {
    let all = CLUSTERS * (BYTES_PER_CLUSTER + BYTES_PER_CONTROL_PLANE + SETS_EACH * BYTES_PER_WORKER_SET);
    let before = heap();
    let mut index = Index::default();
    index.workers_not_served(WorkerKind::MachinePool);
    list_clusters(&mut index);
    assert_eq!(index.clusters.objects().len(), CLUSTERS);
    assert_eq!(index.control_plane_kinds()[&kind()], CLUSTERS);
    assert_eq!(index.versions_in_use(), 10 * 40, "40 versions, each in use with each class");
    holds("Clusters", before, CLUSTERS, BYTES_PER_CLUSTER);

    let before_control_planes = heap();
    list_control_planes(&mut index);
    assert_eq!(index.control_planes(&kind()).unwrap().objects().len(), CLUSTERS);
    holds("control plane objects", before_control_planes, CLUSTERS, BYTES_PER_CONTROL_PLANE);

    let before_workers = heap();
    list_workers(&mut index);
    assert_eq!(index.workers(DEPLOYMENTS).objects().len(), CLUSTERS * SETS_EACH);
    holds("worker sets", before_workers, CLUSTERS * SETS_EACH, BYTES_PER_WORKER_SET);

    let class = ObjectKey::new("classes", "class-0");
    let settled = |index: &Index| {
        let users = index.users(&class, &Overlay::default());
        users.versions.iter().filter(|used| used.running.all_at(&used.version)).map(|used| used.clusters).sum::<usize>()
    };
    assert_eq!(settled(&index), CLUSTERS / 10, "each runs what it is to run, and its row says so");

    for _ in 0..2 {
        list_workers(&mut index);
        list_clusters(&mut index);
        list_control_planes(&mut index);
    }
    holds("Clusters with all that runs of them, after two relists", before, CLUSTERS, all / CLUSTERS);

    for round in 1..=2 {
        for number in 0..CLUSTERS {
            // A step that is no multiple of a count above, so that Clusters cross in every order.
            let number = number * 7_919 % CLUSTERS;
            let at = number + round;
            index.handle_cluster(Event::Applied(cluster(number, at)));
            index.handle_control_planes(&kind(), Event::Applied(control_plane(number, at)));
            for set in number * SETS_EACH..(number + 1) * SETS_EACH {
                index.handle_workers(DEPLOYMENTS, Event::Applied(worker_set(set, at)));
            }
        }
    }
    assert_eq!(settled(&index), CLUSTERS / 10);
    holds("the same, after two upgrades of each", before, CLUSTERS, all / CLUSTERS);

    // Clusters that come and go in namespaces, classes and versions that nobody else has, one without a topology too.
    for number in 0..10_000 {
        let mut object = serde_json::json!({
            "metadata": {"namespace": format!("passing-namespace-{number}"), "name": "c"},
            "spec": {
                "topology": {
                    "classRef": {"name": format!("passing-class-{number}")},
                    "version": format!("v1.30.{number}"),
                },
                "controlPlaneRef": {"apiGroup": format!("passing-group-{number}"), "kind": "K", "name": "c"},
            },
        });
        let passing: Cluster = read(object.clone());
        let key = passing.key();
        index.handle_cluster(Event::Applied(passing));
        let plane = serde_json::json!({"metadata": object["metadata"], "spec": {"version": format!("v1.30.{number}")}});
        index.handle_control_planes(&kind(), Event::Applied(read(plane)));
        let mut set = worker_set(0, number + 1_000);
        set.metadata.namespace = key.namespace.to_string();
        let set_key = set.metadata.key();
        index.handle_workers(DEPLOYMENTS, Event::Applied(set));
        object["spec"]["topology"] = serde_json::Value::Null;
        index.handle_cluster(Event::Applied(read(object)));
        index.handle_cluster(Event::Deleted(key.clone()));
        index.handle_control_planes(&kind(), Event::Deleted(key));
        index.handle_workers(DEPLOYMENTS, Event::Deleted(set_key));
    }
    holds("the same, after 10,000 passing Clusters", before, CLUSTERS, all / CLUSTERS);
}
