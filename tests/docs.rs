//! The docs keep up with the code: every rule has its page, with what the code says of it.

use capi_version_guard::rules::{Mode, RULES};

fn read(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("failed to read {path}: {error}"))
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Deny => "deny",
        Mode::Warn => "warn",
        Mode::Off => "off",
    }
}

#[test]
fn every_rule_has_its_page_and_no_page_is_left_over() {
    let index = read("docs/rules/README.md");
    for rule in &RULES {
        let (name, summary, default) = (rule.name, rule.summary, word(rule.default));
        let page = read(&format!("docs/rules/{name}.md"));
        assert!(
            page.starts_with(&format!("# {name}\n\n{summary}\n")),
            "docs/rules/{name}.md does not begin as it should"
        );
        assert!(page.contains(&format!("Default: `{default}`.")), "docs/rules/{name}.md: default");
        assert!(page.contains(&format!("({name})\n```")), "docs/rules/{name}.md has no example");
        for part in ["## What", "## Why", "## Example", "## The way out", "## Source"] {
            assert!(page.contains(part), "docs/rules/{name}.md: {part}");
        }
        assert!(
            index.contains(&format!("| [{name}]({name}.md) | {summary} | {default} |")),
            "docs/rules/README.md: {name}"
        );
        assert!(read("README.md").contains(&format!("docs/rules/{name}.md")), "README.md: {name}");
    }
    let pages = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rules")).unwrap().count();
    assert_eq!(pages, RULES.len() + 1);
}
