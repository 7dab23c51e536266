//! The jobs of controllers.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use futures::StreamExt;
use futures::channel::mpsc;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Config as ControllerConfig};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Config, Resource};

use crate::contestant::{Ask, Cost, Counter, Outcome, Rounds, Stopwatch, cpu_time, small_object};
use crate::replay_client;

/// How long freed memory may take to return to the system.
const SETTLE: Duration = Duration::from_secs(1);

/// A controller of all objects of a kind, with kube-rs's default options and this number of
/// concurrent reconciles.
fn controller<K>(client: &Client, workers: u64) -> Controller<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let objects: Api<K> = Api::all(client.clone());
    Controller::new(objects, watcher::Config::default())
        .with_config(ControllerConfig::default().concurrency(workers as u16))
}

/// Runs a controller in a task. `reconcile` receives each object from the store.
fn run<K>(controller: Controller<K>, reconcile: impl Fn(&K) + Send + Sync + 'static)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let reconcile = Arc::new(reconcile);
    let call = move |object: Arc<K>, _: Arc<()>| {
        let reconcile = Arc::clone(&reconcile);
        async move {
            reconcile(&object);
            Ok::<_, Infallible>(Action::await_change())
        }
    };
    let failed = |_: Arc<K>, never: &Infallible, _: Arc<()>| match *never {};
    tokio::spawn(controller.run(call, failed, Arc::new(())).for_each(|_| async {}));
}

fn runs_on_a_node(pod: &Pod) -> bool {
    let (Some(spec), Some(status)) = (&pod.spec, &pod.status) else { return false };
    let filled = |field: &Option<String>| field.as_ref().is_some_and(|text| !text.is_empty());
    filled(&spec.node_name) && filled(&status.phase) && filled(&status.pod_ip)
}

/// Lists Pods and reconciles each once; a reconcile receives its Pod from the store.
pub async fn each_once(ask: &Ask) -> Result<()> {
    let running = Arc::new(Counter::new(ask.size));
    let stopwatch = Stopwatch::start();
    let count = Arc::clone(&running);
    run(controller::<Pod>(&replay_client(ask)?, ask.workers), move |pod| {
        if runs_on_a_node(pod) {
            count.add();
        }
    });
    running.reached().await;
    let cost = stopwatch.cost();
    tokio::time::sleep(SETTLE).await;
    Outcome { count: running.value(), cost, memory: None, figures: Vec::new() }.report();
    Ok(())
}

/// Reconciles the keys of stored objects that come from a channel, all of them in each round.
pub async fn noop(ask: &Ask) -> Result<()> {
    let keys: Vec<ObjectRef<ConfigMap>> =
        (0..ask.size).map(small_object).map(|(namespace, name)| ObjectRef::new(&name).within(&namespace)).collect();
    let reconciled = Arc::new(Counter::new(ask.size));
    let (sender, receiver) = mpsc::unbounded();
    let count = Arc::clone(&reconciled);
    let controller = controller::<ConfigMap>(&replay_client(ask)?, ask.workers).reconcile_on(receiver);
    run(controller, move |_| count.add());
    reconciled.reached().await;
    let mut rounds = Rounds::default();
    while !rounds.are_enough() {
        let round = keys.clone();
        reconciled.go_on(ask.size);
        let stopwatch = Stopwatch::start();
        for key in round {
            sender.unbounded_send(key).context("the controller takes no more keys")?;
        }
        reconciled.reached().await;
        rounds.add(stopwatch.cost());
    }
    rounds.outcome(reconciled.value() - ask.size).report();
    Ok(())
}

/// Runs a controller for each of ten kinds, until each object has been reconciled.
pub async fn idle(ask: &Ask) -> Result<()> {
    let read = Arc::new(Counter::new(10 * ask.size));
    let stopwatch = Stopwatch::start();
    let client = replay_client(ask)?;
    add_reader::<ConfigMap>(&client, &read);
    add_reader::<Secret>(&client, &read);
    add_reader::<Service>(&client, &read);
    add_reader::<ServiceAccount>(&client, &read);
    add_reader::<PersistentVolumeClaim>(&client, &read);
    add_reader::<Deployment>(&client, &read);
    add_reader::<StatefulSet>(&client, &read);
    add_reader::<DaemonSet>(&client, &read);
    add_reader::<Job>(&client, &read);
    add_reader::<Ingress>(&client, &read);
    read.reached().await;
    let cost = stopwatch.cost();
    tokio::time::sleep(SETTLE).await;
    Outcome { count: read.value(), cost, memory: None, figures: Vec::new() }.report();
    Ok(())
}

fn add_reader<K>(client: &Client, read: &Arc<Counter>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let read = Arc::clone(read);
    run(controller::<K>(client, 1), move |_| read.add());
}

/// From the start of the process to its first reconcile, of a namespace: every cluster has some.
pub async fn start(ask: &Ask) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(ask.kubeconfig()?)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let (sender, mut first) = mpsc::unbounded();
    // The receiver is dropped after the first.
    let notify = move |_: &Namespace| drop(sender.unbounded_send(SystemTime::now()));
    run(controller(&Client::try_from(config)?, 1), notify);
    let first = first.next().await.context("the controller ended")?;
    let cost = Cost { wall: ask.since_start(first)?, cpu: cpu_time() };
    Outcome { count: 1, cost, memory: None, figures: Vec::new() }.report();
    Ok(())
}
