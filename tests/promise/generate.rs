//! Random sequences, the same for the same seed everywhere.
//!
//! Mostly plausible: lists of neighbors, targets out of the lists. A share of each kind of fault is mixed in, since a
//! sequence in which nothing is wrong shows only that good changes are admitted.

use crate::{
    random::Random,
    sequence::{Annotation, Sequence, Step},
};

const CLASSES: [&str; 3] = ["a", "b", "other/a"];

/// What the generator believes to be there. Writes may be denied, so it may be wrong; then a later step hits nothing, or meets
/// what it did not expect, as users do.
struct Belief {
    lists: Vec<(String, Option<Vec<String>>)>,
    clusters: Vec<Believed>,
}

struct Believed {
    name: String,
    class: String,
    version: String,
    workers: bool,
}

/// The sequence of a seed.
pub fn sequence(seed: u64) -> Sequence {
    let mut random = Random(seed);
    let random = &mut random;
    let mut belief = Belief { lists: Vec::new(), clusters: Vec::new() };
    let aims = random.once_in(2);
    let mut steps = if aims { aimed(random, &mut belief) } else { fleet(random, &mut belief) };
    for _ in 0..3 + random.below(6) {
        steps.extend(step(random, &mut belief));
    }
    // What is aimed at is a state, so it is waited for.
    Sequence { quiet: aims || !random.once_in(3), steps }
}

/// A fleet to begin with: a class or more, and a Cluster or two.
fn fleet(random: &mut Random, belief: &mut Belief) -> Vec<Step> {
    let classes = 1 + random.below(3);
    let mut steps: Vec<_> = CLASSES[..classes].iter().map(|class| create_class(random, belief, class)).collect();
    for name in ["x", "y"].iter().take(1 + usize::from(random.once_in(3))) {
        steps.push(create_cluster(random, belief, name));
    }
    steps
}

/// What chance seldom brings together: a way that is cut, or one that was never there.
fn aimed(random: &mut Random, belief: &mut Belief) -> Vec<Step> {
    let minors = 3 + random.below(4);
    let list = |random: &mut Random, first: usize, count: usize, tag: &str| -> Vec<String> {
        (first..first + count).map(|minor| format!("v1.{minor}.{}{tag}", random.below(3))).collect()
    };
    let first = list(random, 30, minors, "");
    let mut steps = vec![class_of(belief, "a", Some(first.clone()))];
    let workers = random.once_in(2);
    let cluster = |belief: &mut Belief, version: &str| {
        belief.clusters.push(Believed { name: "x".into(), class: "a".into(), version: version.into(), workers });
        Step::CreateCluster {
            cluster: "x".into(),
            class: "a".into(),
            version: version.into(),
            workers,
            restored: false,
        }
    };
    let last = first[first.len() - 1].clone();
    let held = 1 + random.below(first.len() - 1);
    let hold = Step::Hold { cluster: "x".into(), version: first[held].clone(), partly: random.once_in(4) };
    let upgrade = Step::Upgrade { cluster: "x".into(), version: last.clone() };
    match random.below(5) {
        // In the middle of its way the class loses an entry, or exchanges one, or all.
        0 | 1 => {
            steps.push(cluster(belief, &first[0]));
            steps.extend([hold, upgrade]);
            belief.clusters[0].version = last;
            let mut shrunk = first.clone();
            let lost = random.below(shrunk.len());
            match random.below(4) {
                0 => drop(shrunk.remove(lost)),
                1 => shrunk[lost] = format!("v1.{}.7", 30 + lost),
                // What lies behind the hop that it is taking, and often the next one with it.
                _ => drop(shrunk.drain(..=(held + random.below(2)).min(first.len() - 2))),
            }
            steps.push(Step::SetList { class: "a".into(), versions: Some(shrunk) });
        }
        // A class that begins further up, at rest or on the way.
        2 | 3 => {
            steps.push(cluster(belief, &first[0]));
            let (from, count) = (32 + random.below(2), 2 + random.below(3));
            let other = list(random, from, count, "");
            let shared = random.once_in(2);
            let mut second = if shared { first.clone() } else { other };
            if shared && second.len() > 2 {
                second.drain(..1 + random.below(second.len() - 2));
            }
            let name = random.pick(&["b", "other/a"]);
            steps.push(class_of(belief, name, Some(second.clone())));
            if random.once_in(2) {
                steps.extend([hold, upgrade]);
                belief.clusters[0].version.clone_from(&last);
            }
            let version = (!shared || random.once_in(2)).then(|| random.pick(&second));
            belief.clusters[0].version = version.clone().unwrap_or_else(|| belief.clusters[0].version.clone());
            belief.clusters[0].class = name.to_owned();
            steps.push(Step::Rebase { cluster: "x".into(), class: name.to_owned(), version });
        }
        // Build tags, which have an order only if they are numbers.
        _ => {
            let mut tagged = Vec::new();
            for minor in 30..30 + minors {
                let tags = random.pick(&[&["+a"][..], &["+b"], &["+a", "+b"], &["+1", "+2"], &["+a.1", "+a.2"], &[""]]);
                tagged.extend(tags.iter().map(|tag| format!("v1.{minor}.1{tag}")));
            }
            steps.push(Step::SetList { class: "a".into(), versions: Some(tagged.clone()) });
            belief.lists[0].1 = Some(tagged.clone());
            steps.push(cluster(belief, &tagged[0]));
            let target = random.pick(&tagged[1..]);
            belief.clusters[0].version.clone_from(&target);
            steps.push(Step::Upgrade { cluster: "x".into(), version: target });
        }
    }
    steps
}

fn class_of(belief: &mut Belief, class: &str, versions: Option<Vec<String>>) -> Step {
    belief.lists.retain(|(name, _)| name != class);
    belief.lists.push((class.to_owned(), versions.clone()));
    Step::CreateClass { class: class.to_owned(), versions, extension: None }
}

fn step(random: &mut Random, belief: &mut Belief) -> Vec<Step> {
    let at = random.below(belief.clusters.len().max(1));
    let Some(cluster) = belief.clusters.get(at).map(|cluster| cluster.name.clone()) else {
        return vec![create_cluster(random, belief, "x")];
    };
    match random.below(100) {
        0..36 => {
            let version = target(random, belief, at);
            let mut steps = Vec::new();
            // The chain stops half-way, so that what follows meets it there.
            if random.once_in(3) {
                let list = list_of(belief, at);
                let place = |of: &str| list.iter().position(|version| version == of);
                let held = match (place(&belief.clusters[at].version), place(&version)) {
                    (Some(from), Some(to)) if from < to => list[from + 1 + random.below(to - from)].clone(),
                    _ => version.clone(),
                };
                steps.push(Step::Hold { cluster: cluster.clone(), version: held, partly: random.once_in(4) });
            }
            belief.clusters[at].version.clone_from(&version);
            steps.push(Step::Upgrade { cluster, version });
            steps
        }
        36..48 => {
            let class = random.pick(&CLASSES).to_owned();
            let mut steps = Vec::new();
            if !belief.lists.iter().any(|(name, _)| *name == class) && !random.once_in(8) {
                steps.push(create_class(random, belief, &class));
            }
            belief.clusters[at].class.clone_from(&class);
            let version = random.once_in(3).then(|| target(random, belief, at));
            if let Some(version) = &version {
                belief.clusters[at].version.clone_from(version);
            }
            steps.push(Step::Rebase { cluster, class, version });
            steps
        }
        48..72 => vec![set_list(random, belief, at)],
        72..75 => {
            let class = belief.clusters[at].class.clone();
            let extension = random.pick(&[None, Some("plan.nowhere"), Some("plan"), Some("Plan.Recorder")]);
            vec![Step::SetExtension { class, extension: extension.map(ToOwned::to_owned) }]
        }
        75..79 => {
            let class =
                if random.once_in(2) { belief.clusters[at].class.clone() } else { random.pick(&CLASSES).to_owned() };
            let mut steps = vec![Step::DeleteClass { class: class.clone() }];
            if random.once_in(2) {
                steps.push(create_class(random, belief, &class));
            }
            steps
        }
        79..84 => {
            let annotation = random.pick(&[
                Annotation::SkipVersionCheck,
                Annotation::BeforeUpgradeHook,
                Annotation::BeforeUpgradeHook,
                Annotation::Note,
            ]);
            vec![Step::Annotate { cluster, annotation, set: !random.once_in(3) }]
        }
        84..86 => vec![Step::Pause { cluster, paused: !random.once_in(3) }],
        86..89 => {
            let mut steps = vec![Step::DeleteCluster { cluster: cluster.clone() }];
            if random.once_in(2) {
                belief.clusters.retain(|other| other.name != cluster);
                steps.push(create_cluster(random, belief, &cluster));
            }
            steps
        }
        89..93 => {
            let version = listed(random, belief, at);
            vec![Step::Hold { cluster, version, partly: random.once_in(4) }]
        }
        93..97 => vec![Step::Release { cluster }],
        _ => {
            let version = listed(random, belief, at);
            if belief.clusters[at].workers {
                vec![Step::Workers { cluster, version }]
            } else {
                vec![Step::Release { cluster }]
            }
        }
    }
}

fn create_class(random: &mut Random, belief: &mut Belief, class: &str) -> Step {
    let versions = if random.once_in(12) { None } else { Some(list(random)) };
    let extension = random.once_in(25).then(|| random.pick(&["plan.nowhere", "plan"]).to_owned());
    belief.lists.retain(|(name, _)| name != class);
    belief.lists.push((class.to_owned(), versions.clone()));
    Step::CreateClass { class: class.to_owned(), versions, extension }
}

fn create_cluster(random: &mut Random, belief: &mut Belief, name: &str) -> Step {
    let class = if random.once_in(15) {
        random.pick(&CLASSES).to_owned()
    } else {
        let known: Vec<_> = belief.lists.iter().map(|(name, _)| name.clone()).collect();
        if known.is_empty() { "a".to_owned() } else { random.pick(&known) }
    };
    let list = belief.lists.iter().find(|(name, _)| *name == class).and_then(|(_, list)| list.clone());
    let version = match list {
        // Low in the list, so that there is a way to go.
        Some(list) if !list.is_empty() && !random.once_in(20) => list[random.below(list.len().min(2))].clone(),
        _ => version(random, 30),
    };
    let (workers, restored) = (random.once_in(2), random.once_in(8));
    belief.clusters.push(Believed { name: name.to_owned(), class: class.clone(), version: version.clone(), workers });
    Step::CreateCluster { cluster: name.to_owned(), class, version, workers, restored }
}

/// A list: one version or two of each minor, as upstream's releases are, with a share of each fault.
fn list(random: &mut Random) -> Vec<String> {
    let first = 30 + random.below(2);
    let minors = 2 + random.below(5);
    let mut list = Vec::new();
    let gap = random.once_in(6).then(|| first + 1 + random.below(minors));
    for minor in first..first + minors {
        if gap == Some(minor) {
            continue;
        }
        for patch in 0..=usize::from(random.once_in(4)) {
            let tag = if random.once_in(14) { random.pick(&["+a", "+b", "+a.1", "+1", "+k3s1"]) } else { "" };
            let pre = if random.once_in(30) { random.pick(&["-rc.1", "-alpha"]) } else { "" };
            list.push(format!("v1.{minor}.{}{pre}{tag}", patch * 3 + random.below(3)));
        }
    }
    match random.below(40) {
        0 => list.reverse(),
        1 => list.push("v2.0.0".to_owned()),
        2 => list.push("1.34.9".to_owned()),
        3 => list.push("v1.37".to_owned()),
        4 => list.push(list[0].clone()),
        5 => {
            let twin = format!("{}+b", list[0].split('+').next().unwrap_or_default());
            list.insert(1, twin);
        }
        _ => {}
    }
    list
}

fn version(random: &mut Random, from: usize) -> String {
    match random.below(20) {
        0 => format!("1.{}.0", from + random.below(4)),
        1 => format!("v1.{}", from + random.below(4)),
        _ => format!("v1.{}.{}", from + random.below(5), random.below(3)),
    }
}

fn list_of(belief: &Belief, at: usize) -> Vec<String> {
    let class = &belief.clusters[at].class;
    belief.lists.iter().find(|(name, _)| name == class).and_then(|(_, list)| list.clone()).unwrap_or_default()
}

/// A version of the Cluster's class.
fn listed(random: &mut Random, belief: &Belief, at: usize) -> String {
    let list = list_of(belief, at);
    if list.is_empty() { version(random, 30) } else { random.pick(&list) }
}

/// Where a user might want a Cluster to go.
fn target(random: &mut Random, belief: &Belief, at: usize) -> String {
    let list = list_of(belief, at);
    let now = list.iter().position(|version| *version == belief.clusters[at].version);
    match random.below(20) {
        0 => version(random, 30),
        1 => random.pick(&["1.32.0", "v1.33", "v1.31.0 ", "v1.32.0_1", "latest"]).to_owned(),
        2 => listed(random, belief, at),
        // The next, or the end.
        3..9 => match now {
            Some(now) if now + 1 < list.len() => list[now + 1].clone(),
            _ => listed(random, belief, at),
        },
        _ => match now {
            Some(now) if now + 1 < list.len() => list[now + 1 + random.below(list.len() - now - 1)].clone(),
            _ => listed(random, belief, at),
        },
    }
}

/// A change of a class's list: mostly of a class in use.
fn set_list(random: &mut Random, belief: &mut Belief, at: usize) -> Step {
    let class = if random.once_in(4) { random.pick(&CLASSES).to_owned() } else { belief.clusters[at].class.clone() };
    let old =
        belief.lists.iter().find(|(name, _)| *name == class).and_then(|(_, list)| list.clone()).unwrap_or_default();
    let versions = match random.below(12) {
        0 => None,
        1 => Some(list(random)),
        // Grows at its end.
        2..5 => {
            let mut list = old.clone();
            let next = 30 + list.len() + random.below(2);
            list.push(format!("v1.{next}.{}", random.below(3)));
            Some(list)
        }
        // Loses one, its beginning, or its end.
        5..9 if !old.is_empty() => {
            let mut list = old.clone();
            list.remove(random.below(list.len()));
            Some(list)
        }
        9 if old.len() > 1 => Some(old[1 + random.below(old.len() - 1)..].to_vec()),
        10 if old.len() > 1 => Some(old[..1 + random.below(old.len() - 1)].to_vec()),
        // A patch takes the place of another.
        _ if !old.is_empty() => {
            let mut list = old.clone();
            let at = random.below(list.len());
            let plain = list[at].split(['+', '-']).next().unwrap_or_default().to_owned();
            let minor = plain.rsplit_once('.').map_or(plain.as_str(), |(minor, _)| minor);
            list[at] = format!("{minor}.{}", 4 + random.below(3));
            Some(list)
        }
        _ => Some(list(random)),
    };
    let versions = versions.filter(|list| !list.is_empty());
    if let Some((_, list)) = belief.lists.iter_mut().find(|(name, _)| *name == class) {
        list.clone_from(&versions);
    }
    Step::SetList { class, versions }
}
