//! A Kubernetes API server in a library, for controllers that run and are tested with no cluster.
//!
//! [`ApiServer`] is a `tower::Service` of HTTP requests. A `kube_client::Client` that is made of it calls it in process: no
//! socket, no certificates, nothing to start or to wait for, and any number of servers side by side in one test binary.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use http_body_util::{BodyExt, Full};
//! use steersman_apiserver::ApiServer;
//! use tower::Service;
//!
//! let mut server = ApiServer::new();
//! let request = http::Request::get("/api/v1/namespaces/default").body(Full::<bytes::Bytes>::default()).unwrap();
//! let answer = server.call(request).await.unwrap();
//! assert_eq!(answer.status(), 200);
//! let body = answer.into_body().collect().await.unwrap().to_bytes();
//! assert!(body.starts_with(br#"{"kind":"Namespace","apiVersion":"v1","metadata":{"#));
//! # }
//! ```
//!
//! What a request meets, in this order: `identity` says who asks; `request` reads its path and query; `kinds` knows what is served there; `read`,
//! `watch`, `write` and `delete` do it; `metadata` keeps the rules of an object's life; `store` keeps the objects and the
//! changes that led to them; `answer` encodes what comes back, and `status` the refusals.

mod addresses;
mod answer;
mod binding;
mod budget;
mod builtin;
mod clock;
mod convert;
mod crd;
mod custom;
mod delete;
mod delete_options;
mod dependents;
mod discovery;
mod eviction;
mod garbage;
mod grace;
mod identity;
mod kinds;
mod list;
mod metadata;
mod namespace;
mod negotiation;
mod object;
mod ownership;
mod patch;
mod patch_request;
mod protection;
mod protobuf;
mod read;
mod request;
mod resource;
mod review;
mod scale;
mod schema;
mod serve;
mod server;
mod status;
mod store;
#[cfg(test)]
mod test_paths;
mod watch;
mod write;
mod yaml;

pub use answer::Body;
pub use budget::Cost;
pub use identity::Identity;
pub use serve::{KubeconfigFile, Serve, ServeError, Serving};
pub use server::ApiServer;
