//! The limits on connections: those of known clients, and separately those without a credential.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The slots of all connections.
///
/// A connection begins in a small slot of its own kind and moves to a full one with its first
/// credential. When all small slots are taken, the oldest connection without a credential is
/// closed. So silent connections, however many, never take a slot from a client that has one.
pub(super) struct ConnectionSlots {
    admitted: Arc<Semaphore>,
    unknown: Mutex<Unknown>,
    unknown_max: usize,
}

/// The connections without a credential, oldest first, and how each is evicted.
#[derive(Default)]
struct Unknown {
    next: u64,
    evictions: BTreeMap<u64, Arc<Notify>>,
}

impl ConnectionSlots {
    pub(super) fn new(admitted_max: usize, unknown_max: usize) -> Arc<Self> {
        let admitted = Arc::new(Semaphore::new(admitted_max));
        Arc::new(Self { admitted, unknown: Mutex::default(), unknown_max: unknown_max.max(1) })
    }

    fn unknown(&self) -> MutexGuard<'_, Unknown> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a new connection. `None` if known clients have taken all of theirs.
    pub(super) fn enter(self: &Arc<Self>) -> Option<ConnectionSlot> {
        if self.admitted.available_permits() == 0 {
            return None;
        }
        let evicted = Arc::new(Notify::new());
        let mut unknown = self.unknown();
        while unknown.evictions.len() >= self.unknown_max {
            if let Some((_, oldest)) = unknown.evictions.pop_first() {
                oldest.notify_one();
            }
        }
        let id = unknown.next;
        unknown.next += 1;
        unknown.evictions.insert(id, Arc::clone(&evicted));
        Some(ConnectionSlot { slots: Arc::clone(self), id, evicted, permit: Mutex::default() })
    }
}

/// The slot of one connection. It is free again when this value is dropped.
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    id: u64,
    evicted: Arc<Notify>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl ConnectionSlot {
    fn permit(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the connection to a slot of a known client, unless it has one. `false` if there is
    /// none, or if the connection was evicted.
    pub(super) fn admit(&self) -> bool {
        let mut permit = self.permit();
        if permit.is_none()
            && let Ok(free) = Arc::clone(&self.slots.admitted).try_acquire_owned()
            && self.slots.unknown().evictions.remove(&self.id).is_some()
        {
            *permit = Some(free);
        }
        permit.is_some()
    }

    pub(super) fn is_admitted(&self) -> bool {
        self.permit().is_some()
    }

    /// Waits until the connection is evicted for a newer one.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.unknown().evictions.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        slot.evicted().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_without_a_credential_makes_room() {
        let slots = ConnectionSlots::new(2, 3);
        let mut open: Vec<ConnectionSlot> = (0..5).map(|_| slots.enter().unwrap()).collect();
        assert_eq!(open.iter().map(is_evicted).collect::<Vec<_>>(), [true, true, false, false, false]);
        // An evicted one is not admitted, and takes no slot from others.
        assert!(!open[0].admit());
        assert!(open[2].admit() && open[2].admit());
        open.extend((0..3).map(|_| slots.enter().unwrap()));
        assert!(!is_evicted(&open[2]) && is_evicted(&open[3]) && is_evicted(&open[4]));
        // A free slot needs no eviction.
        open.pop();
        open.push(slots.enter().unwrap());
        assert!(!is_evicted(&open[5]) && !is_evicted(&open[6]));
    }

    #[test]
    fn known_clients_have_as_many_places_as_there_are() {
        let slots = ConnectionSlots::new(2, 3);
        let [first, second, third] = [(); 3].map(|()| slots.enter().unwrap());
        assert!(first.admit() && second.admit());
        assert!(!third.admit() && !third.is_admitted());
        assert!(slots.enter().is_none());
        drop(first);
        assert!(third.admit());
    }
}
