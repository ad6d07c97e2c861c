//! Carrying a plan out: does every order of events end at the target?
//!
//! Cluster API plans anew in every reconcile, so a first valid plan proves nothing about the later ones: with unordered
//! build tags the plan that was fine before the first hop has no continuation after it. So each state that the controller
//! can pass is planned for: every hop of the control plane, every worker set that moves before another.
//!
//! Two comparisons of upstream meet here. Whether something is still to be done is decided by the raw texts, what the plan
//! is by the parsed versions; where they disagree (`v1.31.0+1` to `v1.31.0+001`) there is no plan for what is to be done.
//!
//! Source: Cluster API v1.14 `exp/topology/desiredstate/desired_state.go` (`computeControlPlaneVersion`,
//! `computeMachineDeploymentVersion`).

use std::{borrow::Cow, cmp::Ordering, collections::BTreeSet};

use super::{Known, NoPlan, Plan, Release, Source, are_ordered, min_workers, plan};
use crate::{model::Provider, version::KubernetesVersion};

/// More states than this are not followed: real chains pass a few per hop, those with many unordered build tags more.
const MOST_STATES: usize = 1_000;

/// What runs: the control plane's version and the versions of the worker sets, as texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// `spec.version` of the control plane object.
    pub control_plane: String,
    /// The distinct template versions of the topology's worker sets, empty ones left out.
    pub workers: BTreeSet<String>,
}

/// Where a chain of upgrades ends that does not end at its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// The state that it gets no further from.
    pub at: Running,
    /// Why.
    pub why: DeadEnd,
}

/// Why a state is a dead end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadEnd {
    /// Cluster API has no plan, and says so.
    NoPlan(NoPlan),
    /// The control plane is to move, and the plan says nothing of it.
    NoControlPlaneStep,
    /// Workers are to move, and the plan says nothing of them.
    NoWorkerStep,
    /// The next step is in another major, which no control plane provider carries out.
    AnotherMajor {
        /// The step.
        step: String,
    },
    /// The next step is a text that the object it is written to refuses.
    MalformedStep {
        /// The step.
        step: String,
    },
    /// Everybody waits for somebody.
    Waiting,
    /// The chain comes back to a state that it had left.
    Circle,
    /// The chain has more states than are followed.
    TooLong,
}

/// What Cluster API is to carry out, and by what.
#[derive(Clone, Copy, Debug)]
pub struct Upgrade<'a> {
    /// The release that plans.
    pub release: Release,
    /// Where its plans come from.
    pub source: Source<'a>,
    /// The topology's version.
    pub target: &'a str,
    /// Whose control plane it is.
    pub provider: Provider,
}

impl Upgrade<'_> {
    /// Follows every order of events from `from` to the target.
    ///
    /// # Errors
    /// The first dead end found, if there is one.
    pub fn follow(&self, from: &Running) -> Result<(), Trap> {
        self.walk().visit(from.clone())
    }

    /// The states that can come directly after `from`; none at the target.
    ///
    /// # Errors
    /// If `from` is a dead end.
    pub fn next(&self, from: &Running) -> Result<BTreeSet<Running>, DeadEnd> {
        self.walk().next(from, Orders::All)
    }

    fn walk(&self) -> Walk<'_> {
        let Self { release, source, target, provider } = *self;
        let target = Known::new(target);
        Walk { release, source, target, provider, done: BTreeSet::new(), path: BTreeSet::new() }
    }
}

/// [`Upgrade::follow`], for a control plane of any provider.
///
/// # Errors
/// The first dead end found, if there is one.
pub fn simulate(release: Release, source: Source<'_>, target: &str, from: &Running) -> Result<(), Trap> {
    Upgrade { release, source, target, provider: Provider::Other }.follow(from)
}

/// Which of the orders of events are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Orders {
    /// All.
    All,
    /// Where the workers' versions have an order, those in which the lowest moves first. A plan depends on the lowest alone, and
    /// in these orders each of the versions is the lowest once, so no other order meets a plan that they do not meet. Else all.
    Telling,
}

struct Walk<'a> {
    release: Release,
    source: Source<'a>,
    target: Known<'a>,
    provider: Provider,
    /// States from which every order is known to arrive.
    done: BTreeSet<Running>,
    /// The states that lead to the one at hand.
    path: BTreeSet<Running>,
}

impl Walk<'_> {
    fn visit(&mut self, state: Running) -> Result<(), Trap> {
        if self.done.contains(&state) {
            return Ok(());
        }
        let trap = |why| Trap { at: state.clone(), why };
        if self.path.contains(&state) {
            return Err(trap(DeadEnd::Circle));
        }
        if self.done.len() + self.path.len() >= MOST_STATES {
            return Err(trap(DeadEnd::TooLong));
        }
        let next = self.next(&state, Orders::Telling).map_err(trap)?;
        self.path.insert(state.clone());
        for state in next {
            self.visit(state)?;
        }
        self.path.remove(&state);
        self.done.insert(state);
        Ok(())
    }

    /// The states that can follow; none if all is at the target.
    fn next(&self, state: &Running, orders: Orders) -> Result<BTreeSet<Running>, DeadEnd> {
        let control_plane = Known::new(&state.control_plane);
        let workers: Vec<_> = state.workers.iter().map(|text| Known::new(text)).collect();
        let ordered = || are_ordered(workers.iter().filter_map(|worker| worker.version.as_ref()));
        let orders = if orders == Orders::Telling && !ordered() { Orders::All } else { orders };
        let mut next = BTreeSet::new();
        for lowest in min_workers(&control_plane, &workers).map_err(DeadEnd::NoPlan)? {
            let plan = plan(self.release, self.source, &self.target, &control_plane, lowest.as_ref())
                .map_err(DeadEnd::NoPlan)?;
            next.extend(self.steps(state, &plan, orders)?);
        }
        Ok(next)
    }

    fn steps(&self, state: &Running, plan: &Plan<'_>, orders: Orders) -> Result<BTreeSet<Running>, DeadEnd> {
        let target = self.target.text;
        let waits_for_workers = plan.workers.first().is_some_and(|step| *step == state.control_plane);
        if state.control_plane != target && !waits_for_workers {
            let hop = plan.control_plane.first().ok_or(DeadEnd::NoControlPlaneStep)?;
            let control_plane = self.stored_hop(hop, &state.control_plane)?.into_owned();
            return Ok(BTreeSet::from([Running { control_plane, ..state.clone() }]));
        }
        let pending: Vec<_> = state.workers.iter().filter(|worker| *worker != target).collect();
        if pending.is_empty() {
            return if waits_for_workers { Err(DeadEnd::Waiting) } else { Ok(BTreeSet::new()) };
        }
        let step = plan.workers.first().ok_or(DeadEnd::NoWorkerStep)?;
        let step = stored_strictly(step)?;
        let moving = pending.into_iter().filter(|worker| **worker != *step);
        if orders == Orders::Telling {
            let value = |text: &str| KubernetesVersion::parse_lenient(text).ok();
            let lowest = moving.min_by(|a, b| match (value(a), value(b)) {
                (Some(a), Some(b)) => a.cmp_with_build(&b).unwrap_or(Ordering::Equal),
                _ => Ordering::Equal,
            });
            let lowest = lowest.ok_or(DeadEnd::Waiting)?;
            let mut workers = state.workers.clone();
            workers.remove(lowest);
            workers.insert(step.into_owned());
            return Ok(BTreeSet::from([Running { workers, ..state.clone() }]));
        }
        let mut next = BTreeSet::new();
        for worker in moving {
            // Several sets may share a version: some of them have moved, or all.
            let mut some = state.workers.clone();
            some.insert(step.clone().into_owned());
            let mut all = some.clone();
            all.remove(worker);
            next.extend(
                [some, all]
                    .into_iter()
                    .filter(|workers| *workers != state.workers)
                    .map(|workers| Running { control_plane: state.control_plane.clone(), workers }),
            );
        }
        if next.is_empty() { Err(DeadEnd::Waiting) } else { Ok(next) }
    }
    /// The text that the control plane object holds once `hop` was written to it.
    fn stored_hop<'t>(&self, hop: &'t str, current: &str) -> Result<Cow<'t, str>, DeadEnd> {
        let major = |text| KubernetesVersion::parse_lenient(text).ok().map(|version| version.major());
        if major(hop) != major(current) {
            return Err(DeadEnd::AnotherMajor { step: hop.to_owned() });
        }
        match self.provider {
            Provider::Kubeadm => stored_strictly(hop),
            Provider::Other => Ok(Cow::Borrowed(hop)),
        }
    }
}

/// The text that an object holds whose webhook puts a missing `v` in front and refuses what is no version then:
/// `KubeadmControlPlane`, `MachineDeployment` and `MachinePool`.
fn stored_strictly(step: &str) -> Result<Cow<'_, str>, DeadEnd> {
    let stored = KubernetesVersion::with_default_v(step);
    match KubernetesVersion::parse_strict(&stored) {
        Ok(_) => Ok(stored),
        Err(_) => Err(DeadEnd::MalformedStep { step: step.to_owned() }),
    }
}
