//! `version-listed`: the class that a Cluster names carries the Cluster's version.
//!
//! Membership is equality of bytes, as in Cluster API: an entry `1.31.0` is not `v1.31.0`. The *new* class decides, so a
//! rebase to a class without the version is refused even if the version stays.
//!
//! Source: check C5, Cluster API v1.12 and later, `core/webhooks/admission/cluster.go` (there on every write, here only
//! when version or class change, so that a Cluster whose class shrank can still be labelled and deleted).

use std::cmp::Ordering;

use super::{
    Check, ClusterCase, Finding, Mode, Rule,
    text::{object_name, quoted},
};
use crate::{fleet::ClassEntry, version::KubernetesVersion};

pub(super) const RULE: Rule = Rule {
    name: "version-listed",
    default: Mode::Deny,
    summary: "The class that a Cluster names lists the Cluster's version, byte for byte.",
    transition: false,
    check: Check::Cluster(check),
};

fn check(case: &ClusterCase<'_>) -> Vec<Finding> {
    let Some(class) = case.class else { return Vec::new() };
    if class.carries(&case.version) {
        return Vec::new();
    }
    let version = quoted(&case.version);
    let class_name = object_name(&case.class_key);
    if !case.version_changed() {
        let problem = format!(
            "ClusterClass {class_name} does not list {version}, the version of this Cluster, in spec.kubernetesVersions"
        );
        let way_out = misspelt(class, &case.version)
            .unwrap_or_else(|| format!("choose a class that lists it, or add {version} to this one first"));
        return vec![Finding::new("spec.topology.classRef", problem).way_out(way_out)];
    }
    let problem = format!("{version} is not in spec.kubernetesVersions of ClusterClass {class_name}");
    let way_out = misspelt(class, &case.version).unwrap_or_else(|| {
        let add = format!("add {version} to the class");
        match neighbors(class, case) {
            (Some(below), Some(above)) => format!("choose {below} or {above}, or {add}"),
            (Some(one), None) | (None, Some(one)) => format!("choose {one}, or {add}"),
            (None, None) => add,
        }
    });
    vec![Finding::new("spec.topology.version", problem).way_out(way_out)]
}

/// The way out where the class means the version but spells it as no Cluster can.
fn misspelt(class: &ClassEntry, version: &str) -> Option<String> {
    let wanted = KubernetesVersion::parse_strict(version).ok()?;
    let entry = class
        .versions
        .iter()
        .find(|entry| KubernetesVersion::parse_lenient(entry).is_ok_and(|listed| listed.same_text(&wanted)))?;
    Some(format!(
        "the class lists it as {}, which no Cluster can name: correct that entry to {}",
        quoted(entry),
        quoted(version)
    ))
}

/// The nearest entries below and above the wanted version that the Cluster could name, none lower than what it has.
fn neighbors<'a>(class: &'a ClassEntry, case: &ClusterCase<'_>) -> (Option<&'a str>, Option<&'a str>) {
    let Ok(wanted) = KubernetesVersion::parse_strict(&case.version) else { return (None, None) };
    let floor = case.old.as_ref().and_then(|old| KubernetesVersion::parse_strict(&old.version).ok());
    let (mut below, mut above) = (None::<(&str, KubernetesVersion)>, None::<(&str, KubernetesVersion)>);
    for entry in &class.versions {
        let Ok(listed) = KubernetesVersion::parse_strict(entry) else { continue };
        if floor.as_ref().is_some_and(|floor| listed.cmp_precedence(floor) != Ordering::Greater) {
            continue;
        }
        // Unordered build tags of one version count as above: the Cluster may move to them.
        if listed.cmp_precedence(&wanted) == Ordering::Less {
            if below.as_ref().is_none_or(|(_, best)| listed.cmp_precedence(best) == Ordering::Greater) {
                below = Some((entry, listed));
            }
        } else if above.as_ref().is_none_or(|(_, best)| listed.cmp_precedence(best) == Ordering::Less) {
            above = Some((entry, listed));
        }
    }
    (below.map(|(entry, _)| entry), above.map(|(entry, _)| entry))
}
