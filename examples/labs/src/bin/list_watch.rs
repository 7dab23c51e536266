//! List and watch without an informer: all Pods, and then every change from the version of that
//! list on.
//!
//! An informer does this, and also what is left out here: it reconnects when the connection is
//! lost, and lists again when the server no longer has the version.

use anyhow::Result;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use labs::Lab;
use serde_json::json;
use steersman::client::{Api, DeleteParams, ListParams, PatchParams, PostParams};
use steersman::client::{TypedEvent, WatchParams};
use steersman::{Patch, shutdown_signal};

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    let pods = lab.client().namespaced::<Pod>("default");

    let list = pods.list(&ListParams::default()).await?;
    let mut version = list.metadata.resource_version.unwrap_or_default();
    println!("LIST      {} Pods, version {version}", list.items.len());

    if lab.embedded().is_none() {
        println!("(Ctrl-C ends this)");
        return tokio::select! {
            result = watch_on(&pods, &mut version) => result,
            () = shutdown_signal() => Ok(()),
        };
    }
    // Nothing happens by itself on a server of our own. The watch that begins afterwards has to
    // deliver these changes.
    change(&pods).await?;
    watch(&pods, &mut version, 3).await
}

/// Creates a Pod, changes it and deletes it.
async fn change(pods: &Api<Pod>) -> Result<()> {
    let pod = json!({"metadata": {"name": "demo"}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    let label = Patch::Merge(json!({"metadata": {"labels": {"step": "two"}}}));
    pods.patch("demo", &PatchParams::default(), &label).await?;
    pods.delete("demo", &DeleteParams::default()).await?;
    Ok(())
}

/// A server ends each watch after a while. The next one begins where it ended.
async fn watch_on(pods: &Api<Pod>, version: &mut String) -> Result<()> {
    loop {
        watch(pods, version, 60).await?;
    }
}

/// Prints events until the server ends the watch, which the request asks for after `seconds`.
async fn watch(pods: &Api<Pod>, version: &mut String, seconds: u32) -> Result<()> {
    // A bookmark has the version that the watch has reached, also when nothing happens: once a
    // minute, and shortly before the end.
    let params = WatchParams { timeout: Some(seconds), bookmarks: true, ..WatchParams::default() };
    let events = pods.watch(&params, version).await?;
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let (word, pod) = match event? {
            TypedEvent::Added(pod) => ("ADDED", pod),
            TypedEvent::Modified(pod) => ("MODIFIED", pod),
            TypedEvent::Deleted(pod) => ("DELETED", pod),
            TypedEvent::Bookmark { resource_version, .. } => {
                println!("BOOKMARK  version {resource_version}");
                *version = resource_version;
                continue;
            }
        };
        *version = pod.metadata.resource_version.unwrap_or_default();
        println!("{word:<9} {}, version {version}", pod.metadata.name.unwrap_or_default());
    }
    Ok(())
}
