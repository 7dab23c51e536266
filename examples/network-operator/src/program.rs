use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::jiff::SignedDuration;
use neutron::{Auth, Neutron};
use serde_json::json;
use steersman::Manager;
use steersman::manifests::crd::crd;
use steersman_program::Program;

use crate::{ClusterId, Error, Network, Operator, Options, Pool};

/// The Secret with the credentials for OpenStack: the variables of its client.
const SECRET: &str = "openstack";
/// How often each Network is compared with Neutron in a cluster.
const RESYNC: Duration = Duration::from_secs(300);

/// The flags of this operator, beside those of every operator.
#[derive(Clone, Debug, clap::Args)]
#[non_exhaustive]
pub struct Flags {
    /// Use the cluster that this Pod runs in
    #[arg(long, conflicts_with_all = ["master", "kubeconfig"])]
    pub in_cluster: bool,

    /// The address of a Neutron without authentication
    #[arg(long, value_name = "URL", group = "cloud")]
    pub neutron_url: Option<String>,
    /// The Neutron of this cloud in clouds.yaml
    #[arg(long, value_name = "NAME", group = "cloud")]
    pub os_cloud: Option<String>,
    /// The Neutron that OS_AUTH_URL, OS_USERNAME and the other OS_ variables name
    #[arg(long, group = "cloud")]
    pub os_env: bool,
    /// The project to create in, with --neutron-url
    #[arg(long, value_name = "ID", default_value = "kubernetes")]
    pub project_id: String,

    /// Compare with Neutron again after this time [default: 5m; 10s in the demonstration]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub resync: Option<Duration>,
    /// How many Networks to reconcile at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub workers: usize,
    /// The id of this cluster in Neutron [default: the uid of the namespace kube-system]
    #[arg(long, value_name = "ID")]
    pub cluster_id: Option<ClusterId>,
    /// Give every Deployment a Network, not only those labelled samplecrd.k8s.io/network=true
    #[arg(long)]
    pub all_deployments: bool,
    /// The pool of addresses for Deployments
    #[arg(long, value_name = "CIDR", default_value = "10.100.0.0/16")]
    pub cidr_pool: IpNet,
    /// The prefix length of the CIDR that one Deployment gets
    #[arg(long, value_name = "N", default_value_t = 24)]
    pub cidr_prefix: u8,

    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
}

impl Flags {
    /// The Neutron that the flags name. Credentials in the environment are used only if a flag asks
    /// for them.
    pub fn neutron(&self) -> Result<Option<Neutron>, Error> {
        Ok(if let Some(url) = &self.neutron_url {
            Some(Neutron::new(url, Auth::None)?)
        } else if let Some(name) = &self.os_cloud {
            Some(Neutron::from_clouds_yaml(name)?)
        } else if self.os_env {
            Some(Neutron::from_env()?)
        } else {
            None
        })
    }

    /// As [`neutron`](Self::neutron). Without one, the operator has nothing to do.
    pub fn required_neutron(&self) -> Result<Neutron, Error> {
        let missing = || Error::Options("no Neutron given: use --neutron-url, --os-cloud or --os-env".to_owned());
        self.neutron()?.ok_or_else(missing)
    }

    /// The options of the operator. `resync` is the period if no flag has one.
    pub fn options(&self, resync: Duration) -> Result<Options, Error> {
        // A login has a project of its own.
        let logs_in = self.os_env || self.os_cloud.is_some();
        Ok(Options {
            cluster_id: self.cluster_id.clone(),
            project_id: (!logs_in).then(|| self.project_id.clone()),
            resync: self.resync.unwrap_or(resync),
            workers: self.workers,
            all_deployments: self.all_deployments,
            pool: Pool::new(self.cidr_pool, self.cidr_prefix)?,
        })
    }
}

/// The operator as a program: its flags, its CRD, its manifests.
pub fn program() -> Program<Flags> {
    let mut args = vec!["--in-cluster", "--os-env", "--leader-elect"];
    args.extend(["--metrics-bind-address=:8443", "--health-probe-bind-address=:8081"]);
    Program::with_flags(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), set_up)
        .about(
            "Keeps the networks of OpenStack Neutron equal to Network objects in Kubernetes\n\n\
             Without flags it runs a demonstration: it starts its own API server and its own Neutron, applies a few \
             samples, changes them, and prints what happens until Ctrl-C.",
        )
        .args(args)
        .crd(crd::<Network>)
        .samples(include_str!("../samples/blue.yaml"))
        .samples(include_str!("../samples/green.yaml"))
        .samples(include_str!("../samples/web.yaml"))
        .operator(|operator| {
            operator.env_from.push(json!({"secretRef": {"name": SECRET}}));
            operator.resources = json!({"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}});
        })
}

/// Adds the controllers to the manager.
fn set_up(manager: &Manager, flags: &Flags) -> Result<(), Error> {
    let neutron = if manager.client().live().is_offline() {
        // The manifests are printed where no credentials are, and nothing is sent.
        Neutron::new("http://neutron.invalid", Auth::None)?
    } else {
        flags.required_neutron()?
    };
    Operator::with_manager(manager.clone(), neutron, flags.options(RESYNC)?)?;
    Ok(())
}

/// A duration such as `90s`, `5m` or `500ms`.
fn time(text: &str) -> Result<Duration, String> {
    let time: SignedDuration = text.parse().map_err(|_| "use a duration such as 90s, 5m or 500ms".to_owned())?;
    time.try_into().map_err(|_| "a duration cannot be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use steersman_program::{Invocation, RunFlags};

    use super::*;

    fn flags(arguments: &[&str]) -> Result<RunFlags<Flags>, String> {
        let arguments = [&["network-operator"], arguments].concat();
        match program().try_parse_from(arguments).map_err(|error| error.to_string())? {
            Invocation::Run(flags) => Ok(*flags),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn with_no_flags_it_names_no_cluster_and_uses_the_usual_period() {
        let flags = flags(&[]).unwrap();
        assert!(!flags.own.in_cluster && !flags.cluster.are_set());
        let options = flags.own.options(Duration::from_secs(10)).unwrap();
        assert_eq!((options.resync, flags.own.duration), (Duration::from_secs(10), None));
    }

    #[test]
    fn times_are_written_with_their_unit() {
        let flags = flags(&["--resync", "90s", "--duration", "1500ms"]).unwrap().own;
        assert_eq!((flags.resync, flags.duration), (Some(Duration::from_secs(90)), Some(Duration::from_millis(1500))));
        for wrong in ["90", "soon", "-1s"] {
            assert!(super::time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn there_is_one_neutron_and_one_cluster() {
        assert!(flags(&["--os-env", "--neutron-url", "http://neutron"]).is_err());
        assert!(flags(&["--in-cluster", "--kubeconfig", "config"]).is_err());
        assert!(
            flags(&["--master", "https://api", "--kubeconfig", "config"]).is_ok(),
            "as in Go's BuildConfigFromFlags"
        );
    }

    #[test]
    fn a_cluster_without_a_neutron_is_refused() {
        let error = flags(&["--in-cluster"]).unwrap().own.required_neutron().unwrap_err().to_string();
        assert!(error.contains("--neutron-url, --os-cloud or --os-env"), "{error}");
    }
}
