//! `version-syntax`: a Cluster's version is strict semver behind a `v`.
//!
//! Cluster API 1.14 parses it strictly; 1.12 and 1.13 match a regular expression that lets some suffixes through
//! (`v1.30.0_a`), which then fail wherever the version is parsed. A missing `v` is put in front by Cluster API's
//! defaulting webhook, so every rule here reads the version with it.
//!
//! Source: Cluster API v1.14 `core/webhooks/admission/cluster.go`, `util/version`.

use super::{Check, ClusterCase, Finding, Mode, Rule};
use crate::{text::quoted, version::KubernetesVersion};

pub(super) const RULE: Rule = Rule {
    name: "version-syntax",
    default: Mode::Deny,
    summary: "A Cluster's version is v<major>.<minor>.<patch>, with a semver pre-release and build tag at most.",
    transition: false,
    looks_at_what_runs: false,
    check: Check::Cluster(check),
};

const FIELD: &str = "spec.topology.version";

fn check(case: &ClusterCase<'_>) -> Vec<Finding> {
    let written = &case.topology.version;
    if let Err(error) = KubernetesVersion::parse_strict(&case.version) {
        let finding = Finding::new(FIELD, format!("{} is not a version: {error}", quoted(written)))
            .way_out("write it as in v1.30.4")
            // A rebase that leaves an old, bad version alone does not bring it in.
            .introduced(case.version_changed());
        return vec![finding];
    }
    if *written == case.version {
        return Vec::new();
    }
    let problem = format!("{} has no leading v", quoted(written));
    let reading = format!("it is read as {}, as Cluster API's defaulting does", case.version);
    vec![Finding::new(FIELD, problem).way_out(reading).warning_only()]
}
