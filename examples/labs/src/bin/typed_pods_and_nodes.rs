//! The typed client: Nodes, and the Pods on each. One client serves all kinds.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use labs::Lab;
use steersman::client::ListParams;

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    let nodes = lab.client().cluster::<Node>().list(&ListParams::default()).await?.items;
    for node in nodes {
        let name = node.metadata.name.clone().unwrap_or_default();
        println!("{name}: {}", describe(&node));
        // The server filters, so that only these Pods are sent.
        let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
        for pod in lab.client().all_namespaces::<Pod>().list(&on_node).await?.items {
            let (metadata, status) = (pod.metadata, pod.status.unwrap_or_default());
            let key = format!("{}/{}", metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
            println!("  {key:<24} {:<12} {}", status.pod_ip.unwrap_or_default(), status.phase.unwrap_or_default());
        }
    }
    Ok(())
}

fn describe(node: &Node) -> String {
    let Some(status) = &node.status else { return "nothing is known of it".to_owned() };
    let is_ready = |condition: &NodeCondition| condition.type_ == "Ready" && condition.status == "True";
    let ready = if status.conditions.iter().flatten().any(is_ready) { "ready" } else { "not ready" };
    let capacity =
        |what| status.capacity.as_ref().and_then(|capacity| capacity.get(what)).map_or("?", |found| &*found.0);
    let version = status.node_info.as_ref().map_or("?", |info| &*info.kubelet_version);
    format!("{ready}, kubelet {version}, {} CPUs, {} of memory", capacity("cpu"), capacity("memory"))
}
