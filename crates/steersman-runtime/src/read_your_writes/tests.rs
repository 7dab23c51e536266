use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;
use steersman_client::{DeleteParams, Patch, PostParams};
use steersman_testing::Embedded;

use super::core::{SETTLED_BY_A_LIST, SWEEP, UNPROVEN_MAX};
use super::*;
use crate::{CachedClient, Kind, ListQuery, Manager, kind};

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    (map.metadata.namespace, map.metadata.name) = (Some("default".to_owned()), Some(name.to_owned()));
    map.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    map
}

/// A client whose manager runs with this cache, in which there are a hundred objects.
async fn with_a_hundred(maps: Kind<ConfigMap>) -> CachedClient {
    let server = Embedded::empty();
    let other = server.client();
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("idle".to_owned());
    other.cluster::<Namespace>().create(&PostParams::default(), &namespace).await.unwrap();
    let manager = Manager::new(server.client());
    manager.declare(maps).unwrap();
    let client = manager.client().clone();
    tokio::spawn(async move { manager.start(std::future::pending()).await });
    for number in 0..100 {
        client.create(&map(&format!("stays-{number}"))).await.unwrap();
    }
    assert_eq!(client.objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap().len(), 100);
    client
}

/// Creates and deletes an object that was in the cache before.
async fn delete(client: &CachedClient, name: &str, finalizer: bool) {
    let (maps, key) = (client.objects::<ConfigMap>(), ObjectKey::new("default", name));
    let mut new = map(name);
    new.metadata.finalizers = finalizer.then(|| vec!["example.com/held".to_owned()]);
    maps.create(&new).await.unwrap();
    maps.get(&key).await.unwrap();
    maps.delete(&key, &DeleteParams::default()).await.unwrap();
    if finalizer {
        let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        maps.patch(&key, &none).await.unwrap();
    }
    assert!(maps.get_opt(&key).await.unwrap().is_none());
}

/// The cost of a list of the hundred objects after many deletions.
struct Cost {
    /// The number of remembered objects that the first list looks up.
    first: usize,
    /// The same of the hundredth list.
    hundredth: usize,
    /// The number of remembered objects.
    remembered: usize,
}

async fn after(deletions: usize, maps: Kind<ConfigMap>, finalizer: bool) -> Cost {
    let client = with_a_hundred(maps).await;
    for number in 0..deletions {
        delete(&client, &format!("goes-{number}"), finalizer).await;
    }
    let looks = || client.writes().looks();
    let mut costs = Vec::new();
    for _ in 0..100 {
        let before = looks();
        assert_eq!(client.objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap().len(), 100);
        costs.push(looks() - before);
    }
    Cost { first: costs[0], hundredth: costs[99], remembered: client.remembered_writes() }
}

#[tokio::test(start_paused = true)]
async fn a_list_does_not_pay_for_finalizations_that_the_cache_has_shown() {
    let Cost { first, hundredth, remembered } = after(5_000, kind(), true).await;
    assert!(first <= 100 + SETTLED_BY_A_LIST, "{first}");
    assert_eq!(hundredth, 0);
    assert!(remembered <= 2 * SWEEP, "{remembered}");
}

#[tokio::test(start_paused = true)]
async fn a_list_does_not_pay_for_deletions_from_a_cache_that_selects() {
    let labels = (2_500, kind().labels("app=web"), false);
    for (deletions, selective, finalizer) in [labels, (300, kind().fields("metadata.name!=x"), true)] {
        let Cost { first, hundredth, remembered } = after(deletions, selective, finalizer).await;
        assert!(first <= 100 && hundredth <= 100, "{first} {hundredth}");
        assert!(remembered <= 2 * UNPROVEN_MAX + SWEEP, "{remembered}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_does_not_pay_for_deletions_where_another_namespace_is_idle() {
    let both = || kind().namespace("default").namespace("idle");
    for finalizer in [false, true] {
        let Cost { first, hundredth, remembered } = after(600, both(), finalizer).await;
        assert!(first <= 100 + SETTLED_BY_A_LIST, "{first}");
        assert_eq!(hundredth, 0);
        assert!(remembered <= 2 * SWEEP, "{remembered}");
    }
}
