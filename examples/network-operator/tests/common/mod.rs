//! The common parts of the operator's tests. Each test binary uses some of them.
#![allow(dead_code)]

use std::future::Future;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use network_operator::{ClusterId, Error, Handle, Network, NetworkSpec, NetworkStatus, Operator, Options, Phase, Pool};
use neutron::embedded::EmbeddedNeutron;
use neutron::{NetworkFilter, Neutron, Subnet, SubnetFilter};
use serde_json::Value;
use steersman::CustomResourceExt;
use steersman::client::{Api, DeleteParams, PatchParams, PostParams};
use steersman::{Client, Manager, Patch};
use steersman_testing::{Embedded, eventually_within};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long a step may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// A resync period that never comes.
pub(crate) const NEVER: Duration = Duration::from_secs(24 * 3600);
/// A resync period that comes soon.
pub(crate) const OFTEN: Duration = Duration::from_millis(200);

/// Repeats a check until it returns a value. Its error is the reason why not yet.
pub(crate) async fn eventually<T, F: Future<Output = Result<T, String>>>(what: &str, look: impl FnMut() -> F) -> T {
    eventually_within(PATIENCE, what, look).await
}

pub(crate) fn cluster() -> ClusterId {
    "test".parse().unwrap()
}

pub(crate) fn options(resync: Duration) -> Options {
    Options {
        cluster_id: Some(cluster()),
        project_id: Some("tests".to_owned()),
        resync,
        workers: 4,
        all_deployments: false,
        pool: Pool::new("10.100.0.0/22".parse().unwrap(), 24).unwrap(),
    }
}

pub(crate) fn spec(cidr: &str, gateway: &str) -> NetworkSpec {
    NetworkSpec::new(cidr, gateway)
}

/// A running operator.
pub(crate) struct Running {
    pub(crate) operator: std::sync::Arc<Operator>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub(crate) fn start(client: Client, neutron: Neutron, options: Options) -> Self {
        Self::start_with(Manager::builder(client).only_declared_writes().build(), neutron, options)
    }

    pub(crate) fn start_with(manager: Manager, neutron: Neutron, options: Options) -> Self {
        let operator = std::sync::Arc::new(Operator::with_manager(manager, neutron, options).unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let runs = std::sync::Arc::clone(&operator);
        let task = tokio::spawn(async move { runs.run(async { drop(stopped.await) }).await });
        Self { operator, stop: Some(stop), task }
    }

    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap().unwrap();
    }

    /// Aborts it, like a killed process.
    pub(crate) fn abort(self) {
        self.task.abort();
    }
}

/// A cluster with the definition of Network, and a Neutron.
pub(crate) struct World {
    pub(crate) server: Embedded,
    pub(crate) client: Client,
    pub(crate) networks: Api<Network>,
    pub(crate) embedded: EmbeddedNeutron,
    pub(crate) neutron: Neutron,
}

impl World {
    pub(crate) async fn new() -> Self {
        let server = Embedded::start();
        let client = server.client();
        install_crd(&client).await;
        let embedded = EmbeddedNeutron::start().await.unwrap();
        let neutron = embedded.client();
        Self { networks: client.namespaced("default"), server, client, embedded, neutron }
    }

    pub(crate) fn operator(&self, resync: Duration) -> Running {
        self.operator_with(options(resync))
    }

    pub(crate) fn operator_with(&self, options: Options) -> Running {
        Running::start(self.client.clone(), self.neutron.clone(), options)
    }

    pub(crate) async fn create(&self, name: &str, spec: NetworkSpec) -> Network {
        self.networks.create(&PostParams::default(), &Network::new(name, spec)).await.unwrap()
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        self.networks.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.networks.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until a Network is ready in its newest generation.
    pub(crate) async fn ready(&self, name: &str) -> NetworkStatus {
        ready(&self.networks, name).await
    }

    /// Waits until a Network's condition has this reason, and returns its message.
    pub(crate) async fn reason(&self, name: &str, reason: &str) -> String {
        eventually(reason, || async {
            let status = self.networks.get(name).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
            let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
            match ready {
                Some(ready) if ready.reason == reason => Ok(ready.message.clone()),
                _ => Err(format!("{status:?}")),
            }
        })
        .await
    }

    pub(crate) async fn gone(&self, name: &str) {
        gone(&self.networks, name).await;
    }

    /// The network of an object in Neutron, and its subnets.
    pub(crate) async fn actual(&self, status: &NetworkStatus) -> (neutron::Network, Vec<Subnet>) {
        let id = status.network_id.as_deref().unwrap();
        let network = self.neutron.network(id).await.unwrap().expect("the network in the status exists");
        (network, self.subnets(id).await)
    }

    pub(crate) async fn subnets(&self, network_id: &str) -> Vec<Subnet> {
        let filter = SubnetFilter { network_id: Some(network_id.to_owned()), ..SubnetFilter::default() };
        self.neutron.subnets(&filter).await.unwrap()
    }

    /// All networks in Neutron.
    pub(crate) async fn all(&self) -> Vec<neutron::Network> {
        self.neutron.networks(&NetworkFilter::default()).await.unwrap()
    }

    /// Waits until Neutron has this many networks.
    pub(crate) async fn count(&self, count: usize) {
        eventually("the number of networks in Neutron", || async {
            let all = self.all().await;
            if all.len() == count { Ok(()) } else { Err(format!("{all:?}")) }
        })
        .await;
    }

    pub(crate) fn handle(&self, network: &Network) -> String {
        Handle::new(&cluster(), network.metadata.uid.clone().unwrap()).to_string()
    }
}

pub(crate) async fn install_crd(client: &Client) {
    let definitions = client.cluster::<CustomResourceDefinition>();
    definitions.create(&PostParams::default(), &Network::crd()).await.unwrap();
    eventually("the definition is established", || async {
        let status = definitions.get("networks.samplecrd.k8s.io").await.unwrap().status.unwrap_or_default();
        let established = |condition: &&_| {
            let condition: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionCondition = condition;
            condition.type_ == "Established" && condition.status == "True"
        };
        status.conditions.iter().flatten().find(established).map(drop).ok_or(format!("{:?}", status.conditions))
    })
    .await;
}

pub(crate) async fn ready(networks: &Api<Network>, name: &str) -> NetworkStatus {
    eventually(&format!("{name} is ready"), || async {
        let network = networks.get(name).await.map_err(|error| error.to_string())?;
        let status = network.status.unwrap_or_default();
        let current = status.observed_generation == network.metadata.generation;
        if status.phase == Some(Phase::Ready) && current { Ok(status) } else { Err(format!("{status:?}")) }
    })
    .await
}

pub(crate) async fn gone(networks: &Api<Network>, name: &str) {
    eventually(&format!("{name} is gone"), || async {
        match networks.get_opt(name).await.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(network) => Err(format!("{network:?}")),
        }
    })
    .await;
}
