//! How Cluster API checks a plan, and completes it with the steps of the workers.

use std::cmp::Ordering;

use super::{Known, NoPlan, Plan, Reason};
use crate::version::KubernetesVersion;

/// Workers may be at most this many minors behind in one step, whatever the Kubernetes version.
const MOST_MINORS: u64 = 3;

/// Checks `drafted` and gives the workers their steps if it has none.
///
/// One dead end passes silently: where the minors between the lowest worker and the target are not all known (or the
/// worker is above the target), upstream wraps an error that is not there and returns an empty plan for the workers.
pub(super) fn complete<'a>(
    drafted: Plan<'a>,
    target: &Known<'a>,
    control_plane: &Known<'a>,
    min_worker: Option<&KubernetesVersion>,
) -> Result<Plan<'a>, NoPlan> {
    let (to, from) = (target.version()?, control_plane.version()?);
    let control_plane_moves = from.cmp_with_build(to) != Some(Ordering::Equal);
    let hops = if control_plane_moves {
        check_control_plane(&drafted.control_plane, target, to, from)?
    } else if let Some(extra) = drafted.control_plane.first() {
        return Err(NoPlan::new(Reason::AlreadyThere, extra, Some(&target.text)));
    } else {
        Vec::new()
    };
    let known = KnownHops { from: control_plane.text, from_minor: from.minor(), hops };
    let Some(lowest) = min_worker.filter(|lowest| lowest.cmp_with_build(to) != Some(Ordering::Equal)) else {
        return match drafted.workers.first() {
            Some(extra) => Err(NoPlan::new(Reason::AlreadyThere, extra, Some(&target.text))),
            None => Ok(drafted),
        };
    };
    let Plan { control_plane: hops, mut workers } = drafted;
    if !hops.is_empty() {
        let foreign = workers.iter().find(|step| **step != control_plane.text && !hops.contains(step));
        if let Some(foreign) = foreign {
            return Err(NoPlan::new(Reason::WorkerNotInControlPlanePlan, foreign, None));
        }
    }
    if workers.is_empty() {
        match known.worker_steps(target, to, lowest) {
            Some(steps) => workers = steps,
            None => return Ok(Plan { control_plane: hops, workers }),
        }
    }
    check_workers(&workers, &known, target, to, lowest)?;
    Ok(Plan { control_plane: hops, workers })
}

/// The hops with their minors, if they ascend one minor at a time and end at the target.
fn check_control_plane<'a>(
    hops: &[&'a str],
    target: &Known<'a>,
    to: &KubernetesVersion,
    from: &KubernetesVersion,
) -> Result<Vec<(&'a str, u64)>, NoPlan> {
    let mut current = from.clone();
    let mut known = Vec::with_capacity(hops.len());
    for hop in hops {
        let next = KubernetesVersion::parse_lenient(hop).map_err(|_| NoPlan::unparsable(hop))?;
        // Build tags without an order pass as ascending.
        if next.cmp_with_build(&current).is_some_and(Ordering::is_le) {
            return Err(NoPlan::new(Reason::NotAscending, hop, Some(&current)));
        }
        if next.minor() != current.minor() && next.minor() != current.minor().wrapping_add(1) {
            return Err(NoPlan::new(Reason::ControlPlaneSkipsMinor, hop, Some(&current)));
        }
        known.push((*hop, next.minor()));
        current = next;
    }
    if current.cmp_with_build(to) != Some(Ordering::Equal) {
        return Err(NoPlan::new(Reason::DoesNotEndAtTarget, target.text, Some(&current)));
    }
    Ok(known)
}

/// What the steps of the workers are measured by: the control plane's version and its checked hops.
struct KnownHops<'a> {
    from: &'a str,
    from_minor: u64,
    hops: Vec<(&'a str, u64)>,
}

impl<'a> KnownHops<'a> {
    /// The version of this minor that is known; of several, the last.
    fn of_minor(&self, minor: u64) -> Option<&'a str> {
        let hop = self.hops.iter().rev().find(|(_, known)| *known == minor).map(|(hop, _)| *hop);
        hop.or_else(|| (self.from_minor == minor).then_some(self.from))
    }

    /// The place of a text in the order of the hops, 0 for where the control plane is.
    fn position(&self, text: &str) -> Option<usize> {
        let hop = self.hops.iter().rposition(|(hop, _)| *hop == text).map(|at| at + 1);
        hop.or_else(|| (self.from == text).then_some(0))
    }

    /// The fewest steps that keep the workers within three minors; `None` where upstream gives up in silence.
    fn worker_steps(
        &self,
        target: &Known<'a>,
        to: &KubernetesVersion,
        lowest: &KubernetesVersion,
    ) -> Option<Vec<&'a str>> {
        // With a worker above the target the difference wraps around in Go, and the walk ends at an unknown minor.
        let minors = to.minor().checked_sub(lowest.minor())?;
        let mut steps = Vec::new();
        let mut ahead = MOST_MINORS;
        while ahead < minors {
            steps.push(self.of_minor(lowest.minor().wrapping_add(ahead))?);
            ahead += MOST_MINORS;
        }
        if steps.last() != Some(&target.text) {
            steps.push(target.text);
        }
        Some(steps)
    }
}

fn check_workers(
    steps: &[&str],
    known: &KnownHops<'_>,
    target: &Known<'_>,
    to: &KubernetesVersion,
    lowest: &KubernetesVersion,
) -> Result<(), NoPlan> {
    let mut current = lowest.clone();
    for step in steps {
        let next = KubernetesVersion::parse_lenient(step).map_err(|_| NoPlan::unparsable(step))?;
        match next.cmp_with_build(&current) {
            Some(Ordering::Greater) => {}
            Some(Ordering::Less | Ordering::Equal) => {
                return Err(NoPlan::new(Reason::NotAscending, step, Some(&current)));
            }
            None => {
                let places = (known.position(step), known.position(&current.to_string()));
                match places {
                    (Some(next), Some(current)) if next >= current => {}
                    (Some(_), Some(_)) => return Err(NoPlan::new(Reason::BuildOrder, step, Some(&current))),
                    _ => return Err(NoPlan::new(Reason::UnknownBuildOrder, step, Some(&current))),
                }
            }
        }
        // Wrapping, as Go's unsigned difference: a lower minor of a higher major counts as too far.
        if next.minor().wrapping_sub(current.minor()) > MOST_MINORS {
            return Err(NoPlan::new(Reason::WorkerSkew, step, Some(&current)));
        }
        current = next;
    }
    if current.cmp_with_build(to) != Some(Ordering::Equal) {
        return Err(NoPlan::new(Reason::DoesNotEndAtTarget, target.text, Some(&current)));
    }
    Ok(())
}
