//! Indexes: find cached objects by another value than their key, here Pods by namespace and by
//! Node.
//!
//! The cache updates an index when objects are added, changed and deleted. A look-up reads only the
//! objects that it returns.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use labs::{Lab, PATIENCE};
use serde_json::json;
use steersman::cache::{Index, InformerOptions, Lister, NAMESPACE_INDEX, SharedInformerFactory};

const BY_NODE: &str = "nodeName";

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    let factory = SharedInformerFactory::new(lab.client().clone());
    // A path is read from the object's bytes. `Index::function` takes any function of the object
    // instead.
    let by_node = Index::path("spec.nodeName".parse()?);
    let informer = factory.informer::<Pod>(InformerOptions::all().index(BY_NODE, by_node))?;
    factory.start()?;
    factory.wait_for_cache_sync(PATIENCE).await?;
    let pods = informer.lister();
    print_index(&pods, NAMESPACE_INDEX)?;
    print_index(&pods, BY_NODE)?;

    lab.play(async {
        println!("web-1 is bound to node-2");
        let target =
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web-1"}, "target": {"name": "node-2"}});
        let binding = lab.client().rest_of("", "v1").post().namespace("default").resource("pods").name("web-1");
        binding.subresource("binding").json(&target).send().await?;
        let is_bound =
            || pods.index_keys(BY_NODE, "node-2").is_ok_and(|keys| keys.iter().any(|key| key.name() == "web-1"));
        pods.wait_until(PATIENCE, is_bound).await;
        Ok(())
    })
    .await?;
    print_index(&pods, BY_NODE)?;
    factory.shutdown().await?;
    Ok(())
}

/// Every value of an index, with the keys of the objects that have it.
fn print_index(pods: &Lister<Pod>, index: &str) -> Result<()> {
    println!("{index}:");
    let mut values = pods.index_values(index)?;
    values.sort();
    for value in values {
        let mut keys = pods.index_keys(index, &value)?;
        keys.sort();
        let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
        println!("  {value}: {}", keys.join(", "));
    }
    Ok(())
}
