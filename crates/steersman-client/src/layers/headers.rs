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
        let suffix = request.extensions().get::<UserAgentSuffix>().copied();
        let user_agent = suffix.and_then(|suffix| suffix.add_to(&self.user_agent)).unwrap_or(self.user_agent);
        default(request.headers_mut(), USER_AGENT, user_agent);
        default(request.headers_mut(), ACCEPT, HeaderValue::from_static("application/json"));
        self.inner.oneshot(request).await
    }
}

/// In the extensions of a request whose user agent names a part of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserAgentSuffix(pub(crate) &'static str);

impl UserAgentSuffix {
    fn add_to(self, user_agent: &HeaderValue) -> Option<HeaderValue> {
        HeaderValue::from_str(&format!("{}/{}", user_agent.to_str().ok()?, self.0)).ok()
    }
}

fn default(headers: &mut HeaderMap, name: http::HeaderName, value: HeaderValue) {
    headers.entry(name).or_insert(value);
}

service!(DefaultHeaders);
