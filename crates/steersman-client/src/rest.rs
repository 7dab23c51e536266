//! Requests with any path and verb.

use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube_client::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::requests::encode;
use crate::error::{RequestInfo, TimeoutError};
use crate::layers::timeouts::Deadline;
use crate::layers::warning::Warning;
use crate::response::{decode, encoding_of, to_json, transport_error};
use crate::{Client, Error};

/// The longest timeout that the server can read: 2^63 nanoseconds.
const SERVER_SECONDS_MAX: u64 = i64::MAX as u64 / 1_000_000_000;

/// All but the unreserved characters, and the colon of names such as `system:node`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Encodes one segment of a path, or one name or value of a query.
fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

impl Client {
    /// Requests with any path and verb.
    pub fn rest(&self) -> RestClient {
        RestClient { client: self.clone(), base: String::new() }
    }

    /// Requests for the resources of one version of a group. The core group's name is empty.
    pub fn rest_of(&self, group: &str, version: &str) -> RestClient {
        let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        RestClient { client: self.clone(), base }
    }
}

/// Builds requests with any path and verb, as Go's `rest.Interface` does.
///
/// ```no_run
/// # async fn example(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
/// let pods = client.rest_of("", "v1");
/// let log = pods.get().namespace("default").resource("pods").name("web").subresource("log");
/// let response = log.param("tailLines", "5").send().await?;
/// println!("{}", String::from_utf8_lossy(response.body()));
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

    /// A GET: reads.
    pub fn get(&self) -> RestRequest {
        self.verb(Method::GET)
    }

    /// A POST: creates.
    pub fn post(&self) -> RestRequest {
        self.verb(Method::POST)
    }

    /// A PUT: updates.
    pub fn put(&self) -> RestRequest {
        self.verb(Method::PUT)
    }

    /// A PATCH. The content type chooses the kind of patch: see [`RestRequest::body`].
    pub fn patch(&self) -> RestRequest {
        self.verb(Method::PATCH)
    }

    /// A DELETE.
    pub fn delete(&self) -> RestRequest {
        self.verb(Method::DELETE)
    }
}

/// A request that is being built.
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
    /// Leaves out the body and the headers, which may hold secrets.
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
    /// The whole path, instead of namespace, resource, name and subresources.
    pub fn abs_path(mut self, path: impl Into<String>) -> Self {
        self.absolute = Some(path.into());
        self
    }

    /// The namespace. An empty one is an error for a create and for a named object; nothing is
    /// sent.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The resource: its plural name, in lower case.
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// The name of the object.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// A subresource. A second call adds another path segment.
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresources.push(subresource.into());
        self
    }

    /// A query parameter.
    pub fn param(mut self, name: &str, value: &str) -> Self {
        if !self.query.is_empty() {
            self.query.push('&');
        }
        self.query.push_str(&percent_encode(name));
        self.query.push('=');
        self.query.push_str(&percent_encode(value));
        self
    }

    /// A header. Replaces the client's own value.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// How long the request may take, for the client and for the server. It replaces
    /// [`Timeouts::response`](crate::Timeouts::response) and covers all attempts and the waits
    /// before and between them.
    ///
    /// A wait that does not fit is not begun. If the server's `Retry-After` is too long, the
    /// request ends at once with the server's response. If the client's rate limit is too slow, it
    /// ends with [`TimeoutError::RateLimit`](crate::TimeoutError). [`send`](Self::send) reads the
    /// whole response within the timeout, [`stream`](Self::stream) its head.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self.param("timeout", &format!("{}s", timeout.as_secs().clamp(1, SERVER_SECONDS_MAX)))
    }

    /// The body and its content type.
    pub fn body(mut self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.body = Ok(body.into());
        self
    }

    /// The body: `value` as JSON.
    pub fn json<T: Serialize>(self, value: &T) -> Self {
        match encode(value) {
            Ok(body) => self.body("application/json", body),
            Err(error) => Self { body: Err(error), ..self },
        }
    }

    fn path(&self) -> Result<String, Error> {
        let refuse = |problem: String| Err(Error::InvalidRequest(problem));
        if let Some(path) = &self.absolute {
            return if path.starts_with('/') {
                Ok(path.clone())
            } else {
                refuse(format!("invalid path {path:?}: expected a leading /"))
            };
        }
        if let Some(namespace) = &self.namespace
            && namespace.is_empty()
        {
            let named =
                self.name.is_some() && [Method::GET, Method::PUT, Method::PATCH, Method::DELETE].contains(&self.method);
            if named {
                return refuse("invalid empty namespace: a request for an object by name needs one".to_owned());
            }
            if self.method == Method::POST {
                return refuse("invalid empty namespace: a create needs one".to_owned());
            }
        }
        let mut path = self.base.clone();
        let mut push = |what: &str, segment: &str| -> Result<(), Error> {
            if let Some(problem) = steersman_wire::is_path_segment_name(segment).first() {
                return Err(Error::InvalidRequest(format!("invalid {what} {segment:?}: {problem}")));
            }
            if segment.is_empty() {
                return Err(Error::InvalidRequest(format!("invalid empty {what}")));
            }
            path.push('/');
            path.push_str(&percent_encode(segment));
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
                return refuse("a subresource needs the name of its object: call name()".to_owned());
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
        let mut request = request.map_err(|error| Error::InvalidRequest(format!("invalid path {uri:?}: {error}")))?;
        *request.headers_mut() = std::mem::take(&mut self.headers);
        if let Some(timeout) = self.timeout {
            request.extensions_mut().insert(Deadline::new(timeout));
        }
        Ok(request)
    }

    /// Sends the request and collects the response. A refusal is an error.
    pub async fn send(mut self) -> Result<RestResponse, Error> {
        let request = self.request()?;
        let (info, deadline) = (self.client.request_info(&request), Deadline::of(&request));
        let response = async {
            let response = self.client.send_ok(request).await?;
            let (parts, body) = response.into_parts();
            let body = self.client.body_limit().collect(&info, body).await?;
            Ok((parts, body))
        };
        let (parts, body) = match deadline {
            None => response.await?,
            Some(Deadline { limit, at }) => tokio::time::timeout_at(at, response).await.unwrap_or_else(|_| {
                Err(Error::Timeout { request: info.clone(), timeout: TimeoutError::Request(limit) })
            })?,
        };
        Ok(RestResponse { request: info, status: parts.status, headers: parts.headers, body })
    }

    /// Sends the request and decodes the response.
    pub async fn send_for<T: DeserializeOwned>(self) -> Result<T, Error> {
        self.send().await?.decode()
    }

    /// Sends the request and returns the body as it arrives. A refusal is an error.
    pub async fn stream(mut self) -> Result<impl Stream<Item = Result<Bytes, Error>> + Send + use<>, Error> {
        let request = self.request()?;
        let info = self.client.request_info(&request);
        let response = self.client.send_ok(request).await?;
        let stream = response.into_body().into_data_stream();
        Ok(futures::TryStreamExt::map_err(stream, move |error| transport_error(info.clone(), error)))
    }
}

/// The collected response of a successful request.
#[derive(Clone)]
pub struct RestResponse {
    request: RequestInfo,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl std::fmt::Debug for RestResponse {
    /// Leaves out the body, which may be a Secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestResponse")
            .field("request", &self.request)
            .field("status", &self.status)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl RestResponse {
    /// The status code.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The content type.
    pub fn content_type(&self) -> Option<&str> {
        self.headers.get(CONTENT_TYPE)?.to_str().ok()
    }

    /// The server's warnings.
    pub fn warnings(&self) -> Vec<Warning> {
        Warning::of(&self.headers)
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body, decoded.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let json = to_json(&self.request, encoding_of(&self.headers), self.body.clone())?;
        decode(&self.request, &json)
    }
}

#[cfg(test)]
mod tests {
    use super::percent_encode;

    #[test]
    fn text_is_one_segment_of_a_path() {
        assert_eq!(percent_encode("a/b c=ä"), "a%2Fb%20c%3D%C3%A4");
        assert_eq!(percent_encode("system:node-1.a_b~c"), "system:node-1.a_b~c");
    }
}
