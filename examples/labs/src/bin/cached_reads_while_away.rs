//! The API server goes away: cached reads continue, and when the server is back, the cache catches
//! up.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use labs::{Lab, PATIENCE};
use serde_json::json;
use steersman::cache::{Event, Informer, InformerOptions, SharedInformerFactory, handler};
use steersman::client::config_from_flags;
use steersman::client::{DeleteParams, ListParams, PostParams};
use steersman::{Client, shutdown_signal};
use steersman_testing::{Embedded, FaultyProxy};

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    match lab.embedded() {
        Some(embedded) => our_own(lab.client(), embedded).await,
        None => a_cluster(lab.client()).await,
    }
}

/// Prints the content of the cache and the status of the informer. Stop the API server or the
/// network while it runs.
async fn a_cluster(client: &Client) -> Result<()> {
    let (factory, informer) = start(client).await?;
    println!("(Ctrl-C ends this)");
    let shutdown = shutdown_signal();
    tokio::pin!(shutdown);
    loop {
        let status: Vec<_> = informer.status().iter().map(ToString::to_string).collect();
        println!("cache: {} Pods; {}", informer.lister().len(), status.join("; "));
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(5)) => {}
            () = &mut shutdown => break,
        }
    }
    factory.shutdown().await?;
    Ok(())
}

async fn our_own(behind: &Client, embedded: &Embedded) -> Result<()> {
    // On a socket, behind a proxy that can be closed.
    let serving = embedded.server().serve().start().await?;
    let server = serving.url().trim_start_matches("https://").parse()?;
    let proxy = FaultyProxy::start(server).await?;
    let kubeconfig = tempfile::NamedTempFile::new()?;
    std::fs::write(&kubeconfig, serving.kubeconfig())?;
    let config = config_from_flags(Some(&format!("https://{}", proxy.address())), Some(kubeconfig.path())).await?;
    let client = Client::builder(config).retries(0).build()?;

    let (factory, informer) = start(&client).await?;
    let pods = informer.lister();
    println!("cache:  {} Pods in default", pods.namespace("default").len());

    println!("the API server becomes unavailable");
    proxy.close().await;
    let asked = client.namespaced::<Pod>("default").list(&ListParams::default()).await;
    println!("server: {}", if asked.is_ok() { "responds" } else { "does not respond" });
    println!("cache:  {} Pods in default", pods.namespace("default").len());

    println!("demo is created and web-0 deleted");
    let api = behind.namespaced::<Pod>("default");
    let demo = json!({"metadata": {"name": "demo"}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
    api.create(&PostParams::default(), &serde_json::from_value(demo)?).await?;
    api.delete("web-0", &DeleteParams::default().grace_period(0)).await?;
    println!("cache:  has web-0: {}", pods.get("default", "web-0").is_some());

    let print = handler(|event: &Event<Pod>| match event {
        Event::Add { object, initial: false } => println!("add     {}", object.key()),
        Event::Delete { object, .. } => println!("delete  {}", object.key()),
        _ => {}
    });
    informer.add_event_handler(print)?;
    println!("the API server is back");
    proxy.open().await?;
    let is_there = |name| pods.get("default", name).is_some();
    pods.wait_until(PATIENCE, || is_there("demo") && !is_there("web-0")).await;
    factory.shutdown().await?;
    println!("cache:  has web-0: {}", is_there("web-0"));
    proxy.close().await;
    serving.stop().await;
    Ok(())
}

async fn start(client: &Client) -> Result<(SharedInformerFactory, Informer<Pod>)> {
    let factory = SharedInformerFactory::new(client.clone());
    let informer = factory.informer::<Pod>(InformerOptions::all())?;
    factory.start()?;
    factory.wait_for_cache_sync(PATIENCE).await?;
    Ok((factory, informer))
}
