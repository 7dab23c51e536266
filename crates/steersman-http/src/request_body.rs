//! The body of a request, which has to keep coming.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

/// The slowest that a body may come on average, in bytes a second, once its first timeout is over.
const BYTES_PER_SECOND_MIN: u32 = 16 << 10;

/// A request body that must keep coming: it fails with [`BodyTimeout`] if no data comes for a time,
/// or if it comes at less than 16 KiB a second on average.
#[derive(Debug)]
pub struct TimedBody<B> {
    body: B,
    timeout: Duration,
    began: Instant,
    progressed: Instant,
    received: u32,
    /// Made when the body has to be waited for.
    patience: Option<Pin<Box<Sleep>>>,
}

/// A body took too long.
#[derive(Debug, thiserror::Error)]
#[error("the body of the request came too slowly: {received} bytes in {} s", elapsed.as_secs())]
pub struct BodyTimeout {
    received: u32,
    elapsed: Duration,
}

impl<B> TimedBody<B> {
    /// Limits `body`, from now on.
    pub fn new(body: B, timeout: Duration) -> Self {
        let now = Instant::now();
        Self { body, timeout, began: now, progressed: now, received: 0, patience: None }
    }

    /// When the body has taken too long, unless more of it comes before. None if that is farther
    /// away than time goes.
    fn deadline(&self) -> Option<Instant> {
        let overall = self.timeout.checked_add(Duration::from_secs(1) * self.received / BYTES_PER_SECOND_MIN)?;
        Some(self.progressed.checked_add(self.timeout)?.min(self.began.checked_add(overall)?))
    }
}

impl<B> Body for TimedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let size = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
            // An empty frame is no progress.
            if size > 0 {
                self.received = self.received.saturating_add(u32::try_from(size).unwrap_or(u32::MAX));
                self.progressed = Instant::now();
                self.patience = None;
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some(deadline) = self.deadline() else { return Poll::Pending };
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        patience
            .as_mut()
            .poll(context)
            .map(|()| Some(Err(BodyTimeout { received: self.received, elapsed: self.began.elapsed() }.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::stream::{self, Stream, StreamExt};
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// How a body of these parts, each this long after the one before, is received: in full, or how
    /// long it took to fail.
    async fn received(parts: impl Stream<Item = (Duration, usize)>) -> Result<usize, Duration> {
        let frames = Box::pin(parts).then(async |(after, size)| {
            tokio::time::sleep(after).await;
            Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(vec![b'x'; size])))
        });
        let began = Instant::now();
        let body = TimedBody::new(StreamBody::new(Box::pin(frames)), TIMEOUT).collect().await;
        body.map(|body| body.to_bytes().len()).map_err(|error| {
            assert!(error.is::<BodyTimeout>(), "{error}");
            began.elapsed()
        })
    }

    fn every(seconds: u64, size: usize, count: usize) -> impl Stream<Item = (Duration, usize)> {
        stream::iter((0..count).map(move |_| (Duration::from_secs(seconds), size)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_makes_no_progress_fails() {
        let silent = stream::iter([(Duration::ZERO, 1 << 20), (Duration::MAX, 1)]);
        let failed = received(silent).await.unwrap_err();
        assert_eq!(failed.as_secs(), TIMEOUT.as_secs());
        // Frames without a byte are no progress.
        let failed = received(every(1, 0, 1000)).await.unwrap_err();
        assert_eq!(failed.as_secs(), TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_fails_and_a_slow_one_does_not() {
        let failed = received(every(1, 1, 1000)).await.unwrap_err();
        assert_eq!(failed.as_secs(), TIMEOUT.as_secs());
        // Half as fast as it must be: the time that it has grows half as fast as the time that it
        // takes.
        let failed = received(every(1, 8 << 10, 1000)).await.unwrap_err();
        assert!(failed > TIMEOUT && failed <= TIMEOUT * 2, "{failed:?}");
        assert_eq!(received(every(1, 16 << 10, 192)).await, Ok(3 << 20));
        assert_eq!(received(every(25, 1 << 20, 3)).await, Ok(3 << 20));
    }
}
