//! The end: unready, answer on, drain, leave.
//!
//! The API server does not repeat a call whose connection breaks, and it reuses connections. So nothing is closed under it:
//! while its endpoints are taken away from the Service, every answer asks it to close its connection.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{Stream, stream};
use tokio::signal::unix::{SignalKind, signal};

/// From the signal until no new connection is accepted any more.
///
/// A Pod is told to end at the same moment as its removal from the Service begins; until every node knows of that, new
/// connections still arrive.
pub const GRACE: Duration = Duration::from_secs(5);

/// From then until what is still being answered is cut off: longer than the default timeout of a call, and together with the
/// grace less than the 30 s after which a Pod is killed.
pub const LONGEST_DRAIN: Duration = Duration::from_secs(15);

/// Whether the program is about to leave. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Draining(Arc<AtomicBool>);

impl Draining {
    /// Begins to leave.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has begun.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The names of the signals that ask the program to end, as they come. From now on they do nothing else.
///
/// # Errors
/// If the system does not let them be caught.
pub fn signals() -> io::Result<impl Stream<Item = &'static str>> {
    let both = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(stream::unfold(both, async |(mut terminate, mut interrupt)| {
        let name = tokio::select! {
            Some(()) = terminate.recv() => "SIGTERM",
            Some(()) = interrupt.recv() => "SIGINT",
            else => return None,
        };
        Some((name, (terminate, interrupt)))
    }))
}
