//! `config`: every mistake in a configuration file is told, with its place and a suggestion.

use capi_version_guard::{config, rules::Mode};

fn problems(text: &str) -> String {
    config::parse(text).err().unwrap_or_else(|| "none".to_owned())
}

#[test]
fn modes_are_set_by_rule() {
    let config = config::parse("# a comment\nrules:\n  class-exists: deny\n  list-order: off\n").unwrap();
    assert_eq!(config.modes.get("class-exists"), Some(Mode::Deny));
    assert_eq!(config.modes.get("list-order"), Some(Mode::Off));
    assert_eq!(config.modes.get("version-listed"), Some(Mode::Deny), "the default stays");
    assert_eq!(config.modes.get("list-removed"), Some(Mode::Warn), "the default stays");
}

#[test]
fn the_runtime_sdk_is_on_unless_the_file_says_otherwise() {
    let cases = [("", true), ("runtimeSDK:\n", true), ("runtimeSDK: true\n", true), ("runtimeSDK: false\n", false)];
    for (text, on) in cases {
        assert_eq!(config::parse(text).unwrap().runtime_sdk, on, "{text:?}");
    }
}

#[test]
fn an_empty_file_changes_nothing() {
    for text in ["", "# nothing\n", "rules:\n", "rules: {}\n", "---\n"] {
        assert_eq!(problems(text), "none", "{text:?}");
    }
}

#[test]
fn every_mistake_is_told_with_its_place() {
    let cases = [
        ("rulez: {}\n", "  1:1: unknown key rulez; did you mean rules?"),
        ("logging: {}\n", "  1:1: unknown key logging; known are rules, runtimeSDK"),
        (
            "rules:\n  version-list: warn\n  list-order: wran\n",
            "  2:3: unknown rule version-list; did you mean version-listed?\n  \
             3:15: unknown mode wran; did you mean warn?",
        ),
        ("rules:\n  list-order: 7\n", "  2:15: unknown mode 7; known are deny, warn, off"),
        ("rules:\n  list-order:\n", "  2:13: unknown mode \"\"; known are deny, warn, off"),
        ("rules:\n  list-order: \"wa\\nrn\"\n", "  2:15: unknown mode \"wa\\nrn\"; did you mean warn?"),
        ("rules:\n  list-order: warn\n  list-order: off\n", "  3:3: duplicate mapping key: list-order"),
        ("rules: [list-order]\n", "  1:8: expected mapping start"),
        ("rules: {list-order: [warn]}\n", "  1:21: expected string scalar"),
        ("rules: {\n", "  1:8: unclosed bracket '{'"),
        ("- rules\n", "  1:1: expected mapping start"),
        ("rules:\n\tlist-order: warn\n", "  2:2: tabs disallowed within this context (block indentation)"),
        ("runtimeSdk: false\n", "  1:1: unknown key runtimeSdk; did you mean runtimeSDK?"),
        ("runtimeSDK: maybe\n", "  1:13: unknown value maybe; known are true, false"),
        ("runtimeSDK: flase\n", "  1:13: unknown value flase; did you mean false?"),
        ("runtimeSDK: [true]\n", "  1:13: expected string scalar"),
        ("rules: {}\n---\nrules: {}\n", "  3:1: multiple YAML documents detected"),
    ];
    for (text, expected) in cases {
        assert_eq!(problems(text), expected, "{text:?}");
    }
}

#[test]
fn the_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("guard.yaml");
    std::fs::write(&path, "rulez: {}\n").unwrap();
    let text = config::load(&path).unwrap_err().to_string();
    let expected =
        format!("failed to load the configuration {}:\n  1:1: unknown key rulez; did you mean rules?", path.display());
    assert_eq!(text, expected);
    let missing = dir.path().join("missing.yaml");
    let text = config::load(&missing).unwrap_err().to_string();
    assert_eq!(text, format!("failed to read the configuration {}", missing.display()));
}
