//! `version-listed`: the class that a Cluster names carries the Cluster's version.
//!
//! Membership is equality of bytes, as in Cluster API: an entry `1.31.0` is not `v1.31.0`. The *new* class decides, so a
//! rebase to a class without the version is refused even if the version stays.
//!
//! Source: Cluster API v1.12 and later, `core/webhooks/admission/cluster.go` (there on every write, here only
//! when version or class change, so that a Cluster whose class shrank can still be labelled and deleted).

use std::cmp::Ordering;

use super::{Check, ClusterCase, Finding, Mode, Rule, version_reachable};
use crate::{
    fleet::ClassEntry,
    text::{object_name, quoted},
    version::KubernetesVersion,
};

pub(super) const RULE: Rule = Rule {
    name: "version-listed",
    default: Mode::Deny,
    summary: "The class that a Cluster names lists the Cluster's version, byte for byte.",
    transition: false,
    looks_at_what_runs: false,
    check: Check::Cluster(check),
};

fn check(case: &ClusterCase<'_>) -> Vec<Finding> {
    let Some(class) = case.class else { return Vec::new() };
    if class.carries(&case.version) {
        return Vec::new();
    }
    let class_name = object_name(&case.class_key);
    if !case.version_changed() {
        let version = quoted(&case.version);
        let problem = format!(
            "ClusterClass {class_name} does not list {version}, the version of this Cluster, in spec.kubernetesVersions"
        );
        let way_out = misspelt(class, &case.version)
            .unwrap_or_else(|| format!("choose a class that lists it, or add {version} to this one first"));
        return vec![Finding::new("spec.topology.classRef", problem).way_out(way_out)];
    }
    let wanted = KubernetesVersion::parse_strict(&case.version).ok();
    // What is no version is shown as it was written, without the v that was put in front.
    let shown = quoted(if wanted.is_some() { &case.version } else { &case.topology.version });
    let problem = format!("{shown} is not in spec.kubernetesVersions of ClusterClass {class_name}");
    let way_out = misspelt(class, &case.version).unwrap_or_else(|| {
        let floor = Floor::of(case);
        // Neither what is no version nor what lies below the current one is of any use in the class.
        let useful = wanted.is_some_and(|wanted| floor.allows(&wanted));
        let add = useful.then(|| format!("add {shown} to the class"));
        let nearest = neighbors(case, class, &floor);
        match (nearest.as_slice(), add) {
            ([], Some(add)) => add,
            ([], None) => match &floor.current {
                Some(current) => format!("the class lists no version above {current}"),
                None => "choose a version that it lists".to_owned(),
            },
            (nearest, Some(add)) => format!("choose {}, or {add}", nearest.join(" or ")),
            (nearest, None) => format!("choose {}", nearest.join(" or ")),
        }
    });
    vec![Finding::new("spec.topology.version", problem).way_out(way_out)]
}

/// What the Cluster may not go below.
struct Floor {
    /// The current version; none on CREATE, or where transitions are not judged.
    current: Option<KubernetesVersion>,
    /// Whether staying at the current version is an answer: it is to a change of class.
    may_stay: bool,
}

impl Floor {
    fn of(case: &ClusterCase<'_>) -> Self {
        let old = case.old.as_ref().filter(|_| !case.skips_transition_rules());
        let current = old.and_then(|old| KubernetesVersion::parse_strict(&old.version).ok());
        Self { current, may_stay: case.old.as_ref().is_some_and(|old| old.class_key != case.class_key) }
    }

    fn allows(&self, version: &KubernetesVersion) -> bool {
        let Some(current) = &self.current else { return true };
        match version.cmp_precedence(current) {
            Ordering::Less => false,
            // Cluster API's planner passes over entries of a list that differ in the build tag alone, so there is no way to
            // them (v1.13 and later).
            Ordering::Equal => self.may_stay && version.same_text(current),
            Ordering::Greater => true,
        }
    }
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

/// The nearest entries below and above the wanted version that the Cluster could name and get to.
fn neighbors<'a>(case: &ClusterCase<'_>, class: &'a ClassEntry, floor: &Floor) -> Vec<&'a str> {
    // Also for what is no version but can be read as one: `v1.33`.
    let Ok(wanted) = KubernetesVersion::parse_lenient(&case.version) else { return Vec::new() };
    let (mut below, mut above) = (Vec::new(), Vec::new());
    for entry in &class.versions {
        let Ok(listed) = KubernetesVersion::parse_strict(entry) else { continue };
        if !floor.allows(&listed) {
            continue;
        }
        // Other build tags of the wanted version count as above.
        let side = if listed.cmp_precedence(&wanted).is_lt() { &mut below } else { &mut above };
        side.push((&**entry, listed));
    }
    below.sort_by(|(_, a), (_, b)| b.cmp_precedence(a));
    above.sort_by(|(_, a), (_, b)| a.cmp_precedence(b));
    let first_reached = |side: Vec<(&'a str, KubernetesVersion)>| {
        side.into_iter().map(|(entry, _)| entry).find(|entry| version_reachable::leads_to(case, class, entry))
    };
    [first_reached(below), first_reached(above)].into_iter().flatten().collect()
}
