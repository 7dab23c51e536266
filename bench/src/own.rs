//! The job `reconcile-own`: how long an event takes in this process, from the read of its last byte
//! from the socket to the start of the reconcile.
//!
//! The first time is taken where the client reads from its socket (`Stamped`), below all code of
//! ours and of hyper; otherwise the client is the usual one. An event ends with a brace and a line
//! feed, which no chunk size, header or list of the replay contains. The reconciler takes the
//! second time. It identifies the event by the version of its Pod: each Pod is changed once.
//!
//! A percentile in microseconds depends on the machine as much as on this project: the machine may
//! delay a thread, or evict its memory from the processor's caches while it is idle. So the same is
//! measured afterwards with an unrelated thread.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, ready};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use steersman_client::{Client, config_from_flags};
use steersman_runtime::{Action, Context, Manager, ObjectKey, ReconcileError, Reconciler, kind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower::service_fn;

use crate::contestant::{Ask, Counter, FIRST_VERSION, Outcome, Stopwatch, latencies, memory, start_events};
use crate::reconcile::Running;

/// When the end of each event was read, in order.
#[derive(Clone, Debug, Default)]
struct Stamps(Arc<Mutex<Vec<Instant>>>);

impl Stamps {
    fn lock(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that records when the ends of events were read.
#[derive(Debug)]
struct Stamped<S> {
    stream: S,
    stamps: Stamps,
    /// The last byte that was read.
    last: u8,
}

impl<S> Stamped<S> {
    fn note(&mut self, read: &[u8], now: Instant) {
        let is_end = |at: &usize| at.checked_sub(1).map_or(self.last, |before| read[before]) == b'}';
        let ends = memchr::memchr_iter(b'\n', read).filter(is_end).count();
        self.stamps.lock().extend(std::iter::repeat_n(now, ends));
        self.last = read.last().copied().unwrap_or(self.last);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stamped<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        this.note(&buffer.filled()[before..], Instant::now());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stamped<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl<S> Connection for Stamped<S> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// A client of the replay whose connections are stamped.
async fn stamped_client(ask: &Ask, stamps: &Stamps) -> Result<Client> {
    let config = config_from_flags(Some(ask.url()?), None).await?;
    let stamps = stamps.clone();
    let connector = service_fn(move |uri: Uri| {
        let stamps = stamps.clone();
        Box::pin(async move {
            let address = uri.authority().map(ToString::to_string).unwrap_or_default();
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok::<_, io::Error>(TokioIo::new(Stamped { stream, stamps, last: 0 }))
        })
    });
    Ok(Client::builder(config).build_with_connector(connector)?)
}

/// Records when the reconcile of each event started.
struct Enter {
    /// The version of the list, which event 1 follows.
    version: u64,
    /// The reconciles of the list.
    listed: Arc<Counter>,
    /// The reconciles of the events.
    changed: Arc<Counter>,
    entered: Arc<Mutex<Vec<(u64, Instant)>>>,
}

impl Reconciler<Pod> for Enter {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<Pod>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let now = Instant::now();
        let Some(pod) = ctx.object(key).await? else { return Ok(Action::done()) };
        let version: u64 = pod.meta().resource_version().parse()?;
        match version.checked_sub(self.version) {
            None => self.listed.add(),
            Some(event) => {
                self.entered.lock().unwrap_or_else(PoisonError::into_inner).push((event, now));
                self.changed.add();
            }
        }
        Ok(Action::done())
    }
}

/// Reconciles Pods, each of which is changed once.
pub async fn run(ask: &Ask) -> Result<Outcome> {
    ensure!((1..=ask.size).contains(&ask.events), "needs --events, at most as many as Pods: each is changed once");
    let stamps = Stamps::default();
    let (listed, changed) = (Arc::new(Counter::new(ask.size)), Arc::new(Counter::new(ask.events)));
    let entered = Arc::new(Mutex::new(Vec::new()));
    let reconciler = Enter {
        version: FIRST_VERSION + ask.size,
        listed: Arc::clone(&listed),
        changed: Arc::clone(&changed),
        entered: Arc::clone(&entered),
    };
    let manager = Manager::new(stamped_client(ask, &stamps).await?);
    manager.controller(kind::<Pod>()).max_concurrent(ask.workers as usize).complete(reconciler)?;
    let mut running = Running::start(&manager);
    running.until(listed.reached()).await?;

    // The list came as events as well.
    let before = stamps.lock().len();
    let stopwatch = Stopwatch::start();
    start_events(ask.url()?)?;
    running.until(changed.reached()).await?;
    let cost = stopwatch.cost();
    let took = own_shares(&entered.lock().unwrap_or_else(PoisonError::into_inner), &stamps.lock()[before..])?;
    let count = took.len() as u64;
    let mut figures = latencies(took)?;
    let memory = Some(memory());
    let p50 = figures.iter().find(|(name, _)| *name == "p50_us").map_or(0.0, |(_, p50)| *p50);
    let alone = tokio::task::spawn_blocking(move || machine(Duration::from_secs_f64(p50 / 1e6))).await?;
    let names = ["machine_p50_us", "machine_p99_us"];
    figures.extend(names.into_iter().zip(latencies(alone)?).map(|(name, (_, value))| (name, value)));
    Ok(Outcome { count, cost, memory, figures })
}

/// The time of a thread that wakes every millisecond and reads memory at random, for a median of
/// about `usual`: anything above that is caused by the machine.
fn machine(usual: Duration) -> Vec<Duration> {
    const WAKES: usize = 5_000;
    const TRIAL: usize = 200;
    let memory = vec![1_u32; 16 << 20];
    let mut at = 0_usize;
    let mut wake = |reads: usize| {
        std::thread::sleep(Duration::from_millis(1));
        let start = Instant::now();
        for _ in 0..reads {
            // The next address depends on the last read, so that nothing can be prefetched.
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(memory[(at >> 33) % memory.len()] as usize);
        }
        std::hint::black_box(at);
        start.elapsed()
    };
    let mut trial: Vec<_> = (0..TRIAL).map(|_| wake(100)).collect();
    trial.sort_unstable();
    let reads = 100.0 * usual.as_secs_f64() / trial[TRIAL / 2].as_secs_f64();
    (0..WAKES).map(|_| wake(reads as usize)).collect()
}

/// How long after its last byte each event was reconciled. Events count from 1.
fn own_shares(entered: &[(u64, Instant)], stamps: &[Instant]) -> Result<Vec<Duration>> {
    let share = |(event, entered): &(u64, Instant)| {
        let read = event.checked_sub(1).and_then(|index| stamps.get(usize::try_from(index).ok()?));
        let read = read.with_context(|| format!("event {event} was reconciled, and {} were read", stamps.len()))?;
        entered
            .checked_duration_since(*read)
            .with_context(|| format!("event {event} was reconciled before it was read"))
    };
    entered.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_with_a_brace_and_a_line_feed_wherever_it_is_cut() {
        let stamps = Stamps::default();
        let mut stream = Stamped { stream: (), stamps: stamps.clone(), last: 0 };
        let times: Vec<Instant> = (0..5).map(|i| Instant::now() + Duration::from_secs(i)).collect();
        let reads: [&[u8]; 5] =
            [b"HTTP/1.1 200 OK\r\n\r\n1a\r\n{\"a\":{}", b"}", b"\n\r\n20\r\n{\"b\":1}\n{}\n\r\n{", b"", b"}\n"];
        for (read, time) in reads.iter().zip(&times) {
            stream.note(read, *time);
        }
        assert_eq!(*stamps.lock(), [times[2], times[2], times[2], times[4]]);
    }

    #[test]
    fn an_event_that_was_not_read_cannot_be_reconciled() {
        let start = Instant::now();
        let later = |us| start + Duration::from_micros(us);
        let stamps = [later(0), later(10)];
        let shares = own_shares(&[(2, later(50)), (1, later(30))], &stamps).expect("both were read");
        assert_eq!(shares, [Duration::from_micros(40), Duration::from_micros(30)]);
        own_shares(&[(3, later(50))], &stamps).expect_err("the third was not read");
        own_shares(&[(0, later(50))], &stamps).expect_err("events count from 1");
        own_shares(&[(2, later(5))], &stamps).expect_err("the second was read later");
    }
}
