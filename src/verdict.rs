//! From findings to a verdict: what is denied, what is warned of, and the texts that people read.
//!
//! The bounds are the API server's: a response's warnings beyond 4096 characters are cut to 256 each, then dropped, and
//! one with a control character is dropped silently. `kubectl` shows a denial's message whole, so it stays within a
//! kibibyte and one line.

use crate::{
    model::ObjectKey,
    rules::{Finding, Mode, RULES, Rule},
    text,
};

/// A denial's message is at most this many bytes.
pub const LONGEST_MESSAGE: usize = 1024;
/// A warning is at most this many characters.
pub const LONGEST_WARNING: usize = 256;
/// A response has at most this many warnings.
pub const MOST_WARNINGS: usize = 5;

/// The mode of every rule.
#[derive(Clone, Debug)]
pub struct Modes([Mode; RULES.len()]);

impl Default for Modes {
    fn default() -> Self {
        Self(std::array::from_fn(|at| RULES.get(at).map_or(Mode::Deny, |rule| rule.default)))
    }
}

impl Modes {
    /// The mode of the rule of this name; `None` if there is no such rule.
    #[must_use]
    pub fn get(&self, rule: &str) -> Option<Mode> {
        self.iter().find(|(known, _)| known.name == rule).map(|(_, mode)| mode)
    }

    /// Sets the mode of the rule of this name. `false` if there is no such rule.
    #[must_use]
    pub fn set(&mut self, rule: &str, mode: Mode) -> bool {
        let slot = RULES.iter().zip(&mut self.0).find(|(known, _)| known.name == rule);
        slot.map(|(_, slot)| *slot = mode).is_some()
    }

    /// Every rule with its mode.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Rule, Mode)> {
        RULES.iter().zip(self.0)
    }
}

/// What is decided of one change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// "Cluster team-a/prod".
    object: String,
    /// What the change is denied for; it is allowed if there is nothing.
    pub denials: Vec<Finding>,
    /// What it is warned of.
    pub warnings: Vec<Finding>,
}

impl Verdict {
    /// The verdict on a change of the `kind` object `key`.
    #[must_use]
    pub fn new(kind: &str, key: &ObjectKey, findings: Vec<Finding>, modes: &Modes) -> Self {
        let mut verdict = Self { object: format!("{kind} {}", text::object_name(key)), ..Self::default() };
        for finding in findings {
            match modes.get(finding.rule).unwrap_or(Mode::Deny) {
                Mode::Deny if finding.introduced => verdict.denials.push(finding),
                Mode::Deny | Mode::Warn => verdict.warnings.push(finding),
                Mode::Off => {}
            }
        }
        verdict
    }

    /// Whether the change may go on.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.denials.is_empty()
    }

    /// The text of a denial, in one line of at most [`LONGEST_MESSAGE`] bytes; empty if the change is allowed.
    #[must_use]
    pub fn message(&self) -> String {
        let mut message = format!("{}: ", self.object);
        match self.denials.as_slice() {
            [] => return String::new(),
            [only] => message.push_str(&sentence(only)),
            several => {
                for (at, finding) in several.iter().enumerate() {
                    let part = format!("{}{}) {}", if at == 0 { "" } else { "; " }, at + 1, sentence(finding));
                    let left = several.len() - at;
                    let rest = format!("; and {left} more findings");
                    // The last one needs no room for the line that says how many are left out.
                    let needed = part.len() + if left == 1 { 0 } else { rest.len() };
                    if at > 0 && message.len() + needed > LONGEST_MESSAGE {
                        message.push_str(if left == 1 { "; and 1 more finding" } else { &rest });
                        break;
                    }
                    message.push_str(&part);
                }
            }
        }
        cut(message, LONGEST_MESSAGE)
    }

    /// The texts of the warnings, each in one line of at most [`LONGEST_WARNING`] characters, not more than
    /// [`MOST_WARNINGS`].
    #[must_use]
    pub fn warning_texts(&self) -> Vec<String> {
        let shown = if self.warnings.len() > MOST_WARNINGS { MOST_WARNINGS - 1 } else { MOST_WARNINGS };
        let mut texts: Vec<_> = self.warnings.iter().take(shown).map(|finding| self.warning(finding)).collect();
        let more = self.warnings.len().saturating_sub(shown);
        if more > 0 {
            texts.push(cut(format!("{}: and {more} more warnings", self.object), LONGEST_WARNING));
        }
        texts
    }

    fn warning(&self, finding: &Finding) -> String {
        let whole = format!("{}: {}", self.object, sentence(finding));
        if whole.len() <= LONGEST_WARNING {
            return whole;
        }
        // The way out helps more than the reason, and the rule's name leads to both.
        let short = sentence(&Finding { reason: "".into(), ..finding.clone() });
        let (rule, whole) = (format!(" ({})", finding.rule), format!("{}: {short}", self.object));
        let text = whole.strip_suffix(&rule).unwrap_or(&whole).to_owned();
        cut(text, LONGEST_WARNING - rule.len()) + &rule
    }

    /// The names of the rules that spoke, in the registry's order, each once: denials first.
    #[must_use]
    pub fn rules(&self) -> Vec<&'static str> {
        let mut rules: Vec<&'static str> = Vec::new();
        for finding in self.denials.iter().chain(&self.warnings) {
            if !rules.contains(&finding.rule) {
                rules.push(finding.rule);
            }
        }
        rules
    }
}

/// `<field>: <what is wrong>; <why>; <way out> (<rule>)`.
fn sentence(finding: &Finding) -> String {
    let field = if finding.field.is_empty() { String::new() } else { format!("{}: ", finding.field) };
    format!("{field}{} ({})", explanation(finding), finding.rule)
}

/// `<what is wrong>; <why>; <way out>`: a finding without its place.
#[must_use]
pub fn explanation(finding: &Finding) -> String {
    let mut text = finding.problem.clone();
    for part in [&finding.reason, &finding.way_out] {
        if !part.is_empty() {
            text.push_str("; ");
            text.push_str(part);
        }
    }
    text
}

/// Cuts `text` to `longest` bytes at a character's boundary, and shows it.
fn cut(mut text: String, longest: usize) -> String {
    const MARK: &str = "...";
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest - MARK.len()));
        text.push_str(MARK);
    }
    text
}
