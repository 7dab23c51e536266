//! A controller made of its parts, as in the tutorials: no Manager, but an informer whose handlers
//! add keys to a work queue, and workers that take them. It only prints what it would do in
//! Neutron.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use labs::{Lab, Network, NetworkSpec, PATIENCE, idle};
use serde_json::json;
use steersman::Patch;
use steersman::cache::{Cached, EventHandler, Informer, InformerOptions, Lister, ObjectKey, SharedInformerFactory};
use steersman::client::{DeleteParams, PatchParams, PostParams};
use steersman::workqueue::WorkQueue;
use tokio::task::JoinSet;

/// The resync period.
const RESYNC: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    let factory = SharedInformerFactory::new(lab.client().clone());
    let controller = Controller::new(factory.informer::<Network>(InformerOptions::all())?)?;
    factory.start()?;
    controller.run(2, lab.play(change_networks(&lab, &controller))).await?;
    factory.shutdown().await?;
    Ok(())
}

struct Controller {
    informer: Informer<Network>,
    networks: Lister<Network>,
    queue: WorkQueue<ObjectKey>,
}

/// Adds the keys of Networks to the queue.
struct Enqueue(WorkQueue<ObjectKey>);

impl EventHandler<Network> for Enqueue {
    fn on_add(&mut self, network: &Cached<Network>, _initial: bool) {
        self.0.add(network.key());
    }

    fn on_update(&mut self, old: &Cached<Network>, new: &Cached<Network>) {
        // A resync delivers Networks that have not changed.
        if old.meta().resource_version() != new.meta().resource_version() {
            self.0.add(new.key());
        }
    }

    fn on_delete(&mut self, network: &Cached<Network>, _final_state_unknown: bool) {
        self.0.add(network.key());
    }
}

impl Controller {
    fn new(informer: Informer<Network>) -> Result<Arc<Self>> {
        let queue = WorkQueue::new();
        informer.add_event_handler_with_resync(Enqueue(queue.clone()), RESYNC)?;
        Ok(Arc::new(Self { networks: informer.lister(), informer, queue }))
    }

    /// Waits for the cache, then runs until `stop` completes.
    async fn run(self: &Arc<Self>, workers: usize, stop: impl Future<Output = Result<()>>) -> Result<()> {
        self.informer.wait_for_sync(PATIENCE).await.context("waiting for the cache")?;
        let mut running = JoinSet::new();
        for _ in 0..workers {
            let controller = Arc::clone(self);
            running.spawn(async move { while controller.process_next_work_item().await {} });
        }
        let stopped = stop.await;
        self.queue.shut_down();
        running.join_all().await;
        stopped
    }

    /// Processes one key. Returns `false` when the queue is shut down.
    async fn process_next_work_item(&self) -> bool {
        let Some(item) = self.queue.get().await else { return false };
        match self.sync_handler(&item) {
            Ok(()) => item.done(),
            Err(error) => {
                println!("error syncing {}: {error:#}", *item);
                item.retry();
            }
        }
        true
    }

    /// Compares the desired state with the actual one.
    fn sync_handler(&self, key: &ObjectKey) -> Result<()> {
        let Some(network) = self.networks.get_by_key(key) else {
            println!("[Neutron] {key} is not in the cache: would be deleted");
            return Ok(());
        };
        let NetworkSpec { cidr, gateway } = &network.get()?.spec;
        println!("[Neutron] {key} would be created or updated: cidr {cidr}, gateway {gateway}");
        Ok(())
    }
}

/// The changes on a server of our own: a Network is created, changed and deleted.
async fn change_networks(lab: &Lab, controller: &Controller) -> Result<()> {
    let seen = async |network: &Network| -> Result<()> {
        let version = network.metadata.resource_version.as_deref().unwrap_or_default();
        controller.networks.wait_for_version(version, PATIENCE).await?;
        idle(&controller.informer, &controller.queue).await;
        Ok(())
    };
    idle(&controller.informer, &controller.queue).await;
    let networks = lab.client().namespaced::<Network>("default");
    let spec = NetworkSpec { cidr: "10.0.3.0/24".to_owned(), gateway: "10.0.3.1".to_owned() };
    seen(&networks.create(&PostParams::default(), &Network::new("net-3", spec)).await?).await?;
    let patch = Patch::Merge(json!({"spec": {"gateway": "10.0.3.254"}}));
    seen(&networks.patch("net-3", &PatchParams::default(), &patch).await?).await?;
    networks.delete("net-3", &DeleteParams::default()).await?;
    controller.networks.wait_until(PATIENCE, || controller.networks.get("default", "net-3").is_none()).await;
    idle(&controller.informer, &controller.queue).await;
    Ok(())
}
