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
    fleet::{ClassEntry, ClusterState, Fleet, Overlay},
    model::{Change, Cluster, ClusterClass, ObjectKey, Running},
    review::Judged,
    rules::{ClassCase, ClusterCase, Finding},
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
    recent: Mutex<Recent>,
    started: Instant,
}

/// What a class is, by the index and by the admissions that it does not show yet.
struct KnownClass {
    indexed: Option<ClassEntry>,
    pending: Option<(Option<ClassEntry>, Instant)>,
}

impl Judge {
    /// Judges by `fleet` and, if given, `live`.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>, live: Option<Live>, modes: Modes) -> Self {
        Self { fleet, live, modes, recent: Mutex::default(), started: Instant::now() }
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
        let known = self.known_class(&case.class_key)?;
        let verdict = |class: Option<&ClassEntry>| {
            let case = ClusterCase { class, ..case.clone() };
            Verdict::new(Cluster::KIND, &change.object().key(), case.findings(), &self.modes)
        };
        let by_index = verdict(known.indexed.as_ref());
        let by_pending = known.pending.as_ref().map(|(class, at)| (verdict(class.as_ref()), *at));
        let sure = known.indexed.is_some()
            && by_index.allowed()
            && by_pending.as_ref().is_none_or(|(verdict, _)| verdict.allowed())
            && self.fleet.classes.staleness().is_none_or(|staleness| staleness < STALE);
        let judgement = match &self.live {
            Some(live) if !sure => {
                let class: Option<ClusterClass> = live.read(&case.class_key, deadline).await?;
                let by_live = verdict(class.as_ref().map(ClassEntry::from).as_ref());
                let on_its_way =
                    by_pending.is_some_and(|(verdict, at)| !verdict.allowed() && Recent::young(at, Instant::now()));
                if by_live.allowed() && on_its_way {
                    return Err(on_the_way("ClusterClass", &case.class_key));
                }
                Judgement { verdict: by_live, basis: Basis::Live, staleness: None }
            }
            _ => self.by_index(by_index),
        };
        if judgement.verdict.allowed()
            && !dry_run
            && self.live.is_some()
            && let Some(state) = ClusterState::of(case.new, Running::default())
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
        let Some(case) = ClassCase::of(change) else { return Ok(Self::undisputed()) };
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
            let users = self.fleet.index.read().clusters.objects().users_naming(key, newer, named);
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
            let reads = evidence(&said.denials).into_iter().map(async |key| {
                let cluster: Option<Cluster> = live.read(&key, deadline).await?;
                Ok::<_, LiveReadError>((
                    key,
                    cluster.and_then(|cluster| ClusterState::of(&cluster, Running::default())),
                ))
            });
            for (key, state) in futures::future::try_join_all(reads).await? {
                read.insert(key.clone());
                let on_its_way = newer.0.get(&key).is_some_and(|pending| *pending != state)
                    && self.recent.lock().young_cluster(&key, Instant::now());
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

    fn known_class(&self, key: &ObjectKey) -> Result<KnownClass, Unavailable> {
        let index = self.fleet.index.read();
        self.require(index.classes.synced(), "ClusterClasses")?;
        Ok(KnownClass {
            indexed: index.classes.objects().get(key).cloned(),
            pending: self.recent.lock().class(key, &index, Instant::now()),
        })
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

fn on_the_way(kind: &str, key: &ObjectKey) -> Unavailable {
    Unavailable {
        message: format!("a change of {kind} {key} was admitted a moment ago and is not stored yet; try again"),
        retry_soon: true,
    }
}
