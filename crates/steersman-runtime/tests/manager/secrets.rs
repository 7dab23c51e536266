//! What a Secret contains is shown nowhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use steersman_client::{ListParams, PostParams};
use steersman_runtime::metrics::MetricsServer;
use steersman_runtime::{Action, Context, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};
use steersman_testing::Embedded;

use crate::endpoints::get;
use crate::support::{eventually, named, start, traced_at};

const SENTINEL: &str = "sentinel5f3759df";
/// More rounds than a hot loop takes to be found.
const ROUNDS: usize = 25;

fn secret(content: &str) -> Secret {
    let data = Some([("password".to_owned(), ByteString(content.into()))].into());
    Secret { metadata: named("s"), data, ..Secret::default() }
}

/// Wakes itself by its writes for some rounds. Then it fails, with all errors that the server has
/// for writes of a Secret, and reports the failure by an Event.
async fn reconcile(rounds: Arc<AtomicUsize>, ctx: Context<Secret>, key: ObjectKey) -> Result<Action, ReconcileError> {
    let Some(found) = ctx.get(&key).await? else { return Ok(Action::done()) };
    let round = rounds.fetch_add(1, Ordering::Relaxed);
    let changed = Secret { metadata: found.metadata.clone(), ..secret(&format!("{SENTINEL}-{round}")) };
    let updated = ctx.client().update(&changed).await?;
    if round < ROUNDS {
        ctx.events().normal(&updated, "Changed", "Change", format!("round {round}"));
        return Ok(Action::done());
    }
    // A conflict, and an invalid object.
    let conflict = ctx.client().update(&Secret { type_: Some("other".to_owned()), ..changed.clone() }).await;
    let mut invalid = changed;
    invalid.data.get_or_insert_default().insert("not a key".to_owned(), ByteString(SENTINEL.into()));
    invalid.metadata.resource_version = None;
    let refused = ctx.client().update(&invalid).await;
    let errors = [conflict.unwrap_err().to_string(), refused.unwrap_err().to_string()].join("; ");
    ctx.events().warning(&updated, "Failed", "Change", &*errors);
    Err(ReconcileError::message(errors))
}

#[tokio::test]
async fn the_content_of_a_secret_is_shown_nowhere() {
    let (log, _guard) = traced_at(tracing::Level::TRACE);
    let server = Embedded::start();
    let metrics = MetricsServer::new().listen("127.0.0.1:0".parse().unwrap()).debug_pages();
    let builder = Manager::builder(server.client()).trace_requests().detailed_request_metrics();
    let manager = builder.metrics(metrics).unwrap().build();
    let rounds = Arc::new(AtomicUsize::new(0));
    let controller = manager
        .controller(kind::<Secret>())
        .complete(reconcile_fn(move |ctx, key| reconcile(Arc::clone(&rounds), ctx, key)))
        .unwrap();
    let port = manager.metrics_address().unwrap().port();
    let running = start(&manager);
    eventually("the manager is ready", || manager.is_ready()).await;
    server.client().namespaced("default").create(&PostParams::default(), &secret(SENTINEL)).await.unwrap();
    eventually("a reconcile fails", || controller.metrics().errors_total > 0).await;
    let mut shown = Vec::new();
    for path in ["/metrics", "/debug", "/debug/state", "/debug/state?kind=Secret&key=default%2Fs"] {
        let (status, _, body) = get(port, path).await;
        assert_eq!(status, 200, "{path}");
        shown.push((path, body));
    }
    // The stop writes the last Events.
    running.stop().await.unwrap();
    let events = server.client().namespaced::<Event>("default").list(&ListParams::default()).await.unwrap().items;
    shown.push(("Events", serde_json::to_string(&events).unwrap()));
    shown.push(("log", log.text()));

    let encoded = serde_json::to_value(ByteString(SENTINEL.into())).unwrap();
    // The last digits of the encoding depend on what follows.
    let encoded = &encoded.as_str().unwrap()[..SENTINEL.len() / 3 * 4];
    for (place, text) in &shown {
        assert!(!text.contains(SENTINEL) && !text.contains(encoded), "{place} shows the Secret: {text}");
    }
    // Everything was there to be shown.
    let expected = [
        ("/metrics", "controller_runtime_reconcile_errors_total{controller=\"secret\"} "),
        ("/metrics", "reconcile_hot_loops_total{controller=\"secret\"} 1"),
        ("/metrics", "rest_client_response_size_bytes_count{verb=\"PUT\""),
        ("/debug", "<html"),
        ("/debug/state", "\"failed\""),
        ("/debug/state?kind=Secret&key=default%2Fs", "not a key"),
        ("Events", "\"reason\":\"Changed\""),
        ("Events", "not a key"),
        ("log", "hot loop: Secret default/s"),
        ("log", "reconcile failed"),
        ("log", "request{"),
    ];
    for (place, part) in expected {
        let (_, text) = shown.iter().find(|(other, _)| *other == place).unwrap();
        assert!(text.contains(part), "{place} has no {part:?}: {text}");
    }
}
