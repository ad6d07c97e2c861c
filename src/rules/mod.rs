//! The rules: pure functions from a change and what the fleet knows to findings.
//!
//! One file per rule; [`RULES`] is the registry, and the only place to add one. A rule neither parses JSON nor looks
//! anything up: [`ClusterCase`] and [`ClassCase`] hold all that it may see.
//!
//! **The ratchet.** [`ClusterCase::of`] and [`ClassCase::of`] answer `None` for a change that can bring no problem in;
//! it is allowed without any look-up. Inside a case a rule marks what stood before the change as not
//! `introduced`: that can warn, never deny.
//!
//! `path` is what the rules share that ask the planner.

mod class_exists;
mod class_in_use;
mod extension_reference;
mod list_covers_clusters;
mod list_keeps_paths;
mod list_order;
mod list_removed;
mod list_syntax;
mod path;
mod upgrade_in_flight;
mod version_listed;
mod version_not_lowered;
mod version_reachable;
mod version_syntax;

use std::{borrow::Cow, collections::HashSet};

use crate::{
    fleet::{ClassEntry, ClusterState, Users},
    model::{Change, Cluster, ClusterClass, ControlPlaneState, ObjectKey, Running, Topology, annotation},
    planner::Installed,
};

/// Every rule, in the order in which its findings are told.
///
/// `extension-agrees`, which asks an extension for its plan, stands in no release yet.
pub static RULES: [Rule; 13] = [
    version_syntax::RULE,
    class_exists::RULE,
    version_listed::RULE,
    version_not_lowered::RULE,
    version_reachable::RULE,
    upgrade_in_flight::RULE,
    list_syntax::RULE,
    list_order::RULE,
    list_covers_clusters::RULE,
    list_keeps_paths::RULE,
    list_removed::RULE,
    extension_reference::RULE,
    class_in_use::RULE,
];

/// What a configuration makes of a rule's findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// What the change brings in is denied, what stood before is warned of.
    Deny,
    /// Everything is warned of.
    Warn,
    /// The rule is silent.
    Off,
}

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// The stable, kebab-case name: in messages, metrics, the configuration and docs/rules/.
    pub name: &'static str,
    /// The mode without a configuration.
    pub default: Mode,
    /// What it holds, in one sentence.
    pub summary: &'static str,
    /// Whether it judges the transition from one version to the next. Cluster API skips those of its own checks under
    /// `disable-update-version-check`, so such a rule then only warns.
    transition: bool,
    /// Whether what runs of a Cluster has a part in what it says, so that a denial has to be confirmed by it.
    pub looks_at_what_runs: bool,
    check: Check,
}

#[derive(Debug)]
enum Check {
    Cluster(fn(&ClusterCase<'_>) -> Vec<Finding>),
    Class(fn(&ClassCase<'_>) -> Vec<Finding>),
}

/// One thing that a rule has to say about a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// Path of the field, such as `spec.kubernetesVersions[2]`; empty if it is about the object as a whole.
    pub field: Cow<'static, str>,
    /// What is wrong.
    pub problem: String,
    /// Why it matters; empty if that is plain.
    pub reason: Cow<'static, str>,
    /// What to do instead.
    pub way_out: Cow<'static, str>,
    /// Whether the change brings the problem in or makes it worse; only then can it be denied.
    pub introduced: bool,
    /// The Clusters that it rests on, as far as it names them; empty if it rests on the request or a class.
    pub evidence: Vec<ObjectKey>,
}

impl Finding {
    /// A problem that the change brings in.
    fn new(field: impl Into<Cow<'static, str>>, problem: String) -> Self {
        let (field, rule) = (field.into(), "");
        Self { rule, field, problem, reason: "".into(), way_out: "".into(), introduced: true, evidence: Vec::new() }
    }

    /// Names the Clusters that it rests on, so that they can be asked once more.
    fn resting_on(self, evidence: Vec<ObjectKey>) -> Self {
        Self { evidence, ..self }
    }

    fn because(self, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    fn way_out(self, way_out: impl Into<Cow<'static, str>>) -> Self {
        Self { way_out: way_out.into(), ..self }
    }

    /// Marks what stood before the change, or does no harm: a warning at most.
    fn warning_only(self) -> Self {
        Self { introduced: false, ..self }
    }

    /// Marks what the Cluster's annotation lets pass, in Cluster API too.
    fn skipped(self) -> Self {
        let annotation = annotation::DISABLE_UPDATE_VERSION_CHECK;
        self.way_out(format!("not denied: {annotation} is set")).warning_only()
    }

    fn introduced(self, introduced: bool) -> Self {
        Self { introduced, ..self }
    }
}

/// A Cluster change that has to be judged, and what the class it names says.
#[derive(Clone, Debug)]
pub struct ClusterCase<'a> {
    /// The Cluster before the change; `None` on CREATE, and when the change adds the topology (an adoption), for which
    /// everything about the topology is new.
    pub old: Option<OldTopology<'a>>,
    /// The Cluster as it is, with or without a topology; `None` on CREATE.
    pub old_object: Option<&'a Cluster>,
    /// The Cluster as it shall be.
    pub new: &'a Cluster,
    /// Whether the Cluster itself exists already.
    pub update: bool,
    /// The new topology.
    pub topology: &'a Topology,
    /// The new version, with a `v`.
    pub version: Cow<'a, str>,
    /// The key of the new class.
    pub class_key: ObjectKey,
    /// The new class; `None` if there is none of that key.
    pub class: Option<&'a ClassEntry>,
    /// The class before a rebase; `None` if it is gone, and where the class stays.
    pub old_class: Option<&'a ClassEntry>,
    /// What runs.
    pub running: Running,
    /// The Cluster API that will carry the change out.
    pub installed: Installed,
}

/// The version and class of a Cluster before a change.
#[derive(Clone, Debug)]
pub struct OldTopology<'a> {
    /// The version, with a `v`.
    pub version: Cow<'a, str>,
    /// The class key.
    pub class_key: ObjectKey,
}

impl<'a> ClusterCase<'a> {
    /// The case that `change` makes, with the class still to be filled in; `None` if there is nothing to judge: the
    /// Cluster goes or is going, has no topology, or keeps its version and class.
    ///
    /// A deleting Cluster is never held: Cluster API plans nothing for it, and its finalizers must go.
    #[must_use]
    pub fn of(change: &'a Change<Cluster>) -> Option<Self> {
        let new = change.new().filter(|new| !new.metadata.deleting)?;
        let (topology, version, class_key) = (new.topology()?, new.version()?, new.class_key()?);
        let old =
            change.old().and_then(|old| Some(OldTopology { version: old.version()?, class_key: old.class_key()? }));
        if old.as_ref().is_some_and(|old| old.version == version && old.class_key == class_key) {
            return None;
        }
        Some(Self {
            old,
            old_object: change.old(),
            new,
            update: change.old().is_some(),
            topology,
            version,
            class_key,
            class: None,
            old_class: None,
            running: Running::default(),
            installed: Installed::default(),
        })
    }

    /// Whether the version is new to the Cluster.
    #[must_use]
    pub fn version_changed(&self) -> bool {
        self.old.as_ref().is_none_or(|old| old.version != self.version)
    }

    /// The Cluster whose references tell where to look for what runs. A change that takes `controlPlaneRef` away is none of
    /// ours: Cluster API refuses it.
    #[must_use]
    pub fn runs_as(&self) -> &'a Cluster {
        self.old_object.filter(|_| self.new.control_plane_ref().is_none()).unwrap_or(self.new)
    }

    /// Whether the verdict needs to know what runs: for a plain change of the version Cluster API itself insists that
    /// everything runs the old one.
    #[must_use]
    pub fn asks_what_runs(&self) -> bool {
        self.update && (!self.version_changed() || self.old.is_none() || self.skips_transition_rules())
    }

    /// Whether a plain change of the version leads to its target without workers and not with them, so that it has to be known
    /// whether there are any.
    #[must_use]
    pub fn turns_on_workers(&self) -> bool {
        version_reachable::turns_on_workers(self)
    }

    fn skips_transition_rules(&self) -> bool {
        self.new.metadata.annotations.has(annotation::DISABLE_UPDATE_VERSION_CHECK)
    }

    /// Runs the Clusters' rules.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let checks = RULES.iter().filter_map(|rule| match rule.check {
            Check::Cluster(check) => Some((rule, check)),
            Check::Class(_) => None,
        });
        let skips = self.skips_transition_rules();
        let told = checks.flat_map(|(rule, check)| {
            check(self).into_iter().map(move |finding| {
                let finding = Finding { rule: rule.name, ..finding };
                if rule.transition && skips && finding.introduced { finding.skipped() } else { finding }
            })
        });
        told.collect()
    }
}

/// A class change that has to be judged, and who uses the class.
#[derive(Clone, Debug)]
pub struct ClassCase<'a> {
    /// The change.
    pub change: &'a Change<ClusterClass>,
    /// The lists before and after the change, to ask for many versions what they carry.
    lists: (List<'a>, List<'a>),
    /// The Clusters that refer to the class; empty unless [`needs_users`](Self::needs_users).
    pub users: Users,
    /// The Cluster API that will carry the change out.
    pub installed: Installed,
}

/// The versions that a class carries: all of them without a list.
#[derive(Clone, Debug)]
struct List<'a>(HashSet<&'a str>);

impl<'a> List<'a> {
    fn of(class: Option<&'a ClusterClass>) -> Self {
        Self(class.into_iter().flat_map(ClusterClass::versions).map(String::as_str).collect())
    }

    fn carries(&self, version: &str) -> bool {
        self.0.is_empty() || self.0.contains(version)
    }
}

impl<'a> ClassCase<'a> {
    /// The case that `change` makes, with the users still to be filled in; `None` if it changes neither the list nor
    /// the extension.
    #[must_use]
    pub fn of(change: &'a Change<ClusterClass>) -> Option<Self> {
        if let Change::Update { old, new } = change
            && old.versions() == new.versions()
            && old.extension() == new.extension()
        {
            return None;
        }
        let lists = (List::of(change.old()), List::of(change.new()));
        Some(Self { change, lists, users: Users::default(), installed: Installed::default() })
    }

    /// The same case with the Clusters that refer to the class.
    #[must_use]
    pub fn with_users(&self, users: Users) -> Self {
        Self { users, ..self.clone() }
    }

    /// Whether a rule asks who uses the class. A class that is created without a list is judged by itself.
    #[must_use]
    pub fn needs_users(&self) -> bool {
        match self.change {
            Change::Create(new) => !new.versions().is_empty(),
            Change::Update { .. } | Change::Delete(_) => true,
        }
    }

    /// Whether a rule may name the Clusters in this state.
    #[must_use]
    pub fn names_users_of(&self, state: &ClusterState) -> bool {
        self.change.new().is_none()
            || !self.lists.1.carries(&state.version)
            || !matches!(state.running.control_plane, ControlPlaneState::NotCreated | ControlPlaneState::Missing)
                && !state.running.all_at(&state.version)
    }

    /// Whether the class was there before and had this entry in its list.
    fn had(&self, entry: &str) -> bool {
        self.lists.0.0.contains(entry)
    }

    /// Runs the classes' rules.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let checks = RULES.iter().filter_map(|rule| match rule.check {
            Check::Class(check) => Some((rule, check)),
            Check::Cluster(_) => None,
        });
        checks
            .flat_map(|(rule, check)| check(self).into_iter().map(|finding| Finding { rule: rule.name, ..finding }))
            .collect()
    }
}
