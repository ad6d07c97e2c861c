//! A dead end in the words of a class's author.

use std::cmp::Ordering;

use super::Path;
use crate::{
    planner::{DeadEnd, NoPlan, Reason, Release, Running, Trap},
    text::quoted,
    version::KubernetesVersion,
};

/// A dead end in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::rules) struct Explanation {
    /// What is wrong.
    pub(in crate::rules) what: String,
    /// Why that is a dead end; empty if it is plain.
    pub(in crate::rules) why: &'static str,
    /// What would mend it for this target; may be empty.
    mend: String,
    /// What to choose instead, where nothing nearer is known; may be empty.
    choose: String,
}

impl Explanation {
    fn new(what: String) -> Self {
        Self { what, ..Self::default() }
    }

    fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    fn mend(self, mend: impl Into<String>) -> Self {
        Self { mend: mend.into(), ..self }
    }

    fn choose(self, choose: impl Into<String>) -> Self {
        Self { choose: choose.into(), ..self }
    }

    /// The way out, where `instead` is what can be had instead, if anything.
    pub(in crate::rules) fn way_out(&self, instead: String) -> String {
        let instead = if instead.is_empty() { self.choose.clone() } else { instead };
        match (self.mend.as_str(), instead.as_str()) {
            (mend, "") => mend.to_owned(),
            ("", instead) => instead.to_owned(),
            (mend, instead) => format!("{mend}, or {instead}"),
        }
    }
}

/// Why the way of `path` from `from` ends in `trap`. `class` names whose list it is: "`ClusterClass` a/q", "the list".
pub(in crate::rules) fn explain(path: &Path<'_>, from: &Running, trap: &Trap, class: &str) -> Explanation {
    let running = if trap.at.control_plane == from.control_plane { " (running)" } else { "" };
    let end = End {
        path,
        from,
        trap,
        class,
        target: quoted(path.target).into_owned(),
        at: format!("{}{running}", quoted(&trap.at.control_plane)),
        wanted: value(path.target),
        current: value(&trap.at.control_plane),
    };
    match &trap.why {
        DeadEnd::AnotherMajor { step } => end.another_major(step),
        DeadEnd::MalformedStep { step } => end.malformed(step),
        DeadEnd::NoControlPlaneStep => end.same_version(),
        DeadEnd::NoWorkerStep => end.workers_without_step(),
        DeadEnd::NoPlan(no_plan) => end.no_plan(no_plan).unwrap_or_else(|| {
            let step = quoted(&no_plan.at);
            let behind = no_plan.after.as_ref().map_or_else(String::new, |after| format!(" after {}", quoted(after)));
            let nowhere = end.nowhere();
            Explanation { what: format!("{} ({} at {step}{behind})", nowhere.what, no_plan.reason), ..nowhere }
        }),
        DeadEnd::Waiting | DeadEnd::Circle | DeadEnd::TooLong => end.nowhere(),
    }
}

/// A dead end, with its parts as they are shown.
struct End<'a> {
    path: &'a Path<'a>,
    from: &'a Running,
    trap: &'a Trap,
    class: &'a str,
    target: String,
    at: String,
    wanted: Option<KubernetesVersion>,
    current: Option<KubernetesVersion>,
}

impl End<'_> {
    fn another_major(&self, step: &str) -> Explanation {
        Explanation::new(format!("{} is in another major than {}", quoted(step), self.at))
            .because("no upgrade leads across majors")
            .choose("stay in the major that runs")
    }

    fn malformed(&self, step: &str) -> Explanation {
        let corrected = value(step).map_or_else(|| "a version".to_owned(), |version| version.to_string());
        Explanation::new(format!("{} leads from {} to {} through {}", self.class, self.at, self.target, quoted(step)))
            .because("neither KubeadmControlPlanes nor MachineDeployments take that as a version")
            .mend(format!("correct that entry to {}", quoted(&corrected)))
    }

    /// Two texts that the planner takes for one version, as `+1` and `+001`.
    fn same_version(&self) -> Explanation {
        let (target, at) = (&self.target, &self.at);
        let same = format!("to Cluster API's planner {target} is the same version as {at}, although the text differs");
        Explanation::new(same)
            .because("so there is no step to it")
            .choose(format!("keep {}", quoted(&self.trap.at.control_plane)))
    }

    fn workers_without_step(&self) -> Explanation {
        let workers = self.trap.at.workers.iter().filter_map(|worker| Some((value(worker)?, worker)));
        let workers: Vec<_> = workers.collect();
        let is_above = |version: &KubernetesVersion| {
            self.wanted.as_ref().is_some_and(|wanted| version.cmp_precedence(wanted).is_gt())
        };
        let why = "Cluster API then plans nothing for them, without an error, and stops";
        if let Some((_, above)) = workers.iter().find(|(version, _)| is_above(version)) {
            let above = quoted(above);
            return Explanation::new(format!("workers at {above} are above {}", self.target))
                .because(why)
                .mend("first set these workers back")
                .choose(format!("choose {above} or higher"));
        }
        let lowest = workers.iter().min_by(|(a, _), (b, _)| a.cmp_precedence(b)).map_or("", |(_, worker)| worker);
        Explanation::new(format!("workers at {} are more than three minors behind {}", quoted(lowest), self.at))
            .because(why)
            .mend("first bring these workers closer")
    }

    /// What is known of the planner's reason; `None` where its own word has to do.
    fn no_plan(&self, no_plan: &NoPlan) -> Option<Explanation> {
        match no_plan.reason {
            Reason::ControlPlaneSkipsMinor => {
                let after = no_plan.after.as_deref()?;
                let (low, high) = (value(after)?, value(&no_plan.at)?);
                let gap = self.gap(&low, &high)?;
                let running = value(&self.from.control_plane).is_some_and(|version| version.same_text(&low));
                let running = if running { " (running)" } else { "" };
                let (low, high) = (quoted(after), quoted(&no_plan.at));
                let what = format!("{} has no {gap} between {low}{running} and {high}", self.class);
                Some(Explanation::new(what).mend("add one to spec.kubernetesVersions"))
            }
            Reason::MoreThanOneMinor => {
                let (wanted, current) = (self.wanted.as_ref()?, self.current.as_ref()?);
                if wanted.major() != current.major() {
                    return Some(self.another_major(self.path.target));
                }
                let next = format!("v{}.{}", current.major(), current.minor().saturating_add(1));
                let minors = wanted.minor().saturating_sub(current.minor());
                Some(
                    Explanation::new(format!("{} is {minors} minors above {}", self.target, self.at))
                        .because("without a list in the class Cluster API moves one minor at a time")
                        .choose(format!("choose a {next} version, or give the class a list from {next} on")),
                )
            }
            Reason::UnknownBuildOrder => {
                let (at, workers) = (&self.at, self.workers_behind());
                let why = "Cluster API finds no order between build tags that differ in a part that is not a number";
                let instead = "choose a higher patch number, or tags that differ in a number, as +build.1 and +build.2";
                let what = format!("once the control plane is at {at}, workers at {workers} cannot follow");
                Some(Explanation::new(what).because(why).choose(instead))
            }
            Reason::DoesNotEndAtTarget | Reason::NotAscending => self.not_above(),
            Reason::Unparsable => Some(
                Explanation::new(format!("{} is not a version", quoted(&no_plan.at)))
                    .because("Cluster API plans nothing before it is corrected")
                    .mend("correct it where it stands"),
            ),
            Reason::AlreadyThere => (self.trap.at.control_plane != self.path.target).then(|| self.same_version()),
            Reason::WorkerNotInControlPlanePlan | Reason::BuildOrder | Reason::WorkerSkew => None,
        }
    }

    /// Why there is no step up to the target.
    fn not_above(&self) -> Option<Explanation> {
        let (wanted, current) = (self.wanted.as_ref()?, self.current.as_ref()?);
        let (target, at) = (&self.target, &self.at);
        match wanted.cmp_precedence(current) {
            Ordering::Less => Some(
                Explanation::new(format!("{target} is lower than {at}"))
                    .because("Cluster API does not downgrade")
                    .choose(format!("choose {} or higher", quoted(&self.trap.at.control_plane))),
            ),
            Ordering::Equal => Some(
                Explanation::new(format!("{target} differs from {at} in the build tag alone"))
                    .because("with a list Cluster API passes over such an entry")
                    .choose("choose a higher patch number"),
            ),
            Ordering::Greater => {
                let first = self.path.installed.release == Some(Release::V1_12_0);
                (first && wanted.minor() == current.minor()).then(|| {
                    Explanation::new(format!("{target} is in the minor of {at}"))
                        .because("with a list Cluster API before 1.12.4 plans no step within a minor")
                        .mend("update Cluster API to 1.12.4 or later")
                        .choose("choose a version of a higher minor")
                })
            }
        }
    }

    fn nowhere(&self) -> Explanation {
        let workers = self.workers_behind();
        let workers = if workers.is_empty() { workers } else { format!(" with workers at {workers}") };
        Explanation::new(format!("Cluster API has no plan from {}{workers} to {}", self.at, self.target))
    }

    /// The workers that are not at the target.
    fn workers_behind(&self) -> String {
        let behind = self.trap.at.workers.iter().filter(|worker| **worker != self.path.target);
        behind.map(|worker| quoted(worker).into_owned()).collect::<Vec<_>>().join(", ")
    }

    /// "v1.31 entry", "entry of v1.31 to v1.33": the minors between two versions, if the list lacks all of them.
    fn gap(&self, low: &KubernetesVersion, high: &KubernetesVersion) -> Option<String> {
        let (major, first, last) = (low.major(), low.minor().checked_add(1)?, high.minor().checked_sub(1)?);
        let has = |version: &KubernetesVersion| version.major() == major && (first..=last).contains(&version.minor());
        let listed = self.path.plans.list().iter().any(|entry| entry.version.as_ref().is_some_and(has));
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

fn value(text: &str) -> Option<KubernetesVersion> {
    KubernetesVersion::parse_lenient(text).ok()
}
