//! What every request says of the client.

use http::header::{ACCEPT, HeaderValue, USER_AGENT};
use http::{HeaderMap, Request};
use kube_client::client::Body;
use tower::{BoxError, Service, ServiceExt};

use super::{Answer, AnswerBody, service};

/// Adds the user agent, and asks for JSON unless the request asks for something.
#[derive(Clone)]
pub(crate) struct Headers<S> {
    pub(crate) inner: S,
    pub(crate) user_agent: HeaderValue,
}

impl<S> Headers<S>
where
    S: Service<Request<Body>, Response = http::Response<AnswerBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn answer(self, mut request: Request<Body>) -> Answer {
        default(request.headers_mut(), USER_AGENT, self.user_agent);
        default(request.headers_mut(), ACCEPT, HeaderValue::from_static("application/json"));
        self.inner.oneshot(request).await
    }
}

fn default(headers: &mut HeaderMap, name: http::HeaderName, value: HeaderValue) {
    headers.entry(name).or_insert(value);
}

service!(Headers);
