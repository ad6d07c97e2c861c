//! `planner::recommend`: golden plans, a brute-force search over all plans, and random lists.

mod brute_force;
// Shared with the fidelity test, which uses all of it.
#[allow(dead_code)]
#[path = "fidelity/random.rs"]
mod random;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::atomic::{AtomicUsize, Ordering as Atomic},
};

use brute_force::{Plans, RELEASES, Search, Set, UNIVERSE, World, bits, invented, texts};
use capi_version_guard::planner::{
    Known, Minor, NoRecommendation, Obstacle, Plan, Running, Source, min_workers, plan, recommend,
};
use random::{Random, version};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    list: Vec<String>,
    target: String,
    control_plane: String,
    #[serde(default)]
    workers: Vec<String>,
    hops: Option<Vec<String>>,
    steps: Option<Vec<String>>,
    obstacle: Option<String>,
    text: Option<String>,
    #[serde(default)]
    missing: Vec<String>,
}

fn known<T: AsRef<str>>(texts: &[T]) -> Vec<Known<'_>> {
    texts.iter().map(|text| Known::new(text.as_ref())).collect()
}

#[test]
fn plans_and_obstacles_are_those_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/recommended-plans.yaml");
    let cases: Vec<Case> = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut obstacles = BTreeSet::new();
    for case in &cases {
        let (list, target, name) = (known(&case.list), Known::new(&case.target), &case.name);
        let all =
            Running { control_plane: case.control_plane.clone(), workers: case.workers.iter().cloned().collect() };
        match recommend(&list, &target, &all) {
            Ok(plan) => {
                let expected = (case.hops.as_deref(), case.steps.as_deref());
                let texts = |list: Vec<&str>| list.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>();
                let (hops, steps) = (texts(plan.control_plane), texts(plan.workers));
                assert_eq!((Some(&*hops), Some(&*steps)), expected, "{name}");
                assert_eq!((&case.obstacle, &case.text, case.missing.len()), (&None, &None, 0), "{name}");
                let mut from = all.clone();
                from.workers.remove("");
                Walk { list: &list, target, told: Told::All, done: BTreeSet::new() }.arrives(&from);
            }
            Err(no) => {
                assert_eq!(Some(no.to_string()), case.text, "{name}");
                assert_eq!(Some(no.obstacle.as_str()), case.obstacle.as_deref(), "{name}");
                assert_eq!(no.missing.iter().map(Minor::to_string).collect::<Vec<_>>(), case.missing, "{name}");
                assert_eq!((&case.hops, &case.steps), (&None, &None), "{name}");
                obstacles.insert(no.obstacle);
            }
        }
    }
    assert_eq!(obstacles.into_iter().collect::<Vec<_>>(), Obstacle::ALL, "each obstacle has a case");
}

/// Which of the workers the planner is told.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    All,
    /// The lowest, as an extension is.
    Lowest,
}

/// Carries recommended plans out, asking anew in every state, and checks each plan and each move.
struct Walk<'a> {
    list: &'a [Known<'a>],
    target: Known<'a>,
    told: Told,
    /// The states from which every order of events arrives.
    done: BTreeSet<Running>,
}

impl Walk<'_> {
    fn ask(&self, at: &Running) -> Result<(Vec<String>, Vec<String>), NoRecommendation> {
        let control_plane = Known::new(&at.control_plane);
        let workers: Vec<_> = at.workers.iter().map(|worker| Known::new(worker)).collect();
        let mut told = at.clone();
        if self.told == Told::Lowest {
            let lowest = min_workers(&control_plane, &workers).unwrap().remove(0);
            told.workers = lowest.iter().map(ToString::to_string).collect();
        }
        let Plan { control_plane, workers } = recommend(self.list, &self.target, &told)?;
        let owned = |texts: Vec<&str>| texts.into_iter().map(ToOwned::to_owned).collect();
        Ok((owned(control_plane), owned(workers)))
    }

    /// Panics if there is no plan, if a release does not accept it, or if a move is one that must not be.
    fn arrives(&mut self, at: &Running) {
        if self.done.contains(at) {
            return;
        }
        let (target, control_plane) = (self.target.text, Known::new(&at.control_plane));
        let (hops, steps) = self.ask(at).unwrap_or_else(|no| panic!("{no}: {at:?} to {target}, {:?}", self.list));
        let given: Vec<_> = hops.iter().map(String::as_str).collect();
        let given_workers: Vec<_> = steps.iter().map(String::as_str).collect();
        let source = Source::Given { control_plane: &given, workers: &given_workers };
        let workers: Vec<_> = at.workers.iter().map(|worker| Known::new(worker)).collect();
        for lowest in min_workers(&control_plane, &workers).unwrap() {
            for release in RELEASES {
                let planned = plan(release, source, &self.target, &control_plane, lowest.as_ref());
                let planned = planned.unwrap_or_else(|no| panic!("{no}: {at:?} to {target}, {hops:?}, {steps:?}"));
                assert_eq!((&planned.control_plane, &planned.workers), (&given, &given_workers), "{at:?}");
            }
        }
        self.check_hops(at, &hops);
        let minor = |text: &str| Known::new(text).version.unwrap().minor();
        for worker in &at.workers {
            let behind = minor(&at.control_plane).checked_sub(minor(worker)).expect("a worker above the control plane");
            assert!(behind <= if minor(worker) < 25 { 2 } else { 3 }, "skew: {at:?} to {target}");
        }
        for next in self.moves(at, &hops, &steps) {
            self.arrives(&next);
        }
        self.done.insert(at.clone());
    }

    fn check_hops(&self, at: &Running, hops: &[String]) {
        let mut last = Known::new(&at.control_plane).version.unwrap();
        assert!(hops.len() <= 32);
        for hop in hops {
            let next = Known::new(hop).version.unwrap();
            assert_eq!(next.to_string(), *hop, "no Cluster could name it");
            assert!(*hop == self.target.text || self.list.iter().any(|entry| entry.text == hop), "{hop} is invented");
            assert_eq!(next.major(), last.major());
            assert!(next.minor() - last.minor() <= 1);
            assert!(self.is_above(&next.to_string(), &last.to_string()), "{last} then {hop}");
            // In the control plane's own minor, what is below the control plane or a worker set is no choice.
            let below = |entry: &str| {
                let runs = at.workers.iter().chain([&at.control_plane]);
                runs.into_iter().any(|version| version != entry && !self.is_above(entry, version))
            };
            let better = |entry: &&Known<'_>| {
                let Some(version) = &entry.version else { return false };
                let same_minor = (version.major(), version.minor()) == (next.major(), next.minor());
                let is_release = !version.is_pre_release() && next.is_pre_release();
                let newer = version.is_pre_release() == next.is_pre_release()
                    && version.cmp_with_build(&next) == Some(Ordering::Greater);
                same_minor && version.to_string() == entry.text && (is_release || newer) && !below(entry.text)
            };
            assert!(*hop == self.target.text || !self.list.iter().any(|entry| better(&entry)), "{hop} is not the best");
            last = next;
        }
    }

    /// The list decides where Cluster API knows no order.
    fn is_above(&self, a: &str, b: &str) -> bool {
        let version = |text: &str| Known::new(text).version.unwrap();
        let place = |text| {
            self.list.iter().position(|entry| entry.version.as_ref().is_some_and(|v| v.same_text(&version(text))))
        };
        match version(a).cmp_with_build(&version(b)) {
            Some(order) => order.is_gt(),
            None => matches!((place(a), place(b)), (Some(a), Some(b)) if a > b),
        }
    }

    /// The states that follow. In a chain each set moves when the control plane waits, or has arrived.
    fn moves(&self, at: &Running, hops: &[String], steps: &[String]) -> Vec<Running> {
        let target = self.target.text;
        let waits = steps.first() == Some(&at.control_plane);
        if at.control_plane != target && !waits {
            return vec![Running { control_plane: hops[0].clone(), workers: at.workers.clone() }];
        }
        let pending: Vec<_> = at.workers.iter().filter(|worker| *worker != target).collect();
        if pending.is_empty() {
            assert!(steps.is_empty());
            return Vec::new();
        }
        let moving: Vec<_> = pending.into_iter().filter(|worker| **worker != steps[0]).collect();
        assert!(!moving.is_empty(), "everybody waits: {at:?}");
        let mut next = Vec::new();
        for worker in moving {
            // Equal in value is not lowered either.
            let same = Known::new(worker).version.unwrap().cmp_with_build(&Known::new(&steps[0]).version.unwrap());
            assert!(self.is_above(&steps[0], worker) || same.is_some_and(Ordering::is_eq), "lowered: {at:?}");
            let mut some = at.workers.clone();
            some.insert(steps[0].clone());
            let mut all = some.clone();
            all.remove(worker);
            next.extend([some, all].map(|workers| Running { control_plane: at.control_plane.clone(), workers }));
        }
        next.retain(|next| next != at);
        next
    }
}

/// Lists and states of the twelve symbols: what is compared, and how often.
#[derive(Debug, Default)]
struct Seen {
    questions: usize,
    states: usize,
    plans: usize,
    several_steps: usize,
    none: BTreeMap<Obstacle, usize>,
}

/// Every legal list of the twelve symbols, every control plane and target of them, every two of them as workers: a plan
/// is recommended exactly where the search finds one, and it is the one that the search prefers. Missing minors are in
/// every set that would make a plan, and make one.
#[test]
fn the_recommended_plan_is_the_best_that_a_search_over_all_plans_finds() {
    let world = World::new();
    let symbols = ((1 << UNIVERSE.len()) - 1) & !invented();
    assert_eq!(symbols.count_ones(), 12);
    let lists: Vec<(Set, Vec<Known<'_>>)> = (0..1 << UNIVERSE.len())
        .filter(|list| list & !symbols == 0 && world.is_legal(*list))
        .map(|list| (list, bits(list).map(|at| world.known[at].clone()).collect()))
        .collect();
    let (turn, symbols) = (AtomicUsize::new(0), bits(symbols).collect::<Vec<_>>());
    let compare = || {
        let mut seen = Seen::default();
        // The highest target is the most work.
        while let Some(target) = symbols.iter().rev().nth(turn.fetch_add(1, Atomic::Relaxed)) {
            compare_target(&world, &lists, &symbols, *target, &mut seen);
        }
        seen
    };
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(compare)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!("{} lists: {seen:#?}", lists.len());
    assert_eq!(lists.len(), 2514, "the legal lists");
    for obstacle in Obstacle::ALL {
        let met: usize = seen.iter().filter_map(|seen| seen.none.get(&obstacle)).sum();
        // No two symbols are equal, of two majors or 33 minors apart, and all of them parse.
        use Obstacle::{AnotherMajor, OtherSpelling, TooManyHops, Unparsable};
        let absent = matches!(obstacle, Unparsable | AnotherMajor | OtherSpelling | TooManyHops);
        assert_eq!(met == 0, absent, "{obstacle}");
    }
    assert!(seen.iter().map(|seen| seen.several_steps).sum::<usize>() > 1000);
}

fn compare_target(world: &World, lists: &[(Set, Vec<Known<'_>>)], symbols: &[usize], target: usize, seen: &mut Seen) {
    let of_minors = |minors: std::ops::RangeInclusive<u64>| -> Set {
        (0..UNIVERSE.len()).filter(|at| minors.contains(&world.minor[*at])).map(|at| 1 << at).sum()
    };
    let worker_sets: Vec<Set> = std::iter::once(0)
        .chain(symbols.iter().flat_map(|a| symbols.iter().filter(move |b| *b >= a).map(move |b| 1 << a | 1 << b)))
        .collect();
    let mut plans = Plans::new(world, target, !invented(), false);
    let mut filled_plans = Plans::new(world, target, !0, true);
    for control_plane in symbols {
        // Entries of other minors can be no hop: the search is done once for all lists that differ in them alone.
        let relevant = of_minors(world.minor[*control_plane]..=world.minor[target]);
        let mut groups: BTreeMap<Set, Vec<&[Known<'_>]>> = BTreeMap::new();
        for (list, known) in lists {
            groups.entry(list & relevant).or_default().push(known);
        }
        for (list, all) in groups {
            let mut search = Search::new(&mut plans, list);
            let mut filled = Filled { plans: &mut filled_plans, list, exists: HashMap::new() };
            for workers in &worker_sets {
                let found = search.best(*control_plane, *workers).map(|(hops, steps)| (texts(hops), texts(steps)));
                seen.states += 1;
                let from = Running {
                    control_plane: UNIVERSE[*control_plane].to_owned(),
                    workers: texts(*workers).into_iter().map(ToOwned::to_owned).collect(),
                };
                for (nth, known) in all.iter().enumerate() {
                    // One list of each group is asked about two worker sets, and about states without hope.
                    if nth > 0 && (from.workers.len() > 1 || !world.keeps_skew(*control_plane, *workers)) {
                        continue;
                    }
                    seen.questions += 1;
                    let asked = recommend(known, &world.known[target], &from);
                    let context =
                        || format!("{:?} {} {:?}", known, UNIVERSE[*control_plane], (texts(*workers), target));
                    match (&asked, &found) {
                        (Ok(plan), Some((hops, steps))) => {
                            assert_eq!((&plan.control_plane, &plan.workers), (hops, steps), "{}", context());
                        }
                        (Err(no), None) if nth == 0 => {
                            *seen.none.entry(no.obstacle).or_default() += 1;
                            filled.check(no, *control_plane, *workers, &context);
                        }
                        (Err(_), None) => {}
                        _ => panic!("{asked:?}, but the search finds {found:?}: {}", context()),
                    }
                }
                seen.plans += usize::from(found.is_some());
                seen.several_steps += usize::from(found.is_some_and(|(_, steps)| steps.len() > 1));
            }
        }
    }
}

/// One list, with patches that the test invents.
struct Filled<'p, 'w> {
    plans: &'p mut Plans<'w>,
    list: Set,
    exists: HashMap<(Set, usize, Set), bool>,
}

impl Filled<'_, '_> {
    fn exists(&mut self, added: Set, control_plane: usize, workers: Set) -> bool {
        let Self { plans, list, exists } = self;
        *exists
            .entry((added, control_plane, workers))
            .or_insert_with(|| Search::new(plans, *list | added).best(control_plane, workers).is_some())
    }

    fn check(&mut self, no: &NoRecommendation, control_plane: usize, workers: Set, context: &dyn Fn() -> String) {
        if !self.plans.world.keeps_skew(control_plane, workers) {
            assert_eq!(no.missing, [], "{no}, but what runs breaks the skew policy: {}", context());
            return;
        }
        let patch = |minor: &Minor| {
            let text = format!("v{minor}.9");
            1 << UNIVERSE.iter().position(|known| *known == text).unwrap()
        };
        if no.missing.is_empty() {
            assert!(!self.exists(invented(), control_plane, workers), "{no}, but additions help: {}", context());
            return;
        }
        let named: Set = no.missing.iter().map(patch).sum();
        assert!(self.exists(named, control_plane, workers), "{no}, but that does not help: {}", context());
        for one in bits(named) {
            let rest = invented() & !(1 << one);
            assert!(!self.exists(rest, control_plane, workers), "{no}, but one is needless: {}", context());
        }
    }
}

struct Question {
    list: Vec<String>,
    target: String,
    from: Running,
}

fn question(random: &mut Random) -> Question {
    let oddity = random.pick(&[2, 6, 40]);
    let most = random.pick(&[3, 8, 8, 40]);
    let (first, minors) = (21 + random.below(12), 1 + random.below(most));
    let mut list = Vec::new();
    for minor in first..first + minors {
        if !random.once_in(oddity * 3) {
            list.extend((0..=random.below(4)).map(|_| version(random, minor, oddity)));
        }
    }
    match random.below(3) {
        0 => list.sort(),
        1 => list.sort_by_key(|text| text.len() % 7),
        _ => {}
    }
    let all = list.clone();
    let near = |random: &mut Random, minor: usize| {
        let listed: Vec<_> = all.iter().filter(|text| text.contains(&format!(".{minor}."))).cloned().collect();
        if listed.is_empty() || random.once_in(8) { version(random, minor, oddity) } else { random.pick(&listed) }
    };
    let at = first + random.below(minors);
    let mut control_plane = near(random, at);
    let to = if random.once_in(3) { at } else { (at + random.below(8)).min(first + minors) };
    let to = if random.once_in(4) { first + minors - 1 } else { to };
    let mut target = near(random, to);
    // What chance hardly meets: the same version with other tags, and very long ways.
    if random.once_in(6) {
        let tags = ["+a", "+b", "+1", "+01", ""];
        (control_plane, target) =
            (format!("v1.{at}.1{}", random.pick(&tags)), format!("v1.{at}.1{}", random.pick(&tags)));
        if random.once_in(2) {
            list.extend([control_plane.clone(), target.clone()]);
        }
    } else if random.once_in(50) {
        (control_plane, target) = (format!("v1.{at}.1"), near(random, at + 1));
        let workers = [format!("v1.{}.0", at - if at < 28 { 2 } else { 3 }), format!("v1.{at}.2")];
        return Question { list, target, from: Running { control_plane, workers: workers.into() } };
    } else if random.once_in(50) {
        target = format!("v1.{}.0", at + 31 + random.below(3));
    }
    let workers = (0..random.below(4)).map(|_| {
        let minor = (at + random.below(2)).saturating_sub(random.below(4).max(random.below(2)));
        if random.once_in(3) { control_plane.clone() } else { near(random, minor) }
    });
    let workers = workers.collect();
    Question { list, target, from: Running { control_plane, workers } }
}

/// A patch that beats all those of the random lists.
fn patches(minors: impl IntoIterator<Item = u64>) -> Vec<String> {
    minors.into_iter().map(|minor| format!("v1.{minor}.999")).collect()
}

#[test]
fn plans_over_random_lists_arrive_in_every_order_and_missing_minors_are_the_fewest() {
    let (mut random, cases) = (Random(8), 8_000);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..cases {
        let Question { list, target, from } = question(&mut random);
        let list = known(&list);
        let workers: Vec<_> = from.workers.iter().map(|text| Known::new(text)).collect();
        let (target, control_plane) = (Known::new(&target), Known::new(&from.control_plane));
        let with = |added: &[String]| {
            let list: Vec<_> = list.iter().cloned().chain(known(added)).collect();
            recommend(&list, &target, &from).map(|plan| plan.control_plane.len())
        };
        let walk = |list: &[Known<'_>], told| {
            let list = list.to_vec();
            Walk { list: &list, target: target.clone(), told, done: BTreeSet::new() }.arrives(&from)
        };
        let class = match recommend(&list, &target, &from) {
            Ok(plan) => {
                walk(&list, Told::All);
                // An extension does not see the other sets, so it cannot know of those that are above or without order.
                let order =
                    |worker: &Known<'_>| Some(worker.version.as_ref()?.cmp_precedence(control_plane.version.as_ref()?));
                let plain = |worker: &Known<'_>| !worker.text.contains('+') && worker.text.starts_with("v1");
                if workers.iter().all(|worker| plain(worker) && order(worker).is_some_and(Ordering::is_le)) {
                    walk(&list, Told::Lowest);
                    *seen.entry("told the lowest alone".to_owned()).or_default() += 1;
                }
                format!("{} hops, {} steps", plan.control_plane.len().min(3), plan.workers.len().min(3))
            }
            Err(no) => {
                let numbers: Vec<u64> = no.missing.iter().map(|minor| minor.minor).collect();
                assert!(no.missing.is_sorted() && no.missing.iter().all(|minor| minor.major == 1 || minor.major == 2));
                if no.missing.is_empty() {
                    assert_eq!(with(&patches(15..120)).map_err(|no| no.obstacle), Err(no.obstacle), "{no}");
                } else if no.missing[0].major == 1 {
                    let filled: Vec<_> = patches(numbers.iter().copied());
                    let filled: Vec<_> = list.iter().cloned().chain(known(&filled)).collect();
                    walk(&filled, Told::All);
                    for (one, minor) in numbers.iter().zip(&no.missing) {
                        let rest = with(&patches((15..120).filter(|other| other != one)));
                        assert_eq!(rest.map_err(|no| no.missing), Err(vec![*minor]), "{no}");
                    }
                }
                no.obstacle.to_string()
            }
        };
        *seen.entry(class).or_default() += 1;
    }
    println!("{seen:#?}");
    let rare: Vec<_> = Obstacle::ALL.iter().filter(|one| seen.get(one.as_str()).is_none_or(|met| *met < 20)).collect();
    assert!(rare.is_empty(), "hardly met: {rare:?}");
    assert!(seen["told the lowest alone"] > cases / 20 && seen["3 hops, 3 steps"] > 50);
}
