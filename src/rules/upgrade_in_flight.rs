//! `upgrade-in-flight`: another version is chosen while the last upgrade is still under way.
//!
//! Cluster API refuses that itself, and names one object that is not where it should be. This rule adds where the chain
//! stands and what ends it. It warns by default: what runs is known from an index that may be a moment old, and Cluster
//! API has the last word anyway.
//!
//! The only version that can be gone back to is the control plane's own, with the annotation, where the class lists it and
//! no worker is above it. The version before the upgrade began is a new dead end once the control plane has moved.
//!
//! Source: Cluster API v1.14 `core/webhooks/admission/cluster.go` (`validateTopologyVersionUpdate` and what it calls);
//! kubernetes-sigs/cluster-api#7428, #9098, #11940, #12984.

use std::borrow::Cow;

use super::{Check, ClusterCase, Finding, Mode, OldTopology, Rule, version_reachable};
use crate::{
    model::{ControlPlaneState, annotation},
    text::quoted,
    version::KubernetesVersion,
};

pub(super) const RULE: Rule = Rule {
    name: "upgrade-in-flight",
    default: Mode::Warn,
    summary: "No other version is chosen while the last upgrade is under way.",
    transition: true,
    looks_at_what_runs: true,
    check: Check::Cluster(check),
};

/// Versions still ahead, or of workers, beyond this many are not named.
const NAMED: usize = 4;

fn check(case: &ClusterCase<'_>) -> Vec<Finding> {
    let Some(old) = case.old.as_ref().filter(|old| old.version != case.version) else { return Vec::new() };
    if case.skips_transition_rules() || case.installed.release.is_none() {
        return Vec::new();
    }
    let finding = |problem: String| Finding::new("spec.topology.version", problem);
    let until = "Cluster API refuses another version until then";
    let wait = "wait";
    let found = match &case.running.control_plane {
        ControlPlaneState::NotCreated => {
            Some(finding("the control plane is not created yet".to_owned()).because(until).way_out(wait))
        }
        ControlPlaneState::Missing => {
            let named =
                case.new.control_plane_ref().or_else(|| case.old_object.and_then(|old| old.control_plane_ref()));
            let named =
                named.map_or_else(String::new, |named| format!("{} {}", quoted(&named.kind), quoted(&named.name)));
            let problem = format!("{named}, which spec.controlPlaneRef names, does not exist");
            Some(finding(problem).because("Cluster API refuses every other version without it").way_out("restore it"))
        }
        ControlPlaneState::At { version, settled, .. } => standing(case, old, version, *settled),
        ControlPlaneState::Unknown => None,
    };
    found.or_else(|| hook_pending(case, old)).into_iter().collect()
}

fn hook_pending(case: &ClusterCase<'_>, old: &OldTopology<'_>) -> Option<Finding> {
    let pending = case.new.metadata.annotations.value(annotation::PENDING_HOOKS)?;
    pending.split(',').any(|hook| hook.trim() == "AfterClusterUpgrade").then(|| {
        let problem =
            format!("the hook AfterClusterUpgrade of the upgrade to {} is still pending", quoted(&old.version));
        Finding::new("spec.topology.version", problem)
            .because("Cluster API refuses another version until its extensions have answered")
            .way_out("wait for them")
    })
}

/// Where the chain stands, if it has not arrived.
fn standing(case: &ClusterCase<'_>, old: &OldTopology<'_>, control_plane: &str, settled: bool) -> Option<Finding> {
    let same =
        |text: &str| match (KubernetesVersion::parse_lenient(text), KubernetesVersion::parse_lenient(&old.version)) {
            (Ok(a), Ok(b)) => a.same_text(&b),
            _ => *text == *old.version,
        };
    let behind: Vec<_> = case.running.workers.iter().flat_map(|it| it.iter()).filter(|worker| !same(worker)).collect();
    if same(control_plane) && settled && behind.is_empty() {
        return None;
    }
    let moves = if same(control_plane) && !settled { "still moving to" } else { "at" };
    let ahead = case.old_object.map_or(&[] as &[String], |old| &old.control_plane_progress().upgrade_plan);
    let ahead = match ahead {
        [] => String::new(),
        ahead => format!(", still ahead {}", some(ahead.iter().map(String::as_str))),
    };
    let behind = match behind.as_slice() {
        [] => String::new(),
        behind => format!(", workers at {}", some(behind.iter().map(|worker| &***worker))),
    };
    let where_it_stands = format!("control plane {moves} {}{ahead}{behind}", quoted(control_plane));
    let problem = format!("the upgrade to {} is not done: {where_it_stands}", quoted(&old.version));
    let way_out = match way_back(case, control_plane).filter(|_| !same(control_plane)) {
        Some(back) => format!("wait, or go back to {back} with {}", annotation::DISABLE_UPDATE_VERSION_CHECK),
        None => "wait".to_owned(),
    };
    let finding = Finding::new("spec.topology.version", problem);
    Some(finding.because("Cluster API refuses another version until then").way_out(way_out))
}

/// The control plane's version, if the Cluster can be set back to it: it has to be listed, and no worker above it.
fn way_back<'a>(case: &ClusterCase<'_>, control_plane: &'a str) -> Option<Cow<'a, str>> {
    KubernetesVersion::parse_strict(control_plane).ok()?;
    let class = case.class.filter(|class| class.carries(control_plane))?;
    version_reachable::leads_back(case, class, control_plane).then(|| quoted(control_plane))
}

fn some<'a>(versions: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<_> = versions.map(quoted).collect();
    let more = if all.len() > NAMED { " ..." } else { "" };
    format!("{}{more}", all.iter().take(NAMED).map(|text| &**text).collect::<Vec<_>>().join(", "))
}
