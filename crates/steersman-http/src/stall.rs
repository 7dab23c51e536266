//! A connection whose client has to read what it asked for.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that fails when it has bytes to send and the other side takes none of them for some
/// time.
///
/// It stands below TLS, where each write that succeeds is progress.
#[derive(Debug)]
pub struct StallGuard<S> {
    stream: S,
    timeout: Duration,
    /// Runs while a write waits.
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> StallGuard<S> {
    /// Gives `stream` that long for each write.
    pub fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, timeout, patience: None }
    }

    fn check<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.patience = None;
            return written;
        }
        let timeout = self.timeout;
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(timeout)));
        patience.as_mut().poll(context).map(|()| {
            let what = format!("the client has read nothing for {} s", timeout.as_secs_f64());
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.check(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
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
        let mut guarded = StallGuard::new(ours, TIMEOUT);
        guarded.write_all(&[0; 1000]).await.unwrap();
        // Nothing to send, nothing to wait for.
        tokio::time::sleep(TIMEOUT * 10).await;
        let began = Instant::now();
        let error = guarded.write_all(&[0; 1]).await.unwrap_err();
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
        StallGuard::new(ours, TIMEOUT).write_all(&[0; 10_000]).await.unwrap();
        reader.await.unwrap();
    }
}
