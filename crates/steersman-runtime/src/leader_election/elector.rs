//! Drives the state machine: sends its requests, watches the Lease, waits.

use std::fmt;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use steersman_client::{Api, Client, Error as ClientError, ObjectMeta, PostParams, TypedEvent, WatchParams, World};
use tokio::time::{sleep, timeout};

use super::election::{Election, Epoch, Loss, Record, Seen, Step};
use super::{LeaderElection, Leadership, State};
use crate::EventRecorder;
use crate::stop::StopSignal;

/// The reason of its Events, as client-go has it.
const REASON: &str = "LeaderElection";

/// Contends for one Lease.
pub(crate) struct Elector {
    election: Election,
    settings: LeaderElection,
    /// Sends each request once, with a short timeout.
    leases: Api<Lease>,
    /// Without the timeout, which would end a watch.
    watched: Api<Lease>,
    world: World,
    leadership: Leadership,
    events: EventRecorder,
    /// The term that an Event has reported as begun.
    reported: Option<Epoch>,
    /// The replica that the log has named as the leader.
    logged_holder: String,
    /// The last state of the Lease: a write keeps what the election does not know, labels for
    /// example.
    lease: Option<Lease>,
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector").field("election", &self.election).finish_non_exhaustive()
    }
}

/// How the election ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The manager stops. The Lease may still name this replica.
    Stopped,
    Lost(Loss),
}

impl Elector {
    pub(crate) fn new(
        client: &Client,
        settings: LeaderElection,
        leadership: Leadership,
        events: EventRecorder,
    ) -> Self {
        let limit = settings.request_timeout();
        // Requests of controllers must not delay a renewal. The retry period limits the election.
        let client = client.clone().with_user_agent_suffix("leader-election").without_rate_limit();
        let limited = client.clone().without_retries().with_timeout(limit);
        Self {
            election: Election::new(settings.identity.clone(), settings.timing),
            leases: limited.namespaced(&settings.namespace),
            watched: client.namespaced(&settings.namespace),
            world: client.world().clone(),
            leadership,
            events,
            reported: None,
            logged_holder: String::new(),
            settings,
            lease: None,
        }
    }

    /// Begins again as a standby.
    pub(crate) fn contend_again(&mut self) {
        self.election.contend_again();
    }

    /// Contends, and leads, until the leadership is lost or `stop` shows. A replica that does not
    /// lead ends when `stopping` shows.
    pub(crate) async fn run(&mut self, stop: &StopSignal, stopping: &StopSignal) -> Ended {
        let mut events: Option<BoxStream<'static, Option<Lease>>> = None;
        loop {
            let step = self.election.step(self.world.uptime(), self.world.now());
            self.publish();
            // A leader needs no watch: a takeover shows in the next renewal.
            if self.election.epoch().is_some() {
                events = None;
            }
            let stop = if self.election.epoch().is_some() { stop } else { stopping };
            let until = match step {
                Step::Lost(loss) => return Ended::Lost(loss),
                Step::Wait(until) => until,
                request => {
                    let deadline = self.time_to_deadline();
                    tokio::select! {
                        biased;
                        () = stop.stopped() => return Ended::Stopped,
                        // A response that comes later does not help. The next step is the loss.
                        () = sleep(deadline) => continue,
                        () = self.request(request) => continue,
                    }
                }
            };
            let events = match &mut events {
                Some(events) => events,
                none if self.election.epoch().is_none() => none.insert(self.events()),
                none => none.insert(futures::stream::pending().boxed()),
            };
            tokio::select! {
                biased;
                () = stop.stopped() => return Ended::Stopped,
                Some(lease) = events.next() => self.saw(lease),
                () = sleep(until.saturating_sub(self.world.uptime())) => {}
            }
        }
    }

    /// Frees the Lease if it names this replica, so that another one leads at once. Gives up at the
    /// renew deadline.
    pub(crate) async fn release(&mut self) {
        let limit = self.settings.timing.renew_deadline;
        // Nothing leaves any more that could arrive after another replica leads.
        self.leadership.set(State::standby(""));
        match timeout(limit, self.release_once_read()).await {
            Ok(Ok(true)) => tracing::info!(lease = self.settings.name, "lease released"),
            Ok(Ok(false)) => tracing::info!(lease = self.settings.name, "lease not released: another replica holds it"),
            Ok(Err(error)) => tracing::warn!(lease = self.settings.name, %error, "lease not released"),
            Err(_) => tracing::warn!(lease = self.settings.name, ?limit, "lease not released: no response in time"),
        }
    }

    async fn release_once_read(&mut self) -> Result<bool, ClientError> {
        loop {
            let Some(lease) = self.leases.get_opt(&self.settings.name).await? else { return Ok(false) };
            let seen = seen(&lease);
            let Some(record) = self.election.release(&seen, self.world.now()) else { return Ok(false) };
            let freed = with_record(lease, record);
            match self.leases.update(&self.settings.name, &PostParams::default(), &freed).await {
                Err(error) if error.is_conflict() => {}
                written => return written.map(|_| true),
            }
        }
    }

    /// How long a leader may still wait for a renewal. A standby has no deadline.
    fn time_to_deadline(&self) -> Duration {
        let left = |sent: Duration| {
            sent.saturating_add(self.settings.timing.renew_deadline).saturating_sub(self.world.uptime())
        };
        self.election.renewal_sent().map_or(Duration::MAX, left)
    }

    async fn request(&mut self, step: Step) {
        let (sent, name) = (self.world.uptime(), self.settings.name.clone());
        let params = PostParams::default();
        let written = match step {
            Step::Wait(_) | Step::Lost(_) => return,
            Step::Read => match self.leases.get_opt(&name).await {
                Ok(lease) => return self.saw(lease),
                Err(error) => Err(error),
            },
            Step::Create(record) => {
                let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
                let lease = with_record(Lease { metadata, ..Lease::default() }, record);
                self.leases.create(&params, &lease).await
            }
            Step::Replace { version, record } => {
                let mut lease = with_record(self.lease.clone().unwrap_or_default(), record);
                lease.metadata.name = Some(name.clone());
                lease.metadata.resource_version = Some(version);
                self.leases.update(&name, &params, &lease).await
            }
        };
        let now = self.world.uptime();
        match written {
            Ok(lease) => {
                self.election.wrote(seen(&lease), sent, now);
                self.lease = Some(lease);
            }
            Err(error) => {
                // AlreadyExists is a conflict as well: another replica was first.
                let conflict = error.is_conflict() || error.is_already_exists();
                if self.election.epoch().is_some() {
                    self.leadership.count_slow_path();
                }
                // If the Lease was deleted in between, the next read shows it.
                self.election.failed(conflict || error.is_not_found(), now, self.world.random_unit());
                if !conflict {
                    let (lease, leads) = (&*self.settings.name, self.election.epoch().is_some());
                    tracing::warn!(lease, leads, %error, "leader election request failed, will retry");
                }
            }
        }
    }

    fn saw(&mut self, lease: Option<Lease>) {
        if self.election.saw(lease.as_ref().map(seen), self.world.uptime()) {
            self.lease = lease;
        }
    }

    /// Reports by Events that a term has begun or ended.
    fn report(&mut self, epoch: Option<&Epoch>) {
        if self.reported.as_ref() == epoch {
            return;
        }
        let identity = &self.settings.identity;
        let lease = |epoch: Epoch| ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            namespace: Some(self.settings.namespace.clone()),
            name: Some(self.settings.name.clone()),
            uid: Some(epoch.lease_uid),
            ..ObjectReference::default()
        };
        let name = &*self.settings.name;
        match epoch {
            Some(_) => tracing::info!(lease = name, identity, "this replica leads"),
            None => tracing::info!(lease = name, identity, "this replica does not lead any more"),
        }
        self.logged_holder.clone_from(identity);
        if let Some(ended) = self.reported.take() {
            self.events.normal(lease(ended), REASON, "StopLeading", format!("{identity} stopped leading"));
        }
        if let Some(begun) = epoch {
            self.events.normal(lease(begun.clone()), REASON, "BecomeLeader", format!("{identity} became leader"));
        }
        self.reported = epoch.cloned();
    }

    /// This replica does not lead any more, because the manager stops.
    pub(crate) fn end(&mut self) {
        self.report(None);
    }

    fn publish(&mut self) {
        let epoch = self.election.epoch().cloned();
        self.report(epoch.as_ref());
        let state = match (self.election.epoch(), self.election.renewal_sent()) {
            (Some(epoch), Some(sent)) => {
                State::leader(epoch.clone(), &self.settings.identity, sent, &self.settings.timing)
            }
            _ => {
                self.log_holder();
                return self.leadership.set(State::standby(self.election.holder()));
            }
        };
        self.leadership.set(state);
    }

    /// Logs which replica leads, once.
    fn log_holder(&mut self) {
        let holder = self.election.holder();
        if !holder.is_empty() && *holder != *self.logged_holder {
            tracing::info!(lease = self.settings.name, holder, "another replica leads");
            holder.clone_into(&mut self.logged_holder);
        }
    }

    /// The states of the Lease from a watch; `None` when it is deleted. A broken watch is started
    /// again after the retry period.
    fn events(&self) -> BoxStream<'static, Option<Lease>> {
        let (leases, name) = (self.watched.clone(), self.settings.name.clone());
        let (retry, poll) = (self.settings.timing.retry_period, self.settings.timing.fallback_poll);
        let params = WatchParams::default().fields(&format!("metadata.name={name}"));
        futures::stream::unfold(false, move |was_logged| {
            let (leases, params, lease) = (leases.clone(), params.clone(), name.clone());
            async move {
                let watched = leases.watch(&params, "0").await;
                let has_failed = watched.is_err();
                let events: BoxStream<'static, Option<Lease>> = match watched {
                    Ok(events) => states(events).boxed(),
                    Err(error) => {
                        if !was_logged {
                            tracing::warn!(lease, ?poll, %error, "cannot watch the lease, reading it at times instead");
                        }
                        futures::stream::empty().boxed()
                    }
                };
                let pause = futures::stream::once(sleep(retry)).filter_map(|()| async { None });
                Some((events.chain(pause), has_failed))
            }
        })
        .flatten()
        .boxed()
    }
}

fn states<E>(events: impl Stream<Item = Result<TypedEvent<Lease>, E>>) -> impl Stream<Item = Option<Lease>> {
    events.filter_map(|event| async {
        match event.ok()? {
            TypedEvent::Added(lease) | TypedEvent::Modified(lease) => Some(Some(lease)),
            TypedEvent::Deleted(_) => Some(None),
            _ => None,
        }
    })
}

fn seen(lease: &Lease) -> Seen {
    let spec = lease.spec.clone().unwrap_or_default();
    let time = |time: Option<MicroTime>| time.map(|MicroTime(time)| time);
    Seen {
        uid: lease.metadata.uid.clone().unwrap_or_default(),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        record: Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0)),
            transitions: spec.lease_transitions.unwrap_or(0),
            acquired: time(spec.acquire_time),
            renewed: time(spec.renew_time),
        },
    }
}

fn with_record(lease: Lease, record: Record) -> Lease {
    let time = |time: Option<Timestamp>| time.map(MicroTime);
    let spec = LeaseSpec {
        holder_identity: Some(record.holder),
        lease_duration_seconds: Some(i32::try_from(record.duration.as_secs()).unwrap_or(i32::MAX)),
        lease_transitions: Some(record.transitions),
        acquire_time: time(record.acquired),
        renew_time: time(record.renewed),
        ..lease.spec.unwrap_or_default()
    };
    Lease { spec: Some(spec), ..lease }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use steersman_testing::Embedded;

    use super::*;
    use crate::events::Events;

    #[tokio::test]
    async fn a_late_event_does_not_bring_back_an_older_lease() {
        let (client, world) = (Embedded::empty().client(), World::system());
        let settings = LeaderElection::new("operator").prepare(&client).unwrap();
        let events = Events::new(world.clone()).recorder("test").unwrap();
        let mut elector = Elector::new(&client, settings, Leadership::new(world), events);
        let lease = |version: u64| {
            let labels = BTreeMap::from([("version".to_owned(), version.to_string())]);
            let uid = Some("uid".to_owned());
            let metadata = ObjectMeta { uid, resource_version: Some(version.to_string()), ..ObjectMeta::default() };
            Lease { metadata: ObjectMeta { labels: Some(labels), ..metadata }, ..Lease::default() }
        };
        elector.saw(Some(lease(6)));
        elector.saw(Some(lease(5)));
        assert_eq!(elector.lease, Some(lease(6)), "the next write keeps the newest labels");
        elector.saw(None);
        assert_eq!(elector.lease, None);
    }
}
