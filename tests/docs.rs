//! The docs keep up with the code: every rule has its page, with what the code says of it.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use capi_version_guard::{
    config::Config,
    fleet::{Fleet, manifests},
    model::{Cluster, ClusterClass},
    review::{self, Question},
    rules::{Mode, RULES},
    server::judge::Judge,
};

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

/// What the example fleet's verdicts say, denials and warnings, of all example reviews.
fn said() -> BTreeSet<String> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let fleet = Fleet::from(manifests::load(&examples.join("fleet")).unwrap());
    let judge = Judge::new(Arc::new(fleet), None, Config::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut said = BTreeSet::new();
    for entry in std::fs::read_dir(examples.join("reviews")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        let judgement = match review::parse::<Cluster>(&bytes).unwrap().question {
            Question::Judge(change) => runtime.block_on(judge.cluster(&change, false, deadline)),
            _ => match review::parse::<ClusterClass>(&bytes).unwrap().question {
                Question::Judge(change) => runtime.block_on(judge.class(&change, false, deadline)),
                _ => panic!("a review of neither kind"),
            },
        };
        let verdict = judgement.unwrap().verdict;
        said.extend(verdict.warning_texts());
        said.insert(verdict.message());
    }
    said
}

/// The texts that a page shows as kubectl prints them: a prompt's output, lines joined.
fn shown(page: &str) -> Vec<String> {
    let blocks = page.split("```").skip(1).step_by(2);
    let outputs = blocks.filter(|block| block.contains("Error from server") || block.contains("Warning: "));
    outputs
        .map(|block| {
            let lines =
                block.lines().skip_while(|line| !(line.starts_with("Error from") || line.starts_with("Warning: ")));
            let text = lines.collect::<Vec<_>>().join(" ");
            let (_, message) = text.split_once("denied the request: ").or(text.split_once("Warning: ")).unwrap();
            message.trim().to_owned()
        })
        .collect()
}

#[test]
fn every_text_that_the_docs_show_is_what_the_example_fleet_is_told() {
    let said = said();
    let mut pages: Vec<_> = RULES.iter().map(|rule| format!("docs/rules/{}.md", rule.name)).collect();
    pages.push("README.md".to_owned());
    for page in pages {
        let shown = shown(&read(&page));
        assert!(!shown.is_empty(), "{page} shows no text");
        for text in shown {
            assert!(said.contains(&text), "{page} shows what nobody is told: {text}\nit is:\n{said:#?}");
        }
    }
}

/// The texts in backquotes of each row whose first column is a label, by label.
fn gaps() -> Vec<(String, String)> {
    let page = read("docs/gaps.md");
    let rows = page.lines().filter(|line| line.starts_with("| G"));
    let cells = rows.map(|row| row.trim_matches(['|', ' ']).split(" | ").map(str::to_owned).collect::<Vec<_>>());
    cells.map(|cells| (cells[0].clone(), cells[3].trim_matches('`').to_owned())).collect()
}

#[test]
fn every_gap_is_held_by_a_test_that_exists() {
    let gaps = gaps();
    let labels: Vec<_> = gaps.iter().map(|(label, _)| label.clone()).collect();
    assert_eq!(labels, (1..=26).map(|n| format!("G{n}")).collect::<Vec<_>>());
    let mut names = BTreeSet::new();
    for directory in ["tests/cases/rules", "tests/cases/e2e"] {
        for entry in std::fs::read_dir(format!("{}/{directory}", env!("CARGO_MANIFEST_DIR"))).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let named = text.lines().filter_map(|line| line.strip_prefix("- name: "));
            names.extend(named.map(|name| name.trim_matches('"').to_owned()));
        }
    }
    for (label, name) in gaps {
        assert!(names.contains(&name), "docs/gaps.md, {label}: there is no test case {name:?}");
    }
}

#[test]
fn every_fact_of_the_api_server_has_its_row_and_its_test() {
    let facts = read("tests/api_server/facts.rs");
    let (_, rest) = facts.split_once("pub const FACTS").unwrap();
    let (table, _) = rest.split_once("];\n").unwrap();
    let quoted: Vec<_> = table.split('"').skip(1).step_by(2).collect();
    let tests: Vec<_> = quoted.chunks(2).map(|pair| pair[1].to_owned()).collect();
    let page = read("docs/api-server.md");
    let rows = page.lines().filter_map(|line| line.strip_suffix("` |")?.rsplit_once("| `"));
    let mut named: Vec<_> = rows.map(|(_, test)| test.to_owned()).collect();
    assert_eq!(named.iter().collect::<BTreeSet<_>>(), tests.iter().collect::<BTreeSet<_>>());
    named.dedup();
    assert_eq!(named.len(), tests.len());
}
