//! The state machine of leader election. It reads no clock and sends no request.
//!
//! Times named `now`, `sent` and `since` are of one monotonic clock that counts suspend
//! ([`World::uptime`](steersman_client::World::uptime)). Wall-clock times only go into the record;
//! no decision depends on them, so clocks of replicas may differ by any amount.
//!
//! | role | sees | does |
//! |---|---|---|
//! | standby | nothing yet | reads the Lease |
//! | standby | no Lease, and never one before | creates it, with itself as the holder |
//! | standby | no Lease any more | waits for a lease duration, in which the last holder may act; then creates it |
//! | standby | another holder, record changed less than its duration ago | waits |
//! | standby | another holder, record unchanged for its duration | replaces it: transitions + 1 |
//! | standby | no holder | replaces it: transitions + 1 |
//! | standby | itself (the response of its own write was lost) | renews it: transitions kept |
//! | leader | retry period over | renews: replaces the record it knows |
//! | leader | last write failed | reads, then renews |
//! | leader | no Lease | creates it: transitions + 1, a new epoch |
//! | leader | another holder, or none | has lost |
//! | leader | last successful renewal sent a renew deadline ago | has lost |

use std::time::Duration;

use jiff::Timestamp;
use steersman_wire::ResourceVersion;

use super::Timing;

/// The part of a Lease's spec that the election uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty if the Lease is free.
    pub(super) holder: String,
    pub(super) duration: Duration,
    pub(super) transitions: i32,
    pub(super) acquired: Option<Timestamp>,
    pub(super) renewed: Option<Timestamp>,
}

/// A Lease as a response or a watch event shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) record: Record,
}

/// One term of leadership: the uid of the Lease and its number of transitions.
///
/// Of two epochs with the same uid, the later one has more transitions. Outside systems can refuse
/// requests of an earlier epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// The uid of the Lease.
    pub lease_uid: String,
    /// The transitions in its spec.
    pub transitions: i32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    Nothing,
    NoLease {
        /// The holder of a Lease that was deleted may act until this time. The leader creates a
        /// deleted Lease again, so there is one before that time if its holder can reach the
        /// server. A replica that starts after the deletion does not know of it.
        free_at: Duration,
    },
    Lease {
        seen: Seen,
        /// When this replica first saw this record. Other changes of the Lease do not count.
        since: Duration,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Role {
    Standby,
    Leader { epoch: Epoch, renewal_sent: Duration },
    Lost(Loss),
}

/// Why a leader lost the leadership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// No renewal succeeded within the renew deadline.
    Deadline,
    /// The Lease names another holder.
    Taken { holder: String },
    /// The Lease names no holder.
    Released,
}

/// What the driver does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Read,
    Create(Record),
    Replace {
        version: String,
        record: Record,
    },
    /// Nothing, until this time or until an event of the watch.
    Wait(Duration),
    /// The election has ended: there is no further step.
    Lost(Loss),
}

/// The election as one replica sees it.
#[derive(Debug)]
pub(super) struct Election {
    identity: String,
    timing: Timing,
    known: Known,
    role: Role,
    /// The next request is not sent before this time.
    not_before: Duration,
    /// The next request reads: the known version may be out of date.
    read_first: bool,
    /// A standby reads at this time if no event has come.
    poll_at: Duration,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deadline => f.write_str("no renewal succeeded within the renew deadline"),
            Self::Taken { holder } => write!(f, "{holder} holds the lease"),
            Self::Released => f.write_str("the lease has no holder"),
        }
    }
}

impl Election {
    pub(super) fn new(identity: String, timing: Timing) -> Self {
        Self {
            identity,
            timing,
            known: Known::Nothing,
            role: Role::Standby,
            not_before: Duration::ZERO,
            read_first: true,
            poll_at: Duration::ZERO,
        }
    }

    /// Begins again as a standby. The Lease may have been deleted since, so the last state counts.
    pub(super) fn contend_again(&mut self) {
        let known = std::mem::replace(&mut self.known, Known::Nothing);
        *self = Self { known, ..Self::new(std::mem::take(&mut self.identity), self.timing) };
    }

    /// The term that this replica leads in.
    pub(super) fn epoch(&self) -> Option<&Epoch> {
        match &self.role {
            Role::Leader { epoch, .. } => Some(epoch),
            Role::Standby | Role::Lost(_) => None,
        }
    }

    /// When the last successful renewal was sent.
    pub(super) fn renewal_sent(&self) -> Option<Duration> {
        match self.role {
            Role::Leader { renewal_sent, .. } => Some(renewal_sent),
            Role::Standby | Role::Lost(_) => None,
        }
    }

    /// The holder that the last response or event named. Empty if there is none.
    pub(super) fn holder(&self) -> &str {
        match &self.known {
            Known::Lease { seen, .. } => &seen.record.holder,
            Known::Nothing | Known::NoLease { .. } => "",
        }
    }

    pub(super) fn step(&mut self, now: Duration, wall: Timestamp) -> Step {
        let deadline = match &self.role {
            Role::Lost(loss) => return Step::Lost(loss.clone()),
            Role::Leader { renewal_sent, .. } => Some(renewal_sent.saturating_add(self.timing.renew_deadline)),
            Role::Standby => None,
        };
        if deadline.is_some_and(|deadline| now >= deadline) {
            return self.lose(Loss::Deadline);
        }
        if now < self.not_before {
            return Step::Wait(deadline.map_or(self.not_before, |deadline| deadline.min(self.not_before)));
        }
        if self.read_first || self.known == Known::Nothing {
            return Step::Read;
        }
        match &self.role {
            Role::Leader { epoch, .. } => self.renew(epoch.transitions, wall),
            Role::Standby => self.contend(now, wall),
            Role::Lost(loss) => Step::Lost(loss.clone()),
        }
    }

    fn renew(&self, transitions: i32, wall: Timestamp) -> Step {
        match &self.known {
            Known::Lease { seen, .. } => {
                let record = Record { acquired: seen.record.acquired, ..self.own_record(transitions, wall) };
                Step::Replace { version: seen.version.clone(), record }
            }
            Known::NoLease { .. } => Step::Create(self.own_record(transitions.saturating_add(1), wall)),
            Known::Nothing => Step::Read,
        }
    }

    fn contend(&self, now: Duration, wall: Timestamp) -> Step {
        let (seen, since) = match &self.known {
            Known::Lease { seen, since } => (seen, since),
            Known::NoLease { free_at } if now < *free_at => return self.wait(*free_at, now),
            Known::NoLease { .. } => return Step::Create(self.own_record(0, wall)),
            Known::Nothing => return Step::Read,
        };
        let (record, version) = (&seen.record, seen.version.clone());
        if record.holder == self.identity {
            let renewed = Record { acquired: record.acquired, ..self.own_record(record.transitions, wall) };
            return Step::Replace { version, record: renewed };
        }
        let expires = since.saturating_add(record.duration);
        if !record.holder.is_empty() && now < expires {
            return self.wait(expires, now);
        }
        Step::Replace { version, record: self.own_record(record.transitions.saturating_add(1), wall) }
    }

    /// A standby waits until this time, and reads when no event has come for long.
    fn wait(&self, until: Duration, now: Duration) -> Step {
        if now >= self.poll_at { Step::Read } else { Step::Wait(until.min(self.poll_at)) }
    }

    fn own_record(&self, transitions: i32, wall: Timestamp) -> Record {
        Record {
            holder: self.identity.clone(),
            duration: self.timing.lease_duration,
            transitions,
            acquired: Some(wall),
            renewed: Some(wall),
        }
    }

    fn lose(&mut self, loss: Loss) -> Step {
        self.role = Role::Lost(loss.clone());
        Step::Lost(loss)
    }

    /// Handles a response to [`Step::Read`] or an event of the watch. Returns `false` if it is
    /// older than what is known.
    pub(super) fn saw(&mut self, lease: Option<Seen>, now: Duration) -> bool {
        self.poll_at = now.saturating_add(self.timing.fallback_poll);
        let Some(seen) = lease else {
            let free_at = match &self.known {
                Known::Nothing => now,
                Known::NoLease { free_at } => *free_at,
                // What is known may be out of date, whichever holder it names.
                Known::Lease { seen, .. } => now.saturating_add(seen.record.duration.max(self.timing.lease_duration)),
            };
            self.known = Known::NoLease { free_at };
            self.read_first = false;
            return true;
        };
        let since = match &self.known {
            // A late event of the watch, older than a response that is known already.
            Known::Lease { seen: known, .. } if known.uid == seen.uid && is_older(&seen, known) => return false,
            Known::Lease { seen: known, since } if known.uid == seen.uid && known.record == seen.record => *since,
            _ => now,
        };
        self.read_first = false;
        if matches!(self.role, Role::Leader { .. }) && seen.record.holder != self.identity {
            let holder = seen.record.holder.clone();
            self.lose(if holder.is_empty() { Loss::Released } else { Loss::Taken { holder } });
        }
        self.known = Known::Lease { seen, since };
        true
    }

    /// Handles the response to a write that was sent at `sent` and succeeded.
    pub(super) fn wrote(&mut self, seen: Seen, sent: Duration, now: Duration) {
        if matches!(self.role, Role::Lost(_)) {
            return;
        }
        let epoch = Epoch { lease_uid: seen.uid.clone(), transitions: seen.record.transitions };
        self.known = Known::Lease { seen, since: now };
        self.read_first = false;
        self.not_before = sent.saturating_add(self.timing.retry_period);
        // A late response grants no leadership: another replica may have taken over.
        if now < sent.saturating_add(self.timing.renew_deadline) {
            self.role = Role::Leader { epoch, renewal_sent: sent };
        }
    }

    /// Handles a failed request. A conflict is followed by a read at once, other errors by one
    /// after the retry period. `jitter` is between 0 and 1 and spreads the replicas that contend.
    pub(super) fn failed(&mut self, conflict: bool, now: Duration, jitter: f64) {
        let was_read = self.read_first;
        self.read_first = true;
        if conflict && !was_read {
            self.not_before = now;
            return;
        }
        let retry = self.timing.retry_period;
        let spread = if matches!(self.role, Role::Leader { .. }) { 0.0 } else { 1.2 * jitter };
        self.not_before = now.saturating_add(retry.saturating_add(retry.mul_f64(spread)));
    }

    /// The record that frees the Lease, if `seen` names this replica.
    pub(super) fn release(&self, seen: &Seen, wall: Timestamp) -> Option<Record> {
        (seen.record.holder == self.identity).then(|| Record {
            holder: String::new(),
            duration: Duration::from_secs(1),
            transitions: seen.record.transitions,
            acquired: Some(wall),
            renewed: Some(wall),
        })
    }
}

/// Whether a state is older than another of the same Lease. `false` for versions that do not
/// compare.
fn is_older(seen: &Seen, known: &Seen) -> bool {
    match (ResourceVersion::parse(&seen.version), ResourceVersion::parse(&known.version)) {
        (Ok(seen), Ok(known)) => seen < known,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
