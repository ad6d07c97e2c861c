//! Follows one kind: a paged list, then a watch, and again when something was lost.

use std::{collections::HashSet, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Client,
    api::ApiResource,
    runtime::{
        WatchStreamExt,
        utils::{Backoff, ResetTimerBackoff},
        watcher,
    },
};
use tokio::time::Instant;

use super::watched::{Decoded, Watched};
use crate::{fleet::Event, model::ObjectKey};

/// The API server is asked to end each watch after this long; kube adds 5 s before it gives the connection up.
const WATCH_SECONDS: u32 = 25;

/// Small pages keep the peak of a relist small: a page is held as text and as objects at once.
const PAGE: u32 = 100;

/// A line of a watch that is no event is lost, and kube goes on behind it; then everything is listed anew, after this long.
pub(super) const PAUSE_BEFORE_RELIST: Duration = Duration::from_secs(5);

/// The pause before what was refused is tried again; each is twice the one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause before a kind that is not there is looked for again. As often as a watch is renewed: what its objects
/// say is missing meanwhile.
const LONGEST_ABSENT: Duration = Duration::from_secs(30);

/// The longest pause before what is forbidden is tried again. Rights change when people change them, and each try is a line
/// in the API server's audit log.
pub(super) const LONGEST_FORBIDDEN: Duration = Duration::from_mins(3);

/// So long a refusal is not believed that is news. An API server that just started has neither definitions nor rights
/// in its caches yet, and refuses everything for some seconds.
const DISBELIEF: Duration = Duration::from_secs(30);

/// The pause between two tries meanwhile.
const DISBELIEF_PAUSE: Duration = Duration::from_secs(2);

/// The pause after a first error.
const FIRST_BACKOFF: Duration = Duration::from_millis(800);

/// Errors are repeated with growing pauses up to this one. kube's own 30 s would leave an index stale for a minute after
/// each longer outage of the API server.
const LONGEST_BACKOFF: Duration = Duration::from_secs(8);

/// After so long without an error the next one is repeated soon again.
const BACKOFF_RESET: Duration = Duration::from_mins(2);

/// Pauses that grow.
#[derive(Debug, Default)]
pub(super) struct Pauses(u32);

impl Pauses {
    /// The next pause, not longer than `longest`.
    pub(super) fn next(&mut self, longest: Duration) -> Duration {
        self.doubled(FIRST_PAUSE).min(longest)
    }

    /// `first`, and then always twice the one before.
    fn doubled(&mut self, first: Duration) -> Duration {
        let pause = first.saturating_mul(1 << self.0.min(16));
        self.0 = self.0.saturating_add(1);
        pause
    }

    /// Begins anew.
    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }
}

/// The pauses between errors, as kube asks for them.
#[derive(Default)]
struct ErrorPauses(Pauses);

impl Iterator for ErrorPauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.0.doubled(FIRST_BACKOFF).min(LONGEST_BACKOFF))
    }
}

impl Backoff for ErrorPauses {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// An answer that no repetition within seconds will change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The API server does not know the resource.
    NotServed,
    /// The webhook lacks the right.
    Forbidden,
}

impl Refusal {
    /// The refusal that an error is, if it is one.
    pub(crate) fn of(error: &kube::Error) -> Option<Self> {
        // By the code: a path that is not served is answered in plain text, without a reason.
        match error {
            kube::Error::Api(status) if status.code == 404 => Some(Self::NotServed),
            kube::Error::Api(status) if status.code == 403 => Some(Self::Forbidden),
            _ => None,
        }
    }
}

/// Why following ended.
enum End {
    /// An event was lost, so only a new list can tell what is there.
    Lost,
    Refused(Refusal),
}

/// One kind to follow.
pub(super) struct Followed<T> {
    api: Api<Watched<T>>,
    resource: ApiResource,
    config: watcher::Config,
    /// Whether a refusal is an answer, or an error like any other.
    optional: bool,
    /// The last refusal that was believed; `None` since a list was complete.
    believed: Option<Refusal>,
    /// Whether a list was complete since then.
    granted: bool,
    pauses: Pauses,
    /// Objects that do not decode are named once, not at every event.
    named: HashSet<ObjectKey>,
}

impl<T: Decoded> Followed<T> {
    /// All objects of a kind, in all namespaces.
    pub(super) fn all(client: Client, resource: ApiResource) -> Self {
        let config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(PAGE);
        let api = Api::all_with(client, &resource);
        Self {
            api,
            resource,
            config,
            optional: false,
            believed: None,
            granted: false,
            pauses: Pauses::default(),
            named: HashSet::new(),
        }
    }

    /// Only those with a label. An object that loses it is told as deleted.
    pub(super) fn with_label(mut self, selector: &str) -> Self {
        self.config = self.config.labels(selector);
        self
    }

    /// Takes a refusal for no news that others have met before.
    pub(super) fn believing(mut self, refusal: Option<Refusal>) -> Self {
        self.believed = refusal;
        self
    }

    /// Follows for ever, refusals or not.
    pub(super) async fn for_ever(mut self, mut fold: impl FnMut(Event<T>)) {
        loop {
            self.until_lost(&mut fold, &mut None).await;
            tokio::time::sleep(PAUSE_BEFORE_RELIST).await;
        }
    }

    /// Follows until the API server says that there is nothing to follow, and means it.
    pub(super) async fn until_refused(&mut self, mut fold: impl FnMut(Event<T>)) -> Refusal {
        self.optional = true;
        let mut refused_since = None;
        loop {
            match self.until_lost(&mut fold, &mut refused_since).await {
                End::Lost => tokio::time::sleep(PAUSE_BEFORE_RELIST).await,
                End::Refused(refusal) => {
                    let since = *refused_since.get_or_insert_with(Instant::now);
                    if self.believes(refusal) || since.elapsed() >= DISBELIEF {
                        (self.believed, self.granted) = (Some(refusal), false);
                        return refusal;
                    }
                    tokio::time::sleep(DISBELIEF_PAUSE).await;
                }
            }
        }
    }

    /// Whether the refusal is no news, or likely from the first: that a kind is not served is normal, that a right is missing
    /// is not.
    fn believes(&self, refusal: Refusal) -> bool {
        !self.granted && self.believed.unwrap_or(Refusal::NotServed) == refusal
    }

    /// How long to wait after a refusal.
    pub(super) fn pause(&mut self, refusal: Refusal) -> Duration {
        self.pauses.next(match refusal {
            Refusal::NotServed => LONGEST_ABSENT,
            Refusal::Forbidden => LONGEST_FORBIDDEN,
        })
    }

    async fn until_lost(&mut self, fold: &mut impl FnMut(Event<T>), refused_since: &mut Option<Instant>) -> End {
        let kind = self.resource.kind.clone();
        let backoff = ResetTimerBackoff::new(ErrorPauses::default(), BACKOFF_RESET);
        let mut events = watcher(self.api.clone(), self.config.clone()).backoff(backoff).boxed();
        while let Some(event) = events.next().await {
            // All but the wish to list is an answer.
            if matches!(&event, Ok(event) if !matches!(event, watcher::Event::Init)) {
                *refused_since = None;
            }
            match event {
                Ok(watcher::Event::Init) => fold(Event::Restarted),
                Ok(watcher::Event::InitApply(watched)) => fold(self.known(watched, Event::Listed)),
                Ok(watcher::Event::InitDone) => {
                    (self.believed, self.granted) = (None, true);
                    self.pauses.reset();
                    fold(Event::Completed);
                    tracing::info!(kind, "list complete");
                }
                Ok(watcher::Event::Apply(watched)) => fold(self.known(watched, Event::Applied)),
                Ok(watcher::Event::Delete(watched)) => fold(Event::Deleted(watched.key())),
                Err(error) => {
                    if let Some(refusal) = self.refusal(&error) {
                        return End::Refused(refusal);
                    }
                    // kube's texts hold their causes already.
                    tracing::warn!(kind, %error, "failed to follow the {}", self.resource.plural);
                    if matches!(error, watcher::Error::WatchFailed(kube::Error::SerdeError(_))) {
                        return End::Lost;
                    }
                }
            }
        }
        End::Lost
    }

    fn refusal(&self, error: &watcher::Error) -> Option<Refusal> {
        match error {
            watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) if self.optional => {
                Refusal::of(error)
            }
            _ => None,
        }
    }

    fn known(&mut self, watched: Watched<T>, with: fn(T) -> Event<T>) -> Event<T> {
        /// More names than this are not kept; an object may then be logged twice.
        const REMEMBERED: usize = 1000;

        let key = watched.key();
        match watched.object {
            Ok(object) => {
                self.named.remove(&key);
                with(object)
            }
            Err(error) => {
                if self.named.len() < REMEMBERED && self.named.insert(key.clone()) {
                    let kind = &self.resource.kind;
                    tracing::warn!(kind, object = %key, %error, "failed to decode an object; it is left out");
                }
                Event::Undecodable(key)
            }
        }
    }
}
