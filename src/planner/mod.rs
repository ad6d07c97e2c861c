//! The upgrade planner of Cluster API, emulated per release: from what runs and a target to the hops, or to why there are
//! none.
//!
//! Cluster API plans in its reconciler, long after admission, and anew in every reconcile. To know at admission whether a
//! change can be carried out, the very plan that the *installed* release will make is computed here, its faults included.
//! Pure: no clock, no I/O, no order of maps.
//!
//! - [`sources`]: where a plan comes from (one minor up, the class's list, an extension);
//! - [`validation`]: how Cluster API completes and checks it;
//! - [`Upgrade`]: what becomes of it, state by state;
//! - [`Installed`]: which release plans;
//! - [`recommend`]: beside the emulation, the plan that an extension should return;
//! - this file: the frame around all.
//!
//! Source: Cluster API `exp/topology/desiredstate/upgrade_plan.go` at v1.12.3, v1.12.5, v1.13.6 and v1.14.2.

mod installed;
mod recommended;
mod simulation;
mod sources;
mod validation;

use std::{cmp::Ordering, fmt};

pub use self::{
    installed::Installed,
    recommended::{Minor, NoRecommendation, Obstacle, recommend},
    simulation::{DeadEnd, Running, Trap, Upgrade, simulate},
};

use crate::version::KubernetesVersion;

/// The releases of Cluster API whose planners differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 1.12.0 to 1.12.3: a target in the control plane's own minor gets an empty plan (kubernetes-sigs/cluster-api#13462).
    V1_12_0,
    /// 1.12.4 and later 1.12: plans from the list by position, so targets that differ in the build tag alone have a plan.
    V1_12_4,
    /// 1.13 and 1.14: entries that differ from the control plane in the build tag alone are passed over.
    V1_13,
}

/// Where the plan comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Neither list nor extension: the target itself, at most one minor up.
    OneMinor,
    /// `spec.kubernetesVersions` of the class, in its order.
    List(&'a [Known<'a>]),
    /// What an extension answered.
    Given {
        /// The hops of the control plane.
        control_plane: &'a [&'a str],
        /// The hops of the workers; empty to let Cluster API choose them.
        workers: &'a [&'a str],
    },
}

/// A version as somebody wrote it, parsed once. Cluster API compares some things by the text and some by the value.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// The text.
    pub text: &'a str,
    /// What the lenient parser makes of it, if anything.
    pub version: Option<KubernetesVersion>,
}

impl<'a> Known<'a> {
    /// Parses `text` leniently.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, version: KubernetesVersion::parse_lenient(text).ok() }
    }

    fn version(&self) -> Result<&KubernetesVersion, NoPlan> {
        self.version.as_ref().ok_or_else(|| NoPlan::unparsable(self.text))
    }
}

/// The hops that are still ahead, the target last. Empty if there is nothing to do, and in the cases where Cluster API
/// forgets to say that there is no way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan<'a> {
    /// The versions that the control plane will take.
    pub control_plane: Vec<&'a str>,
    /// The versions that the workers will take.
    pub workers: Vec<&'a str>,
}

/// Why Cluster API has no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {at}")]
pub struct NoPlan {
    /// The kind of reason.
    pub reason: Reason,
    /// The version that causes it.
    pub at: String,
    /// The version that it follows or should have been, where there is one.
    pub after: Option<String>,
}

impl NoPlan {
    fn new(reason: Reason, at: &str, after: Option<&dyn fmt::Display>) -> Self {
        Self { reason, at: at.to_owned(), after: after.map(ToString::to_string) }
    }

    fn unparsable(text: &str) -> Self {
        Self::new(Reason::Unparsable, text, None)
    }
}

/// The kinds of reasons, with stable names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A version that even the lenient parser refuses.
    Unparsable,
    /// No list and no extension, and the target is more than one minor away.
    MoreThanOneMinor,
    /// A step is not higher than the one before it.
    NotAscending,
    /// A step of the control plane is in neither the same nor the next minor.
    ControlPlaneSkipsMinor,
    /// The last step is not the target.
    DoesNotEndAtTarget,
    /// Steps for what is at the target already, or is not there.
    AlreadyThere,
    /// A step of the workers that the control plane does not take.
    WorkerNotInControlPlanePlan,
    /// Two build tags without an order, at least one of which the control plane's plan does not know.
    UnknownBuildOrder,
    /// The workers take two unordered build tags in another order than the control plane.
    BuildOrder,
    /// A step of the workers over more than three minors.
    WorkerSkew,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Unparsable,
        Self::MoreThanOneMinor,
        Self::NotAscending,
        Self::ControlPlaneSkipsMinor,
        Self::DoesNotEndAtTarget,
        Self::AlreadyThere,
        Self::WorkerNotInControlPlanePlan,
        Self::UnknownBuildOrder,
        Self::BuildOrder,
        Self::WorkerSkew,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unparsable => "unparsable",
            Self::MoreThanOneMinor => "more-than-one-minor",
            Self::NotAscending => "not-ascending",
            Self::ControlPlaneSkipsMinor => "cp-skips-minor",
            Self::DoesNotEndAtTarget => "plan-does-not-end-at-target",
            Self::AlreadyThere => "control-plane-already-there",
            Self::WorkerNotInControlPlanePlan => "worker-not-in-control-plane-plan",
            Self::UnknownBuildOrder => "unknown-build-order",
            Self::BuildOrder => "build-order",
            Self::WorkerSkew => "worker-skew",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Plans as `release` does, from a control plane and the version of the lowest worker set, `None` without workers.
///
/// # Errors
/// The reason that Cluster API would give. Not every dead end has one: see [`Plan`].
pub fn plan<'a>(
    release: Release,
    source: Source<'a>,
    target: &Known<'a>,
    control_plane: &Known<'a>,
    min_worker: Option<&KubernetesVersion>,
) -> Result<Plan<'a>, NoPlan> {
    let (to, from) = (target.version()?, control_plane.version()?);
    if from.same_text(to) && min_worker.is_none_or(|worker| worker.same_text(to)) {
        return Ok(Plan::default());
    }
    let drafted = sources::draft(release, source, target, control_plane)?;
    validation::complete(drafted, target, control_plane, min_worker)
}

/// The versions that Cluster API may take for the lowest of `workers`, which it scans in no fixed order.
///
/// A set replaces the lowest so far if it is lower, or if the order is unknown and it is not where the control plane is.
/// Without unordered build tags there is one answer; `[None]` without workers. Empty texts are passed over, as upstream.
///
/// # Errors
/// If a version does not parse.
pub fn min_workers(control_plane: &Known<'_>, workers: &[Known<'_>]) -> Result<Vec<Option<KubernetesVersion>>, NoPlan> {
    let from = control_plane.version()?;
    let mut distinct: Vec<&KubernetesVersion> = Vec::new();
    for worker in workers.iter().filter(|worker| !worker.text.is_empty()) {
        let version = worker.version()?;
        if !distinct.iter().any(|known| known.same_text(version)) {
            distinct.push(version);
        }
    }
    if distinct.is_empty() {
        return Ok(vec![None]);
    }
    if are_ordered(distinct.iter().copied()) {
        // The scan ends at the lowest, or at any of those that compare equal to it.
        let is_lowest = |version: &KubernetesVersion| {
            distinct.iter().all(|other| version.cmp_with_build(other).is_some_and(Ordering::is_le))
        };
        return Ok(distinct
            .iter()
            .filter(|version| is_lowest(version))
            .map(|version| Some((*version).clone()))
            .collect());
    }
    let replaces = |worker: usize, lowest: usize| {
        let (Some(worker), Some(lowest)) = (distinct.get(worker), distinct.get(lowest)) else { return false };
        match worker.cmp_with_build(lowest) {
            Some(order) => order.is_lt(),
            None => !worker.same_text(from),
        }
    };
    let ends = possible_ends(distinct.len().min(MOST_WORKER_VERSIONS), replaces);
    Ok(distinct.iter().zip(ends).filter(|(_, end)| *end).map(|(version, _)| Some((*version).clone())).collect())
}

/// Whether Cluster API knows an order between any two.
fn are_ordered<'v>(versions: impl Iterator<Item = &'v KubernetesVersion> + Clone) -> bool {
    let mut rest = versions;
    while let Some(version) = rest.next() {
        if rest.clone().any(|other| version.cmp_with_build(other).is_none()) {
            return false;
        }
    }
    true
}

/// More distinct versions than this, some of them without an order, among the workers of one Cluster are not followed through every order.
const MOST_WORKER_VERSIONS: usize = 12;

/// Which of `count` things can be left standing by a scan in some order, where the next one replaces what stands if
/// `replaces(next, standing)`.
fn possible_ends(count: usize, replaces: impl Fn(usize, usize) -> bool) -> Vec<bool> {
    // For each set of things scanned so far, as bits: the set of those that may stand, as bits.
    let mut standing = vec![0_u16; 1 << count];
    for first in 0..count {
        if let Some(slot) = standing.get_mut(1 << first) {
            *slot = 1 << first;
        }
    }
    for scanned in 1..standing.len() {
        let stand = standing.get(scanned).copied().unwrap_or_default();
        for next in (0..count).filter(|next| scanned & (1 << next) == 0) {
            for stands in (0..count).filter(|stands| stand & (1 << stands) != 0) {
                let left = if replaces(next, stands) { next } else { stands };
                if let Some(slot) = standing.get_mut(scanned | (1 << next)) {
                    *slot |= 1 << left;
                }
            }
        }
    }
    let end = standing.last().copied().unwrap_or_default();
    (0..count).map(|one| end & (1 << one) != 0).collect()
}
