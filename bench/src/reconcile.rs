//! The jobs of controllers. `bench/README.md` describes each of them; `reconcile.go` and kube-rs's
//! `reconcile.rs` do the same.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use kube_client::Resource;
use serde::Deserialize;
use steersman_client::{Client, config_from_flags};
use steersman_runtime::{Action, Cached, Context, Manager, Object, ObjectKey, ReconcileError, Reconciler, kind};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::cache::at_rest;
use crate::contestant::{Ask, Cost, Counter, Outcome, Rounds, Stopwatch, cpu_time, memory, small_object};

/// The capacity of the channel of `reconcile-noop`: the same as controller-runtime's.
const CHANNEL: usize = 1024;

/// How a reconcile reads its Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Reading {
    /// All of it, as its type
    Typed,
    /// The three fields that it is interested in
    View,
}

/// Runs one of the jobs of controllers. Must be called in a runtime.
pub async fn run(ask: &Ask, reading: Reading) -> Result<Outcome> {
    match ask.job.as_str() {
        "reconcile" => each_once(ask, reading).await,
        "reconcile-noop" => noop(ask).await,
        "idle" => idle(ask).await,
        "start" => start(ask).await,
        other => bail!("no job of controllers is called {other:?}"),
    }
}

/// A running manager.
pub(crate) struct Running(JoinHandle<Result<(), steersman_runtime::Error>>);

impl Running {
    pub(crate) fn start(manager: &Manager) -> Self {
        let manager = manager.clone();
        Self(tokio::spawn(async move { manager.start(std::future::pending()).await }))
    }

    /// Waits for a future. Fails if the manager ends before.
    pub(crate) async fn until<T>(&mut self, something: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            value = something => Ok(value),
            ended = &mut self.0 => {
                ended.context("running the manager")??;
                bail!("the manager ended")
            }
        }
    }
}

async fn replay_client(ask: &Ask) -> Result<Client> {
    Ok(Client::builder(config_from_flags(Some(ask.url()?), None).await?).build()?)
}

/// Reads each Pod once and counts those that run on a node.
struct ReadPod {
    reading: Reading,
    running: Arc<Counter>,
}

/// The part of a Pod that a reconcile may need.
#[derive(Deserialize)]
struct PodView {
    spec: SpecView,
    status: StatusView,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecView {
    node_name: String,
}

#[derive(Deserialize)]
struct StatusView {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: String,
}

impl ReadPod {
    fn runs(&self, pod: &Cached<Pod>) -> Result<bool, ReconcileError> {
        match self.reading {
            Reading::Typed => {
                let pod = pod.get()?;
                let (Some(spec), Some(status)) = (&pod.spec, &pod.status) else { return Ok(false) };
                let filled = |field: &Option<String>| field.as_ref().is_some_and(|text| !text.is_empty());
                Ok(filled(&spec.node_name) && filled(&status.phase) && filled(&status.pod_ip))
            }
            Reading::View => {
                let PodView { spec, status } = pod.view()?;
                Ok(!spec.node_name.is_empty() && !status.phase.is_empty() && !status.pod_ip.is_empty())
            }
        }
    }
}

impl Reconciler<Pod> for ReadPod {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<Pod>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(pod) = ctx.object(key).await? else { return Ok(Action::done()) };
        if self.runs(&pod)? {
            self.running.add();
        }
        Ok(Action::done())
    }
}

/// Lists Pods and reconciles each once, with a read from the cache.
async fn each_once(ask: &Ask, reading: Reading) -> Result<Outcome> {
    let running = Arc::new(Counter::new(ask.size));
    let stopwatch = Stopwatch::start();
    let manager = Manager::new(replay_client(ask).await?);
    let reconciler = ReadPod { reading, running: Arc::clone(&running) };
    manager.controller(kind::<Pod>()).max_concurrent(ask.workers as usize).complete(reconciler)?;
    Running::start(&manager).until(running.reached()).await?;
    let cost = stopwatch.cost();
    let outcome = at_rest(0, cost, Vec::new()).await;
    Ok(Outcome { count: running.value(), ..outcome })
}

/// Reads nothing.
struct Noop(Arc<Counter>);

impl<K: Object> Reconciler<K> for Noop {
    type Error = ReconcileError;

    async fn reconcile(&self, _: &Context<K>, _: &ObjectKey) -> Result<Action, ReconcileError> {
        self.0.add();
        Ok(Action::done())
    }
}

/// Reconciles the keys of cached objects that come from a channel, all of them in each round.
async fn noop(ask: &Ask) -> Result<Outcome> {
    let keys: Vec<ObjectKey> = (0..ask.size).map(small_object).map(|(ns, name)| ObjectKey::new(&ns, &name)).collect();
    let reconciled = Arc::new(Counter::new(ask.size));
    let (sender, mut receiver) = mpsc::channel(CHANNEL);
    let manager = Manager::new(replay_client(ask).await?);
    manager
        .controller(kind::<ConfigMap>())
        .max_concurrent(ask.workers as usize)
        .channel(futures::stream::poll_fn(move |cx| receiver.poll_recv(cx)))
        .complete(Noop(Arc::clone(&reconciled)))?;
    let mut running = Running::start(&manager);
    running.until(reconciled.reached()).await?;
    let mut rounds = Rounds::default();
    while !rounds.are_enough() {
        let round = keys.clone();
        reconciled.go_on(ask.size);
        let stopwatch = Stopwatch::start();
        for key in round {
            sender.send(key).await.context("the controller takes no more keys")?;
        }
        running.until(reconciled.reached()).await?;
        rounds.add(stopwatch.cost());
    }
    Ok(Outcome { memory: Some(memory()), ..rounds.outcome(reconciled.value() - ask.size) })
}

/// Reads each object once.
struct Read(Arc<Counter>);

impl<K: Object> Reconciler<K> for Read {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<K>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        if let Some(object) = ctx.object(key).await? {
            object.get()?;
            self.0.add();
        }
        Ok(Action::done())
    }
}

/// Runs a manager with a controller for each of ten kinds, until each object has been reconciled.
async fn idle(ask: &Ask) -> Result<Outcome> {
    let read = Arc::new(Counter::new(10 * ask.size));
    let stopwatch = Stopwatch::start();
    let manager = Manager::new(replay_client(ask).await?);
    add_reader::<ConfigMap>(&manager, &read)?;
    add_reader::<Secret>(&manager, &read)?;
    add_reader::<Service>(&manager, &read)?;
    add_reader::<ServiceAccount>(&manager, &read)?;
    add_reader::<PersistentVolumeClaim>(&manager, &read)?;
    add_reader::<Deployment>(&manager, &read)?;
    add_reader::<StatefulSet>(&manager, &read)?;
    add_reader::<DaemonSet>(&manager, &read)?;
    add_reader::<Job>(&manager, &read)?;
    add_reader::<Ingress>(&manager, &read)?;
    Running::start(&manager).until(read.reached()).await?;
    let cost = stopwatch.cost();
    let outcome = at_rest(0, cost, Vec::new()).await;
    Ok(Outcome { count: read.value(), ..outcome })
}

fn add_reader<K>(manager: &Manager, read: &Arc<Counter>) -> Result<()>
where
    K: Object + Resource<DynamicType = (), Scope: 'static>,
{
    manager.controller(kind::<K>()).complete(Read(Arc::clone(read)))?;
    Ok(())
}

/// Sends the start time of each reconcile.
struct Notify(mpsc::UnboundedSender<SystemTime>);

impl Reconciler<Namespace> for Notify {
    type Error = ReconcileError;

    async fn reconcile(&self, _: &Context<Namespace>, _: &ObjectKey) -> Result<Action, ReconcileError> {
        // The receiver is dropped after the first.
        let _ = self.0.send(SystemTime::now());
        Ok(Action::done())
    }
}

/// From the start of the process to its first reconcile, of a namespace: every cluster has some.
async fn start(ask: &Ask) -> Result<Outcome> {
    let config = config_from_flags(None, Some(ask.kubeconfig()?)).await?;
    let manager = Manager::new(Client::builder(config).build()?);
    let (sender, mut first) = mpsc::unbounded_channel();
    manager.controller(kind::<Namespace>()).complete(Notify(sender))?;
    let first = Running::start(&manager).until(first.recv()).await?.context("the controller ended")?;
    let cost = Cost { wall: ask.since_start(first)?, cpu: cpu_time() };
    Ok(Outcome { count: 1, cost, memory: Some(memory()), figures: Vec::new() })
}
