//! `planner`: a plan allocates for its steps, not for the entries of the list.
//!
//! One test in one process: it counts every allocation.

use std::alloc::System;

use capi_version_guard::planner::{Known, Release, Source, min_workers, plan};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations while `run` works, growths of what is allocated included.
fn allocations<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATOR.stats();
    let result = run();
    let after = ALLOCATOR.stats();
    (result, after.allocations + after.reallocations - before.allocations - before.reallocations)
}

/// A list of ten minors with so many patches each.
fn list(patches: usize) -> Vec<String> {
    (30..40).flat_map(|minor| (0..patches).map(move |patch| format!("v1.{minor}.{patch}+k8s.{patch}"))).collect()
}

#[test]
fn a_plan_allocates_for_its_steps_and_not_for_the_entries() {
    let mut counts = Vec::new();
    for patches in [1, 10] {
        let texts = list(patches);
        let (list, parsing) = allocations(|| texts.iter().map(|entry| Known::new(entry)).collect::<Vec<_>>());
        assert_eq!(parsing, 1, "the list itself, of {} entries", list.len());
        let (target, control_plane) = (Known::new(&texts[texts.len() - 1]), Known::new(&texts[0]));
        let lowest = min_workers(&control_plane, &[Known::new(&texts[0])]).unwrap().remove(0);
        for release in [Release::V1_12_0, Release::V1_12_4, Release::V1_13] {
            let make = || plan(release, Source::List(&list), &target, &control_plane, lowest.as_ref()).unwrap();
            let (plan, planning) = allocations(make);
            // From the lowest of a minor to the last of the tenth.
            assert_eq!((plan.control_plane.len(), plan.workers.len()), (9, 3), "{release:?}");
            counts.push(planning);
        }
    }
    let (few, many) = counts.split_at(3);
    assert_eq!(few, many, "10 and 100 entries");
    assert!(few.iter().all(|count| *count <= 10), "allocations of a plan: {few:?}");
}
