use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use kube_client::Client;
use kube_client::client::Body;
use serde_json::{Map, Value};

use super::case::Needs;

/// The headers of an answer that are compared. Others are about the connection or for operators.
const HEADERS: [&str; 4] = ["content-type", "warning", "retry-after", "allow"];
/// How long a real server on a busy machine may take. Its namespace controller looks again only
/// every eight seconds, and later when there are many namespaces.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that cases run on: whatever a client can be made for, with a socket or without.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// How long a request may take, a watch to bring its events, and the server to get where an
    /// `until` step waits for it.
    pub(crate) patience: Duration,
    client: Client,
    /// Sends requests that have a token of their own. It has no other credential.
    bare: Client,
    compact: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// The servers for all cases. They may be one and the same if it has its controllers built in.
pub(crate) struct Servers {
    /// Nothing changes by itself here.
    pub(crate) plain: Target,
    /// Garbage is collected and namespaces are emptied.
    pub(crate) controllers: Target,
    /// Old versions are forgotten, at the latest while a case waits for something.
    pub(crate) compacting: Target,
    /// RBAC decides on requests. Nothing else changes by itself here.
    pub(crate) authorizing: Target,
}

impl Servers {
    pub(crate) fn of(&self, needs: Needs) -> &Target {
        match needs {
            Needs::Nothing => &self.plain,
            Needs::Controllers => &self.controllers,
            Needs::Compaction => &self.compacting,
            Needs::Authorization => &self.authorizing,
        }
    }
}

/// What came back: the head, and a body that may go on for as long as its watch.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    body: Body,
}

impl Target {
    pub(crate) fn new(name: &'static str, client: Client) -> Self {
        Self { name, patience: PATIENCE, bare: client.clone(), client, compact: None }
    }

    /// Gives the server a client without a credential, for requests that have a token.
    #[must_use]
    pub(crate) fn with_bare_client(mut self, bare: Client) -> Self {
        self.bare = bare;
        self
    }

    /// For a server that responds quickly: a case that fails is reported sooner.
    #[must_use]
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Gives the server a way to forget its old versions now. Without one it is expected to do so
    /// by itself.
    #[must_use]
    pub(crate) fn with_compaction(mut self, compact: impl Fn() + Send + Sync + 'static) -> Self {
        self.compact = Some(Arc::new(compact));
        self
    }

    pub(crate) fn compact(&self) {
        if let Some(compact) = &self.compact {
            compact();
        }
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(&self, request: Request<Vec<u8>>) -> Result<Answer, String> {
        let client = if request.headers().contains_key(AUTHORIZATION) { &self.bare } else { &self.client };
        let answer = tokio::time::timeout(self.patience, client.send(request.map(Body::from))).await;
        let answer =
            answer.map_err(|_| format!("no answer in {:?}", self.patience))?.map_err(|error| error.to_string())?;
        let (head, body) = answer.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }
}

impl Answer {
    /// The compared headers by name, and `more` of them. One that comes several times is an array.
    pub(crate) fn headers(&self, more: &[&str]) -> Value {
        let mut headers = Map::new();
        for name in HEADERS.iter().chain(more) {
            let mut values: Vec<_> = self
                .headers
                .get_all(*name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into())
                .collect();
            match values.len() {
                0 => continue,
                1 => headers.insert((*name).to_owned(), values.remove(0)),
                _ => headers.insert((*name).to_owned(), Value::Array(values)),
            };
        }
        headers.into()
    }

    /// The whole body: JSON where it is JSON, else text. And whether it is JSON on several lines.
    pub(crate) async fn body(self) -> Result<(Value, bool), String> {
        let bytes = self.bytes().await?;
        let value = serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into());
        Ok((value, bytes.starts_with(b"{\n")))
    }

    /// The whole body as it was sent.
    pub(crate) async fn bytes(self) -> Result<Vec<u8>, String> {
        let bytes = tokio::time::timeout(PATIENCE, self.body.collect_bytes()).await;
        let bytes = bytes.map_err(|_| format!("a body without end after {PATIENCE:?}"))?;
        bytes.map(Into::into).map_err(|error| error.to_string())
    }

    /// The body as the events of a watch.
    pub(crate) fn events(self) -> Events {
        Events { body: self.body, received: Vec::new() }
    }
}

/// The events of a watch, one a line.
pub(crate) struct Events {
    body: Body,
    received: Vec<u8>,
}

impl Events {
    /// The next event, or `None` at the end of the watch.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, String> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                return serde_json::from_str(&line).map(Some).map_err(|error| format!("{error} in the event {line}"));
            }
            match self.body.frame().await {
                Some(frame) => {
                    let frame = frame.map_err(|error| error.to_string())?;
                    self.received.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                }
                None if self.received.is_empty() => return Ok(None),
                None => return Err(format!("half an event: {}", String::from_utf8_lossy(&self.received))),
            }
        }
    }
}
