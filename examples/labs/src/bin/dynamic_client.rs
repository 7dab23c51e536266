//! The dynamic client: objects of a kind without a Rust type, such as a custom resource.
//!
//! Its objects are JSON with metadata. Discovery finds the path of the kind.

use anyhow::Result;
use labs::{Lab, NetworkSpec};
use serde_json::json;
use steersman::Patch;
use steersman::client::GroupVersionKind;
use steersman::client::{DeleteParams, DynamicObject, ListParams, PatchParams, PostParams};

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    let kind = GroupVersionKind::gvk("samplecrd.k8s.io", "v1", "Network");
    let served = lab.client().mapper().kind(&kind).await?;
    let networks = lab.client().dynamic(&served.resource, served.scope(Some("default")));
    println!("Network is served at {}", networks.path());
    for network in networks.list(&ListParams::default()).await?.items {
        println!("{:<8} {}", network.metadata.name.unwrap_or_default(), network.data["spec"]);
    }
    if lab.embedded().is_none() {
        return Ok(());
    }
    let spec = json!({"spec": {"cidr": "10.0.3.0/24", "gateway": "10.0.3.1"}});
    let network = DynamicObject::new("net-3", &served.resource).data(spec);
    let created = networks.create(&PostParams::default(), &network).await?;
    println!("created  {}", created.data["spec"]);
    let patch = Patch::Merge(json!({"spec": {"gateway": "10.0.3.254"}}));
    let patched = networks.patch("net-3", &PatchParams::default(), &patch).await?;
    // From here on, a Rust type is used.
    let spec: NetworkSpec = serde_json::from_value(patched.data["spec"].clone())?;
    println!("patched  {spec:?}");
    networks.delete("net-3", &DeleteParams::default()).await?;
    println!("deleted  {}", networks.get_opt("net-3").await?.is_none());
    Ok(())
}
