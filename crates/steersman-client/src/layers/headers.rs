//! Headers that every request has.

use http::header::{ACCEPT, HeaderValue, USER_AGENT};
use http::{HeaderMap, Request};
use kube_client::client::Body;
use tower::{BoxError, Service, ServiceExt};

use super::{ResponseBody, ResponseResult, service};

/// Adds the user agent, and accepts JSON unless the request has an `Accept` header.
#[derive(Clone)]
pub(crate) struct DefaultHeaders<S> {
    pub(crate) inner: S,
    pub(crate) user_agent: HeaderValue,
}

impl<S> DefaultHeaders<S>
where
    S: Service<Request<Body>, Response = http::Response<ResponseBody>, Error = BoxError> + Send + 'static,
    S::Future: Send,
{
    async fn handle(self, mut request: Request<Body>) -> ResponseResult {
        default(request.headers_mut(), USER_AGENT, self.user_agent);
        default(request.headers_mut(), ACCEPT, HeaderValue::from_static("application/json"));
        self.inner.oneshot(request).await
    }
}

fn default(headers: &mut HeaderMap, name: http::HeaderName, value: HeaderValue) {
    headers.entry(name).or_insert(value);
}

service!(DefaultHeaders);
