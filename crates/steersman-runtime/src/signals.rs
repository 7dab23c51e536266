//! When the process is asked to stop.

/// Ends when the process is asked to stop: `SIGTERM`, or Ctrl-C. A second time, the process exits at once.
///
/// Tests: `a_signal_stops_the_manager_in_order`, `a_second_signal_ends_the_process_at_once`.
pub async fn shutdown_signal() {
    let mut signals = Signals::listen();
    signals.next().await;
    tracing::info!("asked to stop; a second time ends the process at once");
    // The same ears: none is missed in between.
    tokio::spawn(async move {
        signals.next().await;
        std::process::exit(1);
    });
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
            tracing::error!(%error, "signals cannot be listened to");
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
