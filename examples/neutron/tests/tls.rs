//! Neutron behind TLS.

use std::path::PathBuf;
use std::sync::Arc;

use neutron::{Auth, Cloud, Error, NetworkFilter, Neutron};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// Lists networks from a server with a certificate of its own, which the client trusts if it is
/// `trusted`.
async fn list(trusted: bool) -> Result<usize, Error> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, cert.pem()).unwrap();

    let config = ServerConfig::builder_with_provider(Arc::new(tokio_rustls::rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], PrivatePkcs8KeyDer::from(signing_key.serialize_der()).into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let serving = async {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let body = r#"{"networks": [{"id": "x"}]}"#;
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    };
    tokio::select! {
        found = async { client(endpoint, trusted.then_some(ca_file))?.networks(&NetworkFilter::default()).await } => {
            Ok(found?.len())
        }
        () = serving => unreachable!("it serves for ever"),
    }
}

fn client(endpoint: String, ca_file: Option<PathBuf>) -> Result<Neutron, Error> {
    Neutron::of(Cloud { endpoint: Some(endpoint), ca_file, ..Cloud::new(Auth::None) })
}

#[tokio::test]
async fn a_certificate_of_the_authority_that_was_named_is_trusted() {
    assert_eq!(list(true).await.unwrap(), 1);
}

#[tokio::test]
async fn a_certificate_without_a_known_issuer_is_not_trusted() {
    let error = list(false).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_file_without_certificates_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    for text in [None, Some(""), Some("no certificate")] {
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let neutron = client("https://localhost:1".to_owned(), Some(path.clone())).unwrap();
        let error = neutron.networks(&NetworkFilter::default()).await.unwrap_err();
        assert!(matches!(&error, Error::File { path: named, .. } if *named == path), "{error:?}");
    }
}
