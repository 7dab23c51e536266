//! The signal to stop.

use std::sync::Arc;

use futures::future::select_all;
use tokio::sync::watch;

/// Shows when to stop: the manager shuts down, or the controller is removed. Clones show the same
/// signal.
#[derive(Debug, Clone)]
pub struct StopSignal {
    /// The causes to stop. Each is enough.
    causes: Vec<watch::Receiver<bool>>,
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
        StopSignal { causes: vec![self.sender.subscribe()] }
    }
}

impl StopSignal {
    /// A signal that also shows when `stopper` stops.
    pub(crate) fn or(mut self, stopper: &Stopper) -> Self {
        self.causes.push(stopper.sender.subscribe());
        self
    }

    /// Waits for the signal. Returns at once if it has been sent.
    pub async fn stopped(&self) {
        let stopped = self.causes.iter().map(|cause| {
            let mut cause = cause.clone();
            // An error means that the sender was dropped, which is a signal as well.
            Box::pin(async move { drop(cause.wait_for(|stopped| *stopped).await) })
        });
        select_all(stopped).await;
    }

    /// Returns `true` once the signal has been sent.
    pub fn is_stopped(&self) -> bool {
        self.causes.iter().any(|cause| *cause.borrow() || cause.has_changed().is_err())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_signal_with_two_causes_shows_either_and_the_end_of_either_sender() {
        let shows = |signal: &StopSignal| (signal.is_stopped(), signal.stopped().now_or_never().is_some());
        for case in 0..4 {
            let (first, second) = (Stopper::new(), Stopper::new());
            let signal = first.signal().or(&second);
            assert_eq!(shows(&signal), (false, false));
            match case {
                0 => first.stop(),
                1 => second.stop(),
                2 => drop(first),
                _ => drop(second),
            }
            assert_eq!(shows(&signal), (true, true), "case {case}");
        }
    }
}
