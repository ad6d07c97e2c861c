//! Where a plan comes from: one minor up, the class's list, or an extension.

use std::cmp::Ordering;

use super::{Known, NoPlan, Plan, Reason, Release, Source};
use crate::version::KubernetesVersion;

/// The plan before it is completed and checked. The list and the one-minor planner leave the workers to that.
pub(super) fn draft<'a>(
    release: Release,
    source: Source<'a>,
    target: &Known<'a>,
    control_plane: &Known<'a>,
) -> Result<Plan<'a>, NoPlan> {
    let (to, from) = (target.version()?, control_plane.version()?);
    Ok(match source {
        Source::Given { control_plane, workers } => {
            Plan { control_plane: control_plane.to_vec(), workers: workers.to_vec() }
        }
        Source::OneMinor => Plan { control_plane: one_minor(target, to, control_plane, from)?, workers: Vec::new() },
        // There is nothing to plan, whatever the list holds.
        Source::List(_) if from.same_text(to) => Plan::default(),
        Source::List(list) => {
            let taken = match release {
                Release::V1_12_0 | Release::V1_12_4 => by_position(list, to, from)?,
                Release::V1_13 => by_precedence(list, to, from)?,
            };
            Plan { control_plane: last_of_each_minor(release, &taken, to, from), workers: Vec::new() }
        }
    })
}

/// The target itself. Majors are not looked at, and a target below is returned too: validation refuses it.
fn one_minor<'a>(
    target: &Known<'a>,
    to: &KubernetesVersion,
    control_plane: &Known<'a>,
    from: &KubernetesVersion,
) -> Result<Vec<&'a str>, NoPlan> {
    if from.same_text(to) {
        return Ok(Vec::new());
    }
    // Wrapping, as Go's unsigned sum.
    if to.minor() > from.minor().wrapping_add(1) {
        return Err(NoPlan::new(Reason::MoreThanOneMinor, target.text, Some(&control_plane.text)));
    }
    Ok(vec![target.text])
}

type Taken<'a> = Vec<(&'a str, &'a KubernetesVersion)>;

/// 1.13 and later: the entries above the control plane, build tags ignored, up to the target.
fn by_precedence<'a>(
    list: &'a [Known<'a>],
    to: &KubernetesVersion,
    from: &KubernetesVersion,
) -> Result<Taken<'a>, NoPlan> {
    let mut taken = Vec::with_capacity(list.len());
    for entry in list {
        let version = entry.version()?;
        if version.cmp_precedence(from).is_le() {
            continue;
        }
        // "Order unknown" does not end the walk.
        if version.cmp_with_build(to) == Some(Ordering::Greater) {
            break;
        }
        taken.push((entry.text, version));
        if version.same_text(to) {
            break;
        }
    }
    Ok(taken)
}

/// 1.12: the entries behind the first that is at or above the control plane, up to the first at or above the target, that
/// one included; before such a start also entries of a higher minor.
fn by_position<'a>(
    list: &'a [Known<'a>],
    to: &KubernetesVersion,
    from: &KubernetesVersion,
) -> Result<Taken<'a>, NoPlan> {
    let (mut started, mut ended) = (false, false);
    let mut taken = Vec::with_capacity(list.len());
    for entry in list {
        let version = entry.version()?;
        if (started && !ended) || (!started && version.minor() > from.minor()) {
            taken.push((entry.text, version));
        }
        let at_or_above =
            |low: &KubernetesVersion| version.same_text(low) || low.cmp_with_build(version) == Some(Ordering::Less);
        started |= at_or_above(from);
        ended |= at_or_above(to);
    }
    Ok(taken)
}

/// Keeps the last entry of each minor. Entries of the control plane's own minor count only if the target is in it.
fn last_of_each_minor<'a>(
    release: Release,
    taken: &Taken<'a>,
    to: &KubernetesVersion,
    from: &KubernetesVersion,
) -> Vec<&'a str> {
    let mut hops: Vec<&str> = Vec::new();
    let mut minor = from.minor();
    if let Some((first, _)) = taken.first().filter(|_| to.minor() == minor && release != Release::V1_12_0) {
        hops.push(first);
    }
    for (text, version) in taken {
        if version.minor() > minor {
            hops.push(text);
        } else if version.minor() == minor
            && let Some(last) = hops.last_mut()
        {
            *last = text;
        }
        minor = version.minor();
    }
    hops
}
