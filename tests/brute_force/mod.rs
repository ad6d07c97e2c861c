//! The recommended planner's definition, carried out: every sequence of entries as hops, every sequence of those as steps
//! of the workers, each asked of Cluster API's validation in all releases and in every state that can follow.
//!
//! Versions are numbers into [`UNIVERSE`], which ascends, and sets of them are bits. A sequence that never lowers is then
//! a set, taken in order.

use std::{
    cmp::{Ordering, Reverse},
    collections::HashMap,
    rc::Rc,
};

use capi_version_guard::planner::{Known, Release, Source, min_workers, plan};

/// Twelve versions that lists are made of, and of each minor one more (`.9`) that only fills what is missing.
pub const UNIVERSE: [&str; 18] = [
    "v1.24.0",
    "v1.24.9",
    "v1.25.0",
    "v1.25.1",
    "v1.25.9",
    "v1.26.0-rc.0",
    // No Cluster can name this one: a list with no other of its minor passes Cluster API's webhook, and lacks the minor.
    "1.26.0",
    "v1.26.1",
    "v1.26.9",
    "v1.27.0+a",
    "v1.27.0+b.1",
    "v1.27.0+b.2",
    "v1.27.9",
    "v1.28.0",
    "v1.28.1-rc.0",
    "v1.28.9",
    "v1.29.0",
    "v1.29.9",
];

pub type Set = u32;

/// No worker set, among the bits of the lowest.
const NOBODY: Set = 1 << 31;

pub const RELEASES: [Release; 3] = [Release::V1_12_0, Release::V1_12_4, Release::V1_13];

pub fn bits(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(at)
    })
}

fn subsets(of: Set) -> impl Iterator<Item = Set> {
    std::iter::successors(Some(of), move |set| set.checked_sub(1).map(|less| less & of))
}

pub fn texts(set: Set) -> Vec<&'static str> {
    bits(set).map(|at| UNIVERSE[at]).collect()
}

/// The versions that only fill what is missing.
pub fn invented() -> Set {
    (0..UNIVERSE.len()).filter(|at| UNIVERSE[*at].ends_with(".9")).map(|at| 1 << at).sum()
}

/// What is known of the versions themselves.
pub struct World {
    pub known: Vec<Known<'static>>,
    pub minor: Vec<u64>,
    pub strict: Set,
    pre_release: Set,
    order: Vec<Vec<Option<Ordering>>>,
}

impl World {
    pub fn new() -> Self {
        let known: Vec<_> = UNIVERSE.iter().map(|text| Known::new(text)).collect();
        let version = |at: usize| known[at].version.as_ref().unwrap();
        let minor = (0..UNIVERSE.len()).map(|at| version(at).minor()).collect();
        let of = |holds: &dyn Fn(&str) -> bool| {
            (0..UNIVERSE.len()).filter(|at| holds(UNIVERSE[*at])).map(|at| 1 << at).sum()
        };
        let (strict, pre_release) = (of(&|text| text.starts_with('v')), of(&|text| text.contains('-')));
        let all = 0..UNIVERSE.len();
        let order: Vec<Vec<_>> =
            all.clone().map(|a| all.clone().map(|b| version(a).cmp_with_build(version(b))).collect()).collect();
        assert!(all.clone().all(|b| (0..b).all(|a| matches!(order[a][b], Some(Ordering::Less) | None))), "ascends");
        Self { known, minor, strict, pre_release, order }
    }

    /// Whether Cluster API's webhook accepts the list: neighbors ascend, and by one minor at most.
    pub fn is_legal(&self, list: Set) -> bool {
        let list: Vec<_> = bits(list).collect();
        list.windows(2).all(|pair| {
            let up = self.minor[pair[1]] - self.minor[pair[0]];
            up <= 1 && !self.order[pair[1]][pair[0]].is_some_and(Ordering::is_le)
        })
    }

    /// `a` is below `b`, or the list says so where Cluster API does not know.
    fn is_below(&self, list: Set, a: usize, b: usize) -> bool {
        match self.order[a][b] {
            Some(order) => order.is_lt(),
            None => a < b && list & (1 << a) != 0 && list & (1 << b) != 0,
        }
    }

    /// Kubernetes' version skew policy.
    pub fn keeps_skew(&self, control_plane: usize, workers: Set) -> bool {
        bits(workers).all(|worker| {
            let most = if self.minor[worker] < 25 { 2 } else { 3 };
            self.minor[worker] <= self.minor[control_plane] && self.minor[control_plane] - self.minor[worker] <= most
        })
    }
}

/// A plan, and what Cluster API's validation was found to say of it.
struct Candidate {
    hops: Set,
    steps: Set,
    /// Versions without an order among control plane and hops: the list has to hold all of them.
    unordered: Set,
    /// The lowest workers that it was asked for, and those for which all releases accept it.
    asked: Set,
    accepted: Set,
}

/// All plans to one target.
pub struct Plans<'w> {
    pub world: &'w World,
    target: usize,
    /// By where the control plane is. The preferred come first.
    candidates: Vec<Vec<Candidate>>,
    /// By control plane, hops and steps: the place among the candidates.
    places: HashMap<(usize, Set, Set), usize>,
    lowest: HashMap<(usize, Set), Set>,
}

impl<'w> Plans<'w> {
    /// Plans with hops out of `from`. With `one_of_each`, those with several hops in one minor are left out; the comparison
    /// without it shows that nothing is lost.
    pub fn new(world: &'w World, target: usize, from: Set, one_of_each: bool) -> Self {
        let mut plans = Self { world, target, candidates: Vec::new(), places: HashMap::new(), lowest: HashMap::new() };
        for control_plane in 0..UNIVERSE.len() {
            let mut found = Vec::new();
            if control_plane == target {
                // Without hops Cluster API lets the workers step anywhere. More than one such step is left out where only
                // some are sought.
                let steps = subsets(from & ((1 << target) - 1)).filter(|steps| !one_of_each || steps.count_ones() < 2);
                found.extend(steps.map(|steps| plans.candidate(control_plane, 0, steps | 1 << target)));
                found.push(plans.candidate(control_plane, 0, 0));
            } else {
                plans.grow(control_plane, control_plane, 0, from, one_of_each, &mut found);
            }
            found.sort_by_cached_key(|plan| plans.cost(plan));
            let places = found.iter().enumerate().map(|(at, plan)| ((control_plane, plan.hops, plan.steps), at));
            plans.places.extend(places);
            plans.candidates.push(found);
        }
        plans
    }

    fn candidate(&self, control_plane: usize, hops: Set, steps: Set) -> Candidate {
        let places: Vec<_> = std::iter::once(control_plane).chain(bits(hops)).collect();
        let pairs = places.iter().enumerate().flat_map(|(at, b)| places[..at].iter().map(move |a| (*a, *b)));
        // All others ascend, as the universe does and the hops are taken in its order.
        let without_order = pairs.filter(|(a, b)| self.world.order[*a][*b].is_none());
        let unordered = without_order.fold(0, |set, (a, b)| set | 1 << a | 1 << b);
        Candidate { hops, steps, unordered, asked: 0, accepted: 0 }
    }

    /// Fewest steps of the workers first, then fewest hops, fewest pre-releases, newest hops, latest steps.
    fn cost(&self, plan: &Candidate) -> impl Ord + use<> {
        let pre_releases = (plan.hops & self.world.pre_release & !(1 << self.target)).count_ones();
        let newest = |set: Set| Reverse(bits(set).collect::<Vec<_>>());
        (plan.steps.count_ones(), plan.hops.count_ones(), pre_releases, newest(plan.hops), newest(plan.steps))
    }

    /// All plans that begin with `hops`, which have come to `last`.
    fn grow(
        &self,
        control_plane: usize,
        last: usize,
        hops: Set,
        from: Set,
        one_of_each: bool,
        found: &mut Vec<Candidate>,
    ) {
        if last == self.target {
            let given: Vec<_> = texts(hops);
            let source = Source::Given { control_plane: &given, workers: &[] };
            let known = &self.world.known;
            let accepts =
                |release: &Release| plan(*release, source, &known[self.target], &known[control_plane], None).is_ok();
            if RELEASES.iter().any(accepts) {
                let steps = subsets(hops | 1 << control_plane);
                found.extend(steps.map(|steps| self.candidate(control_plane, hops, steps)));
            }
            return;
        }
        for next in last + 1..=self.target {
            let is_one = 1 << next;
            let twice = one_of_each && hops != 0 && self.world.minor[next] == self.world.minor[last];
            // Two minors up would be refused anyway; so would be all that follows.
            let skips = self.world.minor[next] > self.world.minor[last] + 1;
            if !twice && !skips && (from | 1 << self.target) & is_one != 0 {
                self.grow(control_plane, next, hops | is_one, from, one_of_each, found);
            }
        }
    }

    /// The versions that Cluster API may take for the lowest.
    fn lowest(&mut self, control_plane: usize, workers: Set) -> Set {
        match workers.count_ones() {
            0 => NOBODY,
            1 => workers,
            _ => *self.lowest.entry((control_plane, workers)).or_insert_with(|| {
                let known = &self.world.known;
                let all: Vec<_> = bits(workers).map(|at| known[at].clone()).collect();
                let lowest = min_workers(&known[control_plane], &all).unwrap();
                let place = |version| known.iter().position(|k| k.version.as_ref().unwrap().same_text(version));
                lowest.iter().map(|version| 1 << place(version.as_ref().unwrap()).unwrap()).sum()
            }),
        }
    }

    fn is_accepted(&mut self, control_plane: usize, workers: Set, hops: Set, steps: Set) -> bool {
        let lowest = self.lowest(control_plane, workers);
        let Some(at) = self.places.get(&(control_plane, hops, steps)) else { return false };
        let plan_at = &mut self.candidates[control_plane][*at];
        let unasked = lowest & !plan_at.asked;
        for one in (0..32).map(|at| 1 << at).filter(|one| unasked & one != 0) {
            let known = &self.world.known;
            let version = if one == NOBODY { None } else { known[one.ilog2() as usize].version.as_ref() };
            let (hops, steps) = (texts(plan_at.hops), texts(plan_at.steps));
            let source = Source::Given { control_plane: &hops, workers: &steps };
            let accepts = |release: &Release| {
                plan(*release, source, &known[self.target], &known[control_plane], version)
                    .is_ok_and(|plan| plan.control_plane == hops && plan.workers == steps)
            };
            plan_at.asked |= one;
            if RELEASES.iter().all(accepts) {
                plan_at.accepted |= one;
            }
        }
        lowest & !plan_at.accepted == 0
    }
}

/// The plans over one list, and in which states there is one.
pub struct Search<'p, 'w> {
    plans: &'p mut Plans<'w>,
    list: Set,
    /// By where the control plane is, the candidates that the list has.
    over_list: Vec<Option<Rc<[(Set, Set)]>>>,
    held: HashMap<(usize, Set, Set, Set), bool>,
}

impl<'p, 'w> Search<'p, 'w> {
    pub fn new(plans: &'p mut Plans<'w>, list: Set) -> Self {
        Self { plans, list, over_list: vec![None; UNIVERSE.len()], held: HashMap::new() }
    }

    /// The hops and steps of the preferred plan of those that hold; `None` if there is none.
    pub fn best(&mut self, control_plane: usize, workers: Set) -> Option<(Set, Set)> {
        if !self.plans.world.keeps_skew(control_plane, workers) {
            return None;
        }
        let plans = self.over_list(control_plane);
        plans.iter().copied().find(|(hops, steps)| self.holds(control_plane, workers, *hops, *steps))
    }

    fn over_list(&mut self, control_plane: usize) -> Rc<[(Set, Set)]> {
        let (plans, list) = (&*self.plans, self.list);
        let hops = list | 1 << plans.target;
        let strict = plans.world.strict;
        let places = hops | 1 << control_plane;
        let fits = |plan: &Candidate| {
            plan.hops & !hops == 0
                && plan.steps & !places == 0
                && (plan.hops | plan.steps) & !strict == 0
                && plan.unordered & !list == 0
        };
        let all = &plans.candidates[control_plane];
        self.over_list[control_plane]
            .get_or_insert_with(|| all.iter().filter(|plan| fits(plan)).map(|plan| (plan.hops, plan.steps)).collect())
            .clone()
    }

    /// Whether the plan can be carried out: it is accepted, the skew policy is kept, no move lowers, and what is left of the
    /// plan holds in every state that it leads to. A step of the workers may be left out when one of the sets has taken it.
    fn holds(&mut self, control_plane: usize, workers: Set, hops: Set, steps: Set) -> bool {
        let key = (control_plane, workers, hops, steps);
        if let Some(holds) = self.held.get(&key) {
            return *holds;
        }
        let holds = self.carry_out(control_plane, workers, hops, steps);
        self.held.insert(key, holds);
        holds
    }

    fn carry_out(&mut self, control_plane: usize, workers: Set, hops: Set, steps: Set) -> bool {
        let (world, target) = (self.plans.world, self.plans.target);
        let pending = workers & !(1 << target);
        // The first is cheap, and true of every accepted plan.
        if (pending == 0) != (steps == 0)
            || !world.keeps_skew(control_plane, workers)
            || !self.plans.is_accepted(control_plane, workers, hops, steps)
        {
            return false;
        }
        let first = |set| bits(set).next();
        let waits = first(steps) == Some(control_plane) && control_plane != target;
        if control_plane != target && !waits {
            return first(hops).is_some_and(|hop| self.holds(hop, workers, hops & !(1 << hop), steps));
        }
        let Some(step) = first(steps) else { return pending == 0 };
        let moving = pending & !(1 << step);
        let (one, list) = (1 << step, self.list);
        moving != 0
            && bits(moving).all(|worker| {
                world.is_below(list, worker, step)
                    && [workers | one, (workers | one) & !(1 << worker)].into_iter().all(|next| {
                        next == workers
                            || self.holds(control_plane, next, hops, steps)
                            || self.holds(control_plane, next, hops, steps & !one)
                    })
            })
    }
}
