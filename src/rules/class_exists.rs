//! `class-exists`: the class that a Cluster names is there.
//!
//! Cluster API admits the creation of a Cluster whose class is missing with a warning (it may come a moment later, in
//! the same batch), but refuses *every* update of it until the class is there. Nothing can be judged against a missing
//! class, so this rule speaks in place of the others; it warns by default.
//!
//! Source: Cluster API v1.14 `core/webhooks/admission/cluster.go`.

use super::{Check, ClusterCase, Finding, Mode, Rule};
use crate::{text::object_name, version::KubernetesVersion};

pub(super) const RULE: Rule = Rule {
    name: "class-exists",
    default: Mode::Warn,
    summary: "The ClusterClass that a Cluster names exists.",
    transition: false,
    looks_at_what_runs: false,
    check: Check::Cluster(check),
};

fn check(case: &ClusterCase<'_>) -> Vec<Finding> {
    if case.class.is_some() {
        return Vec::new();
    }
    let problem = format!("ClusterClass {} does not exist", object_name(&case.class_key));
    let finding = Finding::new("spec.topology.classRef", problem);
    vec![if case.update {
        finding
            .because("Cluster API refuses every update of this Cluster until it does")
            .way_out("create the class first")
    } else {
        let nothing = "nothing is created until it does";
        match KubernetesVersion::parse_strict(&case.version) {
            Ok(version) => finding.way_out(format!("{nothing}, and its list has to carry {version}")),
            Err(_) => finding.way_out(nothing),
        }
    }]
}
