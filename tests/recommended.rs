//! `planner::recommend`: golden cases with whole texts, and every legal list of twelve symbols against a search by definition.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use capi_version_guard::{
    model::Provider,
    planner::{Known, NoRecommendation, Plan, Release, Running, Source, Upgrade, min_workers, plan, recommend},
    version::KubernetesVersion,
};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    list: Vec<String>,
    target: String,
    from: String,
    #[serde(default)]
    workers: Vec<String>,
    /// `<hops> / <worker steps>`, or `<stable name>: <text>`.
    is: String,
}

fn running(control_plane: &str, workers: &[&str]) -> Running {
    Running { control_plane: control_plane.to_owned(), workers: workers.iter().map(ToString::to_string).collect() }
}

fn told(said: Result<Plan<'_>, NoRecommendation>) -> String {
    match said {
        Ok(Plan { control_plane, workers }) => format!("{} / {}", control_plane.join(" "), workers.join(" ")),
        Err(none) => format!("{}: {none}", none.as_str()),
    }
}

#[test]
fn every_case_has_its_plan_or_its_reason_to_the_letter() {
    let text = include_str!("cases/recommended-plans.yaml");
    let cases: Vec<Case> = serde_saphyr::from_str(text).unwrap();
    assert!(cases.len() >= 25, "only {} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let list: Vec<_> = case.list.iter().map(|text| Known::new(text)).collect();
        let workers: Vec<_> = case.workers.iter().map(String::as_str).collect();
        let is = told(recommend(&list, &Known::new(&case.target), &running(&case.from, &workers)));
        if is != case.is {
            wrong.push(format!("{}\n  is:        {is}\n  should be: {}", case.name, case.is));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Minors with kubelets that may be two and three behind, patches, a pre-release, build tags without and with an order.
const SYMBOLS: [&str; 12] = [
    "v1.22.3",
    "v1.23.1",
    "v1.24.0",
    "v1.25.0",
    "v1.25.4",
    "v1.26.0-rc.1",
    "v1.26.1+a",
    "v1.26.1+b",
    "v1.27.0",
    "v1.28.0+1",
    "v1.28.0+2",
    "v1.29.2",
];

fn value(text: &str) -> KubernetesVersion {
    KubernetesVersion::parse_lenient(text).unwrap()
}

/// Whether Cluster API's webhook accepts the list: neighbors ascend or have no order, and no minor is skipped.
fn legal(list: &[&str]) -> bool {
    list.windows(2).all(|pair| {
        let (a, b) = (value(pair[0]), value(pair[1]));
        b.cmp_with_build(&a).is_none_or(Ordering::is_gt) && b.minor() - a.minor() <= 1
    })
}

fn allowed_behind(worker: &KubernetesVersion) -> u64 {
    if worker.minor() < 25 { 2 } else { 3 }
}

const RELEASES: [Release; 3] = [Release::V1_12_0, Release::V1_12_4, Release::V1_13];

/// The search by definition: for each state, whether some plan has a continuation in every state that can follow, and how
/// many rollouts of the workers the best one takes.
struct Search<'a> {
    list: &'a [&'a str],
    target: &'a str,
    known: BTreeMap<Running, Option<usize>>,
}

impl Search<'_> {
    /// The fewest rollouts; `None` if there is no way.
    fn rollouts(&mut self, state: &Running) -> Option<usize> {
        if let Some(known) = self.known.get(state) {
            return *known;
        }
        // Every step goes up, so a state is never asked for below itself.
        let best = self.search(state);
        self.known.insert(state.clone(), best);
        best
    }

    fn pending(&self, state: &Running) -> Vec<String> {
        state.workers.iter().filter(|worker| *worker != self.target).cloned().collect()
    }

    fn search(&mut self, state: &Running) -> Option<usize> {
        let pending = self.pending(state);
        if state.control_plane == self.target && pending.is_empty() {
            return Some(0);
        }
        let mut hops = Vec::new();
        self.hops(&mut Vec::new(), &state.control_plane, &mut hops);
        // What follows depends on the first steps alone.
        let mut first_steps = BTreeSet::new();
        for hops in &hops {
            let all: Vec<&str> = std::iter::once(state.control_plane.as_str()).chain(hops.iter().copied()).collect();
            for steps in self.worker_steps(&all, &pending) {
                let first = (hops.first().copied(), steps.first().copied());
                if !first_steps.contains(&first) && self.valid(state, hops, &steps) {
                    first_steps.insert(first);
                }
            }
        }
        let firsts: Vec<_> =
            first_steps.iter().map(|(hop, step)| (hop.map(str::to_owned), step.map(str::to_owned))).collect();
        firsts.into_iter().filter_map(|(hop, step)| self.after(state, &pending, hop, step)).min()
    }

    /// The rollouts if these are the next steps; `None` if they break a promise, or some order of events has no way.
    fn after(
        &mut self,
        state: &Running,
        pending: &[String],
        hop: Option<String>,
        step: Option<String>,
    ) -> Option<usize> {
        let waits = step.as_deref() == Some(&state.control_plane);
        if state.control_plane != self.target && !waits {
            let hop = hop?;
            let fits = |worker: &String| value(&hop).minor() <= value(worker).minor() + allowed_behind(&value(worker));
            if !pending.iter().all(fits) {
                return None;
            }
            return self.rollouts(&Running { control_plane: hop, ..state.clone() });
        }
        let step = step?;
        let lowered = |worker: &String| value(worker).cmp_with_build(&value(&step)) == Some(Ordering::Greater);
        let moving: Vec<_> = pending.iter().filter(|worker| **worker != step).collect();
        if pending.iter().any(lowered) || moving.is_empty() {
            return None;
        }
        let mut most = 0;
        for worker in moving {
            let mut some = state.workers.clone();
            some.insert(step.clone());
            let mut all = some.clone();
            all.remove(worker);
            // That some have moved must have a way too; a rollout is done when all have.
            if some != state.workers {
                self.rollouts(&Running { workers: some, ..state.clone() })?;
            }
            most = most.max(self.rollouts(&Running { workers: all, ..state.clone() })?);
        }
        Some(most + 1)
    }

    /// Every sequence of listed entries that ends at the target.
    fn hops<'s>(&'s self, so_far: &mut Vec<&'s str>, current: &str, all: &mut Vec<Vec<&'s str>>) {
        if current == self.target {
            all.push(so_far.clone());
            return;
        }
        let place = |text: &str| self.list.iter().position(|entry| *entry == text);
        let others = self.list.iter().copied().filter(|entry| *entry != self.target);
        for hop in others.chain([self.target]) {
            let (low, high) = (value(current), value(hop));
            let up = match high.cmp_with_build(&low) {
                Some(order) => order.is_gt(),
                None => place(hop).zip(place(current)).is_some_and(|(high, low)| high > low),
            };
            // A step within a minor is of no use but to the target's build tag, which no other entry stands for.
            let useful = high.minor() == low.minor() + 1 || (high.minor() == low.minor() && hop == self.target);
            if up && useful && high.cmp_precedence(&value(self.target)).is_le() {
                so_far.push(hop);
                self.hops(so_far, hop, all);
                so_far.pop();
            }
        }
    }

    /// Every choice of steps out of what the control plane runs and will run.
    fn worker_steps<'s>(&self, all: &[&'s str], pending: &[String]) -> Vec<Vec<&'s str>> {
        if pending.is_empty() {
            return vec![Vec::new()];
        }
        let (last, others) = all.split_last().unwrap();
        (0..1_u32 << others.len())
            .map(|chosen| {
                let steps = others.iter().enumerate().filter(|(at, _)| chosen & (1 << at) != 0).map(|(_, step)| *step);
                steps.chain([*last]).collect()
            })
            .collect()
    }

    fn valid(&self, state: &Running, hops: &[&str], steps: &[&str]) -> bool {
        let (target, control_plane) = (Known::new(self.target), Known::new(&state.control_plane));
        let workers: Vec<_> = state.workers.iter().map(|text| Known::new(text)).collect();
        let lowest = min_workers(&control_plane, &workers).unwrap();
        lowest.iter().all(|lowest| {
            RELEASES.iter().all(|release| {
                let source = Source::Given { control_plane: hops, workers: steps };
                plan(*release, source, &target, &control_plane, lowest.as_ref())
                    .is_ok_and(|plan| plan.workers == steps && plan.control_plane == hops)
            })
        })
    }
}

/// The rollouts of one worker set that follows what is recommended, from state to state.
fn carried_out(list: &[Known<'_>], target: &str, from: &Running) -> usize {
    let (mut state, mut rollouts) = (from.clone(), 0);
    loop {
        let wanted = Known::new(target);
        let plan = recommend(list, &wanted, &state).unwrap();
        let (hop, step) = (plan.control_plane.first().copied(), plan.workers.first().copied());
        let next = match (hop, step) {
            (Some(hop), step) if step != Some(&state.control_plane) => {
                Running { control_plane: hop.to_owned(), ..state.clone() }
            }
            (_, Some(step)) => {
                rollouts += 1;
                Running { workers: [step.to_owned()].into(), ..state.clone() }
            }
            _ => return rollouts,
        };
        state = next;
    }
}

#[test]
fn every_legal_list_of_twelve_symbols_has_the_plan_that_a_search_finds() {
    // A debug build on one core would take minutes.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let counts: Vec<Counts> = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|part| scope.spawn(move || compare(part, threads))).collect();
        parts.into_iter().map(|part| part.join().unwrap()).collect()
    });
    let (mut lists, mut plans, mut none) = (0, 0, BTreeMap::<&str, usize>::new());
    for part in counts {
        lists += part.lists;
        plans += part.plans;
        part.none.into_iter().for_each(|(reason, count)| *none.entry(reason).or_default() += count);
    }
    println!("{lists} lists, {plans} plans, none: {none:?}");
    assert!(lists >= 500 && plans >= 50_000, "{lists} {plans}");
    let reasons = ["missing-minors", "not-higher", "no-build-order", "worker-above", "worker-too-far-behind", "stuck"];
    for reason in reasons {
        assert!(none.get(reason).is_some_and(|count| *count >= 100), "{reason} hardly came up: {none:?}");
    }
}

#[derive(Default)]
struct Counts {
    lists: usize,
    plans: usize,
    none: BTreeMap<&'static str, usize>,
}

/// Compares what one of `threads` threads has to.
fn compare(part: usize, threads: usize) -> Counts {
    let mut counts = Counts::default();
    for chosen in (0..1_u32 << SYMBOLS.len()).skip(part).step_by(threads) {
        let list: Vec<&str> =
            SYMBOLS.iter().enumerate().filter(|(at, _)| chosen & (1 << at) != 0).map(|(_, text)| *text).collect();
        if list.is_empty() || !legal(&list) {
            continue;
        }
        counts.lists += 1;
        let known: Vec<_> = list.iter().map(|text| Known::new(text)).collect();
        // Every other list goes to the highest symbol of all, listed or not; the others to an entry that turns with the list.
        let turning = list[chosen as usize / 2 % list.len()];
        for target in [if chosen.is_multiple_of(2) { "v1.29.2" } else { turning }] {
            let mut search = Search { list: &list, target, known: BTreeMap::new() };
            for (at, control_plane) in SYMBOLS.iter().enumerate() {
                let mut sets: Vec<Vec<&str>> = vec![vec![], vec![control_plane]];
                sets.extend(SYMBOLS.iter().map(|worker| vec![*worker]));
                sets.push(vec![SYMBOLS[at.saturating_sub(1)], control_plane]);
                sets.push(vec![SYMBOLS[at.saturating_sub(3)], SYMBOLS[at.saturating_sub(2)], target]);
                for workers in sets {
                    let from = running(control_plane, &workers);
                    let wanted = Known::new(target);
                    let said = recommend(&known, &wanted, &from);
                    let found = search.rollouts(&from);
                    let what = || format!("{list:?} to {target} from {from:?}: {said:?}, the search says {found:?}");
                    assert_eq!(said.is_ok(), found.is_some(), "{}", what());
                    match &said {
                        Ok(plan) => {
                            counts.plans += 1;
                            if from.workers.len() == 1 {
                                assert_eq!(carried_out(&known, target, &from), found.unwrap(), "{}", what());
                            }
                            let (_, hops) = plan.control_plane.split_last().unwrap_or((&"", &[]));
                            assert!(hops.iter().all(|hop| preferred(&list, hop)), "{}", what());
                        }
                        Err(reason) => {
                            *counts.none.entry(reason.as_str()).or_default() += 1;
                            if let NoRecommendation::MissingMinors(minors) = reason {
                                assert!(smallest(&list, target, &from, minors), "{}", what());
                            }
                        }
                    }
                }
            }
        }
    }
    counts
}

/// Whether the list has no better entry of the hop's minor.
fn preferred(list: &[&str], hop: &str) -> bool {
    let version = value(hop);
    let place = |text: &str| list.iter().position(|entry| *entry == text);
    list.iter().filter(|entry| value(entry).minor() == version.minor() && **entry != hop).all(|other| {
        let other_version = value(other);
        match (version.is_pre_release(), other_version.is_pre_release()) {
            (false, true) => true,
            (true, false) => false,
            _ => match version.cmp_with_build(&other_version) {
                Some(order) => order.is_gt(),
                None => place(hop) > place(other),
            },
        }
    })
}

/// Whether entries of these minors lead to a plan, or at least to another reason, and of fewer do not.
fn smallest(list: &[&str], target: &str, from: &Running, minors: &[(u64, u64)]) -> bool {
    let with = |minors: &[(u64, u64)]| {
        let invented: Vec<_> = minors.iter().map(|(major, minor)| format!("v{major}.{minor}.9")).collect();
        let mut all: Vec<&str> = list.iter().copied().chain(invented.iter().map(String::as_str)).collect();
        all.sort_by(|a, b| value(a).cmp_precedence(&value(b)));
        let known: Vec<_> = all.iter().map(|text| Known::new(text)).collect();
        let said = recommend(&known, &Known::new(target), from).map(|_| ());
        !matches!(said, Err(NoRecommendation::MissingMinors(_)))
    };
    let fewer = (0..minors.len()).map(|left_out| {
        let mut fewer = minors.to_vec();
        fewer.remove(left_out);
        fewer
    });
    with(minors) && fewer.into_iter().all(|fewer| !with(&fewer))
}

/// Splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    fn version(&mut self, minor: usize) -> String {
        let tail = ["", "", "", "-rc.1", "+a", "+b", "+k0s.1", "+k0s.2"][self.below(8)];
        format!("v1.{minor}.{}{tail}", self.below(4))
    }
}

#[test]
fn what_is_recommended_for_big_random_lists_arrives_in_every_order_of_events_and_every_release() {
    let (mut random, mut plans, mut hops) = (Random(1), 0, 0);
    for _ in 0..1_500 {
        let (first, count) = (20 + random.below(10), 2 + random.below(28));
        let mut list = Vec::new();
        for minor in first..first + count {
            for _ in 0..random.below(4) {
                list.push(random.version(minor));
            }
        }
        let known: Vec<_> = list.iter().map(|text| Known::new(text)).collect();
        let from_minor = first + random.below(3);
        let control_plane = random.version(from_minor);
        let target_minor = from_minor + random.below(count);
        let target = random.version(target_minor);
        let mut workers = Vec::new();
        for _ in 0..random.below(3) {
            let behind = random.below(3);
            workers.push(random.version(from_minor - behind));
        }
        let workers: Vec<_> = workers.iter().map(String::as_str).collect();
        let from = running(&control_plane, &workers);
        let wanted = Known::new(&target);
        let Ok(plan) = recommend(&known, &wanted, &from) else { continue };
        (plans, hops) = (plans + 1, hops + plan.control_plane.len());
        let (mut open, mut done) = (vec![from], BTreeSet::new());
        while let Some(state) = open.pop() {
            if !done.insert(state.clone()) {
                continue;
            }
            let plan =
                recommend(&known, &wanted, &state).unwrap_or_else(|none| panic!("{list:?} {target} {state:?}: {none}"));
            for release in RELEASES {
                let source = Source::Given { control_plane: &plan.control_plane, workers: &plan.workers };
                let upgrade = Upgrade { release, source, target: &target, provider: Provider::Other };
                open.extend(upgrade.next(&state).unwrap_or_else(|end| panic!("{list:?} {target} {state:?}: {end:?}")));
            }
        }
    }
    assert!(plans >= 200 && hops >= 1_000, "only {plans} plans with {hops} hops");
}
