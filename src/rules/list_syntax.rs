//! `list-syntax`: a class's list holds versions that a Cluster can name.
//!
//! Cluster API parses entries leniently but a Cluster's version strictly, and membership is equality of bytes. So
//! `1.31.0`, `v1.31` or ` v1.31.0` are admitted, and no Cluster can ever choose them; as an intermediate hop they are
//! handed to the control plane provider as they stand, which refuses most. Entries that even the lenient
//! parser refuses are denied, as Cluster API does; the rest is a warning.
//!
//! Source: Cluster API v1.12 and later, `core/webhooks/admission/clusterclass.go`.

use super::{Check, ClassCase, Finding, Mode, Rule};
use crate::{text::quoted, version::KubernetesVersion};

pub(super) const RULE: Rule = Rule {
    name: "list-syntax",
    default: Mode::Deny,
    summary: "Every entry of spec.kubernetesVersions is a version that a Cluster can name.",
    transition: false,
    looks_at_what_runs: false,
    check: Check::Class(check),
};

fn check(case: &ClassCase<'_>) -> Vec<Finding> {
    let Some(new) = case.change.new() else { return Vec::new() };
    let entries =
        new.versions().iter().enumerate().filter(|(_, entry)| KubernetesVersion::parse_strict(entry).is_err());
    let findings = entries.map(|(at, entry)| {
        let field = format!("spec.kubernetesVersions[{at}]");
        match KubernetesVersion::parse_lenient(entry) {
            Err(error) => Finding::new(field, format!("{} is not a version: {error}", quoted(entry)))
                .way_out("write it as in v1.30.4")
                .introduced(!case.had(entry)),
            Ok(meant) => {
                let form = "a Cluster's version is v<major>.<minor>.<patch> with all its parts";
                let write = format!("write {}", quoted(&meant.to_string()));
                let is_step = KubernetesVersion::parse_strict(&KubernetesVersion::with_default_v(entry)).is_ok();
                let entry = quoted(entry);
                // As a step of an upgrade, a v is put in front of it; the rest has to be right.
                let finding = if is_step {
                    Finding::new(field, format!("no Cluster can name {entry}: {form}"))
                } else {
                    let refused = "and as a step KubeadmControlPlanes and MachineDeployments refuse it";
                    Finding::new(field, format!("no Cluster can name {entry}, {refused}")).because(form)
                };
                finding.way_out(write).warning_only()
            }
        }
    });
    findings.collect()
}
