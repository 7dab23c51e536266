//! Connections of watches, driven by whoever reads the watch.
//!
//! hyper gives each connection a task of its own. An event then wakes that task, which wakes the reader's, which wakes the
//! connection's again as soon as it has taken the event; and tokio calls another thread to help with that, which finds nothing to do.
//! Where events are waited for one by one, that costs more than to read them. So the connection of a watch is polled by its reader,
//! who is the only one to use it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use futures::task::AtomicWaker;
use http::{Request, Response, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::TokioExecutor;
use kube_client::client::Body;
use tower::{BoxError, Service};

use crate::layers::{AnswerBody, AnswerFuture, Purpose};

/// As much is read from a connection at a time. hyper would go up to several times that, and keep it for each watch; heads of
/// answers are far smaller.
const READ_BYTES_MAX: usize = 64 << 10;
/// What wakes itself more often than that, in one call, has used up its share of the thread.
const ROUNDS_MAX: usize = 4;

/// hyper's client, with a connection of its own for each watch.
#[derive(Clone)]
pub(crate) struct Connections<C> {
    connector: C,
    shared: Client<C, Body>,
}

impl<C> Connections<C>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    pub(crate) fn new(connector: C) -> Self {
        let shared = Client::builder(TokioExecutor::new()).http1_max_buf_size(READ_BYTES_MAX).build(connector.clone());
        Self { connector, shared }
    }

    /// Sends the request of a watch over a new connection.
    async fn watch(connector: C, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let mut driver = Driver::new();
        let client = Client::builder(driver.spawned.clone())
            .http1_max_buf_size(READ_BYTES_MAX)
            .pool_max_idle_per_host(0)
            .build(connector);
        let mut answer = client.request(request);
        let answer = poll_fn(|context| driver.poll(context, |context| Pin::new(&mut answer).poll(context))).await?;
        Ok(answer.map(|body| DrivenBody { body, driver }.boxed_unsync()))
    }
}

impl<C> Service<Request<Body>> for Connections<C>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = AnswerFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> AnswerFuture {
        if let Purpose::Watch { .. } = Purpose::of(&request) {
            return Box::pin(Self::watch(self.connector.clone(), request));
        }
        let answer = self.shared.request(request);
        Box::pin(async move { Ok(answer.await?.map(|body| body.map_err(BoxError::from).boxed_unsync())) })
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes what hyper wants to run beside a request.
#[derive(Clone)]
struct Spawned {
    tasks: Arc<Mutex<Vec<Task>>>,
    signal: Arc<Signal>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawned {
    fn execute(&self, task: F) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(task));
        self.signal.wake_by_ref();
    }
}

/// Whether anything in a connection can go on, and who is to be told.
#[derive(Default)]
struct Signal {
    raised: AtomicBool,
    reader: AtomicWaker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.raised.store(true, Ordering::Release);
        self.reader.wake();
    }
}

/// Runs a connection as part of whatever is polled with it.
struct Driver {
    spawned: Spawned,
    /// The connection, and what else hyper has spawned.
    tasks: Vec<Task>,
    signal: Arc<Signal>,
    waker: Waker,
}

impl Driver {
    fn new() -> Self {
        let signal = Arc::new(Signal::default());
        let spawned = Spawned { tasks: Arc::default(), signal: Arc::clone(&signal) };
        Self { spawned, tasks: Vec::new(), waker: Arc::clone(&signal).into(), signal }
    }

    /// Polls the connection, and then `poll`, until neither can go on. What they wake in each other meanwhile does not reach the
    /// reader's task, which is running anyway.
    fn poll<T>(&mut self, reader: &mut Context<'_>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let mut context = Context::from_waker(&self.waker);
        for _ in 0..ROUNDS_MAX {
            self.signal.reader.take();
            self.signal.raised.store(false, Ordering::Release);
            self.tasks.append(&mut self.spawned.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            self.tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            if let Poll::Ready(ready) = poll(&mut context) {
                return Poll::Ready(ready);
            }
            // First the waker, then the look: whatever is raised in between is seen, or wakes the reader.
            self.signal.reader.register(reader.waker());
            if !self.signal.raised.load(Ordering::Acquire) {
                return Poll::Pending;
            }
        }
        reader.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The body of a watch, whose connection goes on only as long as it is read.
struct DrivenBody {
    body: Incoming,
    driver: Driver,
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
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use hyper_util::client::legacy::connect::HttpConnector;
    use tower::ServiceExt;

    use super::*;

    const EVENT: &str = "{\"type\":\"BOOKMARK\"}\n";
    const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Counter {
        fn wakes(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A server on a thread of its own. Gives its end of each connection when the request has come.
    fn server() -> (String, mpsc::Receiver<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, connections) = mpsc::channel();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    connection.read_exact(&mut byte).unwrap();
                    request.push(byte[0]);
                }
                connection.write_all(HEAD.as_bytes()).unwrap();
                if sender.send(connection).is_err() {
                    return;
                }
            }
        });
        (format!("http://{address}"), connections)
    }

    fn send_event(connection: &mut TcpStream) {
        write!(connection, "{:x}\r\n{EVENT}\r\n", EVENT.len()).unwrap();
    }

    async fn watch(url: &str) -> AnswerBody {
        let request = Request::get(format!("{url}/api/v1/pods?watch=true")).body(Body::empty()).unwrap();
        let answer = Connections::new(HttpConnector::new()).oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.into_body()
    }

    #[tokio::test]
    async fn an_event_wakes_its_reader_once_and_nobody_else() {
        let (url, connections) = server();
        let mut body = watch(&url).await;
        let mut connection = connections.recv().unwrap();
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert_eq!(tasks, 0, "the connection has no task of its own");
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut context = Context::from_waker(&waker);
        for events in 1..=3 {
            assert!(Pin::new(&mut body).poll_frame(&mut context).is_pending());
            send_event(&mut connection);
            while counter.wakes() < events {
                tokio::task::yield_now().await;
            }
            let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) else {
                panic!("the event is there")
            };
            assert_eq!(frame.into_data().unwrap(), EVENT);
            assert_eq!(counter.wakes(), events);
        }
    }

    #[tokio::test]
    async fn a_watch_that_is_dropped_closes_its_connection() {
        let (url, connections) = server();
        drop(watch(&url).await);
        let mut connection = connections.recv().unwrap();
        assert_eq!(connection.read(&mut [0]).unwrap(), 0);
    }

    #[tokio::test]
    async fn the_end_of_the_connection_is_the_end_of_the_watch() {
        let (url, connections) = server();
        let mut body = watch(&url).await;
        let mut connection = connections.recv().unwrap();
        send_event(&mut connection);
        connection.write_all(b"0\r\n\r\n").unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), EVENT);
        assert!(body.frame().await.is_none());

        let mut body = watch(&url).await;
        drop(connections.recv().unwrap());
        assert!(body.frame().await.unwrap().is_err(), "it broke off");
    }

    #[test]
    fn what_never_rests_gives_the_thread_back_and_is_polled_again() {
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut polls = 0;
        let restless = |context: &mut Context<'_>| {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        };
        assert!(Driver::new().poll(&mut Context::from_waker(&waker), restless).is_pending());
        assert_eq!((polls, counter.wakes() > 0), (ROUNDS_MAX, true));
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
        driver.spawned.execute(async move { task.store(true, Ordering::SeqCst) });
        assert_eq!(counter.wakes(), 1);
        assert!(driver.poll(&mut Context::from_waker(&waker), |_| Poll::<()>::Pending).is_pending());
        assert!(ran.load(Ordering::SeqCst));
    }
}
