//! What the API server says to the wish to read a source that need not be there.

use parking_lot::RwLock;

use super::Freshness;

/// Whether a kind can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Not known yet.
    #[default]
    Unknown,
    /// It can be read.
    Granted,
    /// The API server does not serve it.
    NotServed,
    /// The webhook lacks the right.
    Forbidden,
}

/// A source that need not be there: whether it can be read, and how fresh it is.
#[derive(Debug, Default)]
pub struct OptionalSource {
    /// How fresh it is.
    pub freshness: std::sync::Arc<Freshness>,
    access: RwLock<Access>,
}

impl OptionalSource {
    /// Whether it can be read.
    #[must_use]
    pub fn access(&self) -> Access {
        *self.access.read()
    }

    /// Notes an answer; whether it is another than before.
    pub(crate) fn set(&self, access: Access) -> bool {
        std::mem::replace(&mut *self.access.write(), access) != access
    }
}
