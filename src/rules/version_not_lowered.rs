//! `version-not-lowered`: an update never lowers a Cluster's version.
//!
//! Cluster API compares major, minor and patch only. A lower pre-release or a lower ordered build tag passes its webhook,
//! and then its planner, which insists on ascending steps, can never get there: `v1.31.0` to `v1.31.0-rc.1`,
//! `+b.2` to `+b.1`. An extension can plan around an ordered build tag (by way of an unordered one), but around nothing
//! else, since every step of its plan is held to ascend by precedence.
//!
//! Source: Cluster API v1.11 and later, `core/webhooks/admission/cluster.go`; planner validation in
//! `exp/topology/desiredstate/upgrade_plan.go`.

use std::cmp::Ordering;

use super::{Check, ClusterCase, Finding, Mode, Rule};
use crate::{model::annotation, text::quoted, version::KubernetesVersion};

pub(super) const RULE: Rule = Rule {
    name: "version-not-lowered",
    default: Mode::Deny,
    summary: "An update does not lower a Cluster's version, its pre-release or its ordered build tag.",
    transition: true,
    looks_at_what_runs: true,
    check: Check::Cluster(check),
};

fn check(case: &ClusterCase<'_>) -> Vec<Finding> {
    let Some(old) = &case.old else { return Vec::new() };
    // What does not parse is version-syntax's, or stood there before.
    let (Ok(from), Ok(to)) =
        (KubernetesVersion::parse_strict(&old.version), KubernetesVersion::parse_strict(&case.version))
    else {
        return Vec::new();
    };
    let extension_plans = case.class.is_some_and(|class| class.extension.is_some());
    let reason = if to.cmp_release(&from) == Ordering::Less {
        "Cluster API does not downgrade"
    } else if to.cmp_precedence(&from) == Ordering::Less {
        "what follows the - is a pre-release: Cluster API admits a lower one but has no plan that leads down to it"
    } else if to.cmp_with_build(&from) == Some(Ordering::Less) && !extension_plans {
        "Cluster API admits a lower build tag but has no plan that leads down to it"
    } else {
        return Vec::new();
    };
    let current = quoted(&old.version);
    let problem = format!("{} is lower than {current}, the current version", quoted(&case.version));
    let finding = Finding::new("spec.topology.version", problem);
    // The one way back: to the version that all still runs. Cluster API holds it back itself until it is told.
    if case.running.all_at(&case.version) && !case.skips_transition_rules() {
        let annotation = annotation::DISABLE_UPDATE_VERSION_CHECK;
        let way_out =
            format!("nothing has left it yet: Cluster API lets it back only with the annotation {annotation}");
        return vec![finding.way_out(way_out).warning_only()];
    }
    vec![finding.because(reason).way_out(format!("choose {current} or higher"))]
}
