//! One leader among the replicas of a program, by a Lease.

mod election;
mod elector;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steersman_client::{Client, World, WriteGate};
use steersman_wire::NameFormat;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::stop::{StopSignal, Stopper};
use crate::{Error, ReconcileError, host_name};

pub use election::Epoch;
pub(crate) use elector::{Elector, Ended};

/// How the replicas of a program elect the one that acts.
///
/// ```
/// # use steersman_client::Client;
/// # use steersman_runtime::leader_election::LeaderElection;
/// # use steersman_runtime::{Error, Manager};
/// # fn example(client: Client) -> Result<Manager, Error> {
/// let manager = Manager::builder(client).leader_election(LeaderElection::new("network-operator"))?.build();
/// # Ok(manager)
/// # }
/// ```
///
/// The Lease has this name and lies in the namespace of the client, which in a Pod is that of its
/// service account. The leader renews it every two seconds. A standby watches it, keeps its caches
/// up to date, and takes over when the leader releases it or has not renewed it for 15 s. Only
/// local clocks count: the clocks of replicas may differ.
///
/// **Contract** (contract 12). No write of an elected controller leaves the manager's client
/// later than the renew deadline after the last successful renewal was sent. Such a write fails
/// with [`Error::NotLeader`]. So does a write of an earlier term when the replica leads again. A
/// request that is under way is cancelled at 0.8 times the lease duration after that renewal was
/// sent, before another replica may lead.
///
/// The promise is about leaving the client. A request that the kernel or the network already has
/// can still reach the server after another replica leads. So:
/// - An update carries the resourceVersion it is based on, and is refused if the new leader has
///   changed the object.
/// - Children have names that follow from their owner, so that a late create is refused with 409.
/// - For systems outside Kubernetes, send the [`Epoch`] along and refuse requests of earlier ones.
#[derive(Debug, Clone)]
#[must_use]
pub struct LeaderElection {
    name: String,
    namespace: String,
    /// The namespace is that of the client.
    is_own_namespace: bool,
    identity: String,
    timing: Timing,
    release_on_stop: bool,
    step_down: bool,
}

impl LeaderElection {
    /// Elects by the Lease of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: String::new(),
            is_own_namespace: false,
            identity: String::new(),
            timing: Timing::default(),
            release_on_stop: true,
            step_down: false,
        }
    }

    /// The namespace of the Lease. Default: the client's, which in a Pod is that of its service
    /// account.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The name of this replica in the Lease. It must differ between replicas, and between two
    /// starts of the same replica. Default: the host name and random digits.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self
    }

    /// The durations of the election.
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Keeps the Lease when the manager stops. Another replica then waits for it to expire.
    pub fn keep_on_stop(mut self) -> Self {
        self.release_on_stop = false;
        self
    }

    /// Goes on as a standby after the leadership is lost: elected controllers stop, caches stay,
    /// and the replica contends again. Default: the manager stops with [`Error::LeadershipLost`].
    pub fn step_down(mut self) -> Self {
        self.step_down = true;
        self
    }

    /// Adds the defaults of the client, and refuses settings that cannot work.
    pub(crate) fn prepare(mut self, client: &Client) -> Result<Self, Error> {
        self.timing.check()?;
        if self.name.is_empty() {
            let problem = "the Lease has no name: use the name of the program".to_owned();
            return Err(Error::InvalidLeaderElection { problem });
        }
        if let Some(rule) = NameFormat::DnsSubdomain.validate(&self.name).first() {
            let problem = format!("invalid name {:?} of the Lease: {rule}", self.name);
            return Err(Error::InvalidLeaderElection { problem });
        }
        if self.namespace.is_empty() {
            client.default_namespace().clone_into(&mut self.namespace);
            self.is_own_namespace = true;
        }
        if self.identity.is_empty() {
            let random = client.world().random_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            self.identity = format!("{}_{random}", host_name());
        }
        Ok(self)
    }

    pub(crate) fn steps_down(&self) -> bool {
        self.step_down
    }

    pub(crate) fn releases(&self) -> bool {
        self.release_on_stop
    }

    /// The limit of a request. A renewal that takes longer leaves no time for another attempt.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.timing.renew_deadline / 2).max(Duration::from_secs(1))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn namespace_of_lease(&self) -> &str {
        &self.namespace
    }

    /// The namespace of the Lease, if it is not the client's.
    pub(crate) fn other_namespace(&self) -> Option<&str> {
        (!self.is_own_namespace).then_some(&self.namespace)
    }
}

/// Shows whether this replica leads. Clones show the same.
#[derive(Clone)]
pub struct Leadership {
    state: Arc<watch::Sender<State>>,
    slow_path: Arc<AtomicU64>,
    world: World,
}

/// The state of the election, in times of [`World::uptime`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    epoch: Option<Epoch>,
    holder: String,
    writes_until: Duration,
    cancel_at: Duration,
    /// The last term that has ended, and when its requests are cancelled.
    ended: Option<(Epoch, Duration)>,
}

impl State {
    pub(crate) fn standby(holder: &str) -> Self {
        let holder = holder.to_owned();
        Self { epoch: None, holder, writes_until: Duration::ZERO, cancel_at: Duration::ZERO, ended: None }
    }

    fn leader(epoch: Epoch, identity: &str, renewal_sent: Duration, timing: &Timing) -> Self {
        Self {
            epoch: Some(epoch),
            holder: identity.to_owned(),
            writes_until: renewal_sent.saturating_add(timing.renew_deadline),
            cancel_at: renewal_sent.saturating_add(timing.lease_duration.mul_f64(CANCEL_AFTER)),
            ended: None,
        }
    }

    /// This replica leads in `epoch`, and may write.
    fn is_open(&self, epoch: &Epoch, now: Duration) -> bool {
        self.epoch.as_ref() == Some(epoch) && now < self.writes_until
    }
}

impl Leadership {
    pub(crate) fn new(world: World) -> Self {
        Self { state: Arc::new(watch::Sender::new(State::standby(""))), slow_path: Arc::default(), world }
    }

    /// Whether this replica leads: its last renewal was sent within the renew deadline.
    pub fn is_leader(&self) -> bool {
        let state = self.state.borrow();
        state.epoch.is_some() && self.world.uptime() < state.writes_until
    }

    /// The term in which this replica leads, `None` if it does not.
    pub fn epoch(&self) -> Option<Epoch> {
        let state = self.state.borrow();
        state.epoch.clone().filter(|_| self.world.uptime() < state.writes_until)
    }

    /// The identity of the replica that leads, as far as this one knows. Empty if there is none.
    pub fn holder(&self) -> String {
        self.state.borrow().holder.clone()
    }

    /// Waits until this replica leads.
    pub async fn elected(&self) {
        // The sender lives as long as this value.
        let _ = self.state.subscribe().wait_for(|state| state.epoch.is_some()).await;
    }

    /// Waits until this replica does not lead in `epoch` any more.
    pub async fn lost(&self, epoch: &Epoch) {
        let _ = self.state.subscribe().wait_for(|state| state.epoch.as_ref() != Some(epoch)).await;
    }

    /// Reports each change of the term or the holder from now on.
    pub fn changes(&self) -> LeadershipChanges {
        LeadershipChanges { state: self.state.subscribe() }
    }

    /// Calls `run` in each term, until the manager stops, or a run fails or ends during its term.
    /// When a term ends, also while the manager stops, the run has as long as its last requests to
    /// end.
    pub(crate) async fn in_terms<R>(
        &self,
        stop: &StopSignal,
        run: impl Fn(StopSignal) -> R,
    ) -> Result<(), ReconcileError>
    where
        R: Future<Output = Result<(), ReconcileError>>,
    {
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return Ok(()),
                () = self.elected() => {}
            }
            let Some(epoch) = self.epoch() else { continue };
            let term = Stopper::new();
            let mut running = std::pin::pin!(run(term.signal()));
            tokio::select! {
                biased;
                ended = &mut running => return ended,
                () = stop.stopped() => {}
                () = self.lost(&epoch) => {}
            }
            term.stop();
            tokio::select! {
                biased;
                ended = running => ended?,
                () = self.cancelled(&epoch) => {}
            }
        }
    }

    /// Waits until requests of a term may not be under way any more: it was lost, and its last
    /// renewal is too old. While it is not lost, the wait does not end.
    pub(crate) async fn cancelled(&self, epoch: &Epoch) {
        self.lost(epoch).await;
        sleep(self.time_to_cancel(epoch)).await;
    }

    /// How long requests of a term may still be under way.
    fn time_to_cancel(&self, epoch: &Epoch) -> Duration {
        let state = self.state.borrow();
        let cancel_at = match (&state.epoch, &state.ended) {
            (Some(current), _) if current == epoch => state.cancel_at,
            (_, Some((ended, cancel_at))) if ended == epoch => *cancel_at,
            // Other terms have come after it.
            _ => Duration::ZERO,
        };
        cancel_at.saturating_sub(self.world.uptime())
    }

    /// The gate of writes in one term. It stays closed in later terms.
    pub(crate) fn write_gate(&self, epoch: Epoch) -> WriteGate {
        let leadership = self.clone();
        WriteGate::new(move || leadership.time_to_write(&epoch))
    }

    /// Enters a state. Requests of a term that ends with it keep the time they had.
    pub(crate) fn set(&self, mut state: State) {
        self.state.send_if_modified(|known| {
            let is_ended = known.epoch.is_some() && known.epoch != state.epoch;
            let ended = known.epoch.take_if(|_| is_ended).map(|epoch| (epoch, known.cancel_at));
            let changed = is_ended || (&known.epoch, &known.holder) != (&state.epoch, &state.holder);
            state.ended = ended.or_else(|| known.ended.take());
            *known = state;
            changed
        });
    }

    /// A renewal has to read the Lease first.
    pub(crate) fn count_slow_path(&self) {
        self.slow_path.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn slow_path_total(&self) -> u64 {
        self.slow_path.load(Ordering::Relaxed)
    }

    /// Fails while this replica holds the Lease and has not renewed it for so long that another one
    /// may lead soon. The election ends a term before that, so it must be stuck.
    pub(crate) fn watchdog(&self) -> Result<(), String> {
        let (state, now) = (self.state.borrow(), self.world.uptime());
        if state.epoch.is_some() && now >= state.cancel_at {
            return Err(format!(
                "the lease is held and was not renewed: its requests should have ended {:?} ago",
                now.saturating_sub(state.cancel_at)
            ));
        }
        Ok(())
    }

    /// Whether this replica leads in this term.
    pub(crate) fn is_current(&self, epoch: &Epoch) -> bool {
        self.state.borrow().is_open(epoch, self.world.uptime())
    }

    /// How long a write of a term that leaves now may take; `None` if none may leave.
    fn time_to_write(&self, epoch: &Epoch) -> Option<Duration> {
        let (state, now) = (self.state.borrow(), self.world.uptime());
        state.is_open(epoch, now).then(|| state.cancel_at.saturating_sub(now))
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}

/// A subscription to the changes of a [`Leadership`]. Renewals are no changes.
#[derive(Debug, Clone)]
pub struct LeadershipChanges {
    state: watch::Receiver<State>,
}

impl LeadershipChanges {
    /// Waits until the term or the holder has changed since the last call, or since the
    /// subscription. Several changes between two calls count as one. After the manager is dropped
    /// there is no change any more.
    pub async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The durations of leader election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long a standby waits after it last saw the Lease change before it takes over.
    /// Default: 15 s.
    pub lease_duration: Duration,
    /// How long after its last successful renewal was sent the leader may still write.
    /// Default: 10 s.
    pub renew_deadline: Duration,
    /// The time between two renewals, and between two attempts after an error. Default: 2 s.
    pub retry_period: Duration,
    /// How often a standby reads the Lease although its watch shows no change. Default: 15 s.
    pub fallback_poll: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            fallback_poll: Duration::from_secs(15),
        }
    }
}

impl Timing {
    /// Refuses durations that would allow two leaders, or that a Lease cannot hold.
    fn check(&self) -> Result<(), Error> {
        let invalid = |problem: String| Err(Error::InvalidLeaderElection { problem });
        let named = [
            ("lease_duration", self.lease_duration),
            ("renew_deadline", self.renew_deadline),
            ("retry_period", self.retry_period),
            ("fallback_poll", self.fallback_poll),
        ];
        for (name, duration) in named {
            if duration.is_zero() || duration.subsec_nanos() != 0 {
                return invalid(format!("{name} is {duration:?}: use a whole number of seconds above zero"));
            }
        }
        let (lease, renew, retry) = (self.lease_duration, self.renew_deadline, self.retry_period);
        if i32::try_from(lease.as_secs()).is_err() {
            return invalid(format!("lease_duration is {lease:?}: a Lease holds at most {} s", i32::MAX));
        }
        if renew > lease.mul_f64(CANCEL_AFTER) {
            return invalid(format!(
                "renew_deadline is {renew:?}: use at most 0.8 times lease_duration ({lease:?}), so that writes under way \
                 end before another replica may lead"
            ));
        }
        if renew <= retry.mul_f64(JITTER_FACTOR) {
            return invalid(format!(
                "renew_deadline is {renew:?}: use more than 1.2 times retry_period ({retry:?}), so that a failed renewal \
                 can be repeated"
            ));
        }
        Ok(())
    }
}

/// Requests of elected controllers are cancelled after this part of the lease duration.
const CANCEL_AFTER: f64 = 0.8;
/// Attempts of standbys are spread over this many retry periods.
const JITTER_FACTOR: f64 = 1.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_term_that_another_one_follows_at_once_keeps_its_own_time() {
        let world = World::seeded(1, "2026-01-31T10:00:00Z".parse().unwrap());
        let (leadership, timing) = (Leadership::new(world.clone()), Timing::default());
        let epoch = |transitions| Epoch { lease_uid: "uid".to_owned(), transitions };
        let lead = |transitions| {
            leadership.set(State::leader(epoch(transitions), "me", world.uptime(), &timing));
        };
        let left = |transitions| leadership.time_to_cancel(&epoch(transitions)).as_secs();
        lead(1);
        tokio::time::advance(Duration::from_secs(2)).await;
        lead(1);
        tokio::time::advance(Duration::from_secs(5)).await;
        lead(2);
        assert_eq!([left(1), left(2)], [7, 12]);
        assert_eq!([1, 2].map(|of| leadership.is_current(&epoch(of))), [false, true]);
        assert_eq!([1, 2].map(|of| leadership.time_to_write(&epoch(of)).is_some()), [false, true]);
        leadership.set(State::standby("other"));
        leadership.set(State::standby("another"));
        assert_eq!([left(1), left(2)], [0, 12]);
        lead(4);
        assert_eq!([left(2), left(4)], [12, 12]);
    }
}
