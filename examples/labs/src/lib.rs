//! The common part of the labs: a cluster to work with.
//!
//! A lab uses the cluster of `--kubeconfig`, `--master` or the variable `KUBECONFIG`. Without any
//! of them it starts an API server of its own, in this process, with two Nodes, a few Pods and two
//! Networks. It does not use `~/.kube/config`, so that no cluster is used by accident. On a
//! cluster, a lab reads and watches and never writes.
//!
//! `docs/labs.md` leads through the labs.

mod network;
mod samples;

use std::hash::Hash;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use steersman::cache::{Informer, Object};
use steersman::client::config_from_flags;
use steersman::workqueue::WorkQueue;
use steersman::{Client, ObjectKey, shutdown_signal};
use steersman_testing::Embedded;

pub use network::{Network, NetworkSpec};

/// How long a lab waits for a server.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The interval of polling.
const GLANCE: Duration = Duration::from_millis(5);

/// A lab of steersman: see docs/labs.md
#[derive(Parser)]
struct Flags {
    /// The kubeconfig of a cluster to look at
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The address of its API server, instead of that in the kubeconfig
    #[arg(long, value_name = "URL")]
    master: Option<String>,
}

/// The environment of a lab.
pub struct Lab {
    client: Client,
    embedded: Option<Embedded>,
}

impl Lab {
    /// Reads the command line, and connects to the cluster that it names or to a server of our own.
    pub async fn connect() -> Result<Self> {
        let flags = Flags::parse();
        let kubeconfig = std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty());
        if flags.kubeconfig.is_some() || flags.master.is_some() || kubeconfig {
            let config = config_from_flags(flags.master.as_deref(), flags.kubeconfig.as_deref()).await?;
            return Ok(Self { client: Client::builder(config).build()?, embedded: None });
        }
        let embedded = Embedded::start();
        let client = embedded.client();
        samples::create(&client).await?;
        Ok(Self { client, embedded: Some(embedded) })
    }

    /// A client of the server.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The server, if it is our own.
    pub fn embedded(&self) -> Option<&Embedded> {
        self.embedded.as_ref()
    }

    /// On a server of our own, where nothing happens by itself: runs `play`, and returns. On a
    /// cluster: waits for Ctrl-C.
    pub async fn play(&self, play: impl Future<Output = Result<()>>) -> Result<()> {
        if self.embedded.is_some() {
            return play.await;
        }
        println!("(Ctrl-C ends this)");
        shutdown_signal().await;
        Ok(())
    }
}

/// Waits until the handlers of an informer have received everything that is in its cache, and
/// workers have processed the queue.
pub async fn idle<K: Object>(informer: &Informer<K>, queue: &WorkQueue<ObjectKey>) {
    while informer.metrics().events_pending > 0 {
        tokio::time::sleep(GLANCE).await;
    }
    drained(queue).await;
}

/// Waits until a queue has no key that is ready, in progress or delayed.
pub async fn drained<T: Hash + Eq + Clone>(queue: &WorkQueue<T>) {
    let is_drained = || queue.unfinished().count == 0 && queue.is_empty() && queue.delayed() == 0;
    // Twice, because a key may change from one of the three states to another in between.
    while !(is_drained() && is_drained()) {
        tokio::time::sleep(GLANCE).await;
    }
}
