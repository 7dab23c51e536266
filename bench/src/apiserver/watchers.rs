//! Many watches at once, each of which counts its events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::client::{Client, Clients, ResponseBody, get};
use super::server::Server;

/// Servers allow 100 streams or more on a connection.
const WATCHES_PER_CONNECTION: u64 = 50;
/// The largest lead of the writer over the watchers, in events. With a larger one, the real server
/// would end the watches of the slow ones.
const AHEAD: u64 = 10;
/// The limit of every wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// Running watches.
pub(super) struct Watchers {
    count: u64,
    counted: Arc<Counted>,
    tasks: JoinSet<Result<u64>>,
    _clients: Clients,
}

/// The events of all watchers together.
#[derive(Default)]
struct Counted {
    events: AtomicU64,
    more: Notify,
}

impl Watchers {
    /// Starts `count` watches of all Pods from now on, and returns when all have a response.
    pub(super) async fn start(server: &Server, client: &Client, count: u64) -> Result<Self> {
        let page = client.json(get("/api/v1/pods?limit=1")).await?;
        let version = page["metadata"]["resourceVersion"].as_str().context("a list has no version")?;
        let path = format!("/api/v1/pods?watch=1&resourceVersion={version}&timeoutSeconds=3600");
        let clients = server.clients(count.div_ceil(WATCHES_PER_CONNECTION) as usize).await?;
        let counted = Arc::new(Counted::default());
        let mut tasks = JoinSet::new();
        for watcher in 0..count {
            let answer = clients.one(watcher as usize).send(get(&path)).await?;
            ensure!(answer.status() == StatusCode::OK, "a watch was answered with {}", answer.status());
            tasks.spawn(listen(answer.into_body(), Arc::clone(&counted), count));
        }
        Ok(Self { count, counted, tasks, _clients: clients })
    }

    /// Waits until the watchers are close enough behind the writer, which is about to create event
    /// `index`.
    pub(super) async fn keep_up(&self, index: u64) -> Result<()> {
        self.wait(index.saturating_sub(AHEAD)).await
    }

    /// Waits until all watchers have received `events`.
    pub(super) async fn wait(&self, events: u64) -> Result<()> {
        let all = events * self.count;
        let wait = async {
            loop {
                let more = self.counted.more.notified();
                if self.counted.events.load(Ordering::Acquire) >= all {
                    return;
                }
                more.await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            bail!("{} events came, not {all}", self.counted.events.load(Ordering::Acquire));
        }
        Ok(())
    }

    /// Ends the watches and returns the number of events. Each watch must have received `events`.
    pub(super) async fn finish(mut self, events: u64) -> Result<u64> {
        // None may have ended by itself: those that still run are ended now.
        if let Some(ended) = self.tasks.try_join_next() {
            bail!("a watch has ended: {:?}", ended.context("a watcher broke down")?);
        }
        let count = self.counted.events.load(Ordering::Acquire);
        ensure!(count == events * self.count, "{count} events came, not {}", events * self.count);
        Ok(count)
    }
}

/// Counts the lines of a watch until it ends.
async fn listen(mut body: ResponseBody, counted: Arc<Counted>, watchers: u64) -> Result<u64> {
    let mut count = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("reading a watch")?.into_data() else { continue };
        let lines = memchr::memchr_iter(b'\n', &data).count() as u64;
        count += lines;
        let before = counted.events.fetch_add(lines, Ordering::AcqRel);
        // Each time that all watchers have received one more event, a wait may be over.
        if before / watchers != (before + lines) / watchers {
            counted.more.notify_waiters();
        }
    }
    Ok(count)
}
