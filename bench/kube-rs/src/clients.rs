//! The job `clients-get`: reads one ConfigMap repeatedly, one read after the other.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::contestant::{Ask, Outcome, Stopwatch};

const NAMESPACE: &str = "default";
const NAME: &str = "steersman-bench-clients";

pub async fn get(ask: &Ask) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(ask.kubeconfig()?)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, NAMESPACE);
    // Left by an interrupted run.
    let _ = maps.delete(NAME, &DeleteParams::default()).await;
    let mut object = ConfigMap::default();
    object.metadata.name = Some(NAME.to_owned());
    object.data = Some([("key".to_owned(), "value".to_owned())].into());
    maps.create(&PostParams::default(), &object).await.context("creating the ConfigMap")?;
    let mut count = 0;
    let stopwatch = Stopwatch::start();
    for _ in 0..ask.size {
        let read = maps.get(NAME).await?;
        ensure!(read.data == object.data, "read {:?}", read.data);
        count += 1;
    }
    let cost = stopwatch.cost();
    maps.delete(NAME, &DeleteParams::default()).await?;
    Outcome { count, cost, memory: None, figures: Vec::new() }.report();
    Ok(())
}
