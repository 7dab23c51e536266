//! The signals that stop the process.

use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use tokio::time::Instant;

/// Signals that arrive within this time of the first belong to the same request: `timeout` signals
/// the process and then its process group, and a terminal signals every process of a pipeline.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Completes when the process receives `SIGTERM` or Ctrl-C. On a second signal, the process logs it
/// and exits at once, with code 1. A signal within a second of the first is not a second request.
///
/// Tests: `a_signal_stops_the_manager_in_order`, `a_second_signal_ends_the_process_at_once`,
/// `signals_within_a_second_are_one_request`.
pub async fn shutdown_signal() {
    let mut signals = Signals::listen();
    signals.next().await;
    tracing::info!("stop requested; a second request ends the process at once");
    // The same listeners, so that no signal in between is missed.
    tokio::spawn(async move {
        let signals = stream::unfold(signals, |mut signals| async move {
            signals.next().await;
            Some(((), signals))
        });
        second_request(pin!(signals)).await;
        tracing::warn!("second request to stop: the process exits now, with code 1");
        std::process::exit(1);
    });
}

/// Waits for a signal that does not belong to the last request.
async fn second_request(mut signals: impl Stream<Item = ()> + Unpin) {
    let first = Instant::now();
    while signals.next().await.is_some() && first.elapsed() < SAME_REQUEST {}
}

#[cfg(unix)]
struct Signals(Option<[tokio::signal::unix::Signal; 2]>);

#[cfg(unix)]
impl Signals {
    fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = || Ok([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?]);
        let heard: std::io::Result<_> = listen();
        if let Err(error) = &heard {
            tracing::error!(%error, "cannot listen for signals");
        }
        Self(heard.ok())
    }

    async fn next(&mut self) {
        let Some([terminate, interrupt]) = &mut self.0 else { return std::future::pending().await };
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> Self {
        Self
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long signals that come after these pauses, in milliseconds, count as one request.
    async fn one_request(pauses: &[u64]) -> u128 {
        let signals = stream::iter(pauses).then(|pause| tokio::time::sleep(Duration::from_millis(*pause)));
        let started = Instant::now();
        second_request(pin!(signals)).await;
        started.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn signals_within_a_second_are_one_request() {
        assert_eq!(one_request(&[0, 0, 300, 600, 60_000, 1]).await, 60_900);
        // The second counts from the first signal, so that a stream of signals stops the process.
        assert_eq!(one_request(&[400; 100]).await, 1_200);
    }
}
