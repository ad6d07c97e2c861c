//! How texts name things: what a user wrote is bounded and cannot break out of its line, and lists of names stay short.

use std::{borrow::Cow, fmt::Write};

use crate::model::ObjectKey;

/// A version or name longer than this is cut; the longest that means something is far shorter.
const LONGEST: usize = 64;

/// Lists of `namespace/name` stop before they grow longer than this many bytes, whatever the sample holds.
const LONGEST_LIST: usize = 320;

/// Text that a user wrote, as it may stand in one line of a message: plain where it is made of the characters of
/// versions and names, else quoted, with control characters, line ends and direction marks escaped.
#[must_use]
pub fn quoted(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".+-_/:".contains(c);
    if !text.is_empty() && text.len() <= LONGEST && text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let cut: String = text.chars().take(LONGEST).collect();
    let more = if cut.len() < text.len() { "..." } else { "" };
    Cow::Owned(format!("{cut:?}{more}"))
}

/// A name for messages. Unlike a version it may fill its 253 characters; nothing else is legal in it, so nothing else
/// has to be readable.
#[must_use]
pub fn object_name(key: &ObjectKey) -> String {
    let whole = |text: &str| {
        let legal = |c: char| c.is_ascii_alphanumeric() || ".-_:*".contains(c);
        if text.chars().all(legal) { text.to_owned() } else { quoted(text).into_owned() }
    };
    if key.namespace.is_empty() {
        return whole(&key.name);
    }
    format!("{}/{}", whole(&key.namespace), whole(&key.name))
}

/// An error with its causes, each once: some libraries name the cause in their own text already.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string);
    causes.fold(error.to_string(), |text, cause| if text.contains(&cause) { text } else { format!("{text}: {cause}") })
}

/// "1 Cluster", "12 Clusters".
#[must_use]
pub fn clusters(count: usize) -> String {
    format!("{count} Cluster{}", if count == 1 { "" } else { "s" })
}

/// "a/c1, a/c2 and 10 more": the first names of `total`, as many as fit.
#[must_use]
pub fn names<'a>(sample: impl IntoIterator<Item = &'a ObjectKey>, total: usize) -> String {
    let mut text = String::new();
    let mut named = 0;
    for key in sample {
        let name = object_name(key);
        if named > 0 && text.len() + name.len() > LONGEST_LIST {
            break;
        }
        if named > 0 {
            text.push_str(", ");
        }
        text.push_str(&name);
        named += 1;
    }
    let more = total.saturating_sub(named);
    if more > 0 {
        // Writing to a String cannot fail.
        let _ = write!(text, " and {more} more");
    }
    text
}
