//! What the comparison agrees to: which rule answers to which check, what is let pass on purpose, what is stricter.

use std::{borrow::Cow, cmp::Ordering};

use capi_version_guard::{
    model::Provider,
    planner::{Known, Release, Running, Source, Upgrade},
    rules::Finding,
    verdict::Verdict,
    version::KubernetesVersion,
};

use super::{
    Refusal,
    pair::{Class, Cluster, Pair},
};

/// Cluster API's checks and the rules that hold the same. The words are the oracle's.
pub const COUNTERPARTS: [(&str, &str, &str); 10] = [
    ("C3", "version-syntax", "strict version with a v"),
    ("C5", "version-listed", "byte for byte in the class's list"),
    ("C8", "version-not-lowered", "no lower release"),
    ("C9", "version-reachable", "ceiling of one minor without a list"),
    ("K1", "list-syntax", "every entry a version"),
    ("K2", "list-order", "entries ascend"),
    ("K3", "list-order", "no minor skipped"),
    ("K4", "list-covers-clusters", "the list covers the Clusters"),
    ("K5", "class-in-use", "a class in use is not deleted"),
    ("old-version-syntax", "version-syntax", "strict old version"),
];

/// A refusal of Cluster API's that we do not repeat, and when.
pub struct Exception {
    /// What the table calls it.
    pub name: &'static str,
    pub words: &'static [&'static str],
    pub holds: fn(&Pair, &Refusal, Option<&Verdict>) -> bool,
}

const CLUSTER_WORDS: &[&str] = &["C3", "C5", "C8", "C9", "old-version-syntax"];

/// What stood before the change is let pass, with a warning at most.
pub const RATCHET: [Exception; 8] = [
    Exception {
        name: "let pass: the Cluster keeps its version and class",
        words: CLUSTER_WORDS,
        holds: |pair, _, verdict| {
            let Some((old, new)) = clusters(pair) else { return false };
            verdict.is_none() && old.version() == new.version() && old.class_key() == new.class_key()
        },
    },
    Exception {
        name: "let pass: the Cluster is being deleted",
        words: CLUSTER_WORDS,
        holds: |pair, _, verdict| verdict.is_none() && clusters(pair).is_some_and(|(_, new)| new.deleting),
    },
    Exception {
        name: "let pass: a rebase leaves a bad version as it was",
        words: &["C3", "old-version-syntax"],
        holds: |pair, _, verdict| {
            clusters(pair).is_some_and(|(old, new)| old.version() == new.version())
                && warned(verdict, "version-syntax", "spec.topology.version")
        },
    },
    // Nothing is let pass here: the change is refused for its syntax alone.
    Exception {
        name: "both refuse: C8 or C9 behind C3; we speak of the syntax alone (version-syntax)",
        words: &["C8", "C9"],
        holds: |_, _, verdict| denied(verdict, "version-syntax", "spec.topology.version"),
    },
    Exception {
        name: "let pass: the class keeps its list and extension",
        words: &["K1", "K2", "K3", "K4"],
        holds: |pair, _, verdict| {
            let Some((old, new)) = classes(pair) else { return false };
            verdict.is_none() && old.versions == new.versions && old.extension == new.extension
        },
    },
    Exception {
        name: "let pass: the entry stood in the list before",
        words: &["K1"],
        holds: |pair, refusal, verdict| {
            let Some((old, new)) = classes(pair) else { return false };
            let entry = &new.versions[refusal.at];
            old.versions.contains(entry) && warned(verdict, "list-syntax", &entry_field(refusal.at))
        },
    },
    Exception {
        name: "let pass: the neighbors were neighbors before",
        words: &["K2", "K3"],
        holds: |pair, refusal, verdict| {
            let Some((old, new)) = classes(pair) else { return false };
            let neighbors = neighbors(&new.versions);
            let pair = neighbors.iter().find(|(_, _, at)| *at == refusal.at);
            let stood = pair.is_some_and(|(low, high, _)| {
                self::neighbors(&old.versions).iter().any(|(a, b, _)| (a, b) == (low, high))
            });
            stood && warned(verdict, "list-order", &entry_field(refusal.at))
        },
    },
    Exception {
        name: "let pass: the Clusters were outside of the list before",
        words: &["K4"],
        holds: |pair, _, verdict| {
            let (Pair::Class { clusters, .. }, Some((old, new))) = (pair, classes(pair)) else { return false };
            let outside = users(clusters, new).filter(|version| !new.carries(version)).collect::<Vec<_>>();
            let stood = !outside.is_empty() && outside.iter().all(|version| !old.carries(version));
            stood && warned(verdict, "list-covers-clusters", "spec.kubernetesVersions")
        },
    },
];

/// A rule that refuses what Cluster API's webhook admits, and when.
pub struct Stricter {
    pub rule: &'static str,
    pub name: &'static str,
    pub holds: fn(&Pair, &Finding) -> bool,
}

pub const STRICTER: [Stricter; 8] = [
    Stricter {
        rule: "version-not-lowered",
        name: "a lower pre-release of the same release",
        holds: |pair, _| {
            transition(pair).is_some_and(|(from, to)| to.cmp_release(&from).is_eq() && to.cmp_precedence(&from).is_lt())
        },
    },
    Stricter {
        rule: "version-not-lowered",
        name: "a lower ordered build tag, and no extension that could plan around it",
        holds: |pair, _| {
            let ordered = transition(pair).is_some_and(|(from, to)| {
                to.cmp_precedence(&from).is_eq() && to.cmp_with_build(&from) == Some(Ordering::Less)
            });
            ordered && new_class(pair).is_some_and(|class| class.extension.is_none())
        },
    },
    Stricter {
        rule: "version-not-lowered",
        name: "down to v0.0.0, which Cluster API takes for no version",
        holds: |pair, _| clusters(pair).is_some_and(|(_, new)| new.version().as_deref() == Some("v0.0.0")),
    },
    Stricter {
        rule: "version-reachable",
        name: "the planner does not get there from the old version",
        holds: |pair, _| clusters(pair).is_some_and(|(old, _)| old.topology.is_some()) && no_way(pair),
    },
    Stricter {
        rule: "version-reachable",
        name: "the planner does not get there from what an adopted Cluster runs",
        holds: |pair, _| clusters(pair).is_some_and(|(old, _)| old.topology.is_none()) && no_way(pair),
    },
    Stricter {
        rule: "version-reachable",
        name: "another major, whatever an extension plans",
        holds: |pair, _| {
            let (Pair::Cluster { runs, .. }, Some((_, new))) = (pair, clusters(pair)) else { return false };
            let major = |text: Option<&str>| text.map(|text| KubernetesVersion::parse_strict(text).unwrap().major());
            new_class(pair).is_some_and(|class| class.extension.is_some())
                && major(Some(runs)) != major(new.version().as_deref())
        },
    },
    Stricter {
        rule: "list-covers-clusters",
        name: "a class that is created after its Clusters",
        holds: |pair, _| {
            let Pair::Class { old: None, new: Some(new), clusters } = pair else { return false };
            let living: Vec<_> = clusters.iter().filter(|cluster| !cluster.deleting).cloned().collect();
            users(&living, new).any(|version| !new.carries(&version))
        },
    },
    Stricter {
        rule: "extension-reference",
        name: "a new reference in a form in which no handler is registered",
        holds: |pair, _| {
            let Pair::Class { old, new: Some(new), .. } = pair else { return false };
            let name = new.extension.as_deref();
            let form = ["plan.mine", "plan.yours"];
            name.is_some_and(|name| !form.contains(&name))
                && old.as_ref().is_none_or(|old| old.extension != new.extension)
        },
    },
];

/// Both Clusters of an UPDATE.
fn clusters(pair: &Pair) -> Option<(&Cluster, &Cluster)> {
    match pair {
        Pair::Cluster { old: Some(old), new: Some(new), .. } => Some((old, new)),
        _ => None,
    }
}

/// Both classes of an UPDATE.
fn classes(pair: &Pair) -> Option<(&Class, &Class)> {
    match pair {
        Pair::Class { old: Some(old), new: Some(new), .. } => Some((old, new)),
        _ => None,
    }
}

/// The class that a Cluster shall have.
pub fn new_class(pair: &Pair) -> Option<&Class> {
    let Pair::Cluster { new: Some(new), classes, .. } = pair else { return None };
    classes.iter().find(|class| Some(class.key()) == new.class_key())
}

/// The versions of the Clusters that use `class`.
fn users<'a>(clusters: &'a [Cluster], class: &Class) -> impl Iterator<Item = Cow<'a, str>> {
    let key = class.key();
    clusters.iter().filter(move |cluster| cluster.class_key() == Some(key)).filter_map(Cluster::version)
}

/// Neighbors in a list, what does not parse left out, with the place of the second.
fn neighbors(list: &[String]) -> Vec<(&str, &str, usize)> {
    let parsed = list.iter().enumerate().filter(|(_, entry)| KubernetesVersion::parse_lenient(entry).is_ok());
    let parsed: Vec<_> = parsed.collect();
    parsed.windows(2).map(|pair| (pair[0].1.as_str(), pair[1].1.as_str(), pair[1].0)).collect()
}

/// The versions before and after, if the topology was there.
fn transition(pair: &Pair) -> Option<(KubernetesVersion, KubernetesVersion)> {
    let (old, new) = clusters(pair)?;
    let parse = |version: &str| KubernetesVersion::parse_strict(version).ok();
    Some((parse(&old.version()?)?, parse(&new.version()?)?))
}

/// Whether the planner of Cluster API, which `plans` compares with ours, gets stuck on the way from what runs.
fn no_way(pair: &Pair) -> bool {
    let (Pair::Cluster { new: Some(new), runs, workers, .. }, Some(class)) = (pair, new_class(pair)) else {
        return false;
    };
    let list: Vec<_> = class.versions.iter().map(|entry| Known::new(entry)).collect();
    let source = if list.is_empty() { Source::OneMinor } else { Source::List(&list) };
    let target = new.version().unwrap();
    let from = Running { control_plane: runs.clone(), workers: workers.then(|| runs.clone()).into_iter().collect() };
    let upgrade = Upgrade { release: Release::V1_13, source, target: &target, provider: Provider::Kubeadm };
    class.extension.is_none() && upgrade.follow(&from).is_err()
}

pub fn entry_field(at: usize) -> String {
    format!("spec.kubernetesVersions[{at}]")
}

fn denied(verdict: Option<&Verdict>, rule: &str, field: &str) -> bool {
    verdict.is_some_and(|verdict| verdict.denials.iter().any(|found| found.rule == rule && found.field == field))
}

fn warned(verdict: Option<&Verdict>, rule: &str, field: &str) -> bool {
    verdict.is_some_and(|verdict| verdict.warnings.iter().any(|found| found.rule == rule && found.field == field))
}
