//! The demonstration: a cluster of its own, and a user who changes it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use network_operator::{Network, Phase};
use neutron::{NetworkChange, NetworkFilter, Neutron};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman::ResourceExt;
use steersman::client::{Api, DeleteParams, ListParams, PatchParams, PostParams};
use steersman::{Client, Manager, Patch};
use steersman_program::EmbeddedCluster;

const BLUE: &str = include_str!("../../../samples/blue.yaml");
const GREEN: &str = include_str!("../../../samples/green.yaml");
const WEB: &str = include_str!("../../../samples/web.yaml");
/// The pause before the next step, so that the output can be read.
const PAUSE: Duration = Duration::from_secs(2);
/// How often the demonstration checks for progress.
const LOOK: Duration = Duration::from_millis(50);
/// How long the cleanup may take.
const CLEAN_UP_LIMIT: Duration = Duration::from_secs(20);

/// An API server in this process, with the definition of Network.
pub(crate) async fn cluster(definition: &CustomResourceDefinition) -> Result<EmbeddedCluster> {
    let cluster = EmbeddedCluster::start(0).await?;
    cluster.client().cluster::<CustomResourceDefinition>().create(&PostParams::default(), definition).await?;
    Ok(cluster)
}

/// The commands to type in another terminal.
pub(crate) fn invitation(kubeconfig: &Path, neutron_url: Option<&str>) -> String {
    let mut text = format!(
        "In another terminal:\n  \
         export KUBECONFIG={}\n  \
         kubectl get networks --watch\n  \
         kubectl describe network blue\n  \
         kubectl patch network blue --type merge -p '{}'\n  \
         kubectl delete deployment web\n",
        kubeconfig.display(),
        json!({"spec": {"gateway": "10.10.0.2"}}),
    );
    if let Some(url) = neutron_url {
        text.push_str(&format!("  curl {url}/v2.0/networks\n"));
    }
    text
}

/// Where the operator shows what it does.
pub(crate) fn addresses(manager: &Manager) -> String {
    let mut text = String::new();
    if let Some(address) = manager.metrics_address() {
        text.push_str(&format!("In a browser: http://{address}/debug\n  curl http://{address}/metrics\n"));
    }
    if let Some(address) = manager.probes_address() {
        text.push_str(&format!("  curl 'http://{address}/readyz?verbose'\n"));
    }
    text
}

/// Plays the user: applies the samples, changes one, changes a network in Neutron, deletes one.
pub(crate) async fn play(client: &Client, neutron: &Neutron) -> Result<()> {
    let networks = client.namespaced::<Network>("default");
    create(&networks, BLUE).await?;
    create(&networks, GREEN).await?;
    create(&client.namespaced::<Deployment>("default"), WEB).await?;
    until_ready(&networks, "green").await?;

    tokio::time::sleep(PAUSE).await;
    let change = json!({"spec": {"gateway": "10.10.0.254", "dnsServers": ["9.9.9.9", "149.112.112.112"]}});
    networks.patch("blue", &PatchParams::default(), &Patch::Merge(change)).await?;

    tokio::time::sleep(PAUSE).await;
    networks.delete("green", &DeleteParams::default()).await?;

    tokio::time::sleep(PAUSE).await;
    let filter = NetworkFilter { name: Some("default/blue".to_owned()), ..NetworkFilter::default() };
    for network in neutron.networks(&filter).await? {
        let change = NetworkChange { name: Some("renamed by hand".to_owned()), ..NetworkChange::default() };
        neutron.update_network(&network.id, &change, None).await?;
    }
    Ok(())
}

/// Deletes everything and waits until the operator has cleaned up. The cluster ends with the
/// process, but a Neutron that a flag names stays.
pub(crate) async fn clean_up(client: &Client) -> Result<()> {
    let all = ListParams::default();
    // They would create their Networks again.
    for deployment in client.all_namespaces::<Deployment>().list(&all).await?.items {
        let deployments = client.namespaced::<Deployment>(&deployment.namespace().unwrap_or_default());
        deployments.delete(&deployment.name_any(), &DeleteParams::default()).await?;
    }
    let deadline = Instant::now() + CLEAN_UP_LIMIT;
    loop {
        let left = client.all_namespaces::<Network>().list(&all).await?.items;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{} Networks could not be deleted: check their networks in Neutron", left.len());
        }
        for network in left.iter().filter(|network| network.metadata.deletion_timestamp.is_none()) {
            let networks = client.namespaced::<Network>(&network.namespace().unwrap_or_default());
            // Garbage collection may be faster.
            let _ = networks.delete(&network.name_any(), &DeleteParams::default()).await;
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn create<K>(api: &Api<K>, sample: &str) -> Result<()>
where
    K: steersman::Resource + serde::Serialize + DeserializeOwned,
{
    let value: Value = serde_saphyr::from_str(sample).context("a sample is not valid YAML")?;
    let object: K = serde_json::from_value(value).context("a sample does not fit its kind")?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

async fn until_ready(networks: &Api<Network>, name: &str) -> Result<()> {
    loop {
        let network = networks.get(name).await?;
        if network.status.and_then(|status| status.phase) == Some(Phase::Ready) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}
