//! `list-removed`: a warning that a class in use loses its whole list.
//!
//! Cluster API always allows it, and sometimes it is the way out of a trap. But the Clusters of the class may name any
//! version from then on, and a chained upgrade in flight stops, because without a list the planner moves one minor only.
//!
//! Source: Cluster API v1.12 and later, `core/webhooks/admission/clusterclass.go` (no check); planner
//! `exp/topology/desiredstate/upgrade_plan.go`.

use super::{Check, ClassCase, Finding, Mode, Rule};
use crate::model::Change;
use crate::text::clusters;

pub(super) const RULE: Rule = Rule {
    name: "list-removed",
    default: Mode::Warn,
    summary: "A class in use does not lose its whole list.",
    transition: false,
    looks_at_what_runs: false,
    check: Check::Class(check),
};

fn check(case: &ClassCase<'_>) -> Vec<Finding> {
    let Change::Update { old, new } = case.change else { return Vec::new() };
    let count = case.users.count();
    if old.versions().is_empty() || !new.versions().is_empty() || count == 0 {
        return Vec::new();
    }
    let uses = if count == 1 { "uses" } else { "use" };
    let problem = format!("the list is removed while {} {uses} this class", clusters(count));
    vec![
        Finding::new("spec.kubernetesVersions", problem)
            .way_out("they may then name any version, one minor up at a time"),
    ]
}
