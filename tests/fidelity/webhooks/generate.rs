//! Random changes of Clusters and of classes.
//!
//! Everything else that Cluster API insists on is as it should be: what runs is at the Cluster's version, the classes fit
//! each other, no hook is pending. What is stored is what a webhook let in: a strict version with its `v`.

use capi_version_guard::version::KubernetesVersion;

use super::pair::{Class, Cluster, Pair, Topology};
use crate::random::{PRE_RELEASES, Random, TAGS, list, version};

/// A class's list has at most this many entries.
const LONGEST_LIST: usize = 100;

pub fn pair(random: &mut Random) -> Pair {
    if random.below(5) < 3 { of_cluster(random) } else { of_class(random) }
}

fn of_cluster(random: &mut Random) -> Pair {
    let mut classes = vec![class(random, "a", "quick"), class(random, "classes", "quick")];
    let (from, to) = if random.once_in(2) { (0, 1) } else { (1, 0) };
    let mut runs = stored(random, &classes[from].versions);
    let aim = random.once_in(3).then(|| random.pick(&Aim::ALL));
    if let Some(aim) = aim {
        aim.prepare(&mut classes, &mut runs);
    }
    let target = |random: &mut Random, runs: &str, versions: &[String]| match aim {
        Some(aim) => aim.target(random, runs),
        None => target(random, runs, versions),
    };
    let at = |class: usize, version: String| Topology {
        class_namespace: (class == 1).then_some("classes"),
        class: "quick",
        version,
    };
    let cluster = |topology: Option<Topology>| Cluster {
        namespace: "a",
        name: "c".to_owned(),
        topology,
        created: true,
        deleting: false,
        skips: false,
        adopts: false,
    };
    let old = cluster(Some(at(from, runs.clone())));
    let kind = if aim.is_some() { random.pick(&[2, 2, 8, 14]) } else { random.below(16) };
    let (mut old, mut new) = match kind {
        0 | 1 => {
            let new = at(to, target(random, &runs, &classes[to].versions));
            (None, Some(Cluster { created: false, ..cluster(Some(new)) }))
        }
        2..=6 => {
            let new = at(from, target(random, &runs, &classes[from].versions));
            (Some(old), Some(cluster(Some(new))))
        }
        7 => (Some(old.clone()), Some(cluster(Some(at(to, runs.clone()))))),
        8..=10 => {
            let new = at(to, target(random, &runs, &classes[to].versions));
            (Some(old), Some(cluster(Some(new))))
        }
        // Nothing changes, except that the Cluster's own namespace may be written out.
        11 => {
            let mut new = at(from, runs.clone());
            new.class_namespace = new.class_namespace.or(random.pick(&[None, Some("a")]));
            (Some(old), Some(cluster(Some(new))))
        }
        // A version that only the regular expression of 1.13 let in; it stays as it is.
        12 => {
            let version = format!("{runs}{}", random.pick(&["_a", "-", "-rc.01"]));
            let to = random.pick(&[from, to, to]);
            (Some(cluster(Some(at(from, version.clone())))), Some(cluster(Some(at(to, version)))))
        }
        13 => {
            let new = at(to, target(random, &runs, &classes[to].versions));
            (Some(old), Some(Cluster { deleting: true, ..cluster(Some(new)) }))
        }
        14 => {
            let new = at(to, target(random, &runs, &classes[to].versions));
            (Some(cluster(None)), Some(Cluster { adopts: true, ..cluster(Some(new)) }))
        }
        _ => (Some(old), None),
    };
    if let Some(new) = &mut new {
        new.skips = random.once_in(7);
        if let Some(old) = old.as_mut().filter(|_| new.deleting) {
            old.deleting = true;
        }
    }
    Pair::Cluster { old, new, classes, runs, workers: random.once_in(2) }
}

/// What chance hardly meets: a version change that one check alone can refuse.
#[derive(Clone, Copy)]
enum Aim {
    /// Above the ceiling, with neither list nor extension.
    Ceiling,
    /// Another major, with an extension.
    Major,
    /// A lower ordered build tag, without an extension.
    BuildTag,
    /// A list that has no way to its last entry.
    NoWay,
    /// A listed version in other bytes.
    Spelling,
    /// Lower in the pre-release alone.
    PreRelease,
    /// Lower, and no version.
    Malformed,
    /// The version that Cluster API takes for none.
    Zero,
}

impl Aim {
    const ALL: [Self; 8] = [
        Self::Ceiling,
        Self::Major,
        Self::BuildTag,
        Self::NoWay,
        Self::Spelling,
        Self::PreRelease,
        Self::Malformed,
        Self::Zero,
    ];

    fn prepare(self, classes: &mut [Class], runs: &mut String) {
        if matches!(self, Self::BuildTag) {
            *runs = format!("{}+a.1", runs.split('+').next().unwrap_or(runs));
        }
        let (major, minor) = numbers(runs);
        for class in classes {
            class.extension = matches!(self, Self::Major).then(|| "plan.mine".to_owned());
            class.versions = match self {
                Self::NoWay => vec![runs.clone(), format!("v{major}.{}.0", minor + 2)],
                Self::Spelling => vec![runs.clone(), format!("v{major}.{}.1+1", minor + 1)],
                _ => Vec::new(),
            };
        }
    }

    fn target(self, random: &mut Random, runs: &str) -> String {
        let (major, minor) = numbers(runs);
        match self {
            Self::Ceiling => format!("v{major}.{}.{}", minor + 2 + random.below(3) as u64, random.below(3)),
            Self::Major => format!("v{}.{}.0", major + 1, minor + random.below(2) as u64),
            Self::BuildTag => runs.replace("+a.1", random.pick(&["", "+1", "+a", "+a.0"])),
            Self::NoWay => format!("v{major}.{}.0", minor + 2),
            Self::Spelling => misspelt(random, &format!("v{major}.{}.1+1", minor + 1)),
            Self::PreRelease => {
                format!("{}{}", runs.split(['-', '+']).next().unwrap_or(runs), random.pick(&PRE_RELEASES))
            }
            Self::Malformed => misspelt(random, &format!("v{major}.{}.1", minor.saturating_sub(1))),
            Self::Zero => "v0.0.0".to_owned(),
        }
    }
}

/// Major and minor of a stored version.
fn numbers(stored: &str) -> (u64, u64) {
    let parsed = KubernetesVersion::parse_strict(stored).unwrap();
    (parsed.major(), parsed.minor())
}

fn of_class(random: &mut Random) -> Pair {
    let old = class(random, "a", "quick");
    let new = Class { versions: changed(random, &old.versions), ..old.clone() };
    let new = Class { extension: if random.once_in(3) { extension(random) } else { new.extension.clone() }, ..new };
    let clusters = (0..random.below(4)).map(|at| user(random, at, &[&old.versions, &new.versions])).collect();
    let (old, new) = match random.below(8) {
        0 | 1 => (None, Some(new)),
        2 => (Some(old), None),
        _ => (Some(old), Some(new)),
    };
    Pair::Class { old, new, clusters }
}

/// A Cluster that uses class a/quick, or one of the same name in another namespace.
fn user(random: &mut Random, at: usize, lists: &[&Vec<String>]) -> Cluster {
    let versions = random.pick(lists);
    let version = stored(random, versions);
    let (namespace, class_namespace) = random.pick(&[("a", None), ("a", Some("a")), ("b", Some("a")), ("b", None)]);
    Cluster {
        namespace,
        name: format!("c{at}"),
        topology: Some(Topology { class_namespace, class: "quick", version }),
        created: true,
        deleting: random.once_in(4),
        skips: false,
        adopts: false,
    }
}

fn class(random: &mut Random, namespace: &'static str, name: &'static str) -> Class {
    let oddity = random.pick(&[2, 6, 40, 40]);
    let extension = if random.once_in(3) { extension(random) } else { None };
    let without = if extension.is_some() { random.once_in(2) } else { random.below(5) < 2 };
    let mut versions = if without { Vec::new() } else { list(random, oddity) };
    versions.truncate(LONGEST_LIST);
    Class { namespace, name, versions, extension }
}

fn extension(random: &mut Random) -> Option<String> {
    random
        .pick(&[None, Some("plan.mine"), Some("plan.yours"), Some("plan"), Some("Plan.mine"), Some("plan.mine.too")])
        .map(ToOwned::to_owned)
}

/// A version that can be a stored Cluster's: mostly one of the list.
fn stored(random: &mut Random, versions: &[String]) -> String {
    loop {
        let minor = 29 + random.below(5);
        let text =
            if versions.is_empty() || random.once_in(4) { version(random, minor, 3) } else { random.pick(versions) };
        let text = KubernetesVersion::with_default_v(&text);
        if KubernetesVersion::parse_strict(&text).is_ok() {
            return text.into_owned();
        }
    }
}

/// Where a Cluster shall go from `from`.
fn target(random: &mut Random, from: &str, versions: &[String]) -> String {
    let (major, minor) = numbers(from);
    let release = from.split(['-', '+']).next().unwrap_or(from);
    let patch = random.below(3);
    let listed = if versions.is_empty() { from.to_owned() } else { random.pick(versions) };
    let lower = format!("v{major}.{}.{patch}", minor.saturating_sub(1 + patch as u64));
    match random.below(20) {
        0..=5 => listed,
        6 | 7 => misspelt(random, &listed),
        8 => from.to_owned(),
        9 => lower,
        10 => misspelt(random, &lower),
        11 => format!("{release}{}", random.pick(&PRE_RELEASES)),
        12 => format!("{release}{}", random.pick(&TAGS)),
        // Without the tag, or with the lowest.
        13 | 14 => format!("{}{}", from.split('+').next().unwrap_or(from), random.pick(&["", "+0"])),
        15 => format!("v{major}.{}.{patch}", minor + 1),
        16 => format!("v{major}.{}.{patch}", minor + 2 + patch as u64),
        17 => "v0.0.0".to_owned(),
        18 => format!("v{}.{minor}.{patch}", major + 1),
        _ => {
            let minor = 29 + random.below(6);
            version(random, minor, 2)
        }
    }
}

/// The same version, or nearly, in other bytes.
fn misspelt(random: &mut Random, text: &str) -> String {
    let bare = text.trim_start_matches('v');
    match random.below(10) {
        0 => bare.to_owned(),
        1 => format!("v0{bare}"),
        2 => format!("{text} "),
        3 => format!(" {text}"),
        4 => format!("{text}\u{a0}"),
        5 => format!("V{bare}"),
        6 => format!("{text}+0"),
        7 => text.replace("+1", "+01"),
        8 => text.replace('1', "\u{ff11}"),
        _ => text.rsplit_once('.').map_or_else(String::new, |(short, _)| short.to_owned()) + ".00",
    }
}

/// A list that was edited: mostly in one place.
fn changed(random: &mut Random, versions: &[String]) -> Vec<String> {
    let mut list_of = versions.to_vec();
    let at = random.below(list_of.len().max(1));
    let minor = 29 + random.below(6);
    match random.below(12) {
        0 | 1 => {}
        2 | 3 if !list_of.is_empty() => drop(list_of.remove(at)),
        4 => list_of.push(version(random, minor, 2)),
        5 => list_of.insert(at.min(list_of.len()), version(random, minor, 6)),
        6 if !list_of.is_empty() => list_of[at] = misspelt(random, &list_of[at]),
        7 if list_of.len() > 1 => list_of.swap(at.min(versions.len() - 2), at.min(versions.len() - 2) + 1),
        8 => list_of.clear(),
        9 => list_of.truncate(1),
        _ => list_of = list(random, 6),
    }
    list_of.truncate(LONGEST_LIST);
    list_of
}
