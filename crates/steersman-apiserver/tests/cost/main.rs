//! Requests that are valid, or nearly so, and as expensive as their size allows. Their cost grows
//! with their size, or with the stored objects that they concern, and not with its square. Steps
//! are counted, so that the tests do not depend on time.

#[path = "../common/bounded.rs"]
mod bounded;
mod cascades;
mod reads;
mod writes;

use bounded::Sent;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use steersman_apiserver::{ApiServer, Cost};

/// The limit for any request, however small it is.
const FIXED: u64 = 20_000;
/// No request takes more steps, except for those of the operation that it ended with.
const STEPS_MAX: u64 = 22_000_000;

const DEFAULT: &str = "/api/v1/namespaces/default";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/things";

fn many(n: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..n).map(item).collect()
}

fn members(n: usize, member: impl Fn(usize) -> Value) -> Value {
    Value::Object((0..n).map(|at| (format!("k{at}"), member(at))).collect::<Map<_, _>>())
}

/// A definition of `things.example.com` with this schema.
fn definition(schema: &Value) -> Value {
    json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }})
}

/// A server, and the objects that were created on it.
struct Stored {
    server: ApiServer,
    objects: usize,
    bytes: usize,
}

impl Stored {
    fn new() -> Self {
        Self { server: ApiServer::new(), objects: 0, bytes: 0 }
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Sent {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        Sent::send(&self.server, method, path, media_type, body)
    }

    /// Sends a request that succeeds, and returns the body of its response.
    fn succeed(&self, method: &str, path: &str, body: &Value) -> Value {
        let sent = self.send(method, path, body);
        assert!(sent.status < 300, "{method} {path}: {} {}", sent.status, sent.body["message"]);
        sent.body
    }

    /// Creates an object and returns its uid.
    fn create(&mut self, path: &str, object: &Value) -> String {
        let created = self.succeed("POST", path, object);
        self.objects += 1;
        self.bytes += created.to_string().len();
        created["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
    }

    /// Creates a custom resource with this `spec`.
    fn create_thing(&mut self, name: &str, spec: &Value) {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec});
        self.create(THINGS, &thing);
    }
}

/// All steps of a request, including its consequences.
fn steps(cost: Cost) -> u64 {
    cost.steps + cost.follow_up_steps
}
