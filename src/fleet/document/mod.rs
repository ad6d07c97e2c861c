//! From the text of a manifest file to the objects in it that are read, each with its place. Pure.
//!
//! These are Clusters, classes, the worker sets that a topology owns, and the control plane objects of Cluster API's own
//! group, whatever their kind: a provider's templates share that group and are passed over by the end of their names.
//!
//! One pass, no value tree: whether an object is a Cluster is known only when its last key is read, so the few fields
//! that matter are read as whatever they are, with their places, and judged afterwards. The text is cut into documents
//! first: a document that cannot be read does not hide what is wrong with the next one. `wire` is how manifests are written,
//! `reader` turns it into objects.

mod reader;
mod wire;

use std::{borrow::Cow, fmt};

use serde_saphyr::{
    DuplicateKeyPolicy, Error, Location, MessageFormatter, NonFiniteFloatPolicy, Options, SnippetMode, Spanned,
    UserMessageFormatter, localizer::Localizer,
};

use self::{
    reader::Reader,
    wire::{Value, Wire},
};
use crate::model::{Cluster, ClusterClass, ControlPlane, ControlPlaneKind, ObjectKey, WorkerKind, WorkerSet};

/// An object, and where its text begins.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The place of its first key.
    pub position: Position,
    /// The object.
    pub object: Object,
}

/// An object of one of the kinds that this program reads.
#[derive(Clone, Debug)]
pub enum Object {
    /// A Cluster.
    Cluster(Cluster),
    /// A class.
    ClusterClass(ClusterClass),
    /// A control plane object.
    ControlPlane(ControlPlaneKind, ControlPlane),
    /// A worker set that a topology owns.
    WorkerSet(WorkerKind, WorkerSet),
}

impl Object {
    /// The name of its kind.
    #[must_use]
    pub fn kind(&self) -> Cow<'static, str> {
        match self {
            Self::Cluster(_) => "Cluster".into(),
            Self::ClusterClass(_) => "ClusterClass".into(),
            Self::ControlPlane(kind, _) => kind.kind.to_string().into(),
            Self::WorkerSet(kind, _) => kind.as_str().into(),
        }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Cluster(cluster) => cluster.key(),
            Self::ClusterClass(class) => class.key(),
            Self::ControlPlane(_, object) => object.metadata.key(),
            Self::WorkerSet(_, set) => set.metadata.key(),
        }
    }
}

/// A place in a file; both count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub position: Position,
    /// What, in one line.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.text)
    }
}

/// Reads the text of a YAML or JSON file: its objects, and what is wrong, in the order of the text.
///
/// Lists are opened, other kinds are passed over. An object with something wrong is not among the objects.
#[must_use]
pub fn documents(text: &str) -> Vec<Result<Manifest, Problem>> {
    let mut found = Vec::new();
    for (lines_before, text) in split(text) {
        let mut reader = Reader { text, lines_before, found: &mut found };
        match serde_saphyr::from_str_with_options::<Spanned<Value<Wire>>>(text, options()) {
            Ok(document) => {
                if let Value::Map(wire) = document.value {
                    reader.document(wire, document.referenced);
                }
            }
            Err(error) => reader.problem(error.location().unwrap_or(Location::UNKNOWN), describe(&error)),
        }
    }
    found
}

/// Cuts a stream into documents, each with the number of lines before it.
///
/// YAML forbids `---` and `...` at the start of a line inside of any scalar, so this needs no parser. Comments and
/// directives before a `---` stay with the document that it begins.
fn split(text: &str) -> impl Iterator<Item = (u64, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let marks = |line: &str, marker| {
        line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    let mut rest = text;
    let mut lines_before = 0;
    std::iter::from_fn(move || {
        let (mut end, mut lines, mut filled) = (0, 0, false);
        for line in rest.split_inclusive('\n') {
            let begins = marks(line, "---");
            if begins && filled {
                break;
            }
            end += line.len();
            lines += 1;
            if marks(line, "...") {
                break;
            }
            filled |=
                begins || !(line.starts_with('%') || line.trim_start().starts_with('#') || line.trim().is_empty());
        }
        let (document, after) = rest.split_at_checked(end)?;
        let first = (lines_before, document);
        rest = after;
        lines_before += lines;
        (end > 0).then_some(first)
    })
}

/// The files are the user's own, and large: only what a few lines could blow up (aliases, nesting) stays bounded.
///
/// A level of nesting costs tens of kilobytes of stack in a debug build. Cluster API's deepest resource definitions have
/// 31 levels.
fn options() -> Options {
    let budget = serde_saphyr::budget! {
        max_events: usize::MAX,
        max_nodes: usize::MAX,
        max_total_scalar_bytes: usize::MAX,
        max_depth: 64,
        max_merge_keys: usize::MAX,
        enforce_alias_anchor_ratio: false,
    };
    serde_saphyr::options! {
        budget: budget,
        with_snippet: false,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        duplicate_keys: DuplicateKeyPolicy::Error,
    }
}

/// The error's text without its place, which stands in front already.
fn describe(error: &Error) -> String {
    struct Bare;

    impl MessageFormatter for Bare {
        fn localizer(&self) -> &dyn Localizer {
            self
        }

        fn format_message<'a>(&self, error: &'a Error) -> std::borrow::Cow<'a, str> {
            UserMessageFormatter.format_message(error)
        }
    }

    impl Localizer for Bare {
        fn attach_location<'b>(&self, text: std::borrow::Cow<'b, str>, _: Location) -> std::borrow::Cow<'b, str> {
            text
        }
    }

    error.render_with_options(serde_saphyr::render_options! { formatter: &Bare, snippets: SnippetMode::Off })
}
