//! The flags.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use ipnet::IpNet;
use k8s_openapi::jiff::SignedDuration;
use network_operator::{ClusterId, Error, Pool};

use crate::serving::ServingArgs;

/// Keeps the networks of OpenStack Neutron equal to Network objects in Kubernetes
///
/// Without flags it runs a demonstration: it starts its own API server and its own Neutron, applies
/// a few samples, changes them, and prints what happens until Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "network-operator")]
pub(crate) struct Args {
    /// The address of the API server, instead of the one in the kubeconfig
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,
    /// The kubeconfig of the cluster
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Use the cluster that this Pod runs in
    #[arg(long, conflicts_with_all = ["master", "kubeconfig"])]
    pub(crate) in_cluster: bool,

    /// The address of a Neutron without authentication
    #[arg(long, value_name = "URL", group = "cloud")]
    pub(crate) neutron_url: Option<String>,
    /// The Neutron of this cloud in clouds.yaml
    #[arg(long, value_name = "NAME", group = "cloud")]
    pub(crate) os_cloud: Option<String>,
    /// The Neutron that OS_AUTH_URL, OS_USERNAME and the other OS_ variables name
    #[arg(long, group = "cloud")]
    pub(crate) os_env: bool,
    /// The project to create in, with --neutron-url
    #[arg(long, value_name = "ID", default_value = "kubernetes")]
    project_id: String,

    /// Compare with Neutron again after this time [default: 5m; 10s in the demonstration]
    #[arg(long, value_name = "TIME", value_parser = time)]
    resync: Option<Duration>,
    /// How many Networks to reconcile at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) workers: usize,
    /// The id of this cluster in Neutron [default: the uid of the namespace kube-system]
    #[arg(long, value_name = "ID")]
    pub(crate) cluster_id: Option<ClusterId>,
    /// Give every Deployment a Network, not only those labelled samplecrd.k8s.io/network=true
    #[arg(long)]
    pub(crate) all_deployments: bool,
    /// The pool of addresses for Deployments
    #[arg(long, value_name = "CIDR", default_value = "10.100.0.0/16")]
    cidr_pool: IpNet,
    /// The prefix length of the CIDR that one Deployment gets
    #[arg(long, value_name = "N", default_value_t = 24)]
    cidr_prefix: u8,

    #[command(flatten)]
    pub(crate) serving: ServingArgs,

    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<Duration>,
    /// Print the definition of Network as YAML, and do nothing else
    #[arg(long)]
    pub(crate) print_crd: bool,
}

impl Args {
    /// Whether it uses a cluster, instead of a server of its own.
    pub(crate) fn names_a_cluster(&self) -> bool {
        self.master.is_some() || self.kubeconfig.is_some() || self.in_cluster
    }

    pub(crate) fn resync(&self) -> Duration {
        let usual = if self.names_a_cluster() { Duration::from_secs(300) } else { Duration::from_secs(10) };
        self.resync.unwrap_or(usual)
    }

    /// The project to create networks in. A login has a project of its own.
    pub(crate) fn project_id(&self) -> Option<String> {
        let logs_in = self.os_env || self.os_cloud.is_some();
        (!logs_in).then(|| self.project_id.clone())
    }

    pub(crate) fn pool(&self) -> Result<Pool, Error> {
        Pool::new(self.cidr_pool, self.cidr_prefix)
    }
}

/// A duration such as `90s`, `5m` or `500ms`.
fn time(text: &str) -> Result<Duration, String> {
    let time: SignedDuration = text.parse().map_err(|_| "use a duration such as 90s, 5m or 500ms".to_owned())?;
    time.try_into().map_err(|_| "a duration cannot be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from([&["network-operator"], flags].concat())
    }

    #[test]
    fn with_no_flags_it_brings_its_own_cluster_and_looks_often() {
        let args = args(&[]).unwrap();
        assert!(!args.names_a_cluster());
        assert_eq!(args.resync(), Duration::from_secs(10));
        assert_eq!(args.duration, None);
        assert!(args.pool().is_ok());
    }

    #[test]
    fn times_are_written_with_their_unit() {
        let args = args(&["--resync", "90s", "--duration", "1500ms"]).unwrap();
        assert_eq!((args.resync(), args.duration), (Duration::from_secs(90), Some(Duration::from_millis(1500))));
        for wrong in ["90", "soon", "-1s"] {
            assert!(super::time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn there_is_one_neutron_and_one_cluster() {
        assert!(args(&["--os-env", "--neutron-url", "http://neutron"]).is_err());
        assert!(args(&["--in-cluster", "--kubeconfig", "config"]).is_err());
        assert!(
            args(&["--master", "https://api", "--kubeconfig", "config"]).is_ok(),
            "as in Go's BuildConfigFromFlags"
        );
    }
}
