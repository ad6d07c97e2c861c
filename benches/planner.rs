//! `make bench-planner`: what a plan costs, beside Cluster API's own planner on the same cases.
//!
//! Both do the same work: parse the list and the versions, find the lowest worker, plan, complete and check. The rounds are
//! interleaved, so that a noisy moment of the machine hits both, and the median is told. The allocator counts, which costs
//! ours a little time and Go's none.
#![allow(missing_docs, reason = "nobody depends on a bench")]

use std::{
    alloc::System,
    hint::black_box,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use capi_version_guard::planner::{Known, Plan, Release, Running, Source, min_workers, plan, recommend, simulate};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[path = "../tests/support/oracle.rs"]
mod oracle;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RELEASE: &str = "v1.14.2";
const ROUNDS: usize = 31;
const PLANS_PER_ROUND: u32 = 2_000;
/// A plan over a list of 100 entries takes at most this.
const TARGET_NANOSECONDS: f64 = 20_000.0;

struct Case {
    name: &'static str,
    versions: Vec<String>,
    from: String,
    to: String,
}

fn cases() -> Vec<Case> {
    let list = |minors: std::ops::Range<usize>, tails: &[&str]| -> Vec<String> {
        minors.flat_map(|minor| tails.iter().map(move |tail| format!("v1.{minor}.{tail}"))).collect()
    };
    let case = |name, versions: Vec<String>| {
        let (from, to) = (versions[0].clone(), versions[versions.len() - 1].clone());
        Case { name, versions, from, to }
    };
    vec![
        case("100 entries, 10 minors", list(30..40, &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"])),
        case("8 entries, 8 minors", list(30..38, &["4"])),
        case("24 entries, unordered build tags", list(30..38, &["4+a", "4+b", "4+c"])),
        Case {
            name: "no list, one minor up",
            versions: Vec::new(),
            from: "v1.30.4".to_owned(),
            to: "v1.31.2".to_owned(),
        },
    ]
}

impl Case {
    fn question(&self) -> Value {
        json!({
            "op": "bench", "rounds": PLANS_PER_ROUND,
            "source": if self.versions.is_empty() { "one-minor" } else { "versions" },
            "versions": self.versions, "target": self.to, "control_plane": self.from, "workers": [self.from],
        })
    }

    fn parsed(&self) -> Vec<Known<'_>> {
        self.versions.iter().map(|entry| Known::new(entry)).collect()
    }

    /// A plan, from a list that is parsed already.
    fn plan<'a>(&'a self, list: &'a [Known<'a>]) -> Plan<'a> {
        let source = if list.is_empty() { Source::OneMinor } else { Source::List(list) };
        let (target, control_plane) = (Known::new(&self.to), Known::new(&self.from));
        let lowest = min_workers(&control_plane, &[Known::new(&self.from)]).unwrap().remove(0);
        plan(Release::V1_13, source, &target, &control_plane, lowest.as_ref()).unwrap()
    }

    /// The whole way, hop by hop.
    fn simulate(&self, list: &[Known<'_>]) {
        let source = if list.is_empty() { Source::OneMinor } else { Source::List(list) };
        let from = Running { control_plane: self.from.clone(), workers: [self.from.clone()].into() };
        simulate(Release::V1_13, source, &self.to, &from).unwrap();
    }

    /// The plan that we recommend, which is one only after a look at the whole way.
    fn recommend(&self, list: &[Known<'_>]) {
        let (target, workers) = (Known::new(&self.to), [self.from.clone()].into());
        recommend(list, &target, &Running { control_plane: self.from.clone(), workers }).unwrap();
    }
}

/// Cluster API's planner, in a process of its own.
struct Oracle {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    fn start() -> Self {
        let mut process = Command::new(oracle::build(RELEASE, "planner"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (questions, answers) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, questions, answers }
    }

    fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.questions, "{question}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Nanoseconds of one run.
fn time(mut run: impl FnMut()) -> f64 {
    let begin = Instant::now();
    for _ in 0..PLANS_PER_ROUND {
        run();
    }
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(PLANS_PER_ROUND)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Allocations of one run, growths of what is allocated included.
fn allocations(run: impl FnOnce()) -> usize {
    let before = ALLOCATOR.stats();
    run();
    let after = ALLOCATOR.stats();
    after.allocations + after.reallocations - before.allocations - before.reallocations
}

fn main() {
    let mut oracle = Oracle::start();
    println!("median of {ROUNDS} rounds of {PLANS_PER_ROUND} plans; times in µs, the list parsed in each plan\n");
    println!(
        "| case                             |  ours | Cluster API {RELEASE} | ratio | list parsed before | whole way | recommended |"
    );
    println!(
        "|----------------------------------|------:|--------------------:|------:|-------------------:|----------:|------------:|"
    );
    let (mut counts, mut met) = (Vec::new(), None);
    for case in cases() {
        let list = case.parsed();
        let (mut ours, mut theirs, mut alone, mut way, mut better) = (vec![], vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            ours.push(time(|| drop(black_box(case.plan(&case.parsed())))));
            let answer = oracle.ask(&case.question());
            assert_eq!(answer["control_plane_plan"], json!(case.plan(&list).control_plane), "{}", case.name);
            assert_eq!(answer["worker_plan"], json!(case.plan(&list).workers), "{}", case.name);
            theirs.push(answer["nanoseconds"].as_f64().unwrap());
            alone.push(time(|| drop(black_box(case.plan(&list)))));
            way.push(time(|| case.simulate(black_box(&list))));
            better.push(time(|| case.recommend(black_box(&list))));
        }
        let [ours, theirs, alone, way, better] = [ours, theirs, alone, way, better].map(median);
        println!(
            "| {:<32} | {:>5.2} | {:>19.2} | {:>5.2} | {:>18.2} | {:>9.2} | {:>11.2} |",
            case.name,
            ours / 1e3,
            theirs / 1e3,
            ours / theirs,
            alone / 1e3,
            way / 1e3,
            better / 1e3,
        );
        counts.push((
            case.name,
            allocations(|| drop(case.parsed())),
            allocations(|| drop(case.plan(&list))),
            allocations(|| case.simulate(&list)),
        ));
        if case.versions.len() == 100 {
            met = Some(if ours <= TARGET_NANOSECONDS { "met" } else { "not met" });
        }
    }
    println!("\n| allocations                      | parse the list | plan | whole way |");
    println!("|----------------------------------|---------------:|-----:|----------:|");
    for (name, parse, plan, way) in counts {
        println!("| {name:<32} | {parse:>14} | {plan:>4} | {way:>9} |");
    }
    println!("\ntarget: a plan over 100 entries in at most 20 µs: {}", met.unwrap_or("not measured"));
}
