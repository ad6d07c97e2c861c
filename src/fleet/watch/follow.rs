//! Follows one kind: a paged list, then a watch, and again when something was lost.

use std::{collections::HashSet, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Client,
    api::ApiResource,
    runtime::{WatchStreamExt, watcher},
};

use super::watched::{Decoded, Watched};
use crate::{fleet::Event, model::ObjectKey};

/// The API server is asked to end each watch after this long; kube adds 5 s before it gives the connection up.
const WATCH_SECONDS: u32 = 25;

/// Small pages keep the peak of a relist small: a page is held as text and as objects at once.
const PAGE: u32 = 100;

/// A line of a watch that is no event is lost, and kube goes on behind it; then everything is listed anew, after this long.
pub(super) const PAUSE_BEFORE_RELIST: Duration = Duration::from_secs(5);

/// How soon a kind that is not there is looked for again. As often as a watch is renewed: what its objects say is
/// missing meanwhile.
pub(super) const RECHECK_ABSENT: Duration = Duration::from_secs(30);

/// How soon what is forbidden is tried again. Rights change when people change them, and each try is a line in the API
/// server's audit log.
pub(super) const RECHECK_FORBIDDEN: Duration = Duration::from_mins(3);

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
    /// Objects that do not decode are named once, not at every event.
    named: HashSet<ObjectKey>,
}

impl<T: Decoded> Followed<T> {
    /// All objects of a kind, in all namespaces.
    pub(super) fn all(client: Client, resource: ApiResource) -> Self {
        let config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(PAGE);
        let api = Api::all_with(client, &resource);
        Self { api, resource, config, optional: false, named: HashSet::new() }
    }

    /// Only those with a label. An object that loses it is told as deleted.
    pub(super) fn with_label(mut self, selector: &str) -> Self {
        self.config = self.config.labels(selector);
        self
    }

    /// Follows for ever, refusals or not.
    pub(super) async fn for_ever(mut self, mut fold: impl FnMut(Event<T>)) {
        loop {
            self.until_lost(&mut fold).await;
            tokio::time::sleep(PAUSE_BEFORE_RELIST).await;
        }
    }

    /// Follows until the API server says that there is nothing to follow.
    pub(super) async fn until_refused(&mut self, mut fold: impl FnMut(Event<T>)) -> Refusal {
        self.optional = true;
        loop {
            match self.until_lost(&mut fold).await {
                End::Lost => tokio::time::sleep(PAUSE_BEFORE_RELIST).await,
                End::Refused(refusal) => return refusal,
            }
        }
    }

    async fn until_lost(&mut self, fold: &mut impl FnMut(Event<T>)) -> End {
        let kind = self.resource.kind.clone();
        let mut events = watcher(self.api.clone(), self.config.clone()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => fold(Event::Restarted),
                Ok(watcher::Event::InitApply(watched)) => fold(self.known(watched, Event::Listed)),
                Ok(watcher::Event::InitDone) => {
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
