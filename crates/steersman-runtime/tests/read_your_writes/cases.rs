//! When a read waits, and when it does not.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::policy::v1::Eviction;
use serde_json::json;
use steersman_client::{ApiResource, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Status};
use steersman_runtime::{CachedClient, Error, ListQuery, dynamic, kind, metadata};
use steersman_testing::{Fault, Log};
use tokio::time::Instant;

use crate::with_client::{World, key, map, set_value, settle, value};

async fn read_value(client: &CachedClient) -> String {
    value(&client.get::<ConfigMap>(&key("a/m")).await.unwrap())
}

/// A cache of ConfigMaps that has `a/m` with the value 1, and whose watch delivers nothing more.
async fn held() -> World {
    let world = World::new(|manager| manager.declare(kind::<ConfigMap>()).unwrap()).await;
    world.client.create(&map("a/m", "1")).await.unwrap();
    assert_eq!(read_value(&world.client).await, "1");
    world.network.hold("watch=true");
    world
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_for_the_version_that_was_written() {
    let world = held().await;
    let maps = world.client.objects::<ConfigMap>();
    maps.patch(&key("a/m"), &Patch::Merge(set_value("2"))).await.unwrap();
    let client = world.client.clone();
    let read = tokio::spawn(async move { read_value(&client).await });
    settle().await;
    assert!(!read.is_finished(), "the cache does not have it yet");
    world.network.release();
    assert_eq!(read.await.unwrap(), "2");
}

/// The read waits for the earlier write, but not for the later one.
#[tokio::test(start_paused = true)]
async fn a_read_that_waits_is_not_released_by_a_later_write() {
    for later in ["patch", "delete"] {
        let world = World::new(|manager| manager.declare(kind::<ConfigMap>()).unwrap()).await;
        let maps = world.client.objects::<ConfigMap>();
        maps.create(&map("a/m", "1")).await.unwrap();
        maps.get(&key("a/m")).await.unwrap();
        world.network.delay_watches(Duration::from_millis(300));
        // Another event comes before the first write, and after the second is answered.
        world.other.namespaced::<ConfigMap>("b").create(&PostParams::default(), &map("b/n", "9")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        maps.patch(&key("a/m"), &Patch::Merge(set_value("2"))).await.unwrap();
        let reads = world.client.objects::<ConfigMap>();
        let read = tokio::spawn(async move { reads.list(&ListQuery::all()).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        match later {
            "patch" => drop(maps.patch(&key("a/m"), &Patch::Merge(set_value("3"))).await.unwrap()),
            _ => drop(maps.delete(&key("a/m"), &DeleteParams::default()).await.unwrap()),
        }
        let found: Vec<_> = read.await.unwrap().unwrap().iter().map(value).collect();
        assert!(!found.contains(&"1".to_owned()), "{later}: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_way_to_read_waits() {
    let world = held().await;
    world.client.create(&map("a/n", "1")).await.unwrap();
    let maps = world.client.objects::<ConfigMap>();
    let selector = steersman_wire::LabelSelector::parse("!app").unwrap();
    assert!(maps.list(&ListQuery::all()).await.unwrap_err().is_stale());
    assert!(maps.list(&ListQuery::all().namespace("a")).await.unwrap_err().is_stale());
    assert!(maps.list(&ListQuery::all().labels(selector.clone())).await.unwrap_err().is_stale());
    assert!(maps.list(&ListQuery::all().namespace("a").labels(selector.clone())).await.unwrap_err().is_stale());
    assert!(maps.list(&ListQuery::all().index("namespace", "a")).await.unwrap_err().is_stale());
    let query = ListQuery::all().namespace("a").labels(selector).index("namespace", "a");
    assert!(maps.list(&query).await.unwrap_err().is_stale());
    assert!(maps.list(&ListQuery::all().index("namespace", "b")).await.unwrap_err().is_stale());
    assert!(maps.get(&key("a/n")).await.unwrap_err().is_stale());
    // Other objects are not waited for.
    assert_eq!(read_value(&world.client).await, "1");
    assert!(maps.list(&ListQuery::all().namespace("b")).await.unwrap().is_empty());
    assert!(maps.list(&ListQuery::all().namespace("b")).await.unwrap().is_empty());
}

/// As in Go, the empty namespace means all of them.
#[tokio::test(start_paused = true)]
async fn a_read_of_the_empty_namespace_waits_for_objects_in_any_or_in_none() {
    let world = World::new(|manager| {
        manager.declare(kind::<ConfigMap>()).unwrap();
        manager.declare(kind::<Node>()).unwrap();
    })
    .await;
    world.network.hold("watch=true");
    world.client.create(&map("a/m", "1")).await.unwrap();
    let metadata = ObjectMeta { name: Some("n".to_owned()), ..ObjectMeta::default() };
    world.client.create(&Node { metadata, ..Node::default() }).await.unwrap();
    let (maps, nodes) = (world.client.objects::<ConfigMap>(), world.client.objects::<Node>());
    let selector = steersman_wire::LabelSelector::parse("!app").unwrap();
    let query = ListQuery::all().namespace("");
    assert!(nodes.list(&ListQuery::all().namespace("")).await.unwrap_err().is_stale());
    assert!(nodes.list(&ListQuery::all().namespace("").labels(selector.clone())).await.unwrap_err().is_stale());
    assert!(nodes.list(&query).await.unwrap_err().is_stale());
    assert!(maps.list(&ListQuery::all().namespace("")).await.unwrap_err().is_stale());
    assert!(maps.list(&ListQuery::all().namespace("").labels(selector.clone())).await.unwrap_err().is_stale());
    assert!(maps.list(&query).await.unwrap_err().is_stale());
    world.network.release();
    settle().await;
    for query in [query.clone(), query.clone().labels(selector.clone()), query.index("namespace", "a")] {
        assert_eq!(maps.list(&query).await.unwrap().len(), 1, "{query:?}");
    }
    assert_eq!(maps.list(&ListQuery::all().namespace("")).await.unwrap().len(), 1);
    assert_eq!(maps.list(&ListQuery::all().namespace("").labels(selector.clone())).await.unwrap().len(), 1);
    assert_eq!(nodes.list(&ListQuery::all().namespace("")).await.unwrap().len(), 1);
    assert_eq!(nodes.list(&ListQuery::all().namespace("").labels(selector.clone())).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_down_is_an_error_that_names_kind_key_wanted_and_reached_version() {
    let world = held().await;
    let maps = world.client.objects::<ConfigMap>();
    let before = maps.get(&key("a/m")).await.unwrap().meta().resource_version().to_owned();
    let written = maps.patch(&key("a/m"), &Patch::Merge(set_value("2"))).await.unwrap();
    let started = Instant::now();
    let error = maps.get(&key("a/m")).await.unwrap_err();
    assert_eq!(started.elapsed().as_secs(), 10);
    let wanted = written.metadata.resource_version.unwrap();
    let Error::Stale { kind, key: stale, wanted: named, reached, .. } = &error else { panic!("{error}") };
    assert_eq!((&**kind, &**stale), ("ConfigMap", "a/m"));
    assert_eq!((named, reached), (&format!("version {wanted}"), &before));
    let text = error.to_string();
    for part in ["ConfigMap", "a/m", &wanted, &before, "10s", "live()", "stale_ok()"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    world.network.release();
    assert_eq!(read_value(&world.client).await, "2");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_does_not_come_is_an_error_that_names_the_uid() {
    let world = held().await;
    let uid = world.client.get::<ConfigMap>(&key("a/m")).await.unwrap().meta().uid().to_owned();
    world.client.delete::<ConfigMap>(&key("a/m")).await.unwrap();
    // The wait has no limit.
    for _ in 0..50 {
        let error = world.client.get::<ConfigMap>(&key("a/m")).await.unwrap_err();
        assert!(error.to_string().contains(&uid), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn stale_ok_reads_do_not_wait() {
    let world = held().await;
    let maps = world.client.objects::<ConfigMap>();
    maps.patch(&key("a/m"), &Patch::Merge(set_value("2"))).await.unwrap();
    let started = Instant::now();
    assert_eq!(read_value(&world.client.stale_ok()).await, "1");
    assert!(started.elapsed().is_zero());
    assert!(maps.get(&key("a/m")).await.is_err(), "the client itself is as it was");
}

#[tokio::test(start_paused = true)]
async fn a_manager_can_do_without() {
    let world = World::with(None, |manager| manager.declare(kind::<ConfigMap>()).unwrap()).await;
    world.network.hold("watch=true");
    world.client.create(&map("a/m", "1")).await.unwrap();
    assert!(world.client.get::<ConfigMap>(&key("a/m")).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn dry_runs_promise_nothing() {
    let world = held().await;
    let maps = world.client.dry_run().objects::<ConfigMap>();
    maps.patch(&key("a/m"), &Patch::Merge(set_value("2"))).await.unwrap();
    maps.create(&map("a/n", "1")).await.unwrap();
    maps.delete(&key("a/m"), &DeleteParams::default()).await.unwrap();
    let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
    world.client.objects::<ConfigMap>().delete(&key("a/m"), &params).await.unwrap();
    assert_eq!(read_value(&world.client).await, "1");
    assert!(world.client.get::<ConfigMap>(&key("a/n")).await.unwrap_err().is_not_found());
    assert_eq!(world.client.remembered_writes(), 1, "a/m, which was made before");
}

#[tokio::test(start_paused = true)]
async fn subresources_that_are_created_promise_nothing() {
    let world = World::new(|manager| manager.declare(kind::<Pod>()).unwrap()).await;
    let pods = world.client.objects::<Pod>();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&serde_json::from_value(pod).unwrap()).await.unwrap();
    pods.get(&key("a/p")).await.unwrap();
    world.network.hold("watch=true");
    let eviction = Eviction { metadata: crate::with_client::meta("a/p"), ..Eviction::default() };
    let _: Status = pods.subresource("eviction").create(&key("a/p"), &eviction).await.unwrap();
    assert!(pods.get(&key("a/p")).await.unwrap().meta().deletion_timestamp().is_none());
    assert!(pods.live(Some("a")).get_opt("p").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn collections_that_are_deleted_promise_nothing() {
    let world = held().await;
    let api = world.client.objects::<ConfigMap>().live(Some("a"));
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert_eq!(read_value(&world.client).await, "1");
}

#[tokio::test(start_paused = true)]
async fn writes_past_the_client_promise_nothing() {
    let world = held().await;
    let api = world.client.live().namespaced::<ConfigMap>("a");
    api.patch("m", &PatchParams::default(), &Patch::Merge(set_value("2"))).await.unwrap();
    assert_eq!(read_value(&world.client).await, "1");
}

#[tokio::test(start_paused = true)]
async fn typed_dynamic_and_metadata_caches_of_a_kind_each_wait() {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let world = World::new(|manager| {
        manager.declare(kind::<ConfigMap>()).unwrap();
        manager.declare(dynamic(&resource)).unwrap();
        manager.declare(metadata::<ConfigMap>()).unwrap();
    })
    .await;
    let (typed, metadata) = (world.client.objects::<ConfigMap>(), world.client.metadata::<ConfigMap>());
    let dynamic = world.client.dynamic(&resource);
    world.network.hold("PartialObjectMetadata");
    typed.create(&map("a/m", "1")).await.unwrap();
    assert_eq!(value(&typed.get(&key("a/m")).await.unwrap()), "1");
    assert_eq!(dynamic.get(&key("a/m")).await.unwrap().get().unwrap().data["data"]["value"], "1");
    assert!(metadata.get(&key("a/m")).await.unwrap_err().is_stale());
    world.network.release();
    metadata.get(&key("a/m")).await.unwrap();

    // Through any of the clients.
    let patch = |name: &str| Patch::Merge(json!({"metadata": {"labels": {"by": name}}}));
    world.network.delay_watches(Duration::from_millis(100));
    metadata.patch(&key("a/m"), &patch("metadata")).await.unwrap();
    assert_eq!(typed.get(&key("a/m")).await.unwrap().meta().label("by"), Some("metadata"));
    dynamic.patch(&key("a/m"), &patch("dynamic")).await.unwrap();
    assert_eq!(metadata.get(&key("a/m")).await.unwrap().meta().label("by"), Some("dynamic"));
    assert_eq!(typed.get(&key("a/m")).await.unwrap().meta().label("by"), Some("dynamic"));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_written_in_one_version_is_read_in_another() {
    use k8s_openapi::api::autoscaling::{v1, v2};
    let world = World::new(|manager| {
        manager.declare(kind::<v1::HorizontalPodAutoscaler>()).unwrap();
        manager.declare(kind::<v2::HorizontalPodAutoscaler>()).unwrap();
    })
    .await;
    world.network.delay_watches(Duration::from_millis(100));
    let scaler = json!({"metadata": {"name": "s", "namespace": "a"}, "spec": {"maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
    let scaler: v1::HorizontalPodAutoscaler = serde_json::from_value(scaler).unwrap();
    world.client.create(&scaler).await.unwrap();
    world.client.get::<v2::HorizontalPodAutoscaler>(&key("a/s")).await.unwrap();
    world.client.delete::<v1::HorizontalPodAutoscaler>(&key("a/s")).await.unwrap();
    assert!(world.client.get::<v2::HorizontalPodAutoscaler>(&key("a/s")).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn a_subresource_that_is_written_is_seen_in_its_object() {
    let world = World::new(|manager| manager.declare(kind::<Deployment>().labels("app=web")).unwrap()).await;
    let deployments = world.client.objects::<Deployment>();
    let deployment = json!({"metadata": {"name": "d", "namespace": "a", "labels": {"app": "web"}}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    deployments.create(&serde_json::from_value(deployment).unwrap()).await.unwrap();
    world.network.delay_watches(Duration::from_millis(100));
    let replicas = async || deployments.get(&key("a/d")).await.unwrap().get().unwrap().spec.clone().unwrap().replicas;
    let mut scale: Scale = deployments.live(Some("a")).subresource("scale").get("d").await.unwrap();
    scale.spec.get_or_insert_default().replicas = Some(3);
    deployments.subresource("scale").update(&key("a/d"), &scale).await.unwrap();
    assert_eq!(replicas().await, Some(3));
    let patch = Patch::Merge(json!({"spec": {"replicas": 5}}));
    let _: Scale = deployments.subresource("scale").patch(&key("a/d"), &patch).await.unwrap();
    assert_eq!(replicas().await, Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_read_does_not_wait_for_what_is_written_after_it_began() {
    let world = World::new(|manager| manager.declare(kind::<ConfigMap>()).unwrap()).await;
    world.network.delay_watches(Duration::from_millis(500));
    let client = world.client.clone();
    let writer = tokio::spawn(async move {
        for number in 0.. {
            client.create(&map(&format!("a/{number}"), "1")).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    settle().await;
    // There are always ten that have not arrived.
    let started = Instant::now();
    let found = world.client.objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap();
    assert!(found.len() >= 40, "{}", found.len());
    assert!(started.elapsed() <= Duration::from_millis(500), "{:?}", started.elapsed());
    writer.abort();
}

#[tokio::test(start_paused = true)]
async fn kinds_whose_versions_do_not_compare_are_excluded_and_logged() {
    let world = held().await;
    let mut answer = serde_json::to_value(map("a/m", "2")).unwrap();
    answer["metadata"]["resourceVersion"] = json!("not-a-number");
    world.network.fail("PATCH /api/v1/namespaces/a/configmaps/m", Fault::Body(answer));
    let log = Log::new();
    let _guard = tracing::subscriber::set_default(LogOutput(log.clone()));
    for _ in 0..2 {
        let maps = world.client.objects::<ConfigMap>();
        maps.patch(&key("a/m"), &Patch::Merge(set_value("2"))).await.unwrap();
        assert_eq!(read_value(&world.client).await, "1");
    }
    let lines = log.all();
    let lines: Vec<_> = lines.iter().filter(|line| line.contains("do not compare")).collect();
    assert_eq!(lines.len(), 1, "once: {lines:?}");
    assert!(lines[0].contains("configmaps"), "{lines:?}");
}

/// Stores the log output.
struct LogOutput(Log<String>);

impl tracing::Subscriber for LogOutput {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.push(line.0);
    }

    fn enter(&self, _: &tracing::Id) {}
    fn exit(&self, _: &tracing::Id) {}
}

struct Line(String);

impl tracing::field::Visit for Line {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}
