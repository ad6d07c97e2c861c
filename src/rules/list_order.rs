//! `list-order`: a class's list ascends, without a gap of a minor.
//!
//! Cluster API refuses a list whose neighbors descend, repeat, or skip a minor. It looks at neighbors only and ignores
//! the major version, so a second major and a duplicate behind unordered build tags pass; those are warned of.
//! Only neighbors that the change brings together can deny: a list that stood before can still be repaired step by step.
//!
//! Source: Cluster API v1.12 and later, `core/webhooks/admission/clusterclass.go`.

use std::cmp::Ordering;

use super::{Check, ClassCase, Finding, Mode, Rule};
use crate::{text::quoted, version::KubernetesVersion};

pub(super) const RULE: Rule = Rule {
    name: "list-order",
    default: Mode::Deny,
    summary: "spec.kubernetesVersions ascends, skips no minor and stays in one major.",
    transition: false,
    looks_at_what_runs: false,
    check: Check::Class(check),
};

/// An entry that parses, with its place in the list.
struct Entry<'a> {
    at: usize,
    text: &'a str,
    version: KubernetesVersion,
}

fn entries(list: &[String]) -> Vec<Entry<'_>> {
    // Like Cluster API, what does not parse is passed over: its neighbors are compared with each other.
    let parsed = list
        .iter()
        .enumerate()
        .filter_map(|(at, text)| Some(Entry { at, text, version: KubernetesVersion::parse_lenient(text).ok()? }));
    parsed.collect()
}

fn check(case: &ClassCase<'_>) -> Vec<Finding> {
    let Some(new) = case.change.new() else { return Vec::new() };
    let list = entries(new.versions());
    let old = case.change.old().map_or_else(Vec::new, |old| entries(old.versions()));
    let stood_before = |before: &Entry<'_>, entry: &Entry<'_>| {
        old.windows(2).any(|pair| matches!(pair, [a, b] if a.text == before.text && b.text == entry.text))
    };
    let mut findings = Vec::new();
    for (index, entry) in list.iter().enumerate() {
        let field = format!("spec.kubernetesVersions[{}]", entry.at);
        let before = index.checked_sub(1).and_then(|index| list.get(index));
        let finding = match before.and_then(|before| misfit(before, entry).map(|finding| (before, finding))) {
            Some((before, finding)) => finding.introduced(!stood_before(before, entry)),
            None => match oddity(&list, index, before) {
                Some(finding) => finding.warning_only(),
                None => continue,
            },
        };
        findings.push(Finding { field: field.into(), ..finding });
    }
    findings
}

/// Why Cluster API refuses `entry` behind `before`.
fn misfit(before: &Entry<'_>, entry: &Entry<'_>) -> Option<Finding> {
    let (low, high) = (quoted(before.text), quoted(entry.text));
    let skips = entry.version.minor() != before.version.minor()
        && before.version.minor().checked_add(1) != Some(entry.version.minor());
    Some(match entry.version.cmp_with_build(&before.version) {
        Some(Ordering::Equal) => Finding::new("", format!("{high} repeats the entry before it")).way_out("remove it"),
        Some(Ordering::Less) => Finding::new("", format!("{high} comes after {low}, which is higher"))
            .because("entries have to ascend")
            .way_out("move it up"),
        _ if skips && entry.version.major() == before.version.major() => {
            let missing = format!("{}.{}", before.version.major(), before.version.minor().saturating_add(1));
            Finding::new("", format!("{high} follows {low} and no entry has minor {missing}"))
                .because("Clusters move one minor at a time")
                .way_out("add one in between")
        }
        _ if skips => Finding::new("", format!("{high} begins another major after {low}"))
            .because("Cluster API compares the minors alone and refuses the list")
            .way_out("remove it"),
        _ => return None,
    })
}

/// What Cluster API lets pass but no Cluster gets through.
fn oddity(list: &[Entry<'_>], index: usize, before: Option<&Entry<'_>>) -> Option<Finding> {
    let entry = list.get(index)?;
    let text = quoted(entry.text);
    if let Some(before) = before.filter(|before| before.version.major() != entry.version.major()) {
        let problem = format!("{text} begins another major after {}", quoted(before.text));
        return Some(Finding::new("", problem).because("no upgrade leads across majors").way_out("remove it"));
    }
    // The order with unordered build tags is not transitive, so an entry can come back later unseen.
    let twin = list.iter().take(index).find(|earlier| earlier.version.same_text(&entry.version))?;
    Some(Finding::new("", format!("{text} is listed already at [{}]", twin.at)).way_out("remove one of them"))
}
