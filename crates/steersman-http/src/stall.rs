//! A connection whose client has to read what it asked for.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Sleep, sleep};

use crate::observed::{Observed, Observer};

/// Returns a stream that fails when it has bytes to send and the other side takes none of them for
/// `timeout`.
///
/// It belongs below TLS, where each write that succeeds is progress.
pub fn stall_guard<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    timeout: Duration,
) -> impl AsyncRead + AsyncWrite + Unpin {
    Observed { stream, observer: StallGuard { timeout, deadline: None } }
}

#[derive(Debug)]
struct StallGuard {
    timeout: Duration,
    /// Runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Observer for StallGuard {
    fn on_written(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let timeout = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        deadline.as_mut().poll(context).map(|()| {
            let what = format!("the client has read nothing for {} s", timeout.as_secs_f64());
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (ours, _theirs) = tokio::io::duplex(1000);
        let mut guarded = stall_guard(ours, TIMEOUT);
        guarded.write_all(&[0; 1000]).await.unwrap();
        // Nothing to send, nothing to wait for.
        tokio::time::sleep(TIMEOUT * 10).await;
        let began = Instant::now();
        let written = tokio::time::timeout(TIMEOUT * 2, guarded.write_all(&[0; 1])).await;
        let error = written.expect("the write ends").unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, TIMEOUT.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let reader = tokio::spawn(async move {
            let mut bytes = [0; 100];
            for _ in 0..100 {
                tokio::time::sleep(TIMEOUT / 2).await;
                theirs.read_exact(&mut bytes).await.unwrap();
            }
        });
        stall_guard(ours, TIMEOUT).write_all(&[0; 10_000]).await.unwrap();
        reader.await.unwrap();
    }
}
