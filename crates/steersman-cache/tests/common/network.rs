//! The way to an embedded server, on which everything can go wrong.

use std::convert::Infallible;
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use kube_client::client::Body;
use steersman_client::{Client, Config};
use steersman_testing::Embedded;
use tokio::sync::watch;
use tower::{BoxError, ServiceExt};

/// What happens to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Nobody listens.
    Refused,
    /// Nobody answers.
    Silence,
    /// The server answers with this code.
    Status(u16),
    /// The client panics as it sends the request.
    Panic,
}

#[derive(Clone)]
pub(crate) struct Network(Arc<Inner>);

struct Inner {
    /// Changes when all connections are to break.
    cuts: watch::Sender<u64>,
    faults: Mutex<Vec<(String, Fault)>>,
    path_faults: Mutex<Vec<(String, Fault)>>,
    requests: Mutex<Vec<String>>,
}

type ServerBody = UnsyncBoxBody<Bytes, Infallible>;
type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

impl Network {
    /// A client of the server by way of this network.
    pub(crate) fn new(server: &Embedded) -> (Self, Client) {
        let inner = Inner {
            cuts: watch::Sender::new(0),
            faults: Mutex::default(),
            path_faults: Mutex::default(),
            requests: Mutex::default(),
        };
        let network = Self(Arc::new(inner));
        let (server, way) = (server.server().clone(), network.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, way) = (server.clone(), way.clone());
            async move { way.send(server, request).await }
        });
        let config = Config::new(http::Uri::from_static("http://server.test"));
        (network, Client::builder(config).build_over(service).unwrap())
    }

    /// What happens from now on to requests with this in their address.
    pub(crate) fn fail(&self, part: &str, fault: Fault) {
        locked(&self.0.faults).push((part.to_owned(), fault));
    }

    /// What happens from now on to requests for exactly this path.
    pub(crate) fn fail_path(&self, path: &str, fault: Fault) {
        locked(&self.0.path_faults).push((path.to_owned(), fault));
    }

    /// All is well from now on.
    pub(crate) fn mend(&self) {
        locked(&self.0.faults).clear();
        locked(&self.0.path_faults).clear();
    }

    /// Breaks every connection there is.
    pub(crate) fn cut(&self) {
        self.0.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// The requests so far, with their addresses.
    pub(crate) fn requests(&self) -> Vec<String> {
        locked(&self.0.requests).clone()
    }

    async fn send(
        self,
        server: impl tower::Service<Request<Body>, Response = Response<ServerBody>, Error = Infallible>,
        request: Request<Body>,
    ) -> Result<Answer, BoxError> {
        let address = request.uri().to_string();
        let path = request.uri().path();
        let fault = locked(&self.0.faults).iter().find(|(part, _)| address.contains(part)).map(|(_, fault)| *fault);
        let fault =
            fault.or_else(|| locked(&self.0.path_faults).iter().find(|(of, _)| of == path).map(|(_, fault)| *fault));
        locked(&self.0.requests).push(format!("{} {address}", request.method()));
        match fault {
            None => {}
            Some(Fault::Refused) => return Err(Error::from(ErrorKind::ConnectionRefused).into()),
            Some(Fault::Silence) => std::future::pending().await,
            Some(Fault::Status(code)) => return Ok(status(code)),
            Some(Fault::Panic) => panic!("the wire melted"),
        }
        let cuts = self.0.cuts.subscribe();
        let answer = server.oneshot(request).await.unwrap_or_else(|never| match never {});
        Ok(answer.map(|body| breakable(body, cuts)))
    }
}

fn breakable(body: ServerBody, cuts: watch::Receiver<u64>) -> UnsyncBoxBody<Bytes, BoxError> {
    let frames = futures::stream::unfold(Some((BodyStream::new(body), cuts)), |state| async {
        let (mut frames, mut cuts) = state?;
        tokio::select! {
            biased;
            _ = cuts.changed() => Some((Err(Error::from(ErrorKind::ConnectionReset).into()), None)),
            frame = frames.next() => {
                let frame: Result<_, BoxError> = frame?.map_err(Into::into);
                Some((frame, Some((frames, cuts))))
            }
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

fn status(code: u16) -> Answer {
    let reason = if code == 403 { "Forbidden" } else { "InternalError" };
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "this is not for you", "reason": reason, "code": code,
    });
    let body = Full::from(body.to_string()).map_err(|never: Infallible| match never {}).boxed_unsync();
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
