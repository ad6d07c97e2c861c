//! `planner`: golden plans of upstream's own functions, over three planner generations.

#[path = "support/random.rs"]
mod random;

use std::collections::BTreeSet;

use capi_version_guard::{
    model::Provider,
    planner::{DeadEnd, Installed, Known, Release, Running, Source, Trap, Upgrade, min_workers, plan, simulate},
};
use random::Random;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    planner: String,
    source: String,
    #[serde(default)]
    versions: Vec<String>,
    #[serde(default)]
    given_control_plane: Vec<String>,
    #[serde(default)]
    given_workers: Vec<String>,
    target: String,
    control_plane: String,
    workers: Vec<String>,
    control_plane_plan: Vec<String>,
    worker_plan: Vec<String>,
    min_worker: Option<String>,
    error: Option<String>,
}

#[test]
fn plans_equal_upstream() {
    let path = format!("{}/tests/cases/upstream-plans.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut seen = 0;
    for line in text.lines() {
        let golden: Golden = serde_json::from_str(line).unwrap();
        let release = match golden.planner.as_str() {
            "1.12.0" => Release::V1_12_0,
            "1.12.11" => Release::V1_12_4,
            "1.14.0" => Release::V1_13,
            other => panic!("unknown planner {other}"),
        };
        let list: Vec<_> = golden.versions.iter().map(|text| Known::new(text)).collect();
        let given: Vec<&str> = golden.given_control_plane.iter().map(String::as_str).collect();
        let given_workers: Vec<&str> = golden.given_workers.iter().map(String::as_str).collect();
        let source = match golden.source.as_str() {
            "versions" => Source::List(&list),
            "one-minor" => Source::OneMinor,
            "extension" => Source::Given { control_plane: &given, workers: &given_workers },
            other => panic!("unknown source {other}"),
        };
        let workers: Vec<_> = golden.workers.iter().map(|text| Known::new(text)).collect();
        let (target, control_plane) = (Known::new(&golden.target), Known::new(&golden.control_plane));
        let lowest = min_workers(&control_plane, &workers);
        if let (Ok(lowest), Some(expected)) = (&lowest, &golden.min_worker) {
            let texts: Vec<_> = lowest.iter().flatten().map(ToString::to_string).collect();
            assert_eq!(texts, [expected.as_str()], "{line}");
        }
        let planned = lowest.and_then(|lowest| plan(release, source, &target, &control_plane, lowest[0].as_ref()));
        match planned {
            Ok(plan) => {
                assert_eq!(golden.error, None, "{line}");
                assert_eq!(plan.control_plane, golden.control_plane_plan, "{line}");
                assert_eq!(plan.workers, golden.worker_plan, "{line}");
            }
            Err(no_plan) => assert_eq!(Some(no_plan.reason.as_str()), golden.error.as_deref(), "{line}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 180);
}

/// Follows a chain and says how it ends: "arrives", or the dead end with the state that it is in.
fn follow(release: Release, list: &[&str], target: &str, control_plane: &str, workers: &[&str]) -> String {
    let known: Vec<_> = list.iter().map(|text| Known::new(text)).collect();
    let source = if list.is_empty() { Source::OneMinor } else { Source::List(&known) };
    let workers = workers.iter().map(ToString::to_string).collect();
    let from = Running { control_plane: control_plane.to_owned(), workers };
    match simulate(release, source, target, &from) {
        Ok(()) => "arrives".to_owned(),
        Err(Trap { at, why }) => {
            let why = match why {
                DeadEnd::NoPlan(no_plan) => no_plan.reason.to_string(),
                other => format!("{other:?}"),
            };
            let workers: Vec<_> = at.workers.iter().map(String::as_str).collect();
            format!("{why} at {} / {}", at.control_plane, workers.join(" "))
        }
    }
}

#[test]
fn chains_end_as_the_traps_of_cluster_api_are_known_to() {
    let v = |minors: std::ops::RangeInclusive<u32>| minors.map(|minor| format!("v1.{minor}.0")).collect::<Vec<_>>();
    let all = v(28..=35);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let cases: &[(&str, &[&str], &str, &str, &[&str], &str)] = &[
        ("seven hops, workers in three steps", &all, "v1.35.0", "v1.28.0", &["v1.28.0"], "arrives"),
        ("nothing to do", &all, "v1.30.0", "v1.30.0", &["v1.30.0"], "arrives"),
        ("workers in mid-chain", &all, "v1.34.0", "v1.33.0", &["v1.30.0", "v1.33.0"], "arrives"),
        ("G5", &["v1.32.0", "v1.33.0"], "v1.33.0", "v1.30.0", &[], "cp-skips-minor at v1.30.0 / "),
        (
            "G6",
            &["v1.31.0+a", "v1.31.0+b"],
            "v1.31.0+b",
            "v1.31.0+a",
            &[],
            "plan-does-not-end-at-target at v1.31.0+a / ",
        ),
        ("a build tag alone, no workers, no list", &[], "v1.31.0+b", "v1.31.0+a", &[], "arrives"),
        (
            "G7: stuck half-way",
            &[],
            "v1.31.0+b",
            "v1.31.0+a",
            &["v1.31.0+a"],
            "unknown-build-order at v1.31.0+b / v1.31.0+a",
        ),
        ("numeric build tags", &[], "v1.31.0+k0s.1", "v1.31.0+k0s.0", &["v1.31.0+k0s.0"], "arrives"),
        ("G8", &[], "v1.31.0-rc.1", "v1.31.0", &[], "not-ascending at v1.31.0 / "),
        ("G14", &all, "v1.33.0", "v1.32.0", &["v1.28.0"], "NoWorkerStep at v1.33.0 / v1.28.0"),
        ("G15", &all, "v1.31.0", "v1.31.0", &["v1.32.0"], "NoWorkerStep at v1.31.0 / v1.32.0"),
        ("two minors without a list", &[], "v1.33.0", "v1.31.0", &[], "more-than-one-minor at v1.31.0 / "),
        (
            "equal value, other text",
            &["v1.31.0+1", "v1.31.0+001"],
            "v1.31.0+001",
            "v1.31.0+1",
            &[],
            "NoControlPlaneStep at v1.31.0+1 / ",
        ),
        (
            "one set at the target, another above",
            &all,
            "v1.31.0",
            "v1.31.0",
            &["v1.31.0", "v1.32.0"],
            "NoWorkerStep at v1.31.0 / v1.31.0 v1.32.0",
        ),
    ];
    for (name, list, target, control_plane, workers, expected) in cases {
        assert_eq!(follow(Release::V1_13, list, target, control_plane, workers), *expected, "{name}");
    }
    // 1.12.4 planned what 1.13 cannot: a build tag alone, by position in the list.
    let tags = ["v1.31.0+a", "v1.31.0+b"];
    assert_eq!(follow(Release::V1_12_4, &tags, "v1.31.0+b", "v1.31.0+a", &[]), "arrives");
}

#[test]
fn the_lowest_worker_turns_on_the_order_only_among_tags_that_are_not_the_control_planes() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("v1.31.0", &["v1.30.0", "v1.31.0"], &["v1.30.0"]),
        ("v1.31.0+c", &["v1.31.0+a", "v1.31.0+b"], &["v1.31.0+a", "v1.31.0+b"]),
        // What is at the control plane's own tag never takes the place of another.
        ("v1.31.0+a", &["v1.31.0+a", "v1.31.0+b"], &["v1.31.0+b"]),
        ("v1.31.0+a", &["v1.31.0+a", "v1.31.0+b", "v1.30.0"], &["v1.30.0"]),
        // Two spellings compare equal, so either can be left.
        ("v1.31.0", &["v1.30.0+1", "v1.30.0+001", "v1.30.1"], &["v1.30.0+001", "v1.30.0+1"]),
        // However many there are.
        (
            "v1.31.0",
            &[
                "v1.30.10", "v1.30.11", "v1.30.12", "v1.30.13", "v1.30.14", "v1.30.15", "v1.30.16", "v1.30.17",
                "v1.30.18", "v1.30.19", "v1.30.20", "v1.30.21", "v1.30.22", "v1.30.9",
            ],
            &["v1.30.9"],
        ),
        ("v1.31.0+a", &["v1.31.0+a", ""], &["v1.31.0+a"]),
        ("v1.31.0+a", &[""], &[]),
    ];
    for (control_plane, workers, expected) in cases {
        let workers: Vec<_> = workers.iter().map(|text| Known::new(text)).collect();
        let lowest = min_workers(&Known::new(control_plane), &workers).unwrap();
        let mut lowest: Vec<_> = lowest.iter().flatten().map(ToString::to_string).collect();
        lowest.sort();
        assert_eq!(lowest, *expected, "{control_plane}");
    }
}

#[test]
fn what_a_release_plans_with() {
    let cases = [
        ("v1.11.9", None),
        ("1.12.0", Some((Release::V1_12_0, None))),
        ("v1.12.3", Some((Release::V1_12_0, None))),
        ("v1.12.4", Some((Release::V1_12_4, None))),
        ("v1.13.0", Some((Release::V1_13, None))),
        ("v1.14.2", Some((Release::V1_13, None))),
        ("v1.15.0", Some((Release::V1_13, Some((1, 15))))),
        ("v2.0.0", Some((Release::V1_13, Some((2, 0))))),
    ];
    for (text, expected) in cases {
        let installed = Installed::of_version(text).unwrap();
        assert_eq!(installed.release.map(|release| (release, installed.unknown)), expected, "{text}");
    }
    assert_eq!(Installed::of_version("latest"), None);
}

/// Eight worker sets whose build tags have no order take each stage in any order: hundreds of states, but not too many.
#[test]
fn hundreds_of_states_are_followed_to_their_end() {
    let versions: Vec<String> = (30..37).map(|minor| format!("v1.{minor}.0")).collect();
    let known: Vec<_> = versions.iter().map(|text| Known::new(text)).collect();
    let upgrade =
        Upgrade { release: Release::V1_13, source: Source::List(&known), target: "v1.36.0", provider: Provider::Other };
    let workers = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|tag| format!("v1.30.0+{tag}"));
    let from = Running { control_plane: "v1.30.0".to_owned(), workers: workers.into() };
    let mut seen = BTreeSet::new();
    assert!(all_orders_arrive(&upgrade, &from, &mut seen));
    assert!(seen.len() > 200, "{}", seen.len());
    assert_eq!(upgrade.follow(&from), Ok(()));
}

/// Whether every order of events arrives, by a look at all of them.
fn all_orders_arrive(upgrade: &Upgrade<'_>, state: &Running, seen: &mut BTreeSet<Running>) -> bool {
    if !seen.insert(state.clone()) {
        return true;
    }
    upgrade.next(state).is_ok_and(|next| next.iter().all(|next| all_orders_arrive(upgrade, next, seen)))
}

#[test]
fn the_orders_that_are_followed_tell_of_all() {
    let (mut random, mut arrive, mut end) = (Random(1), 0, 0);
    for _ in 0..20_000 {
        let version = |random: &mut Random, minor: usize| {
            let tail = random.pick(&["", "", "", "-rc.1", "+1", "+2", "+a", "+b"]);
            format!("v1.{minor}.{}{tail}", random.below(2))
        };
        let mut list = Vec::new();
        for minor in 30..31 + random.below(6) {
            for _ in 0..=random.below(2) {
                list.push(version(&mut random, minor));
            }
        }
        let known: Vec<_> = list.iter().map(|text| Known::new(text)).collect();
        let source = if random.once_in(8) { Source::OneMinor } else { Source::List(&known) };
        let (target, at) = (random.pick(&list), 30 + random.below(4));
        let control_plane = version(&mut random, at);
        let mut workers = BTreeSet::new();
        for _ in 0..random.below(5) {
            let behind = random.below(3);
            workers.insert(version(&mut random, at - behind));
        }
        let release = random.pick(&[Release::V1_12_0, Release::V1_12_4, Release::V1_13]);
        let upgrade = Upgrade { release, source, target: &target, provider: Provider::Other };
        let from = Running { control_plane, workers };
        let followed = upgrade.follow(&from);
        let all = all_orders_arrive(&upgrade, &from, &mut BTreeSet::new());
        assert_eq!(followed.is_ok(), all, "{list:?} to {target} from {from:?}: {followed:?}");
        if all { arrive += 1 } else { end += 1 }
    }
    assert!(arrive >= 2_000 && end >= 2_000, "{arrive} arrive, {end} do not");
}
