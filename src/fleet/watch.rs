//! Feeds the index from the API server: a paged list, then a watch, of each kind.
//!
//! kube's `watcher` does the protocol (pages, bookmarks, 410, restarts, backoff); its events are folded straight into the
//! index. Three things are added:
//! - **No object stops the stream.** One undecodable object would fail its whole page for ever, so [`Watched`] always
//!   decodes and carries the error along.
//! - **A dead connection is noticed.** Watches end after [`WATCH_SECONDS`]; a connection that carries nothing for
//!   [`READ_TIMEOUT`] is dropped, lists included. Within 60 s a silent death is an error or a new watch.
//! - **Staleness is measured** per source: the time since the API server last gave a sign of life on that source's own
//!   client (a page, an event, the start of a watch). kube hides bookmarks, but a watch that begins anew every
//!   [`WATCH_SECONDS`] is a sign just as good.

use std::{
    collections::HashSet,
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::StreamExt;
use kube::{
    Api, Client, Config, Resource,
    api::ObjectMeta,
    client::ClientBuilder,
    core::NamespaceResourceScope,
    runtime::{WatchStreamExt, watcher},
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;
use tower::util::MapResponseLayer;

use super::{Event, Fleet};
use crate::model::{Cluster, ClusterClass, GROUP, Metadata, ObjectKey};

/// The API server is asked to end each watch after this long; kube adds 5 s before it gives the connection up.
const WATCH_SECONDS: u32 = 25;

/// A connection that carries nothing for this long is dead: longer than any watch, so no live one is ever cut.
const READ_TIMEOUT: Duration = Duration::from_secs(29);

/// Small pages keep the peak of a relist small: a page is held as text and as objects at once.
const PAGE: u32 = 100;

/// A line of a watch that is no event is lost, and kube goes on behind it; then everything is listed anew, after this long.
const PAUSE_BEFORE_RELIST: Duration = Duration::from_secs(5);

/// The version that is read. Every Cluster API that has version lists serves it; both shapes decode.
const API_VERSION: &str = "v1beta2";

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

/// A kind that is watched: where it is, and what it takes to name it.
pub trait Kind: DeserializeOwned + Clone + Debug + Send + Sync + 'static {
    /// The kind, in words for people and for the API.
    const KIND: &'static str;
    /// The resource.
    const PLURAL: &'static str;
}

impl Kind for Cluster {
    const KIND: &'static str = "Cluster";
    const PLURAL: &'static str = "clusters";
}

impl Kind for ClusterClass {
    const KIND: &'static str = "ClusterClass";
    const PLURAL: &'static str = "clusterclasses";
}

/// An object as the API server sends it: its name, and what it says if that decodes.
#[derive(Clone, Debug)]
pub struct Watched<T> {
    /// Only name, namespace and resourceVersion; `managedFields` alone would cost more than all the rest.
    metadata: ObjectMeta,
    /// The object, or why it does not decode.
    pub object: Result<T, String>,
}

impl<T> Watched<T> {
    /// The object's key, which even an undecodable object has.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        ObjectKey::new(text(&self.metadata.namespace), text(&self.metadata.name))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Watched<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Named {
            metadata: Metadata,
        }

        let json = Box::<RawValue>::deserialize(deserializer)?;
        let Named { metadata } = serde_json::from_str(json.get()).unwrap_or_default();
        Ok(Self {
            metadata: ObjectMeta {
                name: Some(metadata.name),
                namespace: Some(metadata.namespace),
                resource_version: Some(metadata.resource_version),
                ..ObjectMeta::default()
            },
            object: serde_json::from_str(json.get()).map_err(|error| error.to_string()),
        })
    }
}

impl<T: Kind> Resource for Watched<T> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        T::KIND.into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        API_VERSION.into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        T::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Keeps `fleet` in step with the API server; returns only if a client cannot be made.
///
/// # Errors
/// If the configuration makes no client, for example because a certificate in it does not parse.
pub async fn run(config: Config, fleet: Arc<Fleet>) -> Result<(), kube::Error> {
    let clusters = client(config.clone(), Arc::clone(&fleet), |fleet| &fleet.clusters)?;
    let classes = client(config, Arc::clone(&fleet), |fleet| &fleet.classes)?;
    follow_all(clusters, classes, &fleet).await;
    Ok(())
}

/// A client of its own for one source, whose every successful answer is a sign of life.
fn client(mut config: Config, fleet: Arc<Fleet>, of: fn(&Fleet) -> &Freshness) -> Result<Client, kube::Error> {
    // The watcher repeats by itself, with a growing pause; the client's own retries would hide an outage for minutes.
    config.default_retry = false;
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    let sign = MapResponseLayer::new(move |response: http::Response<_>| {
        if response.status().is_success() {
            of(&fleet).touch();
        }
        response
    });
    Ok(ClientBuilder::try_from(config)?.with_layer(&sign).build())
}

/// Follows both kinds for ever.
pub async fn follow_all(clusters: Client, classes: Client, fleet: &Fleet) {
    futures::join!(
        follow::<Cluster>(clusters, |event| {
            fleet.clusters.touch();
            fleet.index.write().handle_cluster(event);
        }),
        follow::<ClusterClass>(classes, |event| {
            fleet.classes.touch();
            fleet.index.write().handle_class(event);
        }),
    );
}

/// Follows one kind for ever.
async fn follow<T: Kind>(client: Client, mut fold: impl FnMut(Event<T>)) {
    let api = Api::<Watched<T>>::all(client);
    // Names what does not decode once, not at every event of it.
    let mut named = HashSet::new();
    loop {
        follow_until_lost(api.clone(), &mut fold, &mut named).await;
        tokio::time::sleep(PAUSE_BEFORE_RELIST).await;
    }
}

/// Follows one kind until an event was lost, so that only a new list can tell what is there.
async fn follow_until_lost<T: Kind>(
    api: Api<Watched<T>>,
    fold: &mut impl FnMut(Event<T>),
    named: &mut HashSet<ObjectKey>,
) {
    let config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(PAGE);
    let mut events = watcher(api, config).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => fold(Event::Restarted),
            Ok(watcher::Event::InitApply(watched)) => fold(known(watched, Event::Listed, named)),
            Ok(watcher::Event::InitDone) => {
                fold(Event::Completed);
                tracing::info!(kind = T::KIND, "list complete");
            }
            Ok(watcher::Event::Apply(watched)) => fold(known(watched, Event::Applied, named)),
            Ok(watcher::Event::Delete(watched)) => fold(Event::Deleted(watched.key())),
            Err(error) => {
                // kube's texts hold their causes already.
                tracing::warn!(kind = T::KIND, %error, "failed to follow the {}", T::PLURAL);
                if matches!(error, watcher::Error::WatchFailed(kube::Error::SerdeError(_))) {
                    return;
                }
            }
        }
    }
}

fn known<T: Kind>(watched: Watched<T>, with: fn(T) -> Event<T>, named: &mut HashSet<ObjectKey>) -> Event<T> {
    /// More names than this are not kept; an object may then be logged twice.
    const REMEMBERED: usize = 1000;

    let key = watched.key();
    match watched.object {
        Ok(object) => {
            named.remove(&key);
            with(object)
        }
        Err(error) => {
            if named.len() < REMEMBERED && named.insert(key.clone()) {
                tracing::warn!(kind = T::KIND, object = %key, %error, "failed to decode an object; it is left out");
            }
            Event::Undecodable(key)
        }
    }
}
