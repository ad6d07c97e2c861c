//! `version-reachable`: the installed Cluster API can carry a Cluster to its target.
//!
//! Cluster API accepts any version that the class lists and finds out in its reconciler that there is no way there. Then
//! every further change of the version is refused, because the control plane is not at the version that it never reached.
//! So the plan is made here, with the installed release's own planner, and followed to its end.
//!
//! A plain change of the version is judged from the *old topology version*: Cluster API insists that everything runs it,
//! so nothing can be stale about it. A rebase in the middle of an upgrade, an adoption, and changes under the
//! annotation are judged from what runs. A Cluster that had no way before is not denied for having none after.
//!
//! Source: Cluster API v1.12 and later, `exp/topology/desiredstate`; the admission-time check that its proposal
//! 20250513-chained-and-efficient-upgrades promises is not in any release.

use std::cmp::Ordering;

use super::{
    Check, ClusterCase, Finding, Mode, OldTopology, Rule,
    path::{Path, Plans, Way, explain},
};
use crate::{
    fleet::ClassEntry,
    model::{ControlPlaneState, Provider},
    planner::{Installed, Release, Running},
    text::{object_name, quoted},
    version::KubernetesVersion,
};

pub(super) const RULE: Rule = Rule {
    name: "version-reachable",
    default: Mode::Deny,
    summary: "The installed Cluster API can carry the Cluster to its version.",
    transition: true,
    looks_at_what_runs: true,
    check: Check::Cluster(check),
};

const VERSION: &str = "spec.topology.version";
const CLASS: &str = "spec.topology.classRef";

fn check(case: &ClusterCase<'_>) -> Vec<Finding> {
    // A new Cluster is created at its version. What is not listed, or no version, other rules speak of.
    let Some(class) = case.class.filter(|class| case.update && class.carries(&case.version)) else { return Vec::new() };
    if case.installed.release.is_none() || KubernetesVersion::parse_strict(&case.version).is_err() {
        return Vec::new();
    }
    let plans = Plans::of_entry(class);
    let path = Path { plans: &plans, installed: case.installed, provider: provider(case), target: &case.version };
    let mut findings = match &case.old {
        Some(old) if old.version != case.version && !case.skips_transition_rules() => plain(case, &path, old),
        _ => from_what_runs(case, &path),
    };
    if let Some((major, minor)) = case.installed.unknown {
        let problem = format!("Cluster API {major}.{minor} is newer than this judgement knows");
        let (known_major, known_minor) = Installed::NEWEST_KNOWN;
        let finding = Finding::new(field(case), problem)
            .because(format!("it was made with the newest planner known, that of {known_major}.{known_minor}"))
            .way_out("update capi-version-guard");
        findings.push(finding.warning_only());
    }
    findings
}

fn field(case: &ClusterCase<'_>) -> &'static str {
    if case.version_changed() { VERSION } else { CLASS }
}

fn provider(case: &ClusterCase<'_>) -> Provider {
    case.new.control_plane_ref().map_or(Provider::Other, |named| Provider::of(&named.group, &named.kind))
}

/// A change of the version, and perhaps of the class, that Cluster API admits only where all runs the old version.
fn plain(case: &ClusterCase<'_>, path: &Path<'_>, old: &OldTopology<'_>) -> Vec<Finding> {
    let (Ok(from), Ok(to)) =
        (KubernetesVersion::parse_strict(&old.version), KubernetesVersion::parse_strict(&case.version))
    else {
        return Vec::new();
    };
    // version-not-lowered speaks of those; an extension can go down to a build tag by way of an unordered one.
    let extension = matches!(path.plans, Plans::Extension(_));
    let lower = to.cmp_with_build(&from).is_some_and(Ordering::is_lt);
    if to.cmp_precedence(&from).is_lt() || (lower && !extension) {
        return Vec::new();
    }
    let [alone, with_workers] = from_old(&old.version);
    let without = path.way(&alone);
    if without != Way::Leads {
        return finding(case, path, &alone, &without).into_iter().collect();
    }
    // Where only the workers get stuck, it takes workers.
    let has_workers = case.running.workers.as_ref().map(|workers| !workers.is_empty());
    let mut findings = Vec::new();
    if has_workers != Some(false) {
        let stuck = finding(case, path, &with_workers, &path.way(&with_workers));
        findings.extend(stuck.map(|finding| match has_workers {
            Some(_) => finding,
            None => finding.warning_only(),
        }));
    }
    if findings.is_empty() {
        findings.extend(runtime_sdk_needed(case, path, &alone));
    }
    findings
}

/// Cluster API 1.12 tells the steps in between to the control plane only while a runtime hook is pending; without the
/// feature the machines of the first step are never made (kubernetes-sigs/cluster-api#13517).
fn runtime_sdk_needed(case: &ClusterCase<'_>, path: &Path<'_>, from: &Running) -> Option<Finding> {
    let old_planner = matches!(case.installed.release, Some(Release::V1_12_0 | Release::V1_12_4));
    if case.installed.runtime_sdk || !old_planner {
        return None;
    }
    let hops = path.hops(from);
    let (first, _) = hops.split_first().filter(|(_, others)| !others.is_empty())?;
    let problem = format!("{} is {} steps away", quoted(&case.version), hops.len());
    let finding = Finding::new(VERSION, problem)
        .because("Cluster API 1.12 takes more than one only with its RuntimeSDK feature on")
        .way_out(format!("turn that on, or choose {} first", quoted(first)));
    Some(finding.warning_only())
}

/// A rebase, an adoption, or a change under the annotation: nobody insists on anything, so what runs decides.
fn from_what_runs(case: &ClusterCase<'_>, path: &Path<'_>) -> Vec<Finding> {
    let from = match &case.running.control_plane {
        ControlPlaneState::At { version, .. } => running(version, case),
        // Without a control plane nothing is planned; without the object that is named Cluster API stops before.
        ControlPlaneState::NotCreated | ControlPlaneState::Missing => return Vec::new(),
        ControlPlaneState::Unknown => {
            let problem = "cannot tell whether Cluster API gets from what runs to ";
            let finding = Finding::new(field(case), format!("{problem}{}", quoted(&case.version)))
                .because("the control plane cannot be read")
                .way_out("see the logs and /readyz?verbose of capi-version-guard");
            return vec![finding.warning_only()];
        }
    };
    let way = path.way(&from);
    if way == Way::Leads && case.running.workers.is_none() {
        let problem = format!("cannot tell whether the workers get to {}", quoted(&case.version));
        let finding = Finding::new(field(case), problem)
            .because("MachineDeployments or MachinePools cannot be read")
            .way_out("see the logs and /readyz?verbose of capi-version-guard");
        return vec![finding.warning_only()];
    }
    let Some(finding) = finding(case, path, &from, &way) else { return Vec::new() };
    vec![if had_a_way(case, &from) { finding } else { finding.warning_only() }]
}

fn running(control_plane: &str, case: &ClusterCase<'_>) -> Running {
    let workers = case.running.workers.iter().flat_map(|workers| workers.iter());
    Running { control_plane: control_plane.to_owned(), workers: workers.map(ToString::to_string).collect() }
}

/// Whether Cluster API had a way to the old target. An adopted Cluster had no target, so no way that could be missing.
fn had_a_way(case: &ClusterCase<'_>, from: &Running) -> bool {
    let Some(old) = &case.old else { return true };
    let rebased = old.class_key != case.class_key;
    // Without its class Cluster API had no way anywhere.
    let Some(class) = (if rebased { case.old_class } else { case.class }) else { return false };
    leads(case, class, from, &old.version)
}

fn finding(case: &ClusterCase<'_>, path: &Path<'_>, from: &Running, way: &Way) -> Option<Finding> {
    let Way::Ends(trap) = way else { return not_followed(case, path, way) };
    let class = format!("ClusterClass {}", object_name(&case.class_key));
    let explanation = explain(path, from, trap, &class);
    let instead = if case.version_changed() {
        let alternatives = path.alternatives(from);
        if alternatives.is_empty() { String::new() } else { format!("choose {}", alternatives.join(" or ")) }
    } else {
        format!("rebase once this Cluster is at {}", quoted(&case.version))
    };
    let way_out = explanation.way_out(instead);
    Some(Finding::new(field(case), explanation.what).because(explanation.why).way_out(way_out))
}

/// Where the planner is not asked, or gives no answer.
fn not_followed(case: &ClusterCase<'_>, path: &Path<'_>, way: &Way) -> Option<Finding> {
    let finding = |problem: String| Finding::new(field(case), problem);
    let cannot_tell = || finding(format!("cannot tell whether Cluster API gets to {}", quoted(&case.version)));
    match (way, path.plans) {
        (Way::ExtensionOff, Plans::Extension(name)) => Some(
            finding(format!("the extension {} of the class plans, and the RuntimeSDK feature is off", quoted(name)))
                .because("Cluster API refuses to plan then")
                .way_out("turn the feature on, or choose a class without an extension"),
        ),
        (Way::Unknown, Plans::Extension(name)) => {
            Some(cannot_tell().because(format!("the extension {} of the class plans", quoted(name))).warning_only())
        }
        (Way::TooLong, _) => Some(
            cannot_tell()
                .because("its workers run too many versions whose build tags have no order")
                .way_out("upgrade it when they run fewer")
                .warning_only(),
        ),
        (Way::Leads | Way::Ends(_) | Way::ExtensionOff | Way::Unknown, _) => None,
    }
}

/// Whether only workers keep a plain change of the version from its target.
pub(super) fn turns_on_workers(case: &ClusterCase<'_>) -> bool {
    let (Some(old), Some(class)) = (&case.old, case.class) else { return false };
    if old.version == case.version || case.skips_transition_rules() || !class.carries(&case.version) {
        return false;
    }
    let [alone, with_workers] = from_old(&old.version);
    leads(case, class, &alone, &case.version) && !leads(case, class, &with_workers, &case.version)
}

/// What runs where Cluster API insists on the old version: without workers, and with them.
fn from_old(version: &str) -> [Running; 2] {
    let running = |workers: Option<&str>| Running {
        control_plane: version.to_owned(),
        workers: workers.into_iter().map(ToOwned::to_owned).collect(),
    };
    [running(None), running(Some(version))]
}

/// Whether a Cluster of this class could go from its present version to `version`, as far as can be told: for advice.
pub(super) fn leads_to(case: &ClusterCase<'_>, class: &ClassEntry, version: &str) -> bool {
    let Some(old) = case.old.as_ref().filter(|_| !case.skips_transition_rules()) else { return true };
    let [alone, _] = from_old(&old.version);
    leads(case, class, &alone, version)
}

/// Whether the Cluster could be set back to the version of its control plane: for advice.
pub(super) fn leads_back(case: &ClusterCase<'_>, class: &ClassEntry, control_plane: &str) -> bool {
    leads(case, class, &running(control_plane, case), control_plane)
}

fn leads(case: &ClusterCase<'_>, class: &ClassEntry, from: &Running, target: &str) -> bool {
    let plans = Plans::of_entry(class);
    let path = Path { plans: &plans, installed: case.installed, provider: provider(case), target };
    matches!(path.way(from), Way::Leads | Way::Unknown | Way::TooLong)
}
