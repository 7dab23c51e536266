//! The manager on `/debug`.

use std::sync::{Arc, PoisonError};

use tokio::time::Instant;

use super::{DebugQuery, DebugState, Hub, Manager};
use crate::controller;
use crate::flight_recorder::{DebugClock, InformerState, LeaseState};

impl Manager {
    /// The state of the manager, to be shown to a person: its controllers, their queues, failing
    /// keys and last reconciles, the informers, the Lease, and hot loops.
    ///
    /// Times come from the manager's [`World`](steersman_world::World). It contains kinds, keys,
    /// versions and error texts, never the content of an object (test
    /// `the_content_of_a_secret_is_shown_nowhere`).
    pub fn debug_state(&self, query: &DebugQuery) -> DebugState {
        let clock = DebugClock { instant: Instant::now().into_std(), wall: self.world().now() };
        let informers = self.status().into_iter().map(|status| {
            let phase = format!("{:?}", status.phase);
            let phase = phase.split_once([' ', '{']).map_or(&*phase, |(name, _)| name).to_owned();
            InformerState::new(status, phase, clock)
        });
        let lease = self.inner.election.as_ref().map(|election| LeaseState {
            name: election.settings.name().to_owned(),
            is_leader: election.leadership.is_leader(),
            holder: election.leadership.holder(),
        });
        DebugState {
            time: clock.wall,
            ready: self.is_ready(),
            controllers: self.shown_controllers().iter().map(|shared| shared.debug_state(query, clock)).collect(),
            informers: informers.collect(),
            lease,
            hot_loops: self.inner.flight.hot_loop_states(clock),
        }
    }

    pub(crate) fn flight_hub(&self) -> &Arc<Hub> {
        &self.inner.flight
    }

    pub(crate) fn traces_requests(&self) -> bool {
        self.inner.trace_requests
    }

    pub(crate) fn counts_controllers(&self) -> bool {
        self.inner.controller_metrics
    }

    /// Shows a controller on `/debug`.
    pub(crate) fn show_controller(&self, shared: &Arc<controller::Shared>) {
        let mut controllers = self.inner.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        controllers.push(Arc::downgrade(shared));
    }

    pub(crate) fn hide_controller(&self, shared: &Arc<controller::Shared>) {
        let mut controllers = self.inner.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        controllers.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(shared)));
    }

    fn shown_controllers(&self) -> Vec<Arc<controller::Shared>> {
        let controllers = self.inner.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        controllers.iter().filter_map(std::sync::Weak::upgrade).collect()
    }
}
