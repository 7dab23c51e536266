//! The server as clients reach it: with a client of ours, or with bytes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use steersman_apiserver::Serving;
use steersman_client::Client;
use steersman_testing::eventually_within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::PATIENCE;

#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    kubeconfig: Value,
    token: String,
    tls: TlsConnector,
}

impl Target {
    pub(crate) fn new(serving: &Serving) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(serving.authority().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            address: serving.url().strip_prefix("https://").unwrap().parse().unwrap(),
            kubeconfig: serde_json::from_str(serving.kubeconfig()).unwrap(),
            token: serving.token().to_owned(),
            tls: TlsConnector::from(Arc::new(config)),
        }
    }

    /// The same server through another network.
    pub(crate) fn through(&self, address: SocketAddr) -> Self {
        let mut kubeconfig = self.kubeconfig.clone();
        kubeconfig["clusters"][0]["cluster"]["server"] = format!("https://{address}").into();
        Self { address, kubeconfig, ..self.clone() }
    }

    pub(crate) async fn client(&self) -> Client {
        let kubeconfig: Kubeconfig = serde_json::from_value(self.kubeconfig.clone()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::builder(config).build().unwrap()
    }

    pub(crate) async fn tcp(&self) -> io::Result<TcpStream> {
        TcpStream::connect(self.address).await
    }

    pub(crate) async fn tls(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = self.tcp().await?;
        self.tls.connect(ServerName::from(self.address.ip()), stream).await
    }

    /// The head of a request that bears the token, with these header lines.
    pub(crate) fn head(&self, method: &str, path: &str, headers: &str) -> String {
        let token = &self.token;
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}\r\n")
    }

    /// A connection on which this request was sent.
    pub(crate) async fn send(&self, head: &str, body: &[u8]) -> io::Result<TlsStream<TcpStream>> {
        let mut stream = self.tls().await?;
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        stream.flush().await?;
        Ok(stream)
    }

    /// Sends a request on a connection of its own and returns the status of the response.
    pub(crate) async fn call(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> io::Result<u16> {
        let length = body.len();
        let headers = format!("Content-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n");
        let mut stream = self.send(&self.head(method, path, &headers), body).await?;
        let mut answer = Vec::new();
        // The connection may end without the TLS close message.
        let read = stream.read_to_end(&mut answer).await;
        let status = String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|status| status.parse().ok());
        status.ok_or_else(|| read.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    }
    /// [`call`](Self::call) until there is a response. The server may close a connection that has
    /// not authenticated yet to make room for another one. It has not read the request then.
    pub(crate) async fn insist(&self, method: &str, path: &str, body: &[u8]) -> u16 {
        let what = format!("{method} {path} is answered");
        eventually_within(PATIENCE, &what, || async { self.call(method, path, "application/json", body).await.ok() })
            .await
    }
}
