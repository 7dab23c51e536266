//! The parts of a manager that run, in groups.

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};

use crate::layers::words;
use crate::stop::{Stop, Stopper};
use crate::{Error, Failure};

/// What those have who are told to stop when the grace period is over already: enough to hear it.
const LAST_MOMENT: Duration = Duration::from_millis(100);

pub(super) type PartFuture = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

pub(super) struct Part {
    pub(super) name: String,
    pub(super) group: Group,
    pub(super) run: Box<dyn FnOnce(Launch) -> PartFuture + Send>,
}

/// What a part is started with.
pub(crate) struct Launch {
    pub(crate) stop: Stop,
    /// It was added after the caches of the manager had synced.
    pub(crate) late: bool,
}

/// Parts of a group stop together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// Started first, stopped last.
    Servers,
    Runnables,
    Controllers,
}

/// The parts that run.
#[derive(Default)]
pub(super) struct Running {
    tasks: JoinSet<Result<(), Failure>>,
    parts: HashMap<Id, (Group, String, AbortHandle)>,
    stoppers: HashMap<Group, Stopper>,
    cut_off: Vec<String>,
}

impl Running {
    pub(super) fn start(&mut self, part: Part, late: bool) {
        let stop = self.stopper(part.group).token();
        let task = self.tasks.spawn((part.run)(Launch { stop, late }));
        self.parts.insert(task.id(), (part.group, part.name, task));
    }

    fn stopper(&mut self, group: Group) -> &Stopper {
        self.stoppers.entry(group).or_insert_with(Stopper::new)
    }

    fn runs(&self, group: Group) -> bool {
        self.parts.values().any(|(other, ..)| *other == group)
    }

    /// Waits for a part to end; for ever if there is none. An error names the part that failed.
    pub(super) async fn ended(&mut self) -> Result<(), Error> {
        let Some(ended) = self.tasks.join_next_with_id().await else { return std::future::pending().await };
        let (id, problem) = match ended {
            Ok((id, Ok(()))) => (id, None),
            Ok((id, Err(failure))) => (id, Some(failure.to_string())),
            Err(error) => {
                let id = error.id();
                (id, error.try_into_panic().ok().map(|panic| format!("it panicked: {}", words(&*panic))))
            }
        };
        let part = self.parts.remove(&id).map_or_else(String::new, |(_, name, _)| name);
        problem.map_or(Ok(()), |problem| Err(Error::Part { part, problem }))
    }

    /// Stops a group, and cuts off the parts that do not end in time.
    pub(super) async fn stop(&mut self, group: Group, deadline: Instant) {
        self.stopper(group).stop();
        let deadline = at_least_a_moment(deadline);
        while self.runs(group) {
            match timeout_at(deadline, self.ended()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "a part failed while the manager stopped"),
                Err(_) => break,
            }
        }
        for (_, name, task) in self.parts.values().filter(|(other, ..)| *other == group) {
            task.abort();
            self.cut_off.push(name.clone());
        }
        // One that never waits for anything cannot be cut off, and is not waited for either.
        let _ = timeout(LAST_MOMENT, async {
            while self.runs(group) {
                let _ = self.ended().await;
            }
        })
        .await;
    }

    /// The names of those that did not end in time.
    pub(super) fn cut_off(mut self) -> Vec<String> {
        self.cut_off.sort();
        self.cut_off
    }
}

/// This time, or a moment from now if it has passed.
pub(super) fn at_least_a_moment(deadline: Instant) -> Instant {
    deadline.max(Instant::now() + LAST_MOMENT)
}
