//! The control plane objects of one kind.

use std::sync::Arc;

use super::{
    super::source::Fold,
    shared::{ByKey, Pool},
};
use crate::model::{ControlPlane, ControlPlaneState, ObjectKey, Provider};

/// The control plane objects of one kind, by key.
#[derive(Debug, Default)]
pub struct ControlPlaneIndex {
    by_key: ByKey<Arc<Entry>>,
    entries: Pool<Entry>,
    texts: Pool<str>,
}

/// What is known of a control plane object. Few differ, so each has a pointer to one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    version: Arc<str>,
    settled: bool,
}

impl ControlPlaneIndex {
    /// What is known of one object of this kind, which `provider` provides; `None` if it is not there.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str, provider: Provider) -> Option<ControlPlaneState> {
        let entry = self.by_key.get(namespace, name)?;
        Some(ControlPlaneState::at(Arc::clone(&entry.version), entry.settled, provider))
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Fold for ControlPlaneIndex {
    type Object = ControlPlane;

    fn apply(&mut self, object: ControlPlane) -> ObjectKey {
        let key = object.metadata.key();
        let entry = Entry { version: self.texts.shared(object.version()), settled: object.settled() };
        let entry = self.entries.shared_with(&entry, || Arc::new(entry.clone()));
        self.by_key.insert(&key, entry);
        key
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.by_key.remove(&key.namespace, &key.name);
    }
}
