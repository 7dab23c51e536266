//! What a connection is doing, and how long it may go on without a request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::observed::Observer;

/// The phases of a connection: waiting for a request, reading the head of one, answering.
///
/// hyper has one limit for the first two. They differ here: a client that keeps its connection for
/// the next request is not one that sends its headers byte by byte.
#[derive(Debug)]
pub(crate) struct Activity {
    header_timeout: Duration,
    idle_timeout: Duration,
    phase: Mutex<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Until when the first byte of the next request may come.
    Idle(Instant),
    /// Until when the head has to be there.
    Head(Instant),
    /// How many requests are being answered.
    Busy(usize),
}

impl Activity {
    /// A new connection has to send its first head at once.
    pub(crate) fn new(header_timeout: Duration, idle_timeout: Duration) -> Arc<Self> {
        let phase = Mutex::new(Phase::Head(Instant::now() + header_timeout));
        Arc::new(Self { header_timeout, idle_timeout, phase })
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn received(&self) {
        let mut phase = self.phase();
        if matches!(*phase, Phase::Idle(_)) {
            *phase = Phase::Head(Instant::now() + self.header_timeout);
        }
    }

    /// The head of a request is there.
    pub(crate) fn begin_request(&self) {
        let mut phase = self.phase();
        let busy = if let Phase::Busy(busy) = *phase { busy + 1 } else { 1 };
        *phase = Phase::Busy(busy);
    }

    /// A request has been answered.
    pub(crate) fn end_request(&self) {
        let mut phase = self.phase();
        *phase = match *phase {
            Phase::Busy(busy) if busy > 1 => Phase::Busy(busy - 1),
            _ => Phase::Idle(Instant::now() + self.idle_timeout),
        };
    }

    /// Returns when the connection has waited for too long.
    pub(crate) async fn expired(&self) {
        loop {
            let now = Instant::now();
            let deadline = match *self.phase() {
                Phase::Idle(deadline) | Phase::Head(deadline) if deadline <= now => return,
                Phase::Idle(deadline) | Phase::Head(deadline) => deadline,
                Phase::Busy(_) => now + self.idle_timeout,
            };
            // A head that begins during the sleep has no earlier deadline.
            sleep_until(deadline.min(now + self.header_timeout)).await;
        }
    }
}

impl Observer for Arc<Activity> {
    fn on_received(&mut self) {
        self.received();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::observed::Observed;

    const HEADER: Duration = Duration::from_secs(32);
    const IDLE: Duration = Duration::from_secs(90);

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_has_the_time_of_a_head() {
        let (activity, began) = (Activity::new(HEADER, IDLE), Instant::now());
        activity.expired().await;
        assert_eq!(began.elapsed().as_secs(), 32);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_had_a_request_may_be_idle_for_longer() {
        let (activity, began) = (Activity::new(HEADER, IDLE), Instant::now());
        activity.begin_request();
        activity.end_request();
        activity.expired().await;
        assert_eq!(began.elapsed().as_secs(), 90);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_byte_of_a_head_starts_its_time_and_further_ones_do_not_prolong_it() {
        let (activity, began) = (Activity::new(HEADER, IDLE), Instant::now());
        activity.begin_request();
        activity.end_request();
        let slow = async {
            sleep(Duration::from_secs(20)).await;
            loop {
                activity.received();
                sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            biased;
            () = activity.expired() => assert_eq!(began.elapsed().as_secs(), 52),
            () = slow => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_that_arrives_in_the_stream_of_an_idle_connection_begins_a_head() {
        let (activity, (ours, mut theirs)) = (Activity::new(HEADER, IDLE), tokio::io::duplex(1));
        let mut stream = Observed { stream: ours, observer: Arc::clone(&activity) };
        activity.begin_request();
        activity.end_request();
        theirs.write_all(b"G").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        let began = Instant::now();
        activity.expired().await;
        assert_eq!(began.elapsed().as_secs(), 32);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_takes_as_long_as_its_handler() {
        let activity = Activity::new(HEADER, IDLE);
        activity.begin_request();
        activity.begin_request();
        activity.end_request();
        let mut expired = std::pin::pin!(activity.expired());
        assert!((&mut expired).now_or_never().is_none());
        advance(IDLE * 10).await;
        assert!((&mut expired).now_or_never().is_none());
        activity.end_request();
        let began = Instant::now();
        expired.await;
        assert_eq!(began.elapsed().as_secs(), 90);
    }
}
