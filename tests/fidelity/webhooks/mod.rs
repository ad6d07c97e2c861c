//! The rules against the version checks of Cluster API 1.14's own admission webhooks.
//!
//! What they refuse we refuse too, by the rule beside it in [`COUNTERPARTS`], but for what [`RATCHET`] lets pass on
//! purpose; what we refuse beyond it stands in [`STRICTER`]. A finding that neither table covers is a difference.

mod agreed;
mod generate;
mod ours;
mod pair;

use std::collections::BTreeSet;

use capi_version_guard::{rules::Finding, version::KubernetesVersion};
use serde::Deserialize;

use self::{
    agreed::{COUNTERPARTS, RATCHET, STRICTER, entry_field, new_class},
    pair::Pair,
};
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
        outcomes.insert(NEARLY_LISTED.to_owned());
    }
    Ok(outcomes)
}

const NEARLY_LISTED: &str = "both refuse: C5, and the list has it in other bytes";

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
    table.expect(NEARLY_LISTED);
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
