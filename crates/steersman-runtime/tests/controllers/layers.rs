//! Layers around every reconcile.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::layer::{Layer, Next, ReconcileFuture, layer_fn};
use steersman_runtime::{Action, Context, Object, ObjectKey, ReconcileError, kind, reconcile_fn};

use crate::support::*;

/// A layer of the user.
struct Note(&'static str, Log<String>);

impl<K: Object> Layer<K> for Note {
    fn around<'a>(&'a self, next: Next<'a, K>) -> ReconcileFuture<'a> {
        Box::pin(async move {
            let span = tracing::Span::current().metadata().map_or("none", tracing::Metadata::name);
            self.1.note(format!("{} before, in span {span}", self.0));
            let result = next.reconcile().await;
            self.1.note(format!(
                "{} after: {}",
                self.0,
                result.as_ref().map_or_else(ToString::to_string, |_| "ok".into())
            ));
            result
        })
    }
}

#[tokio::test(start_paused = true)]
async fn layers_are_in_this_order() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let (_, _guard) = traced();
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<ConfigMap>, _| {
        let notes = notes.clone();
        async move {
            notes.note("reconcile");
            std::future::pending::<Result<Action, ReconcileError>>().await
        }
    });
    manager
        .controller(kind::<ConfigMap>().namespace("default"))
        .layer(Note("first", log.clone()))
        .layer(Note("second", log.clone()))
        .reconcile_timeout(Duration::from_secs(5))
        .complete(reconciler)
        .unwrap();
    let running = run(&manager).await;
    eventually("one is over", || log.len() >= 5).await;
    assert_eq!(
        log.all()[..5],
        [
            "first before, in span reconcile",
            "second before, in span reconcile",
            "reconcile",
            "second after: the reconcile did not end within 5s",
            "first after: the reconcile did not end within 5s",
        ]
    );
    assert!(running.stop().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_layer_sees_a_panic_as_a_failure() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let log = Log::new();
    let reconciler = reconcile_fn(|_: Context<ConfigMap>, key: ObjectKey| async move {
        assert_ne!(key.name(), "a", "this is the test");
        Ok(Action::done())
    });
    manager
        .controller(kind::<ConfigMap>().namespace("default"))
        .layer(Note("mine", log.clone()))
        .complete(reconciler)
        .unwrap();
    let running = run(&manager).await;
    eventually("one is over", || log.len() >= 2).await;
    let after = &log.all()[1];
    assert!(after.starts_with("mine after: the reconcile panicked: ") && after.contains("this is the test"), "{after}");
    running.stop().await.unwrap();
}

/// A layer that returns without calling the reconciler, or panics.
struct Instead;

impl<K: Object> Layer<K> for Instead {
    fn around<'a>(&'a self, next: Next<'a, K>) -> ReconcileFuture<'a> {
        match next.key().name() {
            "skipped" => Box::pin(async { Ok(Action::done()) }),
            "broken" => panic!("the layer is broken"),
            _ => next.reconcile(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_can_answer_instead_and_one_that_panics_fails_its_reconcile_only() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    let log = Log::new();
    let controller = manager
        .controller(kind::<ConfigMap>().namespace("default"))
        .layer(Instead)
        .complete(crate::noting(&log))
        .unwrap();
    let (logged, _guard) = traced();
    let running = run(&manager).await;
    for name in ["skipped", "broken", "a"] {
        maps.create(name).await;
    }
    eventually("it failed several times", || controller.failures(&key("broken")) > 3).await;
    assert_eq!(log.all(), ["a"]);
    let last = controller.last_error(&key("broken")).unwrap().to_string();
    assert_eq!(last, "the reconcile panicked: the layer is broken");
    let text = logged.text();
    let line = text.lines().find(|line| line.contains("the layer is broken")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("WARN") && line.contains("key=\"default/broken\""), "{line}");
    maps.create("b").await;
    eventually("the worker goes on", || log.len() == 2).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_runs_in_a_span_with_the_controller_and_the_key() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let (logged, _guard) = traced();
    let failed = Log::new();
    let notes = failed.clone();
    let reconciler = reconcile_fn(move |_: Context<ConfigMap>, _| {
        notes.note("called");
        async {
            tracing::info!("hello from the reconciler");
            Err(ReconcileError::terminal("this cannot be"))
        }
    });
    manager.controller(kind::<ConfigMap>().namespace("default")).named("web-maker").complete(reconciler).unwrap();
    let running = run(&manager).await;
    settle().await;
    assert_eq!(failed.len(), 1);
    let text = logged.text();
    let line =
        |words: &str| text.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{text}")).to_owned();
    for line in [line("hello from the reconciler"), line("this cannot be")] {
        let span = "reconcile{controller=\"web-maker\" key=\"default/a\" reconcile_id=1 attempt=1 \
                    cause=\"initial ConfigMap (primary)\" queued=";
        assert!(line.contains(span), "{line}");
    }
    assert!(line("this cannot be").contains("ERROR"));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failures_are_logged_also_where_spans_are_not_wanted() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let (logged, _guard) = traced_at(tracing::Level::WARN);
    let reconciler = reconcile_fn(|_: Context<ConfigMap>, _| async { Err(ReconcileError::terminal("this cannot be")) });
    manager.controller(kind::<ConfigMap>().namespace("default")).complete(reconciler).unwrap();
    let running = run(&manager).await;
    settle().await;
    assert!(logged.text().contains("this cannot be"), "{}", logged.text());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_closure_is_a_layer() {
    let (manager, client) = manager();
    Maps::new(&client).create("a").await;
    let log = Log::new();
    let notes = log.clone();
    let note = layer_fn(move |next| {
        let notes = notes.clone();
        Box::pin(async move {
            let (controller, key) = (next.context().controller(), next.key());
            let result = next.reconcile().await;
            notes.note(format!("{controller} {key}: {result:?}"));
            result
        })
    });
    manager.controller(kind::<ConfigMap>().namespace("default")).layer(note).complete(crate::noting(&log)).unwrap();
    let running = run(&manager).await;
    eventually("one is over", || log.len() >= 2).await;
    assert_eq!(log.all(), ["a", "configmap default/a: Ok(Action { after: None })"]);
    running.stop().await.unwrap();
}
