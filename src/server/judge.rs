//! The verdict on a change in mode `cache`: from the index, confirmed by quorum reads where it refuses.
//!
//! Watch caches lag. A wrong *yes* is the price of a cache (two writers can always pass each other between admission and
//! commit; docs/design/0004-cache-and-quorum-reads.md). A wrong *no* need not be: before a change is denied, or a class is called missing, what
//! that rests on is read from etcd. A read that fails is answered with 503, never with a verdict.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    live::{Live, LiveReadError},
    recent::Recent,
};
use crate::{
    config::Config,
    fleet::{ClassEntry, ClusterState, Fleet, Overlay},
    model::{Change, Cluster, ClusterClass, ControlPlaneState, ObjectKey, Running},
    planner::Installed,
    review::Judged,
    rules::{ClassCase, ClusterCase, Finding, RULES},
    verdict::{Modes, Verdict},
};

/// In the first seconds a lack is likely to be cured soon: the first lists are on their way.
const SOON: Duration = Duration::from_secs(30);

/// An index whose source was silent for longer than this is not trusted to say yes.
pub const STALE: Duration = Duration::from_mins(1);

/// So often a refused class change is confirmed with other Clusters, if the first ones named have moved on.
const ROUNDS: usize = 3;

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The request alone: it changes nothing that is judged, or the object needs no other.
    Request,
    /// The index.
    Index,
    /// Quorum reads.
    Live,
    /// The manifests that the program was started with.
    Manifests,
}

impl Basis {
    /// Its name in audit annotations, logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Index => "index",
            Self::Live => "live",
            Self::Manifests => "manifests",
        }
    }
}

/// A verdict and what it rests on.
#[derive(Debug)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// What it rests on.
    pub basis: Basis,
    /// How long ago the sources of the index were heard of; `None` if it is not the index that decided.
    pub staleness: Option<Duration>,
}

/// Why there is no verdict.
#[derive(Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// The text for people.
    pub message: String,
    /// Whether a repetition within seconds is likely to be answered.
    pub retry_soon: bool,
}

impl From<LiveReadError> for Unavailable {
    fn from(error: LiveReadError) -> Self {
        Self { message: format!("capi-version-guard cannot confirm its verdict: {error}"), retry_soon: false }
    }
}

/// Judges changes.
pub struct Judge {
    fleet: Arc<Fleet>,
    /// `None` if the fleet was read from manifests: then they are the truth.
    live: Option<Live>,
    modes: Modes,
    runtime_sdk: bool,
    recent: Mutex<Recent>,
    started: Instant,
}

/// What a change of a Cluster is judged by.
struct Known {
    class: KnownClass,
    /// The class before a rebase.
    old_class: Option<ClassEntry>,
    running: Running,
}

/// What a class is, by the index and by the admissions that it does not show yet.
struct KnownClass {
    indexed: Option<ClassEntry>,
    pending: Option<(Option<ClassEntry>, Instant)>,
}

impl Judge {
    /// Judges by `fleet` and, if given, `live`.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>, live: Option<Live>, config: Config) -> Self {
        let Config { modes, runtime_sdk } = config;
        Self { fleet, live, modes, runtime_sdk, recent: Mutex::default(), started: Instant::now() }
    }

    /// The verdict on a Cluster change. `deadline` is when the answer is due.
    ///
    /// # Errors
    /// If the index is not complete, or a read that the answer needs fails.
    pub async fn cluster(
        &self,
        change: &Change<Cluster>,
        dry_run: bool,
        deadline: Instant,
    ) -> Result<Judgement, Unavailable> {
        let Some(case) = ClusterCase::of(change) else { return Ok(Self::undisputed()) };
        let case = ClusterCase { installed: self.installed(), ..case };
        let rebased_from = case.old.as_ref().map(|old| &old.class_key).filter(|old| **old != case.class_key);
        let known = self.known(&case, rebased_from)?;
        let verdict = |class: Option<&ClassEntry>, old_class: Option<&ClassEntry>, running: &Running| {
            let case = ClusterCase { class, old_class, running: running.clone(), ..case.clone() };
            Verdict::new(Cluster::KIND, &change.object().key(), case.findings(), &self.modes)
        };
        let Known { class, old_class, running } = &known;
        let by_index = verdict(class.indexed.as_ref(), old_class.as_ref(), running);
        let by_pending =
            class.pending.as_ref().map(|(class, at)| (verdict(class.as_ref(), old_class.as_ref(), running), *at));
        let fresh = |staleness: Option<Duration>| staleness.is_none_or(|staleness| staleness < STALE);
        let asks_for_workers = running.workers.is_none()
            && ClusterCase { class: class.indexed.as_ref(), ..case.clone() }.turns_on_workers();
        let all_known = running.control_plane != ControlPlaneState::Unknown && running.workers.is_some();
        let told_what_runs =
            !asks_for_workers && (!case.asks_what_runs() || (all_known && fresh(self.fleet.running_staleness())));
        let sure = class.indexed.is_some()
            && told_what_runs
            && by_index.allowed()
            && by_pending.as_ref().is_none_or(|(verdict, _)| verdict.allowed())
            && fresh(self.fleet.classes.staleness());
        let (judgement, running) = match &self.live {
            Some(live) if !sure => {
                let looks =
                    case.update && (case.asks_what_runs() || asks_for_workers || looks_at_what_runs(&by_index.denials));
                let class = live.read::<ClusterClass>(&case.class_key, deadline);
                let old_class = async {
                    match rebased_from {
                        Some(key) => live.read::<ClusterClass>(key, deadline).await,
                        None => Ok(None),
                    }
                };
                let runs =
                    async { if looks { live.running(case.runs_as(), deadline).await.map(Some) } else { Ok(None) } };
                let (class, old_class, runs) = futures::try_join!(class, old_class, runs)?;
                let running = runs.unwrap_or(known.running);
                let entry = |class: Option<ClusterClass>| class.as_ref().map(ClassEntry::from);
                let by_live = verdict(entry(class).as_ref(), entry(old_class).as_ref(), &running);
                let on_its_way =
                    by_pending.is_some_and(|(verdict, at)| !verdict.allowed() && Recent::young(at, Instant::now()));
                if by_live.allowed() && on_its_way {
                    return Err(on_the_way("ClusterClass", &case.class_key));
                }
                (Judgement { verdict: by_live, basis: Basis::Live, staleness: None }, running)
            }
            _ => (self.by_index(by_index), known.running),
        };
        if judgement.verdict.allowed()
            && !dry_run
            && self.live.is_some()
            && let Some(state) = ClusterState::of(case.new, running)
        {
            self.recent.lock().admit_cluster(case.new.key(), state, Instant::now());
        }
        Ok(judgement)
    }

    /// The verdict on a class change. `deadline` is when the answer is due.
    ///
    /// # Errors
    /// If the index is not complete or too old, or a read that the answer needs fails.
    pub async fn class(
        &self,
        change: &Change<ClusterClass>,
        dry_run: bool,
        deadline: Instant,
    ) -> Result<Judgement, Unavailable> {
        let Some(mut case) = ClassCase::of(change) else { return Ok(Self::undisputed()) };
        case.installed = self.installed();
        let key = change.object().key();
        let judgement = if case.needs_users() {
            self.class_with_users(&case, &key, deadline).await?
        } else {
            let verdict = Verdict::new(ClusterClass::KIND, &key, case.findings(), &self.modes);
            Judgement { verdict, basis: Basis::Request, staleness: None }
        };
        if judgement.verdict.allowed() && !dry_run && self.live.is_some() {
            self.recent.lock().admit_class(key, change.new().map(ClassEntry::from), Instant::now());
        }
        Ok(judgement)
    }

    async fn class_with_users(
        &self,
        case: &ClassCase<'_>,
        key: &ObjectKey,
        deadline: Instant,
    ) -> Result<Judgement, Unavailable> {
        self.require(self.fleet.index.read().clusters.synced(), "Clusters")?;
        if self.fleet.clusters.staleness().is_some_and(|staleness| staleness >= STALE) {
            return Err(Unavailable {
                message:
                    "capi-version-guard has not heard of the Clusters for more than 60 s, so it cannot say who uses \
                          this class; see the readiness and logs of its Pods"
                        .to_owned(),
                retry_soon: false,
            });
        }
        let mut newer = {
            let index = self.fleet.index.read();
            self.recent.lock().overlay(key, &index, Instant::now())
        };
        let verdict = |newer: &Overlay| {
            let named = |state: &ClusterState| case.names_users_of(state);
            let users = self.fleet.index.read().users_naming(key, newer, named);
            let findings = case.with_users(users).findings();
            Verdict::new(ClusterClass::KIND, key, findings, &self.modes)
        };
        let mut said = verdict(&newer);
        let Some(live) = &self.live else { return Ok(self.by_index(said)) };
        if said.allowed() || evidence(&said.denials).is_empty() {
            return Ok(self.by_index(said));
        }
        // Clusters that the refusal names are read until one confirms it. What is read replaces what was known.
        let mut read = BTreeSet::new();
        for _ in 0..ROUNDS {
            let looks = looks_at_what_runs(&said.denials);
            let reads = evidence(&said.denials).into_iter().map(async |key| {
                let Some(cluster) = live.read::<Cluster>(&key, deadline).await? else { return Ok((key, None)) };
                let running = if looks {
                    live.running(&cluster, deadline).await?
                } else {
                    self.fleet.index.read().running(&cluster)
                };
                Ok::<_, LiveReadError>((key, ClusterState::of(&cluster, running)))
            });
            for (key, state) in futures::future::try_join_all(reads).await? {
                read.insert(key.clone());
                let differs = |pending: &Option<ClusterState>| match (pending, &state) {
                    (Some(pending), Some(state)) => !pending.says_the_same(state),
                    (pending, state) => pending.is_some() != state.is_some(),
                };
                let on_its_way =
                    newer.0.get(&key).is_some_and(differs) && self.recent.lock().young_cluster(&key, Instant::now());
                if on_its_way {
                    return Err(on_the_way("Cluster", &key));
                }
                newer.0.insert(key, state);
            }
            said = verdict(&newer);
            let confirmed = evidence(&said.denials).iter().any(|key| read.contains(key));
            if said.allowed() || confirmed || evidence(&said.denials).is_empty() {
                return Ok(Judgement { verdict: said, basis: Basis::Live, staleness: None });
            }
        }
        Err(Unavailable {
            message: "capi-version-guard's index of Clusters is behind the API server; try again".to_owned(),
            retry_soon: true,
        })
    }

    fn known(&self, case: &ClusterCase<'_>, rebased_from: Option<&ObjectKey>) -> Result<Known, Unavailable> {
        let index = self.fleet.index.read();
        self.require(index.classes.synced(), "ClusterClasses")?;
        let class = |key: &ObjectKey| index.classes.objects().get(key).cloned();
        Ok(Known {
            class: KnownClass {
                indexed: class(&case.class_key),
                pending: self.recent.lock().class(&case.class_key, &index, Instant::now()),
            },
            old_class: rebased_from.and_then(class),
            running: index.running(case.runs_as()),
        })
    }

    /// What is installed, and what the configuration says of it.
    fn installed(&self) -> Installed {
        Installed { runtime_sdk: self.runtime_sdk, ..self.fleet.installed() }
    }

    fn require(&self, synced: bool, kind: &str) -> Result<(), Unavailable> {
        if synced {
            return Ok(());
        }
        Err(Unavailable {
            message: format!("capi-version-guard has not listed the {kind} yet; try again in a few seconds"),
            retry_soon: self.started.elapsed() < SOON,
        })
    }

    fn undisputed() -> Judgement {
        Judgement { verdict: Verdict::default(), basis: Basis::Request, staleness: None }
    }

    fn by_index(&self, verdict: Verdict) -> Judgement {
        if self.live.is_none() {
            return Judgement { verdict, basis: Basis::Manifests, staleness: None };
        }
        let staleness = self.fleet.clusters.staleness().max(self.fleet.classes.staleness());
        Judgement { verdict, basis: Basis::Index, staleness }
    }
}

/// The Clusters that denials rest on, each once.
fn evidence(denials: &[Finding]) -> BTreeSet<ObjectKey> {
    denials.iter().flat_map(|finding| finding.evidence.iter().cloned()).collect()
}

/// Whether a rule that denies has looked at what runs.
fn looks_at_what_runs(denials: &[Finding]) -> bool {
    let looks = |name: &str| RULES.iter().any(|rule| rule.name == name && rule.looks_at_what_runs);
    denials.iter().any(|finding| looks(finding.rule))
}

fn on_the_way(kind: &str, key: &ObjectKey) -> Unavailable {
    Unavailable {
        message: format!("a change of {kind} {key} was admitted a moment ago and is not stored yet; try again"),
        retry_soon: true,
    }
}
