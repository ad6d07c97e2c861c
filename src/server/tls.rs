//! TLS: the served certificate, and its exchange without a restart.
//!
//! Files are polled, not watched: kubelet renews a Secret volume by swapping a symlink, which raises no event on the
//! file. Only new connections see a new certificate.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use openssl::{
    asn1::{Asn1Time, Asn1TimeRef},
    error::ErrorStack,
    pkey::PKey,
    ssl::{
        AlpnError, ClientHelloResponse, SslAcceptor, SslAcceptorBuilder, SslContext, SslMethod, SslOptions,
        SslSessionCacheMode, select_next_proto,
    },
    x509::X509,
};

use super::metrics::Metrics;

/// How often the files are read.
pub const POLL: Duration = Duration::from_secs(10);

/// The one protocol that is offered. The API server speaks nothing else to a webhook, and HTTP/2 has had a class of
/// vulnerabilities to itself.
const HTTP_1_1: &[u8] = b"\x08http/1.1";

/// Where a certificate and its key are.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// PEM, the leaf first, then its intermediates.
    pub certificate: PathBuf,
    /// PEM, without a passphrase.
    pub private_key: PathBuf,
}

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The leaf, then its intermediates.
    pub certificate: Vec<u8>,
    /// The key of the leaf.
    pub private_key: Vec<u8>,
}

/// Why a certificate is not served.
#[derive(Debug, thiserror::Error)]
pub enum LoadCertificateError {
    /// A file cannot be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file changed again and again while it was read.
    #[error("failed to read {}: it changes while it is read", path.display())]
    Unsteady {
        /// The file.
        path: PathBuf,
    },
    /// The certificate is none.
    #[error("failed to parse the certificate in {place}")]
    Certificate {
        /// The file.
        place: String,
        /// Why.
        source: ErrorStack,
    },
    /// There is no certificate in the PEM.
    #[error("failed to find a certificate in {place}: it has no PEM block CERTIFICATE")]
    Empty {
        /// The file.
        place: String,
    },
    /// The key is none.
    #[error("failed to parse the private key in {place}")]
    PrivateKey {
        /// The file.
        place: String,
        /// Why.
        source: ErrorStack,
    },
    /// The two do not belong together.
    #[error("failed to use {certificate} with {private_key}: the key is not that of the certificate")]
    Mismatch {
        /// The certificate's file.
        certificate: String,
        /// The key's file.
        private_key: String,
    },
    /// OpenSSL refuses something that every certificate can.
    #[error("failed to set up TLS")]
    Setup(#[from] ErrorStack),
}

impl CertificateFiles {
    /// Reads both files as they are at one moment.
    ///
    /// # Errors
    /// If they cannot be read, or change all the time.
    pub fn read(&self) -> Result<Pair, LoadCertificateError> {
        let read =
            |path: &Path| fs::read(path).map_err(|source| LoadCertificateError::Read { path: path.into(), source });
        // A renewal between the two reads would pair the old certificate with the new key.
        for _ in 0..3 {
            let certificate = read(&self.certificate)?;
            let private_key = read(&self.private_key)?;
            if read(&self.certificate)? == certificate {
                return Ok(Pair { certificate, private_key });
            }
        }
        Err(LoadCertificateError::Unsteady { path: self.certificate.clone() })
    }

    /// Makes of a pair what a connection needs.
    fn load(&self, pair: &Pair) -> Result<Loaded, LoadCertificateError> {
        Loaded::new(pair, &self.certificate.display().to_string(), &self.private_key.display().to_string())
    }
}

/// What new connections are served with.
struct Loaded {
    context: SslContext,
    /// Unix time.
    not_after: i64,
}

impl Loaded {
    /// `places` is how errors name where the two come from.
    fn new(pair: &Pair, certificate: &str, private_key: &str) -> Result<Self, LoadCertificateError> {
        let chain = X509::stack_from_pem(&pair.certificate)
            .map_err(|source| LoadCertificateError::Certificate { place: certificate.to_owned(), source })?;
        let [leaf, intermediates @ ..] = chain.as_slice() else {
            return Err(LoadCertificateError::Empty { place: certificate.to_owned() });
        };
        // Without a callback OpenSSL asks the terminal for the passphrase of an encrypted key.
        let key = PKey::private_key_from_pem_callback(&pair.private_key, |_| Ok(0))
            .map_err(|source| LoadCertificateError::PrivateKey { place: private_key.to_owned(), source })?;
        if !leaf.public_key()?.public_eq(&key) {
            let (certificate, private_key) = (certificate.to_owned(), private_key.to_owned());
            return Err(LoadCertificateError::Mismatch { certificate, private_key });
        }
        let mut builder = settings()?;
        builder.set_certificate(leaf)?;
        for intermediate in intermediates {
            builder.add_extra_chain_cert(intermediate.clone())?;
        }
        builder.set_private_key(&key)?;
        builder.check_private_key()?;
        Ok(Self { context: builder.build().into_context(), not_after: unix_time(leaf.not_after())? })
    }
}

/// TLS 1.2 and 1.3 with Mozilla's intermediate ciphers, HTTP/1.1 only.
///
/// ALPN belongs to the context, not to the connection, so each context needs the callback. No session tickets: the API
/// server never resumes, and a ticket would carry on with a certificate that is no longer served.
fn settings() -> Result<SslAcceptorBuilder, ErrorStack> {
    let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server())?;
    builder.set_alpn_select_callback(|_, offered| select_next_proto(HTTP_1_1, offered).ok_or(AlpnError::NOACK));
    builder.set_options(SslOptions::NO_TICKET);
    builder.set_num_tickets(0)?;
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    Ok(builder)
}

fn unix_time(time: &Asn1TimeRef) -> Result<i64, ErrorStack> {
    let since = Asn1Time::from_unix(0)?.diff(time)?;
    Ok(i64::from(since.days) * 86_400 + i64::from(since.secs))
}

/// The certificate that new connections get.
pub struct Certificates(ArcSwap<Loaded>);

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("not_after", &self.not_after()).finish_non_exhaustive()
    }
}

impl Certificates {
    /// Serves a pair that was made here.
    ///
    /// # Errors
    /// If it is no pair.
    pub fn of_pair(pair: &Pair) -> Result<Arc<Self>, LoadCertificateError> {
        Ok(Arc::new(Self(ArcSwap::from_pointee(Loaded::new(pair, "the made certificate", "the made key")?))))
    }

    /// When the served certificate expires, in Unix time.
    #[must_use]
    pub fn not_after(&self) -> i64 {
        self.0.load().not_after
    }

    /// What actix binds with. It keeps one acceptor for ever, so the exchange happens inside of the handshake.
    ///
    /// # Errors
    /// If OpenSSL refuses the settings.
    pub fn acceptor(self: &Arc<Self>) -> Result<SslAcceptorBuilder, ErrorStack> {
        let mut builder = settings()?;
        let certificates = Arc::clone(self);
        builder.set_client_hello_callback(move |ssl, _| {
            ssl.set_ssl_context(&certificates.0.load().context)?;
            Ok(ClientHelloResponse::SUCCESS)
        });
        Ok(builder)
    }
}

/// Follows the files.
pub struct Reloader {
    files: CertificateFiles,
    served: Arc<Certificates>,
    loaded: Pair,
    /// What was logged last, so that each failure is told once.
    told: String,
}

impl Reloader {
    /// Loads the files for the first time.
    ///
    /// # Errors
    /// If they are not a certificate and its key.
    pub fn start(files: CertificateFiles) -> Result<Self, LoadCertificateError> {
        let loaded = files.read()?;
        let served = Arc::new(Certificates(ArcSwap::from_pointee(files.load(&loaded)?)));
        Ok(Self { files, served, loaded, told: String::new() })
    }

    /// What is served.
    #[must_use]
    pub fn served(&self) -> Arc<Certificates> {
        Arc::clone(&self.served)
    }

    /// Polls for ever.
    pub async fn run(mut self, every: Duration, metrics: &Metrics) {
        loop {
            tokio::time::sleep(every).await;
            self.poll(metrics);
        }
    }

    fn poll(&mut self, metrics: &Metrics) {
        match self.exchange() {
            Ok(None) => self.told.clear(),
            Ok(Some(not_after)) => {
                self.told.clear();
                metrics.serves_until(not_after);
                tracing::info!(not_after, "serving the new certificate in {}", self.files.certificate.display());
            }
            Err(error) => {
                metrics.reload_failed();
                let error = crate::text::chain(&error);
                if error != self.told {
                    tracing::error!(error, "failed to reload the certificate; the last good one is still served");
                    self.told = error;
                }
            }
        }
    }

    /// Serves what the files hold, if that is new; says when it expires.
    fn exchange(&mut self) -> Result<Option<i64>, LoadCertificateError> {
        let pair = self.files.read()?;
        if pair == self.loaded {
            return Ok(None);
        }
        let loaded = self.files.load(&pair)?;
        let not_after = loaded.not_after;
        self.served.0.store(Arc::new(loaded));
        self.loaded = pair;
        Ok(Some(not_after))
    }
}
