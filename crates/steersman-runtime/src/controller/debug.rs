//! A controller on `/debug`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;
use super::failing::Failing;
use crate::flight_recorder::{
    ControllerRecorder, ControllerState, DebugClock, DebugQuery, FailingKey, WaitingKey, error_text,
};
use crate::metrics::{ControllerFigures, Moment, ReadMoment};

/// How many waiting and failing keys are shown.
const SHOWN: usize = 20;

impl Shared {
    /// Reads what the metrics show of one moment. The metrics do not keep the controller in memory.
    pub(super) fn read_moment(self: &Arc<Self>) -> ReadMoment {
        let weak = Arc::downgrade(self);
        Box::new(move || {
            weak.upgrade().map_or_else(Moment::default, |shared| Moment {
                unfinished: shared.queue.unfinished(),
                hot_loops: shared.hot_loops(),
            })
        })
    }

    pub(crate) fn figures(&self) -> &Arc<ControllerFigures> {
        &self.figures
    }

    pub(crate) fn debug_state(&self, query: &DebugQuery, clock: DebugClock) -> ControllerState {
        let waiting = self.queue.waiting(SHOWN);
        let waiting = waiting
            .into_iter()
            .map(|(key, waited)| WaitingKey { key: key.to_string(), waited_seconds: waited.as_secs_f64() });
        ControllerState {
            name: self.name.clone(),
            kind: self.kind.clone(),
            reconciles_total: self.figures.reconciles(),
            errors_total: self.figures.errors(),
            hot_loops_total: self.hot_loops(),
            active: self.figures.active.load(Ordering::Relaxed),
            queued: self.queue.len(),
            delayed: self.queue.delayed(),
            waiting: waiting.collect(),
            failing: self.failing_keys(clock),
            reconciles: self
                .recorder
                .as_ref()
                .map_or_else(Vec::new, |recorder| recorder.state(&self.kind, query, clock)),
        }
    }

    pub(crate) fn hot_loops(&self) -> u64 {
        self.recorder.as_ref().map_or(0, ControllerRecorder::hot_loops)
    }

    fn failing_keys(&self, clock: DebugClock) -> Vec<FailingKey> {
        let mut worst = self.failing.all();
        worst.sort_by(|(key, failing), (other, others)| {
            others.times.cmp(&failing.times).then_with(|| key.as_str().cmp(other.as_str()))
        });
        worst.truncate(SHOWN);
        let state = |(key, Failing { times: failures, last })| FailingKey {
            // The lock of the queue is held for one key at a time.
            next_retry: self
                .queue
                .delay_of(&key)
                .and_then(|delay| clock.instant.checked_add(delay))
                .map(|at| clock.wall(at)),
            key: key.to_string(),
            failures,
            error: error_text(&last).into(),
        };
        worst.into_iter().map(state).collect()
    }
}
