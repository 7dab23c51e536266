//! A server, a writer and the caches. It needs paused time: its tests have
//! `start_paused = true`.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use http::Request;
use http_body_util::{BodyDataStream, BodyExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::client::Body;
use serde_json::json;
use steersman_cache::{ReflectorOptions, SharedInformerFactory, StorageMode};
use steersman_client::{Client, Config, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use steersman_testing::Embedded;
use tower::{BoxError, ServiceExt};

use crate::caches::{Cache, Form, cache};
use crate::faults::Faults;
use crate::history::{History, Key, Scope, version};
use crate::random::Random;
use crate::script::Script;
use crate::watched::Handler;

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 4] = ["one", "two", "three", "four"];
const TIERS: [&str; 2] = ["web", "db"];
const RESYNC: Duration = Duration::from_secs(45);

pub(crate) struct World {
    random: Random,
    script: Script,
    server: Embedded,
    /// A client without faults.
    writer: Client,
    observer: BodyDataStream<http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, BoxError>>,
    history: History,
    faults: Faults,
    /// One per cache, because a factory has one informer for the same objects.
    factories: Vec<SharedInformerFactory>,
    bad: Client,
    caches: Vec<Box<dyn Cache>>,
    written: u64,
}

pub(crate) fn client<S, B>(service: S) -> Client
where
    S: tower::Service<Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let config = Config::new("http://server.test".parse().expect("this is an address"));
    Client::builder(config).build_over(service).expect("a client needs nothing")
}

impl World {
    pub(crate) async fn new(seed: u64, script: Script) -> Self {
        let mut random = Random::new(seed);
        let server = Embedded::empty();
        let writer = client(server.server().clone());
        for namespace in NAMESPACES {
            let object = json!({"metadata": {"name": namespace}});
            let object: Namespace = serde_json::from_value(object).expect("this is a namespace");
            writer.cluster().create(&PostParams::default(), &object).await.expect("a namespace can be created");
        }
        let list = writer.all_namespaces::<ConfigMap>().list(&ListParams::default()).await.expect("a list");
        let start = list.metadata.resource_version.unwrap_or_default();
        let uri = format!("/api/v1/configmaps?watch=true&resourceVersion={start}&timeoutSeconds=1000000000");
        let request = Request::get(uri).body(Body::empty()).expect("this is a request");
        let observer = server.server().clone().oneshot(request).await.expect("it always answers").into_body();
        let observer = observer.map_err(BoxError::from).boxed_unsync().into_data_stream();
        let faults = Faults::new(seed ^ 0xfa17, random.chance(20), script.clone());
        let bad = {
            let (faults, server) = (faults.clone(), server.clone());
            client(tower::service_fn(move |request| faults.clone().answer(server.clone(), request)))
        };
        Self {
            random,
            script,
            server,
            writer,
            observer,
            history: History::since(version(&start)),
            faults,
            factories: Vec::new(),
            bad,
            caches: Vec::new(),
            written: 0,
        }
    }

    /// Runs random steps. The error is the first violation.
    pub(crate) async fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.random.below(10) {
            self.write().await;
        }
        let percent = *self.random.pick(&[0, 10, 30, 60]);
        self.faults.set_percent(percent);
        for number in 0..1 + self.random.below(2) {
            self.add_cache(number);
        }
        for factory in &self.factories {
            factory.start().map_err(|error| error.to_string())?;
        }
        for _ in 0..20 + self.random.below(40) {
            self.step().await?;
        }
        self.faults.set_percent(0);
        self.quiet(Duration::from_secs(1200)).await?;
        self.resync().await?;
        self.count();
        for factory in &self.factories {
            factory.shutdown().await.unwrap();
        }
        self.check_claims()
    }

    fn add_cache(&mut self, number: usize) {
        let random = &mut self.random;
        let scope = Scope {
            namespaces: match random.below(3) {
                0 => Vec::new(),
                1 => vec!["b".to_owned()],
                _ => vec!["a".to_owned(), "c".to_owned()],
            },
            tier: random.chance(50).then(|| "web".to_owned()),
        };
        let reflector = ReflectorOptions {
            streaming: random.chance(60),
            page_size: random.below(6) as u32,
            watch_timeout: Duration::from_secs(*random.pick(&[5, 60, 300])),
            ..ReflectorOptions::default()
        };
        let mode = *random.pick(&[StorageMode::Encoded, StorageMode::Decoded, StorageMode::Compressed]);
        let form = *random.pick(&[Form::Typed, Form::Typed, Form::Transformed, Form::Dynamic, Form::Metadata]);
        let name = format!("cache {number}");
        self.script.note(format_args!("{name}: {scope:?} {reflector:?} {mode:?} {form:?}"));
        let factory = SharedInformerFactory::new(self.bad.clone());
        let mut cache = cache(&factory, name, scope, form, mode, reflector);
        self.factories.push(factory);
        cache.add_handler(None);
        cache.add_handler(Some(RESYNC));
        self.caches.push(cache);
    }

    async fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..40 => self.write().await,
            40..48 => {
                for _ in 0..2 + self.random.below(10) {
                    self.write().await;
                }
            }
            48..65 => {
                let limit = *self.random.pick(&[1, 100, 5_000, 90_000]);
                let time = Duration::from_millis(self.random.below(limit) as u64);
                self.script.note(format_args!("sleep {time:?}"));
                tokio::time::sleep(time).await;
            }
            65..79 => {
                for _ in 0..1 + self.random.below(20) {
                    tokio::task::yield_now().await;
                    self.sample();
                }
            }
            79..84 => {
                self.script.note(format_args!("compact"));
                self.script.count("compactions", 1);
                self.server.compact();
            }
            84..88 => {
                let percent = *self.random.pick(&[0, 10, 30, 60]);
                self.script.note(format_args!("from now on {percent} % go wrong"));
                self.faults.set_percent(percent);
            }
            88..93 => {
                // The caches catch up also on a faulty connection, only later.
                let percent = self.faults.percent();
                self.faults.set_percent(*self.random.pick(&[0, percent.min(30)]));
                self.quiet(Duration::from_secs(4 * 3600)).await?;
                self.faults.set_percent(percent);
            }
            93..97 => {
                let (cache, resync) = (self.random.below(self.caches.len()), self.random.chance(50).then_some(RESYNC));
                let handler = self.caches[cache].add_handler(resync);
                self.script.note(format_args!("added {handler}"));
            }
            _ => {
                let cache = self.random.below(self.caches.len());
                let handlers = self.caches[cache].handlers().len();
                if handlers > 1 {
                    let handler = self.caches[cache].remove_handler(self.random.below(handlers));
                    self.script.note(format_args!("remove {}", handler.name));
                    self.remove(cache, handler).await?;
                }
            }
        }
        self.sample();
        self.problems()
    }

    /// A random write to a random object.
    async fn write(&mut self) {
        let random = &mut self.random;
        let (namespace, name) = (*random.pick(&NAMESPACES), *random.pick(&NAMES));
        let objects = self.writer.namespaced::<ConfigMap>(namespace);
        let tier = random.chance(70).then(|| *random.pick(&TIERS));
        self.written += 1;
        let text = "{\"a\": [\\ \u{e9}\u{1f600}}]".repeat(random.below(20));
        let object = json!({
            "metadata": {"name": name, "labels": tier.map(|tier| json!({"tier": tier}))},
            "data": {"number": self.written.to_string(), "text": text},
        });
        let object: ConfigMap = serde_json::from_value(object).expect("this is an object");
        let exists = objects.get_opt(name).await.expect("the server answers").is_some();
        let what = match random.below(20) {
            0 => {
                let labels = random.chance(50).then(|| format!("tier={}", random.pick(&TIERS)));
                let params = ListParams { label_selector: labels, ..ListParams::default() };
                objects.delete_collection(&DeleteParams::default(), &params).await.expect("a deletion of several");
                "delete collection of"
            }
            1..4 if exists => {
                objects.delete(name, &DeleteParams::default()).await.expect("a deletion");
                objects.create(&PostParams::default(), &object).await.expect("a creation");
                "recreate"
            }
            4..8 if exists => {
                objects.delete(name, &DeleteParams::default()).await.expect("a deletion");
                "delete"
            }
            8..12 if exists => {
                let patch = Patch::Merge(json!({"metadata": {"labels": {"tier": tier}}}));
                objects.patch(name, &PatchParams::default(), &patch).await.expect("a patch");
                "relabel"
            }
            _ if exists => {
                objects.update(name, &PostParams::default(), &object).await.expect("an update");
                "update"
            }
            _ => {
                objects.create(&PostParams::default(), &object).await.expect("a creation");
                "create"
            }
        };
        self.observe();
        let newest = self.history.newest();
        self.script.note(format_args!("{what} {namespace}/{name}, tier {tier:?}: {newest}"));
    }

    /// Records the changes of the writes.
    fn observe(&mut self) {
        while let Some(Some(Ok(line))) = self.observer.next().now_or_never() {
            self.history.record(&serde_json::from_slice(&line).expect("an event is JSON"));
        }
    }

    /// Records the content of the caches.
    fn sample(&mut self) {
        self.caches.iter_mut().for_each(|cache| cache.sample());
    }

    /// Waits until the caches are up to date, and compares them with the server.
    async fn quiet(&mut self, limit: Duration) -> Result<(), String> {
        let newest = self.history.newest().to_string();
        self.script.note(format_args!("quiet at {newest}, with {} % going wrong", self.faults.percent()));
        for cache in &self.caches {
            let reached = cache.wait_for_version(&newest, limit).await;
            let status = cache.status();
            let percent = self.faults.percent();
            self.script.count(if percent > 0 { "quiet on a bad connection" } else { "quiet" }, 1);
            reached.map_err(|error| format!("{}: {error}; it is {status:?}", cache.name()))?;
            wait_for_handlers(&**cache).await;
        }
        let truth = self.truth().await;
        self.sample();
        for cache in &self.caches {
            cache.agrees_with(&self.history.now(cache.scope()))?;
            cache.has_contents(&truth)?;
        }
        self.problems()
    }

    /// The objects of the server by key.
    async fn truth(&self) -> BTreeMap<Key, ConfigMap> {
        let list = self.writer.all_namespaces::<ConfigMap>().list(&ListParams::default()).await.expect("a list");
        let key = |object: &ConfigMap| {
            let (namespace, name) = (object.metadata.namespace.clone(), object.metadata.name.clone());
            (namespace.unwrap_or_default(), name.unwrap_or_default())
        };
        list.items.into_iter().map(|object| (key(&object), object)).collect()
    }

    /// Checks that handlers with resyncs receive every object again, and other handlers nothing.
    async fn resync(&mut self) -> Result<(), String> {
        let count = |cache: &dyn Cache| -> Vec<(usize, usize)> {
            let counts = cache.handlers().iter().map(|handler| {
                let testimony = handler.testimony();
                (testimony.calls, testimony.repetitions)
            });
            counts.collect()
        };
        let before: Vec<_> = self.caches.iter().map(|cache| count(&**cache)).collect();
        tokio::time::sleep(RESYNC + Duration::from_secs(1)).await;
        for (cache, before) in self.caches.iter().zip(before) {
            wait_for_handlers(&**cache).await;
            for ((handler, before), now) in cache.handlers().iter().zip(before).zip(count(&**cache)) {
                let (calls, repetitions) = (now.0 - before.0, now.1 - before.1);
                let wanted = if handler.testimony().resyncs { cache.metrics().objects } else { 0 };
                // A list during the wait repeats every object too.
                if repetitions < wanted || calls != repetitions || (wanted == 0 && calls > 0) {
                    let name = &handler.name;
                    return Err(format!(
                        "{name}: {calls} calls and {repetitions} repetitions, not {wanted}, in a resync"
                    ));
                }
            }
        }
        self.problems()
    }

    /// Counts the events of the run.
    fn count(&self) {
        for cache in &self.caches {
            let (status, metrics) = (cache.status(), cache.metrics());
            let objects = match cache.form() {
                Form::Typed => "typed objects",
                Form::Transformed => "transformed objects",
                Form::Dynamic => "dynamic objects",
                Form::Metadata => "metadata-only objects",
            };
            self.script.count(objects, metrics.objects as u64);
            self.script.count("compressed objects", metrics.storage.compressed_objects as u64);
            self.script.count("lists after the first", status.iter().map(|status| status.lists - 1).sum());
            self.script.count("watches", status.iter().map(|status| status.watches).sum());
            for handler in cache.handlers() {
                let testimony = handler.testimony();
                self.script.count("calls", testimony.calls as u64);
                self.script.count("repetitions", testimony.repetitions as u64);
                self.script.count("begun with", testimony.initial.len() as u64);
                self.script.count("late joiner begun with", handler.initial.len() as u64);
                self.script.count("deleted unseen", testimony.deleted_unseen as u64);
                self.script.count("recreated unseen", testimony.recreated as u64);
            }
        }
    }

    async fn remove(&mut self, cache: usize, handler: Handler) -> Result<(), String> {
        let removed = handler.handle.remove_and_wait().await;
        removed.map_err(|error| format!("{} did not end after its removal: {error}", handler.name))?;
        let calls = handler.testimony().calls;
        self.write().await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        handler.handle.remove();
        let later = handler.testimony().calls;
        if later != calls {
            return Err(format!("{} received {} events after its removal", handler.name, later - calls));
        }
        handler.check(self.caches[cache].scope(), &self.history)
    }

    /// The first violation so far.
    fn problems(&mut self) -> Result<(), String> {
        self.observe();
        self.check_claims()
    }

    fn check_claims(&mut self) -> Result<(), String> {
        self.caches.iter_mut().try_for_each(|cache| cache.check(&self.history))
    }
}

/// Waits until the handlers have received all events.
async fn wait_for_handlers(cache: &dyn Cache) {
    let waits = || cache.handlers().iter().any(|handler| handler.handle.pending() > 0 || !handler.handle.has_synced());
    for _ in 0..1000 {
        if !waits() {
            return;
        }
        tokio::task::yield_now().await;
    }
}
