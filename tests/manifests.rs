//! `fleet::manifests`: what is read from files, and every mistake with its place.
//!
//! The tables are files: for each `tests/cases/manifests/<name>.yaml` or `.json` there is a `<name>.expected` with one
//! line for each object and mistake.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use capi_version_guard::{
    fleet::{
        Overlay,
        manifests::{self, Manifest, Object, Problem},
    },
    model::{
        ControlPlaneKind, ControlPlaneState, ObjectKey, Provider, Running, WorkerKind, annotation, distinct_workers,
    },
};

fn line(found: Result<Manifest, Problem>) -> String {
    let Manifest { position, object } = match found {
        Ok(manifest) => manifest,
        Err(problem) => return format!("{problem}\n"),
    };
    let mut line = format!("{position} {} {}", object.kind(), object.key());
    match object {
        Object::Cluster(cluster) => {
            if let (Some(class), Some(version)) = (cluster.class_key(), cluster.version()) {
                write!(line, " uses {class} at {version}").unwrap();
            }
            line.push_str(if cluster.metadata.deleting { ", deleting" } else { "" });
            line.push_str(if cluster.paused() { ", paused" } else { "" });
            if let Some(reference) = cluster.control_plane_ref() {
                let kind = ControlPlaneKind::from(reference);
                write!(line, ", refers to {kind} {}", reference.name).unwrap();
            }
            if let Some(step) = cluster.metadata.annotations.value(annotation::UPGRADE_STEP) {
                write!(line, ", steps at {step}").unwrap();
            }
        }
        Object::ControlPlane(kind, object) => {
            let settled = if object.settled() { "settled" } else { "not settled" };
            write!(line, " of {} is at {:?}, {settled}", kind.group, object.version()).unwrap();
        }
        Object::WorkerSet(_, set) => {
            write!(line, " of {} is at {:?}", set.cluster_name().unwrap_or("nobody"), set.version()).unwrap();
        }
        Object::ClusterClass(class) => {
            line.push_str(" lists");
            for version in class.versions() {
                write!(line, " {version}").unwrap();
            }
            if let Some(extension) = class.extension() {
                write!(line, ", asks {extension}").unwrap();
            }
        }
    }
    line + "\n"
}

fn read(text: &str) -> String {
    manifests::documents(text).into_iter().map(line).collect()
}

#[test]
fn every_file_of_the_table_is_read_as_expected() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/manifests");
    let mut cases = 0;
    let mut wrong = String::new();
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "expected") {
            continue;
        }
        cases += 1;
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap();
        let found = read(&fs::read_to_string(&path).unwrap());
        if found != expected {
            write!(wrong, "{}\n--- expected\n{expected}--- found\n{found}", path.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(cases >= 11, "{cases} cases are left");
}

#[test]
fn line_ends_and_byte_order_marks_of_other_systems_do_not_matter() {
    let text = "---\nkind: Cluster\napiVersion: cluster.x-k8s.io/v1beta2\nmetadata: {name: c}\n---\nkind: [\n";
    let expected = "2:1 Cluster default/c\n6:7: unclosed bracket '['\n";
    assert_eq!(read(text), expected);
    assert_eq!(read(&text.replace('\n', "\r\n")), expected);
    assert_eq!(read(&format!("\u{feff}{text}")), expected);
}

#[test]
fn nothing_is_found_in_nothing() {
    for text in ["", "\n", "\u{feff}", "---", "---\n", "...", "# nothing", "# nothing\n---\n...\n", "~", "  \n\n"] {
        assert_eq!(read(text), "", "{text:?}");
    }
}

#[test]
fn a_few_lines_cannot_take_all_memory_or_the_stack() {
    let cases = [
        ("block.yaml", (0..100_000).map(|_| "- ").collect::<String>()),
        ("flow.yaml", "[".repeat(100_000)),
        ("json.json", format!("{}1{}", "{\"items\":".repeat(100_000), "}".repeat(100_000))),
        ("laughs.yaml", {
            let step = |n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(", "));
            format!("a0: &a0 [lol, lol]\n{}", (1..12).map(step).collect::<String>())
        }),
    ];
    for (name, text) in cases {
        let start = Instant::now();
        let found = manifests::documents(&text);
        assert!(matches!(found.as_slice(), [Err(_)]), "{name}: {found:?}");
        assert!(start.elapsed() < Duration::from_secs(30), "{name}: {:?}", start.elapsed());
    }
}

/// A directory of its own with the given files.
struct Directory(tempfile::TempDir);

impl Directory {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = directory.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn link(&self, name: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
    }

    /// The keys of the Clusters of class default/quick, or the whole error with `DIR` for the directory.
    fn load(&self) -> Result<Vec<String>, String> {
        self.load_from(self.0.path())
    }

    fn load_from(&self, path: &Path) -> Result<Vec<String>, String> {
        let index = manifests::load(path).map_err(|error| {
            assert!(std::error::Error::source(&error).is_none(), "every cause is in the text already");
            error.to_string().replace(self.0.path().to_str().unwrap(), "DIR")
        })?;
        assert!(index.clusters.synced() && index.classes.synced());
        let users = index.users(&ObjectKey::new("default", "quick"), &Overlay::default());
        Ok(users.versions.iter().flat_map(|used| &used.sample).map(ToString::to_string).collect())
    }
}

fn cluster(name: &str) -> String {
    format!(
        "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {{name: {name}}}\n\
         spec: {{topology: {{classRef: {{name: quick}}, version: v1.31.2}}}}\n"
    )
}

#[test]
fn all_manifests_below_a_directory_are_loaded() {
    let directory = Directory::new(&[
        ("b.yml", &cluster("c2")),
        ("a/deep/er/c.YAML", &cluster("c1")),
        ("c.json", r#"{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"ClusterClass","metadata":{"name":"quick"}}"#),
        ("README.md", "kind: ["),
        ("notes.yaml.txt", "kind: ["),
        (".git/config.yaml", "kind: ["),
        ("..2026_01_01/x.yaml", &cluster("c2")),
    ]);
    assert_eq!(directory.load().unwrap(), ["default/c1", "default/c2"]);
    let index = manifests::load(directory.0.path()).unwrap();
    assert!(index.classes.objects().get(&ObjectKey::new("default", "quick")).is_some());
}

/// What runs of a Cluster is known where the files tell it, and never missing where they do not.
#[test]
fn what_runs_is_known_where_the_files_tell_it() {
    let created = |name: &str| {
        let reference = "{apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane";
        cluster(name).replace("spec: {", &format!("spec: {{controlPlaneRef: {reference}, name: {name}-x}}, ")) + "---\n"
    };
    let set = |kind: &str, name: &str, cluster: &str| {
        format!(
            "apiVersion: cluster.x-k8s.io/v1beta2\nkind: {kind}\nmetadata: {{name: {name}, labels: \
             {{cluster.x-k8s.io/cluster-name: {cluster}, topology.cluster.x-k8s.io/owned: ''}}}}\n\
             spec: {{template: {{spec: {{version: v1.30.4}}}}}}\n---\n"
        )
    };
    let control_plane = |name: &str| {
        format!(
            "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\nmetadata: {{name: {name}}}\n\
             spec: {{version: v1.31.2}}\nstatus: {{version: v1.31.2}}\n---\n"
        )
    };
    let directory = Directory::new(&[
        // The order of the files does not matter.
        ("a.yaml", &[set("MachineDeployment", "m1", "both"), control_plane("both-x")].concat()),
        ("b.yaml", &["both", "sets", "plane", "neither"].map(created).concat()),
        ("c.yaml", &[set("MachinePool", "m1", "sets"), control_plane("plane-x"), cluster("new")].concat()),
    ]);
    let index = manifests::load(directory.0.path()).unwrap();
    let at = ControlPlaneState::At { version: "v1.31.2".into(), settled: true, provider: Provider::Kubeadm };
    let cases = [
        ("both", at.clone(), Some(vec!["v1.30.4"])),
        ("sets", ControlPlaneState::Unknown, Some(vec!["v1.30.4"])),
        ("plane", at, Some(vec![])),
        ("neither", ControlPlaneState::Unknown, None),
        ("new", ControlPlaneState::NotCreated, None),
    ];
    for (name, control_plane, workers) in cases {
        let state = index.clusters.objects().get(&ObjectKey::new("default", name)).unwrap();
        let running = Running { control_plane, workers: workers.map(distinct_workers) };
        assert_eq!(state.running, running, "{name}");
    }
    assert!(WorkerKind::ALL.into_iter().all(|kind| index.workers(kind).synced()));
    assert!(index.followed_control_planes().all(|(_, source)| source.synced() && source.objects().len() == 2));
}

#[test]
fn a_single_file_is_loaded_whatever_its_name() {
    let directory = Directory::new(&[("fleet.txt", &cluster("c1")), ("other.yaml", "kind: [")]);
    assert_eq!(directory.load_from(&directory.path("fleet.txt")).unwrap(), ["default/c1"]);
}

#[test]
fn links_are_followed_and_loops_end() {
    let directory = Directory::new(&[("real/a.yaml", &cluster("c1")), ("store/secret-name", &cluster("c2"))]);
    directory.link("real/loop", "..");
    directory.link("real/self", ".");
    directory.link("again", "real");
    directory.link("again.yaml", "real/a.yaml");
    directory.link("named.yaml", "store/secret-name");
    directory.link("dangling", "nowhere");
    assert_eq!(directory.load().unwrap(), ["default/c1", "default/c2"]);
    let top = Directory::new(&[]);
    std::os::unix::fs::symlink(directory.0.path(), top.path("link")).unwrap();
    assert_eq!(top.load_from(&top.path("link")).unwrap(), ["default/c1", "default/c2"]);
}

#[test]
fn what_is_no_file_is_not_opened() {
    let directory = Directory::new(&[("a.yaml", &cluster("c1"))]);
    let _socket = std::os::unix::net::UnixListener::bind(directory.path("socket.yaml")).unwrap();
    assert_eq!(directory.load().unwrap(), ["default/c1"]);
}

#[test]
fn the_errors_of_all_files_are_told_at_once() {
    let directory = Directory::new(&[
        ("a.yaml", "kind: [\n---\nkind: {\n"),
        ("b/good.yaml", &cluster("c1")),
        ("c.yaml", &format!("{}---\n{}", cluster("c1"), cluster("c2"))),
        ("d.yaml", &cluster("c2")),
        ("e.yaml", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: c1}\n"),
    ]);
    fs::write(directory.path("latin.yaml"), b"# fine\nname: \xc3\xa9\xe9\n").unwrap();
    directory.link("link.yaml", "nowhere");
    let expected = "failed to load the fleet from DIR:\n  \
        DIR/link.yaml: failed to read: No such file or directory (os error 2)\n  \
        DIR/a.yaml:1:7: unclosed bracket '['\n  \
        DIR/a.yaml:3:7: unclosed bracket '{'\n  \
        DIR/c.yaml:1:1: Cluster default/c1 is already at DIR/b/good.yaml:1:1\n  \
        DIR/d.yaml:1:1: Cluster default/c2 is already at DIR/c.yaml:6:1\n  \
        DIR/latin.yaml:2:8: is not UTF-8";
    assert_eq!(directory.load().unwrap_err(), expected);
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let directory = Directory::new(&[]);
    let expected = "failed to load the fleet from DIR/typo:\n  \
        DIR/typo: failed to read: No such file or directory (os error 2)";
    assert_eq!(directory.load_from(&directory.path("typo")).unwrap_err(), expected);
    assert!(directory.load().unwrap().is_empty(), "an empty fleet is a fleet");
}
