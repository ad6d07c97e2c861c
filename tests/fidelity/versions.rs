//! `version` against the two parsers and the three comparisons of Cluster API.

use std::cmp::Ordering;

use capi_version_guard::version::KubernetesVersion;

use crate::{
    ask::answers,
    plans::{Answer, Question},
    random::{Random, version},
    setting,
};

#[test]
fn versions_parse_and_compare_as_in_cluster_api() {
    let mut random = Random(setting("FIDELITY_SEED", 1));
    let mut questions = Vec::new();
    for _ in 0..20_000 {
        let one = |random: &mut Random| {
            let minor = 30 + random.below(2);
            version(random, minor, 2)
        };
        let (a, b) = (one(&mut random), one(&mut random));
        questions.push(Question { op: "strict", a: a.clone(), ..Question::default() });
        questions.push(Question { op: "lenient", a: a.clone(), ..Question::default() });
        questions.push(Question { op: "compare", a, b, ..Question::default() });
    }
    let number = |order: Option<Ordering>| order.map_or(2, |order| order as i8);
    let replies: Vec<Answer> = answers("v1.14.2", "planner", &questions);
    for (question, answer) in questions.iter().zip(replies) {
        let canonical = |parsed: Result<KubernetesVersion, _>| parsed.map_or_else(|_| String::new(), |v| v.to_string());
        match question.op {
            "strict" => {
                assert_eq!(canonical(KubernetesVersion::parse_strict(&question.a)), answer.canonical, "{question:?}")
            }
            "lenient" => {
                assert_eq!(canonical(KubernetesVersion::parse_lenient(&question.a)), answer.canonical, "{question:?}");
            }
            _ => {
                let parse = KubernetesVersion::parse_lenient;
                let compared = match (parse(&question.a), parse(&question.b)) {
                    (Ok(a), Ok(b)) => [
                        number(Some(a.cmp_precedence(&b))),
                        number(a.cmp_with_build(&b)),
                        number(Some(a.cmp_release(&b))),
                    ],
                    _ => [0; 3],
                };
                assert_eq!(compared, answer.compare, "{question:?}");
            }
        }
    }
}
