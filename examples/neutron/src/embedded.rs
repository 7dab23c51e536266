//! A Neutron in a library: networks, subnets and ports over HTTP on a loopback port, stored in
//! memory.
//!
//! It has the part of the API that the client uses, with Neutron's rules and messages, and refuses
//! everything else. It has no authentication, like a real Neutron without Keystone.
//! `tests/real_neutron.rs` sends the same requests to a real one and checks that both respond
//! alike.
//!
//! The path of a request: [`EmbeddedNeutron`] reads it from the socket, `api` routes it and checks
//! its form by the tables of `attributes`, and `store` has the rules about existing resources.

mod addresses;
mod api;
mod attributes;
mod refusal;
mod store;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, IF_MATCH};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::api::Question;
use self::store::Store;
use crate::{Auth, Neutron};

/// Far more than any request of the API needs.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long to wait after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// The page of a proxy in front of a Neutron that is down.
const UNAVAILABLE_PAGE: &str = "<html><head><title>503 Service Unavailable</title></head><body>\
     <h1>503 Service Unavailable</h1>No server is available to handle this request.</body></html>";

/// A Neutron in this process, without authentication. It ends when it is dropped.
#[derive(Debug)]
pub struct EmbeddedNeutron {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// The task that accepts connections and has their tasks; `None` while stopped.
    serving: Option<JoinSet<()>>,
}

/// A request that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The status of the response.
    pub status: u16,
}

/// A fault of an embedded Neutron.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Requests wait until the fault ends or the client gives up.
    Hang,
    /// Requests get the response of a proxy whose backend is down: 503 in HTML.
    Unavailable,
    /// Requests are executed, and then the connection breaks: the client cannot know.
    LoseAnswers,
}

#[derive(Debug)]
struct Shared {
    store: Mutex<Store>,
    log: Mutex<Vec<Exchange>>,
    fault: watch::Sender<Option<Fault>>,
}

impl EmbeddedNeutron {
    /// Starts it on a free loopback port.
    pub async fn start() -> io::Result<Self> {
        let listener = listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0).into())?;
        let shared =
            Arc::new(Shared { store: Mutex::default(), log: Mutex::default(), fault: watch::Sender::new(None) });
        let mut neutron = Self { address: listener.local_addr()?, shared, serving: None };
        neutron.serve(listener);
        Ok(neutron)
    }

    /// Its address: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client of it.
    pub fn client(&self) -> Neutron {
        Neutron::new(&self.url(), Auth::None).expect("an address of our own is one")
    }

    /// Every request since the start, or since the last call.
    pub fn take_log(&self) -> Vec<Exchange> {
        std::mem::take(&mut *lock(&self.shared.log))
    }

    /// Sets or clears a fault.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.shared.fault.send_replace(fault);
    }

    /// Sets the quota of a project for a `resource` (`network`, `subnet` or `port`); -1: no limit.
    pub fn set_quota(&self, resource: &str, limit: i64) {
        lock(&self.shared.store).set_quota(None, resource, limit);
    }

    /// Stops listening and cuts every connection. The data stays.
    pub async fn stop(&mut self) {
        if let Some(mut serving) = self.serving.take() {
            serving.shutdown().await;
        }
    }

    /// Listens again, on the same port.
    pub async fn start_again(&mut self) -> io::Result<()> {
        self.stop().await;
        let listener = listen(self.address)?;
        self.serve(listener);
        Ok(())
    }

    fn serve(&mut self, listener: TcpListener) {
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, Arc::clone(&self.shared), self.url()));
        self.serving = Some(serving);
    }
}

/// A socket that can be opened again while connections to its predecessor are still closing.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    TcpListener::from_std(socket.into())
}

/// Accepts connections until it is aborted; they end with it.
async fn accept(listener: TcpListener, shared: Arc<Shared>, url: String) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // A connection that broke before it was accepted is ignored. Too many open files are
            // not.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (shared, url) = (Arc::clone(&shared), url.clone());
        connections.spawn(async move {
            let service = service_fn(|request| {
                let (shared, url) = (Arc::clone(&shared), url.clone());
                async move { shared.respond(request, &url).await }
            });
            // A connection that breaks later is ignored, too.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Shared {
    /// The response. An error breaks the connection.
    async fn respond(&self, request: Request<Incoming>, url: &str) -> io::Result<Response<Full<Bytes>>> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let response = match Limited::new(body, BODY_BYTES_MAX).collect().await {
            Ok(body) => self.respond_whole(&parts, &body.to_bytes(), url).await,
            Err(_) => plain(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large", "text/plain"),
        };
        let status = response.status().as_u16();
        lock(&self.log).push(Exchange { method: parts.method.to_string(), path, status });
        if *self.fault.borrow() == Some(Fault::LoseAnswers) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(response)
    }

    async fn respond_whole(&self, parts: &http::request::Parts, body: &[u8], url: &str) -> Response<Full<Bytes>> {
        let mut fault = self.fault.subscribe();
        // It fails only after the sender was dropped, and we hold the sender.
        let _ = fault.wait_for(|fault| *fault != Some(Fault::Hang)).await;
        if *fault.borrow() == Some(Fault::Unavailable) {
            return plain(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE_PAGE, "text/html");
        }
        let question = Question {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            if_match: parts.headers.get(IF_MATCH).and_then(|value| value.to_str().ok()),
            body,
            host: url,
        };
        let (status, body) = api::answer(&mut lock(&self.store), &question);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        match body {
            Some(serde_json::Value::String(text)) => plain(status, text, "text/plain"),
            Some(body) => plain(status, body.to_string(), "application/json"),
            None => plain(status, "", "text/plain"),
        }
    }
}

fn plain(status: StatusCode, body: impl Into<Bytes>, content_type: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
