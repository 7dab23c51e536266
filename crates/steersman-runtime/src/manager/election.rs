//! Leader election of a manager.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use steersman_client::Client;

use crate::events::Events;
use crate::leader_election::{Elector, Ended, LeaderElection, Leadership};
use crate::stop::{StopSignal, Stopper};
use crate::{Error, ReconcileError};

/// Leader election, if the manager has it.
pub(super) struct Election {
    pub(super) settings: LeaderElection,
    pub(super) leadership: Leadership,
    /// Stops when the manager begins to stop. A replica that does not lead then does not contend.
    pub(super) stopping: Stopper,
    /// Set when everything that is elected has ended in time.
    pub(super) may_release: AtomicBool,
    /// Why the leadership was lost, if that stops the manager.
    pub(super) lost: Mutex<Option<String>>,
}

impl Election {
    /// Contends until the manager stops or the leadership is lost for good.
    pub(super) async fn run(&self, client: &Client, events: &Events, stop: &StopSignal) -> Result<(), ReconcileError> {
        let lease = self.settings.name();
        let events = events.recorder("leader-election")?;
        let mut elector = Elector::new(client, self.settings.clone(), self.leadership.clone(), events);
        loop {
            match elector.run(stop, &self.stopping.signal()).await {
                Ended::Stopped => break,
                Ended::Lost(loss) if self.settings.steps_down() => {
                    tracing::warn!(lease, %loss, "leadership lost, contending again");
                    elector.contend_again();
                }
                Ended::Lost(loss) => {
                    *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(loss.to_string());
                    return Err(ReconcileError::message(format!("leadership lost: {loss}")));
                }
            }
        }
        stop.stopped().await;
        if self.settings.releases() && self.may_release.load(Ordering::Acquire) {
            elector.release().await;
        }
        elector.end();
        Ok(())
    }

    pub(super) fn lost(&self) -> Option<Error> {
        let problem = self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(Error::LeadershipLost { lease: self.settings.name().to_owned(), problem })
    }
}
