//! The typed client: how many Pods run, in all namespaces.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use labs::Lab;
use steersman::client::ListParams;

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    let pods = lab.client().all_namespaces::<Pod>().list(&ListParams::default()).await?.items;
    let mut running = BTreeMap::<_, usize>::new();
    for pod in &pods {
        let runs = pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
        *running.entry(pod.metadata.namespace.as_deref().unwrap_or_default()).or_default() += usize::from(runs);
    }
    for (namespace, count) in &running {
        println!("{namespace:<12} {count}");
    }
    println!("{} of {} Pods are running", running.values().sum::<usize>(), pods.len());
    Ok(())
}
