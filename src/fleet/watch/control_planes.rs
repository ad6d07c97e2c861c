//! Control planes: each kind is followed while Clusters refer to it.
//!
//! Nobody knows beforehand which kinds there will be, and what a Cluster refers to is what its author wrote. So a kind is
//! followed only if its definition carries Cluster API's contract ([`super::contract`]), only as many as the limit allows
//! have a stream, and of the others only so many are looked for ([`LOOKED_FOR`]), each once in some minutes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use kube::{Client, api::ApiResource};
use parking_lot::RwLock;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot},
    task::JoinSet,
    time::Instant,
};

use super::{
    Connect, Freshness,
    contract::{self, Unreadable, Unresolved, kind_name},
    follow::{Followed, LONGEST_FORBIDDEN, PAUSE_BEFORE_RELIST, Pauses, Refusal},
};
use crate::{
    fleet::{Event, Fleet, Index},
    model::{ControlPlane, ControlPlaneKind},
    text::{chain, clusters},
};

/// How many kinds are followed if nothing else is said. A management cluster has one to three.
pub const MAX_KINDS: usize = 10;

/// How many kinds are looked for at all. A Cluster's author can name any number of them.
const LOOKED_FOR: usize = 100;

/// How often it is looked which kinds Clusters refer to.
const LOOK: Duration = Duration::from_secs(1);

/// How long a kind is still followed that no Cluster refers to any more. A Cluster that is created anew finds it known.
const FORGET_AFTER: Duration = Duration::from_mins(10);

/// The longest pause before a kind that cannot be read is looked for again.
const LONGEST_UNREADABLE: Duration = LONGEST_FORBIDDEN;

/// What is known of each kind of control planes that Clusters refer to.
#[derive(Debug, Default)]
pub struct ControlPlaneKinds(RwLock<BTreeMap<ControlPlaneKind, KindState>>);

/// How it stands with one kind.
#[derive(Clone, Debug)]
pub enum KindState {
    /// It is looked for.
    Met,
    /// It is followed; so fresh it is.
    Followed(Arc<Freshness>),
    /// It cannot be read.
    Unreadable(Unreadable),
}

impl ControlPlaneKinds {
    /// All kinds and how it stands with them, in the order of their groups and names.
    #[must_use]
    pub fn all(&self) -> Vec<(ControlPlaneKind, KindState)> {
        self.0.read().iter().map(|(kind, state)| (kind.clone(), state.clone())).collect()
    }

    /// Notes the kinds that Clusters refer to, so that a replica that says it has listed the Clusters says as well what it is
    /// still looking for.
    pub(super) fn meet(&self, index: &Index) {
        let used = index.control_plane_kinds();
        if used.len() <= LOOKED_FOR {
            let mut all = self.0.write();
            for kind in used.into_keys() {
                all.entry(kind).or_insert(KindState::Met);
            }
        }
    }

    fn retain(&self, keep: impl Fn(&ControlPlaneKind) -> bool) {
        self.0.write().retain(|kind, _| keep(kind));
    }

    pub(crate) fn set(&self, kind: &ControlPlaneKind, state: KindState) {
        self.0.write().insert(kind.clone(), state);
    }

    fn remove(&self, kind: &ControlPlaneKind) {
        self.0.write().remove(kind);
    }
}

/// A kind that is looked for or followed.
struct Follower {
    /// Ends it when it is dropped.
    _stop: oneshot::Sender<()>,
    /// Since when no Cluster refers to the kind.
    unused_since: Option<Instant>,
}

/// Follows the kinds that Clusters refer to, at most `max` at once, for ever.
///
/// `listed` tells of a complete list of Clusters, so that their kinds are not met a second later than they are known.
pub(super) async fn follow_all(
    connect: Arc<impl Connect>,
    definitions: Client,
    fleet: Arc<Fleet>,
    listed: Arc<Notify>,
    max: usize,
) {
    let slots = Arc::new(Semaphore::new(max));
    let mut followers: HashMap<ControlPlaneKind, Follower> = HashMap::new();
    let mut tasks = JoinSet::new();
    let mut told_of_more = false;
    loop {
        let used = fleet.index.read().control_plane_kinds();
        let now = Instant::now();
        followers.retain(|kind, follower| {
            let since = follower.unused_since.take().filter(|_| !used.contains_key(kind));
            let since = since.or_else(|| (!used.contains_key(kind)).then_some(now));
            follower.unused_since = since;
            since.is_none_or(|since| now.duration_since(since) < FORGET_AFTER)
        });
        fleet.control_planes.retain(|kind| followers.contains_key(kind) || used.contains_key(kind));
        let mut met: Vec<_> = used.iter().filter(|(kind, _)| !followers.contains_key(kind)).collect();
        // Those that most Clusters have come first.
        met.sort_by_key(|(_, clusters)| std::cmp::Reverse(**clusters));
        let room = LOOKED_FOR.saturating_sub(followers.len());
        if met.len() > room && !told_of_more {
            told_of_more = true;
            tracing::warn!(
                "Clusters refer to more than {LOOKED_FOR} kinds of control planes; the others are not looked for"
            );
        }
        for (kind, _) in met.into_iter().take(room) {
            let (stop, stopped) = oneshot::channel();
            followers.insert(kind.clone(), Follower { _stop: stop, unused_since: None });
            let follower = KindFollower {
                kind: kind.clone(),
                connect: Arc::clone(&connect),
                definitions: definitions.clone(),
                fleet: Arc::clone(&fleet),
                slots: Arc::clone(&slots),
                max,
                told: None,
                pauses: Pauses::default(),
            };
            tasks.spawn(follower.run(stopped));
        }
        while let Some(ended) = tasks.try_join_next() {
            if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
                std::panic::resume_unwind(panic);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = listed.notified() => {}
        }
    }
}

/// Looks for one kind and follows it.
struct KindFollower<C> {
    kind: ControlPlaneKind,
    connect: Arc<C>,
    definitions: Client,
    fleet: Arc<Fleet>,
    slots: Arc<Semaphore>,
    max: usize,
    /// What the log says of it already.
    told: Option<Unreadable>,
    pauses: Pauses,
}

impl<C: Connect> KindFollower<C> {
    async fn run(mut self, stopped: oneshot::Receiver<()>) {
        self.fleet.control_planes.set(&self.kind, KindState::Met);
        tokio::select! {
            biased;
            _ = stopped => {}
            () = self.follow() => {}
        }
        self.fleet.control_planes.remove(&self.kind);
        self.fleet.index.write().forget_control_planes(&self.kind);
    }

    async fn follow(&mut self) {
        let mut slot: Option<OwnedSemaphorePermit> = None;
        let mut last_refusal = None;
        loop {
            let pause = match contract::resolve(&self.definitions, &self.kind).await {
                Err(Unresolved::Failed(error)) => {
                    let error = chain(&error);
                    tracing::warn!(kind = kind_name(&self.kind), error, "failed to look for a kind of control planes");
                    PAUSE_BEFORE_RELIST
                }
                Err(Unresolved::Unreadable(reason)) => {
                    slot = None;
                    self.unreadable(reason)
                }
                Ok(resource) => {
                    slot = slot.or_else(|| Arc::clone(&self.slots).try_acquire_owned().ok());
                    if slot.is_none() {
                        self.unreadable(Unreadable::OverLimit(self.max))
                    } else {
                        let last = last_refusal.as_ref().map(|(refusal, _)| *refusal);
                        let refusal = self.follow_at(&resource, last).await;
                        let again =
                            last_refusal.replace((refusal, resource.clone())) == Some((refusal, resource.clone()));
                        if refusal == Refusal::NotServed && !again {
                            // The definition may just have lost this version and name another.
                            PAUSE_BEFORE_RELIST
                        } else {
                            slot = None;
                            self.unreadable(Unreadable::refused(refusal, &resource))
                        }
                    }
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Follows the objects until the API server refuses.
    async fn follow_at(&mut self, resource: &ApiResource, last: Option<Refusal>) -> Refusal {
        let freshness = Arc::new(Freshness::default());
        let client = match self.connect.connect(&freshness) {
            Ok(client) => client,
            // The same configuration made clients before, so this does not happen; the shared one serves as well.
            Err(_) => self.definitions.clone(),
        };
        let mut objects = Followed::<ControlPlane>::all(client, resource.clone()).believing(last);
        let Self { kind, fleet, told, pauses, .. } = self;
        objects
            .until_refused(|event| {
                freshness.touch();
                if matches!(event, Event::Completed) {
                    fleet.control_planes.set(kind, KindState::Followed(Arc::clone(&freshness)));
                    *told = None;
                    pauses.reset();
                }
                fleet.index.write().handle_control_planes(kind, event);
            })
            .await
    }

    /// Notes that the kind cannot be read, and says it if that is new. Gives back how long to wait.
    fn unreadable(&mut self, reason: Unreadable) -> Duration {
        let Self { kind, fleet, told, .. } = self;
        if told.as_ref() != Some(&reason) {
            let used_by = fleet.index.read().control_plane_kinds().get(kind).copied().unwrap_or_default();
            tracing::warn!(
                kind = kind_name(kind),
                used_by = clusters(used_by),
                "control planes of this kind cannot be read, so it cannot be told which versions they run: {reason}"
            );
            *told = Some(reason.clone());
        }
        fleet.index.write().forget_control_planes(kind);
        fleet.control_planes.set(kind, KindState::Unreadable(reason));
        self.pauses.next(LONGEST_UNREADABLE)
    }
}
