//! `list-keeps-paths`: a class keeps the entries that upgrades under way still need.
//!
//! Cluster API looks only at the versions that Clusters are *going to*. Dropping an entry that a chain still has to pass,
//! the whole list, or the extension that plans, stops the chain in the middle until it is restored. So every chain
//! in flight that has a way under the old class must have one under the new, from where it is and from its next step,
//! which the controller may be writing at this moment. Deleting Clusters, and those that have no control plane yet, are
//! never planned for; paused ones go on some day, so they count.
//!
//! Costs one simulation per distinct state of the class's Clusters, however many Clusters there are.
//!
//! Source: Cluster API v1.12 and later, `core/webhooks/admission/clusterclass.go` (no such check),
//! `exp/topology/desiredstate`.

use std::{collections::BTreeMap, fmt::Write};

use super::{
    Check, ClassCase, Finding, Mode, Rule,
    path::{Path, Plans, Way, explain},
};
use crate::{
    fleet::{SAMPLE, Together},
    model::{Change, ControlPlaneState, ObjectKey},
    planner::Running,
    text::{clusters, names, quoted},
};

pub(super) const RULE: Rule = Rule {
    name: "list-keeps-paths",
    default: Mode::Deny,
    summary: "Every upgrade under way keeps a way to its version.",
    transition: false,
    looks_at_what_runs: true,
    check: Check::Class(check),
};

/// More kinds of loss than this are counted, not told.
const TOLD: usize = 3;

const LIST: &str = "spec.kubernetesVersions";
const EXTENSION: &str = "spec.upgrade.external.generateUpgradePlanExtension";

/// By the version they are on their way to and by what they miss.
type Groups<'a> = BTreeMap<(&'a str, String), Together<'a>>;

fn check(case: &ClassCase<'_>) -> Vec<Finding> {
    let Change::Update { old, new } = case.change else { return Vec::new() };
    let (plans_before, plans_after) = (Plans::of_class(old), Plans::of_class(new));
    let (mut lost, mut stood) = (Groups::new(), Groups::new());
    let (mut unknown, mut unread) = (Together::default(), Together::default());
    // More entries take no way from anybody.
    let narrows = plans_before.by_extension()
        || plans_after.by_extension()
        || new.versions().is_empty()
        || old.versions().iter().any(|entry| !case.lists.1.carries(entry));
    // What is not listed at all is list-covers-clusters'.
    for used in case.users.versions.iter().filter(|used| !used.deleting && case.lists.1.carries(&used.version)) {
        let (version, provider) = match &used.running.control_plane {
            ControlPlaneState::At { version, provider, .. } => (version, provider),
            // Nothing is planned for those.
            ControlPlaneState::NotCreated | ControlPlaneState::Missing => continue,
            ControlPlaneState::Unknown => {
                unread.add(used);
                continue;
            }
        };
        let workers = used.running.workers.iter().flat_map(|workers| workers.iter()).map(ToString::to_string);
        let from = Running { control_plane: version.to_string(), workers: workers.collect() };
        let path = |plans| Path { plans, installed: case.installed, provider: *provider, target: &used.version };
        let (before, after) = (path(&plans_before), path(&plans_after));
        // The controller may be one step further than the index.
        let states = std::iter::once(from.clone()).chain(before.next(&from));
        let worst = states.map(|state| (after.way(&state), state)).find(|(way, _)| *way != Way::Leads);
        let why = match worst {
            None => {
                // The control plane has a way; whether the workers have one takes to know them.
                if used.running.workers.is_none() && from.control_plane != *used.version {
                    unread.add(used);
                }
                continue;
            }
            Some((Way::Ends(trap), state)) => explain(&after, &state, &trap, "the list").what,
            Some((Way::ExtensionOff, _)) => {
                "Cluster API asks no extension while its RuntimeSDK feature is off".to_owned()
            }
            Some((Way::TooLong, _)) => {
                unread.add(used);
                continue;
            }
            Some((Way::Unknown | Way::Leads, _)) => {
                unknown.add(used);
                continue;
            }
        };
        let had_a_way = matches!(before.way(&from), Way::Leads | Way::Unknown | Way::TooLong);
        let groups = if had_a_way { &mut lost } else { &mut stood };
        groups.entry((&used.version, why)).or_default().add(used);
    }
    let field = if old.versions() == new.versions() { EXTENSION } else { LIST };
    let keep = match (&plans_before, &plans_after) {
        (Plans::List(_), Plans::List(_)) => "keep the entries until these Clusters have arrived",
        (Plans::List(_), _) => "keep the list until these Clusters have arrived",
        (Plans::Extension(_), _) => "keep the extension until these Clusters have arrived",
        (Plans::OneMinor, _) => "wait until these Clusters have arrived",
    };
    let lost = told(&lost, ("loses its way", "lose their way")).map(|(problem, evidence)| {
        Finding::new(field, problem)
            .because("Cluster API stops in the middle of an upgrade")
            .way_out(keep)
            .resting_on(evidence)
    });
    let stood = told(&stood, ("has no way", "have no way")).map(|(problem, evidence)| {
        let way_out = "this was so before the change; list what they need";
        Finding::new(field, problem).way_out(way_out).resting_on(evidence).warning_only()
    });
    let unknown = (unknown.clusters > 0).then(|| {
        let are = if unknown.clusters == 1 { "is" } else { "are" };
        let (who, names) = (clusters(unknown.clusters), names(unknown.sample, unknown.clusters));
        let problem = format!("{who} ({names}) {are} in the middle of an upgrade that only the extension can plan now");
        Finding::new(field, problem).way_out("see that it does").warning_only()
    });
    let unread = (narrows && unread.clusters > 0 && case.installed.release.is_some()).then(|| {
        let (who, names) = (clusters(unread.clusters), names(unread.sample, unread.clusters));
        let problem = format!("cannot tell whether {who} ({names}) would lose a way");
        Finding::new(field, problem)
            .because("what runs of them cannot be read")
            .way_out("see /readyz?verbose of capi-version-guard")
            .warning_only()
    });
    [lost, stood, unknown, unread].into_iter().flatten().collect()
}

/// All groups in one sentence, and the Clusters that it names.
fn told(groups: &Groups<'_>, (one_loses, they_lose): (&str, &str)) -> Option<(String, Vec<ObjectKey>)> {
    let count: usize = groups.values().map(|group| group.clusters).sum();
    let lose = if count == 1 { one_loses } else { they_lose };
    if let (((target, why), group), None) = (groups.iter().next()?, groups.iter().nth(1)) {
        let who = names(group.sample.iter().copied(), count);
        let problem = format!("{} ({who}) {lose} to {}: {why}", clusters(count), quoted(target));
        return Some((problem, group.sample.iter().copied().cloned().collect()));
    }
    let mut problem = format!("{} {lose}", clusters(count));
    let mut evidence: Vec<ObjectKey> = Vec::new();
    for ((target, why), group) in groups.iter().take(TOLD) {
        let sample: Vec<_> = group.sample.iter().copied().take(SAMPLE - evidence.len()).collect();
        evidence.extend(sample.iter().copied().cloned());
        let who = if sample.is_empty() { String::new() } else { format!(" ({})", names(sample, group.clusters)) };
        // Writing to a String cannot fail.
        let _ = write!(problem, ", {} of them to {}{who}: {why}", group.clusters, quoted(target));
    }
    if groups.len() > TOLD {
        let _ = write!(problem, ", and {} more kinds of loss", groups.len() - TOLD);
    }
    Some((problem, evidence))
}
