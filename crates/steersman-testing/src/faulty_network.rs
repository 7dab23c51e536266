use std::convert::Infallible;
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use kube_client::client::Body;
use serde_json::Value;
use steersman_apiserver::ApiServer;
use steersman_client::{Client, Config};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, ServiceExt};

use crate::embedded::Embedded;

type FaultyResponse = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// What a [`FaultyNetwork`] does with a request instead of passing it to the server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection is refused.
    Refused,
    /// No response ever arrives.
    Silence,
    /// The response has this code and a Status as its body.
    Status(u16),
    /// The response has code 429 and asks for another attempt after this number of seconds.
    RetryAfter(u32),
    /// The response has code 200 and this body.
    Body(Value),
    /// The client panics while it sends the request.
    Panic,
}

/// A network between clients and an [`Embedded`] server that fails on command.
///
/// Faults select requests by a part of their description: method, path with query, and Accept
/// header, for example `GET /api/v1/pods?watch=true application/json`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_testing::{Embedded, Fault, FaultyNetwork};
///
/// let network = FaultyNetwork::new(&Embedded::start());
/// let maps = network.client().namespaced::<ConfigMap>("default");
/// network.fail("configmaps", Fault::Status(500));
/// assert!(maps.list(&Default::default()).await.is_err());
/// network.mend();
/// assert!(maps.list(&Default::default()).await.is_ok());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FaultyNetwork(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    server: ApiServer,
    /// Each change breaks the open responses.
    cuts: watch::Sender<u64>,
    /// Watches with one of these in their description deliver nothing.
    held: watch::Sender<Vec<String>>,
    watch_delay: Mutex<Duration>,
    faults: Mutex<Vec<(Selection, Fault)>>,
    requests: Mutex<Vec<String>>,
}

#[derive(Debug)]
enum Selection {
    Description(String),
    Path(String),
}

impl FaultyNetwork {
    /// Creates a network without faults.
    pub fn new(server: &Embedded) -> Self {
        Self(Arc::new(Inner {
            server: server.server().clone(),
            cuts: watch::Sender::new(0),
            held: watch::Sender::new(Vec::new()),
            watch_delay: Mutex::default(),
            faults: Mutex::default(),
            requests: Mutex::default(),
        }))
    }

    /// Returns a client whose requests go through this network.
    pub fn client(&self) -> Client {
        let network = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| network.clone().send(request));
        let config = Config::new(http::Uri::from_static("http://server.test"));
        Client::builder(config).build_over(service).expect("a client without credentials or TLS is valid")
    }

    /// Applies `fault` to later requests whose description contains `part`.
    pub fn fail(&self, part: &str, fault: Fault) {
        locked(&self.0.faults).push((Selection::Description(part.to_owned()), fault));
    }

    /// Applies `fault` to later requests for exactly this path, with any query.
    pub fn fail_path(&self, path: &str, fault: Fault) {
        locked(&self.0.faults).push((Selection::Path(path.to_owned()), fault));
    }

    /// Removes all faults. Held watches stay held.
    pub fn mend(&self) {
        locked(&self.0.faults).clear();
    }

    /// Breaks every open response with a connection reset.
    pub fn cut(&self) {
        self.0.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Delays each event of later and open watches by `delay`.
    pub fn delay_watches(&self, delay: Duration) {
        *locked(&self.0.watch_delay) = delay;
    }

    /// Holds back the events of watches whose description contains `part`, until
    /// [`release`](Self::release).
    pub fn hold(&self, part: &str) {
        self.0.held.send_modify(|held| held.push(part.to_owned()));
    }

    /// Delivers what [`hold`](Self::hold) has held back.
    pub fn release(&self) {
        self.0.held.send_replace(Vec::new());
    }

    /// Returns the descriptions of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        locked(&self.0.requests).clone()
    }

    /// Removes and returns the descriptions of the requests so far.
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.0.requests))
    }

    fn fault_for(&self, description: &str, path: &str) -> Option<Fault> {
        let selected = |selection: &Selection| match selection {
            Selection::Description(part) => description.contains(part.as_str()),
            Selection::Path(exact) => exact == path,
        };
        locked(&self.0.faults).iter().find(|(selection, _)| selected(selection)).map(|(_, fault)| fault.clone())
    }

    async fn send(self, request: Request<Body>) -> Result<FaultyResponse, BoxError> {
        let accept = request.headers().get(http::header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let uri = request.uri();
        let address = uri.path_and_query().map_or(uri.path(), http::uri::PathAndQuery::as_str);
        let description = format!("{} {address} {}", request.method(), accept.unwrap_or_default());
        let fault = self.fault_for(&description, uri.path());
        locked(&self.0.requests).push(description.clone());
        match fault {
            None => {}
            Some(Fault::Refused) => return Err(Error::from(ErrorKind::ConnectionRefused).into()),
            Some(Fault::Silence) => std::future::pending().await,
            Some(Fault::Status(code)) => return Ok(status(code)),
            Some(Fault::RetryAfter(seconds)) => {
                let mut response = status(429);
                response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
                return Ok(response);
            }
            Some(Fault::Body(body)) => return Ok(json(200, &body)),
            Some(Fault::Panic) => panic!("planted panic while sending {description}"),
        }
        let cuts = self.0.cuts.subscribe();
        let response = self.0.server.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
        let is_watch = description.contains("watch=true");
        Ok(response.map(|body| {
            let body = body.map_err(|never| match never {}).boxed_unsync();
            breakable(if is_watch { self.late(body, description) } else { body }, cuts)
        }))
    }

    /// Delays each frame by the delay of watches, counted from its arrival, and holds it back while
    /// the watch is held.
    fn late(self, body: UnsyncBoxBody<Bytes, BoxError>, description: String) -> UnsyncBoxBody<Bytes, BoxError> {
        let (sender, frames) = mpsc::unbounded_channel();
        let mut body = BodyStream::new(body);
        // A task reads ahead, so that the delay of one frame does not add to that of the next.
        tokio::spawn(async move {
            loop {
                let frame = tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    frame = body.next() => frame,
                };
                let Some(frame) = frame else { return };
                let _ = sender.send((Instant::now(), frame));
            }
        });
        let frames = futures::stream::unfold((frames, self, description), |(mut frames, network, description)| async {
            let (arrived, frame) = frames.recv().await?;
            let delay = *locked(&network.0.watch_delay);
            sleep_until(arrived + delay).await;
            let mut held = network.0.held.subscribe();
            let released = |held: &Vec<String>| !held.iter().any(|part| description.contains(part.as_str()));
            held.wait_for(released).await.map(drop).ok()?;
            drop(held);
            Some((frame, (frames, network, description)))
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

fn breakable(body: UnsyncBoxBody<Bytes, BoxError>, cuts: watch::Receiver<u64>) -> UnsyncBoxBody<Bytes, BoxError> {
    let frames = futures::stream::unfold(Some((BodyStream::new(body), cuts)), |state| async {
        let (mut frames, mut cuts) = state?;
        tokio::select! {
            biased;
            _ = cuts.changed() => Some((Err(Error::from(ErrorKind::ConnectionReset).into()), None)),
            frame = frames.next() => Some((frame?, Some((frames, cuts)))),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

fn status(code: u16) -> FaultyResponse {
    let reason = match code {
        403 => "Forbidden",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    json(
        code,
        &serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "planted failure", "reason": reason, "code": code,
        }),
    )
}

fn json(code: u16, body: &Value) -> FaultyResponse {
    let body = Full::from(body.to_string()).map_err(|never: Infallible| match never {}).boxed_unsync();
    let response = Response::builder().status(code).header("content-type", "application/json").body(body);
    response.expect("a response with a valid code and header")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
