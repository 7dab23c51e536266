//! Options of caches: defaults for all kinds, for one namespace, of reflectors, and their errors.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use steersman_cache::{Reason, ReflectorOptions};
use steersman_client::{Client, ObjectMeta, PostParams};
use steersman_runtime::{
    CacheDefaults, Error, ListQuery, Manager, NamespaceOptions, ObjectKey, StorageMode, StorageOptions, kind,
};
use steersman_testing::Embedded;
use steersman_wire::{LabelSelector, Strip};

use crate::support::*;

fn meta(namespace: &str, name: &str, app: &str) -> ObjectMeta {
    let labels = Some([("app".to_owned(), app.to_owned())].into());
    ObjectMeta { labels, ..ObjectKey::new(namespace, name).to_meta() }
}

/// ConfigMaps and Secrets, one for each label in each of two namespaces.
async fn fill(client: &Client) {
    let new = PostParams::default();
    for namespace in ["shop", "bank"] {
        let metadata = ObjectMeta { name: Some(namespace.to_owned()), ..ObjectMeta::default() };
        client.cluster().create(&new, &Namespace { metadata, ..Namespace::default() }).await.unwrap();
        for app in ["web", "db"] {
            let map = ConfigMap { metadata: meta(namespace, app, app), ..ConfigMap::default() };
            client.namespaced(namespace).create(&new, &map).await.unwrap();
            let secret = Secret { metadata: meta(namespace, app, app), ..Secret::default() };
            client.namespaced(namespace).create(&new, &secret).await.unwrap();
        }
    }
}

/// The keys of all cached ConfigMaps.
async fn maps(manager: &Manager) -> Vec<String> {
    let maps = manager.client().objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap();
    let mut keys: Vec<_> = maps.iter().map(|map| map.key().to_string()).collect();
    keys.sort();
    keys
}

#[tokio::test(start_paused = true)]
async fn the_defaults_of_the_manager_apply_to_every_kind_without_options() {
    let server = Embedded::empty();
    fill(&server.client()).await;
    let defaults = CacheDefaults::new().namespace("shop").labels("app=web");
    let manager = Manager::builder(server.client()).cache_defaults(defaults).build();
    manager.declare(kind::<ConfigMap>()).unwrap();
    manager.declare(kind::<Secret>().all_namespaces().labels("")).unwrap();
    manager.declare(kind::<Namespace>().labels("")).unwrap();
    let running = run(&manager).await;
    assert_eq!(maps(&manager).await, ["shop/web"]);
    let all = ListQuery::all();
    let secrets = manager.client().objects::<Secret>().list(&all.clone().namespace("bank")).await.unwrap();
    assert_eq!(secrets.len(), 2);
    let namespaces = manager.client().objects::<Namespace>().list(&all).await.unwrap();
    assert!(namespaces.len() > 2, "a kind without namespaces is not selected by namespace");
    // What the defaults leave out is an error, not "does not exist".
    let outside = manager.client().get::<ConfigMap>(&ObjectKey::new("bank", "web")).await.unwrap_err();
    assert!(matches!(outside, Error::NotCached(_)), "{outside}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn kinds_with_the_defaults_are_shared_and_others_are_refused() {
    let server = Embedded::empty();
    let defaults = CacheDefaults::new()
        .namespace("shop")
        .reflector(ReflectorOptions { page_size: 7, ..ReflectorOptions::default() });
    let manager = Manager::builder(server.client()).cache_defaults(defaults).build();
    // A controller that says nothing has the defaults, as all others.
    let nothing = steersman_runtime::reconcile_fn(|_, _| async { Ok(steersman_runtime::Action::done()) });
    manager.controller(kind::<ConfigMap>()).complete(nothing).unwrap();
    manager.declare(kind::<ConfigMap>()).unwrap();
    manager.declare(kind::<ConfigMap>().namespace("shop")).unwrap();
    manager.declare(kind::<ConfigMap>().storage(StorageOptions::default())).unwrap();
    assert!(manager.declare(kind::<ConfigMap>().namespace("bank")).is_err());
    let other = ReflectorOptions { page_size: 8, ..ReflectorOptions::default() };
    let error = manager.declare(kind::<ConfigMap>().reflector(other)).unwrap_err().to_string();
    assert!(error.contains("reflector options"), "{error}");
    let same = ReflectorOptions { page_size: 7, ..ReflectorOptions::default() };
    manager.declare(kind::<ConfigMap>().reflector(same)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_storage_options_of_the_manager_apply_to_every_kind_without_its_own() {
    let server = Embedded::empty();
    Maps::new(&server.client()).create("a").await;
    let strip = Strip::default().and(&"data".parse().unwrap());
    let defaults = CacheDefaults::new().storage_mode(StorageMode::Decoded).strip(strip.clone());
    let manager = Manager::builder(server.client()).cache_defaults(defaults).build();
    manager.declare(kind::<ConfigMap>()).unwrap();
    let same = StorageOptions { mode: StorageMode::Decoded, strip, ..StorageOptions::default() };
    manager.declare(kind::<ConfigMap>().storage(same.clone())).unwrap();
    let other = StorageOptions { mode: StorageMode::default(), ..same };
    assert!(manager.declare(kind::<ConfigMap>().storage(other)).is_err());
    manager.declare(kind::<Secret>().storage(StorageOptions::default())).unwrap();
    let running = run(&manager).await;
    let map = manager.client().get::<ConfigMap>(&key("a")).await.unwrap();
    assert_eq!(map.get().unwrap().data, None);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_has_selectors_of_its_own() {
    let server = Embedded::empty();
    fill(&server.client()).await;
    let manager = Manager::new(server.client());
    let web = NamespaceOptions::new().labels("app=web");
    let kinds = || kind::<ConfigMap>().namespace("shop").namespace_with("bank", web.clone());
    manager.declare(kinds()).unwrap();
    manager.declare(kinds()).unwrap();
    let other = kind::<ConfigMap>().namespace("shop").namespace("bank");
    assert!(manager.declare(other).is_err(), "the same namespaces with other selectors");
    let running = run(&manager).await;
    assert_eq!(maps(&manager).await, ["bank/web", "shop/db", "shop/web"]);
    let objects = manager.client().objects::<ConfigMap>();
    let query = ListQuery::all().namespace("bank").labels(LabelSelector::parse("app=db").unwrap());
    let outside = objects.list(&query).await.unwrap_err();
    assert!(outside.to_string().contains("bank (labels app=web)"), "{outside}");
    // What is written into it is waited for only if the cache keeps it.
    let new = ConfigMap { metadata: meta("bank", "new", "db"), ..ConfigMap::default() };
    manager.client().create(&new).await.unwrap();
    let new = ConfigMap { metadata: meta("bank", "web-2", "web"), ..ConfigMap::default() };
    manager.client().create(&new).await.unwrap();
    assert_eq!(maps(&manager).await, ["bank/web", "bank/web-2", "shop/db", "shop/web"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_reflector_of_a_kind_has_its_options() {
    let server = Embedded::empty();
    fill(&server.client()).await;
    let (network, through) = faulty_network(&server);
    let manager = Manager::new(through);
    let reflector = ReflectorOptions {
        streaming: false,
        page_size: 3,
        watch_timeout: Duration::from_secs(1_000),
        backoff_min: Duration::from_secs(100),
        backoff_max: Duration::from_secs(100),
        ..ReflectorOptions::default()
    };
    manager.declare(kind::<ConfigMap>().reflector(reflector)).unwrap();
    network.fail("/configmaps", Fault::Status(500));
    let running = start(&manager);
    settle().await;
    let requests = || network.take_requests().into_iter().filter(|it| it.contains("/configmaps")).collect::<Vec<_>>();
    assert_eq!(requests().len(), 1);
    tokio::time::sleep(Duration::from_secs(95)).await;
    assert_eq!(requests().len(), 0, "the first wait takes 100 s or more");
    network.mend();
    // At most twice the back-off, with the random factor.
    tokio::time::sleep(Duration::from_secs(110)).await;
    eventually("the cache is filled", || manager.is_ready()).await;
    let timeout = |request: &String| {
        let (_, query) = request.split_once("timeoutSeconds=")?;
        query.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    settle().await;
    let watches: Vec<_> = requests().iter().filter_map(timeout).collect();
    assert!(watches.iter().any(|seconds| (1_000..=2_000).contains(seconds)), "{watches:?}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_error_handler_gets_the_kind_and_the_error() {
    let server = Embedded::empty();
    let (network, through) = faulty_network(&server);
    let log = Log::<String>::new();
    let notes = log.clone();
    let manager = Manager::builder(through)
        .watch_error_handler(move |kind, error| {
            notes.note(format!("{kind} {:?}", error.reason));
            assert_ne!(error.reason, Reason::Throttled, "a handler that panics does not end the cache");
        })
        .build();
    manager.declare(kind::<ConfigMap>()).unwrap();
    manager.declare(kind::<Secret>()).unwrap();
    network.fail("/secrets", Fault::Status(403));
    let running = start(&manager);
    eventually("the failure is seen", || !log.is_empty()).await;
    assert_eq!(log.take()[0], "Secret Forbidden");
    network.mend();
    network.fail("/secrets", Fault::Status(429));
    eventually("the next failure is seen", || log.all().contains(&"Secret Throttled".to_owned())).await;
    network.mend();
    eventually("the cache is filled", || manager.is_ready()).await;
    assert!(log.take().iter().all(|note| note.starts_with("Secret ")));
    running.stop().await.unwrap();
}
