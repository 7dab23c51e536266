//! Certificates: from files that may change, or made in memory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::ServeError;

/// How often files are read again, as controller-runtime does.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// The certificate of a server.
///
/// Files are read again every 10 s. A pair that has changed and is in order serves new connections
/// from then on; one that is not in order is logged and counted, and the previous one stays
/// (`a_certificate_is_replaced_when_its_files_change_and_kept_when_they_are_broken`).
#[derive(Debug, Clone)]
#[must_use]
pub struct Tls {
    source: Source,
    metrics: CertificateMetrics,
}

#[derive(Debug, Clone)]
enum Source {
    Files { certificate: PathBuf, key: PathBuf },
    SelfSigned(Vec<String>),
}

/// How often the files of certificates were read. Clones count together, so that one value can
/// count for several servers.
#[derive(Debug, Clone, Default)]
pub struct CertificateMetrics(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    reads: AtomicU64,
    errors: AtomicU64,
}

impl CertificateMetrics {
    /// How often files were read.
    pub fn reads_total(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// How often they could not be read, or were not in order.
    pub fn errors_total(&self) -> u64 {
        self.0.errors.load(Ordering::Relaxed)
    }
}

impl Tls {
    /// A chain of certificates and its key in two PEM files.
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let source = Source::Files { certificate: certificate.into(), key: key.into() };
        Self { source, metrics: CertificateMetrics::default() }
    }

    /// `tls.crt` and `tls.key` in a directory, as a Secret of Kubernetes is mounted.
    pub fn directory(directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref();
        Self::files(directory.join("tls.crt"), directory.join("tls.key"))
    }

    /// A certificate made in memory for these host names and addresses. No client can verify it.
    pub fn self_signed(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { source: Source::SelfSigned(names), metrics: CertificateMetrics::default() }
    }

    /// Counts in `metrics`.
    pub fn metrics(mut self, metrics: CertificateMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Loads the certificate for the first time.
    pub(crate) fn load(self, http2: bool) -> Result<(Arc<ServerConfig>, Certificates), ServeError> {
        let provider = Arc::new(ring::default_provider());
        let problem = |problem: String| {
            let file = match &self.source {
                Source::Files { certificate, .. } => certificate.display().to_string(),
                Source::SelfSigned(_) => "in memory".to_owned(),
            };
            ServeError::Certificate { file, problem }
        };
        let (pem, key) = match &self.source {
            Source::Files { certificate, key } => {
                let pem = read(certificate, key, &self.metrics).map_err(problem)?;
                let key = counted(pem.parse(&provider), &self.metrics).map_err(problem)?;
                (Some(pem), key)
            }
            Source::SelfSigned(names) => (None, self_signed(names, &provider).map_err(problem)?),
        };
        let resolver = Arc::new(Resolver(ArcSwap::from_pointee(key)));
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| problem(error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&resolver) as Arc<dyn ResolvesServerCert>);
        let (h2, h1) = (b"h2".to_vec(), b"http/1.1".to_vec());
        config.alpn_protocols = if http2 { vec![h2, h1] } else { vec![h1] };
        let files = match self.source {
            Source::Files { certificate, key } => pem.map(|pem| (certificate, key, pem)),
            Source::SelfSigned(_) => None,
        };
        Ok((Arc::new(config), Certificates { resolver, provider, files, metrics: self.metrics }))
    }
}

/// The certificate of new connections.
struct Resolver(ArcSwap<CertifiedKey>);

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// Reads files again.
pub(crate) struct Certificates {
    resolver: Arc<Resolver>,
    provider: Arc<CryptoProvider>,
    files: Option<(PathBuf, PathBuf, Pem)>,
    metrics: CertificateMetrics,
}

impl Certificates {
    /// Follows changes of the files, for as long as it is polled.
    pub(crate) async fn reload(&self) {
        let Some((certificate, key, served)) = &self.files else { return std::future::pending().await };
        let mut seen = served.clone();
        let mut ticks = interval(RELOAD_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let (certificate, key, metrics) = (certificate.clone(), key.clone(), self.metrics.clone());
            // The only error is a panic of the function.
            let Ok(pem) = tokio::task::spawn_blocking(move || read(&certificate, &key, &metrics)).await else {
                continue;
            };
            let parsed = match pem {
                Ok(pem) if pem == seen => continue,
                Ok(pem) => {
                    seen = pem;
                    counted(seen.parse(&self.provider), &self.metrics)
                }
                Err(problem) => Err(problem),
            };
            match parsed {
                Ok(key) => {
                    self.resolver.0.store(Arc::new(key));
                    tracing::info!("certificate replaced, because its files have changed");
                }
                Err(error) => tracing::error!(error, "certificate not replaced, because its files are not in order"),
            }
        }
    }
}

/// The contents of both files.
#[derive(Clone, PartialEq, Eq)]
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Pem {
    fn parse(&self, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
        let chain = CertificateDer::pem_slice_iter(&self.certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| format!("the certificate is not PEM: {error}"))?;
        if chain.is_empty() {
            return Err("the file has no certificate".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| format!("the key is not PEM: {error}"))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| error.to_string())
    }
}

fn read(certificate: &Path, key: &Path, metrics: &CertificateMetrics) -> Result<Pem, String> {
    metrics.0.reads.fetch_add(1, Ordering::Relaxed);
    let file = |path: &Path| std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
    counted(file(certificate).and_then(|certificate| Ok(Pem { certificate, key: file(key)? })), metrics)
}

/// Counts an error.
fn counted<T>(result: Result<T, String>, metrics: &CertificateMetrics) -> Result<T, String> {
    if result.is_err() {
        metrics.0.errors.fetch_add(1, Ordering::Relaxed);
    }
    result
}

fn self_signed(names: &[String], provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let text = |error: rcgen::Error| error.to_string();
    let mut params = CertificateParams::new(names.to_vec()).map_err(text)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, names.first().map_or("localhost", String::as_str));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(text)?;
    let certificate = params.self_signed(&key).map_err(text)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    CertifiedKey::from_der(vec![certificate.der().clone()], key, provider).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a new pair and returns the certificate's bytes.
    fn write_pair(directory: &Path) -> Vec<u8> {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(directory.join("tls.crt"), signed.cert.pem()).unwrap();
        std::fs::write(directory.join("tls.key"), signed.signing_key.serialize_pem()).unwrap();
        signed.cert.der().to_vec()
    }

    #[tokio::test(start_paused = true)]
    async fn a_certificate_is_replaced_when_its_files_change_and_kept_when_they_are_broken() {
        let directory = tempfile::tempdir().unwrap();
        let first = write_pair(directory.path());
        let metrics = CertificateMetrics::default();
        let (_, certificates) = Tls::directory(directory.path()).metrics(metrics.clone()).load(false).unwrap();
        let resolver = Arc::clone(&certificates.resolver);
        let served = || resolver.0.load().cert[0].to_vec();
        tokio::spawn(async move { certificates.reload().await });
        let pass = || tokio::time::sleep(RELOAD_INTERVAL + Duration::from_secs(1));
        assert!(served() == first);
        pass().await;
        assert_eq!((served() == first, metrics.reads_total(), metrics.errors_total()), (true, 2, 0));

        let second = write_pair(directory.path());
        pass().await;
        assert!(served() == second);

        // The key is that of another certificate, for the time between two writes of a pair.
        let key = std::fs::read(directory.path().join("tls.key")).unwrap();
        let third = write_pair(directory.path());
        let third_key = std::fs::read(directory.path().join("tls.key")).unwrap();
        std::fs::write(directory.path().join("tls.key"), key).unwrap();
        pass().await;
        assert_eq!((served() == second, metrics.errors_total()), (true, 1));
        std::fs::write(directory.path().join("tls.key"), third_key).unwrap();
        pass().await;
        assert!(served() == third);

        std::fs::write(directory.path().join("tls.crt"), "no certificate").unwrap();
        pass().await;
        std::fs::remove_file(directory.path().join("tls.crt")).unwrap();
        pass().await;
        assert_eq!((served() == third, metrics.errors_total()), (true, 3));
        let fourth = write_pair(directory.path());
        pass().await;
        assert!(served() == fourth);
    }

    #[test]
    fn a_certificate_in_memory_needs_no_files() {
        let (_, certificates) = Tls::self_signed(["localhost", "127.0.0.1"]).load(true).unwrap();
        assert_eq!(certificates.resolver.0.load().cert.len(), 1);
    }
}
