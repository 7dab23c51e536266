use std::fmt;
use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use neutron::Neutron;
use steersman::predicate::GenerationChanged;
use steersman::runtime::Controller;
use steersman::runtime::Verb;
use steersman::workqueue::ItemExponentialFailureRateLimiter;
use steersman::{Client, Manager, kind};

use crate::cluster::{self, Cluster};
use crate::deployments::{DeploymentReconciler, NETWORK_LABEL};
use crate::provider::Provider;
use crate::reconciler::NetworkReconciler;
use crate::sweep::{Sweep, uid_index};
use crate::timings::Timings;
use crate::{ClusterId, Error, Network, Pool};

/// How long a key waits after its first failure. It doubles each time.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
/// The longest wait of a key: after an outage of Neutron, every key is retried within this time.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// The options of the operator.
#[derive(Clone, Debug)]
pub struct Options {
    /// The id of this cluster in Neutron. Default: the uid of its namespace `kube-system`, which
    /// the first reconcile reads.
    pub cluster_id: Option<ClusterId>,
    /// The project to create networks in, if there is no login.
    pub project_id: Option<String>,
    /// Each Network is compared with Neutron again after this time, also without a change.
    pub resync: Duration,
    /// How many Networks are reconciled at the same time.
    pub workers: usize,
    /// Whether each Deployment gets a Network, or only those with the label [`NETWORK_LABEL`]. When
    /// it is switched off, the Networks of the others are deleted.
    pub all_deployments: bool,
    /// The pool of addresses for Deployments.
    pub pool: Pool,
}

/// The operator: a manager with a controller of Networks, one of Deployments, and the sweep.
#[derive(Debug)]
pub struct Operator {
    manager: Manager,
    controllers: [Controller; 2],
    timings: Timings,
}

impl Operator {
    /// Builds the operator on a manager of its own, which serves neither metrics nor probes.
    /// Nothing runs yet.
    pub fn new(client: Client, neutron: Neutron, options: Options) -> Result<Self, Error> {
        Self::with_manager(Manager::new(client), neutron, options)
    }

    /// Builds the operator on a manager. Nothing runs yet.
    pub fn with_manager(manager: Manager, neutron: Neutron, options: Options) -> Result<Self, Error> {
        let Options { cluster_id, project_id, resync, workers, all_deployments, pool } = options;
        if resync.is_zero() {
            return Err(Error::Options("the resync period must be above zero".to_owned()));
        }
        let live = manager.client().live().clone();
        let cluster = kind::<Namespace>().fields(format!("metadata.name={}", cluster::NAMESPACE));
        manager.uses(cluster.live([Verb::Get]))?;
        let provider = Provider { neutron, cluster: Cluster::new(cluster_id, live), project_id };
        let timings = Timings::default();
        let limiter = || ItemExponentialFailureRateLimiter::new(BACKOFF_FIRST, BACKOFF_MAX);

        let ((by_uid, uids), (by_block, blocks)) = (uid_index(), pool.index());
        let networks = kind::<Network>().index(by_uid, uids).index(by_block, blocks).predicate(GenerationChanged);
        // A network in Neutron is deleted only after a look at the API server.
        let networks = networks.finalizers().writes_status([Verb::Update]).live([Verb::Get, Verb::List]);
        let networks = manager
            .controller(networks)
            .max_concurrent(workers)
            .rate_limiter(limiter())
            .layer(timings.clone())
            .complete(NetworkReconciler::new(provider.clone(), resync)?)?;

        let wanted = kind::<Deployment>().predicate(GenerationChanged);
        let wanted = wanted.writes_status([Verb::Update]).live([Verb::Get]);
        let wanted = if all_deployments { wanted } else { wanted.labels(format!("{NETWORK_LABEL}=true")) };
        // One worker, so that each choice of addresses sees the one before.
        let deployments = manager
            .controller(wanted)
            .owns(kind::<Network>().predicate(GenerationChanged).writes([Verb::Create, Verb::Delete]))
            .records_events()
            .rate_limiter(limiter())
            .layer(timings.clone())
            .complete(DeploymentReconciler { all: all_deployments, pool, resync })?;

        let sweep = Sweep { provider, client: manager.client().clone(), every: resync };
        // It deletes networks, so only the leader sweeps.
        manager.add_elected("sweep", move |stop| sweep.clone().run(stop))?;
        Ok(Self { manager, controllers: [networks, deployments], timings })
    }

    /// Runs until `shutdown` completes, and then finishes the running reconciles.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) -> Result<(), Error> {
        Ok(self.manager.start(shutdown).await?)
    }

    /// The manager.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// The metrics so far.
    pub fn summary(&self) -> Summary {
        let metrics = self.controllers.each_ref().map(Controller::metrics);
        Summary {
            reconciles: metrics.iter().map(|metrics| metrics.reconciles_total).sum(),
            errors: metrics.iter().map(|metrics| metrics.errors_total).sum(),
            p50: self.timings.quantile(0.5),
            p99: self.timings.quantile(0.99),
        }
    }
}

/// The metrics of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The number of reconciles that have ended.
    pub reconciles: u64,
    /// The number of reconciles that failed.
    pub errors: u64,
    /// Half of the last reconciles took at most this long.
    pub p50: Duration,
    /// 99 of 100 of the last reconciles took at most this long.
    pub p99: Duration,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        write!(
            f,
            "{} reconciles, {} errors, p50 {:.1} ms, p99 {:.1} ms",
            self.reconciles,
            self.errors,
            milliseconds(self.p50),
            milliseconds(self.p99)
        )
    }
}
