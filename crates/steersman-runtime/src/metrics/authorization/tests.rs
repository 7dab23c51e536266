use std::convert::Infallible;
use std::sync::Arc;

use http::Request;
use http_body_util::{BodyExt, Full};
use kube_client::client::Body as RequestBody;
use serde_json::{Value, json};
use steersman_client::Config;
use tokio::time::advance;

use super::*;

/// An API server that knows two tokens and notes what it is asked.
#[derive(Clone, Default)]
struct Reviewer {
    asked: Arc<Mutex<Vec<Value>>>,
    /// Answers the next requests with this code.
    faults: Arc<Mutex<Vec<u16>>>,
}

impl Reviewer {
    fn authorization(&self) -> Authorization {
        let reviewer = self.clone();
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let reviewer = reviewer.clone();
            async move { Ok::<_, Infallible>(reviewer.respond(request).await) }
        });
        let config = Config::new("http://localhost".parse().unwrap());
        Authorization::new(Client::builder(config).protobuf(false).build_over(service).unwrap())
    }

    async fn respond(&self, request: Request<RequestBody>) -> http::Response<Full<bytes::Bytes>> {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        self.asked.lock().unwrap().push(review["spec"].clone());
        let fault = self.faults.lock().unwrap().pop();
        let spec = review["spec"].clone();
        review["status"] = match spec["token"].as_str() {
            Some(token @ ("reader" | "stranger")) => json!({
                "authenticated": true,
                "user": {"username": token, "uid": "1", "groups": ["all"], "extra": {"scope": ["a"]}},
            }),
            Some(_) => json!({"authenticated": false, "error": "unknown"}),
            None => json!({"allowed": spec["user"] == "reader"}),
        };
        let (code, body) = match fault {
            Some(code) => (code, json!({"kind": "Status", "code": code, "status": "Failure", "message": "no"})),
            None => (201, review),
        };
        let response = http::Response::builder().status(code).header("content-type", "application/json");
        response.body(Full::new(body.to_string().into())).unwrap()
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

/// The status, 200 for a request that may pass.
async fn status(authorization: &Authorization, header: Option<&str>) -> u16 {
    let mut request = Request::get("/metrics?x=y");
    if let Some(header) = header {
        request = request.header("authorization", header);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    authorization.check(&parts).await.map_or_else(|refused| refused.status().as_u16(), |()| 200)
}

#[tokio::test(start_paused = true)]
async fn a_request_passes_with_a_known_token_and_the_right() {
    let reviewer = Reviewer::default();
    let authorization = reviewer.authorization();
    for wrong in [None, Some("Basic cmVhZGVy"), Some("Bearer"), Some("Bearer "), Some("reader")] {
        assert_eq!(status(&authorization, wrong).await, 401, "{wrong:?}");
    }
    assert_eq!(reviewer.asked(), 0, "without a token there is nothing to ask");
    assert_eq!(status(&authorization, Some("Bearer made-up")).await, 401);
    assert_eq!(status(&authorization, Some("Bearer stranger")).await, 403);
    assert_eq!(status(&authorization, Some("bearer  reader")).await, 200);
    let asked = reviewer.asked.lock().unwrap().clone();
    let expected = json!({
        "user": "reader", "uid": "1", "groups": ["all"], "extra": {"scope": ["a"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    });
    assert_eq!(asked.last(), Some(&expected));
}

#[tokio::test(start_paused = true)]
async fn results_are_remembered_for_their_time() {
    let reviewer = Reviewer::default();
    let authorization = reviewer.authorization();
    let reader = async |expected: usize| {
        assert_eq!(status(&authorization, Some("Bearer reader")).await, 200);
        assert_eq!(reviewer.asked(), expected);
    };
    reader(2).await;
    reader(2).await;
    advance(TOKEN_TTL).await;
    // The permission still counts.
    reader(3).await;
    advance(ALLOWED_TTL).await;
    reader(5).await;
    assert_eq!(status(&authorization, Some("Bearer stranger")).await, 403);
    advance(DENIED_TTL - Duration::from_secs(1)).await;
    assert_eq!((status(&authorization, Some("Bearer stranger")).await, reviewer.asked()), (403, 7));
    advance(Duration::from_secs(1)).await;
    assert_eq!((status(&authorization, Some("Bearer stranger")).await, reviewer.asked()), (403, 8));
}

#[tokio::test(start_paused = true)]
async fn a_review_is_repeated_and_fails_with_500_in_the_end() {
    let reviewer = Reviewer::default();
    let authorization = reviewer.authorization();
    *reviewer.faults.lock().unwrap() = vec![500, 503, 429];
    assert_eq!((status(&authorization, Some("Bearer reader")).await, reviewer.asked()), (200, 5));

    let reviewer = Reviewer::default();
    let authorization = reviewer.authorization();
    *reviewer.faults.lock().unwrap() = vec![500; 100];
    assert_eq!((status(&authorization, Some("Bearer reader")).await, reviewer.asked()), (500, 5));
    // A refusal does not pass by asking again, and is not remembered.
    *reviewer.faults.lock().unwrap() = vec![403];
    assert_eq!((status(&authorization, Some("Bearer reader")).await, reviewer.asked()), (500, 6));
    assert_eq!((status(&authorization, Some("Bearer reader")).await, reviewer.asked()), (200, 8));
}

#[tokio::test(start_paused = true)]
async fn made_up_tokens_take_bounded_memory() {
    let mut remembered = Remembered::default();
    let now = Instant::now();
    for token in 0..10 * REMEMBERED_MAX {
        remembered.insert(token, (), now + TOKEN_TTL, now);
        assert!(remembered.0.len() <= REMEMBERED_MAX);
    }
    assert_eq!(remembered.get(&(10 * REMEMBERED_MAX - 1), now), Some(()));
}
