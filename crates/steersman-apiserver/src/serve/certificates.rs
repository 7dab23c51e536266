//! The credentials of one server: an authority in memory, its certificates, and a token.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{CipherSuite, RootCertStore, ServerConfig};

use super::ListenError;
use crate::request::identity::Identity;

/// A certificate and its key, as PEM.
pub(super) struct Signed {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Signs the certificates of one server and of its users. Its key is never written to disk.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Result<Self, ListenError> {
        let mut params = named("steersman-apiserver");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(credentials)?;
        CertifiedIssuer::self_signed(params, key).map(Self).map_err(credentials)
    }

    /// The authority's own certificate, as PEM.
    pub(super) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// A certificate that identifies this user, with the first of its groups.
    pub(super) fn user(&self, user: &Identity) -> Result<Signed, ListenError> {
        let mut params = named(user.name());
        if let Some(group) = user.groups().first() {
            params.distinguished_name.push(DnType::OrganizationName, group.as_str());
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let (certificate, key) = self.sign(params)?;
        Ok(Signed { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// TLS for a server at `host`. A client certificate must be of this authority, but it is
    /// optional: a client can send a token with the request instead.
    pub(super) fn tls(&self, host: IpAddr) -> Result<ServerConfig, ListenError> {
        let names = ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default.svc"].map(str::to_owned);
        let mut params = CertificateParams::new(names).map_err(credentials)?;
        params.subject_alt_names.push(rcgen::SanType::IpAddress(host));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let (certificate, key) = self.sign(params)?;

        let mut provider = ring::default_provider();
        // As in Go's servers: long responses cost much less than with the longer key.
        provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
        let provider = Arc::new(provider);
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).map_err(credentials)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(credentials)?;
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(credentials)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .map_err(credentials)?;
        tls.ignore_client_order = true;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(tls)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<(rcgen::Certificate, KeyPair), ListenError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let key = KeyPair::generate().map_err(credentials)?;
        let certificate = params.signed_by(&key, &self.0).map_err(credentials)?;
        Ok((certificate, key))
    }
}

/// A random token.
pub(super) fn token() -> Result<String, ListenError> {
    let mut bytes = [0; 32];
    ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| ListenError::Credentials("there is no randomness".to_owned()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn credentials(error: impl std::fmt::Display) -> ListenError {
    ListenError::Credentials(error.to_string())
}
