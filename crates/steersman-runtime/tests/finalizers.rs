//! Finalizers: the helpers, and the hooks that run before an object is deleted.

mod with_client;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;
use steersman_cache::Cached;
use steersman_client::{Api, ApiResource, DeleteParams, Patch, PatchParams, PostParams};
use steersman_runtime::finalizer::{Finalizer, FinalizerState, add_finalizer, has_finalizer, remove_finalizer};
use steersman_runtime::{
    Action, CachedClient, Context, Kind, ObjectKey, ReconcileError, dynamic, dynamic_metadata, kind, metadata,
    reconcile_fn,
};
use steersman_testing::Log;
use with_client::{World, eventually, key, map, settle, value};

const OURS: &str = "example.com/ours";
const THEIRS: &str = "example.com/theirs";

fn count(log: &Log<String>, line: &str) -> usize {
    log.all().iter().filter(|other| *other == line).count()
}

/// A controller of ConfigMaps that only ensures a finalizer, and logs the result.
async fn world(finalizer: Finalizer<ConfigMap>) -> (World, Log<String>) {
    let (finalizer, log) = (Arc::new(finalizer), Log::default());
    let ends = log.clone();
    let reconcile = move |ctx: Context<ConfigMap>, key: ObjectKey| {
        let (finalizer, ends) = (Arc::clone(&finalizer), ends.clone());
        async move {
            let Some(object) = ctx.client().objects::<ConfigMap>().get_opt(&key).await? else {
                return Ok(Action::done());
            };
            let state = finalizer.ensure(&ctx, &object).await.inspect_err(|_| ends.note("failed"))?;
            ends.note(if state == FinalizerState::Active { "active" } else { "finalized" });
            Ok(Action::done())
        }
    };
    let world = World::new(|manager| {
        manager.controller(kind::<ConfigMap>()).complete(reconcile_fn(reconcile)).unwrap();
    })
    .await;
    (world, log)
}

fn finalizer() -> Finalizer<ConfigMap> {
    Finalizer::new(OURS).unwrap()
}

/// A hook that logs its name.
fn noting(
    log: &Log<String>,
    name: &'static str,
) -> impl Fn(Context<ConfigMap>, Cached<ConfigMap>) -> NoteFuture + use<> {
    let log = log.clone();
    move |_, _| {
        log.note(name);
        std::future::ready(Ok(()))
    }
}

type NoteFuture = std::future::Ready<Result<(), ReconcileError>>;

fn maps(world: &World) -> Api<ConfigMap> {
    world.other.namespaced("a")
}

/// Creates `a/m` and waits until it has the finalizer.
async fn create(world: &World, object: &ConfigMap) -> ConfigMap {
    let maps = maps(world);
    maps.create(&PostParams::default(), object).await.unwrap();
    eventually("the finalizer", || async { Some(maps.get("m").await.unwrap()).filter(|map| has_finalizer(map, OURS)) })
        .await
}

async fn gone(world: &World) {
    let maps = maps(world);
    eventually("the end", || async { maps.get_opt("m").await.unwrap().is_none() }).await;
}

#[test]
fn the_helpers_return_whether_something_changed_and_leave_others_alone() {
    let mut object = map("a/m", "1");
    assert!(!has_finalizer(&object, OURS) && !remove_finalizer(&mut object, OURS));
    assert_eq!(object, map("a/m", "1"), "nothing was left behind");
    assert!(add_finalizer(&mut object, THEIRS) && add_finalizer(&mut object, OURS));
    assert!(!add_finalizer(&mut object, OURS));
    assert!(has_finalizer(&object, OURS));
    assert!(remove_finalizer(&mut object, OURS) && !remove_finalizer(&mut object, OURS));
    assert_eq!(object.metadata.finalizers, Some(vec![THEIRS.to_owned()]));
    assert!(remove_finalizer(&mut object, THEIRS));
    assert_eq!(object, map("a/m", "1"));
}

#[test]
fn a_finalizer_needs_a_name_with_a_domain() {
    for name in ["", "cleanup", "example.com/", "example.com/a/b", "a b/c"] {
        let error = Finalizer::<ConfigMap>::new(name).unwrap_err().to_string();
        assert!(error.contains(&format!("{name:?}")), "{error}");
    }
    assert_eq!(finalizer().name(), OURS);
}

#[tokio::test(start_paused = true)]
async fn a_living_object_gets_the_finalizer_beside_those_of_others() {
    let (world, log) = world(finalizer()).await;
    let mut object = map("a/m", "1");
    add_finalizer(&mut object, THEIRS);
    let object = create(&world, &object).await;
    assert_eq!(object.metadata.finalizers, Some(vec![THEIRS.to_owned(), OURS.to_owned()]));
    settle().await;
    assert_eq!(count(&log, "failed"), 0);
    let version = maps(&world).get("m").await.unwrap().metadata.resource_version;
    assert_eq!(version, object.metadata.resource_version, "and once it has it, nothing is written");
}

#[tokio::test(start_paused = true)]
async fn hooks_run_in_order_while_the_last_state_is_in_the_cache() {
    let log = Log::default();
    let reading = {
        let log = log.clone();
        move |ctx: Context<ConfigMap>, object: Cached<ConfigMap>| {
            let log = log.clone();
            async move {
                let cached = ctx.client().get::<ConfigMap>(&object.key()).await?;
                assert!(cached.meta().deletion_timestamp().is_some());
                log.note(format!("{} {}", value(&object), value(&cached)));
                Ok::<_, ReconcileError>(())
            }
        }
    };
    let finalizer = finalizer().hook("first", noting(&log, "first")).hook("read", reading);
    let (world, _) = world(finalizer.hook("last", noting(&log, "last"))).await;
    create(&world, &map("a/m", "1")).await;
    let patch = Patch::Merge(json!({"data": {"value": "the last"}}));
    maps(&world).patch("m", &PatchParams::default(), &patch).await.unwrap();
    maps(&world).delete("m", &DeleteParams::default()).await.unwrap();
    gone(&world).await;
    settle().await;
    assert_eq!(log.all(), ["first", "the last the last", "last"]);
}

/// A hook that logs its name, and then fails this number of times.
fn failing(
    log: &Log<String>,
    name: &'static str,
    times: usize,
    failure: fn() -> ReconcileError,
) -> impl Fn(Context<ConfigMap>, Cached<ConfigMap>) -> NoteFuture + use<> {
    let log = log.clone();
    move |_, _| {
        log.note(name);
        std::future::ready(if count(&log, name) > times { Ok(()) } else { Err(failure()) })
    }
}

fn not_yet() -> ReconcileError {
    ReconcileError::message("not yet")
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_goes_only_after_all_hooks_have_succeeded() {
    let log = Log::default();
    let finalizer = finalizer().hook("a", noting(&log, "a")).hook("b", failing(&log, "b", 3, not_yet));
    let (world, ends) = world(finalizer.hook("c", noting(&log, "c"))).await;
    create(&world, &map("a/m", "1")).await;
    maps(&world).delete("m", &DeleteParams::default()).await.unwrap();
    eventually("a failure", || async { count(&ends, "failed") == 3 }).await;
    assert!(has_finalizer(&maps(&world).get("m").await.unwrap(), OURS));
    gone(&world).await;
    // After a hook that fails, the other hooks still run.
    assert_eq!((count(&log, "a"), count(&log, "b"), count(&log, "c")), (4, 4, 4));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_gives_up_does_not_keep_others_from_being_tried_again() {
    let log = Log::default();
    let gives_up = failing(&log, "gives up", 1, || ReconcileError::terminal("no use"));
    let (world, _) = world(finalizer().hook("a", gives_up).hook("b", failing(&log, "b", 1, not_yet))).await;
    create(&world, &map("a/m", "1")).await;
    maps(&world).delete("m", &DeleteParams::default()).await.unwrap();
    gone(&world).await;
    assert_eq!((count(&log, "gives up"), count(&log, "b")), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_others_stay_also_those_added_during_the_hooks() {
    let (world, ends) = world(finalizer().hook("none", |_, _| async { Ok::<_, ReconcileError>(()) })).await;
    let mut object = map("a/m", "1");
    add_finalizer(&mut object, THEIRS);
    create(&world, &object).await;
    maps(&world).delete("m", &DeleteParams::default()).await.unwrap();
    eventually("the end", || async { count(&ends, "finalized") > 0 }).await;
    settle().await;
    let left = maps(&world).get("m").await.unwrap().metadata.finalizers;
    assert_eq!(left, Some(vec![THEIRS.to_owned()]));
    assert_eq!(count(&ends, "failed"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_others_change_at_the_same_time_is_finalized_with_one_call_of_its_hooks() {
    let log = Log::default();
    let others: Arc<Mutex<Option<Api<ConfigMap>>>> = Arc::default();
    let changes = {
        let (log, others) = (log.clone(), Arc::clone(&others));
        move |_: Context<ConfigMap>, _: Cached<ConfigMap>| {
            log.note("hook");
            let api = others.lock().unwrap_or_else(PoisonError::into_inner).clone();
            async move {
                // Another controller removes its own finalizer while ours is running.
                let patch = Patch::Merge(json!({"metadata": {"finalizers": [OURS]}}));
                api.unwrap().patch("m", &PatchParams::default(), &patch).await?;
                Ok::<_, ReconcileError>(())
            }
        }
    };
    let (world, ends) = world(finalizer().hook("changes", changes)).await;
    *others.lock().unwrap_or_else(PoisonError::into_inner) = Some(maps(&world));
    let mut object = map("a/m", "1");
    add_finalizer(&mut object, THEIRS);
    create(&world, &object).await;
    // Our cache does not see it in time.
    world.network.delay_watches(Duration::from_millis(100));
    maps(&world).delete("m", &DeleteParams::default()).await.unwrap();
    gone(&world).await;
    settle().await;
    assert_eq!((count(&log, "hook"), count(&ends, "failed")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_added_to_an_object_that_others_have_changed() {
    let (world, ends) = world(finalizer()).await;
    world.network.delay_watches(Duration::from_millis(100));
    let maps = maps(&world);
    maps.create(&PostParams::default(), &map("a/m", "1")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let patch = Patch::Merge(json!({"metadata": {"finalizers": [THEIRS]}}));
    maps.patch("m", &PatchParams::default(), &patch).await.unwrap();
    settle().await;
    let finalizers = maps.get("m").await.unwrap().metadata.finalizers;
    assert_eq!(finalizers, Some(vec![THEIRS.to_owned(), OURS.to_owned()]));
    assert_eq!(count(&ends, "failed"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_another_client_releases_is_finalized() {
    let log = Log::default();
    let others: Arc<Mutex<Option<Api<ConfigMap>>>> = Arc::default();
    let hook = {
        let others = Arc::clone(&others);
        move |_: Context<ConfigMap>, _: Cached<ConfigMap>| {
            let api = others.lock().unwrap_or_else(PoisonError::into_inner).clone();
            async move {
                let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                api.unwrap().patch("m", &PatchParams::default(), &patch).await?;
                Ok::<_, ReconcileError>(())
            }
        }
    };
    let (world, ends) = world(finalizer().hook("note", noting(&log, "hook")).hook("let go", hook)).await;
    *others.lock().unwrap_or_else(PoisonError::into_inner) = Some(maps(&world));
    create(&world, &map("a/m", "1")).await;
    maps(&world).delete("m", &DeleteParams::default()).await.unwrap();
    gone(&world).await;
    settle().await;
    assert_eq!((count(&log, "hook"), count(&ends, "finalized"), count(&ends, "failed")), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_without_the_finalizer_is_left_alone() {
    let log = Log::default();
    let (world, ends) = world(finalizer().hook("note", noting(&log, "hook"))).await;
    // It is being deleted before the controller sees it.
    world.network.hold("watch=true");
    let mut object = map("a/m", "1");
    add_finalizer(&mut object, THEIRS);
    maps(&world).create(&PostParams::default(), &object).await.unwrap();
    maps(&world).delete("m", &DeleteParams::default()).await.unwrap();
    world.network.release();
    settle().await;
    assert_eq!(maps(&world).get("m").await.unwrap().metadata.finalizers, Some(vec![THEIRS.to_owned()]));
    assert!(log.all().is_empty(), "no hook was called");
    assert!(count(&ends, "finalized") > 0);
    assert!(world.client.get::<ConfigMap>(&key("a/m")).await.unwrap().meta().deletion_timestamp().is_some());
}

/// Objects of a kind that is known only at run time, namespaced or cluster-scoped, and objects of
/// which only the metadata is known.
#[tokio::test(start_paused = true)]
async fn objects_in_any_form_have_finalizers() {
    let (maps, namespaces) = (ApiResource::erase::<ConfigMap>(&()), ApiResource::erase::<Namespace>(&()));
    let resource = maps.clone();
    let of_maps = Finalizer::of(OURS, move |client| client.dynamic(&resource)).unwrap();
    is_finalized(dynamic(&maps), of_maps, "a/m").await;
    let resource = maps.clone();
    let of_metadata = Finalizer::of(OURS, move |client| client.dynamic_metadata(&resource)).unwrap();
    is_finalized(dynamic_metadata(&maps), of_metadata, "a/m").await;
    let of_metadata = Finalizer::of(OURS, CachedClient::metadata::<ConfigMap>).unwrap();
    is_finalized(metadata::<ConfigMap>(), of_metadata, "a/m").await;
    let resource = namespaces.clone();
    let of_namespaces = Finalizer::of(OURS, move |client| client.dynamic(&resource)).unwrap();
    is_finalized(dynamic(&namespaces).cluster_scoped(), of_namespaces, "m").await;
}

/// One object gets the finalizer, is deleted, and disappears once the hook, which fails once, has
/// succeeded.
async fn is_finalized<K>(kind: Kind<K>, finalizer: Finalizer<K>, name: &str)
where
    K: steersman_cache::Object + kube_core::Resource<DynamicType: Clone>,
{
    let log = Log::default();
    let hooked = log.clone();
    let finalizer = finalizer.hook("clean", move |_, object: Cached<K>| {
        let log = hooked.clone();
        async move {
            log.note(format!("clean {}", object.key()));
            if count(&log, &format!("clean {}", object.key())) == 1 {
                Err(ReconcileError::new("not yet"))
            } else {
                Ok(())
            }
        }
    });
    let finalizer = Arc::new(finalizer);
    let watched = key(name);
    let reconcile = move |ctx: Context<K>, key: ObjectKey| {
        let (finalizer, is_ours) = (Arc::clone(&finalizer), key == watched);
        async move {
            if let Some(object) = ctx.object(&key).await?.filter(|_| is_ours) {
                let _ = finalizer.ensure(&ctx, &object).await?;
            }
            Ok(Action::done())
        }
    };
    let world = World::new(|manager| manager.controller(kind).complete(reconcile_fn(reconcile)).unwrap()).await;
    let live = |namespaced: &str| match namespaced.split_once('/') {
        Some((namespace, name)) => (format!("/api/v1/namespaces/{namespace}/configmaps"), name.to_owned()),
        None => ("/api/v1/namespaces".to_owned(), namespaced.to_owned()),
    };
    let (path, object) = live(name);
    let rest = world.client.live().rest();
    rest.post().abs_path(&path).json(&json!({"metadata": {"name": object}})).send().await.unwrap();
    let path = format!("{path}/{object}");
    let finalizers = async || {
        let object = rest.get().abs_path(&path).send_for::<serde_json::Value>().await;
        object.map(|object| object["metadata"]["finalizers"].clone()).ok()
    };
    eventually("it has the finalizer", || async { finalizers().await == Some(json!([OURS])) }).await;
    rest.delete().abs_path(&path).send().await.unwrap();
    eventually("it is gone", || async { finalizers().await.is_none() }).await;
    assert_eq!(log.all(), [format!("clean {name}"), format!("clean {name}")]);
}
