//! Writes Events, one request at a time.

use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::json;
use steersman_client::{Client, Error as ClientError, ObjectMeta, Patch, PatchParams, PostParams};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::correlator::{Next, Outcome, Write};
use super::text::{SHORT_BYTES_MAX, truncate};
use super::{EventType, Events};

/// The limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait that a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The task that writes the Events of a manager. Dropping it ends it.
pub(crate) struct Writer {
    events: Events,
    flush: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Writer {
    pub(crate) fn start(client: &Client, events: &Events) -> Self {
        let (flush, flushed) = oneshot::channel();
        // The correlator decides when a request is sent again.
        let client = client.clone().without_retries().with_timeout(REQUEST_TIMEOUT);
        let running = Running { client, events: events.clone(), was_refused: false };
        Self { events: events.clone(), flush: Some(flush), task: tokio::spawn(running.run(flushed)) }
    }

    /// Writes what is not written yet, and ends.
    pub(crate) async fn flush(mut self, deadline: Instant) {
        self.flush.take().map(|flush| flush.send(()));
        if timeout_at(deadline, &mut self.task).await.is_err() {
            tracing::warn!("Events not written within the grace period");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.task.abort();
        self.events.correlator().end();
    }
}

struct Running {
    client: Client,
    events: Events,
    /// The last request was refused, which is logged once.
    was_refused: bool,
}

impl Running {
    async fn run(mut self, flush: oneshot::Receiver<()>) {
        let mut flush = flush.fuse();
        let mut is_flushing = false;
        loop {
            let next = self.events.correlator().next(self.now());
            let until = match next {
                Next::Write(write) => {
                    let outcome = self.write(&write).await;
                    let world = &self.events.shared.world;
                    let (now, wall) = (world.uptime(), world.now());
                    self.events.correlator().done(&write, outcome, now, wall, || world.random_bytes());
                    if is_flushing && matches!(outcome, Outcome::Retry { everywhere: true, .. }) {
                        return;
                    }
                    continue;
                }
                Next::Wait(_) if is_flushing => return,
                Next::Wait(until) => until,
            };
            let due = async {
                match until {
                    Some(until) => sleep(until.saturating_sub(self.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.events.shared.changed.notified() => {}
                () = due => {}
                _ = &mut flush => {
                    is_flushing = true;
                    self.events.correlator().flush(self.now());
                }
            }
        }
    }

    fn now(&self) -> Duration {
        self.events.shared.world.uptime()
    }

    async fn write(&mut self, write: &Write) -> Outcome {
        let regarding = &write.key.group.regarding;
        let events = self.client.namespaced::<Event>(regarding.event_namespace());
        let written = match event(write, &self.events.shared.host) {
            Some(event) => events.create(&PostParams::default(), &event).await,
            None => {
                // A merge patch: servers with custom storage have no strategic merge patch.
                let patch = Patch::Merge(json!({ "series": series(write) }));
                events.patch(&write.name, &PatchParams::default(), &patch).await
            }
        };
        let outcome = written.as_ref().map_or_else(|error| self.failed(error), |_| Outcome::Written);
        match written {
            Err(error) if outcome == Outcome::Refused => {
                let (kind, name, reason) = (&*regarding.kind, &*regarding.name, &*write.key.group.reason);
                if std::mem::replace(&mut self.was_refused, true) {
                    tracing::debug!(kind, name, reason, %error, "Event refused");
                } else {
                    tracing::warn!(kind, name, reason, %error, "Event refused (others are logged at level debug)");
                }
            }
            Err(error) => tracing::debug!(name = write.name, %error, ?outcome, "Event not written"),
            Ok(_) => self.was_refused = false,
        }
        outcome
    }

    fn failed(&self, error: &ClientError) -> Outcome {
        let details = error.status().and_then(|status| status.details.as_ref());
        let is_terminating =
            details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"));
        if error.is_not_found() {
            return Outcome::NotFound;
        }
        if error.is_already_exists() {
            return Outcome::AlreadyExists;
        }
        if is_terminating {
            return Outcome::Discarded;
        }
        // The server has patched without success, because of other writers.
        if !error.is_retryable() && !error.is_conflict() {
            return Outcome::Refused;
        }
        let seconds = details.map_or(0, |details| details.retry_after_seconds);
        Outcome::Retry {
            after: (seconds > 0).then(|| Duration::from_secs(seconds.into()).min(RETRY_AFTER_MAX)),
            // With any other status, the server works and has a problem with this one.
            everywhere: error.status().is_none_or(|status| matches!(status.code, 429 | 503 | 504)),
            jitter: self.events.shared.world.random_unit(),
        }
    }
}

fn series(write: &Write) -> EventSeries {
    EventSeries { count: i32::try_from(write.count).unwrap_or(i32::MAX), last_observed_time: MicroTime(write.last) }
}

/// The Event of a series, if it has to be created.
fn event(write: &Write, host: &str) -> Option<Event> {
    let (first, note) = write.create.clone()?;
    let group = &*write.key.group;
    let mut instance = format!("{}-{host}", group.controller);
    truncate(&mut instance, SHORT_BYTES_MAX);
    let event_type = match group.event_type {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    Some(Event {
        metadata: ObjectMeta {
            name: Some(write.name.clone()),
            namespace: Some(group.regarding.event_namespace().to_owned()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(first)),
        reporting_controller: Some(group.controller.to_string()),
        reporting_instance: Some(instance),
        type_: Some(event_type.to_owned()),
        reason: Some(group.reason.clone().into_owned()),
        action: Some(group.action.clone().into_owned()),
        regarding: Some(group.regarding.reference()),
        related: group.related.as_ref().map(|related| related.reference()),
        note: (!note.is_empty()).then_some(note),
        series: (write.count > 1).then(|| series(write)),
        ..Event::default()
    })
}
