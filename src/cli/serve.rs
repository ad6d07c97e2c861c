//! `serve`: the webhook.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::logging::LogArgs;
use crate::{
    config,
    fleet::{
        ClusterApi, Fleet, ToldBy, manifests,
        watch::{self, core_provider},
    },
    server::{
        self, Addresses, Certificate, Setup,
        body::Limits,
        shutdown,
        tls::{CertificateFiles, POLL},
    },
};

/// Where the manifests of webhook-config mount the certificate.
const MOUNTED: [&str; 2] = ["/etc/capi-version-guard/tls/tls.crt", "/etc/capi-version-guard/tls/tls.key"];

/// As typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    cluster_api: ClusterApiArgs,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// Configuration (YAML): the mode of each rule
    #[arg(long, value_name = "FILE", help_heading = "Rules")]
    config: Option<PathBuf>,
    #[command(flatten)]
    shutdown: ShutdownArgs,
    #[command(flatten)]
    logs: LogArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Fleet")]
struct FleetArgs {
    /// Read Clusters and ClusterClasses from the YAML and JSON files of this directory instead of an API server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context"])]
    fleet: Option<PathBuf>,
    /// Reach the API server by this file (default: as kubectl does, else as a Pod does)
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig (default: its current one)
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cluster API")]
struct ClusterApiArgs {
    /// The release that is installed, such as v1.13.2 (default: what clusterctl's inventory or Cluster API's operator says,
    /// else the newest that this program knows)
    #[arg(long, value_name = "VERSION", value_parser = release)]
    cluster_api_version: Option<ClusterApi>,
    /// Follow control plane objects of at most this many kinds
    #[arg(long, value_name = "COUNT", default_value_t = watch::MAX_KINDS)]
    max_control_plane_kinds: usize,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Addresses (port 0 takes a free one, which is logged)")]
struct ListenArgs {
    /// Where to serve the webhook, over HTTPS
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9443", value_parser = address)]
    listen: SocketAddr,
    /// Where to serve /healthz and /readyz, over HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9440", value_parser = address)]
    health_listen: SocketAddr,
    /// Where to serve /metrics, over HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080", value_parser = address)]
    metrics_listen: SocketAddr,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Certificate")]
struct CertificateArgs {
    /// Certificate (PEM, the leaf first); read again every 10 s. Default: /etc/capi-version-guard/tls/tls.crt; with
    /// --fleet one is made at start
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its private key (PEM). Default: /etc/capi-version-guard/tls/tls.key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Write the CA (PEM) of the certificate that is made with --fleet to this file
    #[arg(long, value_name = "FILE", requires = "fleet", conflicts_with = "tls_cert_file")]
    write_ca: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Shutdown")]
struct ShutdownArgs {
    /// After SIGTERM or SIGINT, unready, still accept connections for this many seconds, until no node sends new ones
    #[arg(long, value_name = "SECONDS", default_value_t = shutdown::GRACE.as_secs())]
    shutdown_grace: u64,
}

/// `IP:PORT`, or `:PORT` for all addresses, as in Go's programs.
fn address(text: &str) -> Result<SocketAddr, std::net::AddrParseError> {
    if text.starts_with(':') { format!("0.0.0.0{text}").parse() } else { text.parse() }
}

/// A release of Cluster API, with or without the `v`.
fn release(text: &str) -> Result<ClusterApi, &'static str> {
    ClusterApi::of_version(text, ToldBy::Flag)
        .ok_or("it is not a release of Cluster API; write it in full, such as v1.13.2")
}

/// Where the fleet comes from.
enum Source {
    Manifests(PathBuf),
    Kubernetes { kubeconfig: Option<PathBuf>, context: Option<String> },
}

impl FleetArgs {
    fn checked(self) -> Source {
        let Self { fleet, kubeconfig, context } = self;
        fleet.map_or(Source::Kubernetes { kubeconfig, context }, Source::Manifests)
    }
}

impl ListenArgs {
    fn checked(self) -> Addresses {
        let Self { listen: webhook, health_listen: health, metrics_listen: metrics } = self;
        Addresses { webhook, health, metrics }
    }
}

impl CertificateArgs {
    fn checked(self, source: &Source) -> Certificate {
        let Self { tls_cert_file, tls_private_key_file, write_ca } = self;
        match (tls_cert_file.zip(tls_private_key_file), source) {
            (Some((certificate, private_key)), _) => Certificate::Files(CertificateFiles { certificate, private_key }),
            (None, Source::Manifests(_)) => Certificate::SelfMade { write_ca },
            (None, Source::Kubernetes { .. }) => {
                let [certificate, private_key] = MOUNTED.map(PathBuf::from);
                Certificate::Files(CertificateFiles { certificate, private_key })
            }
        }
    }
}

impl ShutdownArgs {
    fn checked(self) -> Duration {
        let Self { shutdown_grace } = self;
        Duration::from_secs(shutdown_grace)
    }
}

/// Serves until a signal ends it.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let Args { fleet, cluster_api, listen, certificate, config, shutdown, logs } = args;
    let ClusterApiArgs { cluster_api_version, max_control_plane_kinds } = cluster_api;
    logs.init()?;
    let source = fleet.checked();
    let certificate = certificate.checked(&source);
    let config = config.as_deref().map(config::load).transpose()?.unwrap_or_default();
    actix_web::rt::System::new().block_on(async {
        let signals = shutdown::signals().context("failed to catch signals")?;
        let (fleet, kubernetes) = match source {
            Source::Manifests(directory) => (Fleet::from(manifests::load(&directory)?), None),
            Source::Kubernetes { kubeconfig, context } => {
                (Fleet::default(), Some(kubernetes(kubeconfig, context).await?))
            }
        };
        if let Some(release) = cluster_api_version {
            core_provider::say(&release);
            fleet.set_cluster_api(release);
        }
        let bound = server::start(Setup {
            fleet: Arc::new(fleet),
            kubernetes,
            max_control_plane_kinds,
            config,
            listen: listen.checked(),
            certificate,
            certificate_poll: POLL,
            limits: Limits::default(),
            grace: shutdown.checked(),
        })?;
        Ok(bound.run(signals).await?)
    })
}

async fn kubernetes(kubeconfig: Option<PathBuf>, context: Option<String>) -> anyhow::Result<kube::Config> {
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let mut config = match kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(&file)
                .with_context(|| format!("failed to read the kubeconfig {}", file.display()))?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .with_context(|| format!("failed to use the kubeconfig {}", file.display()))?
        }
        None if options.context.is_some() => {
            kube::Config::from_kubeconfig(&options).await.context("failed to use the kubeconfig")?
        }
        None => kube::Config::infer().await.context("failed to find an API server")?,
    };
    give_a_name(&mut config);
    Ok(config)
}

/// Names the API server where its address is IPv6: OpenSSL takes `[::1]`, brackets and all, for a DNS name, which no
/// certificate has. Every API server's certificate has the name that Pods know it by.
fn give_a_name(config: &mut kube::Config) {
    if config.tls_server_name.is_none() && config.cluster_url.host().is_some_and(|host| host.starts_with('[')) {
        config.tls_server_name = Some("kubernetes.default.svc".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::give_a_name;

    #[test]
    fn only_an_ipv6_address_without_a_name_is_given_one() {
        let named = |url: &str, name: Option<&str>| {
            let mut config = kube::Config::new(url.parse().expect("a URL"));
            config.tls_server_name = name.map(str::to_owned);
            give_a_name(&mut config);
            config.tls_server_name
        };
        assert_eq!(named("https://[fd00::1]:6443", None).as_deref(), Some("kubernetes.default.svc"));
        assert_eq!(named("https://[::1]", Some("mine")).as_deref(), Some("mine"));
        assert_eq!(named("https://10.0.0.1:6443", None), None);
        assert_eq!(named("https://kubernetes.default.svc", None), None);
    }
}
