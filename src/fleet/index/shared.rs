//! What keeps the index small: equal things stored once, and keys stored by namespace.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::Arc,
};

use crate::model::ObjectKey;

/// Things that many have, each stored once.
///
/// What nobody has any more is looked for when the pool has doubled since the last search: years of versions do not pile
/// up, and no way of losing the last holder (an answer that outlives its Cluster is one) has to be foreseen.
#[derive(Debug)]
pub(super) struct Pool<T: ?Sized> {
    known: HashSet<Arc<T>>,
    search_at: usize,
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { known: HashSet::new(), search_at: 0 }
    }
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    const LEAST: usize = 64;

    /// The one that equals `wanted`.
    pub(super) fn shared(&mut self, wanted: &T) -> Arc<T>
    where
        for<'a> Arc<T>: From<&'a T>,
    {
        self.shared_with(wanted, || Arc::from(wanted))
    }

    /// The one that equals `wanted`, made by `make` if there is none.
    pub(super) fn shared_with(&mut self, wanted: &T, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(wanted) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.search_at {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.search_at = Self::LEAST.max(2 * self.known.len());
        }
        let first = make();
        self.known.insert(Arc::clone(&first));
        first
    }
}

/// A map by namespace and name.
///
/// In two levels, so that an entry holds no namespace, and a name is not counted by its holders: half the size of a map
/// by [`ObjectKey`].
#[derive(Debug)]
pub(super) struct ByKey<V> {
    namespaces: HashMap<Box<str>, HashMap<Box<str>, V>>,
    len: usize,
}

impl<V> Default for ByKey<V> {
    fn default() -> Self {
        Self { namespaces: HashMap::new(), len: 0 }
    }
}

impl<V> ByKey<V> {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&V> {
        self.namespaces.get(namespace)?.get(name)
    }

    pub(super) fn get_mut(&mut self, namespace: &str, name: &str) -> Option<&mut V> {
        self.namespaces.get_mut(namespace)?.get_mut(name)
    }

    pub(super) fn insert(&mut self, key: &ObjectKey, value: V) {
        if let Some(known) = self.get_mut(&key.namespace, &key.name) {
            *known = value;
            return;
        }
        self.len += 1;
        let name = key.name.as_ref().into();
        if let Some(names) = self.namespaces.get_mut(&*key.namespace) {
            names.insert(name, value);
        } else {
            self.namespaces.insert(key.namespace.as_ref().into(), HashMap::from([(name, value)]));
        }
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<V> {
        let names = self.namespaces.get_mut(namespace)?;
        let removed = names.remove(name)?;
        if names.is_empty() {
            self.namespaces.remove(namespace);
        }
        self.len -= 1;
        Some(removed)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}
