//! The plan that we recommend: from any list and what runs to the hops that every Cluster API since 1.12 accepts, or to
//! what is in the way.
//!
//! Cluster API's own planners stop at lists and states that have a way: at targets that differ in the build tag alone, at
//! workers that have to catch up first, at kubelets before 1.25. An extension may answer better, but what it answers is
//! checked, and it is asked anew in every state on the way. So a plan is given only where each of those states, in every
//! order of events, again has one that Cluster API's validation lets pass; `docs/design/0008-recommended-planner.md`
//! lists the properties and what proves them.
//!
//! The hops are the entries of the list that a Cluster could name, and the target. Of each minor between control plane
//! and target there is one: the newest release, else the newest pre-release. Workers wait as long as the skew policy
//! lets them and then catch up with the control plane, so they take the fewest steps.
//!
//! Sources: the version skew policy of Kubernetes (<https://kubernetes.io/releases/version-skew-policy/>), which lets a
//! kubelet be three minors older than the API server since 1.28 (KEP-3935), but one before 1.25 only two; the validation
//! of plans in Cluster API `exp/topology/desiredstate/upgrade_plan.go` (see [`plan`](super::plan)); the limit of 32 in the
//! CRD's `status.controlPlane.upgradePlan` (1.14).

mod obstacle;

use std::cmp::Ordering;

pub use self::obstacle::{Minor, NoRecommendation, Obstacle};

use super::{Known, Plan, Running};
use crate::version::KubernetesVersion;

/// The status of a Cluster holds no longer plan.
const MOST_HOPS: u64 = 32;

/// Recommends a plan from what runs to `target`, over entries of `list`.
///
/// `list` may be in any order and hold anything, and need not hold `target`; the workers of `from` are those of the worker
/// sets, or the lowest alone, which is all that an extension is told. The texts of the plan are entries of `list`, `target`,
/// and for the workers also the control plane's. Both parts of the plan are empty if there is nothing to do; that of the
/// workers is empty without workers that have to move.
///
/// Costs one pass over `list`, one strict parse for each entry that is better than what was seen of its minor, and the
/// plan's allocations.
///
/// # Errors
/// The first [`Obstacle`] found, in the order of its variants but for the workers', which are looked at one after the
/// other. Obstacles that no addition to `list` removes come before missing minors, so minors are named only if an entry
/// for each of them makes a plan.
pub fn recommend<'a>(list: &[Known<'a>], target: &Known<'a>, from: &'a Running) -> Result<Plan<'a>, NoRecommendation> {
    let control_plane = Known::new(&from.control_plane);
    // Cluster API passes over sets without a version too.
    let workers = from.workers.iter().filter(|worker| !worker.is_empty());
    let workers: Vec<_> = workers.map(|worker| Known::new(worker)).collect();
    let (to, current) = (parsed(target)?, parsed(&control_plane)?);
    let sets = workers.iter().map(|worker| Ok(Set { text: worker.text, version: parsed(worker)? }));
    let sets: Vec<_> = sets.collect::<Result<_, _>>()?;
    let moving = sets.iter().any(|set| set.text != target.text);
    if control_plane.text == target.text && !moving {
        return Ok(Plan::default());
    }
    let way = Way { list, target, to, control_plane: &control_plane, from: current, sets: &sets };
    way.check_target()?;
    sets.iter().try_for_each(|set| way.check_set(set))?;
    let up = to.minor().saturating_sub(current.minor());
    if up > MOST_HOPS {
        return Err(way.obstacle(Obstacle::TooManyHops));
    }
    let lowest = if moving { sets.iter().min_by_key(|set| set.version.minor()) } else { None };
    way.plan(up, lowest)
}

fn parsed<'k>(known: &'k Known<'_>) -> Result<&'k KubernetesVersion, NoRecommendation> {
    known.version.as_ref().ok_or_else(|| NoRecommendation::new(Obstacle::Unparsable, known.text, ""))
}

/// How many minors a kubelet may be behind the API server.
fn most_behind(major: u64, minor: u64) -> u64 {
    if (major, minor) < (1, 25) { 2 } else { 3 }
}

/// What a Cluster can name. The lenient parser has let it pass already.
fn is_strict(text: &str) -> bool {
    KubernetesVersion::parse_strict(text).is_ok()
}

/// Worker sets that run one version.
struct Set<'a> {
    text: &'a str,
    version: &'a KubernetesVersion,
}

/// The question, checked step by step.
struct Way<'w, 'a> {
    list: &'w [Known<'a>],
    target: &'w Known<'a>,
    to: &'w KubernetesVersion,
    control_plane: &'w Known<'a>,
    from: &'w KubernetesVersion,
    sets: &'w [Set<'w>],
}

impl<'a> Way<'_, 'a> {
    fn obstacle(&self, obstacle: Obstacle) -> NoRecommendation {
        NoRecommendation::new(obstacle, self.control_plane.text, self.target.text)
    }

    /// Cluster API's comparison; where it knows no order, the place in the list. The first place, as an entry may hide
    /// behind unordered ones and come twice.
    fn order(&self, a: &KubernetesVersion, b: &KubernetesVersion) -> Option<Ordering> {
        a.cmp_with_build(b).or_else(|| Some(self.place(a)?.cmp(&self.place(b)?)))
    }

    fn place(&self, version: &KubernetesVersion) -> Option<usize> {
        self.list.iter().position(|entry| entry.version.as_ref().is_some_and(|known| known.same_text(version)))
    }

    fn check_target(&self) -> Result<(), NoRecommendation> {
        let not = |obstacle| Err(self.obstacle(obstacle));
        if !is_strict(self.target.text) {
            return not(Obstacle::TargetNotStrict);
        }
        if self.from.major() != self.to.major() {
            return not(Obstacle::AnotherMajor);
        }
        if self.control_plane.text == self.target.text {
            return Ok(());
        }
        match self.order(self.from, self.to) {
            Some(Ordering::Less) => Ok(()),
            // Cluster API compares values where it plans, and texts where it asks whether something is to be done.
            Some(Ordering::Equal) => not(Obstacle::OtherSpelling),
            Some(Ordering::Greater) => not(Obstacle::TargetLower),
            None => not(Obstacle::UnorderedBuildTags),
        }
    }

    fn check_set(&self, set: &Set<'_>) -> Result<(), NoRecommendation> {
        let (version, here) = (set.version, self.from.minor());
        let not = |obstacle, against| Err(NoRecommendation::new(obstacle, set.text, against));
        if version.major() != self.to.major() {
            return not(Obstacle::AnotherMajor, self.target.text);
        }
        let to_target = version.cmp_with_build(self.to);
        if to_target == Some(Ordering::Greater) {
            return not(Obstacle::WorkerAboveTarget, self.target.text);
        }
        if version.minor() > here {
            return not(Obstacle::WorkerAboveControlPlane, self.control_plane.text);
        }
        if here - version.minor() > most_behind(version.major(), version.minor()) {
            return not(Obstacle::WorkerTooFarBehind, self.control_plane.text);
        }
        match to_target {
            _ if set.text == self.target.text => Ok(()),
            Some(Ordering::Equal) => not(Obstacle::OtherSpelling, self.target.text),
            // When the control plane is at the target, Cluster API's validation knows no other version to order by, and
            // no version lies between two tags without an order.
            None => not(Obstacle::WorkerBuildTag, self.target.text),
            Some(_) => Ok(()),
        }
    }

    /// The plan over `up` minors, for sets of which `lowest` is the lowest that has to move.
    fn plan(&self, up: u64, lowest: Option<&Set<'_>>) -> Result<Plan<'a>, NoRecommendation> {
        let here = self.from.minor();
        let reach = |minor: u64| minor.saturating_add(most_behind(self.to.major(), minor));
        let waits = lowest.filter(|set| up > 0 && reach(set.version.minor()) == here);
        // The first hop, if it is one within the control plane's own minor that only the workers need.
        let (mut rest, mut missing) = (None, Vec::new());
        if waits.is_some() && !self.is_rest(self.control_plane) {
            rest =
                self.newest(|entry, version| version.minor() == here && self.is_above(version) && self.is_rest(entry));
            if rest.is_none() {
                missing.push(self.minor(here));
            }
        }
        if up + u64::from(rest.is_some() || !missing.is_empty()) > MOST_HOPS {
            return Err(self.obstacle(Obstacle::TooManyHops));
        }
        let between = self.newest_of_each(here, up);
        let numbered = between.iter().zip(here.saturating_add(1)..);
        missing.extend(numbered.filter(|(hop, _)| hop.is_none()).map(|(_, minor)| self.minor(minor)));
        if !missing.is_empty() {
            let no = match waits.filter(|_| missing.iter().any(|minor| minor.minor == here)) {
                Some(set) => NoRecommendation::new(Obstacle::MissingStep, set.text, self.control_plane.text),
                None => self.obstacle(Obstacle::MissingMinors),
            };
            return Err(NoRecommendation { missing, ..no });
        }
        let arrived = self.control_plane.text == self.target.text;
        let end = (!arrived).then_some(self.target.text);
        let hops: Vec<&str> =
            rest.into_iter().chain(between.into_iter().flatten()).map(|hop| hop.text).chain(end).collect();
        let mut steps = Vec::new();
        if let Some(set) = lowest {
            let place_of = |minor: u64| match usize::try_from(minor - here) {
                Ok(0) => Some(rest.map_or(self.control_plane.text, |hop| hop.text)),
                Ok(above) => hops.get(above - 1 + usize::from(rest.is_some())).copied(),
                Err(_) => None,
            };
            let mut at = reach(set.version.minor());
            while at < self.to.minor() {
                steps.extend(place_of(at));
                at = reach(at);
            }
            steps.push(self.target.text);
        }
        Ok(Plan { control_plane: hops, workers: steps })
    }

    fn minor(&self, minor: u64) -> Minor {
        Minor { major: self.to.major(), minor }
    }

    fn is_above(&self, version: &KubernetesVersion) -> bool {
        self.order(self.from, version) == Some(Ordering::Less)
    }

    /// Whether the workers can all be told to move to `at`, which is in the control plane's minor. Cluster API tells every
    /// set that is elsewhere, those above `at` too.
    fn is_rest(&self, at: &Known<'_>) -> bool {
        let Some(version) = at.version.as_ref() else { return false };
        let fits = |set: &Set<'_>| self.order(set.version, version).is_some_and(Ordering::is_le);
        is_strict(at.text) && self.sets.iter().all(fits)
    }

    /// The newest entry of which `fits` holds.
    fn newest(&self, fits: impl Fn(&Known<'a>, &KubernetesVersion) -> bool) -> Option<&Known<'a>> {
        let mut best = None;
        for (entry, version) in self.entries() {
            if is_newer(version, best.map(|(_, version)| version)) && fits(entry, version) {
                best = Some((entry, version));
            }
        }
        best.map(|(entry, _)| entry)
    }

    /// The newest entry of each minor above `here`, up to but without that of the target, which is `up` above.
    fn newest_of_each(&self, here: u64, up: u64) -> Vec<Option<&Known<'a>>> {
        let mut best = vec![None; usize::try_from(up.saturating_sub(1)).unwrap_or_default()];
        for (entry, version) in self.entries() {
            let above = version.minor().checked_sub(here).and_then(|above| above.checked_sub(1));
            let Some(slot) = above.and_then(|above| best.get_mut(usize::try_from(above).ok()?)) else { continue };
            if is_newer(version, slot.map(|(_, version)| version)) && is_strict(entry.text) {
                *slot = Some((entry, version));
            }
        }
        best.into_iter().map(|slot| slot.map(|(entry, _)| entry)).collect()
    }

    /// The entries of the target's major, the last first: in a list that ascends, the first seen of a minor is the newest.
    fn entries(&self) -> impl Iterator<Item = (&Known<'a>, &KubernetesVersion)> {
        let parsed = self.list.iter().rev().filter_map(|entry| Some((entry, entry.version.as_ref()?)));
        parsed.filter(|(_, version)| version.major() == self.to.major())
    }
}

/// Whether `version` is preferred to `best`, which comes later in the list: a release to a pre-release, then the higher one.
fn is_newer(version: &KubernetesVersion, best: Option<&KubernetesVersion>) -> bool {
    let Some(best) = best else { return true };
    match best.is_pre_release().cmp(&version.is_pre_release()) {
        Ordering::Equal => version.cmp_with_build(best) == Some(Ordering::Greater),
        release_first => release_first.is_gt(),
    }
}
