//! The factory: one informer for each kind and selection of objects.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_cache::{
    Error, Index, InformerOptions, ReflectorOptions, SharedInformerFactory, StorageMode, StorageOptions,
};
use steersman_client::{ApiResource, GroupVersionKind, World};
use steersman_testing::{Embedded, Fault, FaultyNetwork};

use crate::common::*;

fn node_index() -> Index<ConfigMap> {
    Index::path("data.node".parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn two_requests_for_a_kind_get_the_same_informer() {
    let server = Embedded::empty();
    let (network, client) = faulty_network(&server);
    let factory = SharedInformerFactory::new(client);
    let first = factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    let second = factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    factory.start().unwrap();
    factory.wait_for_cache_sync(LONG).await.unwrap();
    assert_eq!(network.requests().len(), 1, "{:?}", network.requests());
    second.stop().await.unwrap();
    assert!(first.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn another_choice_of_objects_is_another_informer() {
    let server = Embedded::empty();
    let (factory, _) = factory(&server);
    let all = factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    let of = |options| factory.informer::<ConfigMap>(options).unwrap();
    let namespaced = of(InformerOptions::all().namespace("a").namespace("b"));
    let labelled = of(InformerOptions::all().labels("app=web"));
    let by_field = of(InformerOptions::all().fields("metadata.name=a"));
    // The order of the namespaces does not matter, nor do duplicates.
    let same = of(InformerOptions::all().namespace("b").namespace("a").namespace("b"));
    same.stop().await.unwrap();
    assert!(namespaced.is_stopped());
    assert!(!all.is_stopped() && !labelled.is_stopped() && !by_field.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn two_factories_share_nothing() {
    let server = Embedded::empty();
    let (informer, one, _) = maps_informer(&server).await;
    let (other, two, _) = maps_informer(&server).await;
    one.shutdown().await.unwrap();
    assert!(informer.is_stopped() && !other.is_stopped());
    two.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_same_objects_kept_in_another_way_are_an_error() {
    let (factory, _) = factory(&Embedded::empty());
    let transform = |storage: StorageOptions<ConfigMap>| storage.transform(|map: &mut ConfigMap| map.data = None);
    let options = transform(stored(StorageMode::Decoded));
    let with = |storage: &StorageOptions<ConfigMap>| InformerOptions::all().storage(storage.clone());
    factory.informer(with(&options)).unwrap();
    factory.informer(with(&options)).unwrap();
    for other in [StorageOptions::default(), transform(stored(StorageMode::Decoded)), stored(StorageMode::Decoded)] {
        let error = factory.informer(with(&other)).unwrap_err();
        assert!(matches!(error, Error::OptionsConflict { options: "storage", .. }), "{error}");
        assert!(error.to_string().contains("/api/v1/configmaps"), "{error}");
    }
    let reflector = ReflectorOptions { page_size: 7, ..ReflectorOptions::default() };
    let error = factory.informer(with(&options).reflector(reflector)).unwrap_err();
    assert!(matches!(error, Error::OptionsConflict { options: "reflector", .. }), "{error}");
    // Informers of other objects may have other transforms.
    factory.informer(with(&StorageOptions::default()).namespace("a")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_who_want_the_same_index_both_get_it() {
    let (factory, _) = factory(&Embedded::empty());
    let with = |index| factory.informer::<ConfigMap>(InformerOptions::all().index("node", index));
    let informer = with(node_index()).unwrap();
    with(node_index()).unwrap();
    informer.add_index("node", node_index()).unwrap();
    let error = with(Index::label("node")).unwrap_err();
    assert!(matches!(&error, Error::IndexExists { name } if name == "node"), "{error}");
    // Functions are equal only if they are clones.
    let function = Index::function(|map: &ConfigMap| map.metadata.name.clone().into_iter().collect());
    informer.add_index("name", function.clone()).unwrap();
    informer.add_index("name", function).unwrap();
    let other = Index::function(|map: &ConfigMap| map.metadata.name.clone().into_iter().collect());
    let error = informer.add_index("name", other).unwrap_err().to_string();
    assert!(error.contains("cannot be compared") && error.contains("clone"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn options_that_make_no_sense_declare_nothing() {
    let (factory, _) = factory(&Embedded::empty());
    let twice = InformerOptions::all().index("node", node_index()).index("node", Index::label("node"));
    for options in [InformerOptions::all().labels("app in (a"), InformerOptions::all().namespace(""), twice] {
        assert!(factory.informer::<ConfigMap>(options).is_err());
    }
    assert!(factory.lister::<ConfigMap>().is_err());
    assert!(factory.status().is_empty());
}

#[tokio::test(start_paused = true)]
async fn start_starts_those_that_were_asked_for_since() {
    let server = Embedded::empty();
    let (maps, factory, _) = maps_informer(&server).await;
    let secrets = factory.informer::<Secret>(InformerOptions::all()).unwrap();
    let error = factory.wait_for_cache_sync(Duration::from_secs(1)).await.unwrap_err().to_string();
    assert_eq!(error, "caches not synced after 1s: /api/v1/secrets: not started");
    factory.start().unwrap();
    factory.wait_for_cache_sync(Duration::from_secs(1)).await.unwrap();
    assert!(secrets.has_synced() && maps.has_synced());
    assert_eq!(maps.status()[0].watches, 1, "it was not started again");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_sync_is_named_with_the_reason() {
    let server = Embedded::empty();
    let (network, client) = faulty_network(&server);
    network.fail("/secrets", Fault::Status(403));
    let factory = SharedInformerFactory::new(client);
    let networks = ApiResource::from_gvk(&GroupVersionKind::gvk("samplecrd.k8s.io", "v1", "Network"));
    factory.dynamic_informer(&networks, InformerOptions::all()).unwrap();
    factory.informer::<Secret>(InformerOptions::all().namespace("default")).unwrap();
    factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    factory.start().unwrap();
    let Err(Error::NotSynced { waiting, waited }) = factory.wait_for_cache_sync(Duration::from_secs(5)).await else {
        panic!("it has synced");
    };
    assert_eq!(waited, Duration::from_secs(5));
    assert_eq!(waiting.len(), 2, "{waiting:?}");
    assert!(waiting[0].contains("/api/v1/namespaces/default/secrets"), "{waiting:?}");
    assert!(waiting[0].contains("grant the verbs list and watch"), "{waiting:?}");
    assert!(waiting[1].contains("/apis/samplecrd.k8s.io/v1/networks"), "{waiting:?}");
    assert!(waiting[1].contains("apply its CustomResourceDefinition"), "{waiting:?}");
}

#[tokio::test(start_paused = true)]
async fn of_several_namespaces_those_that_do_not_sync_are_named() {
    let server = Embedded::empty();
    let (network, client) = faulty_network(&server);
    network.fail("/namespaces/kube-system/", Fault::Status(403));
    let factory = SharedInformerFactory::new(client);
    let options = InformerOptions::all().namespace("default").namespace("kube-system");
    let informer = factory.informer::<ConfigMap>(options).unwrap();
    factory.start().unwrap();
    let error = informer.wait_for_sync(Duration::from_secs(5)).await.unwrap_err().to_string();
    assert!(error.contains("/kube-system/") && !error.contains("/default/"), "{error}");
    network.mend();
    informer.wait_for_sync(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_there_is_does_not_panic() {
    let (_informer, factory, _) = maps_informer(&Embedded::empty()).await;
    factory.wait_for_cache_sync(Duration::MAX).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn shutdown_stops_all_and_waits_for_their_handlers() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a", "").await;
    let (maps, factory, _) = maps_informer(&server).await;
    let secrets = factory.informer::<Secret>(InformerOptions::all()).unwrap();
    factory.start().unwrap();
    let (log, _) = listen(&maps);
    factory.shutdown().await.unwrap();
    assert_eq!(log.take(), ["add a initial"]);
    assert!(maps.is_stopped() && secrets.is_stopped());
    assert!(factory.status().is_empty());
    factory.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_was_stopped_is_not_waited_for_and_frees_its_objects() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a", "").await;
    for remove in [false, true] {
        let (network, client) = faulty_network(&server);
        network.fail("/secrets", Fault::Silence);
        let factory = SharedInformerFactory::new(client);
        let decoded = InformerOptions::all().storage(stored(StorageMode::Decoded));
        let maps = factory.informer::<ConfigMap>(decoded).unwrap();
        let secrets = factory.informer::<Secret>(InformerOptions::all()).unwrap();
        factory.start().unwrap();
        maps.wait_for_sync(LONG).await.unwrap();
        let object = std::sync::Arc::downgrade(&maps.lister().get("default", "a").unwrap().get().unwrap());
        assert_eq!((object.strong_count(), factory.status().len()), (1, 2));
        // One stops during the wait.
        let (waited, ()) = tokio::join!(factory.wait_for_cache_sync(LONG), async {
            settle().await;
            secrets.stop().await.unwrap();
        });
        waited.unwrap();
        assert_eq!(factory.status().len(), 1);
        if remove {
            factory.remove(maps).await.unwrap();
            assert_eq!(object.strong_count(), 0, "its objects are still there");
        } else {
            maps.stop().await.unwrap();
            drop(maps);
        }
        assert!(factory.status().is_empty());
        assert_eq!(object.strong_count(), 0, "its objects are still there");
        factory.wait_for_cache_sync(LONG).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_figures_of_all_informers_can_be_seen() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a", "").await;
    let (maps, factory, _) = maps_informer(&server).await;
    let options =
        InformerOptions::all().namespace("default").namespace("b").labels("app=web").fields("metadata.name=a");
    factory.informer::<ConfigMap>(options).unwrap();
    let (_, handle) = listen(&maps);
    maps.lister().get("default", "a").unwrap().get().unwrap();
    let metrics = factory.metrics();
    let names: Vec<_> = metrics.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["/api/v1/configmaps", "/api/v1/configmaps in b, default where app=web and metadata.name=a"]);
    let (all, few) = (&metrics[0].1, &metrics[1].1);
    assert_eq!((all.objects, all.events_pending, all.storage.decodes_total), (1, handle.pending(), 1));
    assert_eq!((few.objects, few.events_pending), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_informer_is_removed_and_others_stay() {
    let server = Embedded::empty();
    let (maps, factory, _) = maps_informer(&server).await;
    let labelled = factory.informer::<ConfigMap>(InformerOptions::all().labels("app=web")).unwrap();
    let other = labelled.clone();
    factory.remove(labelled).await.unwrap();
    assert!(other.is_stopped() && !maps.is_stopped());
    assert_eq!(factory.status().len(), 1);
    // An informer of another factory is stopped, and nothing else happens.
    let (theirs, _factory, _) = maps_informer(&server).await;
    factory.remove(theirs.clone()).await.unwrap();
    assert!(theirs.is_stopped() && factory.lister::<ConfigMap>().is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_informer_is_stopped_at_run_time_and_another_started_for_the_kind() {
    let server = Embedded::empty();
    let (old, factory, client) = maps_informer(&server).await;
    old.stop().await.unwrap();
    assert!(factory.lister::<ConfigMap>().is_err(), "what is stopped is not kept any more");
    factory.start().unwrap();
    let new = factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    factory.start().unwrap();
    new.wait_for_sync(LONG).await.unwrap();
    let version = Maps::new(&client).create("a", "").await;
    new.lister().wait_for_version(&version, LONG).await.unwrap();
    assert_eq!(names(&factory.lister::<ConfigMap>().unwrap().list()), ["a"]);
    assert!(old.lister().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failure_names_the_informer_and_what_panicked() {
    let (network, client) = faulty_network(&Embedded::empty());
    network.fail("configmaps", Fault::Panic);
    let factory = SharedInformerFactory::new(client);
    let informer = factory.informer::<ConfigMap>(InformerOptions::all().namespace("a")).unwrap();
    factory.start().unwrap();
    let error = tokio::time::timeout(LONG, factory.failed()).await.expect("it fails at once");
    assert!(
        matches!(&error, Error::Failed { panic, .. } if panic.starts_with("planted panic while sending GET")),
        "{error}"
    );
    assert!(error.to_string().contains("ConfigMap (/api/v1/configmaps in a)"), "{error}");
    assert!(!informer.has_synced() && informer.has_failed());
    assert!(matches!(factory.failed().await, Error::Failed { .. }), "later calls return it again");
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_is_forgotten_is_not_handed_out_again() {
    let server = Embedded::empty();
    let (old, factory, _) = maps_informer(&server).await;
    factory.forget(&old);
    let new = factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    factory.start().unwrap();
    old.stop().await.unwrap();
    assert!(old.is_stopped() && !new.is_stopped());
    new.wait_for_sync(LONG).await.unwrap();
    assert_eq!(factory.status().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_settled_and_one_that_is_forbidden_is_not() {
    let (network, client) = faulty_network(&Embedded::empty());
    network.fail("secrets", Fault::Status(403));
    let factory = SharedInformerFactory::new(client);
    factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    let boats = ApiResource::from_gvk(&GroupVersionKind::gvk("harbour.test", "v1", "Boat"));
    factory.dynamic_informer(&boats, InformerOptions::all()).unwrap();
    factory.start().unwrap();
    tokio::time::timeout(LONG, factory.synced_or_missing()).await.expect("one has synced, the other is not served");
    let what = |factory: &SharedInformerFactory| -> Vec<_> {
        factory.waiting().into_iter().map(|status| status.resource).collect()
    };
    assert_eq!(what(&factory), ["/apis/harbour.test/v1/boats"]);
    factory.informer::<Secret>(InformerOptions::all()).unwrap();
    factory.start().unwrap();
    tokio::time::timeout(LONG, factory.synced_or_missing()).await.expect_err("it may be allowed later");
    assert_eq!(what(&factory), ["/api/v1/secrets", "/apis/harbour.test/v1/boats"]);
    network.mend();
    tokio::time::timeout(LONG, factory.synced_or_missing()).await.expect("it has synced");
}

#[tokio::test(start_paused = true)]
async fn back_offs_are_shortened_in_a_fixed_order() {
    let run = || async {
        let server = Embedded::empty();
        let network = FaultyNetwork::new(&server);
        network.fail("/configmaps", Fault::Refused);
        let world = World::seeded(1, "2026-01-31T10:00:00Z".parse().unwrap());
        let factory = SharedInformerFactory::new(network.client().with_world(world));
        for number in 0..16 {
            let options = InformerOptions::all().namespace(format!("namespace-{number}"));
            factory.informer::<ConfigMap>(options).unwrap();
        }
        factory.start().unwrap();
        // All of them wait for many seconds by now.
        tokio::time::sleep(Duration::from_secs(30)).await;
        factory.shorten_backoff();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let shown = factory.status().iter().map(ToString::to_string).collect::<Vec<_>>();
        tokio::time::sleep(Duration::from_secs(3)).await;
        (shown, network.take_requests())
    };
    assert_eq!(run().await, run().await, "the same seed");
}

#[tokio::test(start_paused = true)]
async fn the_timeouts_of_watches_come_from_the_world() {
    let timeouts = async |seed| {
        let network = FaultyNetwork::new(&Embedded::empty());
        let world = World::seeded(seed, "2026-01-31T10:00:00Z".parse().unwrap());
        let factory = SharedInformerFactory::new(network.client().with_world(world));
        for number in 0..16 {
            let options = InformerOptions::all().namespace(format!("namespace-{number}"));
            factory.informer::<ConfigMap>(options).unwrap();
        }
        factory.start().unwrap();
        factory.wait_for_cache_sync(LONG).await.unwrap();
        let requests = network.take_requests();
        let parameters = requests.iter().filter_map(|request| request.split("timeoutSeconds=").nth(1));
        parameters.map(|rest| rest.split(['&', ' ']).next().unwrap().parse().unwrap()).collect::<Vec<u64>>()
    };
    let first = timeouts(1).await;
    assert_eq!(first, timeouts(1).await, "the same seed");
    assert_ne!(first, timeouts(2).await, "another seed");
    let shortest = ReflectorOptions::default().watch_timeout.as_secs();
    assert!(first.len() >= 16 && first.iter().all(|seconds| (shortest..2 * shortest).contains(seconds)), "{first:?}");
}
