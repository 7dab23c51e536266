//! The word to stop.

use std::sync::Arc;

use tokio::sync::watch;

/// Tells those who hold it to stop. Clones are told together.
#[derive(Debug, Clone)]
pub struct Stop {
    stopped: watch::Receiver<bool>,
}

/// Says stop. When it is dropped, all are told as well.
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

    pub(crate) fn token(&self) -> Stop {
        Stop { stopped: self.sender.subscribe() }
    }
}

impl Stop {
    /// Waits for the word.
    pub async fn stopped(&self) {
        // Who says it may be gone, which says it as well.
        let _ = self.stopped.clone().wait_for(|stopped| *stopped).await;
    }

    /// Whether it has been said.
    pub fn is_stopped(&self) -> bool {
        *self.stopped.borrow() || self.stopped.has_changed().is_err()
    }
}
