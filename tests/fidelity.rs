//! `planner` and `version` against Cluster API's own functions: random cases, every answer compared.
//!
//! `FIDELITY_CASES` sets the number of plans per release (`make fidelity CASES=1000000`), `FIDELITY_SEED` the seed. The
//! oracles are built by `tests/oracle/build.sh`; if that fails, the test fails.

mod random;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use capi_version_guard::{
    planner::{Known, Reason, Release, Source, min_workers, plan},
    version::KubernetesVersion,
};
use random::Random;
use serde::{Deserialize, Serialize};

/// A release of Cluster API that is built, and the planner that emulates it.
const RELEASES: [(&str, Release); 4] = [
    ("v1.12.3", Release::V1_12_0),
    ("v1.12.5", Release::V1_12_4),
    ("v1.13.6", Release::V1_13),
    ("v1.14.2", Release::V1_13),
];

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Question {
    op: &'static str,
    source: &'static str,
    versions: Vec<String>,
    given_control_plane: Vec<String>,
    given_workers: Vec<String>,
    target: String,
    control_plane: String,
    workers: Vec<String>,
    a: String,
    b: String,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Answer {
    #[serde(default, deserialize_with = "null_is_empty")]
    control_plane_plan: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    worker_plan: Vec<String>,
    error: String,
    text: String,
    compare: [i8; 3],
    canonical: String,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Asks one oracle many questions.
fn ask(release: &str, questions: &[Question]) -> Vec<Answer> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/build.sh");
    let built = Command::new(script).arg(release).stderr(Stdio::inherit()).output().unwrap();
    assert!(built.status.success(), "the oracle of Cluster API {release} cannot be built");
    let mut oracle = Command::new(String::from_utf8(built.stdout).unwrap().trim())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = oracle.stdin.take().unwrap();
    let answers = BufReader::new(oracle.stdout.take().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for question in questions {
                serde_json::to_writer(&mut stdin, question).unwrap();
                stdin.write_all(b"\n").unwrap();
            }
        });
        let answers: Vec<Answer> = answers.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        assert!(oracle.wait().unwrap().success());
        assert_eq!(answers.len(), questions.len());
        answers
    })
}

const TAGS: [&str; 8] = ["+a", "+b", "+a.1", "+a.2", "+1", "+01", "+k3s1", "+x.2-y"];
const PRE_RELEASES: [&str; 4] = ["-rc.1", "-rc.2", "-alpha", "-0"];

/// One version near minor 30, hostile in one of `oddity`.
fn version(random: &mut Random, minor: usize, oddity: usize) -> String {
    let major = if random.once_in(oddity * 8) { 2 } else { 1 };
    let pre = if random.once_in(oddity) { random.pick(&PRE_RELEASES) } else { "" };
    let tag = if random.once_in(oddity) { random.pick(&TAGS) } else { "" };
    let plain = format!("{major}.{minor}.{}{pre}{tag}", random.below(3));
    match random.below(oddity * 12) {
        0 => plain,
        1 => format!(" v{plain}"),
        2 => format!("v0{plain}"),
        3 if pre.is_empty() && tag.is_empty() => format!("v{major}.{minor}"),
        4 => "latest".to_owned(),
        5 => format!("v{plain}_"),
        _ => format!("v{plain}"),
    }
}

/// An ascending list over some minors, with gaps, twins and twists.
fn list(random: &mut Random, oddity: usize) -> Vec<String> {
    let most = if random.once_in(50) { 90 } else { 8 };
    let (first, minors) = (28 + random.below(4), 1 + random.below(most));
    let mut list = Vec::new();
    for minor in first..first + minors {
        if random.once_in(oddity * 3) {
            continue;
        }
        for _ in 0..=random.below(3) {
            list.push(version(random, minor, oddity));
        }
    }
    if random.once_in(3) {
        list.sort();
    }
    list
}

/// Cases that chance hardly meets: each aims at one reason, and may miss it.
fn aimed(random: &mut Random) -> Question {
    let minor = 30 + random.below(3);
    let at = |minor: usize, tag: &str| format!("v1.{minor}.1{tag}");
    let question = Question { op: "plan", source: "extension", ..Question::default() };
    let tags = ["+a", "+b", "+c", "+d.1"];
    match random.below(5) {
        // At the target, with steps all the same.
        0 => {
            let here = at(minor, random.pick(&["", "+a"]));
            let steps = vec![here.clone(); 1 + random.below(2)];
            let (given_control_plane, given_workers) =
                if random.once_in(2) { (steps, vec![]) } else { (vec![], steps) };
            let workers = if random.once_in(3) { vec![at(minor - 1, "")] } else { vec![] };
            Question {
                target: here.clone(),
                control_plane: here,
                given_control_plane,
                given_workers,
                workers,
                ..question
            }
        }
        // Workers far behind, in one step.
        1 => {
            let target = at(minor + 1 + random.below(5), "");
            let control_plane = if random.once_in(2) { target.clone() } else { at(minor + 3, "") };
            let given_control_plane = if control_plane == target { vec![] } else { vec![target.clone()] };
            let workers = vec![at(minor - random.below(2), "")];
            Question {
                given_workers: vec![target.clone()],
                target,
                control_plane,
                given_control_plane,
                workers,
                ..question
            }
        }
        // Steps of the workers that the control plane does not take.
        2 => {
            let hops: Vec<_> = (1..=2).map(|up| at(minor + up, "")).collect();
            let foreign = random.pick(&[at(minor + 1, "+x"), format!("v1.{}.0", minor + 2), at(minor, "")]);
            let (target, control_plane) = (hops[1].clone(), at(minor, ""));
            let given_workers = vec![foreign, target.clone()];
            let workers = vec![control_plane.clone()];
            Question { target, control_plane, given_control_plane: hops, given_workers, workers, ..question }
        }
        // Textual build tags of one version, with workers: half-way there is no order.
        3 => {
            let (from, to) = (random.pick(&tags), random.pick(&tags));
            let (target, lowest) = (at(minor, to), at(minor, from));
            let control_plane = if random.once_in(3) { lowest.clone() } else { target.clone() };
            let versions = vec![at(minor, from), at(minor, to)];
            let source = random.pick(&["one-minor", "versions"]);
            Question { source, versions, target, control_plane, workers: vec![lowest], ..question }
        }
        // Textual build tags in the plan of the control plane, and in another order in that of the workers.
        _ => {
            let (a, b) = (random.pick(&tags), random.pick(&tags));
            let target = at(minor + 1, a);
            let given_control_plane = vec![at(minor, a), at(minor, b), target.clone()];
            let mut given_workers = vec![at(minor, b), at(minor, a), target.clone()];
            if random.once_in(3) {
                given_workers.remove(0);
            }
            let control_plane = at(minor - 1, "");
            let workers = vec![control_plane.clone()];
            Question { target, control_plane, given_control_plane, given_workers, workers, ..question }
        }
    }
}

fn case(random: &mut Random) -> Question {
    if random.once_in(4) {
        return aimed(random);
    }
    // A third of the cases is tame, so that chains are long; a third is wild.
    let oddity = random.pick(&[2, 6, 40]);
    let versions = list(random, oddity);
    let near = |random: &mut Random| {
        if !versions.is_empty() && !random.once_in(8) {
            random.pick(&versions)
        } else {
            let minor = 28 + random.below(9);
            version(random, minor, oddity)
        }
    };
    let (mut control_plane, mut target) = (near(random), near(random));
    // Mostly upwards.
    if !random.once_in(6) {
        let value = |text: &str| KubernetesVersion::parse_lenient(text).ok();
        if let (Some(from), Some(to)) = (value(&control_plane), value(&target))
            && to.cmp_precedence(&from).is_lt()
        {
            std::mem::swap(&mut control_plane, &mut target);
        }
    }
    let mut workers: Vec<String> = (0..random.below(4)).map(|_| near(random)).collect();
    if random.once_in(2) {
        workers.iter_mut().for_each(|worker| worker.clone_from(&control_plane));
    }
    if random.once_in(20) {
        workers.push(String::new());
    }
    let source = random.pick(&["versions", "versions", "versions", "one-minor", "extension"]);
    let mut question = Question { op: "plan", source, versions, target, control_plane, workers, ..Question::default() };
    if source == "extension" {
        // What the list planner would say, or a part of the list, and steps of the workers out of it.
        let known: Vec<_> = question.versions.iter().map(|text| Known::new(text)).collect();
        let (to, from) = (Known::new(&question.target), Known::new(&question.control_plane));
        let planned = plan(Release::V1_13, Source::List(&known), &to, &from, None).ok();
        let mut hops: Vec<String> = match planned {
            Some(plan) if !random.once_in(3) => plan.control_plane.iter().map(ToString::to_string).collect(),
            _ => question.versions.iter().filter(|_| random.once_in(2)).cloned().collect(),
        };
        if random.once_in(6) && !hops.is_empty() {
            let at = random.below(hops.len());
            hops.remove(at);
        }
        question.given_workers = hops.iter().filter(|_| random.once_in(3)).cloned().collect();
        if random.once_in(2) && !question.given_workers.is_empty() {
            question.given_workers.push(question.target.clone());
        }
        question.given_control_plane = hops;
    }
    question
}

/// What a planner says: both plans, or the word of the reason.
type Said = Result<(Vec<String>, Vec<String>), String>;

/// Every answer that our planner holds possible.
fn ours(release: Release, question: &Question) -> Vec<Said> {
    let known: Vec<_> = question.versions.iter().map(|text| Known::new(text)).collect();
    let texts = |list: &[String]| list.to_vec();
    let (given, given_workers) = (texts(&question.given_control_plane), texts(&question.given_workers));
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let given_workers: Vec<&str> = given_workers.iter().map(String::as_str).collect();
    let source = match question.source {
        "versions" => Source::List(&known),
        "one-minor" => Source::OneMinor,
        _ => Source::Given { control_plane: &given, workers: &given_workers },
    };
    let (target, control_plane) = (Known::new(&question.target), Known::new(&question.control_plane));
    let workers: Vec<_> = question.workers.iter().map(|text| Known::new(text)).collect();
    let owned = |list: Vec<&str>| list.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>();
    match min_workers(&control_plane, &workers) {
        Err(no_plan) => vec![Err(no_plan.reason.as_str().to_owned())],
        Ok(all) => all
            .iter()
            .map(|lowest| match plan(release, source, &target, &control_plane, lowest.as_ref()) {
                // Without worker sets the plan of the workers is recorded nowhere.
                Ok(plan) => Ok((
                    owned(plan.control_plane),
                    if question.workers.is_empty() { Vec::new() } else { owned(plan.workers) },
                )),
                Err(no_plan) => Err(no_plan.reason.as_str().to_owned()),
            })
            .collect(),
    }
}

fn agrees(release: Release, question: &Question, answer: &Answer) -> bool {
    let theirs = if answer.error.is_empty() {
        Ok((answer.control_plane_plan.clone(), answer.worker_plan.clone()))
    } else {
        Err(answer.error.clone())
    };
    ours(release, question).contains(&theirs)
}

/// The smallest question found that still differs.
fn shrink(name: &str, release: Release, mut question: Question) -> (Question, Answer) {
    loop {
        let mut smaller = Vec::new();
        for at in 0..question.versions.len() {
            let mut one = question.clone();
            one.versions.remove(at);
            smaller.push(one);
        }
        for at in 0..question.workers.len() {
            let mut one = question.clone();
            one.workers.remove(at);
            smaller.push(one);
        }
        let answers = ask(name, &smaller);
        match smaller.iter().zip(&answers).find(|(one, answer)| !agrees(release, one, answer)) {
            Some((one, _)) => question = one.clone(),
            None => {
                let answer = ask(name, std::slice::from_ref(&question)).remove(0);
                return (question, answer);
            }
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

#[test]
fn plans_are_those_of_cluster_api() {
    let (cases, seed) = (setting("FIDELITY_CASES", 20_000), setting("FIDELITY_SEED", 1));
    let mut table: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    for (name, release) in RELEASES {
        let mut random = Random(seed);
        let questions: Vec<_> = (0..cases).map(|_| case(&mut random)).collect();
        let answers = ask(name, &questions);
        for (question, answer) in questions.iter().zip(&answers) {
            if !agrees(release, question, answer) {
                let (question, answer) = shrink(name, release, question.clone());
                panic!("{name}: {question:?}\n theirs: {answer:?}\n ours: {:?}", ours(release, &question));
            }
            let class = match (answer.error.as_str(), answer.control_plane_plan.len(), answer.worker_plan.len()) {
                ("", 0, 0) => "no step".to_owned(),
                ("", 0, _) => "workers alone".to_owned(),
                ("", 1, _) => "one hop".to_owned(),
                ("", _, _) => "several hops".to_owned(),
                (error, ..) => error.to_owned(),
            };
            *table.entry(class).or_default().entry(name).or_default() += 1;
        }
    }
    println!("{cases} cases per release, seed {seed}");
    let mut rare = Vec::new();
    for reason in Reason::ALL {
        table.entry(reason.as_str().to_owned()).or_default();
    }
    for (class, counts) in &table {
        let row: Vec<_> = RELEASES.iter().map(|(name, _)| counts.get(name).copied().unwrap_or(0)).collect();
        println!("{class:<34} {row:?}");
        // Only with the newest: 1.12 gives some reasons to other cases.
        if (row[3] as u64) * 100 < cases {
            rare.push(class);
        }
    }
    assert!(rare.is_empty(), "in less than 1 % of the cases, so hardly tested: {rare:?}");
}

#[test]
fn versions_parse_and_compare_as_in_cluster_api() {
    let mut random = Random(setting("FIDELITY_SEED", 1));
    let mut questions = Vec::new();
    for _ in 0..20_000 {
        let one = |random: &mut Random| {
            let minor = 30 + random.below(2);
            version(random, minor, 2)
        };
        let (a, b) = (one(&mut random), one(&mut random));
        questions.push(Question { op: "strict", a: a.clone(), ..Question::default() });
        questions.push(Question { op: "lenient", a: a.clone(), ..Question::default() });
        questions.push(Question { op: "compare", a, b, ..Question::default() });
    }
    let number = |order: Option<std::cmp::Ordering>| order.map_or(2, |order| order as i8);
    for (question, answer) in questions.iter().zip(ask("v1.14.2", &questions)) {
        let canonical = |parsed: Result<KubernetesVersion, _>| parsed.map_or_else(|_| String::new(), |v| v.to_string());
        match question.op {
            "strict" => {
                assert_eq!(canonical(KubernetesVersion::parse_strict(&question.a)), answer.canonical, "{question:?}")
            }
            "lenient" => {
                assert_eq!(canonical(KubernetesVersion::parse_lenient(&question.a)), answer.canonical, "{question:?}");
            }
            _ => {
                let parse = KubernetesVersion::parse_lenient;
                let compared = match (parse(&question.a), parse(&question.b)) {
                    (Ok(a), Ok(b)) => [
                        number(Some(a.cmp_precedence(&b))),
                        number(a.cmp_with_build(&b)),
                        number(Some(a.cmp_release(&b))),
                    ],
                    _ => [0; 3],
                };
                assert_eq!(compared, answer.compare, "{question:?}");
            }
        }
    }
}
