//! The flags of production, as kubebuilder's projects have them, and the manager that they
//! describe.

use std::path::PathBuf;

use steersman_http::{Listen, Tls};
use steersman_runtime::leader_election::LeaderElection;
use steersman_runtime::metrics::MetricsServer;
use steersman_runtime::{ManagerBuilder, Probes};

use crate::Error;

const METRICS: &str = "--metrics-bind-address";
const PROBES: &str = "--health-probe-bind-address";
/// The address that switches a server off.
const OFF: &str = "0";

/// Where an operator runs. The defaults of [`ServingFlags`] depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Environment {
    /// In a cluster: no metrics unless a flag asks for them, and probes on port 8081.
    Cluster,
    /// On the machine of a developer: plain metrics with the live page, and probes, on free ports
    /// of the loopback interface.
    Development,
}

/// What the operator serves, and whether one replica acts at a time.
#[derive(Clone, Debug, Default, clap::Args)]
#[non_exhaustive]
pub struct ServingFlags {
    /// Where to serve metrics: :PORT, IP:PORT, or 0 for not at all [default: 0; in development a
    /// free port on loopback]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_bind_address: Option<String>,
    /// Serve metrics with TLS, and only to clients that the API server permits [default: true;
    /// false in development]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub metrics_secure: Option<bool>,
    /// The directory of the certificate for metrics. Without it, one is made in memory
    #[arg(long, value_name = "DIR")]
    pub metrics_cert_path: Option<PathBuf>,
    /// The file of the certificate in that directory [default: tls.crt]
    #[arg(long, value_name = "FILE")]
    pub metrics_cert_name: Option<PathBuf>,
    /// The file of its key in that directory [default: tls.key]
    #[arg(long, value_name = "FILE")]
    pub metrics_cert_key: Option<PathBuf>,
    /// Where to serve /healthz and /readyz: :PORT, IP:PORT, or 0 for not at all [default: :8081;
    /// in development a free port on loopback]
    #[arg(long, value_name = "ADDRESS")]
    pub health_probe_bind_address: Option<String>,
    /// Serve the live page /debug beside the metrics, with the same protection [default: false;
    /// true in development]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub debug_pages: Option<bool>,
    /// Let one replica act at a time
    #[arg(long)]
    pub leader_elect: bool,
    /// The namespace of the Lease [default: that of the kubeconfig or of the Pod]
    #[arg(long, value_name = "NAMESPACE", requires = "leader_elect")]
    pub leader_election_namespace: Option<String>,
}

impl ServingFlags {
    /// Adds the servers and leader election, by the Lease `lease`, to a manager.
    pub(crate) fn add_to(
        &self,
        mut builder: ManagerBuilder,
        lease: &str,
        environment: Environment,
    ) -> Result<ManagerBuilder, Error> {
        let flag = |flag| move |error| Error::Flag { flag, source: Box::new(error) };
        if let Some(listen) = self.metrics(environment)? {
            let mut metrics = MetricsServer::new().listen(listen);
            if self.is_secure(environment) {
                metrics = metrics.secure(self.tls());
            }
            if self.has_debug_pages(environment) {
                metrics = metrics.debug_pages();
            }
            builder = builder.metrics(metrics).map_err(flag(METRICS))?;
        }
        if let Some(listen) = self.probes(environment)? {
            builder = builder.probes(Probes::new().listen(listen)).map_err(flag(PROBES))?;
        }
        if self.leader_elect {
            let mut election = LeaderElection::new(lease);
            if let Some(namespace) = &self.leader_election_namespace {
                election = election.namespace(namespace);
            }
            builder = builder.leader_election(election)?;
        }
        Ok(builder)
    }

    fn metrics(&self, environment: Environment) -> Result<Option<Listen>, Error> {
        let listen = listen(METRICS, self.metrics_bind_address.as_deref(), environment, OFF)?;
        if listen.is_none() && self.debug_pages == Some(true) {
            return Err(Error::Flag { flag: "--debug-pages", source: format!("it needs {METRICS}").into() });
        }
        Ok(listen)
    }

    fn probes(&self, environment: Environment) -> Result<Option<Listen>, Error> {
        listen(PROBES, self.health_probe_bind_address.as_deref(), environment, ":8081")
    }

    /// Whether the metrics have TLS, and a client needs a permission.
    pub(crate) fn is_secure(&self, environment: Environment) -> bool {
        self.metrics_secure.unwrap_or(environment == Environment::Cluster)
    }

    /// Whether the server of the metrics has the live page.
    pub(crate) fn has_debug_pages(&self, environment: Environment) -> bool {
        self.debug_pages.unwrap_or(environment == Environment::Development)
    }

    fn tls(&self) -> Tls {
        let file = |name: &Option<PathBuf>, usual: &str| name.clone().unwrap_or_else(|| usual.into());
        match &self.metrics_cert_path {
            Some(path) => Tls::files(
                path.join(file(&self.metrics_cert_name, "tls.crt")),
                path.join(file(&self.metrics_cert_key, "tls.key")),
            ),
            None => Tls::self_signed(["localhost"]),
        }
    }
}

/// The address of a flag; `None` for a server that is switched off.
fn listen(
    flag: &'static str,
    address: Option<&str>,
    environment: Environment,
    in_cluster: &str,
) -> Result<Option<Listen>, Error> {
    let usual = if environment == Environment::Development { "127.0.0.1:0" } else { in_cluster };
    let address = address.unwrap_or(usual);
    if address == OFF {
        return Ok(None);
    }
    address.parse().map(Some).map_err(|error| Error::Flag { flag, source: Box::new(error) })
}
