//! The REST client: any path and verb. All other clients are built on it.
//!
//! The client has a group and version. A request is built part by part and sent, and its response
//! is decoded into a type.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use labs::Lab;
use steersman::client::ObjectList;

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    let core = lab.client().rest_of("", "v1");
    let request = core.get().namespace("default").resource("pods").param("limit", "100");
    println!("GET /api/v1/namespaces/default/pods?limit=100");
    let answer = request.send().await?;
    println!("{} {}", answer.status(), answer.content_type().unwrap_or_default());
    let pods: ObjectList<Pod> = answer.decode()?;
    for pod in pods.items {
        let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
        println!("{:<12} {phase}", pod.metadata.name.unwrap_or_default());
    }
    Ok(())
}
