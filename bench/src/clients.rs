//! The jobs of the clients. `bench/README.md` describes each of them; the other contestants' files
//! of the same name do the same.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{Client, DeleteParams, PostParams, config_from_flags};

use crate::contestant::{Ask, Outcome, Stopwatch};

const NAMESPACE: &str = "default";
const NAME: &str = "steersman-bench-clients";

/// Runs one of the clients' jobs. Must be called in a runtime.
pub async fn run(ask: &Ask) -> Result<Outcome> {
    match ask.job.as_str() {
        "clients-get" => get(ask).await,
        other => bail!("no job of the clients is called {other:?}"),
    }
}

/// Reads one ConfigMap repeatedly, one read after the other.
async fn get(ask: &Ask) -> Result<Outcome> {
    let config = config_from_flags(None, Some(Path::new(ask.kubeconfig()?))).await?;
    let maps = Client::builder(config).build()?.namespaced::<ConfigMap>(NAMESPACE);
    // Left by an interrupted run.
    let _ = maps.delete(NAME, &DeleteParams::default()).await;
    let mut object = ConfigMap::default();
    object.metadata.name = Some(NAME.to_owned());
    object.data = Some([("key".to_owned(), "value".to_owned())].into());
    maps.create(&PostParams::default(), &object).await?;
    let mut count = 0;
    let stopwatch = Stopwatch::start();
    for _ in 0..ask.size {
        let read = maps.get(NAME).await?;
        ensure!(read.data == object.data, "read {:?}", read.data);
        count += 1;
    }
    let cost = stopwatch.cost();
    maps.delete(NAME, &DeleteParams::default()).await?;
    Ok(Outcome { count, cost, memory: None, figures: Vec::new() })
}
