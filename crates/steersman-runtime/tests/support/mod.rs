//! The common parts of the tests of managers and controllers. Each test binary uses some of them.
#![allow(dead_code)]

pub(crate) mod exposition;

use std::collections::BTreeMap;
use std::future::ready;
use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{Api, Client, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use steersman_runtime::{Error, Manager, ObjectKey};
use steersman_testing::{Embedded, eventually_within};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

#[allow(unused_imports, reason = "not every test binary uses all of it")]
pub(crate) use steersman_testing::{Fault, FaultyNetwork, Log};

/// A network without faults, and a client whose requests go through it.
pub(crate) fn faulty_network(server: &Embedded) -> (FaultyNetwork, Client) {
    let network = FaultyNetwork::new(server);
    let client = network.client();
    (network, client)
}

/// Longer than any step of these tests.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

pub(crate) fn client(server: &Embedded) -> Client {
    server.client()
}

/// A manager on a server of its own, and another client of that server.
pub(crate) fn manager() -> (Manager, Client) {
    let server = Embedded::empty();
    (Manager::new(client(&server)), client(&server))
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

pub(crate) fn named(name: &str) -> ObjectMeta {
    ObjectMeta { namespace: Some("default".into()), name: Some(name.into()), ..ObjectMeta::default() }
}

pub(crate) fn map(name: &str, value: &str) -> ConfigMap {
    let data = BTreeMap::from([("value".to_owned(), value.to_owned())]);
    ConfigMap { metadata: named(name), data: Some(data), ..ConfigMap::default() }
}

/// ConfigMaps, to be written without the manager.
#[derive(Clone)]
pub(crate) struct Maps(pub(crate) Api<ConfigMap>);

impl Maps {
    pub(crate) fn new(client: &Client) -> Self {
        Self(client.namespaced("default"))
    }

    pub(crate) async fn create(&self, name: &str) -> ConfigMap {
        self.0.create(&PostParams::default(), &map(name, "1")).await.unwrap()
    }

    pub(crate) async fn set(&self, name: &str, value: &str) {
        self.patch(name, serde_json::json!({"data": {"value": value}})).await;
    }

    pub(crate) async fn patch(&self, name: &str, patch: serde_json::Value) {
        self.0.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.0.delete(name, &DeleteParams::default()).await.unwrap();
    }
}

/// Waits until a condition holds. In paused time, the speed of the machine does not matter.
pub(crate) async fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    eventually_within(Duration::from_secs(60), what, || ready(is_true())).await;
}

/// Lets all tasks run until they wait. The tests that use it have `start_paused = true`.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// A running manager.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

/// Starts a manager, and waits until it is ready.
pub(crate) async fn run(manager: &Manager) -> Running {
    let running = start(manager);
    eventually("the manager is ready", || manager.is_ready()).await;
    running
}

/// Starts a manager.
pub(crate) fn start(manager: &Manager) -> Running {
    let manager = manager.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move { manager.start(async { drop(stopped.await) }).await });
    Running { stop, task }
}

impl Running {
    /// Stops it, and returns its result.
    pub(crate) async fn stop(self) -> Result<(), Error> {
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }

    /// The result, when it ends without being stopped.
    pub(crate) async fn ended(self) -> Result<(), Error> {
        let ended = tokio::time::timeout(LONG, self.task).await.expect("the manager ends by itself").unwrap();
        drop(self.stop);
        ended
    }

    /// Aborts it, like a killed process.
    pub(crate) fn abort(self) {
        self.task.abort();
    }
}

/// The output of `tracing` on this thread while the guard lives.
pub(crate) fn traced() -> (Log<u8>, tracing::subscriber::DefaultGuard) {
    traced_at(tracing::Level::INFO)
}

pub(crate) fn traced_at(level: tracing::Level) -> (Log<u8>, tracing::subscriber::DefaultGuard) {
    struct Writer(Log<u8>);
    impl Write for Writer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            bytes.iter().for_each(|byte| self.0.push(*byte));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    // With only one subscriber, `tracing` asks only the thread that first reaches a call site
    // whether it is enabled, and that thread may belong to another test.
    static OTHERS: OnceLock<[tracing::Dispatch; 2]> = OnceLock::new();
    OTHERS.get_or_init(|| [(); 2].map(|()| tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new())));
    let log = Log::new();
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .without_time()
        .with_writer(move || Writer(written.clone()))
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}
