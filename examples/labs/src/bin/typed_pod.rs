//! The typed client: one Pod. The type determines group, version and resource.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use labs::Lab;

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    let pods = lab.client().namespaced::<Pod>("default");
    let Some(pod) = pods.get_opt("test").await? else {
        println!("Pod default/test not found; create one: kubectl run test --image=nginx");
        return Ok(());
    };
    let (spec, status) = (pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
    println!("name:   {}", pod.metadata.name.unwrap_or_default());
    println!("phase:  {}", status.phase.unwrap_or_default());
    println!("node:   {}", spec.node_name.unwrap_or_default());
    println!("ip:     {}", status.pod_ip.unwrap_or_default());
    for container in spec.containers {
        println!("image:  {}", container.image.unwrap_or_default());
    }
    Ok(())
}
