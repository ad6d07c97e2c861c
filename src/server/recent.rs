//! Changes that this replica admitted and that the watch has not shown yet.
//!
//! An admitted Cluster is invisible to the index until it is stored and its event has come, and a class change judged
//! meanwhile would not count it (and the other way round). So admissions are remembered for a minute, longer than any
//! write can hang in the API server (34 s), and counted in. They are no proof: the write may have failed elsewhere. What
//! rests on one is confirmed by a quorum read like everything else, and while it is [`young`](Recent::young) an
//! unconfirmed one makes the answer "try again", not "yes".

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::{
    fleet::{ClassEntry, ClusterState, Index, Overlay},
    model::ObjectKey,
};

/// How long an admission is remembered if it never shows.
const REMEMBERED: Duration = Duration::from_mins(1);

/// How long a write usually takes to be stored: until then, a quorum read that does not show it proves nothing.
const YOUNG: Duration = Duration::from_secs(2);

/// More admissions than this are not remembered: a bound, not a limit that a real fleet meets in a minute.
const MOST: usize = 10_000;

/// What was admitted for an object, and when. `None` is a class that was deleted.
type Admissions<T> = HashMap<ObjectKey, (T, Instant)>;

/// The remembered admissions.
#[derive(Debug, Default)]
pub struct Recent {
    clusters: Admissions<ClusterState>,
    classes: Admissions<Option<ClassEntry>>,
}

impl Recent {
    /// Remembers that a Cluster was admitted in this state.
    pub fn admit_cluster(&mut self, key: ObjectKey, state: ClusterState, now: Instant) {
        remember(&mut self.clusters, key, state, now);
    }

    /// Remembers that a class was admitted like this (`None`: its deletion was).
    pub fn admit_class(&mut self, key: ObjectKey, class: Option<ClassEntry>, now: Instant) {
        remember(&mut self.classes, key, class, now);
    }

    /// The Clusters that may be in another state than the index says, as far as they concern `class`.
    pub fn overlay(&mut self, class: &ObjectKey, index: &Index, now: Instant) -> Overlay {
        let known = |key: &ObjectKey| index.clusters.objects().get(key);
        self.clusters
            .retain(|key, (state, at)| alive(*at, now) && !known(key).is_some_and(|known| known.says_the_same(state)));
        let concerns = |key: &ObjectKey, state: &ClusterState| {
            *state.class == *class || known(key).is_some_and(|known| *known.class == *class)
        };
        // What runs goes on meanwhile, whatever becomes of the change.
        let now_runs = |key: &ObjectKey, state: &ClusterState| {
            let running = known(key).map_or_else(|| state.running.clone(), |known| known.running.clone());
            ClusterState { running, ..state.clone() }
        };
        let pending = self.clusters.iter().filter(|(key, (state, _))| concerns(key, state));
        Overlay(pending.map(|(key, (state, _))| (key.clone(), Some(now_runs(key, state)))).collect())
    }

    /// What the class may be soon, if that is not what the index says.
    pub fn class(&mut self, key: &ObjectKey, index: &Index, now: Instant) -> Option<(Option<ClassEntry>, Instant)> {
        let (class, at) = self.classes.get(key)?;
        if alive(*at, now) && index.classes.objects().get(key) != class.as_ref() {
            return Some((class.clone(), *at));
        }
        self.classes.remove(key);
        None
    }

    /// Whether a Cluster was admitted so lately that its write may still be on its way.
    #[must_use]
    pub fn young_cluster(&self, key: &ObjectKey, now: Instant) -> bool {
        self.clusters.get(key).is_some_and(|(_, at)| Self::young(*at, now))
    }

    /// Whether something admitted `at` may still be on its way.
    #[must_use]
    pub fn young(at: Instant, now: Instant) -> bool {
        now.saturating_duration_since(at) < YOUNG
    }
}

fn alive(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < REMEMBERED
}

fn remember<T>(admissions: &mut Admissions<T>, key: ObjectKey, what: T, now: Instant) {
    if admissions.len() >= MOST {
        admissions.retain(|_, (_, at)| alive(*at, now));
    }
    if admissions.len() < MOST || admissions.contains_key(&key) {
        admissions.insert(key, (what, now));
    }
}
