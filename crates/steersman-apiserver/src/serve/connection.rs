//! One connection: its handshake, its requests, its end.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use steersman_http::{TimedBody, stall_guard};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::connection_slots::ConnectionSlot;
use super::{Limits, Log, Stopped, subject};
use crate::ApiServer;
use crate::request::identity::Identity;
use crate::response::status::Status;
use crate::response::{self, Body};
use crate::server::{CaughtPanic, Received, Weight};
use crate::verbs::watch::{Offload, OnPanic};

/// The interval of keep-alive pings, and the time that a client has to respond.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// The limit of concurrent reads that are not served from the stored form, like that of the real
/// server (`--max-requests-inflight`). More are refused with 429.
const READS_MAX: usize = 400;
/// The same for large writes (`--max-mutating-requests-inflight`).
const LARGE_WRITES_MAX: usize = 200;

/// The state that all connections share.
pub(super) struct Connections {
    pub(super) server: ApiServer,
    pub(super) tls: TlsAcceptor,
    pub(super) token: String,
    pub(super) log: Option<Log>,
    pub(super) limits: Limits,
    pub(super) stopped: Stopped,
    pub(super) lanes: Lanes,
}

/// The requests that run on threads of their own, in three lanes, so that those of one lane do not
/// wait for those of another.
pub(super) struct Lanes {
    reads: Lane,
    /// Small writes wait without a limit, and are not refused: their number is bounded by the
    /// connections and their streams, and their bytes by the size of a small one.
    small_writes: Lane,
    large_writes: Lane,
}

/// The capacity for some of these requests.
struct Lane {
    /// The capacity for those that run or wait.
    waiting: Option<Semaphore>,
    /// The capacity for those that run: one for each processor and at least two, because each may
    /// take some hundred megabytes.
    running: Arc<Semaphore>,
}

impl Lanes {
    pub(super) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZeroUsize::get).max(2);
        let lane = |waiting: Option<usize>| Lane {
            waiting: waiting.map(Semaphore::new),
            running: Arc::new(Semaphore::new(processors)),
        };
        Self { reads: lane(Some(READS_MAX)), small_writes: lane(None), large_writes: lane(Some(LARGE_WRITES_MAX)) }
    }

    fn of(&self, weight: Weight) -> Option<&Lane> {
        match weight {
            Weight::Light => None,
            Weight::Read => Some(&self.reads),
            Weight::SmallWrite => Some(&self.small_writes),
            Weight::LargeWrite => Some(&self.large_writes),
        }
    }
}

impl Connections {
    /// Serves one connection until it ends, or until the server stops and its requests are
    /// answered.
    pub(super) async fn run(self: Arc<Self>, stream: TcpStream, slot: ConnectionSlot) {
        let mut stopped = self.stopped.clone();
        // Small writes (watch events) are sent at once. If the option cannot be set, they are sent
        // later.
        let _ = stream.set_nodelay(true);
        let stream = stall_guard(stream, self.limits.write);
        let handshake = tokio::time::timeout(self.limits.handshake, self.tls.accept(stream));
        let stream = tokio::select! {
            biased;
            () = stopped.wait() => return,
            () = slot.evicted() => return,
            stream = handshake => match stream {
                Ok(Ok(stream)) => stream,
                _ => return,
            },
        };
        let (_, session) = stream.get_ref();
        let http2 = session.alpn_protocol() == Some(b"h2");
        // Certificates of other authorities fail in the handshake.
        let certified = session.peer_certificates().and_then(|chain| subject::identity(chain.first()?));
        if certified.is_some() && !slot.admit() {
            return;
        }

        let builder = self.builder(http2);
        let slot = Arc::new(slot);
        let service = service_fn(|request: Request<Incoming>| {
            let (connections, slot, certified) = (Arc::clone(&self), Arc::clone(&slot), certified.clone());
            async move {
                // A token is valid for its request only: a connection may carry the requests of
                // several clients.
                let identity = certified.or_else(|| connections.token_holder(request.headers()));
                if identity.is_some() && !slot.admit() {
                    return Err(NoSlot);
                }
                Ok(connections.handle(request, identity).await)
            }
        });
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut patience = pin!(tokio::time::sleep(self.limits.header));
        let mut asked_for_credential = false;
        loop {
            tokio::select! {
                biased;
                _ = connection.as_mut() => return,
                () = patience.as_mut(), if !asked_for_credential => {
                    asked_for_credential = true;
                    if !slot.is_admitted() {
                        return;
                    }
                }
                () = slot.evicted() => return,
                () = stopped.wait() => break,
            }
        }
        // Without a credential there is no response worth waiting for.
        if slot.is_admitted() {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }

    fn builder(&self, http2: bool) -> Builder<TokioExecutor> {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.limits.header);
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
        // The handshake has negotiated it: no bytes need to be read to distinguish the protocols.
        if http2 { builder.http2_only() } else { builder.http1_only() }
    }

    async fn handle(&self, mut request: Request<Incoming>, identity: Option<Identity>) -> Response<Body> {
        let began = Instant::now();
        let line = self.log.is_some().then(|| {
            let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
            format!("{} {path}", request.method())
        });
        let response = if let Some(identity) = identity {
            request.extensions_mut().insert(identity);
            let request = request.map(|body| TimedBody::new(body, self.limits.body));
            let received = self.server.receive(request).await;
            let response = self.respond(received).await;
            if let Some(offload) = response.extensions().get::<Offload>() {
                offload.set(Arc::clone(&self.lanes.reads.running));
            }
            response.map(|body| self.until_stop(body))
        } else {
            response::error(&Status::unauthorized())
        };
        if let (Some(log), Some(line)) = (&self.log, line) {
            let ms = began.elapsed().as_secs_f64() * 1000.0;
            log(&format!("{line} {} {ms:.1}ms", response.status().as_u16()));
            let report = {
                let log = Arc::clone(log);
                move |CaughtPanic { count, message }: &CaughtPanic| {
                    log(&format!("{line} panicked ({count} since the start): {message}"));
                }
            };
            if let Some(panicked) = response.extensions().get() {
                report(panicked);
            } else if let Some(on_panic) = response.extensions().get::<OnPanic>() {
                on_panic.set(report);
            }
        }
        response
    }

    /// Handles a request: on a thread of its own unless it is light, so that the threads of
    /// connections continue with the others.
    async fn respond(&self, received: Received) -> Response<Body> {
        let weight = match self.server.weight(&received) {
            Ok(weight) => weight,
            Err(panicked) => return panicked.response(),
        };
        let Some(lane) = self.lanes.of(weight) else { return self.server.respond(received) };
        let Ok(_waiting) = lane.waiting.as_ref().map(Semaphore::try_acquire).transpose() else {
            return response::error(&Status::overloaded());
        };
        let Ok(running) = Arc::clone(&lane.running).acquire_owned().await else {
            return response::error(&Status::overloaded());
        };
        let server = self.server.clone();
        let responded = tokio::task::spawn_blocking(move || {
            let response = server.respond(received);
            drop(running);
            response
        });
        // It is never cancelled, and the server catches panics itself.
        responded.await.unwrap_or_else(|_| response::error(&Status::panicked()))
    }

    /// The user of the request, if it has the token with all rights or one of a service account.
    fn token_holder(&self, headers: &HeaderMap) -> Option<Identity> {
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok())?;
        let (scheme, token) = header.trim().split_once(' ')?;
        let right = scheme.eq_ignore_ascii_case("bearer") && same(token.trim().as_bytes(), self.token.as_bytes());
        if right { Some(Identity::admin()) } else { self.server.authenticate(headers) }
    }

    /// A complete body stays unchanged. One that is still being produced, as a watch's, ends when
    /// the server stops.
    fn until_stop(&self, body: Body) -> Body {
        if body.size_hint().exact().is_some() {
            return body;
        }
        let mut stopped = self.stopped.clone();
        UntilStop { body, stopped: Box::pin(async move { stopped.wait().await }) }.boxed_unsync()
    }
}

/// The slots of known clients are taken: the connection is closed without a response.
#[derive(Debug, thiserror::Error)]
#[error("too many connections")]
struct NoSlot;

/// Takes as long for a nearly correct token as for any other of its length.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len() && given.iter().zip(wanted).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}

/// A body that ends when the server stops, at the next moment without data to send.
struct UntilStop {
    body: Body,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl http_body::Body for UntilStop {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending => self.stopped.as_mut().poll(context).map(|()| None),
            ready => ready,
        }
    }
}
