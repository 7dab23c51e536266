//! A controller made of its parts: no manager, no builder.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_cache::{Event, Informer, InformerOptions, Lister, ObjectKey, SharedInformerFactory, handler};
use steersman_testing::Embedded;
use steersman_workqueue::WorkQueue;
use tokio::task::JoinSet;

use crate::support::*;

/// As in the tutorials: an informer whose handlers add keys to a queue, and workers that take them.
struct Controller {
    lister: Lister<ConfigMap>,
    informer: Informer<ConfigMap>,
    queue: WorkQueue<String>,
    log: Log<String>,
}

impl Controller {
    fn new(informer: Informer<ConfigMap>, log: Log<String>) -> Arc<Self> {
        let queue = WorkQueue::new();
        let keys = queue.clone();
        let enqueue = handler(move |event: &Event<ConfigMap>| keys.add(event.object().key().to_string()));
        informer.add_event_handler(enqueue).unwrap();
        Arc::new(Self { lister: informer.lister(), informer, queue, log })
    }

    async fn run(
        self: Arc<Self>,
        workers: usize,
        stop: impl Future<Output = ()>,
    ) -> Result<(), steersman_cache::Error> {
        self.informer.wait_for_sync(Duration::from_secs(30)).await?;
        let mut running = JoinSet::new();
        for _ in 0..workers {
            let controller = Arc::clone(&self);
            running.spawn(async move { while controller.process_next_work_item().await {} });
        }
        stop.await;
        self.queue.shut_down();
        running.join_all().await;
        Ok(())
    }

    async fn process_next_work_item(&self) -> bool {
        let Some(item) = self.queue.get().await else { return false };
        match self.sync_handler(&item) {
            Ok(()) => item.done(),
            Err(error) => {
                self.log.note(format!("{} failed: {error}", *item));
                item.retry();
            }
        }
        true
    }

    fn sync_handler(&self, text: &str) -> Result<(), String> {
        // client-go's SplitMetaNamespaceKey.
        let key: ObjectKey = text.parse().map_err(|error| format!("{error}"))?;
        let Some(map) = self.lister.get(key.namespace().unwrap_or_default(), key.name()) else {
            self.log.note(format!("{key} is gone"));
            return Ok(());
        };
        let map = map.get().map_err(|error| error.to_string())?;
        let value = map.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default();
        if value == "bad" && self.queue.retries(&text.to_owned()) < 2 {
            return Err("not yet".to_owned());
        }
        self.log.note(format!("{key} has {value}"));
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_made_of_its_parts_needs_no_manager() {
    let server = Embedded::empty();
    let client = client(&server);
    let maps = Maps::new(&client);
    maps.create("a").await;
    let factory = SharedInformerFactory::new(client);
    let log = Log::new();
    let informer = factory.informer::<ConfigMap>(InformerOptions::all().namespace("default")).unwrap();
    let controller = Controller::new(informer, log.clone());
    factory.start().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(Arc::clone(&controller).run(2, async { drop(stopped.await) }));
    eventually("what is there is looked at", || log.take() == ["default/a has 1"]).await;
    maps.set("a", "bad").await;
    settle().await;
    assert_eq!(log.take(), ["default/a failed: not yet", "default/a failed: not yet", "default/a has bad"]);
    maps.delete("a").await;
    settle().await;
    assert_eq!(log.take(), ["default/a is gone"]);
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    factory.shutdown().await.unwrap();
}
