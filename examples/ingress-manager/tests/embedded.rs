//! The ingress manager on the embedded server, in process, in paused time.

mod suite;

use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use ingress_manager::HTTP;
use kube_client::client::Body;
use serde_json::json;
use steersman::Client;
use steersman::client::Config;
use steersman_testing::Embedded;
use suite::{Clients, World, behaviours};
use tower::ServiceExt;

async fn server() -> (Clients, String) {
    let embedded = Embedded::start();
    let client = || embedded.client();
    (Clients { manager: client(), people: client() }, "default".to_owned())
}

behaviours! { tokio::test(start_paused = true), server }

/// A client of a server with a webhook that denies every Ingress.
fn refused(embedded: &Embedded) -> Client {
    let server = embedded.server().clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            if request.method() != Method::POST || !request.uri().path().ends_with("/ingresses") {
                return server.oneshot(request).await;
            }
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "admission webhook denied the request: the host is taken",
            });
            let mut answer = Response::new(Full::from(status.to_string()).boxed_unsync());
            *answer.status_mut() = StatusCode::FORBIDDEN;
            Ok(answer)
        }
    });
    Client::builder(Config::new(Uri::from_static("http://embedded"))).build_over(service).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_refusal_shows_the_message_of_the_server() {
    let embedded = Embedded::start();
    let clients = Clients { manager: refused(&embedded), people: embedded.client() };
    let world = World::new(clients, "default".to_owned());
    world.create("web", json!({HTTP: "true"})).await;
    let event =
        world.event("web", "the Ingress was refused: admission webhook denied the request: the host is taken").await;
    assert_eq!(event.reason.as_deref(), Some("IngressRefused"));
    world.stop().await;
}
