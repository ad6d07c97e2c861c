//! One line for each review that is answered, and for each that finds no verdict.
//!
//! What a user wrote stands in fields, which the formats quote and escape, and is cut; a verdict's message is escaped and
//! bounded already.

use tokio::time::Instant;

use super::{
    judge::{Basis, Judgement, Unavailable},
    refusal::{Reason, Refusal},
};
use crate::{
    model::Metadata,
    review::{Judged, Request},
};

/// An event that begins with what a review was about.
macro_rules! about {
    ($level:ident, $asked:expr, $metadata:expr, $($rest:tt)+) => {
        tracing::$level!(
            uid = shown(&$asked.uid),
            resource = T::RESOURCE,
            operation = shown(&$asked.operation),
            namespace = shown(&$metadata.namespace),
            name = shown(if $metadata.name.is_empty() { &$metadata.generate_name } else { &$metadata.name }),
            $($rest)+
        )
    };
}

/// Tells a verdict.
pub(super) fn verdict<T: Judged>(asked: &Request<T>, about: &Metadata, judgement: &Judgement, arrived: Instant) {
    let Judgement { verdict, basis, .. } = judgement;
    macro_rules! told {
        ($level:ident) => {
            about!(
                $level,
                asked,
                about,
                allowed = verdict.allowed(),
                rules = verdict.rules().join(","),
                basis = basis.as_str(),
                dry_run = asked.dry_run,
                microseconds = u64::try_from(arrived.elapsed().as_micros()).unwrap_or(u64::MAX),
                "{}",
                if verdict.allowed() { "allowed".to_owned() } else { format!("denied: {}", verdict.message()) }
            )
        };
    }
    // Controllers write without end what changes nothing here; a change of versions is rare and worth its line.
    if verdict.allowed() && *basis == Basis::Request && verdict.warnings.is_empty() {
        told!(debug);
    } else {
        told!(info);
    }
}

/// Tells that there is no verdict.
pub(super) fn no_verdict<T: Judged>(asked: &Request<T>, about: &Metadata, why: &Unavailable) {
    about!(warn, asked, about, retry_soon = why.retry_soon, "no verdict: {}", why.message);
}

/// Tells of a review that is no question for a judge. `text` is one line.
pub(super) fn not_judged<T: Judged>(asked: &Request<T>, text: &str) {
    let (uid, operation) = (shown(&asked.uid), shown(&asked.operation));
    tracing::info!(uid, resource = T::RESOURCE, operation, "not judged: {text}");
}

/// Tells of a refusal, unless it was told where more was known of it.
pub(super) fn refusal(refusal: &Refusal) {
    let reason = refusal.reason.as_str();
    match refusal.reason {
        Reason::Unavailable | Reason::Panic => {}
        Reason::Full | Reason::Slow => tracing::warn!(reason, "refused: {refusal}"),
        // Whoever reaches the port can cause these.
        Reason::Unreadable | Reason::Path | Reason::Method | Reason::Size | Reason::MediaType => {
            tracing::debug!(reason, "refused: {refusal}");
        }
    }
}

/// The longest name that Kubernetes has is of 253 bytes.
fn shown(text: &str) -> &str {
    text.get(..text.floor_char_boundary(253)).unwrap_or_default()
}
