//! `planner` against the planners of four releases of Cluster API.

use std::thread;

use capi_version_guard::{
    planner::{Known, Reason, Release, Source, min_workers, plan},
    version::KubernetesVersion,
};
use serde::{Deserialize, Serialize};

use crate::{
    ask::{answers, ask, lines},
    random::{Random, list, version},
    setting,
    table::Table,
};

/// A release of Cluster API whose oracle is built, and the planner that emulates it.
const RELEASES: [(&str, Release); 4] = [
    ("v1.12.3", Release::V1_12_0),
    ("v1.12.5", Release::V1_12_4),
    ("v1.13.6", Release::V1_13),
    ("v1.14.2", Release::V1_13),
];

/// What the planner's oracle is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Question {
    pub op: &'static str,
    pub source: &'static str,
    pub versions: Vec<String>,
    pub given_control_plane: Vec<String>,
    pub given_workers: Vec<String>,
    pub target: String,
    pub control_plane: String,
    pub workers: Vec<String>,
    pub a: String,
    pub b: String,
}

/// What it answers.
#[derive(Debug, Deserialize, PartialEq)]
pub struct Answer {
    #[serde(default, deserialize_with = "null_is_empty")]
    control_plane_plan: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    worker_plan: Vec<String>,
    error: String,
    text: String,
    pub compare: [i8; 3],
    pub canonical: String,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
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
        let replies: Vec<Answer> = answers(name, "planner", &smaller);
        match smaller.iter().zip(&replies).find(|(one, answer)| !agrees(release, one, answer)) {
            Some((one, _)) => question = one.clone(),
            None => {
                let answer = answers(name, "planner", std::slice::from_ref(&question)).remove(0);
                return (question, answer);
            }
        }
    }
}

/// What became of a question, as the table calls it.
fn outcome(answer: &Answer) -> &str {
    match (answer.error.as_str(), answer.control_plane_plan.len(), answer.worker_plan.len()) {
        ("", 0, 0) => "no step",
        ("", 0, _) => "workers alone",
        ("", 1, _) => "one hop",
        ("", _, _) => "several hops",
        (error, ..) => error,
    }
}

/// The outcomes that one release has for the questions, in this column of a table, and the first that differs.
fn compare(column: usize, questions: &[Question], lines: &[u8]) -> (Table, Option<Question>) {
    let (name, release) = RELEASES[column];
    let mut table = Table::default();
    let mut differs = None;
    let mut left = questions.iter();
    ask(name, "planner", lines, |answer: Answer| {
        let question = left.next().expect("no more answers than questions");
        if differs.is_none() && !agrees(release, question, &answer) {
            differs = Some(question.clone());
        }
        table.count(outcome(&answer), column);
    });
    (table, differs)
}

/// So many questions are held in memory at a time.
const CHUNK: u64 = 50_000;

#[test]
fn plans_are_those_of_cluster_api() {
    let (cases, seed) = (setting("FIDELITY_CASES", 20_000), setting("FIDELITY_SEED", 1));
    let mut random = Random(seed);
    let mut table = Table::default();
    for reason in Reason::ALL {
        table.expect(reason.as_str());
    }
    let mut left = cases;
    while left > 0 {
        let chunk = left.min(CHUNK);
        left -= chunk;
        let questions: Vec<_> = (0..chunk).map(|_| case(&mut random)).collect();
        let lines = lines(&questions);
        let compared: Vec<_> = thread::scope(|scope| {
            let (questions, lines) = (&questions, &lines);
            let threads: Vec<_> =
                (0..RELEASES.len()).map(|column| scope.spawn(move || compare(column, questions, lines))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for ((name, release), (counts, differs)) in RELEASES.into_iter().zip(compared) {
            table.merge(counts);
            if let Some(question) = differs {
                let (question, answer) = shrink(name, release, question);
                panic!("{name}: {question:?}\n theirs: {answer:?}\n ours: {:?}", ours(release, &question));
            }
        }
    }
    println!("\n{cases} plans per release, seed {seed}: no difference\n");
    table.print("outcome", &RELEASES.map(|(name, _)| name));
    // Only with the newest: 1.12 gives some reasons to other cases.
    let rare = table.rarer_than(cases / 100, RELEASES.len() - 1);
    assert!(rare.is_empty(), "in less than 1 % of the cases, so hardly tested: {rare:?}");
}
