//! Asks a write gate once more where the bytes of a write leave: at the stream of its connection.
//!
//! A write that has passed the [gate](crate::layers::gate) can wait: for credentials, for a new
//! connection, for a full socket. So a write carries its gate in a [`Passage`] to the connection:
//!
//! 1. [`GatedBody`] holds the passage. hyper asks a body for its end right before it writes the
//!    head of a request, in the task of the connection. The body then gives the passage to the
//!    stream.
//! 2. [`GatedStream`] asks the gate before each write to the socket, and refuses to write if the
//!    gate is closed. The request fails, and hyper closes the connection.
//! 3. The first bytes of the response end the passage. Requests follow each other on a connection
//!    of HTTP/1.1, the only version that is spoken here.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Extensions, Request, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::ReadBufCursor;
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection, capture_connection};
use kube_client::client::Body;
use tower::Service;

use crate::layers::gate::{GateError, WriteGate};

/// A write on its way through the transport, in the extensions of its request.
#[derive(Clone)]
pub(crate) struct Passage {
    gate: WriteGate,
    refused: Arc<OnceLock<GateError>>,
}

impl Passage {
    pub(crate) fn new(gate: WriteGate) -> Self {
        Self { gate, refused: Arc::default() }
    }

    /// Why the connection did not write the request, or not all of it.
    pub(crate) fn refused(&self) -> Option<GateError> {
        self.refused.get().copied()
    }
}

/// The passage that a connection has to ask. Shared by the stream and by the bodies of requests.
#[derive(Clone, Default)]
struct StreamGate(Arc<StreamGateState>);

#[derive(Default)]
struct StreamGateState {
    /// There is a passage. Most requests have none, and then no lock is taken.
    is_set: AtomicBool,
    passage: Mutex<Option<Passage>>,
}

impl StreamGate {
    fn passage(&self) -> MutexGuard<'_, Option<Passage>> {
        self.0.passage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, passage: Option<Passage>) {
        let is_set = passage.is_some();
        *self.passage() = passage;
        self.0.is_set.store(is_set, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// Fails if the bytes of a write may not leave. `is_begun` if others of it have left.
    fn ask(&self, is_begun: bool) -> io::Result<()> {
        if !self.is_set() {
            return Ok(());
        }
        match &*self.passage() {
            Some(passage) if !passage.gate.is_open() => {
                let refused = if is_begun { GateError::Cancelled } else { GateError::Closed };
                Err(io::Error::other(*passage.refused.get_or_init(|| refused)))
            }
            _ => Ok(()),
        }
    }
}

/// Makes connections that ask the gates of writes.
#[derive(Clone)]
pub(super) struct GatedConnector<C>(pub(super) C);

impl<C> Service<Uri> for GatedConnector<C>
where
    C: Service<Uri>,
    C::Future: Send + Unpin + 'static,
{
    type Response = GatedStream<C::Response>;
    type Error = C::Error;
    type Future = Connecting<C::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        Connecting(self.0.call(server))
    }
}

/// The future of a [`GatedConnector`].
pub(super) struct Connecting<F>(F);

impl<F, S, E> Future for Connecting<F>
where
    F: Future<Output = Result<S, E>> + Unpin,
{
    type Output = Result<GatedStream<S>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let wrap = |stream| GatedStream { stream, gate: StreamGate::default(), is_begun: false, is_unflushed: false };
        Pin::new(&mut self.0).poll(context).map_ok(wrap)
    }
}

/// A connection.
pub(super) struct GatedStream<S> {
    stream: S,
    gate: StreamGate,
    /// Bytes of the current request have left, or wait below for [`poll_flush`](Self::poll_flush).
    is_begun: bool,
    /// TLS may hold bytes that were written.
    is_unflushed: bool,
}

impl<S> GatedStream<S> {
    fn ask_to_flush(&self) -> io::Result<()> {
        if self.is_unflushed { self.gate.ask(self.is_begun) } else { Ok(()) }
    }

    fn wrote(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(bytes)) if bytes > 0) {
            (self.is_begun, self.is_unflushed) = (true, true);
        }
        written
    }
}

impl<S: hyper::rt::Read + Unpin> hyper::rt::Read for GatedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        // A response, or the end: the server has what it acts on, and the next request may need no
        // gate.
        if read.is_ready() && std::mem::take(&mut self.is_begun) && self.gate.is_set() {
            self.gate.set(None);
        }
        read
    }
}

impl<S: hyper::rt::Write + Unpin> hyper::rt::Write for GatedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.gate.ask(self.is_begun)?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.gate.ask(self.is_begun)?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ask_to_flush()?;
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.is_unflushed = false;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS flushes before it closes.
        self.ask_to_flush()?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: Connection> Connection for GatedStream<S> {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.gate.clone())
    }
}

/// The body of a request, which gives the passage of a write to its connection.
pub(super) struct GatedBody {
    body: Body,
    /// `None` if the request is no gated write.
    passage: Option<(Passage, CaptureConnection)>,
}

impl GatedBody {
    /// Prepares a request for a connection of [`GatedConnector`].
    pub(super) fn wrap(mut request: Request<Body>) -> Request<Self> {
        let passage = request.extensions().get::<Passage>().cloned();
        let passage = passage.map(|passage| (passage, capture_connection(&mut request)));
        request.map(|body| Self { body, passage })
    }

    /// From now on the stream asks the gate. Without a connection there is nothing to ask.
    fn enter(&self) {
        let Some((passage, connection)) = &self.passage else { return };
        if let Some(connected) = &*connection.connection_metadata() {
            let mut extras = Extensions::new();
            connected.get_extras(&mut extras);
            if let Some(gate) = extras.get::<StreamGate>() {
                gate.set(Some(passage.clone()));
            }
        }
    }
}

impl HttpBody for GatedBody {
    type Data = Bytes;
    type Error = kube_client::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, kube_client::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        // A body without content is not polled, so this is the one call before each head.
        self.enter();
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
