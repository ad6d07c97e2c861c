//! `planner`: golden plans of upstream's own functions, over three planner generations.

use capi_version_guard::planner::{Known, Release, Source, min_workers, plan};
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
