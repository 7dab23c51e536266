//! Clocks and randomness that a test sets.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{Backoff, Client, ObjectMeta, PostParams, World};
use steersman_runtime::{Action, Context, Manager, ObjectKey, kind, reconcile_fn};
use steersman_testing::Embedded;
use tokio::time::{Instant, advance};

use crate::support::{Log, Maps, eventually, map, run};

const SEED: u64 = 7;

fn seeded() -> World {
    World::seeded(SEED, "2026-01-31T10:00:00Z".parse().unwrap())
}

fn client(server: &Embedded, world: World) -> Client {
    server.client().with_world(world)
}

/// The metadata that a server with a seeded world gives to two objects, one with a generated name.
async fn created() -> Vec<ObjectMeta> {
    let server = Embedded::with_world(seeded());
    let maps = client(&server, seeded()).namespaced::<ConfigMap>("default");
    let mut generated = map("x", "1");
    (generated.metadata.name, generated.metadata.generate_name) = (None, Some("x-".to_owned()));
    let mut created = Vec::new();
    for map in [map("a", "1"), generated] {
        advance(Duration::from_secs(60)).await;
        created.push(maps.create(&PostParams::default(), &map).await.unwrap().metadata);
    }
    created
}

#[tokio::test(start_paused = true)]
async fn a_seeded_server_gives_the_same_uids_names_and_times() {
    let (first, second) = (created().await, created().await);
    assert_eq!(first, second);
    let times: Vec<_> = first.iter().map(|meta| meta.creation_timestamp.as_ref().unwrap().0.to_string()).collect();
    assert_eq!(times, ["2026-01-31T10:01:00Z", "2026-01-31T10:02:00Z"]);
    assert_ne!(first[0].uid, first[1].uid);
    assert_eq!(first[1].name.as_ref().unwrap().len(), "x-".len() + 5);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_sees_the_time_of_the_managers_world() {
    let server = Embedded::empty();
    let world = seeded();
    let manager = Manager::builder(server.client()).world(world.clone()).build();
    let (times, maps) = (Log::new(), Maps::new(&server.client()));
    let noted = times.clone();
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, _: ObjectKey| {
        noted.push(ctx.now());
        async { Ok(Action::done()) }
    });
    manager.controller(kind::<ConfigMap>()).complete(reconciler).unwrap();
    let running = run(&manager).await;
    world.set_now("2030-01-01T00:00:00Z".parse().unwrap());
    maps.create("a").await;
    eventually("the object is reconciled", || times.len() == 1).await;
    running.stop().await.unwrap();
    let seen = times.all();
    assert!(seen[0].to_string().starts_with("2030-01-01T00:0"), "{seen:?}");
    assert_eq!(manager.world().now(), world.now());
}

/// The delays between attempts that all end in a conflict.
async fn delays(world: World) -> Vec<Duration> {
    let server = Embedded::empty();
    let (manager, maps) = (Manager::new(client(&server, world)), Maps::new(&server.client()));
    let outdated = maps.create("a").await;
    maps.set("a", "2").await;
    let (mut delays, mut last) = (Vec::new(), Instant::now());
    let result = manager.client().retry_on_conflict(Backoff::BACKOFF, || {
        delays.push(last.elapsed());
        last = Instant::now();
        manager.client().update(&outdated)
    });
    assert!(result.await.unwrap_err().is_conflict());
    delays
}

#[tokio::test(start_paused = true)]
async fn the_jitter_of_retries_comes_from_the_world() {
    let first = delays(seeded()).await;
    assert_eq!(first.len(), 4);
    assert_eq!(first, delays(seeded()).await);
    assert_ne!(first, delays(World::seeded(SEED + 1, seeded().now())).await);
}
