//! What the path rules share: whether the installed Cluster API gets from what runs to a target, and how to say why not.
//!
//! Not a rule itself. The answer is the planner's ([`Upgrade`]); here it is put into the words of a class's author: which
//! entry is missing between what, and which listed versions can be reached instead.

use std::{cmp::Ordering, collections::BTreeSet};

use crate::{
    fleet::ClassEntry,
    model::{ClusterClass, Provider},
    planner::{DeadEnd, Installed, Known, NoPlan, Reason, Release, Running, Source, Trap, Upgrade, plan},
    text::quoted,
    version::KubernetesVersion,
};

/// Where the plans for the Clusters of a class come from, its entries parsed once.
#[derive(Clone, Debug)]
pub(super) enum Plans<'a> {
    /// Neither list nor extension.
    OneMinor,
    /// The list.
    List(Vec<Known<'a>>),
    /// The extension of this name, whatever the list holds.
    Extension(&'a str),
}

impl<'a> Plans<'a> {
    pub(super) fn of_entry(class: &'a ClassEntry) -> Self {
        Self::of(class.versions.iter().map(|entry| &**entry), class.extension.as_deref())
    }

    pub(super) fn of_class(class: &'a ClusterClass) -> Self {
        Self::of(class.versions().iter().map(String::as_str), class.extension())
    }

    fn of(entries: impl Iterator<Item = &'a str>, extension: Option<&'a str>) -> Self {
        if let Some(extension) = extension {
            return Self::Extension(extension);
        }
        let list: Vec<_> = entries.map(Known::new).collect();
        if list.is_empty() { Self::OneMinor } else { Self::List(list) }
    }

    pub(super) fn by_extension(&self) -> bool {
        matches!(self, Self::Extension(_))
    }

    fn list(&self) -> &[Known<'a>] {
        match self {
            Self::List(list) => list,
            Self::OneMinor | Self::Extension(_) => &[],
        }
    }
}

/// What the installed Cluster API is asked to do for one Cluster or for many in the same state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'a> {
    pub(super) plans: &'a Plans<'a>,
    pub(super) installed: Installed,
    pub(super) provider: Provider,
    pub(super) target: &'a str,
}

/// Whether there is a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Every order of events ends at the target.
    Leads,
    /// Some order of events ends elsewhere.
    Ends(Trap),
    /// An extension plans, but the `RuntimeSDK` feature is off, so Cluster API refuses to ask it.
    ExtensionOff,
    /// An extension plans, and only it knows.
    Unknown,
}

impl<'a> Path<'a> {
    /// The upgrade that is simulated; `None` if an extension plans or the release plans nothing.
    fn upgrade(&self, release: Release) -> Option<Upgrade<'_>> {
        let source = match self.plans {
            Plans::OneMinor => Source::OneMinor,
            Plans::List(list) => Source::List(list),
            Plans::Extension(_) => return None,
        };
        Some(Upgrade { release, source, target: self.target, provider: self.provider })
    }

    /// Whether there is a way from `from`.
    pub(super) fn way(&self, from: &Running) -> Way {
        let there = from.control_plane == self.target && from.workers.iter().all(|worker| worker == self.target);
        let Some(release) = self.installed.release.filter(|_| !there) else { return Way::Leads };
        match self.upgrade(release) {
            Some(upgrade) => upgrade.follow(from).map_or_else(Way::Ends, |()| Way::Leads),
            // Whatever an extension says, no provider leaves its major.
            None if self.crosses_majors(from) => {
                Way::Ends(Trap { at: from.clone(), why: DeadEnd::AnotherMajor { step: self.target.to_owned() } })
            }
            None if !self.installed.runtime_sdk => Way::ExtensionOff,
            None => Way::Unknown,
        }
    }

    fn crosses_majors(&self, from: &Running) -> bool {
        let major = |text| KubernetesVersion::parse_lenient(text).ok().map(|version| version.major());
        major(self.target).zip(major(&from.control_plane)).is_some_and(|(to, from)| to != from)
    }

    /// The states that come directly after `from`; none where that cannot be told.
    pub(super) fn next(&self, from: &Running) -> BTreeSet<Running> {
        let upgrade = self.installed.release.and_then(|release| self.upgrade(release));
        upgrade.and_then(|upgrade| upgrade.next(from).ok()).unwrap_or_default()
    }

    /// The hops of the control plane from `from`; none where that cannot be told.
    pub(super) fn hops(&self, from: &Running) -> Vec<String> {
        let Some(upgrade) = self.installed.release.and_then(|release| self.upgrade(release)) else { return Vec::new() };
        let (target, control_plane) = (Known::new(self.target), Known::new(&from.control_plane));
        let planned = plan(upgrade.release, upgrade.source, &target, &control_plane, None);
        planned.map(|plan| plan.control_plane.into_iter().map(ToOwned::to_owned).collect()).unwrap_or_default()
    }

    /// The listed versions next to the target, below and above, that can be reached from `from`.
    pub(super) fn alternatives(&self, from: &Running) -> Vec<&'a str> {
        let (Ok(wanted), Ok(current)) =
            (KubernetesVersion::parse_lenient(self.target), KubernetesVersion::parse_lenient(&from.control_plane))
        else {
            return Vec::new();
        };
        let (mut below, mut above): (Vec<&Known<'a>>, Vec<&Known<'a>>) = (Vec::new(), Vec::new());
        for entry in self.plans.list() {
            let Ok(listed) = KubernetesVersion::parse_strict(entry.text) else { continue };
            if entry.text == self.target || listed.cmp_precedence(&current).is_le() {
                continue;
            }
            if listed.cmp_precedence(&wanted).is_lt() { below.push(entry) } else { above.push(entry) }
        }
        let by_precedence = |a: &&Known<'a>, b: &&Known<'a>| match (&a.version, &b.version) {
            (Some(a), Some(b)) => a.cmp_precedence(b),
            _ => Ordering::Equal,
        };
        below.sort_by(|a, b| by_precedence(b, a));
        above.sort_by(by_precedence);
        let reached = |entries: Vec<&Known<'a>>| {
            let leads = |entry: &&Known<'a>| Path { target: entry.text, ..*self }.way(from) == Way::Leads;
            entries.into_iter().find(leads).map(|entry| entry.text)
        };
        [reached(below), reached(above)].into_iter().flatten().collect()
    }

    /// Why the way from `from` ends in `trap`. `class` names whose list it is: "`ClusterClass` a/q", "the new list".
    pub(super) fn explain(&self, from: &Running, trap: &Trap, class: &str) -> Explanation {
        let target = quoted(self.target).into_owned();
        let shown = |version: &str| {
            let running = if version == from.control_plane { " (running)" } else { "" };
            format!("{}{running}", quoted(version))
        };
        let at = shown(&trap.at.control_plane);
        let workers = || {
            let behind = trap.at.workers.iter().filter(|worker| **worker != self.target);
            behind.map(|worker| quoted(worker).into_owned()).collect::<Vec<_>>().join(", ")
        };
        match &trap.why {
            DeadEnd::AnotherMajor { step } => Explanation {
                what: format!("{} is in another major than {at}", quoted(step)),
                why: "no upgrade leads across majors".into(),
                mend: String::new(),
                choose: "stay in the major that runs".into(),
            },
            DeadEnd::MalformedStep { step } => {
                let corrected = KubernetesVersion::parse_lenient(step).map(|version| version.to_string());
                Explanation {
                    what: format!("{class} leads from {at} to {} through {}", target, quoted(step)),
                    why: "neither KubeadmControlPlanes nor MachineDeployments take that as a version".into(),
                    mend: format!("correct that entry to {}", corrected.as_deref().map_or("a version".into(), quoted)),
                    choose: String::new(),
                }
            }
            DeadEnd::NoControlPlaneStep => same_version(trap, &target, &at),
            DeadEnd::NoWorkerStep => self.workers_without_step(trap, &target, &at),
            DeadEnd::NoPlan(no_plan) => self.no_plan(no_plan, from, trap, class, &target, &at, &workers()),
            DeadEnd::Waiting | DeadEnd::Circle | DeadEnd::TooLong => self.dead_end(&target, &at, &workers()),
        }
    }

    fn workers_without_step(&self, trap: &Trap, target: &str, at: &str) -> Explanation {
        let value = |text: &str| KubernetesVersion::parse_lenient(text).ok();
        let wanted = value(self.target);
        let above = trap.at.workers.iter().find(|worker| {
            value(worker).zip(wanted.as_ref()).is_some_and(|(worker, wanted)| worker.cmp_precedence(wanted).is_gt())
        });
        let why = "Cluster API then plans nothing for them, without an error, and stops";
        if let Some(above) = above {
            return Explanation {
                what: format!("workers at {} are above {target}", quoted(above)),
                why: why.into(),
                mend: "first set these workers back".into(),
                choose: format!("choose {} or higher", quoted(above)),
            };
        }
        let lowest = trap.at.workers.iter().filter_map(|worker| Some((value(worker)?, worker)));
        let lowest = lowest.min_by(|(a, _), (b, _)| a.cmp_precedence(b)).map_or("", |(_, worker)| worker);
        Explanation {
            what: format!("workers at {} are more than three minors behind {at}", quoted(lowest)),
            why: why.into(),
            mend: "first bring these workers closer".into(),
            choose: String::new(),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one sentence, made ready by its only caller")]
    fn no_plan(
        &self,
        no_plan: &NoPlan,
        from: &Running,
        trap: &Trap,
        class: &str,
        target: &str,
        at: &str,
        workers: &str,
    ) -> Explanation {
        let value = |text: &str| KubernetesVersion::parse_lenient(text).ok();
        let (wanted, current) = (value(self.target), value(&trap.at.control_plane));
        let after = no_plan.after.as_deref();
        match no_plan.reason {
            Reason::ControlPlaneSkipsMinor => {
                if let (Some(high), Some((after, low))) =
                    (value(&no_plan.at), after.and_then(|after| Some((after, value(after)?))))
                    && let Some(gap) = self.gap(&low, &high)
                {
                    let running = value(&from.control_plane).is_some_and(|version| version.same_text(&low));
                    let running = if running { " (running)" } else { "" };
                    let (low, high) = (quoted(after), quoted(&no_plan.at));
                    return Explanation {
                        what: format!("{class} has no {gap} between {low}{running} and {high}"),
                        why: String::new(),
                        mend: "add one to spec.kubernetesVersions".into(),
                        choose: String::new(),
                    };
                }
            }
            Reason::MoreThanOneMinor => {
                if let (Some(wanted), Some(current)) = (&wanted, &current) {
                    let next = format!("v{}.{}", current.major(), current.minor().saturating_add(1));
                    let minors = wanted.minor().saturating_sub(current.minor());
                    return Explanation {
                        what: format!("{target} is {minors} minors above {at}"),
                        why: "without a list in the class Cluster API moves one minor at a time".into(),
                        mend: String::new(),
                        choose: format!("choose a {next} version, or give the class a list from {next} on"),
                    };
                }
            }
            Reason::UnknownBuildOrder => {
                return Explanation {
                    what: format!("once the control plane is at {at}, workers at {workers} cannot follow"),
                    why: "Cluster API finds no order between build tags that differ in a part that is not a number"
                        .into(),
                    mend: String::new(),
                    choose: "choose a higher patch number, or tags that differ in a number, as +build.1 and +build.2"
                        .into(),
                };
            }
            Reason::DoesNotEndAtTarget | Reason::NotAscending => {
                if let (Some(wanted), Some(current)) = (&wanted, &current)
                    && let Some(explanation) = self.not_above(wanted, current, trap, target, at)
                {
                    return explanation;
                }
            }
            Reason::Unparsable => {
                return Explanation {
                    what: format!("{} is not a version", quoted(&no_plan.at)),
                    why: "Cluster API plans nothing before it is corrected".into(),
                    mend: "correct it where it stands".into(),
                    choose: String::new(),
                };
            }
            Reason::AlreadyThere if trap.at.control_plane != self.target => return same_version(trap, target, at),
            Reason::AlreadyThere | Reason::WorkerNotInControlPlanePlan | Reason::BuildOrder | Reason::WorkerSkew => {}
        }
        let mut explanation = self.dead_end(target, at, workers);
        let step = quoted(&no_plan.at);
        let behind = after.map_or_else(String::new, |after| format!(" after {}", quoted(after)));
        explanation.why = format!("its planner says {} at {step}{behind}", no_plan.reason);
        explanation
    }

    /// Why a list leads nowhere although the target is in the control plane's own minor.
    fn not_above(
        &self,
        wanted: &KubernetesVersion,
        current: &KubernetesVersion,
        trap: &Trap,
        target: &str,
        at: &str,
    ) -> Option<Explanation> {
        let explanation = |what: String, why: &str, mend: &str, choose: String| Explanation {
            what,
            why: why.into(),
            mend: mend.into(),
            choose,
        };
        match wanted.cmp_precedence(current) {
            Ordering::Less => Some(explanation(
                format!("{target} is lower than {at}"),
                "Cluster API does not downgrade",
                "",
                format!("choose {} or higher", quoted(&trap.at.control_plane)),
            )),
            Ordering::Equal => Some(explanation(
                format!("{target} differs from {at} in the build tag alone"),
                "with a list Cluster API passes over such an entry",
                "",
                "choose a higher patch number".into(),
            )),
            Ordering::Greater
                if self.installed.release == Some(Release::V1_12_0) && wanted.minor() == current.minor() =>
            {
                Some(explanation(
                    format!("{target} is in the minor of {at}"),
                    "with a list Cluster API before 1.12.4 plans no step within a minor",
                    "update Cluster API to 1.12.4 or later",
                    "choose a version of a higher minor".into(),
                ))
            }
            Ordering::Greater => None,
        }
    }

    fn dead_end(&self, target: &str, at: &str, workers: &str) -> Explanation {
        let workers = if workers.is_empty() { String::new() } else { format!(" with workers at {workers}") };
        Explanation {
            what: format!("Cluster API has no plan from {at}{workers} to {target}"),
            why: String::new(),
            mend: String::new(),
            choose: String::new(),
        }
    }

    /// "v1.31 entry", "entry of v1.31 to v1.33": the minors between two versions, if the list lacks all of them.
    fn gap(&self, low: &KubernetesVersion, high: &KubernetesVersion) -> Option<String> {
        let (major, first, last) = (low.major(), low.minor().checked_add(1)?, high.minor().checked_sub(1)?);
        let has = |version: &KubernetesVersion| version.major() == major && (first..=last).contains(&version.minor());
        let listed = self.plans.list().iter().any(|entry| entry.version.as_ref().is_some_and(has));
        if listed || high.major() != major || last < first {
            return None;
        }
        Some(if first == last {
            format!("v{major}.{first} entry")
        } else {
            format!("entry of v{major}.{first} to v{major}.{last}")
        })
    }
}

/// A dead end in words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Explanation {
    /// What is wrong.
    pub(super) what: String,
    /// Why that is a dead end; empty if it is plain.
    pub(super) why: String,
    /// What would mend it for this target; may be empty.
    pub(super) mend: String,
    /// What to choose instead, where nothing nearer is known; may be empty.
    pub(super) choose: String,
}

impl Explanation {
    /// The way out, where `instead` is what can be had instead, if anything.
    pub(super) fn way_out(&self, instead: String) -> String {
        let instead = if instead.is_empty() { self.choose.clone() } else { instead };
        match (self.mend.as_str(), instead.as_str()) {
            (mend, "") => mend.to_owned(),
            ("", instead) => instead.to_owned(),
            (mend, instead) => format!("{mend}, or {instead}"),
        }
    }
}

/// Two texts that the planner takes for one version, as `+1` and `+001`.
fn same_version(trap: &Trap, target: &str, at: &str) -> Explanation {
    Explanation {
        what: format!("to Cluster API's planner {target} is the same version as {at}, although the text differs"),
        why: "so there is no step to it".into(),
        mend: String::new(),
        choose: format!("keep {}", quoted(&trap.at.control_plane)),
    }
}
