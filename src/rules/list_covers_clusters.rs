//! `list-covers-clusters`: a class lists the version of every Cluster that uses it.
//!
//! Cluster API refuses every write of a Cluster whose version its class does not list, the removal of a finalizer
//! included, so such a Cluster can be neither changed nor deleted. It checks the list against its Clusters on UPDATE
//! only, one error per Cluster. A class created *after* its Clusters (their class was missing, a mere warning) can lock all
//! of them: so CREATE is judged as well, and all Clusters are told in one finding. Deleting Clusters count on
//! UPDATE, where Cluster API counts them too; before a CREATE they are locked anyway, by the missing class.
//!
//! Source: Cluster API v1.12 and later, `core/webhooks/admission/clusterclass.go`;
//! kubernetes-sigs/cluster-api#12720, #12816.

use std::{collections::BTreeMap, fmt::Write};

use super::{Check, ClassCase, Finding, Mode, Rule};
use crate::{
    fleet::{SAMPLE, Together},
    model::{Change, ObjectKey},
    text::{clusters, names, quoted},
};

pub(super) const RULE: Rule = Rule {
    name: "list-covers-clusters",
    default: Mode::Deny,
    summary: "A class's list holds the version of every Cluster that uses the class.",
    transition: false,
    looks_at_what_runs: false,
    check: Check::Class(check),
};

/// More versions than this are counted, not named.
const LISTED: usize = 5;

/// Who uses a version that the list lacks, by version.
type Missing<'a> = BTreeMap<&'a str, Together<'a>>;

fn check(case: &ClassCase<'_>) -> Vec<Finding> {
    // A class without a list carries every version.
    if case.change.new().is_none_or(|new| new.versions().is_empty()) {
        return Vec::new();
    }
    let (old_list, new_list) = &case.lists;
    let created = matches!(case.change, Change::Create(_));
    let (mut brought, mut stood) = (BTreeMap::new(), BTreeMap::new());
    let used = case.users.versions.iter().filter(|used| !(created && used.deleting));
    for used in used.filter(|used| !new_list.carries(&used.version)) {
        let covered = old_list.carries(&used.version);
        let group: &mut Missing<'_> = if covered { &mut brought } else { &mut stood };
        group.entry(&used.version).or_default().add(used);
    }
    let findings = [
        finding(&brought).map(|finding| finding.way_out(way_out(created, brought.len()))),
        finding(&stood).map(|finding| finding.way_out(way_out(true, stood.len())).warning_only()),
    ];
    findings.into_iter().flatten().collect()
}

fn finding(missing: &Missing<'_>) -> Option<Finding> {
    let mut evidence: Vec<ObjectKey> = Vec::new();
    let mut named = |missing: &Together<'_>| {
        let sample: Vec<_> = missing.sample.iter().copied().take(SAMPLE - evidence.len()).collect();
        evidence.extend(sample.iter().copied().cloned());
        if sample.is_empty() { String::new() } else { names(sample, missing.clusters) }
    };
    let mut rows = missing.iter();
    let problem = match (rows.next()?, missing.len()) {
        ((version, missing), 1) => {
            let use_it = if missing.clusters == 1 { "uses" } else { "use" };
            let who = named(missing);
            format!("{} is missing while {} {use_it} it ({who})", quoted(version), clusters(missing.clusters))
        }
        (first, versions) => {
            let mut problem = format!("{versions} versions are missing while Clusters use them: ");
            for (at, (version, missing)) in std::iter::once(first).chain(rows).take(LISTED).enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                let who = named(missing);
                let colon = if who.is_empty() { "" } else { ": " };
                let count = clusters(missing.clusters);
                // Writing to a String cannot fail.
                let _ = write!(problem, "{comma}{} ({count}{colon}{who})", quoted(version));
            }
            if versions > LISTED {
                let _ = write!(problem, " and {} more versions", versions - LISTED);
            }
            problem
        }
    };
    Some(
        Finding::new("spec.kubernetesVersions", problem)
            .because(
                "Cluster API refuses every write of a Cluster outside of its class's list, finalizer removal included",
            )
            .resting_on(evidence),
    )
}

fn way_out(list_it: bool, versions: usize) -> &'static str {
    match (list_it, versions) {
        (true, 1) => "list it, or leave the class without a list",
        (true, _) => "list them, or leave the class without a list",
        (false, 1) => "keep it listed until no Cluster uses it",
        (false, _) => "keep them listed until no Cluster uses them",
    }
}
