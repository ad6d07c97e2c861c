//! The server: the webhook over HTTPS, probes and metrics over HTTP, and what keeps them fed.

pub mod admission;
pub mod body;
mod deadline;
mod fleet_metrics;
pub mod health;
pub mod judge;
pub mod live;
mod log;
pub mod metrics;
mod recent;
pub mod refusal;
pub mod self_made;
pub mod shutdown;
pub mod tls;

use std::{
    future::{Future, pending},
    io,
    net::SocketAddr,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use actix_web::{
    HttpServer,
    dev::{Server, ServerHandle},
    rt,
};
use futures::{FutureExt, Stream, StreamExt, future::select_all};
use openssl::ssl::SslAcceptorBuilder;

use self::{
    admission::Webhook,
    body::{Gate, Limits},
    health::Health,
    judge::Judge,
    live::Live,
    metrics::Metrics,
    shutdown::Draining,
    tls::{CertificateFiles, Certificates, LoadCertificateError, Reloader},
};
use crate::{
    config::Config,
    fleet::{Fleet, watch},
};

/// The API server keeps an idle connection for 90 s, and does not repeat a call whose connection was closed under it; so
/// the one who closes has to be the API server. tests/api_server holds both.
pub const KEEP_ALIVE: Duration = Duration::from_mins(2);

/// A connection that does not finish its handshake in this time is dropped.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Handshakes that a worker does at once; they are what a connection costs most.
const HANDSHAKES: usize = 64;

/// Connections of a worker. Three API servers that each send the 600 requests they allow need about 1,000 each.
const CONNECTIONS: usize = 2_048;

type Listener = std::net::TcpListener;

/// What a server is started with.
pub struct Setup {
    /// The fleet: complete if it comes from files, else still empty.
    pub fleet: Arc<Fleet>,
    /// Where the API server is that feeds the fleet, and whom to ask before a refusal; `None` for a fleet from files.
    pub kubernetes: Option<kube::Config>,
    /// How many kinds of control planes are followed at most.
    pub max_control_plane_kinds: usize,
    /// How to judge.
    pub config: Config,
    /// Where to listen.
    pub listen: Addresses,
    /// What to serve with.
    pub certificate: Certificate,
    /// How often certificate files are looked at.
    pub certificate_poll: Duration,
    /// How much is taken in at once.
    pub limits: Limits,
    /// From a signal until no connection is accepted any more.
    pub grace: Duration,
}

/// The addresses of the three servers.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// Reviews, over HTTPS.
    pub webhook: SocketAddr,
    /// Probes, over HTTP.
    pub health: SocketAddr,
    /// Metrics, over HTTP.
    pub metrics: SocketAddr,
}

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum Certificate {
    /// From files, looked at again and again.
    Files(CertificateFiles),
    /// Made at start.
    SelfMade {
        /// Where to write the CA that signed it.
        write_ca: Option<PathBuf>,
    },
}

/// Why a server did not start, or ended before it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No certificate to serve.
    #[error(transparent)]
    Certificate(#[from] LoadCertificateError),
    /// The certificate could not be made.
    #[error("failed to make a certificate")]
    Make(#[from] openssl::error::ErrorStack),
    /// The CA could not be written.
    #[error("failed to write the CA to {}", path.display())]
    WriteCa {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An address is taken, or none of this machine's.
    #[error("failed to listen on {address} ({what})")]
    Listen {
        /// "webhook", "health" or "metrics".
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A client could not be made.
    #[error("failed to make a client for the API server")]
    Client(#[from] kube::Error),
    /// Something that runs for ever did not.
    #[error("{task} ended: {reason}")]
    Ended {
        /// What it was.
        task: &'static str,
        /// Why.
        reason: String,
    },
    /// The second signal came before the first was carried out.
    #[error("left at once at a second {signal}; requests may be unanswered")]
    Cut {
        /// The signal.
        signal: &'static str,
    },
}

/// A server that listens.
pub struct Bound {
    addresses: Addresses,
    draining: Draining,
    grace: Duration,
    webhook: ServerHandle,
    others: [ServerHandle; 2],
    tasks: Vec<Task>,
}

type Task = futures::future::LocalBoxFuture<'static, ServerError>;

/// Starts everything. To be called inside of an actix System; nothing is served before [`Bound::run`].
///
/// # Errors
/// If the certificate does not load, an address cannot be bound, or the client cannot be made.
pub fn start(setup: Setup) -> Result<Bound, ServerError> {
    let Setup {
        fleet,
        kubernetes,
        max_control_plane_kinds,
        config,
        listen,
        certificate,
        certificate_poll,
        limits,
        grace,
    } = setup;
    let draining = Draining::default();
    let metrics = Arc::new(Metrics::new(&fleet));
    let (certificates, reloader) = certificates(certificate, listen.webhook)?;
    metrics.serves_until(certificates.not_after());
    let live = kubernetes.clone().map(|config| Live::new(config, tokio::runtime::Handle::current())).transpose()?;
    let webhook = Arc::new(Webhook {
        judge: Judge::new(Arc::clone(&fleet), live, config),
        metrics: Arc::clone(&metrics),
        gate: Gate::new(limits),
        draining: draining.clone(),
    });
    let health = Arc::new(Health {
        fleet: Arc::clone(&fleet),
        certificates: Arc::clone(&certificates),
        draining: draining.clone(),
    });
    let acceptor = certificates.acceptor()?;
    let webhook_socket = Socket::bind("webhook", listen.webhook)?;
    let health_socket = Socket::bind("health", listen.health)?;
    let metrics_socket = Socket::bind("metrics", listen.metrics)?;
    let addresses =
        Addresses { webhook: webhook_socket.address, health: health_socket.address, metrics: metrics_socket.address };
    let webhook_server = webhook_socket.serve(|listener| webhook_server(listener, webhook, acceptor))?;
    let health_server = health_socket.serve(|listener| health::server(listener, health))?;
    let metrics_server = metrics_socket.serve(|listener| metrics::server(listener, Arc::clone(&metrics)))?;
    let webhook = webhook_server.handle();
    let others = [health_server.handle(), metrics_server.handle()];
    let tasks = vec![
        critical("the webhook server", webhook_server),
        critical("the health server", health_server),
        critical("the metrics server", metrics_server),
        critical("the watch", follow(kubernetes, fleet, max_control_plane_kinds)),
        critical("the certificate's poll", poll_certificate(reloader, certificate_poll, metrics)),
    ];
    Ok(Bound { addresses, draining, grace, webhook, others, tasks })
}

fn certificates(
    certificate: Certificate,
    listen: SocketAddr,
) -> Result<(Arc<Certificates>, Option<Reloader>), ServerError> {
    match certificate {
        Certificate::Files(files) => {
            let reloader = Reloader::start(files)?;
            Ok((reloader.served(), Some(reloader)))
        }
        Certificate::SelfMade { write_ca } => {
            let made = self_made::make(listen.ip())?;
            if let Some(path) = write_ca {
                self_made::write_whole(&path, &made.ca).map_err(|source| ServerError::WriteCa { path, source })?;
            }
            Ok((Certificates::of_pair(&made.pair)?, None))
        }
    }
}

/// A bound address that is not served yet.
struct Socket {
    what: &'static str,
    address: SocketAddr,
    listener: Listener,
}

impl Socket {
    fn bind(what: &'static str, address: SocketAddr) -> Result<Self, ServerError> {
        let bound = Listener::bind(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|source| ServerError::Listen { what, address, source })?;
        Ok(Self { what, address, listener })
    }

    fn serve(self, with: impl FnOnce(Listener) -> io::Result<Server>) -> Result<Server, ServerError> {
        let Self { what, address, listener } = self;
        with(listener).map_err(|source| ServerError::Listen { what, address, source })
    }
}

fn webhook_server(listener: Listener, webhook: Arc<Webhook>, acceptor: SslAcceptorBuilder) -> io::Result<Server> {
    // More than one, so that a review of some megabytes does not hold up all others.
    let workers = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let server = HttpServer::new(move || admission::app(Arc::clone(&webhook)))
        .workers(workers)
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(body::HEAD_TIMEOUT)
        .tls_handshake_timeout(HANDSHAKE_TIMEOUT)
        .max_connection_rate(HANDSHAKES)
        .max_connections(CONNECTIONS)
        // Else the first answer on a new connection waits 40 ms for an acknowledgement.
        .tcp_nodelay(true)
        .shutdown_timeout(shutdown::LONGEST_DRAIN.as_secs())
        .disable_signals();
    Ok(server.listen_openssl(listener, acceptor)?.run())
}

async fn follow(
    kubernetes: Option<kube::Config>,
    fleet: Arc<Fleet>,
    max_control_plane_kinds: usize,
) -> Result<(), kube::Error> {
    match kubernetes {
        Some(config) => watch::run(config, fleet, max_control_plane_kinds).await,
        None => pending().await,
    }
}

async fn poll_certificate(
    reloader: Option<Reloader>,
    every: Duration,
    metrics: Arc<Metrics>,
) -> Result<(), std::convert::Infallible> {
    match reloader {
        Some(reloader) => reloader.run(every, &metrics).await,
        None => pending().await,
    }
    Ok(())
}

/// Runs what must not end, as a task of its own, so that a panic in it is an error like any other.
fn critical<E: std::error::Error + Send + Sync + 'static>(
    task: &'static str,
    work: impl Future<Output = Result<(), E>> + 'static,
) -> Task {
    let running = rt::spawn(work);
    async move {
        let reason = match running.await {
            Ok(Ok(())) => "without a reason".to_owned(),
            Ok(Err(error)) => crate::text::chain(&error),
            Err(panic) => panic.to_string(),
        };
        ServerError::Ended { task, reason }
    }
    .boxed_local()
}

impl Bound {
    /// Where the server listens, with the ports that were chosen for it.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Serves until the first of `signals`, then drains and returns.
    ///
    /// # Errors
    /// If a part of it ends by itself, or a second signal cuts the end short.
    pub async fn run(self, signals: impl Stream<Item = &'static str>) -> Result<(), ServerError> {
        let Self { addresses, draining, grace, webhook, others, tasks } = self;
        let mut signals = pin!(signals.fuse());
        tracing::info!("listening on https://{} (webhook)", addresses.webhook);
        tracing::info!("listening on http://{} (health)", addresses.health);
        tracing::info!("listening on http://{} (metrics)", addresses.metrics);
        let signal = tokio::select! {
            (ended, _, _) = select_all(tasks) => return Err(ended),
            Some(signal) = signals.next() => signal,
        };
        draining.set();
        tracing::info!(signal, grace = ?grace, "draining: not ready any more, answering on");
        tokio::select! {
            () = drain(&webhook, grace) => {}
            Some(signal) = signals.next() => return Err(ServerError::Cut { signal }),
        }
        for other in others {
            other.stop(false).await;
        }
        tracing::info!("drained");
        Ok(())
    }
}

async fn drain(webhook: &ServerHandle, grace: Duration) {
    tokio::time::sleep(grace).await;
    webhook.stop(true).await;
}
