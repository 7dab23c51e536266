//! The feature `otlp`: spans at a collector, and the trace in the requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube_client::client::Body;
use network_operator::otlp::{CurrentSpan, Exporter};
use serde_json::Value;
use steersman::Client;
use steersman::client::Config;
use steersman::http::{Listen, Router, Server, text};
use tower::ServiceExt;
use tracing_subscriber::layer::SubscriberExt;

use crate::common::{NEVER, Running, World, options, spec};

/// A span as the collector gets it.
#[derive(Debug)]
struct Received {
    name: String,
    trace: String,
    parent: String,
    attributes: BTreeMap<String, String>,
}

/// The spans of an OTLP request in JSON, by their ids.
fn spans(request: &[u8]) -> Vec<(String, Received)> {
    let request: Value = serde_json::from_slice(request).unwrap();
    let each = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resources = each(&request, "resourceSpans");
    let scopes = resources.iter().flat_map(|resource| each(resource, "scopeSpans"));
    let spans = scopes.flat_map(|scope| each(&scope, "spans"));
    let attributes = |span: &Value| {
        let each = each(span, "attributes");
        each.iter().map(|attribute| (text(&attribute["key"]), text(&attribute["value"]["stringValue"]))).collect()
    };
    let received = |span: Value| Received {
        name: text(&span["name"]),
        trace: text(&span["traceId"]),
        parent: text(&span["parentSpanId"]),
        attributes: attributes(&span),
    };
    spans.map(|span| (text(&span["spanId"]), received(span))).collect()
}

/// A client of the embedded server that notes the trace and the span in the header of each write.
fn observed(world: &World, headers: &Arc<Mutex<Vec<(String, String)>>>) -> Client {
    let (server, headers) = (world.server.server().clone(), Arc::clone(headers));
    let service = tower::service_fn(move |request: Request<Body>| {
        if request.method() == Method::PUT && request.uri().path().ends_with("/networks/blue/status") {
            let header = request.headers()["traceparent"].to_str().unwrap();
            let [_, trace, span, _] = header.split('-').collect::<Vec<_>>()[..] else { panic!("{header}") };
            headers.lock().unwrap().push((trace.to_owned(), span.to_owned()));
        }
        server.clone().oneshot(request)
    });
    Client::builder(Config::new(http::Uri::from_static("http://server.test"))).build_over(service).unwrap()
}

#[tokio::test]
async fn a_collector_gets_event_reconcile_and_request_as_one_trace() {
    let received = Arc::new(Mutex::new(BTreeMap::new()));
    let collector = Server::new().listen(Listen::loopback(0)).body_max(1 << 24).bind().unwrap();
    let url = format!("http://{}", collector.address());
    let noted = Arc::clone(&received);
    let router = Router::new().route("/v1/traces", move |request: Request<bytes::Bytes>| {
        noted.lock().unwrap().extend(spans(request.body()));
        std::future::ready::<Response<steersman::http::Body>>(text(StatusCode::OK, "{}"))
    });
    tokio::spawn(collector.run(router, std::future::pending()));

    // With only one subscriber, `tracing` asks only the thread that first reaches a call site
    // whether it is enabled, and that thread may belong to another test.
    let _others = [(); 2].map(|()| tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new()));
    let exporter = Exporter::new(&url).unwrap();
    // Only for this thread, on which the test and all its tasks run.
    let subscriber = tracing_subscriber::registry().with(exporter.layer());
    let _tracing = tracing::subscriber::set_default(subscriber);
    let world = World::new().await;
    let headers = Arc::new(Mutex::new(Vec::new()));
    let client = observed(&world, &headers).with_trace_context(CurrentSpan);
    let operator = Running::start(client, world.neutron.clone(), options(NEVER));
    // An object that exists when the operator starts has no event of its own.
    world.create("first", spec("10.1.0.0/24", "10.1.0.1")).await;
    world.ready("first").await;
    world.create("blue", spec("10.2.0.0/24", "10.2.0.1")).await;
    world.ready("blue").await;
    operator.stop().await;
    exporter.stop().await;

    let (trace, request) = headers.lock().unwrap().first().cloned().expect("the status was written");
    let received = received.lock().unwrap();
    let span = |id: &str| received.get(id).unwrap_or_else(|| panic!("no span {id} in {received:#?}"));
    let request = span(&request);
    assert_eq!((request.name.as_str(), request.attributes["method"].as_str()), ("request", "PUT"));
    let reconcile = span(&request.parent);
    assert_eq!((reconcile.name.as_str(), reconcile.attributes["key"].as_str()), ("reconcile", "default/blue"));
    let event = span(&reconcile.parent);
    assert_eq!((event.name.as_str(), event.parent.as_str()), ("event", ""));
    assert_eq!([&request.trace, &reconcile.trace, &event.trace], [&trace; 3]);
}
