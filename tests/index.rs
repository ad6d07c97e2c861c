//! `fleet::index`: whatever the order of events, what is observed equals a plain reading of what is there.

use std::collections::{BTreeMap, BTreeSet};

use capi_version_guard::{
    fleet::{ClassEntry, ClusterState, Event, Index, Overlay, SAMPLE, Together, Users, VersionInUse},
    model::{
        Cluster, ClusterClass, ControlPlane, ControlPlaneKind, ControlPlaneState, ObjectKey, Provider, Running,
        WorkerKind, WorkerSet,
    },
};
use proptest::prelude::*;
use serde_json::json;

/// Few names, so that events meet each other.
const NAMESPACES: [&str; 2] = ["a", "b"];
const NAMES: usize = 8;
/// Fewer still, so that several refer to the same.
const REFERRED_TO: usize = 4;
const CLASSES: [&str; 2] = ["quick", "slow"];
/// Group, kind, and who provides it.
const CONTROL_PLANES: [(&str, &str, Provider); 2] = [
    ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", Provider::Kubeadm),
    ("controlplane.example.org", "KubeadmControlPlane", Provider::Other),
];

/// What a Cluster says. The uid is what changes when nothing else does.
#[derive(Clone, Debug)]
struct Wanted {
    topology: Option<(&'static str, &'static str, &'static str)>,
    uid: &'static str,
    deleting: bool,
    /// Which of [`CONTROL_PLANES`], and the number in the object's name.
    control_plane: Option<(usize, usize)>,
    step: Option<&'static str>,
}

/// What a control plane object says.
#[derive(Clone, Debug)]
struct Plane {
    version: &'static str,
    reported: Option<&'static str>,
}

/// What a worker set says: the number in its Cluster's name, whether a topology owns it, and its version.
#[derive(Clone, Debug)]
struct Set {
    cluster: Option<usize>,
    owned: bool,
    version: &'static str,
}

fn cluster(key: &ObjectKey, wanted: &Wanted) -> Cluster {
    let mut object = json!({
        "metadata": {"namespace": key.namespace, "name": key.name, "uid": wanted.uid},
        "spec": {},
    });
    if wanted.deleting {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    if let Some(step) = wanted.step {
        object["metadata"]["annotations"] = json!({"topology.internal.cluster.x-k8s.io/upgrade-step": step});
    }
    if let Some((namespace, class, version)) = &wanted.topology {
        object["spec"]["topology"] = json!({"classRef": {"namespace": namespace, "name": class}, "version": version});
    }
    if let Some((kind, number)) = wanted.control_plane {
        let (group, kind, _) = CONTROL_PLANES[kind];
        object["spec"]["controlPlaneRef"] = json!({"apiGroup": group, "kind": kind, "name": format!("c{number}")});
    }
    serde_json::from_value(object).unwrap()
}

fn class(key: &ObjectKey, versions: &[String]) -> ClusterClass {
    let metadata = json!({"namespace": key.namespace, "name": key.name});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"kubernetesVersions": versions}})).unwrap()
}

fn control_plane(key: &ObjectKey, plane: &Plane) -> ControlPlane {
    let metadata = json!({"namespace": key.namespace, "name": key.name});
    let status = json!({"version": plane.reported});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"version": plane.version}, "status": status})).unwrap()
}

fn worker_set(key: &ObjectKey, set: &Set) -> WorkerSet {
    let mut labels = serde_json::Map::new();
    if let Some(number) = set.cluster {
        labels.insert("cluster.x-k8s.io/cluster-name".to_owned(), json!(format!("c{number}")));
    }
    if set.owned {
        labels.insert("topology.cluster.x-k8s.io/owned".to_owned(), json!(""));
    }
    let metadata = json!({"namespace": key.namespace, "name": key.name, "labels": labels});
    let template = json!({"spec": {"version": set.version}});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"template": template}})).unwrap()
}

fn kind(number: usize) -> ControlPlaneKind {
    let (group, kind, _) = CONTROL_PLANES[number];
    ControlPlaneKind { group: group.into(), kind: kind.into() }
}

fn wanted() -> impl Strategy<Value = Wanted> + Clone {
    let namespace = prop::sample::select(vec!["", "a", "b"]);
    let version = prop::sample::select(vec!["v1.30.0", "1.30.0", "v1.31.0", "v1.31.0+a"]);
    let topology = prop::option::weighted(0.85, (namespace, prop::sample::select(CLASSES.to_vec()), version));
    let uid = prop::sample::select(vec!["", "00000000-0000-0000-0000-00000000000f"]);
    let control_plane = prop::option::weighted(0.8, (0..CONTROL_PLANES.len(), 0..REFERRED_TO));
    let step = prop::option::weighted(0.2, prop::sample::select(vec!["v1.29.0", "v1.30.0"]));
    (topology, uid, prop::bool::weighted(0.2), control_plane, step).prop_map(
        |(topology, uid, deleting, control_plane, step)| Wanted { topology, uid, deleting, control_plane, step },
    )
}

fn plane() -> impl Strategy<Value = Plane> + Clone {
    let version = prop::sample::select(vec!["v1.30.0", "v1.30.0", "v1.31.0", "", "v1.30.0"]);
    let reported = prop::option::weighted(0.7, prop::sample::select(vec!["v1.30.0", "v1.31.0"]));
    (version, reported).prop_map(|(version, reported)| Plane { version, reported })
}

fn set() -> impl Strategy<Value = Set> + Clone {
    let version = prop::sample::select(vec!["v1.30.0", "v1.30.0", "v1.31.0", ""]);
    (prop::option::weighted(0.9, 0..REFERRED_TO), prop::bool::weighted(0.9), version)
        .prop_map(|(cluster, owned, version)| Set { cluster, owned, version })
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

fn steps<T: Clone + std::fmt::Debug>(
    object: impl Strategy<Value = T> + Clone,
    most: usize,
) -> impl Strategy<Value = Vec<Step<T>>> {
    let missed = prop_oneof![
        9 => object.clone().prop_map(Missed::Apply),
        6 => Just(Missed::Delete),
        1 => Just(Missed::Spoil),
    ];
    let changes = prop::collection::vec((key(), missed), 0..6);
    let relist = (prop::collection::vec(0..20_usize, 0..3), changes.clone(), changes)
        .prop_map(|(broken_off, missed, during)| Relist { broken_off, missed, during });
    let step = prop_oneof![
        24 => (key(), object).prop_map(|(key, object)| Step::Apply(key, object)),
        8 => key().prop_map(Step::Delete),
        1 => key().prop_map(Step::Spoil),
        3 => relist.prop_map(Step::Relist),
    ];
    // Most sources begin as they do in life: with a list.
    let first = Relist { broken_off: Vec::new(), missed: Vec::new(), during: Vec::new() };
    (prop::bool::weighted(0.8), prop::collection::vec(step, 0..most)).prop_map(move |(listed, steps)| {
        let first = listed.then(|| Step::Relist(first.clone()));
        first.into_iter().chain(steps).collect()
    })
}

/// What is there: the plain truth that the index has to equal.
type World<T> = BTreeMap<ObjectKey, Option<T>>;

/// Folds `steps` into `world` and hands the events to `handle`, each with what is known after it.
fn play<T: Clone, O>(
    world: &mut World<T>,
    steps: Vec<Step<T>>,
    make: impl Fn(&ObjectKey, &T) -> O,
    mut handle: impl FnMut(Event<O>, &World<T>),
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
                    handle(Event::Restarted, &before);
                    for (key, object) in before.iter().take(objects) {
                        handle(listed(key, object), &before);
                    }
                }
                // After the lists that broke off: they name what the complete one does not, and it has to win.
                for (key, change) in missed {
                    event(world, key, change);
                }
                handle(Event::Restarted, &before);
                for (key, object) in world.iter() {
                    handle(listed(key, object), &before);
                }
                for (key, change) in during {
                    let event = event(world, key, change);
                    handle(event, &before);
                }
                handle(Event::Completed, world);
                continue;
            }
        };
        let event = event(world, key, change);
        handle(event, world);
    }
}

/// What is known of one source: what is there, and whether a list was complete.
#[derive(Debug)]
struct Known<T> {
    world: World<T>,
    synced: bool,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { world: World::new(), synced: false }
    }
}

impl<T: Clone> Known<T> {
    fn now<O>(&mut self, event: &Event<O>, world: World<T>) {
        self.world = world;
        self.synced |= matches!(event, Event::Completed);
    }
}

/// Everything that the index was told, as plain as can be.
#[derive(Debug, Default)]
struct Model {
    clusters: Known<Wanted>,
    /// `None` if the kind is not followed.
    control_planes: [Option<Known<Plane>>; 2],
    workers: [Known<Set>; 2],
}

impl Model {
    fn running(&self, key: &ObjectKey, wanted: &Wanted) -> Running {
        let control_plane = wanted.control_plane.map_or(ControlPlaneState::NotCreated, |(kind, number)| {
            let provider = CONTROL_PLANES[kind].2;
            let at = |version: &str, settled| ControlPlaneState::At { version: version.into(), settled, provider };
            let unknown = || wanted.step.map_or(ControlPlaneState::Unknown, |step| at(step, false));
            let Some(known) = self.control_planes[kind].as_ref().filter(|known| known.synced) else { return unknown() };
            match known.world.get(&ObjectKey::new(&*key.namespace, format!("c{number}"))) {
                None => ControlPlaneState::Missing,
                Some(None | Some(Plane { version: "", .. })) => unknown(),
                // All versions here are of one shape, so their texts are ordered as they are.
                Some(Some(Plane { version, reported })) => at(version, reported.is_some_and(|it| it >= *version)),
            }
        });
        let mut versions = BTreeSet::new();
        for Known { world, synced } in &self.workers {
            let in_namespace = || world.iter().filter(|(set, _)| set.namespace == key.namespace);
            if !synced || in_namespace().any(|(_, set)| set.is_none()) {
                return Running { control_plane, workers: None };
            }
            for set in in_namespace().filter_map(|(_, set)| set.as_ref()).filter(|set| set.owned) {
                if set.cluster.is_some_and(|number| *key.name == *format!("c{number}")) && !set.version.is_empty() {
                    versions.insert(set.version);
                }
            }
        }
        Running { control_plane, workers: Some(versions.into_iter().map(Into::into).collect()) }
    }

    fn state(&self, key: &ObjectKey, wanted: &Wanted) -> Option<ClusterState> {
        let (namespace, name, version) = wanted.topology?;
        let namespace = if namespace.is_empty() { &*key.namespace } else { namespace };
        Some(ClusterState {
            class: ObjectKey::new(namespace, name).into(),
            version: format!("v{}", version.trim_start_matches('v')).into(),
            deleting: wanted.deleting,
            running: self.running(key, wanted),
        })
    }

    fn states(&self) -> BTreeMap<ObjectKey, ClusterState> {
        let states = self.clusters.world.iter();
        states.filter_map(|(key, wanted)| Some((key.clone(), self.state(key, wanted.as_ref()?)?))).collect()
    }
}

/// Who uses `class`, by looking at every Cluster.
fn plain_users(states: &BTreeMap<ObjectKey, ClusterState>, class: &ObjectKey) -> Users {
    let mut rows: BTreeMap<(&str, bool, &Running), Vec<ObjectKey>> = BTreeMap::new();
    for (key, state) in states.iter().filter(|(_, state)| *state.class == *class) {
        rows.entry((&state.version, state.deleting, &state.running)).or_default().push(key.clone());
    }
    let versions = rows.into_iter().map(|((version, deleting, running), keys)| VersionInUse {
        version: version.into(),
        deleting,
        running: running.clone(),
        clusters: keys.len(),
        sample: keys.into_iter().take(SAMPLE).collect(),
    });
    Users { versions: versions.collect() }
}

fn class_keys() -> impl Iterator<Item = ObjectKey> {
    NAMESPACES.into_iter().flat_map(|namespace| CLASSES.map(|name| ObjectKey::new(namespace, name)))
}

/// Compares all that can be observed of the Clusters with the plain truth.
fn equal(index: &Index, model: &Model) -> Result<(), TestCaseError> {
    let clusters = index.clusters.objects();
    let states = model.states();
    for namespace in NAMESPACES {
        for number in 0..NAMES {
            let key = ObjectKey::new(namespace, format!("c{number}"));
            prop_assert_eq!(clusters.get(&key), states.get(&key), "{}", key);
        }
    }
    prop_assert_eq!(clusters.len(), states.len());
    prop_assert_eq!(clusters.is_empty(), states.is_empty());
    for class in class_keys() {
        prop_assert_eq!(index.users(&class, &Overlay::default()), plain_users(&states, &class), "{}", class);
    }
    let versions: BTreeSet<_> = states.values().map(|state| (&state.class, &state.version)).collect();
    prop_assert_eq!(index.versions_in_use(), versions.len());
    let spoiled = model.clusters.world.values().filter(|object| object.is_none()).count();
    prop_assert_eq!(index.clusters.undecodable(), spoiled);
    prop_assert_eq!(index.clusters.synced(), model.clusters.synced);
    let mut kinds = BTreeMap::new();
    for wanted in model.clusters.world.values().flatten().filter(|wanted| wanted.topology.is_some()) {
        if let Some((number, _)) = wanted.control_plane {
            *kinds.entry(kind(number)).or_default() += 1_usize;
        }
    }
    prop_assert_eq!(index.control_plane_kinds(), kinds);
    for (number, known) in model.control_planes.iter().enumerate() {
        let source = index.control_planes(&kind(number));
        prop_assert_eq!(source.is_some(), known.is_some());
        if let (Some(source), Some(Known { world, synced })) = (source, known) {
            prop_assert_eq!(source.objects().len(), world.values().flatten().count());
            prop_assert_eq!(source.synced(), *synced);
            prop_assert_eq!(source.undecodable(), world.len() - source.objects().len());
        }
    }
    for (kind, Known { world, synced }) in WorkerKind::ALL.into_iter().zip(&model.workers) {
        let source = index.workers(kind);
        let counted = world.values().flatten().filter(|set| set.owned && set.cluster.is_some()).count();
        prop_assert_eq!(source.objects().len(), counted);
        prop_assert_eq!(source.synced(), *synced);
        prop_assert_eq!(source.undecodable(), world.values().filter(|set| set.is_none()).count());
    }
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

/// One event of one source, to be folded into the index and the model.
type Told = Box<dyn FnOnce(&mut Index, &mut Model)>;

/// The events of one source.
fn script<T: Clone + 'static, O: 'static>(
    steps: Vec<Step<T>>,
    make: impl Fn(&ObjectKey, &T) -> O,
    told: impl Fn(&mut Index, &mut Model, Event<O>, World<T>) + Clone + 'static,
) -> std::vec::IntoIter<Told> {
    let mut events: Vec<Told> = Vec::new();
    play(&mut World::new(), steps, make, |event, world| {
        let (told, world) = (told.clone(), world.clone());
        events.push(Box::new(move |index, model| told(index, model, event, world)));
    });
    events.into_iter()
}

fn clusters_told(index: &mut Index, model: &mut Model, event: Event<Cluster>, world: World<Wanted>) {
    model.clusters.now(&event, world);
    index.handle_cluster(event);
}

fn control_planes_told(number: usize) -> impl Fn(&mut Index, &mut Model, Event<ControlPlane>, World<Plane>) + Clone {
    move |index, model, event, world| {
        model.control_planes[number].get_or_insert_default().now(&event, world);
        index.handle_control_planes(&kind(number), event);
    }
}

fn workers_told(number: usize) -> impl Fn(&mut Index, &mut Model, Event<WorkerSet>, World<Set>) + Clone {
    move |index, model, event, world| {
        model.workers[number].now(&event, world);
        index.handle_workers(WorkerKind::ALL[number], event);
    }
}

/// A fresh list of everything in `world`.
fn listed<T: Clone + 'static, O: 'static>(
    world: &World<T>,
    make: impl Fn(&ObjectKey, &T) -> O,
    told: impl Fn(&mut Index, &mut Model, Event<O>, World<T>) + Clone + 'static,
) -> Vec<Told> {
    let events = std::iter::once(Event::Restarted)
        .chain(world.iter().map(|(key, object)| match object {
            Some(object) => Event::Listed(make(key, object)),
            None => Event::Undecodable(key.clone()),
        }))
        .map(|event| (event, World::new()))
        .chain([(Event::Completed, world.clone())]);
    events
        .map(|(event, world)| {
            let told = told.clone();
            Box::new(move |index: &mut Index, model: &mut Model| told(index, model, event, world)) as Told
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn every_order_of_the_events_of_all_sources_is_as_good_as_a_fresh_list(
        clusters in steps(wanted(), 30),
        control_planes in [steps(plane(), 20), steps(plane(), 8)],
        workers in [steps(set(), 20), steps(set(), 8)],
        turns in prop::collection::vec(0..5_usize, 0..600),
        order in Just((0..5_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let (mut index, mut model) = (Index::default(), Model::default());
        let [kubeadm, other] = control_planes;
        let [deployments, pools] = workers;
        let mut scripts = [
            script(clusters, cluster, clusters_told),
            script(kubeadm, control_plane, control_planes_told(0)),
            script(other, control_plane, control_planes_told(1)),
            script(deployments, worker_set, workers_told(0)),
            script(pools, worker_set, workers_told(1)),
        ];
        // At last each source tells all that it has left.
        let turns = turns.into_iter().map(|turn| (turn, 1)).chain((0..scripts.len()).map(|turn| (turn, usize::MAX)));
        for (turn, events) in turns {
            for told in scripts[turn].by_ref().take(events) {
                told(&mut index, &mut model);
                equal(&index, &model)?;
            }
        }
        // What is there, listed in any order of the sources, makes the same of a new index and of the old one.
        let (mut fresh, mut fresh_model) = (Index::default(), Model::default());
        for source in order {
            let events = || match source {
                0 => listed(&model.clusters.world, cluster, clusters_told),
                1 | 2 => {
                    let world = model.control_planes[source - 1].as_ref().map(|known| known.world.clone());
                    listed(&world.unwrap_or_default(), control_plane, control_planes_told(source - 1))
                }
                _ => listed(&model.workers[source - 3].world, worker_set, workers_told(source - 3)),
            };
            for told in events() {
                told(&mut fresh, &mut fresh_model);
                equal(&fresh, &fresh_model)?;
            }
            for told in events() {
                told(&mut index, &mut Model::default());
            }
        }
        equal(&index, &fresh_model)?;
        for (key, wanted) in &model.clusters.world {
            if let Some(wanted) = wanted {
                let asked = cluster(key, wanted);
                prop_assert_eq!(fresh.running(&asked), fresh_model.running(key, wanted), "{}", key);
            }
        }
        fresh.forget_control_planes(&kind(0));
        fresh_model.control_planes[0] = None;
        equal(&fresh, &fresh_model)?;
        fresh.forget_workers(WorkerKind::MachineDeployment);
        fresh_model.workers[0] = Known::default();
        equal(&fresh, &fresh_model)?;
        fresh.workers_not_served(WorkerKind::MachineDeployment);
        fresh_model.workers[0].synced = true;
        equal(&fresh, &fresh_model)?;
    }
}

proptest! {
    #[test]
    fn classes_equal_a_fresh_list_after_every_event(
        steps in steps(prop::collection::vec("v1\\.3[0-9]\\.[0-9]", 0..3), 60)
    ) {
        let mut index = Index::default();
        let mut world = World::new();
        let mut result = Ok(());
        play(&mut world, steps, |key, versions| class(key, versions), |event, expected| {
            index.handle_class(event);
            if result.is_ok() {
                result = classes_equal(&index, expected);
            }
        });
        result?;
    }

    #[test]
    fn an_overlay_reads_as_if_it_had_been_applied(
        start in prop::collection::vec((key(), wanted()), 0..30),
        planes in prop::collection::btree_map(key(), plane().prop_map(Some), 0..16),
        newer in prop::collection::btree_map(key(), prop::option::weighted(0.8, wanted()), 0..12),
    ) {
        let (mut index, mut model) = (Index::default(), Model::default());
        for told in listed(&planes, control_plane, control_planes_told(0)) {
            told(&mut index, &mut model);
        }
        for kind in WorkerKind::ALL {
            index.workers_not_served(kind);
        }
        for (key, wanted) in start {
            index.handle_cluster(Event::Applied(cluster(&key, &wanted)));
        }
        let state = |(key, wanted): (&ObjectKey, &Option<Wanted>)| {
            let cluster = wanted.as_ref().map(|wanted| cluster(key, wanted));
            (key.clone(), cluster.and_then(|cluster| ClusterState::of(&cluster, index.running(&cluster))))
        };
        let overlay = Overlay(newer.iter().map(state).collect());
        for class in class_keys() {
            let mut expected = index.users(&class, &overlay);
            expected.versions.iter_mut().filter(|used| &*used.version != "v1.30.0").for_each(|used| used.sample.clear());
            prop_assert_eq!(index.users_naming(&class, &overlay, |state| &*state.version == "v1.30.0"), expected);
        }
        let overlaid: Vec<Users> = class_keys().map(|class| index.users(&class, &overlay)).collect();
        for (key, wanted) in newer {
            index.handle_cluster(match wanted {
                Some(wanted) => Event::Applied(cluster(&key, &wanted)),
                None => Event::Deleted(key),
            });
        }
        for (class, overlaid) in class_keys().zip(overlaid) {
            prop_assert_eq!(&overlaid, &index.users(&class, &Overlay::default()), "{}", &class);
        }
    }
}

#[test]
fn a_source_is_synced_by_its_own_list_alone() {
    let mut index = Index::default();
    index.handle_class(Event::Restarted);
    index.handle_class(Event::Completed);
    assert!(index.classes.synced() && !index.clusters.synced());
    index.handle_class(Event::Restarted);
    assert!(index.classes.synced(), "a relist replaces what is known only when it is complete");
}

#[test]
fn rows_taken_together_name_the_first_of_all() {
    let row = |clusters, sample: &[&str]| VersionInUse {
        version: "v1.30.0".into(),
        deleting: false,
        running: Running::default(),
        clusters,
        sample: sample.iter().map(|name| ObjectKey::new("a", *name)).collect(),
    };
    let rows = [row(7, &["c2", "c4", "c6", "c7", "c8"]), row(2, &["c1", "c9"]), row(3, &[])];
    let Together { clusters, sample } = rows.iter().collect();
    let names: Vec<_> = sample.iter().map(|key| &*key.name).collect();
    assert_eq!((clusters, names), (12, vec!["c1", "c2", "c4", "c6", "c7"]));
}
