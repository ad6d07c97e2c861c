//! The worker sets of one kind, and per Cluster the versions that they are at.
//!
//! A set is found by its own key, because that is all that a deletion tells; a Cluster's versions are counted, so that an
//! event costs O(versions of that Cluster), however many sets it has.

use std::sync::Arc;

use super::{
    super::source::Fold,
    shared::{ByKey, Pool},
};
use crate::model::{ObjectKey, WorkerSet};

/// The worker sets of one kind that a topology owns. Others do not count: nobody plans for them.
#[derive(Debug, Default)]
pub struct WorkerIndex {
    sets: ByKey<Arc<Crew>>,
    clusters: ByKey<Vec<(Arc<Crew>, u32)>>,
    texts: Pool<str>,
}

/// The sets of one Cluster that are at one version.
#[derive(Debug)]
struct Crew {
    cluster: Box<str>,
    version: Arc<str>,
}

impl WorkerIndex {
    /// The distinct versions of a Cluster's sets, in no order; `None` if it has no set.
    #[must_use]
    pub fn versions(&self, namespace: &str, cluster: &str) -> Option<impl Iterator<Item = &Arc<str>>> {
        self.clusters.get(namespace, cluster).map(|crews| crews.iter().map(|(crew, _)| &crew.version))
    }

    /// The key of the Cluster that a set belongs to.
    pub(super) fn cluster_of(&self, set: &ObjectKey) -> Option<ObjectKey> {
        let crew = self.sets.get(&set.namespace, &set.name)?;
        Some(ObjectKey::new(Arc::clone(&set.namespace), &*crew.cluster))
    }

    /// How many sets there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts a set in.
    fn join(&mut self, cluster: &ObjectKey, version: &str) -> Arc<Crew> {
        let crews = self.clusters.get_mut(&cluster.namespace, &cluster.name);
        if let Some((crew, sets)) = crews.and_then(|crews| crews.iter_mut().find(|(crew, _)| *crew.version == *version))
        {
            *sets += 1;
            return Arc::clone(crew);
        }
        let crew = Arc::new(Crew { cluster: (*cluster.name).into(), version: self.texts.shared(version) });
        let first = (Arc::clone(&crew), 1);
        match self.clusters.get_mut(&cluster.namespace, &cluster.name) {
            Some(crews) => crews.push(first),
            // Nearly all Clusters have one version: a vector that grows would begin with room for four.
            None => self.clusters.insert(cluster, vec![first]),
        }
        crew
    }
}

impl Fold for WorkerIndex {
    type Object = WorkerSet;

    fn apply(&mut self, set: WorkerSet) -> ObjectKey {
        let key = set.metadata.key();
        if let Some(crew) = self.sets.get(&key.namespace, &key.name)
            && set.cluster_name() == Some(&*crew.cluster)
            && *crew.version == *set.version()
        {
            return key;
        }
        self.remove(&key);
        if let Some(cluster) = set.cluster_name() {
            let crew = self.join(&ObjectKey::new(Arc::clone(&key.namespace), cluster), set.version());
            self.sets.insert(&key, crew);
        }
        key
    }

    fn remove(&mut self, key: &ObjectKey) {
        let Some(left) = self.sets.remove(&key.namespace, &key.name) else { return };
        let Some(crews) = self.clusters.get_mut(&key.namespace, &left.cluster) else { return };
        if let Some((_, sets)) = crews.iter_mut().find(|(crew, _)| Arc::ptr_eq(crew, &left)) {
            *sets -= 1;
        }
        crews.retain(|(_, sets)| *sets > 0);
        if crews.is_empty() {
            self.clusters.remove(&key.namespace, &left.cluster);
        }
    }
}
