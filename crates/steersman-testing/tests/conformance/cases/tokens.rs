use serde_json::{Value, json};

use super::authorization::By;
use super::{MAPS, maps, pod, pods};
use crate::conformance::case::{Case, Needs, case};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const AUDIENCE: &str = "https://kubernetes.default.svc";

/// Tokens of service accounts.
pub(crate) fn cases() -> Vec<Case> {
    let groups = [tokens(), token_errors(), token_reviews()];
    groups.into_iter().flatten().map(|case| case.needs(Needs::Authorization)).collect()
}

const ACCOUNTS: &str = "/api/v1/namespaces/${ns}/serviceaccounts";

/// A case with the service account `sa`.
fn with_account(name: &'static str) -> Case {
    case(name).post(ACCOUNTS, json!({"metadata": {"name": "sa"}})).named("sa").expect(201)
}

trait Token {
    /// Asks for a token for the account `sa`, with this spec.
    fn token(self, spec: Value) -> Self;
    /// Sends the last request with the token of this step.
    fn bearer(self, step: &str) -> Self;
    fn review(self, spec: Value) -> Self;
}

impl Token for Case {
    fn token(self, spec: Value) -> Self {
        self.post(format!("{ACCOUNTS}/sa/token"), json!({"spec": spec})).ignore("/status/token")
    }

    fn bearer(self, step: &str) -> Self {
        self.header("authorization", format!("Bearer ${{{step}:/status/token}}"))
    }

    fn review(self, spec: Value) -> Self {
        let case = self.post(TOKEN_REVIEWS, json!({"spec": spec}));
        case.ignore("/spec/token").ignore("/status/user/extra/authentication.kubernetes.io~1credential-id")
    }
}

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn tokens() -> Vec<Case> {
    vec![
        with_account("token-authenticates-its-account")
            .token(json!({}))
            .named("token")
            .expect(201)
            .see("/spec/audiences", json!([AUDIENCE]))
            .see("/spec/expirationSeconds", 3600)
            .post(SELF, json!({}))
            .bearer("token")
            .expect(201)
            .ignore("/status/userInfo/extra")
            .see("/status/userInfo/username", "system:serviceaccount:${ns}:sa")
            .see("/status/userInfo/uid", "${uid:sa}")
            .get(maps(""))
            .bearer("token")
            .expect(403),
        with_account("token-of-a-pod")
            .post(pods(""), json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "sa", "nodeName": "gone-${id}",
                "containers": [{"name": "c", "image": "i"}]}}))
            .named("p")
            .expect(201)
            .token(json!({"expirationSeconds": 3607, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "${uid:p}"}}))
            .named("token")
            .expect(201)
            .post(SELF, json!({}))
            .bearer("token")
            .expect(201)
            .ignore("/status/userInfo/extra/authentication.kubernetes.io~1credential-id")
            .see("/status/userInfo/extra/authentication.kubernetes.io~1pod-name", json!(["p"])),
        with_account("token-of-a-secret")
            .post("/api/v1/namespaces/${ns}/secrets", json!({"metadata": {"name": "s"}}))
            .token(json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}))
            .named("token")
            .expect(201)
            .post(SELF, json!({}))
            .bearer("token")
            .expect(201)
            .ignore("/status/userInfo/extra"),
        with_account("token-of-a-node")
            .post("/api/v1/nodes", json!({"metadata": {"name": "n-${id}"}}))
            .token(json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": "n-${id}"}}))
            .named("token")
            .expect(201)
            .post(SELF, json!({}))
            .bearer("token")
            .expect(201)
            .ignore("/status/userInfo/extra/authentication.kubernetes.io~1credential-id"),
        with_account("token-ends-with-its-account")
            .token(json!({}))
            .named("token")
            .post(SELF, json!({}))
            .bearer("token")
            .expect(201)
            .ignore("")
            .delete(format!("{ACCOUNTS}/sa"))
            .ignore("")
            .post(SELF, json!({}))
            .bearer("token")
            .again_until()
            .expect(401),
        with_account("token-for-others")
            .token(json!({"audiences": ["one", "two"]}))
            .named("token")
            .expect(201)
            .get("/version")
            .bearer("token")
            .expect(401),
        case("token-that-is-none").get("/version").header("authorization", "Bearer abc").expect(401),
        case("token-that-is-none-in-yaml")
            .get(MAPS)
            .header("authorization", "Bearer a.b.c")
            .header("accept", "application/yaml")
            .expect(401),
        case("token-documents")
            .get("/.well-known/openid-configuration")
            .ignore("/jwks_uri")
            .expect(200)
            .see("/issuer", AUDIENCE)
            .get("/openid/v1/jwks")
            .ignore("/keys/0/x")
            .ignore("/keys/0/y")
            .ignore("/keys/0/kid")
            .expect(200)
            .see("/keys/0/alg", "ES256"),
    ]
}

fn token_errors() -> Vec<Case> {
    let bound = |kind: &str, name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}});
    vec![
        case("token-of-no-account").token(json!({})).expect(404),
        with_account("token-for-too-short").token(json!({"expirationSeconds": 599})).expect(422),
        with_account("token-for-too-long").token(json!({"expirationSeconds": 4_294_967_297_i64})).expect(422),
        with_account("token-for-long").token(json!({"expirationSeconds": 4_294_967_296_i64})).expect(201),
        with_account("token-of-a-missing-pod").token(bound("Pod", "none")).expect(404),
        with_account("token-of-a-missing-secret").token(bound("Secret", "none")).expect(404),
        with_account("token-of-a-missing-node").token(bound("Node", "none-${id}")).expect(404),
        with_account("token-of-another-kind").token(bound("ConfigMap", "none")).expect(400),
        with_account("token-of-the-pod-of-another").post(pods(""), pod("p")).token(bound("Pod", "p")).expect(400),
        with_account("token-of-another-secret")
            .post("/api/v1/namespaces/${ns}/secrets", json!({"metadata": {"name": "s"}}))
            .token(json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "x"}}))
            .expect(409),
        with_account("token-of-another-account")
            .post(format!("{ACCOUNTS}/sa/token"), json!({"metadata": {"name": "other"}}))
            .expect(422)
            .post(format!("{ACCOUNTS}/sa/token"), json!({"metadata": {"namespace": "default"}}))
            .expect(400)
            .post(format!("{ACCOUNTS}/sa/token"), json!({"metadata": {"uid": "x"}}))
            .expect(409),
        with_account("token-that-is-read").get(format!("{ACCOUNTS}/sa/token")).expect(405),
        with_account("token-for-a-dry-run")
            .post(format!("{ACCOUNTS}/sa/token?dryRun=All"), json!({}))
            .ignore("/status/token")
            .expect(201),
    ]
}

fn token_reviews() -> Vec<Case> {
    let review = |name: &'static str, spec: Value| case(name).post(TOKEN_REVIEWS, json!({"spec": spec}));
    vec![
        with_account("token-review")
            .token(json!({}))
            .named("token")
            .review(json!({"token": "${token:/status/token}"}))
            .expect(201)
            .see("/status/authenticated", true)
            .see("/status/audiences", json!([AUDIENCE])),
        with_account("token-review-for-audiences")
            .token(json!({"audiences": ["one", "two"]}))
            .named("token")
            .review(json!({"token": "${token:/status/token}", "audiences": ["two", "three"]}))
            .expect(201)
            .see("/status/audiences", json!(["two"]))
            .review(json!({"token": "${token:/status/token}"}))
            .expect(201)
            .message_contains(""),
        review("token-review-of-nothing", json!({})).expect(400),
        review("token-review-of-what-is-none", json!({"token": "abc"})).expect(201),
        with_account("token-review-of-a-changed-token")
            .token(json!({}))
            .named("token")
            .review(json!({"token": "${token:/status/token}x"}))
            .expect(201),
        with_account("token-review-without-the-secret")
            .post("/api/v1/namespaces/${ns}/secrets", json!({"metadata": {"name": "s"}}))
            .token(json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}))
            .named("token")
            .delete("/api/v1/namespaces/${ns}/secrets/s")
            .ignore("")
            .review(json!({"token": "${token:/status/token}"}))
            .again_until()
            .ignore("/spec/token")
            .see("/status/error", "[invalid bearer token, service account token has been invalidated]"),
        case("token-review-is-not-for-everybody")
            .post(TOKEN_REVIEWS, json!({"spec": {"token": "x"}}))
            .by("jane")
            .expect(403),
    ]
}
