//! What a request goes through on its way to the server, and the answer on its way back. Outermost first:
//!
//! - [`headers`]: what every request says of the client.
//! - [`retry`]: asks again, where that is safe. All layers below see each attempt.
//! - [`rate_limit`]: waits for its turn.
//! - [`observe`]: counts, and hands on the server's warnings.
//! - [`timeouts`]: gives up on a server that is silent.
//! - [`gzip`]: lets lists come compressed.
//! - [`token_file`]: says who asks, if a file does.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use kube_client::client::Body;
use tower::BoxError;
use tower::util::BoxCloneSyncService;

pub(crate) mod gzip;
pub(crate) mod headers;
pub(crate) mod observe;
pub(crate) mod rate_limit;
pub(crate) mod retry;
pub(crate) mod timeouts;
pub(crate) mod token_file;

/// The body of an answer as it arrives.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;
/// An answer as it arrives.
pub(crate) type Answer = Result<Response<AnswerBody>, BoxError>;
/// What every layer's service returns.
pub(crate) type AnswerFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;
/// The whole way to the server.
pub(crate) type Transport = BoxCloneSyncService<Request<Body>, Response<AnswerBody>, BoxError>;

/// Implements `Service` for a layer's service by its `answer` method, which gets a service below that is ready.
macro_rules! service {
    ($name:ident) => {
        impl<S> tower::Service<http::Request<kube_client::client::Body>> for $name<S>
        where
            S: tower::Service<
                    http::Request<kube_client::client::Body>,
                    Response = http::Response<$crate::layers::AnswerBody>,
                    Error = tower::BoxError,
                > + Clone
                + Send
                + 'static,
            S::Future: Send,
        {
            type Response = http::Response<$crate::layers::AnswerBody>;
            type Error = tower::BoxError;
            type Future = $crate::layers::AnswerFuture;

            /// A layer is always ready: what has to be waited for is waited for in the future of each request, so that no
            /// caller holds up another.
            fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<kube_client::client::Body>) -> Self::Future {
                Box::pin(self.clone().answer(request))
            }
        }
    };
}
pub(crate) use service;

/// What kind of request it is, as far as layers treat them differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The answer is a stream of events that goes on until somebody ends it.
    Watch {
        /// Whether the server was asked to send a sign of life now and then.
        bookmarks: bool,
    },
    /// Like a watch, but not of events: logs that are followed, proxied and upgraded connections.
    LongRunning,
    /// The answer comes and ends.
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
        // What follows the version.
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
