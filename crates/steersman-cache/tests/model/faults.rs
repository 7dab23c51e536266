//! A faulty connection to the server. It needs paused time: its tests have
//! `start_paused = true`.
//!
//! Not `FaultyNetwork`: the faults here are chosen at random from a seed, so that a failed run can
//! be repeated, and they break, delay and split the bytes of a response.

use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyDataStream, BodyExt, Full, StreamBody};
use kube_client::client::Body;
use serde_json::json;
use steersman_testing::Embedded;
use tower::{BoxError, ServiceExt};

use crate::random::Random;
use crate::script::Script;

type FaultyBody = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;

/// Injects faults. Clones share their state.
#[derive(Clone)]
pub(crate) struct Faults {
    state: Arc<Mutex<State>>,
    script: Script,
}

struct State {
    random: Random,
    /// Percentage of requests that fail.
    percent: usize,
    /// Whether the server does not support streaming lists.
    old_server: bool,
}

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Purpose {
    List,
    Watch,
    StreamingList,
}

/// The outcome of a request.
#[derive(Debug)]
enum Fate {
    /// The connection is refused.
    Refused,
    /// The connection breaks before the request arrives.
    LostBefore,
    /// The connection breaks after the request has arrived.
    LostAfter,
    /// No response comes.
    Unanswered,
    /// An error response.
    Status { code: u16, reason: &'static str, retry_after: Option<usize> },
    /// A part of the server's response.
    Answer { bytes: usize, then: Then },
    /// The server's response, each chunk after up to this delay.
    Slow(Duration),
    /// The server's response, in chunks of up to this number of bytes.
    Pieces(usize),
}

impl Fate {
    fn name(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::LostBefore => "lost before",
            Self::LostAfter => "lost after",
            Self::Unanswered => "unanswered",
            Self::Status { code: 400, .. } => "400",
            Self::Status { code: 410, .. } => "410",
            Self::Status { code: 429, retry_after: None, .. } => "429",
            Self::Status { code: 429, .. } => "429 with Retry-After",
            Self::Status { code: 500, .. } => "500",
            Self::Status { .. } => "503",
            Self::Answer { then: Then::Lost, .. } => "lost in the middle",
            Self::Answer { then: Then::End, .. } => "ended in the middle",
            Self::Answer { then: Then::Silence, .. } => "silence",
            Self::Answer { then: Then::Pause(_), .. } => "pause",
            Self::Answer { then: Then::Expired, .. } => "410 in a watch",
            Self::Slow(_) => "slow",
            Self::Pieces(_) => "in pieces",
        }
    }
}

/// What follows the beginning of a response.
#[derive(Debug, Clone, Copy)]
enum Then {
    /// The connection breaks.
    Lost,
    /// The body ends as if it were complete.
    End,
    /// Nothing more comes.
    Silence,
    /// A pause of this length, then the rest.
    Pause(Duration),
    /// After an event, an ERROR event that the version has expired.
    Expired,
}

impl Faults {
    pub(crate) fn new(seed: u64, old_server: bool, script: Script) -> Self {
        let state = State { random: Random::new(seed), percent: 0, old_server };
        Self { state: Arc::new(Mutex::new(state)), script }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the percentage of requests that fail.
    pub(crate) fn set_percent(&self, percent: usize) {
        self.state().percent = percent;
    }

    pub(crate) fn percent(&self) -> usize {
        self.state().percent
    }

    /// Responds to a request, or lets it fail.
    pub(crate) async fn answer(
        self,
        server: Embedded,
        request: Request<Body>,
    ) -> Result<Response<FaultyBody>, BoxError> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let purpose = match query.contains("watch=true") {
            true if query.contains("sendInitialEvents=true") => Purpose::StreamingList,
            true => Purpose::Watch,
            false => Purpose::List,
        };
        let fate = self.state().fate(purpose);
        if let Some(fate) = &fate {
            self.script.count(fate.name(), 1);
        }
        self.script.note(format_args!("  {purpose:?} {}?{query}: {fate:?}", request.uri().path()));
        let server = server.server().clone();
        let whole = |response: Response<_>| response.map(|body: FaultyBody| body);
        let answer = async move {
            let response = server.oneshot(request).await?;
            Ok::<_, BoxError>(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        };
        let Some(fate) = fate else { return answer.await.map(whole) };
        match fate {
            Fate::Refused => Err(Error::from(ErrorKind::ConnectionRefused).into()),
            Fate::LostBefore => Err(Error::from(ErrorKind::ConnectionReset).into()),
            Fate::LostAfter => {
                answer.await?;
                Err(Error::from(ErrorKind::UnexpectedEof).into())
            }
            Fate::Unanswered => std::future::pending().await,
            Fate::Status { code, reason, retry_after } => Ok(status(code, reason, retry_after)),
            Fate::Answer { bytes, then } => Ok(answer.await?.map(|body| broken(body.into_data_stream(), bytes, then))),
            Fate::Slow(longest) => Ok(answer.await?.map(|body| self.slow(body.into_data_stream(), longest))),
            Fate::Pieces(longest) => Ok(answer.await?.map(|body| self.pieces(body.into_data_stream(), longest))),
        }
    }

    fn slow(self, body: BodyDataStream<FaultyBody>, longest: Duration) -> FaultyBody {
        boxed(body.then(move |chunk| {
            let millis = self.state().random.below(longest.as_millis() as usize);
            async move {
                tokio::time::sleep(Duration::from_millis(millis as u64)).await;
                chunk
            }
        }))
    }

    fn pieces(self, body: BodyDataStream<FaultyBody>, longest: usize) -> FaultyBody {
        boxed(body.flat_map(move |chunk| {
            let mut pieces = Vec::new();
            match chunk {
                Err(error) => pieces.push(Err(error)),
                Ok(mut chunk) => {
                    let mut state = self.state();
                    while !chunk.is_empty() {
                        let length = (1 + state.random.below(longest)).min(chunk.len());
                        pieces.push(Ok(chunk.split_to(length)));
                    }
                }
            }
            stream::iter(pieces)
        }))
    }
}

impl State {
    fn fate(&mut self, purpose: Purpose) -> Option<Fate> {
        if purpose == Purpose::StreamingList && self.old_server {
            return Some(Fate::Status { code: 400, reason: "BadRequest", retry_after: None });
        }
        let random = &mut self.random;
        if random.below(100) >= self.percent {
            // Not a fault.
            return random.chance(40).then(|| Fate::Pieces(1 + random.below(400)));
        }
        let status = |code, reason, retry_after| Fate::Status { code, reason, retry_after };
        Some(match random.below(20) {
            0 => Fate::Refused,
            1 => Fate::LostBefore,
            2 => Fate::LostAfter,
            3 => Fate::Unanswered,
            4 => status(429, "TooManyRequests", None),
            5 => status(429, "TooManyRequests", Some(1 + random.below(20))),
            6 => status(410, "Expired", None),
            7 => status(500, "InternalError", None),
            8 => status(503, "ServiceUnavailable", Some(1)),
            9 if purpose == Purpose::StreamingList => status(400, "BadRequest", None),
            10 => Fate::Slow(Duration::from_millis(100 + random.below(20_000) as u64)),
            _ => {
                let bytes = random.below(*random.clone().pick(&[1, 300, 1500, 5000]));
                let then = match random.below(8) {
                    0 | 1 => Then::Lost,
                    2 => Then::Silence,
                    3 => Then::Pause(Duration::from_millis(random.below(200_000) as u64)),
                    4 | 5 if purpose != Purpose::List => Then::Expired,
                    _ => Then::End,
                };
                Fate::Answer { bytes, then }
            }
        })
    }
}

fn boxed(chunks: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static) -> FaultyBody {
    StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data))).boxed_unsync()
}

/// The first `bytes` of a body, then `rest`.
fn broken(body: BodyDataStream<FaultyBody>, bytes: usize, then: Then) -> FaultyBody {
    let rest: FaultyBody = match then {
        Then::Lost => boxed(stream::iter([Err(Error::from(ErrorKind::ConnectionReset).into())])),
        Then::End => boxed(stream::empty()),
        Then::Silence => boxed(stream::pending()),
        Then::Pause(_) => boxed(stream::empty()),
        Then::Expired => {
            let event = json!({"type": "ERROR", "object": status_object(410, "Expired")});
            boxed(stream::iter([Ok(Bytes::from(format!("{event}\n")))]))
        }
    };
    let whole_events = matches!(then, Then::Expired);
    boxed(stream::unfold(
        (body, rest.into_data_stream(), bytes, false),
        move |(mut body, mut rest, mut left, over)| async move {
            if over {
                let next = match then {
                    Then::Pause(_) => body.next().await,
                    _ => rest.next().await,
                };
                return next.map(|next| (next, (body, rest, left, true)));
            }
            let chunk = match body.next().await? {
                Ok(chunk) => chunk,
                error => return Some((error, (body, rest, left, false))),
            };
            if chunk.len() < left {
                left -= chunk.len();
                return Some((Ok(chunk), (body, rest, left, false)));
            }
            let mut first = chunk;
            let second = first.split_off(if whole_events { first.len() } else { left });
            if let Then::Pause(time) = then {
                // The pause splits the current chunk.
                let after = stream::once(async move {
                    tokio::time::sleep(time).await;
                    Ok(second)
                });
                body = boxed(after.chain(body)).into_data_stream();
            }
            Some((Ok(first), (body, rest, 0, true)))
        },
    ))
}

fn status_object(code: u16, reason: &str) -> serde_json::Value {
    let message = format!("injected by the model: {reason}");
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}

fn status(code: u16, reason: &str, retry_after: Option<usize>) -> Response<FaultyBody> {
    let body = Full::from(status_object(code, reason).to_string()).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::builder().status(code).header(http::header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        answer = answer.header(http::header::RETRY_AFTER, seconds);
    }
    answer.body(body).expect("the parts of this answer are valid")
}
