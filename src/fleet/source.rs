//! One kind of object as a list and a watch tell of it: events in, and what is known now. Pure.
//!
//! A relist fills a fresh shelf that replaces the old one when it is complete, so what is known never depends on the order
//! in which events came, or on what was missed in between.

use std::collections::HashSet;

use crate::model::ObjectKey;

/// What happened to the objects of one source, in the order of its list or watch.
///
/// A relist is `Restarted`, any number of `Listed`, `Completed`: what the list does not name is gone afterwards.
#[derive(Clone, Debug)]
pub enum Event<T> {
    /// A (re)list begins.
    Restarted,
    /// The list names an object.
    Listed(T),
    /// The list is complete and replaces what was known.
    Completed,
    /// An object was created or changed.
    Applied(T),
    /// An object is gone.
    Deleted(ObjectKey),
    /// An object does not decode, so nothing can be said of it: it is counted, not judged.
    Undecodable(ObjectKey),
}

/// One kind of object: what is known now, and the relist that is about to replace it.
#[derive(Debug, Default)]
pub struct Source<S> {
    current: Shelf<S>,
    next: Option<Shelf<S>>,
    synced: bool,
}

/// Objects of one kind, and the keys of those that did not decode.
#[derive(Debug, Default)]
struct Shelf<S> {
    objects: S,
    undecodable: HashSet<ObjectKey>,
}

/// A store that events can be folded into.
pub trait Fold: Default {
    /// The object that an event carries.
    type Object;
    /// Replaces what is known of this object.
    fn apply(&mut self, object: Self::Object) -> ObjectKey;
    /// Forgets the object.
    fn remove(&mut self, key: &ObjectKey);
}

impl<S: Fold> Source<S> {
    /// Folds one event in.
    pub(super) fn handle(&mut self, event: Event<S::Object>) {
        match event {
            Event::Restarted => self.next = Some(Shelf::default()),
            Event::Completed => {
                if let Some(next) = self.next.take() {
                    self.current = next;
                }
                self.synced = true;
            }
            Event::Listed(object) | Event::Applied(object) => self.target().apply(object),
            Event::Deleted(key) => self.target().remove(&key),
            Event::Undecodable(key) => self.target().give_up(key),
        }
    }

    /// The shelf that the stream speaks of: between `Restarted` and `Completed` that is the coming one.
    fn target(&mut self) -> &mut Shelf<S> {
        self.next.as_mut().unwrap_or(&mut self.current)
    }

    /// The key of the object that `event` changes in what is known now; `None` for lists, and for everything that goes into
    /// a relist until it is complete.
    pub(super) fn concerns_now(
        &self,
        event: &Event<S::Object>,
        key: impl FnOnce(&S::Object) -> ObjectKey,
    ) -> Option<ObjectKey> {
        match event {
            _ if self.next.is_some() => None,
            Event::Restarted | Event::Completed => None,
            Event::Listed(object) | Event::Applied(object) => Some(key(object)),
            Event::Deleted(key) | Event::Undecodable(key) => Some(key.clone()),
        }
    }

    /// Whether a list was ever complete. Before that, an absent object means nothing.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.synced
    }

    /// How many objects did not decode.
    #[must_use]
    pub fn undecodable(&self) -> usize {
        self.current.undecodable.len()
    }

    /// Whether this object is there but did not decode.
    #[must_use]
    pub fn gave_up(&self, key: &ObjectKey) -> bool {
        self.current.undecodable.contains(key)
    }

    /// Whether an object in this namespace did not decode.
    #[must_use]
    pub fn gave_up_in(&self, namespace: &str) -> bool {
        self.current.undecodable.iter().any(|key| *key.namespace == *namespace)
    }

    /// The objects.
    #[must_use]
    pub fn objects(&self) -> &S {
        &self.current.objects
    }

    /// The objects as they are known now, for what is kept beside them.
    pub(super) fn objects_mut(&mut self) -> &mut S {
        &mut self.current.objects
    }
}

impl<S: Fold> Shelf<S> {
    fn apply(&mut self, object: S::Object) {
        let key = self.objects.apply(object);
        self.undecodable.remove(&key);
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
        self.undecodable.remove(key);
    }

    /// Drops what was known of the object too: it is not what is stored any more, and what a relist finds must not
    /// depend on history.
    fn give_up(&mut self, key: ObjectKey) {
        self.objects.remove(&key);
        self.undecodable.insert(key);
    }
}
