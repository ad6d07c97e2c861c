//! What a sequence shows of the promise: whether an admitted write trapped a Cluster, and whether a denied one was feasible.

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use anyhow::Result;
use capi_version_guard::version::KubernetesVersion;
use serde::{Deserialize, Serialize};

use crate::{
    run::{Denial, Rest, Run, Written, replay},
    sequence::{Annotation, Sequence, Step},
    system::System,
    verdicts::Verdicts,
};

/// What one sequence showed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Report {
    pub writes: u32,
    /// Writes to what was not there, or was there already.
    pub missed: u32,
    pub admitted: u32,
    /// Refused by Cluster API, and not by us.
    pub refused_by_cluster_api: u32,
    pub denied: BTreeMap<String, Denied>,
    pub version_changes: u32,
    pub version_changes_admitted: u32,
    pub more_than_one_hop_admitted: u32,
    /// Admitted writes behind which a Cluster is stuck for ever.
    pub traps: Vec<Fault>,
    /// The same, but a warning of ours named it.
    pub warned_traps: u32,
    /// The same, but a user told Cluster API to skip its checks, or a Cluster was admitted before its class with a warning.
    pub excused_traps: u32,
    /// What a provider or a hand behind the topology did trapped it.
    pub not_by_writes: u32,
    /// Denied writes that Cluster API takes and carries out.
    pub false_denials: Vec<Fault>,
    pub seconds: f32,
}

/// What became of the denials of a rule.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Denied {
    /// Cluster API refuses it too.
    pub refused_too: u32,
    /// Cluster API takes it, and a Cluster is stuck.
    pub trapped: u32,
    /// A rule of the class's owner on a class that is created: Cluster API would take it.
    pub own_rule: u32,
    /// Not tried, since the state in which it was denied cannot be made again.
    pub not_tried: u32,
    pub feasible: u32,
}

/// A broken promise.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Fault {
    /// What was admitted before, and the write itself.
    pub sequence: Sequence,
    /// What the manager says, or which rule denied it.
    pub why: String,
}

/// Carries a sequence out and judges it.
pub async fn judge(system: &System, verdicts: &Verdicts, name: &str, sequence: &Sequence) -> Result<Report> {
    let start = Instant::now();
    let mut report = Report::default();
    let mut run = Run::begin(system, verdicts, name, true).await?;
    let mut done: Vec<(Step, Written)> = Vec::new();
    // Behind how many of the steps that were done a Cluster was seen stuck, and ever since.
    let mut stuck_since: HashMap<String, usize> = HashMap::new();
    for (at, step) in sequence.steps.iter().enumerate() {
        let change = version_change(&run, step).await?;
        let written = run.step(step).await?;
        tracing::debug!("{name}: {step:?}: {written:?}");
        report.writes += u32::from(step.is_write());
        if let Some(hops) = change.filter(|_| written.answer != Denial::Missed) {
            report.version_changes += 1;
            if written.answer == Denial::Done {
                report.version_changes_admitted += 1;
                report.more_than_one_hop_admitted += u32::from(hops > 1);
            }
        }
        match &written.answer {
            Denial::Missed => report.missed += 1,
            Denial::Done => {
                report.admitted += u32::from(step.is_write());
                done.push((step.clone(), written));
            }
            Denial::Refused(_) if written.ours.is_empty() => report.refused_by_cluster_api += 1,
            Denial::Refused(message) => {
                let mut tried = sequence.clone();
                tried.steps = done.iter().map(|(step, _)| step.clone()).chain([step.clone()]).collect();
                let kind = denied(&run, step, &tried, &format!("{name}-d{at}")).await?;
                for rule in &written.ours {
                    let of = report.denied.entry(rule.clone()).or_default();
                    match kind {
                        Kind::RefusedToo => of.refused_too += 1,
                        Kind::Trapped => of.trapped += 1,
                        Kind::OwnRule => of.own_rule += 1,
                        Kind::NotTried => of.not_tried += 1,
                        Kind::Feasible => of.feasible += 1,
                    }
                }
                if matches!(kind, Kind::Feasible) {
                    report.false_denials.push(Fault { sequence: tried, why: message.clone() });
                }
            }
        }
        if sequence.quiet {
            let rests = run.rest().await?;
            tracing::debug!("{name}: {rests:?}");
            for (cluster, rest) in rests {
                if matches!(rest, Rest::Stuck(_)) {
                    stuck_since.entry(cluster).or_insert(done.len());
                } else {
                    stuck_since.remove(&cluster);
                }
            }
        }
    }
    let rests = run.finish().await?;
    run.end().await?;
    for (cluster, rest) in rests {
        if let Rest::Stuck(why) = rest {
            let seen = stuck_since.get(&cluster).copied().unwrap_or(done.len());
            trapped(&run, &mut report, &done, seen, sequence.quiet, &cluster, &why).await?;
        }
    }
    report.seconds = start.elapsed().as_secs_f32();
    Ok(report)
}

enum Kind {
    RefusedToo,
    Trapped,
    OwnRule,
    NotTried,
    Feasible,
}

/// Whether a denied write could have been carried out.
async fn denied(run: &Run<'_>, step: &Step, tried: &Sequence, twin: &str) -> Result<Kind> {
    match run.would_be_taken(step).await? {
        Denial::Refused(_) => return Ok(Kind::RefusedToo),
        Denial::Missed => return Ok(Kind::NotTried),
        Denial::Done => {}
    }
    if matches!(step, Step::CreateClass { .. }) {
        return Ok(Kind::OwnRule);
    }
    if !tried.quiet {
        return Ok(Kind::NotTried);
    }
    let mut tried = tried.clone();
    match probe(step, &tried) {
        Some(probe) => tried.steps.extend(probe),
        None => return Ok(Kind::NotTried),
    }
    let with = replay(run.system, run.verdicts, twin, false, &tried).await?;
    let feasible = match step.cluster() {
        Some(cluster) => with.iter().all(|(name, rest)| name != cluster || rest.is_fine()),
        // A class is changed for all its Clusters: it does harm if one of them fares worse than without it.
        None => {
            let mut without = tried.clone();
            match step {
                // Whatever stood there before: no extension at all.
                Step::SetExtension { class, .. } => {
                    let none = Step::SetExtension { class: class.clone(), extension: None };
                    without.steps.iter_mut().filter(|other| *other == step).for_each(|other| *other = none.clone());
                }
                _ => without.steps.retain(|other| other != step),
            }
            let without = replay(run.system, run.verdicts, &format!("{twin}-without"), false, &without).await?;
            let was_fine = |cluster: &str| without.iter().any(|(name, rest)| name == cluster && rest.is_fine());
            !with.iter().any(|(name, rest)| !rest.is_fine() && was_fine(name))
        }
    };
    Ok(if feasible { Kind::Feasible } else { Kind::Trapped })
}

/// How a new Cluster fares in a class whose extension was changed: those at their target need no plan any more. None if the class
/// has no way to go.
fn probe(step: &Step, tried: &Sequence) -> Option<Vec<Step>> {
    let Step::SetExtension { class, extension: Some(_) } = step else { return Some(Vec::new()) };
    let list = tried.steps.iter().rev().find_map(|step| match step {
        Step::SetList { class: of, versions } | Step::CreateClass { class: of, versions, .. } if of == class => {
            Some(versions.clone().unwrap_or_default())
        }
        _ => None,
    });
    let (first, second) = match list.as_deref() {
        Some([first, second, ..]) => (first.clone(), second.clone()),
        // Without a list any version goes.
        None | Some([]) => ("v1.31.0".to_owned(), "v1.32.0".to_owned()),
        Some([_]) => return None,
    };
    let cluster = "probe".to_owned();
    Some(vec![
        Step::CreateCluster {
            cluster: cluster.clone(),
            class: class.clone(),
            version: first,
            workers: false,
            restored: false,
        },
        Step::Upgrade { cluster, version: second },
    ])
}

/// Finds out what trapped a Cluster, and counts it. It was seen stuck behind the first `seen` steps, or at the end.
async fn trapped(
    run: &Run<'_>,
    report: &mut Report,
    done: &[(Step, Written)],
    seen: usize,
    quiet: bool,
    cluster: &str,
    why: &str,
) -> Result<()> {
    let name = run.namespaces.own();
    let of_cluster = |step: &Step| step.cluster() == Some(cluster);
    let skipped = done.iter().any(|(step, _)| {
        of_cluster(step) && matches!(step, Step::Annotate { annotation: Annotation::SkipVersionCheck, set: true, .. })
    });
    let early = done.iter().any(|(step, written)| of_cluster(step) && written.warned.contains("class-exists"));
    if skipped || early {
        report.excused_traps += 1;
        return Ok(());
    }
    let steps: Vec<_> = done.iter().map(|(step, _)| step.clone()).collect();
    // The last step behind which it is stuck and before which it was not.
    let mut culprit = seen;
    while culprit > 0 {
        let before = Sequence { quiet, steps: steps[..culprit - 1].to_vec() };
        let rests = replay(run.system, run.verdicts, &format!("{name}-{cluster}{culprit}"), false, &before).await?;
        // A Cluster that is not there yet is not stuck.
        if !rests.iter().any(|(of, rest)| of == cluster && !rest.is_fine()) {
            break;
        }
        culprit -= 1;
    }
    let Some((step, written)) = culprit.checked_sub(1).map(|at| &done[at]) else {
        // It is stuck with nothing done: the harness is at fault.
        anyhow::bail!("{cluster} is stuck without any write: {why}");
    };
    if !step.is_write() {
        report.not_by_writes += 1;
    } else if !written.warned.is_empty() {
        report.warned_traps += 1;
    } else {
        let sequence = Sequence { quiet, steps: steps[..culprit].to_vec() };
        report.traps.push(Fault { sequence, why: why.to_owned() });
    }
    Ok(())
}

/// By how many minors a step raises a Cluster's version; none if it does not change it.
async fn version_change(run: &Run<'_>, step: &Step) -> Result<Option<u64>> {
    let (Step::Upgrade { cluster, version } | Step::Rebase { cluster, version: Some(version), .. }) = step else {
        return Ok(None);
    };
    let path = crate::system::api::cluster_path(run.namespaces.own(), cluster);
    let Some(object) = run.system.api.get(&path).await? else { return Ok(None) };
    let now = object.pointer("/spec/topology/version").and_then(serde_json::Value::as_str).unwrap_or_default();
    let minor = |text: &str| KubernetesVersion::parse_lenient(text).map(|version| version.minor()).unwrap_or_default();
    Ok((now != version).then(|| minor(version).saturating_sub(minor(now))))
}
