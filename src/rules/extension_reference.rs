//! `extension-reference`: the name of an upgrade-plan extension has the form under which Cluster API registers handlers.
//!
//! The field takes any text of 1 to 512 characters, but a handler is always registered as
//! `<handler>.<ExtensionConfig>`, both DNS labels. Another form names no handler that can ever exist, and every
//! reconcile of every Cluster of the class fails.
//!
//! With the feature gate `RuntimeSDK` off (said by the configuration) Cluster API calls no extension and refuses to plan.
//!
//! Source: Cluster API v1.12 and later, `internal/runtime/registry`, proposal
//! 20220414-runtime-hooks ("Registering Runtime Extensions").

use super::{Check, ClassCase, Finding, Mode, Rule};
use crate::text::quoted;

pub(super) const RULE: Rule = Rule {
    name: "extension-reference",
    default: Mode::Deny,
    summary: "generateUpgradePlanExtension is <handler>.<ExtensionConfig>.",
    transition: false,
    looks_at_what_runs: false,
    check: Check::Class(check),
};

fn check(case: &ClassCase<'_>) -> Vec<Finding> {
    let Some(extension) = case.change.new().and_then(|new| new.extension()) else { return Vec::new() };
    let well_formed =
        extension.split_once('.').is_some_and(|(handler, config)| is_dns_label(handler) && is_dns_label(config));
    let name = quoted(extension);
    let field = "spec.upgrade.external.generateUpgradePlanExtension";
    if !well_formed {
        return vec![
            Finding::new(field, format!("{name} is not <handler>.<ExtensionConfig>"))
                .because("Cluster API registers handlers in no other form")
                .way_out("write it as in generate-upgrade-plan.my-extension")
                .introduced(case.change.old().is_none_or(|old| old.extension() != Some(extension))),
        ];
    }
    if !case.installed.runtime_sdk {
        return vec![
            Finding::new(field, format!("{name} is not asked while the RuntimeSDK feature of Cluster API is off"))
                .because("then no Cluster of this class can be upgraded")
                .way_out("turn the feature on, or use a list")
                .warning_only(),
        ];
    }
    Vec::new()
}

/// A DNS-1123 label: what the API server demands of an `ExtensionConfig`'s name, and Cluster API of a handler's.
fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}
