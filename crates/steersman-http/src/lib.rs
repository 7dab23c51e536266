//! HTTP servers for the side doors of a controller: metrics, probes, debug pages and webhooks.
//!
//! A [`Server`] listens on a socket, and a [`Router`] maps paths to handlers.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), steersman_http::ServeError> {
//! use http::StatusCode;
//! use steersman_http::{Router, Server, text};
//!
//! let router = Router::new().get("/hello", async |_request| text(StatusCode::OK, "hello\n"));
//! let server = Server::new().bind()?;
//! println!("http://{}/hello", server.address());
//! # let shutdown = async {};
//! server.run(router, shutdown).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Server`] lists what a client can cost at most. [`Tls`] has the certificates: from files, which
//! are read again when they change, or one that is made in memory. A [`Guard`] decides who may read
//! any of the routes, before a byte of a body is read.
//!
//! [`stall_guard`] and [`TimedBody`] are the parts that other servers on hyper can use as well.

mod activity;
mod connection;
mod connections;
mod observed;
mod request_body;
mod router;
mod server;
mod stall;
mod tls;

pub use request_body::{BodyTimeout, TimedBody};
pub use router::{Body, Guard, Handler, Router, body, text};
pub use server::{Bound, Listen, ServeError, Server};
pub use stall::stall_guard;
pub use tls::{CertificateMetrics, Tls};
