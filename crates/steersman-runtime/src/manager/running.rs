//! The running controllers, runnables and servers of a manager, in groups.

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};

use crate::layer::panic_message;
use crate::stop::{StopSignal, Stopper};
use crate::{Error, ReconcileError};

/// The time that a group gets if the grace period is over already: enough to see the signal.
const MIN_GRACE: Duration = Duration::from_millis(100);
/// The time that requests to the manager's own servers have to end. Their clients can be strangers.
const ENDPOINTS_GRACE: Duration = Duration::from_secs(5);

pub(super) type RunnableFuture = Pin<Box<dyn Future<Output = Result<(), ReconcileError>> + Send>>;

pub(super) struct Runnable {
    pub(super) name: String,
    pub(super) group: Group,
    pub(super) run: Box<dyn FnOnce(Launch) -> RunnableFuture + Send>,
}

/// The arguments of a runnable when it starts.
pub(crate) struct Launch {
    pub(crate) stop: StopSignal,
    /// It was added after the caches of the manager had synced.
    pub(crate) late: bool,
}

/// Runnables of a group stop together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// The manager's own servers for metrics and probes. Started first, stopped last, and cut off
    /// from slow clients without an error.
    Endpoints,
    /// Started first, stopped after the caches.
    Servers,
    Runnables,
    /// Holds the lease until controllers and elected runnables have stopped.
    Elector,
    ElectedRunnables,
    Controllers,
}

/// The runnables that run.
#[derive(Default)]
pub(super) struct Running {
    tasks: JoinSet<Result<(), ReconcileError>>,
    runnables: HashMap<Id, (Group, String, AbortHandle)>,
    stoppers: HashMap<Group, Stopper>,
    aborted: Vec<String>,
}

impl Running {
    pub(super) fn start(&mut self, runnable: Runnable, late: bool) {
        let stop = self.stopper(runnable.group).signal();
        let task = self.tasks.spawn((runnable.run)(Launch { stop, late }));
        self.runnables.insert(task.id(), (runnable.group, runnable.name, task));
    }

    fn stopper(&mut self, group: Group) -> &Stopper {
        self.stoppers.entry(group).or_insert_with(Stopper::new)
    }

    fn runs(&self, group: Group) -> bool {
        self.runnables.values().any(|(other, ..)| *other == group)
    }

    /// Waits for a runnable to end. Never completes if there is none. An error names the runnable
    /// that failed.
    pub(super) async fn ended(&mut self) -> Result<(), Error> {
        let Some(ended) = self.tasks.join_next_with_id().await else { return std::future::pending().await };
        let (id, problem) = match ended {
            Ok((id, Ok(()))) => (id, None),
            Ok((id, Err(failure))) => (id, Some(failure.to_string())),
            Err(error) => {
                let id = error.id();
                (id, error.try_into_panic().ok().map(|panic| format!("it panicked: {}", panic_message(&*panic))))
            }
        };
        let name = self.runnables.remove(&id).map_or_else(String::new, |(_, name, _)| name);
        problem.map_or(Ok(()), |problem| Err(Error::Runnable { name, problem }))
    }

    /// Stops a group, and aborts the runnables that do not end in time.
    pub(super) async fn stop(&mut self, group: Group, deadline: Instant) {
        self.stopper(group).stop();
        let is_endpoints = group == Group::Endpoints;
        let deadline = if is_endpoints { deadline.min(Instant::now() + ENDPOINTS_GRACE) } else { deadline };
        let deadline = with_min_grace(deadline);
        while self.runs(group) {
            match timeout_at(deadline, self.ended()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "a runnable failed while the manager stopped"),
                Err(_) => break,
            }
        }
        for (_, name, task) in self.runnables.values().filter(|(other, ..)| *other == group) {
            task.abort();
            match group {
                Group::Endpoints => tracing::info!(server = name, "clients cut off, because the manager stops"),
                Group::Elector => tracing::warn!("lease not released: no response in time"),
                _ => self.aborted.push(name.clone()),
            }
        }
        // A runnable that never awaits cannot be aborted, and the manager does not wait for it.
        let _ = timeout(MIN_GRACE, async {
            while self.runs(group) {
                let _ = self.ended().await;
            }
        })
        .await;
    }

    /// Whether everything that was stopped so far ended in time.
    pub(super) fn ended_in_time(&self) -> bool {
        self.aborted.is_empty()
    }

    /// The names of the runnables that did not end in time.
    pub(super) fn aborted(mut self) -> Vec<String> {
        self.aborted.sort();
        self.aborted
    }
}

/// This time, or a moment from now if it has passed.
pub(super) fn with_min_grace(deadline: Instant) -> Instant {
    deadline.max(Instant::now() + MIN_GRACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a group that never ends takes to stop with a grace period, and what is named.
    async fn stop(group: Group, grace: u64) -> (u64, Vec<String>) {
        let mut running = Running::default();
        let run = Box::new(|_| -> RunnableFuture { Box::pin(std::future::pending()) });
        running.start(Runnable { name: "slow".to_owned(), group, run }, false);
        let began = Instant::now();
        running.stop(group, began + Duration::from_secs(grace)).await;
        (began.elapsed().as_secs(), running.aborted())
    }

    #[tokio::test(start_paused = true)]
    async fn slow_clients_take_a_few_seconds_of_the_grace_period_and_are_no_error() {
        assert_eq!(stop(Group::Endpoints, 30).await, (5, vec![]));
        assert_eq!(stop(Group::Endpoints, 3).await, (3, vec![]));
        assert_eq!(stop(Group::Servers, 30).await, (30, vec!["slow".to_owned()]));
    }
}
