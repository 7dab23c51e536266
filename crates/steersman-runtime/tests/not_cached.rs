//! Reads that the caches, as they are declared, can never serve: an error that names the fix, not
//! "not found".

mod with_client;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use steersman_client::{ApiResource, Patch, PostParams};
use steersman_runtime::{
    Action, Context, Error, Index, ListQuery, ObjectKey, OperationResult, ReconcileError, dynamic, kind, metadata,
    reconcile_fn,
};
use steersman_wire::LabelSelector;
use with_client::{World, eventually, key, labelled, map, names};

fn labels(text: &str) -> LabelSelector {
    LabelSelector::parse(text).unwrap()
}

/// Each of these texts is in the error, which is neither "not found" nor retryable.
#[track_caller]
fn assert_names(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(!error.is_not_found() && !error.is_retryable(), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

/// Caches of ConfigMaps in `a` only; there is `a/m` and `b/m`.
async fn only_a() -> World {
    let world = World::new(|manager| manager.declare(kind::<ConfigMap>().namespace("a")).unwrap()).await;
    for name in ["a/m", "b/m"] {
        let map = map(name, "1");
        let api = world.other.namespaced::<ConfigMap>(map.metadata.namespace.as_deref().unwrap());
        api.create(&PostParams::default(), &map).await.unwrap();
    }
    with_client::settle().await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_read_outside_the_declared_namespaces_names_them_and_the_fix() {
    let world = only_a().await;
    let maps = world.client.objects::<ConfigMap>();
    let query = ListQuery::all().namespace("b");
    for error in [
        maps.get(&key("b/m")).await.unwrap_err(),
        maps.get_opt(&key("b/m")).await.unwrap_err(),
        maps.list(&ListQuery::all().namespace("b")).await.unwrap_err(),
        maps.list(&ListQuery::all().namespace("b").labels(labels("!app"))).await.unwrap_err(),
        maps.list(&query).await.unwrap_err(),
        maps.list(&query.index("namespace", "b")).await.unwrap_err(),
        maps.list(&ListQuery::all().index("namespace", "b")).await.unwrap_err(),
        world.client.stale_ok().get::<ConfigMap>(&key("b/m")).await.unwrap_err(),
    ] {
        let fix = "kind::<ConfigMap>().namespace(\"a\").namespace(\"b\")";
        assert_names(&error, &["ConfigMap", "namespace a", fix, "live(Some(\"b\"))"]);
    }
    assert_names(&maps.get_opt(&key("m")).await.unwrap_err(), &["ConfigMap m", "namespace a"]);
    assert_eq!(names(&maps.list(&ListQuery::all().namespace("a")).await.unwrap()), ["m"]);
}

/// As in controller-runtime.
#[tokio::test(start_paused = true)]
async fn a_list_over_all_namespaces_is_the_union_of_the_declared_ones() {
    let both = kind::<ConfigMap>().namespace("a").namespace("b");
    let world = World::new(|manager| manager.declare(both).unwrap()).await;
    for name in ["a/one", "b/two", "default/three"] {
        world.client.create(&map(name, "1")).await.unwrap();
    }
    let maps = world.client.objects::<ConfigMap>();
    for found in [
        maps.list(&ListQuery::all()).await.unwrap(),
        maps.list(&ListQuery::all().namespace("")).await.unwrap(),
        maps.list(&ListQuery::all().labels(labels("!app"))).await.unwrap(),
        maps.list(&ListQuery::all().namespace("").labels(labels("!app"))).await.unwrap(),
        maps.list(&ListQuery::all()).await.unwrap(),
        maps.list(&ListQuery::all().namespace("")).await.unwrap(),
    ] {
        assert_eq!(names(&found), ["one", "two"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_contradicts_the_selected_fields_is_outside_the_cache() {
    let world = World::new(|manager| {
        manager.declare(kind::<ConfigMap>().fields("metadata.name=m,metadata.namespace!=b")).unwrap();
    })
    .await;
    let maps = world.client.objects::<ConfigMap>();
    assert!(maps.get_opt(&key("a/m")).await.unwrap().is_none());
    for name in ["a/other", "b/m"] {
        let error = maps.get_opt(&key(name)).await.unwrap_err();
        assert_names(&error, &["ConfigMap", name, "fields metadata.name=m,metadata.namespace!=b", "live(Some("]);
    }
    assert_names(
        &maps.list(&ListQuery::all().namespace("b")).await.unwrap_err(),
        &["namespace \"b\"", "fields metadata.name=m"],
    );
    assert!(maps.list(&ListQuery::all().namespace("a")).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn labels_that_the_cache_cannot_hold_are_outside_it() {
    let selective = kind::<ConfigMap>().labels("app in (web,db),!old");
    let world = World::new(|manager| manager.declare(selective).unwrap()).await;
    let maps = world.client.objects::<ConfigMap>();
    maps.create(&labelled("a/m", "app=web")).await.unwrap();
    for outside in ["app=other", "!app", "app notin (web,db)", "old", "old=1", "app=web,old=1"] {
        let error = maps.list(&ListQuery::all().labels(labels(outside))).await.unwrap_err();
        assert_names(&error, &["ConfigMap", &labels(outside).to_string(), "labels app in (db,web),!old"]);
        assert!(maps.list(&ListQuery::all().labels(labels(outside))).await.is_err());
    }
    for (inside, found) in [("app=web", 1), ("app=db", 0), ("app!=db", 1), ("tier=1", 0), ("!old", 1), ("app", 1)] {
        assert_eq!(maps.list(&ListQuery::all().labels(labels(inside))).await.unwrap().len(), found, "{inside}");
    }
    // These match nothing anywhere.
    assert!(maps.list(&ListQuery::all().labels(LabelSelector::nothing())).await.unwrap().is_empty());
    assert!(maps.list(&ListQuery::all().labels(labels("app=web,app=other"))).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn create_or_update_outside_the_cache_is_refused_before_anything_is_sent() {
    let world = World::new(|manager| {
        manager.declare(kind::<ConfigMap>().namespace("a").labels("app=web")).unwrap();
        manager.declare(kind::<Secret>().fields("type=example.com/a")).unwrap();
    })
    .await;
    let maps = world.client.objects::<ConfigMap>();
    let relabel =
        |value: &'static str| move |map: &mut ConfigMap| map.metadata.labels = labelled("a/m", value).metadata.labels;
    let error = maps.create_or_update(labelled("b/m", "app=web"), |_| ()).await.unwrap_err();
    assert_names(&error, &["ConfigMap b/m", "namespace a", "labels app=web"]);
    for new in [labelled("a/m", "app=other"), map("a/m", "1")] {
        let error = maps.create_or_update(new.clone(), |_| ()).await.unwrap_err();
        assert_names(&error, &["ConfigMap a/m", "labels app=web"]);
        assert_names(&maps.create_or_patch(new, |_| ()).await.unwrap_err(), &["ConfigMap a/m", "labels app=web"]);
    }
    let secret =
        Secret { metadata: with_client::meta("a/s"), type_: Some("example.com/b".to_owned()), ..Secret::default() };
    let error = world.client.create_or_update(secret.clone(), |_| ()).await.unwrap_err();
    assert_names(&error, &["Secret a/s", "fields type=example.com/a"]);
    assert!(world.writes().is_empty());

    // The object that the function has changed counts, also if the object exists.
    let (_, result) = maps.create_or_update(map("a/m", "1"), relabel("app=web")).await.unwrap();
    assert_eq!(result, OperationResult::Created);
    world.writes();
    assert_names(&maps.create_or_update(map("a/m", "1"), relabel("app=other")).await.unwrap_err(), &["ConfigMap a/m"]);
    assert_names(&maps.create_or_patch(map("a/m", "1"), relabel("app=other")).await.unwrap_err(), &["ConfigMap a/m"]);
    assert!(world.writes().is_empty());
    // A field that only the server knows decides nothing.
    let of_any_type = Secret { type_: None, ..secret };
    world.client.create_or_update(of_any_type, |_| ()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_that_exists_outside_the_selection_is_not_an_endless_conflict() {
    let world = World::new(|manager| manager.declare(kind::<ConfigMap>().labels("app=web")).unwrap()).await;
    let there = world.other.namespaced::<ConfigMap>("a");
    there.create(&PostParams::default(), &labelled("a/m", "app=other")).await.unwrap();
    let maps = world.client.objects::<ConfigMap>();
    for error in [
        maps.create_or_update(labelled("a/m", "app=web"), |_| ()).await.unwrap_err(),
        maps.create_or_patch(labelled("a/m", "app=web"), |_| ()).await.unwrap_err(),
    ] {
        assert!(!error.is_already_exists(), "{error}");
        assert_names(&error, &["ConfigMap a/m", "exists", "labels app=web"]);
    }
    // A read of an object that has not arrived in the cache yet can be retried.
    world.network.hold("watch=true");
    there.create(&PostParams::default(), &labelled("a/late", "app=web")).await.unwrap();
    let error = maps.create_or_update(labelled("a/late", "app=web"), |_| ()).await.unwrap_err();
    assert!(error.is_already_exists(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_index_names_the_call_that_declares_it() {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let world = World::new(|manager| {
        manager.declare(kind::<ConfigMap>().index("app", Index::label("app"))).unwrap();
        manager.declare(dynamic(&resource)).unwrap();
    })
    .await;
    let maps = world.client.objects::<ConfigMap>();
    for error in [
        maps.list(&ListQuery::all().index("node", "n")).await.unwrap_err(),
        maps.list(&ListQuery::all().index("node", "n")).await.unwrap_err(),
    ] {
        assert_names(&error, &["\"node\"", "\"app\"", "Manager::declare(kind::<ConfigMap>().index(\"node\", …))"]);
        assert!(!error.to_string().contains("add_index"), "{error}");
    }
    let error = world.client.dynamic(&resource).list(&ListQuery::all().index("node", "n")).await.unwrap_err();
    assert_names(&error, &["dynamic(<configmaps>).index(\"node\", …)"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_read_of_a_kind_whose_metadata_alone_are_cached_names_both_fixes() {
    let resource = ApiResource::erase::<Secret>(&());
    let world = World::new(|manager| {
        manager.declare(metadata::<ConfigMap>()).unwrap();
        manager.declare(metadata::<Secret>()).unwrap();
        manager.declare(dynamic(&resource)).unwrap();
    })
    .await;
    let error = world.client.get::<ConfigMap>(&key("a/m")).await.unwrap_err();
    let fixes = ["only the metadata", "metadata::<ConfigMap>()", "Manager::declare(kind::<ConfigMap>())"];
    assert_names(&error, &fixes);
    // Whole objects are cached here, in another form.
    let error = world.client.get::<Secret>(&key("a/m")).await.unwrap_err();
    assert!(!error.to_string().contains("only the metadata"), "{error}");
}

#[derive(Debug, thiserror::Error)]
enum Wrapped {
    #[error(transparent)]
    Transparent(Error),
    #[error("the read failed")]
    Caused(#[source] Box<Wrapped>),
}

/// How many times a reconcile runs whose read fails.
async fn tries(read: fn(Context<ConfigMap>) -> futures::future::BoxFuture<'static, ReconcileError>) -> usize {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, _: ObjectKey| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { Err::<Action, _>(read(ctx).await) }
    });
    let world = World::new(|manager| {
        manager.controller(kind::<ConfigMap>().namespace("a")).complete(reconciler).unwrap();
    })
    .await;
    world.client.create(&map("a/m", "1")).await.unwrap();
    eventually("the reconcile has run", || async { tries.load(Ordering::Relaxed) > 0 }).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    tries.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_reads_what_is_not_cached_is_not_tried_again() {
    let undeclared = |ctx: Context<ConfigMap>| -> futures::future::BoxFuture<'static, ReconcileError> {
        Box::pin(async move { ctx.client().get::<Pod>(&key("a/p")).await.unwrap_err().into() })
    };
    assert_eq!(tries(undeclared).await, 1, "an undeclared kind");
    assert_eq!(
        tries(|ctx| Box::pin(async move { ctx.object(&key("b/m")).await.unwrap_err().into() })).await,
        1,
        "the controller's own kind in another namespace"
    );
    let missing_index = |ctx: Context<ConfigMap>| -> futures::future::BoxFuture<'static, ReconcileError> {
        Box::pin(async move {
            let error =
                ctx.client().objects::<ConfigMap>().list(&ListQuery::all().index("none", "n")).await.unwrap_err();
            Wrapped::Caused(Box::new(Wrapped::Transparent(error))).into()
        })
    };
    assert_eq!(tries(missing_index).await, 1, "a missing index, in the user's own error");
    let transparent = |ctx: Context<ConfigMap>| -> futures::future::BoxFuture<'static, ReconcileError> {
        Box::pin(async move { Wrapped::Transparent(ctx.client().get::<Pod>(&key("a/p")).await.unwrap_err()).into() })
    };
    assert_eq!(tries(transparent).await, 1, "an undeclared kind, in a transparent error");
    let boxed = |ctx: Context<ConfigMap>| -> futures::future::BoxFuture<'static, ReconcileError> {
        Box::pin(async move { ReconcileError::new(ctx.client().get::<Pod>(&key("a/p")).await.unwrap_err()) })
    };
    assert_eq!(tries(boxed).await, 1, "an undeclared kind, in a box");
    let other = |ctx: Context<ConfigMap>| -> futures::future::BoxFuture<'static, ReconcileError> {
        let patch = Patch::Merge(serde_json::json!({}));
        Box::pin(
            async move { ctx.client().objects::<ConfigMap>().patch(&key("a/none"), &patch).await.unwrap_err().into() },
        )
    };
    assert!(tries(other).await > 1, "any other error");
}
