//! How many connections there may be, and which one makes room for a new one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The slots of all connections.
///
/// When all are taken, the connection for which no handler has run for the longest time makes room.
/// So idle connections and those that send a body slowly, however many, never keep out a client
/// that asks. If a handler runs for every connection, a new one is refused.
pub(crate) struct Connections {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: usize,
    next: u64,
    /// Those without a running handler, the longest idle first, and how each is evicted.
    idle: BTreeMap<u64, Arc<Notify>>,
}

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: max.max(1), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a new connection. `None` if a handler runs for every connection.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let mut state = self.state();
        if state.open >= self.max {
            let (_, oldest) = state.idle.pop_first()?;
            oldest.notify_one();
            state.open -= 1;
        }
        state.open += 1;
        let evicted = Arc::new(Notify::new());
        let slot_state = Mutex::new(SlotState::Idle(state.insert(&evicted)));
        drop(state);
        Some(ConnectionSlot { connections: Arc::clone(self), evicted, slot_state })
    }
}

impl State {
    fn insert(&mut self, evicted: &Arc<Notify>) -> u64 {
        let id = self.next;
        self.next += 1;
        self.idle.insert(id, Arc::clone(evicted));
        id
    }
}

/// The slot of one connection. It is free again when this value is dropped.
pub(crate) struct ConnectionSlot {
    connections: Arc<Connections>,
    evicted: Arc<Notify>,
    slot_state: Mutex<SlotState>,
}

#[derive(Clone, Copy)]
enum SlotState {
    Idle(u64),
    /// How many handlers run.
    Busy(usize),
}

impl ConnectionSlot {
    fn slot_state(&self) -> MutexGuard<'_, SlotState> {
        self.slot_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handler is about to run, and the connection is not evicted any more. False if it has been
    /// already.
    pub(crate) fn begin_handler(&self) -> bool {
        let mut slot_state = self.slot_state();
        *slot_state = match *slot_state {
            SlotState::Idle(id) if self.connections.state().idle.remove(&id).is_none() => return false,
            SlotState::Idle(_) => SlotState::Busy(1),
            SlotState::Busy(handlers) => SlotState::Busy(handlers + 1),
        };
        true
    }

    /// The response of a handler has been sent.
    pub(crate) fn end_handler(&self) {
        let mut slot_state = self.slot_state();
        *slot_state = match *slot_state {
            SlotState::Busy(handlers) if handlers > 1 => SlotState::Busy(handlers - 1),
            SlotState::Busy(_) => SlotState::Idle(self.connections.state().insert(&self.evicted)),
            idle => idle,
        };
    }

    /// Returns when the connection has to make room for a newer one.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let slot_state = *self.slot_state();
        let mut state = self.connections.state();
        match slot_state {
            SlotState::Busy(_) => state.open -= 1,
            SlotState::Idle(id) if state.idle.remove(&id).is_some() => state.open -= 1,
            // It made room already.
            SlotState::Idle(_) => {}
        }
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
    fn the_connection_without_a_handler_for_the_longest_time_makes_room() {
        let connections = Connections::new(3);
        let [first, second, third] = [(); 3].map(|()| connections.enter().unwrap());
        assert!(first.begin_handler());
        first.end_handler();
        assert!(third.begin_handler());
        let fourth = connections.enter().unwrap();
        assert!(is_evicted(&second) && !is_evicted(&first) && !is_evicted(&third) && !is_evicted(&fourth));
        assert!(!second.begin_handler(), "an evicted connection gets no response");
        let fifth = connections.enter().unwrap();
        assert!(is_evicted(&first) && !is_evicted(&fourth) && !is_evicted(&fifth));
        // An evicted connection that ends frees nothing: its slot has a new owner.
        drop((first, second));
        assert!(connections.enter().is_some() && is_evicted(&fourth));
    }

    #[test]
    fn a_new_connection_is_refused_while_all_have_handlers() {
        let connections = Connections::new(2);
        let [first, second] = [(); 2].map(|()| connections.enter().unwrap());
        assert!(first.begin_handler() && second.begin_handler());
        assert!(connections.enter().is_none());
        // One of two requests of a connection ends.
        assert!(first.begin_handler());
        first.end_handler();
        assert!(connections.enter().is_none());
        drop(first);
        let third = connections.enter().unwrap();
        assert!(third.begin_handler());
        assert!(connections.enter().is_none());
        second.end_handler();
        assert!(connections.enter().is_some() && is_evicted(&second));
    }
}
