//! Many writes of every kind, each followed by a read, while watches are late.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota, Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};
use steersman_client::{ApiResource, DeleteParams, Patch};
use steersman_runtime::{CachedClient, ListQuery, dynamic, kind, metadata};

use crate::with_client::{World, key, map, meta, set_value, value};

const ROUNDS: u64 = 1_000;

/// How many reads there were of each case, and how many of them were stale.
#[derive(Default)]
struct Tally(BTreeMap<&'static str, (u32, u32)>);

impl Tally {
    fn read(&mut self, case: &'static str, is_current: bool) {
        let (reads, stale) = self.0.entry(case).or_default();
        *reads += 1;
        *stale += u32::from(!is_current);
    }
}

/// In half of the rounds: lets the caches catch up, so that they have something old to show.
async fn pause(number: u64) {
    if (number / 10).is_multiple_of(2) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A thousand rounds; the reads wait for at most this long.
async fn rounds(limit: Option<Duration>) -> Tally {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let world = World::with(limit, |manager| {
        manager.declare(kind::<ConfigMap>()).unwrap();
        manager.declare(metadata::<ConfigMap>()).unwrap();
        manager.declare(dynamic(&resource)).unwrap();
        manager.declare(kind::<Secret>().labels("app=web")).unwrap();
        manager.declare(kind::<ServiceAccount>().namespace("a").namespace("b")).unwrap();
        manager.declare(kind::<ResourceQuota>()).unwrap();
    })
    .await;
    let mut tally = Tally::default();
    let mut random = 0x9e37_79b9_u64;
    for number in 0..ROUNDS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        world.network.delay_watches(Duration::from_millis(1 + (random >> 33) % 300));
        match number % 5 {
            0 => whole_life(&world.client, &resource, number, &mut tally).await,
            1 => finalizer(&world.client, number, &mut tally).await,
            2 => selector(&world.client, number, &mut tally).await,
            3 => namespaces(&world.client, number, &mut tally).await,
            _ => status(&world.client, number, &mut tally).await,
        }
    }
    tally
}

/// Create, update, patch, delete; read from the typed, the dynamic and the metadata cache.
async fn whole_life(client: &CachedClient, resource: &ApiResource, number: u64, tally: &mut Tally) {
    let name = format!("a/{number}");
    let key = key(&name);
    let (typed, dynamic) = (client.objects::<ConfigMap>(), client.dynamic(resource));
    let metadata = client.metadata::<ConfigMap>();
    let shows = async |wanted: &str| typed.get_opt(&key).await.unwrap().is_some_and(|map| value(&map) == wanted);

    let created = typed.create(&map(&name, "1")).await.unwrap();
    tally.read("create", shows("1").await);
    tally.read("create, dynamic", dynamic.get_opt(&key).await.unwrap().is_some());
    tally.read("create, metadata", metadata.get_opt(&key).await.unwrap().is_some());

    pause(number).await;
    let updated = typed.update(&ConfigMap { data: map(&name, "2").data, ..created }).await.unwrap();
    let version = updated.metadata.resource_version.unwrap();
    let has_version = |object: Option<&str>| object == Some(&*version);
    tally.read("update", shows("2").await);
    let found = dynamic.get_opt(&key).await.unwrap();
    tally.read("update, dynamic", has_version(found.as_ref().map(|found| found.meta().resource_version())));
    let found = metadata.get_opt(&key).await.unwrap();
    tally.read("update, metadata", has_version(found.as_ref().map(|found| found.meta().resource_version())));

    pause(number).await;
    typed.patch(&key, &Patch::Merge(set_value("3"))).await.unwrap();
    let list = typed.list(&ListQuery::all().namespace("a")).await.unwrap();
    tally.read("patch", list.iter().any(|map| map.key() == key && value(map) == "3"));

    pause(number).await;
    typed.delete(&key, &DeleteParams::default()).await.unwrap();
    tally.read("delete", typed.get_opt(&key).await.unwrap().is_none());
    tally.read("delete, dynamic", !dynamic.list(&ListQuery::all()).await.unwrap().iter().any(|map| map.key() == key));
    tally.read("delete, metadata", metadata.get_opt(&key).await.unwrap().is_none());

    typed.create(&map(&name, "4")).await.unwrap();
    tally.read("create again", shows("4").await);
}

/// A deletion that a finalizer delays, until it is removed.
async fn finalizer(client: &CachedClient, number: u64, tally: &mut Tally) {
    let name = format!("b/{number}");
    let maps = client.objects::<ConfigMap>();
    let mut held = map(&name, "1");
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    let key = key(&name);
    maps.create(&held).await.unwrap();
    pause(number).await;
    maps.delete(&key, &DeleteParams::default()).await.unwrap();
    let found = maps.get_opt(&key).await.unwrap();
    tally.read("delete with finalizer", found.is_some_and(|map| map.meta().deletion_timestamp().is_some()));
    pause(number).await;
    maps.patch(&key, &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await.unwrap();
    tally.read("last finalizer", maps.get_opt(&key).await.unwrap().is_none());
}

/// An object that leaves the selection of the cache, and comes back.
async fn selector(client: &CachedClient, number: u64, tally: &mut Tally) {
    let name = format!("a/{number}");
    let secrets = client.objects::<Secret>();
    let label = |value: &str| -> Patch<Value> { Patch::Merge(json!({"metadata": {"labels": {"app": value}}})) };
    let key = key(&name);
    let metadata = meta(&name);
    secrets.create(&Secret { metadata, ..Secret::default() }).await.unwrap();
    tally.read("create out of selector", secrets.get_opt(&key).await.unwrap().is_none());
    secrets.patch(&key, &label("web")).await.unwrap();
    tally.read("enter selector", secrets.get_opt(&key).await.unwrap().is_some());
    pause(number).await;
    secrets.patch(&key, &label("other")).await.unwrap();
    tally.read("leave selector", secrets.get_opt(&key).await.unwrap().is_none());
    tally.read(
        "leave selector",
        !secrets.list(&ListQuery::all()).await.unwrap().iter().any(|secret| secret.key() == key),
    );
}

/// A cache of two namespaces, of which the other one is idle.
async fn namespaces(client: &CachedClient, number: u64, tally: &mut Tally) {
    let namespace = if number.is_multiple_of(2) { "a" } else { "b" };
    let name = format!("{namespace}/{number}");
    let accounts = client.objects::<ServiceAccount>();
    let key = key(&name);
    let metadata = meta(&name);
    accounts.create(&ServiceAccount { metadata, ..ServiceAccount::default() }).await.unwrap();
    tally.read("create, namespaces", accounts.get_opt(&key).await.unwrap().is_some());
    let patch = Patch::Merge(json!({"automountServiceAccountToken": false}));
    let version = accounts.patch(&key, &patch).await.unwrap().metadata.resource_version.unwrap();
    let found = accounts.get_opt(&key).await.unwrap();
    tally.read("patch, namespaces", found.is_some_and(|found| found.meta().resource_version() == version));
    pause(number).await;
    accounts.delete(&key, &DeleteParams::default()).await.unwrap();
    let list = accounts.list(&ListQuery::all().namespace(namespace)).await.unwrap();
    tally.read("delete, namespaces", !list.iter().any(|account| account.key() == key));
}

async fn status(client: &CachedClient, number: u64, tally: &mut Tally) {
    let name = format!("a/{number}");
    let quotas = client.objects::<ResourceQuota>();
    let key = key(&name);
    let metadata = meta(&name);
    let mut quota = quotas.create(&ResourceQuota { metadata, ..ResourceQuota::default() }).await.unwrap();
    let used = |pods: &str| BTreeMap::from([("pods".to_owned(), Quantity(pods.to_owned()))]);
    let shows = async |pods: &str| {
        let found = quotas.get_opt(&key).await.unwrap();
        found.is_some_and(|found| found.get().unwrap().status.as_ref().and_then(|s| s.used.clone()) == Some(used(pods)))
    };
    quota.status.get_or_insert_default().used = Some(used("1"));
    quotas.update_status(&quota).await.unwrap();
    tally.read("status", shows("1").await);
    quotas.patch_status(&key, &Patch::Merge(json!({"status": {"used": {"pods": "2"}}}))).await.unwrap();
    tally.read("patch of status", shows("2").await);
}

#[tokio::test(start_paused = true)]
async fn no_read_is_stale_in_a_thousand_rounds_of_every_write() {
    let tally = rounds(Some(Duration::from_secs(10))).await;
    let reads: u32 = tally.0.values().map(|(reads, _)| reads).sum();
    assert!(u64::from(reads) >= ROUNDS, "{reads}");
    for (case, (reads, stale)) in tally.0 {
        assert_eq!(stale, 0, "{case}: {stale} of {reads} reads");
    }
}

/// The control: without read-your-writes, the same rounds do find stale reads.
#[tokio::test(start_paused = true)]
async fn without_read_your_writes_reads_are_stale() {
    for (case, (reads, stale)) in rounds(None).await.0 {
        assert_eq!(stale > 0, case != "create out of selector", "{case}: {stale} of {reads} reads");
    }
}
