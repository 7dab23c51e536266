//! The layers that a request passes on its way to the server, and the response on its way back.
//! Outermost first:
//!
//! - [`headers`]: the user agent and the default `Accept` header.
//! - [`retry`]: sends a request again where that is safe. The layers below see each attempt.
//! - [`rate_limit`]: delays requests.
//! - [`observe`]: reports each attempt and each of the server's [warnings](warning).
//! - [`timeouts`]: fails requests to a silent server.
//! - [`gzip`]: decompresses responses.
//! - [`gate`]: refuses writes of clients that may no longer write.
//! - [`token_file`]: adds the credentials of a token file.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use kube_client::client::Body;
use tower::BoxError;
use tower::util::BoxCloneSyncService;

pub(crate) mod gate;
pub(crate) mod gzip;
pub(crate) mod headers;
pub(crate) mod observe;
pub(crate) mod rate_limit;
pub(crate) mod retry;
pub(crate) mod timeouts;
pub(crate) mod token_file;
pub(crate) mod warning;
pub(crate) mod write_check;

/// The body of a response, as it arrives.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;
/// The response of a layer.
pub(crate) type ResponseResult = Result<Response<ResponseBody>, BoxError>;
/// The future of each layer.
pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = ResponseResult> + Send>>;
/// The stack of layers and the connections below, as one service.
pub(crate) type Transport = BoxCloneSyncService<Request<Body>, Response<ResponseBody>, BoxError>;

/// Implements `Service` for a layer by its `handle` method. The inner service is always ready.
macro_rules! service {
    ($name:ident) => {
        impl<S> tower::Service<http::Request<kube_client::client::Body>> for $name<S>
        where
            S: tower::Service<
                    http::Request<kube_client::client::Body>,
                    Response = http::Response<$crate::layers::ResponseBody>,
                    Error = tower::BoxError,
                > + Clone
                + Send
                + 'static,
            S::Future: Send,
        {
            type Response = http::Response<$crate::layers::ResponseBody>;
            type Error = tower::BoxError;
            type Future = $crate::layers::ResponseFuture;

            /// A layer is always ready and waits in the future of each request, so that no request
            /// waits behind another.
            fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<kube_client::client::Body>) -> Self::Future {
                Box::pin(self.clone().handle(request))
            }
        }
    };
}
pub(crate) use service;

/// The class of a request, as far as layers treat requests differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The response is a stream of events without an end of its own.
    Watch {
        /// Whether the request asks for bookmarks.
        bookmarks: bool,
    },
    /// Other responses without an end: followed logs, proxied and upgraded connections.
    LongRunning,
    /// All others.
    Ordinary,
}

impl Purpose {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let parameter = |name: &str| {
            let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let is_true = |name| parameter(name).is_some_and(|value| !matches!(value, "0" | "false" | "False" | "FALSE"));
        let path: Vec<&str> = request.uri().path().trim_start_matches('/').split('/').collect();
        // The path after the version.
        let path = match &path[..] {
            ["api", _, path @ ..] | ["apis", _, _, path @ ..] => path,
            _ => &[],
        };
        if is_true("watch") || path.first() == Some(&"watch") {
            return Self::Watch { bookmarks: is_true("allowWatchBookmarks") };
        }
        let upgrades = request.headers().contains_key(http::header::UPGRADE);
        let (["namespaces", _, _, _, subresource, ..] | [_, _, subresource, ..]) = path else {
            return if upgrades { Self::LongRunning } else { Self::Ordinary };
        };
        let streams = matches!(*subresource, "exec" | "attach" | "portforward" | "proxy");
        let follows = *subresource == "log" && is_true("follow");
        if upgrades || streams || follows { Self::LongRunning } else { Self::Ordinary }
    }
}

#[cfg(test)]
mod tests;
