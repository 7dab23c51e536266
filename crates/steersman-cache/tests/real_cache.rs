//! The cache on a real API server: on a connection that is cut repeatedly, and while the server is
//! killed.

#[path = "model/history.rs"]
mod history;
#[path = "model/random.rs"]
mod random;
#[path = "model/watched.rs"]
mod watched;
#[path = "model/witness.rs"]
mod witness;

use std::collections::BTreeMap;
use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;
use steersman_cache::{Lister, Phase, ReflectorOptions, SharedInformerFactory};
use steersman_client::{
    Client, Config, DeleteParams, Error, ListParams, Patch, PatchParams, PostParams, TypedEvent, WatchParams,
};
use steersman_testing::{FaultyProxy, RealServer, eventually_within};

use history::{History, Key, Scope, State, version};
use random::Random;
use watched::Watched;

/// Limit of waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until `found` returns a value.
async fn eventually<T>(what: &str, mut found: impl FnMut() -> Result<T, String>) -> T {
    eventually_within(PATIENCE, what, || ready(found())).await
}

fn config_map(name: &str, tier: Option<&str>, number: usize) -> ConfigMap {
    let object = json!({
        "metadata": {"name": name, "labels": tier.map(|tier| json!({"tier": tier}))},
        "data": {"number": number.to_string()},
    });
    serde_json::from_value(object).unwrap()
}

/// Writes to the server directly, and records every change.
struct Writer {
    client: Client,
    namespaces: [String; 2],
    random: Random,
    history: History,
    observer: BoxStream<'static, Result<TypedEvent<ConfigMap>, Error>>,
    written: usize,
}

impl Writer {
    async fn new(client: Client, namespaces: [String; 2], seed: u64) -> Self {
        let api = client.all_namespaces::<ConfigMap>();
        let list = api.list(&ListParams::default()).await.unwrap();
        let start = list.metadata.resource_version.unwrap();
        let observer = api.watch(&WatchParams::default(), &start).await.unwrap().boxed();
        let history = History::since(version(&start));
        Self { client, namespaces, random: Random::new(seed), history, observer, written: 0 }
    }

    /// A random write to a random object.
    async fn write(&mut self) {
        const NAMES: [&str; 6] = ["one", "two", "three", "four", "five", "six"];
        let random = &mut self.random;
        let objects = self.client.namespaced::<ConfigMap>(&self.namespaces[random.below(2)]);
        let (name, tier) = (*random.pick(&NAMES), *random.pick(&[None, Some("web"), Some("web"), Some("db")]));
        self.written += 1;
        let object = config_map(name, tier, self.written);
        let exists = objects.get_opt(name).await.unwrap().is_some();
        let (delete, post) = (DeleteParams::default(), PostParams::default());
        match random.below(19) {
            _ if random.chance(5) => objects.delete_collection(&delete, &ListParams::default()).await.unwrap(),
            0..3 if exists => {
                objects.delete(name, &delete).await.unwrap();
                objects.create(&post, &object).await.unwrap();
            }
            3..7 if exists => drop(objects.delete(name, &delete).await.unwrap()),
            7..11 if exists => {
                let patch = Patch::Merge(json!({"metadata": {"labels": {"tier": tier}}}));
                objects.patch(name, &PatchParams::default(), &patch).await.unwrap();
            }
            _ if exists => drop(objects.update(name, &post, &object).await.unwrap()),
            _ => drop(objects.create(&post, &object).await.unwrap()),
        }
    }

    /// Waits until the history contains every write.
    async fn observe(&mut self) {
        let objects = self.client.namespaced::<ConfigMap>(&self.namespaces[0]);
        let last = objects.create(&PostParams::default(), &config_map("last", None, 0)).await.unwrap();
        let wanted = version(last.metadata.resource_version.as_deref().unwrap());
        while self.history.newest() < wanted {
            let next = tokio::time::timeout(PATIENCE, self.observer.next()).await;
            let event = next.unwrap_or_else(|_| panic!("the server never reported version {wanted}"));
            let (what, object) = match event.expect("a watch goes on for minutes").unwrap() {
                TypedEvent::Added(object) => ("ADDED", object),
                TypedEvent::Modified(object) => ("MODIFIED", object),
                TypedEvent::Deleted(object) => ("DELETED", object),
                TypedEvent::Bookmark { .. } => continue,
            };
            self.history.record(&json!({"type": what, "object": object}));
        }
    }
}

/// More seeds under `cargo xtask test --soak`; `MODEL_SEED=17` runs one.
fn seeds() -> std::ops::RangeInclusive<u64> {
    if let Some(seed) = std::env::var("MODEL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return seed..=seed;
    }
    1..=if std::env::var_os("STEERSMAN_SOAK").is_some() { 40 } else { 3 }
}

/// The model on a real server: writes go to the server directly, and the informers read through a
/// proxy that cuts.
#[tokio::test]
async fn the_cache_agrees_with_the_server_whatever_is_cut() {
    // Several at a time: they mostly wait for cut connections.
    stream::iter(seeds())
        .for_each_concurrent(8, async |seed| {
            let ended = AssertUnwindSafe(cut_again_and_again(seed)).catch_unwind().await;
            assert!(ended.is_ok(), "seed {seed} (again: MODEL_SEED={seed})");
        })
        .await;
}

async fn cut_again_and_again(seed: u64) {
    let server = RealServer::shared().await.unwrap();
    let namespaces = [server.namespace("cut").await.unwrap(), server.namespace("cut").await.unwrap()];
    let direct: Config = server.config().await.unwrap();
    let proxy = FaultyProxy::start(server.url().trim_start_matches("https://").parse().unwrap()).await.unwrap();
    let mut through = direct.clone();
    through.cluster_url = format!("https://{}", proxy.address()).parse().unwrap();
    let mut writer = Writer::new(Client::builder(direct).build().unwrap(), namespaces.clone(), seed).await;

    let factory = SharedInformerFactory::new(Client::builder(through).build().unwrap());
    let scope = |namespaces: &[String], tier: Option<&str>| Scope {
        namespaces: namespaces.to_vec(),
        tier: tier.map(str::to_owned),
    };
    let scopes = [
        (scope(&namespaces[..1], None), true),
        (scope(&namespaces[..1], Some("web")), false),
        (scope(&namespaces, None), true),
    ];
    let mut caches: Vec<Watched<ConfigMap>> = Vec::new();
    for (number, (scope, streaming)) in scopes.into_iter().enumerate() {
        let reflector = ReflectorOptions { streaming, ..ReflectorOptions::default() };
        let informer = factory.informer(scope.options().reflector(reflector)).unwrap();
        let mut cache = Watched::new(format!("cache {number}"), scope, informer);
        cache.add_handler(None);
        caches.push(cache);
    }
    factory.start().unwrap();

    for round in 0..6 {
        // A watch that is cut in its first second causes a back-off; most are older here.
        let patient = round % 4 > 0;
        eventually("every reflector to watch", || {
            let mut status = caches.iter().flat_map(|cache| cache.informer.status());
            let settled = status.find(|status| {
                status.phase != Phase::Watching || (patient && status.since.elapsed() < Duration::from_millis(1100))
            });
            settled.map_or(Ok(()), |status| Err(status.to_string()))
        })
        .await;
        let bytes = *writer.random.pick(&[0, 0, 1, 700, 3000]);
        for write in 0..12 {
            writer.write().await;
            caches.iter_mut().for_each(Watched::sample);
            if write == 6 {
                proxy.cut_after(bytes);
            }
        }
        // Cuts the connections that are still open.
        proxy.cut_after(0);
        if round == 3 {
            caches[0].add_handler(None);
        }
        for _ in 0..writer.random.below(4) {
            writer.write().await;
        }
    }
    writer.observe().await;
    for cache in &mut caches {
        let now = writer.history.now(&cache.scope);
        eventually("the cache to hold what the server has", || cache.agrees_with(&now)).await;
        cache.sample();
        cache.check(&writer.history).unwrap();
    }
    let cut = proxy.connections_cut();
    assert!(cut >= 12, "only {cut} connections were cut");
    factory.shutdown().await.unwrap();
}

fn pod(name: &str, tier: &str) -> Pod {
    let object = json!({
        "metadata": {"name": name, "labels": {"tier": tier}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    });
    serde_json::from_value(object).unwrap()
}

/// Runs a request for many objects, many at a time.
async fn at_once<F: Future<Output = ()>>(numbers: std::ops::Range<usize>, action: impl Fn(usize) -> F) {
    stream::iter(numbers).for_each_concurrent(64, action).await;
}

/// Ignores the response, whose decoding would take most of the time.
async fn create(client: &Client, namespace: &str, number: usize) {
    let request = client.rest_of("", "v1").post().namespace(namespace).resource("pods");
    request.json(&pod(&format!("pod-{number}"), "web")).send().await.unwrap();
}

/// Reads the cache in a loop until `stop`. Counts the reads, and returns the smallest number of
/// objects.
fn read_on(lister: &Lister<Pod>, namespace: &str, stop: &AtomicBool, reads: &AtomicUsize) -> usize {
    let mut fewest = usize::MAX;
    while !stop.load(Ordering::Relaxed) {
        fewest = fewest.min(lister.list().iter().count());
        assert!(lister.get(namespace, "pod-0").is_some());
        reads.fetch_add(1, Ordering::Relaxed);
        std::thread::park_timeout(Duration::from_millis(20));
    }
    fewest
}

/// Writes one object after the other until `stop`, retries each write until it succeeds, and counts
/// the failures. Returns the numbers of created and deleted objects. A write whose result was lost
/// with the server is not applied twice.
async fn write_on(
    client: Client,
    namespace: String,
    stop: Arc<AtomicBool>,
    failed: Arc<AtomicUsize>,
) -> (usize, usize) {
    let pods = client.namespaced::<Pod>(&namespace);
    let (mut written, mut retries) = (0, tokio::time::interval(Duration::from_millis(20)));
    while !stop.load(Ordering::Relaxed) && written < 9_000 {
        // No other task writes to these objects.
        let (old, new) = (format!("pod-{}", 1_000 + written / 3), format!("late-{}", written / 3));
        let result = match written % 3 {
            0 => {
                let patch = Patch::Merge(json!({"metadata": {"labels": {"tier": written.to_string()}}}));
                pods.patch(&old, &PatchParams::default(), &patch).await.map(drop)
            }
            1 => pods.delete(&old, &DeleteParams::default()).await.map(drop),
            _ => pods.create(&PostParams::default(), &pod(&new, "late")).await.map(drop),
        };
        let done_before = |error: &Error| match written % 3 {
            0 => false,
            1 => error.is_not_found(),
            _ => error.status().is_some_and(|status| status.code == 409),
        };
        match result {
            Err(error) if !done_before(&error) => {
                failed.fetch_add(1, Ordering::Relaxed);
                retries.tick().await;
            }
            _ => written += 1,
        }
    }
    (written / 3, (written + 1) / 3)
}

/// kube-apiserver is killed under a watch of 10,000 Pods and under writers: no change is missed,
/// and the cache stays readable.
#[tokio::test]
async fn a_killed_server_costs_nothing_but_time() {
    // A dedicated server, whatever the environment names: this test kills it.
    let mut server =
        RealServer::builder().apiserver_flag("--max-mutating-requests-inflight=400").start().await.unwrap();
    let namespace = server.namespace("killed").await.unwrap();
    let client = Client::builder(server.config().await.unwrap()).build().unwrap();
    let pods = client.namespaced::<Pod>(&namespace);
    at_once(0..9_500, |number| create(&client, &namespace, number)).await;

    let factory = SharedInformerFactory::new(Client::builder(server.config().await.unwrap()).build().unwrap());
    let scope = Scope { namespaces: vec![namespace.clone()], tier: None };
    let informer = factory.informer(scope.options()).unwrap();
    let mut cache = Watched::new("pods".to_owned(), scope, informer);
    cache.add_handler(None);
    factory.start().unwrap();
    factory.wait_for_cache_sync(PATIENCE).await.unwrap();
    at_once(9_500..10_000, |number| create(&client, &namespace, number)).await;
    eventually("10,000 objects in the cache", || match cache.lister.len() {
        10_000 => Ok(()),
        objects => Err(format!("{objects} objects")),
    })
    .await;

    let (stop, reads) = <(Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
    let reader = {
        let (lister, stop, reads) = (cache.lister.clone(), Arc::clone(&stop), Arc::clone(&reads));
        let namespace = namespace.clone();
        tokio::task::spawn_blocking(move || read_on(&lister, &namespace, &stop, &reads))
    };
    let (writing_stops, failed) = <(Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
    let writer = {
        let (client, stop, failed) = (client.clone(), Arc::clone(&writing_stops), Arc::clone(&failed));
        tokio::spawn(write_on(client, namespace.clone(), stop, failed))
    };
    eventually("writes in the cache", || match cache.lister.get(&namespace, "late-20") {
        Some(_) => Ok(()),
        None => Err("not yet".to_owned()),
    })
    .await;
    let before = reads.load(Ordering::Relaxed);
    server.restart_apiserver().await.unwrap();
    let reads_while_away = reads.load(Ordering::Relaxed) - before;
    assert!(reads_while_away > 10, "the cache was read {reads_while_away} times while the server was away");

    at_once(1..600, |number| {
        let (pods, name) = (pods.clone(), format!("pod-{number}"));
        async move {
            let delete = DeleteParams::default();
            match number % 3 {
                0 => drop(pods.delete(&name, &delete).await.unwrap()),
                1 => {
                    let patch = Patch::Merge(json!({"metadata": {"labels": {"tier": "db"}}}));
                    pods.patch(&name, &PatchParams::default(), &patch).await.unwrap();
                }
                _ => {
                    pods.delete(&name, &delete).await.unwrap();
                    pods.create(&PostParams::default(), &pod(&name, "again")).await.unwrap();
                }
            }
        }
    })
    .await;
    at_once(10_000..10_100, |number| create(&client, &namespace, number)).await;
    writing_stops.store(true, Ordering::Relaxed);
    let (created, deleted) = writer.await.unwrap();
    let failed = failed.load(Ordering::Relaxed);
    assert!(failed > 0, "no write met a server that was away");

    let list = pods.metadata().list(&ListParams::default()).await.unwrap();
    let now: BTreeMap<Key, State> = list.items.into_iter().map(|pod| known(pod.metadata)).collect();
    assert_eq!(now.len(), 10_000 - 199 + 100 + created - deleted);
    eventually("the cache to hold what the server has", || cache.agrees_with(&now)).await;
    stop.store(true, Ordering::Relaxed);
    let fewest = reader.await.unwrap();
    assert!(fewest >= 10_000 - 399 - deleted, "a reader saw only {fewest} objects");
    assert_eq!(cache.handlers[0].testimony().problems, Vec::<String>::new());
    factory.shutdown().await.unwrap();
}

/// Key and state of an object.
fn known(meta: steersman_client::ObjectMeta) -> (Key, State) {
    let key = (meta.namespace.unwrap(), meta.name.unwrap());
    (key, State { uid: meta.uid.unwrap(), version: version(&meta.resource_version.unwrap()) })
}
