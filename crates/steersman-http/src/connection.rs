//! One connection: its handshake, its requests, its end.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::activity::Activity;
use crate::connections::ConnectionSlot;
use crate::observed::Observed;
use crate::router::{Body, Router};
use crate::server::Limits;
use crate::{TimedBody, stall_guard};

/// A client over HTTP/2 that is gone without a word is asked this often whether it is there, and
/// has this long to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Requests of one connection over HTTP/2 at a time.
const STREAMS_MAX: u32 = 100;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) router: Router,
    pub(crate) limits: Limits,
    pub(crate) tls: Option<TlsAcceptor>,
}

/// Shows when the server stops: its sender is dropped then.
#[derive(Clone)]
pub(crate) struct Stopping(pub(crate) watch::Receiver<()>);

impl Stopping {
    async fn wait(&mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

impl Shared {
    /// Serves one connection until it ends, or until the server stops and its requests are
    /// answered.
    pub(crate) async fn run(self: Arc<Self>, stream: TcpStream, slot: ConnectionSlot, mut stopping: Stopping) {
        // Small responses go out at once. Where that cannot be had, they go out later.
        let _ = stream.set_nodelay(true);
        let stream = stall_guard(stream, self.limits.write);
        let Some(tls) = &self.tls else { return self.serve(stream, false, slot, stopping).await };
        let handshake = tokio::time::timeout(self.limits.handshake, tls.accept(stream));
        let stream = tokio::select! {
            biased;
            () = stopping.wait() => return,
            () = slot.evicted() => return,
            stream = handshake => match stream {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => return,
            },
        };
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        self.serve(stream, http2, slot, stopping).await;
    }

    async fn serve<S>(self: &Arc<Self>, stream: S, http2: bool, slot: ConnectionSlot, mut stopping: Stopping)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Activity::new(self.limits.header, self.limits.idle);
        let slot = Arc::new(slot);
        let service = service_fn(|request: Request<Incoming>| {
            let shared = Arc::clone(self);
            let mut in_request = InRequest::begin(&activity, &slot);
            async move {
                let request = request.map(|body| TimedBody::new(body, shared.limits.body_timeout));
                let response = shared.router.respond(request, shared.limits.body, || in_request.begin_handler()).await;
                Ok::<_, Infallible>(response.map(|body| WhileBusy { body, _in_request: in_request }))
            }
        });
        let stream = TokioIo::new(Observed { stream, observer: Arc::clone(&activity) });
        let builder = self.builder(http2);
        let mut connection = pin!(builder.serve_connection(stream, service));
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            () = slot.evicted() => return,
            () = activity.expired() => return,
            () = stopping.wait() => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }

    fn builder(&self, http2: bool) -> Builder<TokioExecutor> {
        let mut builder = Builder::new(TokioExecutor::new());
        // `Activity` limits the time of a head.
        builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(self.limits.headers);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(self.limits.headers).unwrap_or(u32::MAX))
            .max_concurrent_streams(STREAMS_MAX)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        if http2 { builder.http2_only() } else { builder.http1_only() }
    }
}

/// A request under way, until its response has been sent.
struct InRequest {
    activity: Arc<Activity>,
    slot: Arc<ConnectionSlot>,
    /// The connection is not evicted any more.
    has_handler: bool,
}

impl InRequest {
    fn begin(activity: &Arc<Activity>, slot: &Arc<ConnectionSlot>) -> Self {
        activity.begin_request();
        Self { activity: Arc::clone(activity), slot: Arc::clone(slot), has_handler: false }
    }

    /// The handler is about to run. False if the connection made room for another one before.
    fn begin_handler(&mut self) -> bool {
        self.has_handler = self.slot.begin_handler();
        self.has_handler
    }
}

impl Drop for InRequest {
    fn drop(&mut self) {
        self.activity.end_request();
        if self.has_handler {
            self.slot.end_handler();
        }
    }
}

/// A body that keeps its connection busy until it has been sent.
struct WhileBusy {
    body: Body,
    _in_request: InRequest,
}

impl http_body::Body for WhileBusy {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
