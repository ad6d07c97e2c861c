//! `class-in-use`: a class is not deleted while Clusters refer to it.
//!
//! Without the class every write of its Clusters is refused, finalizer removal included. Cluster API refuses the deletion
//! too, against a cache.
//!
//! Source: Cluster API v1.1 and later, `core/webhooks/admission/clusterclass.go`; kubernetes-sigs/cluster-api#5196.

use super::{Check, ClassCase, Finding, Mode, Rule};
use crate::{
    fleet::SAMPLE,
    model::Change,
    text::{clusters, names},
};

pub(super) const RULE: Rule = Rule {
    name: "class-in-use",
    default: Mode::Deny,
    summary: "A class that Clusters use is not deleted.",
    transition: false,
    looks_at_what_runs: false,
    check: Check::Class(check),
};

fn check(case: &ClassCase<'_>) -> Vec<Finding> {
    let count = case.users.count();
    if !matches!(case.change, Change::Delete(_)) || count == 0 {
        return Vec::new();
    }
    let mut sample: Vec<_> = case.users.versions.iter().flat_map(|used| used.sample.iter().cloned()).collect();
    sample.sort();
    sample.truncate(SAMPLE);
    let uses = if count == 1 { "uses" } else { "use" };
    let problem = format!("{} {uses} this class ({})", clusters(count), names(&sample, count));
    vec![
        Finding::new("", problem)
            .because("without it Cluster API refuses every write of its Clusters")
            .way_out("first move these to another class or delete them")
            .resting_on(sample),
    ]
}
