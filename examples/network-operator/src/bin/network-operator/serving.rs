//! The flags of production, as kubebuilder's projects have them, and the manager that they
//! describe.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use steersman::http::{Listen, Tls};
use steersman::runtime::Probes;
use steersman::runtime::leader_election::LeaderElection;
use steersman::runtime::metrics::MetricsServer;
use steersman::{Client, Manager};

/// The name of the Lease.
const LEASE: &str = "network-operator";
/// The address that switches a server off.
const OFF: &str = "0";

/// What the operator serves, and whether one replica acts at a time.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServingArgs {
    /// Where to serve metrics: :PORT, IP:PORT, or 0 for not at all [default: 0; a free port on
    /// loopback in the demonstration]
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind_address: Option<String>,
    /// Serve metrics with TLS, and only to clients that the API server permits [default: true;
    /// false in the demonstration]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    metrics_secure: Option<bool>,
    /// The directory of the certificate for metrics. Without it, one is made in memory
    #[arg(long, value_name = "DIR")]
    metrics_cert_path: Option<PathBuf>,
    /// The file of the certificate in that directory
    #[arg(long, value_name = "FILE", default_value = "tls.crt")]
    metrics_cert_name: PathBuf,
    /// The file of its key in that directory
    #[arg(long, value_name = "FILE", default_value = "tls.key")]
    metrics_cert_key: PathBuf,
    /// Where to serve /healthz and /readyz: :PORT, IP:PORT, or 0 for not at all [default: :8081; a
    /// free port on loopback in the demonstration]
    #[arg(long, value_name = "ADDRESS")]
    health_probe_bind_address: Option<String>,
    /// Serve the live page /debug beside the metrics, with the same protection [default: false;
    /// true in the demonstration]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    debug_pages: Option<bool>,
    /// Let one replica act at a time
    #[arg(long)]
    leader_elect: bool,
    /// The namespace of the Lease [default: that of the kubeconfig or of the Pod]
    #[arg(long, value_name = "NAMESPACE", requires = "leader_elect")]
    leader_election_namespace: Option<String>,
}

impl ServingArgs {
    /// The manager that the flags describe.
    pub(crate) fn manager(&self, client: Client, is_demo: bool) -> Result<Manager> {
        let mut builder = Manager::builder(client);
        let usual = if is_demo { "127.0.0.1:0" } else { OFF };
        if let Some(listen) = listen("--metrics-bind-address", self.metrics_bind_address.as_deref().unwrap_or(usual))? {
            let mut metrics = MetricsServer::new().listen(listen);
            if self.metrics_secure.unwrap_or(!is_demo) {
                metrics = metrics.secure(self.tls());
            }
            if self.debug_pages.unwrap_or(is_demo) {
                metrics = metrics.debug_pages();
            }
            builder = builder.metrics(metrics).context("--metrics-bind-address")?;
        } else {
            ensure!(self.debug_pages != Some(true), "--debug-pages needs --metrics-bind-address");
        }
        let usual = if is_demo { "127.0.0.1:0" } else { ":8081" };
        let address = self.health_probe_bind_address.as_deref().unwrap_or(usual);
        if let Some(listen) = listen("--health-probe-bind-address", address)? {
            builder = builder.probes(Probes::new().listen(listen)).context("--health-probe-bind-address")?;
        }
        if self.leader_elect {
            let mut election = LeaderElection::new(LEASE);
            if let Some(namespace) = &self.leader_election_namespace {
                election = election.namespace(namespace);
            }
            builder = builder.leader_election(election)?;
        }
        Ok(builder.build())
    }

    fn tls(&self) -> Tls {
        match &self.metrics_cert_path {
            Some(path) => Tls::files(path.join(&self.metrics_cert_name), path.join(&self.metrics_cert_key)),
            None => Tls::self_signed(["localhost"]),
        }
    }
}

/// The address of a flag; `None` for a server that is switched off.
fn listen(flag: &str, address: &str) -> Result<Option<Listen>> {
    if address == OFF {
        return Ok(None);
    }
    Ok(Some(address.parse::<Listen>().with_context(|| flag.to_owned())?))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use steersman_apiserver::ApiServer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::args::Args;

    fn manager(flags: &[&str], is_demo: bool) -> Result<Manager> {
        let args = Args::try_parse_from([&["network-operator"], flags].concat())?;
        let config = steersman::client::Config::new(http::Uri::from_static("http://embedded"));
        args.serving.manager(Client::builder(config).build_over(ApiServer::new())?, is_demo)
    }

    #[tokio::test]
    async fn the_demonstration_serves_plain_on_loopback_at_free_ports() {
        let manager = manager(&[], true).unwrap();
        for address in [manager.metrics_address(), manager.probes_address()] {
            assert!(address.is_some_and(|address| address.ip().is_loopback() && address.port() > 0), "{address:?}");
        }
        assert!(manager.leadership().is_none());
    }

    #[tokio::test]
    async fn in_a_cluster_the_flags_have_the_defaults_of_kubebuilder() {
        let manager = manager(&["--health-probe-bind-address=127.0.0.1:0", "--leader-elect"], false).unwrap();
        assert_eq!(manager.metrics_address(), None);
        assert!(manager.probes_address().is_some());
        assert!(manager.leadership().is_some());
        let off = super::tests::manager(&["--health-probe-bind-address=0"], false).unwrap();
        assert_eq!(off.probes_address(), None);
    }

    /// The beginning of the response of the metrics to a request without TLS.
    async fn plain_response(manager: Manager) -> String {
        let address = manager.metrics_address().unwrap();
        let running = tokio::spawn(async move { manager.start(std::future::pending()).await });
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut response = Vec::new();
        // A server with TLS may reset the connection.
        let _ = stream.read_to_end(&mut response).await;
        running.abort();
        String::from_utf8_lossy(&response).into_owned()
    }

    #[tokio::test]
    async fn metrics_in_a_cluster_have_tls_unless_a_flag_switches_it_off() {
        // Without probes: their usual port is fixed, and may be in use.
        let (address, no_probes) = ("--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=0");
        for flags in [[address, no_probes].as_slice(), &[address, no_probes, "--metrics-secure"]] {
            assert!(!plain_response(manager(flags, false).unwrap()).await.starts_with("HTTP/"), "{flags:?}");
        }
        let plain = manager(&[address, no_probes, "--metrics-secure=false"], false).unwrap();
        assert!(plain_response(plain).await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn a_wrong_flag_is_named() {
        for (flags, expected) in [
            (["--metrics-bind-address=8443"].as_slice(), "--metrics-bind-address"),
            (&["--health-probe-bind-address=here"], "--health-probe-bind-address"),
            (&["--debug-pages", "--health-probe-bind-address=0"], "--debug-pages needs --metrics-bind-address"),
            (&["--metrics-bind-address=127.0.0.1:0", "--metrics-cert-path=missing"], "--metrics-bind-address"),
            (&["--leader-election-namespace=a"], "--leader-elect"),
        ] {
            let error = format!("{:#}", manager(flags, false).expect_err("the flags are wrong"));
            assert!(error.contains(expected), "{flags:?}: {error}");
        }
    }
}
