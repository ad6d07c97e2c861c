//! What a request does to an object.

/// A change of one object, as admission sees it.
#[derive(Clone, Debug)]
pub enum Change<T> {
    /// The object comes into being.
    Create(T),
    /// The object is replaced by another state of itself.
    Update {
        /// The stored object, exactly the one that a successful write replaces.
        old: T,
        /// The object as it shall be.
        new: T,
    },
    /// The object goes.
    Delete(T),
}

impl<T> Change<T> {
    /// The object before the change.
    pub fn old(&self) -> Option<&T> {
        match self {
            Self::Create(_) => None,
            Self::Update { old, .. } | Self::Delete(old) => Some(old),
        }
    }

    /// The object after the change.
    #[allow(clippy::new_ret_no_self, reason = "old and new are what admission calls them")]
    pub fn new(&self) -> Option<&T> {
        match self {
            Self::Create(new) | Self::Update { new, .. } => Some(new),
            Self::Delete(_) => None,
        }
    }

    /// The object that the change is about: as it shall be, or as it was if it goes.
    pub fn object(&self) -> &T {
        match self {
            Self::Create(object) | Self::Update { new: object, .. } | Self::Delete(object) => object,
        }
    }
}
