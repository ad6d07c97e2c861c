//! The plan that we recommend: what an extension could return in the place of Cluster API's own planners.
//!
//! Those follow a list blindly: a pre-release becomes a hop, a gap is found out in the middle, workers far behind get an
//! empty plan. This one answers for any list and anything that runs: with a plan that Cluster API (every release since 1.12)
//! finds valid in every state on the way, or with what is missing. docs/design/0008-recommended-planner.md states its
//! properties.
//!
//! Kubelets may be three minors behind the control plane, two where they are older than 1.25, and never ahead (Kubernetes'
//! version skew policy). Cluster API knows the three only.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use super::{Known, Plan, Release, Running, Source, Trap, Upgrade};
use crate::{model::Provider, version::KubernetesVersion};

/// A Cluster's status holds so many hops at most (`status.controlPlane.upgradePlan`, Cluster API 1.14).
const MOST_HOPS: u64 = 32;

/// The first minor of Kubernetes 1 whose kubelets may be three minors behind.
const THREE_BEHIND_SINCE: u64 = 25;

/// Why no plan is recommended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRecommendation {
    /// These minors have no entry that could be a hop; one entry of each would make a plan. In ascending order.
    #[error("no entry of {}", minors(.0))]
    MissingMinors(Vec<(u64, u64)>),
    /// The target, or what runs, is no version.
    #[error("{0} is not a version")]
    Unparsable(String),
    /// The target is lower than what the control plane runs, or the same version in another spelling.
    #[error("{target} is not higher than {control_plane}")]
    NotHigher {
        /// The target.
        target: String,
        /// The control plane's version.
        control_plane: String,
    },
    /// Something runs in another major than the target.
    #[error("{target} is in another major than {running}")]
    AnotherMajor {
        /// The target.
        target: String,
        /// What runs.
        running: String,
    },
    /// Build tags of one version that neither their numbers nor the list order.
    #[error("nothing orders {target} and {control_plane}; list both")]
    NoBuildOrder {
        /// The target.
        target: String,
        /// The control plane's version.
        control_plane: String,
    },
    /// A worker set is above the version that it would have to take next.
    #[error("workers at {worker} are above {step}, their next step")]
    WorkerAbove {
        /// The worker set's version.
        worker: String,
        /// The step.
        step: String,
    },
    /// A worker set is more than three minors behind the control plane, which Cluster API cannot make up for.
    #[error("workers at {worker} are too far behind {control_plane}")]
    WorkerTooFarBehind {
        /// The worker set's version.
        worker: String,
        /// The control plane's version.
        control_plane: String,
    },
    /// More hops than a Cluster's status holds.
    #[error("{0} hops are more than the 32 that fit into a Cluster's status")]
    TooManyHops(u64),
    /// A plan begins well and has no continuation that Cluster API accepts, as with textual build tags and workers.
    #[error("no continuation at {} with workers at {}", .0.at.control_plane, workers(.0))]
    Stuck(Trap),
}

impl NoRecommendation {
    /// The stable name.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::MissingMinors(_) => "missing-minors",
            Self::Unparsable(_) => "unparsable",
            Self::NotHigher { .. } => "not-higher",
            Self::AnotherMajor { .. } => "another-major",
            Self::NoBuildOrder { .. } => "no-build-order",
            Self::WorkerAbove { .. } => "worker-above",
            Self::WorkerTooFarBehind { .. } => "worker-too-far-behind",
            Self::TooManyHops(_) => "too-many-hops",
            Self::Stuck(_) => "stuck",
        }
    }
}

fn minors(minors: &[(u64, u64)]) -> String {
    minors.iter().map(|(major, minor)| format!("v{major}.{minor}")).collect::<Vec<_>>().join(", ")
}

fn workers(trap: &Trap) -> String {
    trap.at.workers.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The plan for a Cluster whose class lists `list`: from what runs to `target`, which need not be listed.
///
/// # Errors
/// Why there is none, with the fewest minors that are missing if entries would make one.
pub fn recommend<'a>(
    list: &'a [Known<'a>],
    target: &'a Known<'a>,
    from: &'a Running,
) -> Result<Plan<'a>, NoRecommendation> {
    let road = Road::new(list, target)?;
    let plan = draft(&road, from)?;
    // Cluster API plans anew in every state, and asks again: a plan without a continuation is none.
    Walk { road: &road, done: BTreeSet::new() }.visit(from)?;
    Ok(plan)
}

/// What is the same in every state of one chain.
struct Road<'a> {
    list: &'a [Known<'a>],
    target: &'a str,
    to: KubernetesVersion,
    /// The best hop of each minor below the target's, by minor.
    hops: BTreeMap<u64, (&'a str, &'a KubernetesVersion)>,
}

impl<'a> Road<'a> {
    /// One look at each entry. Entries that no Cluster could name are no hops.
    fn new(list: &'a [Known<'a>], target: &'a Known<'a>) -> Result<Self, NoRecommendation> {
        let to = KubernetesVersion::parse_strict(target.text)
            .map_err(|_| NoRecommendation::Unparsable(target.text.to_owned()))?;
        let mut hops: BTreeMap<u64, (&str, &KubernetesVersion)> = BTreeMap::new();
        for entry in list {
            let Some(version) = entry.version.as_ref() else { continue };
            if version.major() != to.major() || version.minor() >= to.minor() {
                continue;
            }
            let best = hops.get(&version.minor()).is_none_or(|(_, known)| better(version, known));
            if best && KubernetesVersion::parse_strict(entry.text).is_ok() {
                hops.insert(version.minor(), (entry.text, version));
            }
        }
        Ok(Self { list, target: target.text, to, hops })
    }
}

/// The plan for one state, without a look at those behind it.
fn draft<'a>(road: &Road<'a>, from: &'a Running) -> Result<Plan<'a>, NoRecommendation> {
    let Road { target, to, .. } = road;
    let parsed =
        |text: &str| KubernetesVersion::parse_lenient(text).map_err(|_| NoRecommendation::Unparsable(text.to_owned()));
    let current = parsed(&from.control_plane)?;
    let pending: Vec<_> = from.workers.iter().filter(|text| !text.is_empty() && text.as_str() != *target).collect();
    let pending: Vec<_> = pending.into_iter().map(|text| Ok((text, parsed(text)?))).collect::<Result<_, _>>()?;
    let running = std::iter::once((&from.control_plane, &current)).chain(pending.iter().map(|(text, it)| (*text, it)));
    for (text, version) in running {
        if version.major() != to.major() {
            let (target, running) = ((*target).to_owned(), text.clone());
            return Err(NoRecommendation::AnotherMajor { target, running });
        }
    }
    let hops = if from.control_plane == *target { Vec::new() } else { hops(road, from, &current)? };
    let workers = worker_steps(&hops, road, from, &current, &pending)?;
    Ok(Plan { control_plane: hops, workers })
}

/// The control plane's hops: one of each minor on the way, and the target.
fn hops<'a>(road: &Road<'a>, from: &Running, current: &KubernetesVersion) -> Result<Vec<&'a str>, NoRecommendation> {
    let Road { list, target, to, hops } = road;
    let (wanted, control_plane) = ((*target).to_owned(), from.control_plane.clone());
    match to.cmp_precedence(current) {
        Ordering::Less => return Err(NoRecommendation::NotHigher { target: wanted, control_plane }),
        Ordering::Equal => {
            let place = |text: &str| list.iter().position(|entry| entry.text == text);
            let order = to.cmp_with_build(current).or_else(|| Some(place(target)?.cmp(&place(&control_plane)?)));
            match order {
                Some(Ordering::Greater) => {}
                Some(Ordering::Less | Ordering::Equal) => {
                    return Err(NoRecommendation::NotHigher { target: wanted, control_plane });
                }
                None => return Err(NoRecommendation::NoBuildOrder { target: wanted, control_plane }),
            }
        }
        Ordering::Greater => {}
    }
    let between = current.minor().saturating_add(1)..to.minor();
    let count = to.minor().saturating_sub(current.minor()).max(1);
    if count > MOST_HOPS {
        return Err(NoRecommendation::TooManyHops(count));
    }
    let missing: Vec<_> = between.clone().filter(|minor| !hops.contains_key(minor)).collect();
    if !missing.is_empty() {
        return Err(NoRecommendation::MissingMinors(missing.into_iter().map(|minor| (to.major(), minor)).collect()));
    }
    let on_the_way = between.filter_map(|minor| hops.get(&minor)).map(|(text, _)| *text);
    Ok(on_the_way.chain([*target]).collect())
}

/// Whether `version` is the better hop of a minor than `known`, which is before it in the list: a release before a
/// pre-release, the newest patch, and of build tags without an order the later one.
fn better(version: &KubernetesVersion, known: &KubernetesVersion) -> bool {
    match (version.is_pre_release(), known.is_pre_release()) {
        (false, true) => true,
        (true, false) => false,
        _ => version.cmp_with_build(known).is_none_or(Ordering::is_gt),
    }
}

/// The fewest steps of the workers. Each is as late as the skew lets it be, so as high as it can be.
fn worker_steps<'a>(
    hops: &[&'a str],
    road: &Road<'a>,
    from: &'a Running,
    current: &KubernetesVersion,
    pending: &[(&String, KubernetesVersion)],
) -> Result<Vec<&'a str>, NoRecommendation> {
    let Road { target, to, .. } = road;
    let lowest = pending.iter().min_by(|(_, a), (_, b)| a.cmp_precedence(b));
    let Some((worker, lowest)) = lowest else { return Ok(Vec::new()) };
    let place = |at: u64| match at.checked_sub(1) {
        None => Some(from.control_plane.as_str()),
        Some(hop) => usize::try_from(hop).ok().and_then(|hop| hops.get(hop)).copied(),
    };
    let (first, last) = (current.minor(), to.minor());
    let (mut steps, mut minor) = (Vec::new(), lowest.minor());
    loop {
        let reach = minor.saturating_add(allowed_behind(to.major(), minor));
        if reach >= last {
            break;
        }
        // The control plane may go as far as this before the workers have to follow it there.
        let at = reach.checked_sub(first);
        let step = match at {
            Some(at) => place(at),
            // Behind already: to where the control plane is, if Cluster API takes so long a step.
            None if first - minor <= allowed_behind(to.major(), THREE_BEHIND_SINCE) => place(0),
            None => None,
        };
        let next = reach.max(first);
        let Some(step) = step.filter(|_| next > minor) else {
            let (worker, control_plane) = ((*worker).clone(), from.control_plane.clone());
            return Err(NoRecommendation::WorkerTooFarBehind { worker, control_plane });
        };
        steps.push(step);
        minor = next;
    }
    if steps.last() != Some(target) {
        steps.push(target);
    }
    if let Some(step) = steps.first() {
        let first_step = KubernetesVersion::parse_lenient(step).unwrap_or_else(|_| to.clone());
        let above = pending.iter().find(|(_, worker)| worker.cmp_with_build(&first_step) == Some(Ordering::Greater));
        if let Some((worker, _)) = above {
            return Err(NoRecommendation::WorkerAbove { worker: (*worker).clone(), step: (*step).to_owned() });
        }
    }
    Ok(steps)
}

/// How many minors a kubelet of this minor may be behind the control plane.
fn allowed_behind(major: u64, minor: u64) -> u64 {
    if major == 1 && minor < THREE_BEHIND_SINCE { 2 } else { 3 }
}

/// A look at every state that can follow, each with the plan that would be recommended there.
struct Walk<'a> {
    road: &'a Road<'a>,
    done: BTreeSet<Running>,
}

impl Walk<'_> {
    fn visit(&mut self, state: &Running) -> Result<(), NoRecommendation> {
        if !self.done.insert(state.clone()) {
            // Every step goes up, so no chain comes back to a state.
            return Ok(());
        }
        let stuck = |why| NoRecommendation::Stuck(Trap { at: state.clone(), why });
        let Plan { control_plane, workers } = draft(self.road, state)?;
        let source = Source::Given { control_plane: &control_plane, workers: &workers };
        // The release makes no difference to a plan that is given.
        let (release, target) = (Release::V1_13, self.road.target);
        let upgrade = Upgrade { release, source, target, provider: Provider::Other };
        for next in upgrade.next(state).map_err(stuck)? {
            self.visit(&next)?;
        }
        Ok(())
    }
}
