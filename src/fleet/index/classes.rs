//! The classes.

use std::{collections::HashMap, sync::Arc};

use super::super::source::Fold;
use crate::model::{ClusterClass, ObjectKey};

/// What is known of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassEntry {
    /// `spec.kubernetesVersions`, in order; empty without a list.
    pub versions: Vec<Arc<str>>,
    /// The extension that plans, if any.
    pub extension: Option<Arc<str>>,
}

impl From<&ClusterClass> for ClassEntry {
    fn from(class: &ClusterClass) -> Self {
        Self {
            versions: class.versions().iter().map(|version| Arc::from(version.as_str())).collect(),
            extension: class.extension().map(Arc::from),
        }
    }
}

impl ClassEntry {
    /// Whether a Cluster of this class may name `version`: byte for byte in the list, or there is no list.
    #[must_use]
    pub fn carries(&self, version: &str) -> bool {
        self.versions.is_empty() || self.versions.iter().any(|listed| **listed == *version)
    }
}

/// The classes, by key.
#[derive(Debug, Default)]
pub struct ClassIndex(HashMap<ObjectKey, ClassEntry>);

impl ClassIndex {
    /// What is known of one class.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&ClassEntry> {
        self.0.get(key)
    }

    /// How many classes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Fold for ClassIndex {
    type Object = ClusterClass;

    fn apply(&mut self, class: ClusterClass) -> ObjectKey {
        let key = class.key();
        self.0.insert(key.clone(), ClassEntry::from(&class));
        key
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }
}
