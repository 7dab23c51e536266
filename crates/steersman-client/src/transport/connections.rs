//! The service that sends every request: over pooled connections, or, for a watch, over a
//! connection of its own that the reader of the watch drives.
//!
//! hyper gives each connection a task. An event wakes this task, which wakes the reader, which
//! wakes the task again when it has taken the event; and tokio wakes another thread to help, which
//! finds nothing to do. For single events that costs more than reading them. So the connection of a
//! watch is polled by its reader, and an event wakes one task.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::TokioExecutor;
use kube_client::client::Body;
use tower::{BoxError, Service};

use super::driver::{DrivenBody, Driver};
use super::gated::{GatedBody, GatedConnector};
use crate::layers::{Purpose, ResponseBody, ResponseFuture};

/// The largest read from a connection. hyper would read several times that at once and keep the
/// buffer for each watch. The head of a response is far smaller.
const READ_BYTES_MAX: usize = 64 << 10;

/// hyper's client: a connection for each watch, and pooled connections for all other requests.
#[derive(Clone)]
pub(super) struct Connections<C> {
    connector: C,
    pooled: Client<GatedConnector<C>, GatedBody>,
}

impl<C> Connections<C>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    pub(super) fn new(connector: C) -> Self {
        let pooled = Client::builder(TokioExecutor::new())
            .http1_max_buf_size(READ_BYTES_MAX)
            .build(GatedConnector(connector.clone()));
        Self { connector, pooled }
    }

    /// Sends the request of a watch over a new connection.
    async fn watch(connector: C, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let mut driver = Driver::new();
        let client = Client::builder(driver.executor())
            .http1_max_buf_size(READ_BYTES_MAX)
            .pool_max_idle_per_host(0)
            .build(connector);
        let mut response = client.request(request);
        let response = poll_fn(|context| driver.poll(context, |context| Pin::new(&mut response).poll(context))).await?;
        Ok(response.map(|body| DrivenBody::new(body, driver).boxed_unsync()))
    }
}

impl<C> Service<Request<Body>> for Connections<C>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> ResponseFuture {
        if let Purpose::Watch { .. } = Purpose::of(&request) {
            return Box::pin(Self::watch(self.connector.clone(), request));
        }
        let response = self.pooled.request(GatedBody::wrap(request));
        Box::pin(async move { Ok(response.await?.map(|body| body.map_err(BoxError::from).boxed_unsync())) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Arc, mpsc};
    use std::task::Waker;

    use http_body::Body as _;
    use hyper_util::client::legacy::connect::HttpConnector;
    use tower::ServiceExt;

    use super::super::driver::tests::Counter;
    use super::*;

    const EVENT: &str = "{\"type\":\"BOOKMARK\"}\n";
    const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

    /// A server on its own thread. Sends its end of each connection after it has read the request.
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

    async fn watch(url: &str) -> ResponseBody {
        let request = Request::get(format!("{url}/api/v1/pods?watch=true")).body(Body::empty()).unwrap();
        let response = Connections::new(HttpConnector::new()).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    }

    #[tokio::test]
    async fn an_event_wakes_its_reader_once_and_no_other_task() {
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
}
