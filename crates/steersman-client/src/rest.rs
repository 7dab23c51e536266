//! Any path and verb.

use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube_client::client::Body;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{as_json, decode, failure};
use crate::encoding::encoding_of;
use crate::error::{Asked, TimeoutError};
use crate::layers::timeouts::Deadline;
use crate::text::percent_encoded;
use crate::warning::Warning;
use crate::{Client, Error};

/// The longest timeout that the server can read: 2^63 nanoseconds.
const SERVER_SECONDS_MAX: u64 = i64::MAX as u64 / 1_000_000_000;

impl Client {
    /// Requests of any path and verb.
    pub fn rest(&self) -> RestClient {
        RestClient { client: self.clone(), base: String::new() }
    }

    /// Requests to the resources of one version of a group; the core group's name is empty.
    pub fn rest_of(&self, group: &str, version: &str) -> RestClient {
        let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        RestClient { client: self.clone(), base }
    }
}

/// Builds requests of any path and verb: what Go's `rest.Interface` is.
///
/// ```no_run
/// # async fn example(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
/// let pods = client.rest_of("", "v1");
/// let answer = pods.get().namespace("default").resource("pods").name("web").subresource("log").param("tailLines", "5").send().await?;
/// println!("{}", String::from_utf8_lossy(answer.body()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RestClient {
    client: Client,
    base: String,
}

impl RestClient {
    /// A request with any method.
    pub fn verb(&self, method: Method) -> RestRequest {
        RestRequest {
            client: self.client.clone(),
            method,
            base: self.base.clone(),
            absolute: None,
            namespace: None,
            resource: None,
            name: None,
            subresources: Vec::new(),
            query: String::new(),
            headers: HeaderMap::new(),
            timeout: None,
            body: Ok(Bytes::new()),
        }
    }

    /// A read.
    pub fn get(&self) -> RestRequest {
        self.verb(Method::GET)
    }

    /// A create.
    pub fn post(&self) -> RestRequest {
        self.verb(Method::POST)
    }

    /// An update.
    pub fn put(&self) -> RestRequest {
        self.verb(Method::PUT)
    }

    /// A patch. The content type says of which sort: see [`RestRequest::body`].
    pub fn patch(&self) -> RestRequest {
        self.verb(Method::PATCH)
    }

    /// A delete.
    pub fn delete(&self) -> RestRequest {
        self.verb(Method::DELETE)
    }
}

/// A request in the making.
#[must_use = "a request does nothing until it is sent"]
pub struct RestRequest {
    client: Client,
    method: Method,
    base: String,
    absolute: Option<String>,
    namespace: Option<String>,
    resource: Option<String>,
    name: Option<String>,
    subresources: Vec<String>,
    query: String,
    headers: HeaderMap,
    timeout: Option<Duration>,
    body: Result<Bytes, Error>,
}

impl std::fmt::Debug for RestRequest {
    /// Without the body and the headers, which may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestRequest")
            .field("method", &self.method)
            .field("path", &self.path())
            .field("query", &self.query)
            .field("timeout", &self.timeout)
            .field("bytes", &self.body.as_ref().map_or(0, Bytes::len))
            .finish_non_exhaustive()
    }
}

impl RestRequest {
    /// The whole path, instead of one made of its parts.
    pub fn abs_path(mut self, path: impl Into<String>) -> Self {
        self.absolute = Some(path.into());
        self
    }

    /// In that namespace. An empty one is refused for a create and for a named object, before anything is sent.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Of that resource: its plural name, in lower case.
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// The object of that name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// That part of the object, and of that part another, if given again.
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresources.push(subresource.into());
        self
    }

    /// A parameter of the query.
    pub fn param(mut self, name: &str, value: &str) -> Self {
        if !self.query.is_empty() {
            self.query.push('&');
        }
        self.query.push_str(&percent_encoded(name));
        self.query.push('=');
        self.query.push_str(&percent_encoded(value));
        self
    }

    /// A header, instead of what the client would send.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// How long the request may take, here and at the server, instead of [`Timeouts::answer`](crate::Timeouts::answer) for
    /// each attempt. It covers all attempts and the waits before and between them.
    ///
    /// A wait that would not fit is not begun. If the server's `Retry-After` is too long, the request ends at once with
    /// the server's answer; if the client's rate limit is too slow, with [`TimeoutError::RateLimit`](crate::TimeoutError).
    /// [`send`](Self::send) reads the whole answer within that time, [`stream`](Self::stream) its head.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self.param("timeout", &format!("{}s", timeout.as_secs().clamp(1, SERVER_SECONDS_MAX)))
    }

    /// What is sent, and its media type.
    pub fn body(mut self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.body = Ok(body.into());
        self
    }

    /// Sends `value` as JSON.
    pub fn json<T: Serialize>(self, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => self.body("application/json", body),
            Err(error) => {
                let problem = format!("a {} cannot be sent as JSON: {error}", std::any::type_name::<T>());
                Self { body: Err(Error::InvalidRequest(problem)), ..self }
            }
        }
    }

    fn path(&self) -> Result<String, Error> {
        let refuse = |problem: String| Err(Error::InvalidRequest(problem));
        if let Some(path) = &self.absolute {
            return if path.starts_with('/') {
                Ok(path.clone())
            } else {
                refuse(format!("the path {path:?} has no / in front"))
            };
        }
        if let Some(namespace) = &self.namespace
            && namespace.is_empty()
        {
            let named =
                self.name.is_some() && [Method::GET, Method::PUT, Method::PATCH, Method::DELETE].contains(&self.method);
            if named {
                return refuse("an empty namespace may not be set when an object is asked for by name".to_owned());
            }
            if self.method == Method::POST {
                return refuse("an empty namespace may not be set when an object is created".to_owned());
            }
        }
        let mut path = self.base.clone();
        let mut push = |what: &str, segment: &str| -> Result<(), Error> {
            if let Some(problem) = steersman_wire::is_path_segment_name(segment).first() {
                return Err(Error::InvalidRequest(format!("invalid {what} {segment:?}: {problem}")));
            }
            if segment.is_empty() {
                return Err(Error::InvalidRequest(format!("the {what} may not be empty")));
            }
            path.push('/');
            path.push_str(&percent_encoded(segment));
            Ok(())
        };
        if let Some(namespace) = self.namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
            push("prefix", "namespaces")?;
            push("namespace", namespace)?;
        }
        if let Some(resource) = &self.resource {
            push("resource", resource)?;
        }
        match &self.name {
            Some(name) => push("name", name)?,
            None if !self.subresources.is_empty() => {
                return refuse("a subresource needs the name of its object".to_owned());
            }
            None => {}
        }
        self.subresources.iter().try_for_each(|subresource| push("subresource", subresource))?;
        Ok(if path.is_empty() { "/".to_owned() } else { path })
    }

    fn request(&mut self) -> Result<Request<Body>, Error> {
        let mut uri = self.path()?;
        if !self.query.is_empty() {
            uri.push(if uri.contains('?') { '&' } else { '?' });
            uri.push_str(&self.query);
        }
        let body = std::mem::replace(&mut self.body, Ok(Bytes::new()))?;
        let request = Request::builder().method(self.method.clone()).uri(&uri).body(Body::from(body));
        let mut request = request.map_err(|error| Error::InvalidRequest(format!("{uri:?} is not a path: {error}")))?;
        *request.headers_mut() = std::mem::take(&mut self.headers);
        if let Some(timeout) = self.timeout {
            request.extensions_mut().insert(Deadline::new(timeout));
        }
        Ok(request)
    }

    /// Sends it and reads the whole answer. A refusal is an error.
    pub async fn send(mut self) -> Result<RestAnswer, Error> {
        let request = self.request()?;
        let (asked, deadline) = (self.client.asked(&request), Deadline::of(&request));
        let answer = async {
            let response = self.client.send_ok(request).await?;
            let (parts, body) = response.into_parts();
            let body = self.client.collect(&asked, body).await?;
            Ok((parts, body))
        };
        let (parts, body) = match deadline {
            None => answer.await?,
            Some(Deadline { limit, at }) => tokio::time::timeout_at(at, answer).await.unwrap_or_else(|_| {
                Err(Error::Timeout { asked: asked.clone(), timeout: TimeoutError::Request(limit) })
            })?,
        };
        Ok(RestAnswer { asked, status: parts.status, headers: parts.headers, body })
    }

    /// Sends it and decodes the answer.
    pub async fn send_for<T: DeserializeOwned>(self) -> Result<T, Error> {
        self.send().await?.decode()
    }

    /// Sends it and returns the body as it arrives. A refusal is an error.
    pub async fn stream(mut self) -> Result<impl Stream<Item = Result<Bytes, Error>> + Send + use<>, Error> {
        let request = self.request()?;
        let asked = self.client.asked(&request);
        let response = self.client.send_ok(request).await?;
        let stream = response.into_body().into_data_stream();
        Ok(futures::TryStreamExt::map_err(stream, move |error| failure(asked.clone(), error)))
    }
}

/// The whole answer to a request that succeeded.
#[derive(Clone)]
pub struct RestAnswer {
    asked: Asked,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl std::fmt::Debug for RestAnswer {
    /// Without the body, which may be a Secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestAnswer")
            .field("asked", &self.asked)
            .field("status", &self.status)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl RestAnswer {
    /// The code.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The media type.
    pub fn content_type(&self) -> Option<&str> {
        self.headers.get(CONTENT_TYPE)?.to_str().ok()
    }

    /// What the server warned of.
    pub fn warnings(&self) -> Vec<Warning> {
        Warning::of(&self.headers)
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body, decoded.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let json = as_json(&self.asked, encoding_of(&self.headers), self.body.clone())?;
        decode(&self.asked, &json)
    }
}
