//! The trace context of requests.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{HeaderMap, Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::client::Body;
use steersman_client::{Client, ListParams, Trace, TraceContext, World};

/// A client, and the header `traceparent` of each of its requests.
fn recording() -> (Client, Arc<Mutex<Vec<Option<String>>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Body>| {
        let value = request.headers().get("traceparent").map(|value| value.to_str().unwrap().to_owned());
        noted.lock().unwrap().push(value);
        let list = r#"{"apiVersion":"v1","kind":"ConfigMapList","metadata":{},"items":[]}"#;
        let response =
            Response::builder().header("content-type", "application/json").body(Body::from(list.as_bytes().to_vec()));
        std::future::ready(Ok::<_, Infallible>(response.unwrap()))
    });
    (Client::from(kube_client::Client::new(service, "default")), seen)
}

async fn list(client: &Client) {
    client.namespaced::<ConfigMap>("default").list(&ListParams::default()).await.unwrap();
}

fn world() -> World {
    World::seeded(7, "2026-01-31T10:00:00Z".parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn requests_carry_the_trace_of_their_task() {
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let (client, seen) = recording();
        let client = client.with_world(world());
        list(&client).await;
        let trace = Trace::new(client.world());
        trace
            .scope(async {
                list(&client).await;
                list(&client).await;
            })
            .await;
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen[0], None, "without a trace there is no header");
        for value in &seen[1..] {
            let value = value.as_deref().unwrap();
            assert!(value.starts_with(&format!("00-{}-", trace.id())) && value.ends_with("-01"), "{value}");
            assert_eq!((value.len(), value != trace.traceparent()), (55, true), "{value}");
        }
        assert_ne!(seen[1], seen[2], "each request is a span of its own");
        rounds.push(seen);
    }
    assert_eq!(rounds[0], rounds[1], "a seeded world gives the same ids");
}

#[tokio::test(start_paused = true)]
async fn a_program_can_bring_its_own_context() {
    struct Own;
    impl TraceContext for Own {
        fn inject(&self, headers: &mut HeaderMap) {
            headers.insert("traceparent", "00-1-2-01".parse().unwrap());
        }
    }
    let (client, seen) = recording();
    let client = client.with_trace_context(Own);
    Trace::new(&world()).scope(list(&client)).await;
    assert_eq!(*seen.lock().unwrap(), [Some("00-1-2-01".to_owned())]);
}
