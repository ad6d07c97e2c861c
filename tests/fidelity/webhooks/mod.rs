//! The rules against the version checks of Cluster API 1.14's own admission webhooks.
//!
//! What they refuse we refuse too, by the rule beside it in [`COUNTERPARTS`], but for what [`RATCHET`] lets pass on
//! purpose; what we refuse beyond it stands in [`STRICTER`]. A finding that neither table covers is a difference.

mod generate;
mod ours;
mod pair;

use std::{borrow::Cow, cmp::Ordering, collections::BTreeSet};

use capi_version_guard::{
    model::Provider,
    planner::{Known, Release, Running, Source, Upgrade},
    rules::Finding,
    verdict::Verdict,
    version::KubernetesVersion,
};
use serde::Deserialize;

use self::pair::{Class, Cluster, Pair};
use crate::{
    ask::{answers, ask, lines},
    random::Random,
    setting,
    table::Table,
};

const RELEASE: &str = "v1.14.2";

/// What the oracle answers.
#[derive(Debug, Deserialize)]
struct Answer {
    refusals: Vec<Refusal>,
}

/// One reason of Cluster API's to refuse a change.
#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Refusal {
    word: String,
    /// The index of a list's entry.
    at: usize,
}

/// Cluster API's checks and the rules that hold the same. The words are the oracle's.
const COUNTERPARTS: [(&str, &str, &str); 10] = [
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
struct Exception {
    /// What the table calls it.
    name: &'static str,
    words: &'static [&'static str],
    holds: fn(&Pair, &Refusal, Option<&Verdict>) -> bool,
}

const CLUSTER_WORDS: &[&str] = &["C3", "C5", "C8", "C9", "old-version-syntax"];

/// What stood before the change is let pass, with a warning at most.
const RATCHET: [Exception; 8] = [
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
struct Stricter {
    rule: &'static str,
    name: &'static str,
    holds: fn(&Pair, &Finding) -> bool,
}

const STRICTER: [Stricter; 8] = [
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
fn new_class(pair: &Pair) -> Option<&Class> {
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

fn entry_field(at: usize) -> String {
    format!("spec.kubernetesVersions[{at}]")
}

fn denied(verdict: Option<&Verdict>, rule: &str, field: &str) -> bool {
    verdict.is_some_and(|verdict| verdict.denials.iter().any(|found| found.rule == rule && found.field == field))
}

fn warned(verdict: Option<&Verdict>, rule: &str, field: &str) -> bool {
    verdict.is_some_and(|verdict| verdict.warnings.iter().any(|found| found.rule == rule && found.field == field))
}

/// Whether a finding says what a refusal says: the rule is the counterpart, and in a list it is the same entry.
fn same(finding: &Finding, refusal: &Refusal) -> bool {
    let rule = COUNTERPARTS.iter().any(|(word, rule, _)| *word == refusal.word && *rule == finding.rule);
    let in_list = ["K1", "K2", "K3"].contains(&refusal.word.as_str());
    rule && (!in_list || finding.field == entry_field(refusal.at))
}

/// What the table calls the agreements of a case, each once, or what differs.
fn outcomes(pair: &Pair, refusals: &[Refusal]) -> Result<BTreeSet<String>, String> {
    let verdict = ours::verdict(pair);
    let denials = verdict.as_ref().map_or(&[][..], |verdict| &verdict.denials);
    let mut outcomes = BTreeSet::new();
    for refusal in refusals {
        let Some((word, rule, what)) = COUNTERPARTS.iter().find(|(word, ..)| *word == refusal.word) else {
            return Err(format!("Cluster API refuses for a reason that is not compared: {}", refusal.word));
        };
        let exception = RATCHET
            .iter()
            .find(|exception| exception.words.contains(word) && (exception.holds)(pair, refusal, verdict.as_ref()));
        outcomes.insert(if denials.iter().any(|finding| same(finding, refusal)) {
            format!("both refuse: {word}, {what} ({rule})")
        } else if let Some(exception) = exception {
            exception.name.to_owned()
        } else {
            return Err(format!("Cluster API refuses, we do not: {refusal:?}"));
        });
    }
    for finding in denials.iter().filter(|finding| !refusals.iter().any(|refusal| same(finding, refusal))) {
        let known = STRICTER.iter().find(|known| known.rule == finding.rule && (known.holds)(pair, finding));
        let Some(known) = known else { return Err(format!("we refuse, Cluster API does not: {finding:?}")) };
        outcomes.insert(format!("stricter: {} ({})", known.name, known.rule));
    }
    if outcomes.is_empty() {
        outcomes.insert("both admit".to_owned());
    }
    if refusals.iter().any(|refusal| refusal.word == "C5") && nearly_listed(pair) {
        outcomes.insert("both refuse: C5, and the list has it in other bytes".to_owned());
    }
    Ok(outcomes)
}

/// Whether the class lists the version in other bytes.
fn nearly_listed(pair: &Pair) -> bool {
    let Pair::Cluster { new: Some(new), .. } = pair else { return false };
    let Ok(wanted) = KubernetesVersion::parse_lenient(&new.version().unwrap()) else { return false };
    let listed = |entry: &String| KubernetesVersion::parse_lenient(entry).is_ok_and(|entry| entry.same_text(&wanted));
    new_class(pair).is_some_and(|class| class.versions.iter().any(listed))
}

/// What is changed, as the table calls it.
fn change(pair: &Pair) -> &'static str {
    match pair {
        Pair::Cluster { old: None, .. } => "asked: Cluster CREATE",
        Pair::Cluster { new: None, .. } => "asked: Cluster DELETE",
        Pair::Cluster { old: Some(old), new: Some(new), .. } => {
            let (version, class) = (old.version() != new.version(), old.class_key() != new.class_key());
            match (new.deleting, old.topology.is_none()) {
                (true, _) => "asked: Cluster UPDATE, being deleted",
                (_, true) => "asked: Cluster UPDATE, adoption",
                _ if new.skips && (version || class) => "asked: Cluster UPDATE, checks skipped by annotation",
                _ if version && class => "asked: Cluster UPDATE, version and class",
                _ if version => "asked: Cluster UPDATE, version",
                _ if class => "asked: Cluster UPDATE, class",
                _ => "asked: Cluster UPDATE, neither",
            }
        }
        Pair::Class { old: None, .. } => "asked: ClusterClass CREATE",
        Pair::Class { new: None, .. } => "asked: ClusterClass DELETE",
        Pair::Class { old: Some(old), new: Some(new), .. } if old.versions != new.versions => {
            "asked: ClusterClass UPDATE, list"
        }
        Pair::Class { .. } => "asked: ClusterClass UPDATE, list kept",
    }
}

/// The smallest pair found that still differs, and how.
fn shrink(mut pair: Pair, mut difference: String) -> (Pair, String) {
    loop {
        let smaller = pair.smaller();
        let questions: Vec<_> = smaller.iter().map(Pair::question).collect();
        let replies: Vec<Answer> = answers(RELEASE, "webhooks", &questions);
        let differs = smaller.into_iter().zip(replies).find_map(|(smaller, answer)| {
            // A difference of another kind would be another report.
            let difference = outcomes(&smaller, &answer.refusals).err()?;
            Some((smaller, difference))
        });
        match differs {
            Some(found) => (pair, difference) = found,
            None => return (pair, difference),
        }
    }
}

/// So many pairs are held in memory at a time.
const CHUNK: u64 = 10_000;

#[test]
fn what_cluster_api_refuses_we_refuse_too() {
    let (cases, seed) = (setting("FIDELITY_PAIRS", 20_000), setting("FIDELITY_SEED", 1));
    let mut random = Random(seed);
    let mut table = Table::default();
    for (word, rule, what) in COUNTERPARTS.iter().filter(|(word, ..)| *word != "old-version-syntax") {
        table.expect(&format!("both refuse: {word}, {what} ({rule})"));
    }
    for exception in &RATCHET {
        table.expect(exception.name);
    }
    for stricter in &STRICTER {
        table.expect(&format!("stricter: {} ({})", stricter.name, stricter.rule));
    }
    let mut left = cases;
    while left > 0 {
        let chunk = left.min(CHUNK);
        left -= chunk;
        let pairs: Vec<_> = (0..chunk).map(|_| generate::pair(&mut random)).collect();
        let questions: Vec<_> = pairs.iter().map(Pair::question).collect();
        let mut differs = None;
        let mut asked = pairs.iter();
        ask(RELEASE, "webhooks", &lines(&questions), |answer: Answer| {
            let pair = asked.next().expect("no more answers than questions");
            table.count(change(pair), 0);
            match outcomes(pair, &answer.refusals) {
                Ok(outcomes) => outcomes.iter().for_each(|outcome| table.count(outcome, 0)),
                Err(difference) => _ = differs.get_or_insert((pair.clone(), difference)),
            }
        });
        if let Some((pair, difference)) = differs {
            let (pair, difference) = shrink(pair, difference);
            panic!("{difference}\n {pair:?}\n ours: {:?}", ours::verdict(&pair));
        }
    }
    println!("\n{cases} changes against the webhooks of Cluster API {RELEASE}, seed {seed}: no difference\n");
    table.print("outcome", &["cases"]);
    let rare = table.rarer_than(cases / 100, 0);
    assert!(rare.is_empty(), "in less than 1 % of the cases, so hardly tested: {rare:?}");
}
