//! Starts everything that a manager has, and stops it in reverse order.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::running::{Group, Runnable, Running, with_min_grace};
use super::{Life, Manager, wait_with_reminders};
use crate::Error;
use crate::caches::FOREVER;
use crate::events::Writer;

impl Manager {
    /// Runs everything until `shutdown` completes or a runnable fails. A manager can be started
    /// once.
    pub async fn start(&self, shutdown: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let (sender, added) = mpsc::unbounded_channel();
        let runnables = self.begin(sender)?;
        let end = End(self);
        let writer = Writer::start(self.inner.client.live(), &self.inner.events);
        let mut running = Running::default();
        let ended = self.run(runnables, added, &mut running, shutdown).await;
        end.nothing_more();
        let deadline = after(self.inner.grace);
        if let Some(election) = &self.inner.election {
            election.stopping.stop();
        }
        // After a loss of the leadership, what is elected ends by itself before another replica may
        // lead. What needs no leader has the grace period in any case.
        running.stop(Group::Controllers, deadline).await;
        running.stop(Group::ElectedRunnables, deadline).await;
        let mut ended = ended;
        if let Some(election) = &self.inner.election {
            election.may_release.store(running.ended_in_time(), Ordering::Release);
            // A release that does not fit into the grace period gets the time of a request.
            running.stop(Group::Elector, deadline.max(after(election.settings.request_timeout()))).await;
            // It may have been lost only now.
            if let Some(lost) = election.lost() {
                ended = Err(lost);
            }
        }
        running.stop(Group::Runnables, deadline).await;
        // The caches have ended with the first poll; only slow handlers are waited for.
        let left = with_min_grace(deadline).saturating_duration_since(Instant::now());
        let mut aborted = self.inner.caches.shutdown(left).await;
        let servers = async {
            running.stop(Group::Servers, deadline).await;
            running.stop(Group::Endpoints, deadline).await;
        };
        // A server that is slow to stop costs no Events.
        tokio::join!(servers, writer.flush(with_min_grace(deadline)));
        aborted.extend(running.aborted());
        if aborted.is_empty() {
            return ended;
        }
        let late = Error::Grace { waited: self.inner.grace, names: aborted };
        if ended.is_err() {
            tracing::error!(error = %late, "runnables did not stop after another one had failed");
        }
        ended.and(Err(late))
    }

    /// From now on runnables start as soon as they are added.
    fn begin(&self, sender: mpsc::UnboundedSender<Runnable>) -> Result<Vec<Runnable>, Error> {
        let mut state = self.state();
        let Life::New(runnables) = &mut state.life else { return Err(Error::StartedTwice) };
        let runnables = std::mem::take(runnables);
        state.life = Life::Running(sender);
        Ok(runnables)
    }

    async fn run(
        &self,
        runnables: Vec<Runnable>,
        mut added: mpsc::UnboundedReceiver<Runnable>,
        running: &mut Running,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let caches = &self.inner.caches;
        let mut shutdown = std::pin::pin!(shutdown);
        let (servers, others): (Vec<_>, Vec<_>) =
            runnables.into_iter().partition(|runnable| matches!(runnable.group, Group::Servers | Group::Endpoints));
        servers.into_iter().for_each(|runnable| running.start(runnable, false));
        caches.start()?;
        // The election, too, begins when the caches have synced.
        let is_runnable = |runnable: &Runnable| runnable.group != Group::Controllers;
        let (mut runnables, controllers): (Vec<_>, Vec<_>) = others.into_iter().partition(is_runnable);
        controllers.into_iter().for_each(|runnable| running.start(runnable, false));

        let mut starting = self.inner.starting.subscribe();
        let mut synced_or_missing = std::pin::pin!(caches.synced_or_missing());
        let mut synced = std::pin::pin!(self.synced());
        let mut started = std::pin::pin!(starting.wait_for(BTreeSet::is_empty));
        let (mut runnables_started, mut caches_synced, mut controllers_started) = (false, false, false);
        loop {
            tokio::select! {
                // The listeners for signals are installed by the first poll.
                biased;
                () = &mut shutdown => return Ok(()),
                error = caches.failed() => return Err(error),
                () = &mut synced_or_missing, if !runnables_started => {
                    runnables_started = true;
                    runnables.drain(..).for_each(|runnable| running.start(runnable, false));
                }
                synced = &mut synced, if !caches_synced => {
                    synced?;
                    caches_synced = true;
                }
                // The sender lives as long as the manager.
                _ = &mut started, if !controllers_started => controllers_started = true,
                Some(runnable) = added.recv() => match runnable.group {
                    Group::Runnables | Group::ElectedRunnables if !runnables_started => runnables.push(runnable),
                    _ => running.start(runnable, caches_synced),
                },
                ended = running.ended() => ended?,
            }
            if runnables_started && caches_synced && controllers_started {
                self.inner.ready.store(true, Ordering::Release);
            }
        }
    }

    /// Waits until all caches have synced, and logs what is missing.
    async fn synced(&self) -> Result<(), Error> {
        let (caches, started) = (&self.inner.caches, Instant::now());
        let synced = async {
            caches.synced().await;
            Ok(())
        };
        let remind = |missing: &str| {
            let controllers = self.inner.starting.borrow().iter().cloned().collect::<Vec<_>>();
            tracing::warn!(missing, ?controllers, "the manager waits for its caches");
        };
        wait_with_reminders(self.inner.sync_timeout, synced, || caches.waiting(), remind).await?;
        let count = caches.metrics().len();
        if count > 0 {
            tracing::info!(caches = count, after = ?started.elapsed(), "caches synced");
        }
        Ok(())
    }
}

/// Ends the manager, even if the future of `start` is dropped.
struct End<'a>(&'a Manager);

impl End<'_> {
    /// Refuses everything that is added from now on.
    fn nothing_more(&self) {
        self.0.inner.ready.store(false, Ordering::Release);
        self.0.state().life = Life::Ended;
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.nothing_more();
        // The caches end with the first poll.
        let _ = self.0.inner.caches.shutdown(Duration::ZERO).now_or_never();
    }
}

/// Waits until this time.
pub(super) fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + FOREVER)
}
