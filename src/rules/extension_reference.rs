//! `extension-reference`: the name of an upgrade-plan extension has the form under which Cluster API registers handlers.
//!
//! The field takes any text of 1 to 512 characters, but a handler is always registered as
//! `<handler>.<ExtensionConfig>`, both DNS labels. Another form names no handler that can ever exist, and every
//! reconcile of every Cluster of the class fails.
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
    check: Check::Class(check),
};

fn check(case: &ClassCase<'_>) -> Vec<Finding> {
    let Some(extension) = case.change.new().and_then(|new| new.extension()) else { return Vec::new() };
    let well_formed =
        extension.split_once('.').is_some_and(|(handler, config)| is_dns_label(handler) && is_dns_label(config));
    if well_formed {
        return Vec::new();
    }
    vec![
        Finding::new(
            "spec.upgrade.external.generateUpgradePlanExtension",
            format!("{} is not <handler>.<ExtensionConfig>", quoted(extension)),
        )
        .because("Cluster API registers handlers in no other form")
        .way_out("write it as in generate-upgrade-plan.my-extension")
        .introduced(case.change.old().is_none_or(|old| old.extension() != Some(extension))),
    ]
}

/// A DNS-1123 label: what the API server demands of an `ExtensionConfig`'s name, and Cluster API of a handler's.
fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}
