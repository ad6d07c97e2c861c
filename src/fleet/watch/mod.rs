//! Feeds the index from the API server: a paged list, then a watch, of each kind.
//!
//! kube's `watcher` does the protocol (pages, bookmarks, 410, restarts, backoff); its events are folded straight into the
//! index. Added to that are:
//! - **No object stops the stream.** One undecodable object would fail its whole page for ever, so [`Watched`] always
//!   decodes and carries the error along.
//! - **A dead connection is noticed.** Watches end after 25 s; a connection that carries nothing for [`READ_TIMEOUT`] is
//!   dropped, lists included. Within 60 s a silent death is an error or a new watch.
//! - **Staleness is measured** per source: the time since the API server last gave a sign of life on that source's own
//!   client (a page, an event, the start of a watch). kube hides bookmarks, but a watch that begins anew every 25 s is a
//!   sign just as good.
//! - **What need not be there is asked for with patience**: worker sets, control planes and what tells Cluster API's version
//!   may be unknown to the API server, or forbidden. That is said once, and looked at again.

mod access;
pub mod contract;
mod control_planes;
pub mod core_provider;
mod follow;
mod freshness;
mod watched;
mod workers;

use std::{sync::Arc, time::Duration};

use kube::{Client, Config, client::ClientBuilder};
use tokio::sync::Notify;
use tower::util::MapResponseLayer;

use self::follow::Followed;
pub(crate) use self::follow::Refusal;
pub use self::{
    access::{Access, OptionalSource},
    contract::Unreadable,
    control_planes::{ControlPlaneKinds, KindState, MAX_KINDS},
    freshness::Freshness,
    watched::{Kind, Watched, worker_resource},
};
use super::{Event, Fleet};
use crate::model::{Cluster, ClusterClass, WorkerKind};

/// A connection that carries nothing for this long is dead: longer than any watch, so no live one is ever cut.
const READ_TIMEOUT: Duration = Duration::from_secs(29);

/// Makes clients, one for each source.
pub trait Connect: Send + Sync + 'static {
    /// A client of its own for one source, whose every successful answer is a sign of life.
    ///
    /// # Errors
    /// If no client can be made, for example because a certificate does not parse.
    fn connect(&self, sign: &Arc<Freshness>) -> Result<Client, kube::Error>;
}

impl Connect for Config {
    fn connect(&self, sign: &Arc<Freshness>) -> Result<Client, kube::Error> {
        let mut config = self.clone();
        // The watcher repeats by itself, with a growing pause; the client's own retries would hide an outage for minutes.
        config.default_retry = false;
        config.read_timeout = Some(READ_TIMEOUT);
        config.reset_reader_on_write = true;
        let sign = Arc::clone(sign);
        let sign = MapResponseLayer::new(move |response: http::Response<_>| {
            if response.status().is_success() {
                sign.touch();
            }
            response
        });
        Ok(ClientBuilder::try_from(config)?.with_layer(&sign).build())
    }
}

/// Keeps `fleet` in step with the API server, and follows at most `max_kinds` kinds of control planes; returns only if a
/// client cannot be made.
///
/// # Errors
/// If a client cannot be made.
pub async fn run(connect: impl Connect, fleet: Arc<Fleet>, max_kinds: usize) -> Result<(), kube::Error> {
    let clusters = Followed::<Cluster>::all(connect.connect(&fleet.clusters)?, Cluster::resource());
    let classes = Followed::<ClusterClass>::all(connect.connect(&fleet.classes)?, ClusterClass::resource());
    let [deployments, pools] = WorkerKind::ALL.map(|kind| {
        let client = connect.connect(&fleet.workers(kind).freshness);
        Ok::<_, kube::Error>(workers::follow(kind, client?, Arc::clone(&fleet)))
    });
    // Nobody asks how fresh these are, so they share a client.
    let others = connect.connect(&Arc::default())?;
    let core_provider = core_provider::follow(others.clone(), Arc::clone(&fleet));
    let listed = Arc::new(Notify::new());
    let control_planes =
        control_planes::follow_all(Arc::new(connect), others, Arc::clone(&fleet), Arc::clone(&listed), max_kinds);
    futures::join!(
        clusters.for_ever(|event| {
            fleet.clusters.touch();
            let complete = matches!(event, Event::Completed);
            let mut index = fleet.index.write();
            index.handle_cluster(event);
            if complete {
                fleet.control_planes.meet(&index);
                listed.notify_one();
            }
        }),
        classes.for_ever(|event| {
            fleet.classes.touch();
            fleet.index.write().handle_class(event);
        }),
        deployments?,
        pools?,
        control_planes,
        core_provider,
    );
    Ok(())
}
