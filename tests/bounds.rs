//! What holds of every change, however hostile: bounded texts of one line, and the laws of the ratchet.

use capi_version_guard::{
    fleet::{ClassEntry, Users, VersionInUse},
    model::{Change, Cluster, ClusterClass, ObjectKey, Running},
    rules::{ClassCase, ClusterCase, Finding},
    verdict::{LONGEST_MESSAGE, LONGEST_WARNING, MOST_WARNINGS, Modes, Verdict},
};
use proptest::prelude::*;
use serde_json::json;

/// Texts that could break a line, a terminal or a bound.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        "v1\\.3[0-3]\\.[0-2](-rc\\.[0-2])?(\\+[ab][12]?)?",
        "\\PC{0,40}",
        any::<String>(),
        Just("v1.30.0\n\u{1b}[31mred\u{202e}".to_owned()),
        Just("v".to_owned() + &"9".repeat(10_000)),
        Just("\u{1F600}".repeat(300)),
    ]
}

fn cluster(name: &str, class: &str, version: &str) -> Cluster {
    let topology = json!({"classRef": {"name": class}, "version": version});
    serde_json::from_value(json!({"metadata": {"namespace": "a", "name": name}, "spec": {"topology": topology}}))
        .unwrap()
}

fn class(versions: &[String]) -> ClusterClass {
    let object = json!({"metadata": {"namespace": "a", "name": "q"}, "spec": {"kubernetesVersions": versions}});
    serde_json::from_value(object).unwrap()
}

fn users(used: &[(String, usize)]) -> Users {
    let row = |(version, clusters): &(String, usize)| VersionInUse {
        version: version.as_str().into(),
        deleting: false,
        running: Running::default(),
        clusters: *clusters,
        sample: (0..(*clusters).min(5))
            .map(|n| ObjectKey::new("n".repeat(63), format!("{n}{}", "x".repeat(252))))
            .collect(),
    };
    Users { versions: used.iter().map(row).collect() }
}

/// Holds the bounds, for every rule denying and for every rule warning.
fn bounded(kind: &str, name: &str, findings: &[Finding]) -> Result<(), TestCaseError> {
    let key = ObjectKey::new("a", name);
    let mut warning = Modes::default();
    for (rule, _) in Modes::default().iter() {
        assert!(warning.set(rule.name, capi_version_guard::rules::Mode::Warn));
    }
    for modes in [Modes::default(), warning] {
        let verdict = Verdict::new(kind, &key, findings.to_vec(), &modes);
        let one_line = |text: &str| {
            !text.chars().any(|c| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}'))
        };
        let message = verdict.message();
        prop_assert!(message.len() <= LONGEST_MESSAGE && one_line(&message), "{message:?}");
        prop_assert_eq!(message.is_empty(), verdict.allowed());
        let warnings = verdict.warning_texts();
        prop_assert!(warnings.len() <= MOST_WARNINGS);
        prop_assert!(
            warnings.iter().all(|text| text.chars().count() <= LONGEST_WARNING && one_line(text)),
            "{warnings:?}"
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn texts_of_a_cluster_are_bounded(
        name in hostile(), old in hostile(), new in hostile(), classes in (hostile(), hostile()),
        list in prop::option::of(prop::collection::vec(hostile(), 0..8)), create in any::<bool>(),
    ) {
        let new = cluster(&name, &classes.1, &new);
        let change = if create { Change::Create(new) } else { Change::Update { old: cluster(&name, &classes.0, &old), new } };
        if let Some(case) = ClusterCase::of(&change) {
            let class = list.map(|list| ClassEntry { versions: list.iter().map(|entry| entry.as_str().into()).collect(), extension: None });
            bounded("Cluster", &name, &ClusterCase { class: class.as_ref(), ..case }.findings())?;
        }
    }

    #[test]
    fn texts_of_a_class_are_bounded(
        old in prop::option::of(prop::collection::vec(hostile(), 0..100)), new in prop::collection::vec(hostile(), 0..100),
        used in prop::collection::vec((hostile(), 1_usize..20_000), 0..40),
    ) {
        let change = match old {
            Some(old) => Change::Update { old: class(&old), new: class(&new) },
            None => Change::Create(class(&new)),
        };
        if let Some(case) = ClassCase::of(&change) {
            bounded("ClusterClass", "q", &case.with_users(users(&used)).findings())?;
        }
        let delete = Change::Delete(class(&new));
        let case = ClassCase::of(&delete).expect("a deletion is judged");
        bounded("ClusterClass", "q", &case.with_users(users(&used)).findings())?;
    }

    #[test]
    fn what_keeps_version_and_class_is_not_judged(name in hostile(), version in hostile(), of in hostile()) {
        let one = || cluster(&name, &of, &version);
        let change = Change::Update { old: one(), new: one() };
        prop_assert!(ClusterCase::of(&change).is_none());
        prop_assert!(ClusterCase::of(&Change::Delete(one())).is_none());
    }

    #[test]
    fn a_deleting_cluster_is_not_judged(version in hostile(), of in hostile()) {
        let deleting = json!({"metadata": {"namespace": "a", "name": "c", "deletionTimestamp": "2026-12-01T00:00:00Z"},
                              "spec": {"topology": {"classRef": {"name": of}, "version": version}}});
        let new = serde_json::from_value(deleting).unwrap();
        let change = Change::Update { old: cluster("c", "q", "v1.30.0"), new };
        prop_assert!(ClusterCase::of(&change).is_none());
    }

    #[test]
    fn what_keeps_the_list_is_not_judged(list in prop::collection::vec(hostile(), 0..20)) {
        let change = Change::Update { old: class(&list), new: class(&list) };
        prop_assert!(ClassCase::of(&change).is_none());
    }

    /// Whatever stands in a list: its end may be cut off if nobody uses what goes.
    #[test]
    fn entries_that_nobody_uses_may_leave_the_end_of_any_list(list in prop::collection::vec(hostile(), 1..20), keep in 0_usize..20) {
        let kept = &list[..keep.min(list.len() - 1)];
        let change = Change::Update { old: class(&list), new: class(kept) };
        if let Some(case) = ClassCase::of(&change) {
            let denials: Vec<_> = case.findings().into_iter().filter(|finding| finding.introduced).collect();
            prop_assert_eq!(denials, vec![]);
        }
    }

    /// Whatever stands in a list: what an entry added at its end brings in is about that entry alone.
    #[test]
    fn an_entry_at_the_end_is_denied_for_itself_alone(list in prop::collection::vec(hostile(), 0..20), entry in hostile()) {
        let mut more = list.clone();
        more.push(entry);
        let change = Change::Update { old: class(&list), new: class(&more) };
        let Some(case) = ClassCase::of(&change) else { return Ok(()) };
        for finding in case.findings().into_iter().filter(|finding| finding.introduced) {
            prop_assert_eq!(finding.field, format!("spec.kubernetesVersions[{}]", list.len()));
        }
    }

    /// Clusters outside of the old list never deny a change of it.
    #[test]
    fn clusters_that_the_old_list_did_not_cover_deny_nothing(
        old in prop::collection::vec("v1\\.3[0-3]\\.[0-2]", 1..6), new in prop::collection::vec("v1\\.3[0-3]\\.[0-2]", 1..6),
        used in prop::collection::vec(("v1\\.3[0-3]\\.[0-2]", 1_usize..9), 0..6),
    ) {
        let outside: Vec<_> = used.into_iter().filter(|(version, _)| !old.contains(version)).collect();
        let change = Change::Update { old: class(&old), new: class(&new) };
        let Some(case) = ClassCase::of(&change) else { return Ok(()) };
        let findings = case.with_users(users(&outside)).findings();
        prop_assert!(!findings.iter().any(|finding| finding.rule == "list-covers-clusters" && finding.introduced));
    }
}
