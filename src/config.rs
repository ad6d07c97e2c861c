//! The configuration file (YAML): the mode of each rule, and what cannot be seen of Cluster API.
//!
//! ```yaml
//! rules:
//!   class-exists: deny   # deny, warn or off
//! runtimeSDK: false      # Cluster API's feature gate; true if absent
//! ```
//! A key that nobody reads is a policy that somebody believes in, so every unknown key, rule and mode is an error, with its
//! place and the nearest known word. All errors of a file are told at once.

use std::{
    fmt::{self, Write},
    io,
    path::{Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_saphyr::{Location, Spanned};

use crate::{
    rules::{Mode, RULES},
    text::quoted,
    verdict::Modes,
};

/// What a configuration file says.
#[derive(Clone, Debug)]
pub struct Config {
    /// The mode of every rule.
    pub modes: Modes,
    /// Whether Cluster API's feature gate `RuntimeSDK` is on. Nothing that can be read tells it: it is a flag of the
    /// manager's.
    pub runtime_sdk: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { modes: Modes::default(), runtime_sdk: true }
    }
}

/// Why a configuration is not used.
#[derive(Debug, thiserror::Error)]
pub enum LoadConfigError {
    /// The file cannot be read.
    #[error("failed to read the configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file says what is not understood.
    #[error("failed to load the configuration {}:\n{problems}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// One line for each problem: `<line>:<column>: <text>`.
        problems: String,
    },
}

/// Reads the configuration file.
///
/// # Errors
/// If the file cannot be read, is no YAML of that shape, or has an unknown key, rule or mode.
pub fn load(path: &Path) -> Result<Config, LoadConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| LoadConfigError::Read { path: path.into(), source })?;
    parse(&text).map_err(|problems| LoadConfigError::Invalid { path: path.into(), problems })
}

/// Reads a configuration from text; the error is one line per problem.
///
/// # Errors
/// If it is no YAML of that shape, or has an unknown key, rule or mode.
pub fn parse(text: &str) -> Result<Config, String> {
    let file: Option<File> = serde_saphyr::from_str(text).map_err(|error| {
        let error = error.without_snippet();
        let at = error.location().map_or_else(String::new, |at| format!("{}:{}: ", at.line(), at.column()));
        format!("  {at}{}", describe(error))
    })?;
    let mut config = Config::default();
    let mut problems = Problems::default();
    for section in file.unwrap_or_default().0 {
        match section {
            Section::Rules(rules) => set_modes(rules, &mut config.modes, &mut problems),
            Section::RuntimeSdk(on) => match on.value.as_deref() {
                None | Some("true") => config.runtime_sdk = true,
                Some("false") => config.runtime_sdk = false,
                Some(word) => problems.add(on.referenced, &unknown("value", word, ["true", "false"])),
            },
            Section::Unknown(key) => problems.add(key.referenced, &unknown("key", &key.value, KEYS)),
        }
    }
    problems.none().map(|()| config)
}

const KEYS: [&str; 2] = ["rules", "runtimeSDK"];

fn set_modes(rules: Entries<Option<String>>, modes: &mut Modes, problems: &mut Problems) {
    for (rule, mode) in rules.0 {
        let named = mode.value.as_deref().and_then(mode_named);
        let known = RULES.iter().any(|known| known.name == rule.value);
        if !known {
            problems.add(rule.referenced, &unknown("rule", &rule.value, RULES.iter().map(|rule| rule.name)));
        }
        match named {
            Some(mode) if known => {
                let _known = modes.set(&rule.value, mode);
            }
            Some(_) => {}
            None => {
                let word = mode.value.unwrap_or_default();
                problems.add(mode.referenced, &unknown("mode", &word, MODES.map(|(name, _)| name)));
            }
        }
    }
}

const MODES: [(&str, Mode); 3] = [("deny", Mode::Deny), ("warn", Mode::Warn), ("off", Mode::Off)];

fn mode_named(word: &str) -> Option<Mode> {
    MODES.into_iter().find(|(name, _)| *name == word).map(|(_, mode)| mode)
}

#[derive(Default)]
struct Problems(String);

impl Problems {
    fn add(&mut self, at: Location, text: &str) {
        let line_end = if self.0.is_empty() { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{line_end}  {}:{}: {text}", at.line(), at.column());
    }

    fn none(self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// `unknown rule version-list; did you mean version-listed?`, or the words to choose from if none is near.
fn unknown<'a>(what: &str, word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let near = known.clone().into_iter().map(|known| (strsim::jaro_winkler(known, word), known));
    let nearest = near.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(similarity, _)| *similarity > 0.8);
    let advice = match nearest {
        Some((_, nearest)) => format!("did you mean {nearest}?"),
        None => format!("known are {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    };
    format!("unknown {what} {}; {advice}", quoted(word))
}

/// The error's first line without the place, which stands in front already, and without the advice to programmers.
fn describe(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let place = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
    let line = place.and_then(|place| line.strip_suffix(&place)).unwrap_or(line);
    let advice = line.find(", set DuplicateKeyPolicy").or_else(|| line.find("; use from_str"));
    line.get(..advice.unwrap_or(line.len())).unwrap_or(line).to_owned()
}

/// The sections of the file, in its order.
#[derive(Debug, Default)]
struct File(Vec<Section>);

#[derive(Debug)]
enum Section {
    Rules(Entries<Option<String>>),
    RuntimeSdk(Spanned<Option<String>>),
    Unknown(Spanned<String>),
}

impl<'de> Deserialize<'de> for File {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sections;

        impl<'de> Visitor<'de> for Sections {
            type Value = File;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<File, A::Error> {
                let mut sections = Vec::new();
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    sections.push(match key.value.as_str() {
                        "rules" => Section::Rules(map.next_value::<Option<_>>()?.unwrap_or_default()),
                        "runtimeSDK" => Section::RuntimeSdk(map.next_value()?),
                        _ => {
                            let IgnoredAny = map.next_value()?;
                            Section::Unknown(key)
                        }
                    });
                }
                Ok(File(sections))
            }
        }

        deserializer.deserialize_map(Sections)
    }
}

/// A mapping in the order of the file, with the place of each key and value.
#[derive(Debug)]
struct Entries<T>(Vec<(Spanned<String>, Spanned<T>)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(InOrder(std::marker::PhantomData))
    }
}
