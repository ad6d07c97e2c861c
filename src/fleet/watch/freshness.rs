//! How long ago the API server last gave a sign of life for a source.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// How long ago the API server last gave a sign of life for one source.
#[derive(Debug)]
pub struct Freshness {
    started: Instant,
    /// Milliseconds from `started` to the last sign, plus one; 0 before the first.
    sign: AtomicU64,
}

impl Default for Freshness {
    fn default() -> Self {
        Self { started: Instant::now(), sign: AtomicU64::new(0) }
    }
}

impl Freshness {
    /// Notes a sign of life.
    pub fn touch(&self) {
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.sign.fetch_max(millis + 1, Ordering::Relaxed);
    }

    /// The time since the last sign of life; `None` before the first, and always for a fleet read from files.
    #[must_use]
    pub fn staleness(&self) -> Option<Duration> {
        let sign = self.sign.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.started.elapsed().saturating_sub(Duration::from_millis(sign)))
    }
}
