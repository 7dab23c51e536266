use std::convert::Infallible;
use std::sync::Arc;

use futures::FutureExt;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_client::client::Body as RequestBody;
use serde_json::{Value, json};
use steersman_client::Config;
use tokio::time::advance;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// An API server that knows two tokens and notes what it is asked.
#[derive(Clone, Default)]
struct Reviewer {
    asked: Arc<Mutex<Vec<Value>>>,
    /// Answers the next requests with this code.
    faults: Arc<Mutex<Vec<u16>>>,
    /// Reviews of unknown tokens never end.
    is_stuck: Arc<Mutex<bool>>,
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
        let is_unknown = review["spec"]["token"].as_str().is_some_and(|token| token.starts_with("made-up"));
        let is_stuck = is_unknown && *self.is_stuck.lock().unwrap();
        if is_stuck {
            std::future::pending::<()>().await;
        }
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
    // The times are those of controller-runtime: a token counts for a minute, a permission for five
    // minutes, a refusal for 30 s.
    advance(59 * SECOND).await;
    reader(2).await;
    advance(SECOND).await;
    reader(3).await;
    advance(239 * SECOND).await;
    reader(4).await;
    advance(SECOND).await;
    reader(5).await;
    assert_eq!(status(&authorization, Some("Bearer stranger")).await, 403);
    advance(29 * SECOND).await;
    assert_eq!((status(&authorization, Some("Bearer stranger")).await, reviewer.asked()), (403, 7));
    advance(SECOND).await;
    assert_eq!((status(&authorization, Some("Bearer stranger")).await, reviewer.asked()), (403, 8));
    // A token that is not accepted is remembered for a minute, too.
    for (passed, asked) in [(0, 9), (59, 9), (1, 10)] {
        advance(passed * SECOND).await;
        assert_eq!((status(&authorization, Some("Bearer made-up")).await, reviewer.asked()), (401, asked));
    }
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
async fn made_up_tokens_take_bounded_memory_and_drive_out_no_known_one() {
    let reviewer = Reviewer::default();
    let authorization = reviewer.authorization();
    assert_eq!(status(&authorization, Some("Bearer reader")).await, 200);
    for token in 0..2 * REMEMBERED_MAX.get() {
        assert_eq!(status(&authorization, Some(&format!("Bearer made-up-{token}"))).await, 401);
    }
    assert_eq!(authorization.refused.entries().len(), REFUSED_MAX.get());
    let asked = reviewer.asked();
    assert_eq!((status(&authorization, Some("Bearer reader")).await, reviewer.asked()), (200, asked));
    let last = format!("Bearer made-up-{}", 2 * REMEMBERED_MAX.get() - 1);
    assert_eq!((status(&authorization, Some(&last)).await, reviewer.asked()), (401, asked));
}

#[tokio::test(start_paused = true)]
async fn made_up_tokens_keep_no_known_one_out() {
    let reviewer = Reviewer::default();
    let authorization = reviewer.authorization();
    assert_eq!(status(&authorization, Some("Bearer reader")).await, 200);
    advance(ALLOWED_TTL).await;
    // The API server answers no review of a made-up token.
    *reviewer.is_stuck.lock().unwrap() = true;
    let made_up = async |token: usize| status(&authorization, Some(&format!("Bearer made-up-{token}"))).await;
    let mut waiting = Box::pin(futures::future::join_all((0..REVIEWS_MAX).map(made_up)));
    assert!((&mut waiting).now_or_never().is_none());
    let began = Instant::now();
    assert_eq!((made_up(REVIEWS_MAX).await, began.elapsed()), (503, TURN_TIMEOUT));
    // Both of its results have to be asked for again.
    let asked = reviewer.asked();
    assert_eq!((status(&authorization, Some("Bearer reader")).await, reviewer.asked()), (200, asked + 2));
    assert_eq!(began.elapsed(), TURN_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_permission_for_a_long_path_is_not_remembered() {
    let reviewer = Reviewer::default();
    let authorization = reviewer.authorization();
    for (path, remembered) in [("x".repeat(252), 1), ("x".repeat(253), 1), ("x".repeat(10_000), 1)] {
        let (parts, ()) =
            Request::get(format!("/{path}")).header("authorization", "Bearer reader").body(()).unwrap().into_parts();
        assert!(authorization.check(&parts).await.is_ok());
        assert_eq!(authorization.permissions.entries().len(), remembered);
    }
}

#[tokio::test]
async fn the_embedded_server_reviews_real_tokens() {
    let server = steersman_testing::Embedded::start().with_rbac();
    let client = server.kube_client();
    let post = async |path: &str, body: Value| -> Value {
        let request = Request::post(path).header("content-type", "application/json");
        client.request(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap()
    };
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    post(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": "metrics"}, "rules": rules})).await;
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics"});
    let subjects = json!([{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]);
    let binding = json!({"metadata": {"name": "metrics"}, "roleRef": role, "subjects": subjects});
    post(&format!("{rbac}/clusterrolebindings"), binding).await;
    let authorization = Authorization::new(server.client());
    let mut found = Vec::new();
    for account in ["reader", "stranger"] {
        post(accounts, json!({"metadata": {"name": account}})).await;
        let token = post(&format!("{accounts}/{account}/token"), json!({})).await;
        let token = token["status"]["token"].as_str().unwrap();
        found.push(status(&authorization, Some(&format!("Bearer {token}"))).await);
        found.push(status(&authorization, Some(&format!("Bearer {token}0"))).await);
    }
    assert_eq!(found, [200, 401, 403, 401]);
}
