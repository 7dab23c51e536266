//! The signal to stop.

use std::sync::Arc;

use tokio::sync::watch;

/// Shows when to stop: the manager shuts down, or the controller is removed. Clones show the same
/// signal.
#[derive(Debug, Clone)]
pub struct StopSignal {
    stopped: watch::Receiver<bool>,
}

/// Sends the signal. Dropping it sends the signal, too.
#[derive(Debug, Clone)]
pub(crate) struct Stopper {
    sender: Arc<watch::Sender<bool>>,
}

impl Stopper {
    pub(crate) fn new() -> Self {
        Self { sender: Arc::new(watch::Sender::new(false)) }
    }

    pub(crate) fn stop(&self) {
        self.sender.send_replace(true);
    }

    pub(crate) fn signal(&self) -> StopSignal {
        StopSignal { stopped: self.sender.subscribe() }
    }
}

impl StopSignal {
    /// Waits for the signal. Returns at once if it has been sent.
    pub async fn stopped(&self) {
        // An error means that the sender was dropped, which is a signal as well.
        let _ = self.stopped.clone().wait_for(|stopped| *stopped).await;
    }

    /// Returns `true` once the signal has been sent.
    pub fn is_stopped(&self) -> bool {
        *self.stopped.borrow() || self.stopped.has_changed().is_err()
    }
}
