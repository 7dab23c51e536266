//! The flags of an operator.

mod log;
mod serving;
mod watch;

use std::path::PathBuf;

use steersman_client::{Config, config_from_flags};

use crate::Error;

pub use log::{LogFlags, LogFormat};
pub use serving::{Environment, ServingFlags};
pub use watch::WatchFlags;

#[cfg(feature = "dev")]
pub(crate) use log::from_environment;
pub(crate) use watch::{VARIABLE as WATCH_NAMESPACE, limited};

/// The flags of a program that has none of its own.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct NoFlags {}

/// Which cluster to use. Without a flag it is that of the environment: the variable `KUBECONFIG`,
/// `~/.kube/config`, or the service account of the Pod.
#[derive(Clone, Debug, Default, clap::Args)]
#[non_exhaustive]
pub struct ClusterFlags {
    /// The kubeconfig of the cluster [default: KUBECONFIG, ~/.kube/config, or the Pod's account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The address of the API server, instead of the one in the kubeconfig
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
}

impl ClusterFlags {
    /// Whether a flag names a cluster.
    pub fn are_set(&self) -> bool {
        self.kubeconfig.is_some() || self.master.is_some()
    }

    /// The configuration of the cluster.
    ///
    /// # Errors
    ///
    /// The flags or the environment name no cluster, or a file of theirs is invalid.
    pub async fn config(&self) -> Result<Config, Error> {
        Ok(config_from_flags(self.master.as_deref(), self.kubeconfig.as_deref()).await?)
    }
}

/// All flags of an operator. `A` has those that the program adds.
#[derive(Clone, Debug, clap::Args)]
#[non_exhaustive]
pub struct RunFlags<A: clap::Args> {
    /// The flags of the program itself.
    #[command(flatten)]
    pub own: A,
    /// Which cluster to use.
    #[command(flatten)]
    pub cluster: ClusterFlags,
    /// Which namespaces to watch.
    #[command(flatten)]
    pub watch: WatchFlags,
    /// What the operator serves, and leader election.
    #[command(flatten)]
    pub serving: ServingFlags,
    /// The log.
    #[command(flatten)]
    pub log: LogFlags,
}
