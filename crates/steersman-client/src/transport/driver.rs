//! Runs the connection of a watch inside the task that reads the watch.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use futures::task::AtomicWaker;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::Executor;
use tower::BoxError;

/// How many times one call polls a connection that keeps waking itself, before it yields the
/// thread.
const POLL_ROUNDS_MAX: usize = 4;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Collects the tasks that hyper spawns for a connection.
#[derive(Clone)]
pub(super) struct CollectingExecutor {
    tasks: Arc<Mutex<Vec<Task>>>,
    signal: Arc<WakeSignal>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for CollectingExecutor {
    fn execute(&self, task: F) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(task));
        self.signal.wake_by_ref();
    }
}

/// Records that a task of the connection can go on, and wakes the reader.
#[derive(Default)]
struct WakeSignal {
    is_raised: AtomicBool,
    reader: AtomicWaker,
}

impl Wake for WakeSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_raised.store(true, Ordering::Release);
        self.reader.wake();
    }
}

/// Polls a connection together with the future that uses it.
pub(super) struct Driver {
    executor: CollectingExecutor,
    /// The connection, and other tasks that hyper has spawned.
    tasks: Vec<Task>,
    signal: Arc<WakeSignal>,
    waker: Waker,
}

impl Driver {
    pub(super) fn new() -> Self {
        let signal = Arc::new(WakeSignal::default());
        let executor = CollectingExecutor { tasks: Arc::default(), signal: Arc::clone(&signal) };
        Self { executor, tasks: Vec::new(), waker: Arc::clone(&signal).into(), signal }
    }

    /// The executor for hyper's client.
    pub(super) fn executor(&self) -> CollectingExecutor {
        self.executor.clone()
    }

    /// Polls the connection, then `poll`, until neither can go on. Wake-ups between them do not
    /// reach the reader's task, which is running.
    pub(super) fn poll<T>(
        &mut self,
        reader: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let mut context = Context::from_waker(&self.waker);
        for _ in 0..POLL_ROUNDS_MAX {
            self.signal.reader.take();
            self.signal.is_raised.store(false, Ordering::Release);
            self.tasks.append(&mut self.executor.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            self.tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            if let Poll::Ready(ready) = poll(&mut context) {
                return Poll::Ready(ready);
            }
            // Register before the check: a wake-up in between is seen here, or wakes the reader.
            self.signal.reader.register(reader.waker());
            if !self.signal.is_raised.load(Ordering::Acquire) {
                return Poll::Pending;
            }
        }
        reader.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The body of a watch. Its connection makes progress only while the body is polled.
pub(super) struct DrivenBody {
    body: Incoming,
    driver: Driver,
}

impl DrivenBody {
    pub(super) fn new(body: Incoming, driver: Driver) -> Self {
        Self { body, driver }
    }
}

impl HttpBody for DrivenBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, driver } = self.get_mut();
        driver.poll(context, |context| Pin::new(&mut *body).poll_frame(context)).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    pub(crate) struct Counter(AtomicUsize);

    impl Counter {
        pub(crate) fn wakes(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_future_that_always_wakes_itself_yields_the_thread_and_is_polled_again() {
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut polls = 0;
        let busy = |context: &mut Context<'_>| {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        };
        assert!(Driver::new().poll(&mut Context::from_waker(&waker), busy).is_pending());
        assert_eq!((polls, counter.wakes() > 0), (POLL_ROUNDS_MAX, true));
    }

    #[test]
    fn a_task_that_is_spawned_late_is_run() {
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut driver = Driver::new();
        assert!(driver.poll(&mut Context::from_waker(&waker), |_| Poll::<()>::Pending).is_pending());
        assert_eq!(counter.wakes(), 0);
        let ran = Arc::new(AtomicBool::new(false));
        let task = Arc::clone(&ran);
        driver.executor().execute(async move { task.store(true, Ordering::SeqCst) });
        assert_eq!(counter.wakes(), 1);
        assert!(driver.poll(&mut Context::from_waker(&waker), |_| Poll::<()>::Pending).is_pending());
        assert!(ran.load(Ordering::SeqCst));
    }
}
