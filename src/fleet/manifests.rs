//! The fleet from manifests: every Cluster and `ClusterClass` in the YAML and JSON files of a directory, and what the files
//! hold of what controllers made of them: control plane objects and worker sets.
//!
//! A repository rarely holds the latter, a dump of a management cluster does. So what runs is taken from the files where
//! they tell it, and is not known where they do not: a Cluster whose control plane object is not there has one
//! nevertheless ([`Index::running`]).
//!
//! A repository of manifests holds much else, so other kinds and documents that are no Kubernetes objects are passed
//! over. But a Cluster that is silently missing from the index is a denial that is silently missing too, so whatever
//! cannot be read is an error with its place, and the errors of all files are told at once.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt::{self, Write},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use super::document::{Manifest, Object, Position, Problem, documents};
use super::{Event, Index};
use crate::{
    model::{ControlPlaneKind, ObjectKey, WorkerKind},
    text::object_name,
};

/// Why the fleet could not be loaded from manifests: everything that is wrong with them.
#[derive(Debug, thiserror::Error)]
#[error("failed to load the fleet from {}:{problems}", path.display())]
pub struct LoadManifestsError {
    /// The directory or file.
    pub path: PathBuf,
    /// What is wrong, one line each: `<file>:<line>:<column>: <text>`.
    pub problems: Problems,
}

/// The problems of all files.
#[derive(Debug, Default)]
pub struct Problems(String);

impl Problems {
    fn add(&mut self, problem: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "\n  {problem}");
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Loads the fleet from a file, or from all files below a directory whose names end in `.yaml`, `.yml` or `.json`.
///
/// Symbolic links are followed, but what they lead to is read once. Names that begin with a dot are passed over: `.git`,
/// and the `..data` of a mounted `ConfigMap`, which holds each file a second time.
///
/// # Errors
/// If a file cannot be read, a document is not YAML, an object of a kind that is read has an API version or a field that is
/// not understood, or two manifests describe the same object.
pub fn load(path: &Path) -> Result<Index, LoadManifestsError> {
    let mut problems = Problems::default();
    let mut files = Vec::new();
    Walk { files: &mut files, seen: HashSet::new(), problems: &mut problems }.begin(path);

    let mut index = Index::of_manifests();
    let mut places: HashMap<(Cow<'static, str>, ObjectKey), (Arc<Path>, Position)> = HashMap::new();
    index.handle_cluster(Event::Restarted);
    index.handle_class(Event::Restarted);
    for kind in WorkerKind::ALL {
        index.handle_workers(kind, Event::Restarted);
    }
    for file in files {
        let text = match read(&file) {
            Ok(text) => text,
            Err(why) => {
                problems.add(format_args!("{}{why}", file.display()));
                continue;
            }
        };
        for found in documents(&text) {
            let Manifest { position, object } = match found {
                Ok(manifest) => manifest,
                Err(problem) => {
                    problems.add(format_args!("{}:{problem}", file.display()));
                    continue;
                }
            };
            match places.entry((object.kind(), object.key())) {
                Entry::Vacant(place) => place.insert((Arc::clone(&file), position)),
                Entry::Occupied(first) => {
                    let ((kind, key), (other, there)) = (first.key(), first.get());
                    let (name, file, other) = (object_name(key), file.display(), other.display());
                    problems.add(format_args!("{file}:{position}: {kind} {name} is already at {other}:{there}"));
                    continue;
                }
            };
            match object {
                Object::Cluster(cluster) => index.handle_cluster(Event::Listed(cluster)),
                Object::ClusterClass(class) => index.handle_class(Event::Listed(class)),
                Object::WorkerSet(kind, set) => index.handle_workers(kind, Event::Listed(set)),
                Object::ControlPlane(kind, object) => {
                    if index.control_planes(&kind).is_none() {
                        index.handle_control_planes(&kind, Event::Restarted);
                    }
                    index.handle_control_planes(&kind, Event::Listed(object));
                }
            }
        }
    }
    index.handle_class(Event::Completed);
    for kind in WorkerKind::ALL {
        index.handle_workers(kind, Event::Completed);
    }
    let kinds: Vec<ControlPlaneKind> = index.followed_control_planes().map(|(kind, _)| kind.clone()).collect();
    for kind in &kinds {
        index.handle_control_planes(kind, Event::Completed);
    }
    index.handle_cluster(Event::Completed);
    if problems.0.is_empty() { Ok(index) } else { Err(LoadManifestsError { path: path.into(), problems }) }
}

/// The text of a file; the error is what stands behind the file's name.
fn read(file: &Path) -> Result<String, String> {
    let bytes = fs::read(file).map_err(|error| format!(": failed to read: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = 1 + good.split(|byte| *byte == b'\n').count() - 1;
        let start = good.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = 1 + String::from_utf8_lossy(good.get(start..).unwrap_or_default()).chars().count();
        format!(":{line}:{column}: is not UTF-8")
    })
}

/// Collects the files to read, in the order of their paths.
struct Walk<'a> {
    files: &'a mut Vec<Arc<Path>>,
    /// The real paths of what was met, so that a loop of links ends.
    seen: HashSet<PathBuf>,
    problems: &'a mut Problems,
}

impl Walk<'_> {
    fn begin(&mut self, path: &Path) {
        let found = fs::metadata(path).and_then(|metadata| Ok((metadata.is_dir(), fs::canonicalize(path)?)));
        match found {
            Ok((true, real)) => self.directory(path, &real),
            Ok((false, _)) => self.files.push(path.into()),
            Err(error) => self.failed(path, &error),
        }
    }

    fn directory(&mut self, path: &Path, real: &Path) {
        if !self.seen.insert(real.to_owned()) {
            return;
        }
        let entries = fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.failed(path, &error),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = path.join(&name);
            let is_manifest = path
                .extension()
                .is_some_and(|it| ["yaml", "yml", "json"].iter().any(|known| it.eq_ignore_ascii_case(known)));
            // Only links cost a look at where they lead: a plain entry's real path is its directory's and its name.
            let found = entry.file_type().and_then(|kind| {
                if kind.is_symlink() {
                    Ok((fs::metadata(&path)?.file_type(), fs::canonicalize(&path)?))
                } else {
                    Ok((kind, real.join(&name)))
                }
            });
            match found {
                Ok((kind, real)) if kind.is_dir() => self.directory(&path, &real),
                // Nothing but files: to open a named pipe waits for a writer.
                Ok((kind, real)) if kind.is_file() && is_manifest => {
                    if self.seen.insert(real) {
                        self.files.push(path.into());
                    }
                }
                // A dangling link with another name is none of our business.
                Err(error) if is_manifest => self.failed(&path, &error),
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn failed(&mut self, path: &Path, error: &io::Error) {
        self.problems.add(format_args!("{}: failed to read: {error}", path.display()));
    }
}
