//! Several writers and readers at a time, on several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{ApiResource, DeleteParams, Patch};
use steersman_runtime::{Cached, CachedClient, ListQuery, dynamic, kind};

use crate::with_client::{World, key, map, set_value, value};

const WRITERS: usize = 4;
const WRITES: u64 = 200;

/// One writer's object. The nth write gives it the value n; each fifth one deletes it.
#[derive(Default)]
struct Object {
    /// The last write that was sent.
    sent: AtomicU64,
    /// The last write that the server has acknowledged.
    answered: AtomicU64,
}

fn deletes(write: u64) -> bool {
    write.is_multiple_of(5)
}

/// Whether a read that found this value shows the state after the last write that was acknowledged
/// when it began, or after a later one that was sent before it ended.
fn is_current(found: Option<u64>, answered: u64, sent: u64) -> bool {
    match found {
        Some(value) => (answered..=sent).contains(&value),
        None => (answered..=sent).any(deletes),
    }
}

async fn write(client: CachedClient, number: usize, objects: Arc<Vec<Object>>) {
    let (maps, name) = (client.objects::<ConfigMap>(), format!("a/{number}"));
    let key = key(&name);
    for write in 1..=WRITES {
        objects[number].sent.store(write, Ordering::SeqCst);
        let value = write.to_string();
        if deletes(write) {
            maps.delete(&key, &DeleteParams::default()).await.unwrap();
        } else if deletes(write - 1) {
            maps.create(&map(&name, &value)).await.unwrap();
        } else {
            maps.patch(&key, &Patch::Merge(set_value(&value))).await.unwrap();
        }
        objects[number].answered.store(write, Ordering::SeqCst);
        // Its own write, at once, on any thread.
        let found = maps.get_opt(&key).await.unwrap().map(|map| number_of(&map));
        assert_eq!(found, (!deletes(write)).then_some(write), "writer {number}");
    }
}

fn number_of(map: &Cached<ConfigMap>) -> u64 {
    value(map).parse().unwrap()
}

/// Reads all objects until all writes are done. Each read shows every write that was acknowledged
/// before it began. Returns the number of reads.
async fn read(client: CachedClient, resource: ApiResource, objects: Arc<Vec<Object>>) -> u32 {
    let (maps, dynamic) = (client.objects::<ConfigMap>(), client.dynamic(&resource));
    let load = |of: fn(&Object) -> &AtomicU64| -> Vec<u64> {
        objects.iter().map(|object| of(object).load(Ordering::SeqCst)).collect()
    };
    let mut reads = 0;
    while load(|object| &object.answered).iter().any(|answered| *answered < WRITES) {
        let answered = load(|object| &object.answered);
        let mut found = vec![None; WRITERS];
        match reads % 3 {
            0 => {
                for map in maps.list(&ListQuery::all()).await.unwrap() {
                    found[map.meta().name().parse::<usize>().unwrap()] = Some(number_of(&map));
                }
            }
            1 => {
                for object in dynamic.list(&ListQuery::all().namespace("a")).await.unwrap() {
                    let value = object.get().unwrap().data["data"]["value"].as_str().unwrap().parse().unwrap();
                    found[object.meta().name().parse::<usize>().unwrap()] = Some(value);
                }
            }
            _ => {
                for (number, found) in found.iter_mut().enumerate() {
                    *found = maps.get_opt(&key(&format!("a/{number}"))).await.unwrap().map(|map| number_of(&map));
                }
            }
        }
        let sent = load(|object| &object.sent);
        for (number, found) in found.into_iter().enumerate() {
            let (answered, sent) = (answered[number], sent[number]);
            assert!(is_current(found, answered, sent), "a/{number}: {found:?} is not in {answered}..={sent}");
        }
        reads += 1;
        // A read without a pending write does not yield its thread.
        tokio::task::yield_now().await;
    }
    reads
}

/// Contract 6 on real threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reads_on_other_threads_show_what_was_answered_before_they_began() {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let world = World::with(Some(Duration::from_secs(60)), |manager| {
        manager.declare(kind::<ConfigMap>()).unwrap();
        manager.declare(dynamic(&resource)).unwrap();
    })
    .await;
    world.network.delay_watches(Duration::from_millis(3));
    let objects: Arc<Vec<Object>> = Arc::new((0..WRITERS).map(|_| Object::default()).collect());
    let writers: Vec<_> =
        (0..WRITERS).map(|number| tokio::spawn(write(world.client.clone(), number, Arc::clone(&objects)))).collect();
    let readers: Vec<_> =
        (0..4).map(|_| tokio::spawn(read(world.client.clone(), resource.clone(), Arc::clone(&objects)))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
}
