//! A Kubernetes API server in a library, for controllers that run and are tested with no cluster.
//!
//! [`ApiServer`] is a `tower::Service` of HTTP requests. A `kube_client::Client` that is built from
//! it calls it in process: no socket, no certificates, no startup to wait for, and any number of
//! servers in one test binary.
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
//! The folders follow a request. `server` receives it and calls the others. `request` reads it: the
//! identity, the path, the query, the body. `access` checks tokens, impersonation and RBAC, and
//! records requests. `rules` knows which kinds are served and what their objects may be. `verbs`
//! has one module for each verb. `store` keeps the objects and the changes that led to them,
//! `lifecycle` does what follows from a write, and `response` encodes the result. `serve` is the
//! server on a socket.

mod access;
mod clock;
mod lifecycle;
mod request;
mod response;
mod rules;
mod serve;
mod server;
mod store;
mod verbs;

pub use access::record::{RecordedRequest, RequestRecord};
pub use request::budget::Cost;
pub use request::identity::Identity;
pub use response::ServerBody;
pub use serve::{KubeconfigFile, ListenError, Serve, Serving};
pub use server::{ApiServer, ApiServerBuilder};
