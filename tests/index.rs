//! `fleet::index`: whatever the order of events, what is observed equals a plain reading of what is there.

use std::collections::BTreeMap;

use capi_version_guard::{
    fleet::{ClassEntry, ClusterState, Event, Index, Overlay, SAMPLE, Uid, Users, VersionInUse},
    model::{Cluster, ClusterClass, ObjectKey, Running},
};
use proptest::prelude::*;
use serde_json::json;

/// Few names, so that events meet each other.
const NAMESPACES: [&str; 2] = ["a", "b"];
const NAMES: usize = 8;
const CLASSES: [&str; 2] = ["quick", "slow"];

fn cluster(key: &ObjectKey, wanted: &Wanted) -> Cluster {
    let mut object = json!({
        "metadata": {"namespace": key.namespace, "name": key.name, "uid": wanted.uid},
        "spec": {},
    });
    if wanted.deleting {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    if let Some((namespace, class, version)) = &wanted.topology {
        object["spec"]["topology"] = json!({"classRef": {"namespace": namespace, "name": class}, "version": version});
    }
    serde_json::from_value(object).unwrap()
}

fn class(key: &ObjectKey, versions: &[String]) -> ClusterClass {
    let metadata = json!({"namespace": key.namespace, "name": key.name});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"kubernetesVersions": versions}})).unwrap()
}

#[derive(Clone, Debug)]
struct Wanted {
    topology: Option<(&'static str, &'static str, &'static str)>,
    uid: &'static str,
    deleting: bool,
}

fn wanted() -> impl Strategy<Value = Wanted> + Clone {
    let namespace = prop::sample::select(vec!["", "a", "b"]);
    let version = prop::sample::select(vec!["v1.30.0", "1.30.0", "v1.31.0", "v1.31.0+a"]);
    let topology = prop::option::weighted(0.85, (namespace, prop::sample::select(CLASSES.to_vec()), version));
    let uid = prop::sample::select(vec!["", "odd", "00000000-0000-0000-0000-00000000000f"]);
    (topology, uid, prop::bool::weighted(0.2)).prop_map(|(topology, uid, deleting)| Wanted { topology, uid, deleting })
}

fn key() -> impl Strategy<Value = ObjectKey> + Clone {
    (prop::sample::select(NAMESPACES.to_vec()), 0..NAMES)
        .prop_map(|(namespace, number)| ObjectKey::new(namespace, format!("c{number}")))
}

/// What happens to the objects of one kind. An object without content does not decode.
#[derive(Clone, Debug)]
enum Step<T> {
    Apply(ObjectKey, T),
    Delete(ObjectKey),
    Spoil(ObjectKey),
    Relist(Relist<T>),
}

/// A relist: those that broke off (after how many objects each), what changed without an event before the last one, and
/// what changed while it ran.
#[derive(Clone, Debug)]
struct Relist<T> {
    broken_off: Vec<usize>,
    missed: Vec<(ObjectKey, Missed<T>)>,
    during: Vec<(ObjectKey, Missed<T>)>,
}

#[derive(Clone, Debug)]
enum Missed<T> {
    Apply(T),
    Delete,
    Spoil,
}

fn steps<T: Clone + std::fmt::Debug>(object: impl Strategy<Value = T> + Clone) -> impl Strategy<Value = Vec<Step<T>>> {
    let missed = prop_oneof![
        3 => object.clone().prop_map(Missed::Apply),
        2 => Just(Missed::Delete),
        1 => Just(Missed::Spoil),
    ];
    let changes = prop::collection::vec((key(), missed), 0..6);
    let relist = (prop::collection::vec(0..20_usize, 0..3), changes.clone(), changes)
        .prop_map(|(broken_off, missed, during)| Relist { broken_off, missed, during });
    let step = prop_oneof![
        12 => (key(), object).prop_map(|(key, object)| Step::Apply(key, object)),
        4 => key().prop_map(Step::Delete),
        2 => key().prop_map(Step::Spoil),
        2 => relist.prop_map(Step::Relist),
    ];
    prop::collection::vec(step, 0..60)
}

/// What is there: the plain truth that the index has to equal.
type World<T> = BTreeMap<ObjectKey, Option<T>>;

/// Folds `steps` into `world` and hands the events to `handle`; `check` is called where nothing may have changed.
fn play<T: Clone, O>(
    world: &mut World<T>,
    steps: Vec<Step<T>>,
    make: impl Fn(&ObjectKey, &T) -> O,
    mut handle: impl FnMut(Event<O>, Option<&World<T>>),
) {
    let event = |world: &mut World<T>, key: ObjectKey, change| match change {
        Missed::Apply(object) => {
            let event = Event::Applied(make(&key, &object));
            world.insert(key, Some(object));
            event
        }
        Missed::Delete => {
            world.remove(&key);
            Event::Deleted(key)
        }
        Missed::Spoil => {
            world.insert(key.clone(), None);
            Event::Undecodable(key)
        }
    };
    let listed = |key: &ObjectKey, object: &Option<T>| match object {
        Some(object) => Event::Listed(make(key, object)),
        None => Event::Undecodable(key.clone()),
    };
    for step in steps {
        let (key, change) = match step {
            Step::Apply(key, object) => (key, Missed::Apply(object)),
            Step::Delete(key) => (key, Missed::Delete),
            Step::Spoil(key) => (key, Missed::Spoil),
            Step::Relist(Relist { broken_off, missed, during }) => {
                let before = world.clone();
                for objects in broken_off {
                    handle(Event::Restarted, Some(&before));
                    for (key, object) in before.iter().take(objects) {
                        handle(listed(key, object), Some(&before));
                    }
                }
                // After the lists that broke off: they name what the complete one does not, and it has to win.
                for (key, change) in missed {
                    event(world, key, change);
                }
                handle(Event::Restarted, Some(&before));
                for (key, object) in world.iter() {
                    handle(listed(key, object), Some(&before));
                }
                for (key, change) in during {
                    let event = event(world, key, change);
                    handle(event, Some(&before));
                }
                handle(Event::Completed, Some(world));
                continue;
            }
        };
        let event = event(world, key, change);
        handle(event, Some(world));
    }
}

/// Who uses `class`, by looking at every Cluster.
fn plain_users(world: &World<Wanted>, class: &ObjectKey) -> Users {
    let mut slots: BTreeMap<(String, bool), Vec<ObjectKey>> = BTreeMap::new();
    for (key, wanted) in world {
        let Some(Wanted { topology: Some((namespace, name, version)), deleting, .. }) = wanted else { continue };
        let namespace = if namespace.is_empty() { &*key.namespace } else { namespace };
        if (namespace, *name) == (&*class.namespace, &*class.name) {
            let version = format!("v{}", version.trim_start_matches('v'));
            slots.entry((version, *deleting)).or_default().push(key.clone());
        }
    }
    let versions = slots.into_iter().map(|((version, deleting), keys)| VersionInUse {
        version: version.into(),
        deleting,
        running: Running::default(),
        clusters: keys.len(),
        sample: keys.into_iter().take(SAMPLE).collect(),
    });
    Users { versions: versions.collect() }
}

fn class_keys() -> impl Iterator<Item = ObjectKey> {
    NAMESPACES.into_iter().flat_map(|namespace| CLASSES.map(|name| ObjectKey::new(namespace, name)))
}

/// Compares all that can be observed of the Clusters with the plain truth.
fn clusters_equal(index: &Index, world: &World<Wanted>) -> Result<(), TestCaseError> {
    let clusters = index.clusters.objects();
    for namespace in NAMESPACES {
        for number in 0..NAMES {
            let key = ObjectKey::new(namespace, format!("c{number}"));
            let wanted = world.get(&key).and_then(Option::as_ref);
            let state = wanted.and_then(|wanted| ClusterState::of(&cluster(&key, wanted), Running::default()));
            let entry = clusters.get(&key);
            prop_assert_eq!(entry.map(|entry| &entry.state), state.as_ref(), "{}", key);
            if let (Some(entry), Some(wanted)) = (entry, wanted) {
                prop_assert_eq!(&entry.uid, &Uid::from(wanted.uid), "{}", key);
            }
        }
    }
    let with_topology = world.values().flatten().filter(|wanted| wanted.topology.is_some()).count();
    prop_assert_eq!(clusters.len(), with_topology);
    prop_assert_eq!(clusters.is_empty(), with_topology == 0);
    let mut versions_in_use = 0;
    for class in class_keys() {
        let users = plain_users(world, &class);
        versions_in_use += users.versions.len();
        prop_assert_eq!(clusters.users(&class, &Overlay::default()), users, "{}", class);
    }
    prop_assert_eq!(clusters.versions_in_use(), versions_in_use);
    prop_assert_eq!(index.clusters.undecodable(), world.values().filter(|object| object.is_none()).count());
    Ok(())
}

fn classes_equal(index: &Index, world: &World<Vec<String>>) -> Result<(), TestCaseError> {
    let classes = index.classes.objects();
    prop_assert_eq!(classes.len(), world.values().flatten().count());
    for (key, versions) in world {
        let expected = versions.as_ref().map(|versions| ClassEntry::from(&class(key, versions)));
        prop_assert_eq!(classes.get(key), expected.as_ref(), "{}", key);
    }
    prop_assert_eq!(index.classes.undecodable(), world.values().filter(|object| object.is_none()).count());
    Ok(())
}

proptest! {
    #[test]
    fn clusters_equal_a_fresh_list_after_every_event(steps in steps(wanted())) {
        let mut index = Index::default();
        let mut world = World::new();
        let mut result = Ok(());
        play(&mut world, steps, cluster, |event, expected| {
            index.clusters.handle(event);
            if let (true, Some(expected)) = (result.is_ok(), expected) {
                result = clusters_equal(&index, expected);
            }
        });
        result?;
        let mut fresh = Index::default();
        fresh.clusters.handle(Event::Restarted);
        for (key, object) in &world {
            fresh.clusters.handle(match object {
                Some(wanted) => Event::Listed(cluster(key, wanted)),
                None => Event::Undecodable(key.clone()),
            });
        }
        prop_assert!(!fresh.clusters.synced());
        prop_assert!(fresh.clusters.objects().is_empty(), "a list counts when it is complete");
        fresh.clusters.handle(Event::Completed);
        prop_assert!(fresh.clusters.synced());
        clusters_equal(&fresh, &world)?;
    }

    #[test]
    fn classes_equal_a_fresh_list_after_every_event(
        steps in steps(prop::collection::vec("v1\\.3[0-9]\\.[0-9]", 0..3))
    ) {
        let mut index = Index::default();
        let mut world = World::new();
        let mut result = Ok(());
        play(&mut world, steps, |key, versions| class(key, versions), |event, expected| {
            index.classes.handle(event);
            if let (true, Some(expected)) = (result.is_ok(), expected) {
                result = classes_equal(&index, expected);
            }
        });
        result?;
    }

    #[test]
    fn an_overlay_reads_as_if_it_had_been_applied(
        start in prop::collection::vec((key(), wanted()), 0..30),
        newer in prop::collection::btree_map(key(), prop::option::weighted(0.8, wanted()), 0..12),
    ) {
        let mut index = Index::default();
        let mut world = World::new();
        for (key, wanted) in start {
            index.clusters.handle(Event::Applied(cluster(&key, &wanted)));
            world.insert(key, Some(wanted));
        }
        let state = |(key, wanted): (&ObjectKey, &Option<Wanted>)| {
            let state = wanted.as_ref().and_then(|wanted| ClusterState::of(&cluster(key, wanted), Running::default()));
            (key.clone(), state)
        };
        let overlay = Overlay(newer.iter().map(state).collect());
        for class in class_keys() {
            let clusters = index.clusters.objects();
            let mut expected = clusters.users(&class, &overlay);
            expected.versions.iter_mut().filter(|used| &*used.version != "v1.30.0").for_each(|used| used.sample.clear());
            prop_assert_eq!(clusters.users_naming(&class, &overlay, |version| version == "v1.30.0"), expected);
        }
        let overlaid: Vec<Users> =
            class_keys().map(|class| index.clusters.objects().users(&class, &overlay)).collect();
        for (key, wanted) in newer {
            if let Some(wanted) = wanted {
                index.clusters.handle(Event::Applied(cluster(&key, &wanted)));
                world.insert(key, Some(wanted));
            } else {
                index.clusters.handle(Event::Deleted(key.clone()));
                world.remove(&key);
            }
        }
        for (class, overlaid) in class_keys().zip(overlaid) {
            let applied = index.clusters.objects().users(&class, &Overlay::default());
            prop_assert_eq!(&overlaid, &applied, "{}", &class);
            prop_assert_eq!(overlaid, plain_users(&world, &class), "{}", &class);
        }
    }
}

#[test]
fn a_uid_keeps_what_tells_it_from_others() {
    let uuid = "6f1f9d5e-0a6b-4c1e-9d5e-0a6b4c1e9d5e";
    assert_eq!(Uid::from(uuid), Uid::from(uuid));
    assert!(matches!(Uid::from(uuid), Uid::Uuid(_)));
    // Texts that read as the same number but are not the same text must not be the same uid.
    let others = [
        "6F1F9D5E-0A6B-4C1E-9D5E-0A6B4C1E9D5E",
        "6f1f9d5e0a6b4c1e9d5e0a6b4c1e9d5e",
        "6f1f9d5e-0a6b-4c1e-9d5e-0a6b4c1e9d5",
        "6f1f9d5e-0a6b-4c1e-9d5e0-a6b4c1e9d5e",
        "",
    ];
    for other in others {
        assert!(matches!(Uid::from(other), Uid::Other(text) if *text == *other), "{other}");
    }
}

#[test]
fn a_source_is_synced_by_its_own_list_alone() {
    let mut index = Index::default();
    index.classes.handle(Event::Restarted);
    index.classes.handle(Event::Completed);
    assert!(index.classes.synced() && !index.clusters.synced());
    index.classes.handle(Event::Restarted);
    assert!(index.classes.synced(), "a relist replaces what is known only when it is complete");
}
