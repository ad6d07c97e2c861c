//! `version`: tables of upstream's results, and the laws of the comparisons.

use std::cmp::Ordering;

use capi_version_guard::version::KubernetesVersion;
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Single {
    text: String,
    strict: bool,
    lenient: Option<String>,
}

#[derive(Deserialize)]
struct Pair {
    a: String,
    b: String,
    precedence: String,
    with_build: String,
    release: String,
    same_text: bool,
}

fn rows<T: for<'de> Deserialize<'de>>(file: &str) -> Vec<T> {
    let path = format!("{}/tests/cases/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<T> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() > 20, "{file} lost rows");
    rows
}

fn word(order: Option<Ordering>) -> &'static str {
    match order {
        Some(Ordering::Less) => "less",
        Some(Ordering::Equal) => "equal",
        Some(Ordering::Greater) => "greater",
        None => "unordered",
    }
}

#[test]
fn both_parsers_accept_what_upstream_accepts() {
    for row in rows::<Single>("versions.jsonl") {
        let strict = KubernetesVersion::parse_strict(&row.text);
        assert_eq!(strict.is_ok(), row.strict, "strict {:?}: {strict:?}", row.text);
        let lenient = KubernetesVersion::parse_lenient(&row.text).ok().map(|version| version.to_string());
        assert_eq!(lenient, row.lenient, "lenient {:?}", row.text);
    }
}

#[test]
fn comparisons_equal_upstream() {
    for row in rows::<Pair>("version-pairs.jsonl") {
        let a = KubernetesVersion::parse_lenient(&row.a).unwrap();
        let b = KubernetesVersion::parse_lenient(&row.b).unwrap();
        let at = format!("{} / {}", row.a, row.b);
        assert_eq!(word(Some(a.cmp_precedence(&b))), row.precedence, "precedence {at}");
        assert_eq!(word(a.cmp_with_build(&b)), row.with_build, "with build {at}");
        assert_eq!(word(Some(a.cmp_release(&b))), row.release, "release {at}");
        assert_eq!(a.same_text(&b), row.same_text, "canonical text {at}");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let strict = |text: &str| KubernetesVersion::parse_strict(text).unwrap_err().to_string();
    let lenient = |text: &str| KubernetesVersion::parse_lenient(text).unwrap_err().to_string();
    assert_eq!(strict("1.30.0"), "it does not begin with \"v\"");
    assert_eq!(strict("v1.30"), "unexpected end of input while parsing minor version number");
    assert_eq!(strict("v1.30.x"), "unexpected character 'x' while parsing patch version number");
    assert_eq!(strict("v1.30.0-rc.01"), "invalid leading zero in pre-release identifier");
    assert_eq!(strict("v1.30.0-18446744073709551616"), "a number of the pre-release is larger than 64 bits hold");
    assert_eq!(lenient("v1.30-rc"), "a version without a patch number has no pre-release or build tag");
}

/// Versions that collide often: few numbers, few tags.
fn version() -> impl Strategy<Value = String> {
    let part = prop_oneof![Just("a"), Just("b"), Just("0"), Just("1"), Just("01"), Just("10"), Just("1-x")];
    let tag = prop::collection::vec(part, 1..3).prop_map(|parts| parts.join("."));
    let pre = prop::option::of(prop_oneof![Just("rc.1"), Just("rc.2"), Just("alpha"), Just("1")]);
    (0u8..2, 0u8..2, pre, prop::option::of(tag)).prop_map(|(minor, patch, pre, tag)| {
        let pre = pre.map_or(String::new(), |pre| format!("-{pre}"));
        let tag = tag.map_or(String::new(), |tag| format!("+{tag}"));
        format!("v1.{minor}.{patch}{pre}{tag}")
    })
}

fn parse(text: &str) -> KubernetesVersion {
    KubernetesVersion::parse_strict(text).unwrap()
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic_and_strict_is_a_part_of_lenient(text in any::<String>()) {
        if KubernetesVersion::parse_strict(&text).is_ok() {
            prop_assert!(KubernetesVersion::parse_lenient(&text).is_ok());
        }
    }

    #[test]
    fn the_strict_parser_gives_back_its_text(text in version()) {
        prop_assert_eq!(parse(&text).to_string(), text);
    }

    #[test]
    fn every_comparison_is_antisymmetric(a in version(), b in version()) {
        let (a, b) = (parse(&a), parse(&b));
        prop_assert_eq!(a.cmp_precedence(&b), b.cmp_precedence(&a).reverse());
        prop_assert_eq!(a.cmp_release(&b), b.cmp_release(&a).reverse());
        prop_assert_eq!(a.cmp_with_build(&b), b.cmp_with_build(&a).map(Ordering::reverse));
    }

    #[test]
    fn a_version_is_equal_to_itself(a in version()) {
        prop_assert_eq!(parse(&a).cmp_with_build(&parse(&a)), Some(Ordering::Equal));
    }

    #[test]
    fn precedence_is_transitive(a in version(), b in version(), c in version()) {
        let (a, b, c) = (parse(&a), parse(&b), parse(&c));
        if a.cmp_precedence(&b).is_le() && b.cmp_precedence(&c).is_le() {
            prop_assert!(a.cmp_precedence(&c).is_le());
        }
    }

    #[test]
    fn build_tags_refine_precedence(a in version(), b in version()) {
        let (a, b) = (parse(&a), parse(&b));
        match a.cmp_precedence(&b) {
            Ordering::Equal => {}
            unequal => prop_assert_eq!(a.cmp_with_build(&b), Some(unequal)),
        }
    }
}

/// The law that does not hold, and that forbids sorting: "not greater" leads in a circle through unordered tags.
#[test]
fn the_order_with_build_tags_is_not_transitive() {
    let (low, other, high) = (parse("v1.30.0+a.1"), parse("v1.30.0+b"), parse("v1.30.0+a.2"));
    assert_eq!(low.cmp_with_build(&high), Some(Ordering::Less));
    assert_eq!(low.cmp_with_build(&other), None);
    assert_eq!(other.cmp_with_build(&high), None);
}

#[test]
fn a_pre_release_is_what_has_a_part_behind_the_hyphen() {
    let cases = [
        ("v1.31.0", false),
        ("v1.31.0-rc.1", true),
        ("v1.34.1-k0s.0", true),
        ("v1.34.1+k0s.0", false),
        ("v1.31.0+a-b", false),
        ("v1.31.0--", true),
    ];
    for (text, is) in cases {
        assert_eq!(parse(text).is_pre_release(), is, "{text}");
    }
}
