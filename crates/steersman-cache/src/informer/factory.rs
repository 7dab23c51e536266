//! One informer for each kind, shared by all who want it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use kube_core::Resource;
use steersman_client::{Api, ApiResource, Client, DynamicObject, PartialObjectMeta, Place};
use steersman_wire::{LabelSelector, TypeMeta};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::informer::InformerConfig;
use crate::informer::handlers::{ENDS_WITHIN, ended_or};
use crate::object::cached::Object;
use crate::{
    ApiListerWatcher, Error, Index, Informer, InformerMetrics, Lister, ReflectorOptions, ReflectorStatus,
    StorageOptions,
};

/// Which objects of a kind an informer keeps, and how.
pub struct InformerOptions<K> {
    namespaces: Vec<String>,
    labels: Option<String>,
    fields: Option<String>,
    storage: StorageOptions<K>,
    reflector: ReflectorOptions,
    indexes: Vec<(String, Index<K>)>,
}

impl<K> fmt::Debug for InformerOptions<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerOptions")
            .field("namespaces", &self.namespaces)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("storage", &self.storage)
            .field("reflector", &self.reflector)
            .finish_non_exhaustive()
    }
}

impl<K> Default for InformerOptions<K> {
    /// All objects of the kind, in all namespaces.
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            labels: None,
            fields: None,
            storage: StorageOptions::default(),
            reflector: ReflectorOptions::default(),
            indexes: Vec::new(),
        }
    }
}

impl<K> InformerOptions<K> {
    /// All objects of the kind, in all namespaces.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only those in a namespace. Called again, those in either.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// Only those whose labels match, such as `app=web`.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only those whose fields match, such as `spec.nodeName=node-1`.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// How they are kept.
    #[must_use]
    pub fn storage(mut self, storage: StorageOptions<K>) -> Self {
        self.storage = storage;
        self
    }

    /// How the server is asked.
    #[must_use]
    pub fn reflector(mut self, reflector: ReflectorOptions) -> Self {
        self.reflector = reflector;
        self
    }

    /// With an index.
    #[must_use]
    pub fn index(mut self, name: impl Into<String>, index: Index<K>) -> Self {
        self.indexes.push((name.into(), index));
        self
    }

    /// Of which namespaces; empty for all.
    pub fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    /// With which labels.
    pub fn label_selector(&self) -> Option<&str> {
        self.labels.as_deref()
    }

    /// With which fields.
    pub fn field_selector(&self) -> Option<&str> {
        self.fields.as_deref()
    }

    /// The indexes.
    pub fn into_indexes(self) -> Vec<(String, Index<K>)> {
        self.indexes
    }

    fn check(&mut self) -> Result<(), Error> {
        self.namespaces.sort();
        self.namespaces.dedup();
        if self.namespaces.iter().any(String::is_empty) {
            let problem = "a namespace is empty: leave it out for all namespaces".to_owned();
            return Err(Error::InvalidOptions { problem });
        }
        if let Some(labels) = &self.labels {
            LabelSelector::parse(labels).map_err(|error| {
                let problem = format!("the label selector {labels:?} makes no sense: {error}");
                Error::InvalidOptions { problem }
            })?;
        }
        Ok(())
    }
}

/// What makes an informer another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    /// Typed, dynamic and metadata-only objects are kept apart.
    object: TypeId,
    path: String,
    namespaces: Vec<String>,
    labels: Option<String>,
    fields: Option<String>,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if !self.namespaces.is_empty() {
            write!(f, " in {}", self.namespaces.join(", "))?;
        }
        let selectors: Vec<&str> = self.labels.iter().chain(&self.fields).map(String::as_str).collect();
        if selectors.is_empty() { Ok(()) } else { write!(f, " where {}", selectors.join(" and ")) }
    }
}

/// Hands out informers, one for each kind and choice of objects, and starts and stops them together.
///
/// ```no_run
/// # use std::time::Duration;
/// # use k8s_openapi::api::core::v1::Pod;
/// # use steersman_cache::{InformerOptions, SharedInformerFactory};
/// # async fn example(client: steersman_client::Client) -> Result<(), steersman_cache::Error> {
/// let factory = SharedInformerFactory::new(client);
/// let pods = factory.informer::<Pod>(InformerOptions::all())?;
/// factory.start()?;
/// factory.wait_for_cache_sync(Duration::from_secs(30)).await?;
/// for pod in pods.lister().namespace("default") {
///     println!("{} on {:?}", pod.meta().name(), pod.get()?.spec);
/// }
/// factory.shutdown().await?;
/// # Ok(())
/// # }
/// ```
///
/// **What is promised.** Nothing but [`informer`](Self::informer) and its siblings declares a watch: [`lister`](Self::lister) of a kind
/// that nobody declared is an error that names the call to make (contract 11).
#[derive(Clone)]
pub struct SharedInformerFactory {
    client: Client,
    informers: Arc<Mutex<HashMap<Identity, Entry>>>,
    /// The first informer that failed.
    failure: watch::Sender<Option<Error>>,
}

/// An informer whose type is not known here.
#[derive(Clone)]
struct Entry {
    informer: Arc<dyn AnyInformer>,
    /// Which objects, in words.
    name: Arc<str>,
    reflector: ReflectorOptions,
    /// When it was asked for, counted from the factory's first informer.
    number: u64,
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the factory does with informers of all types.
trait AnyInformer: Any + Send + Sync {
    fn start(&self) -> Result<(), Error>;
    fn stop(&self, limit: Duration) -> BoxFuture<'_, Result<(), Error>>;
    fn wait_for_sync(&self, limit: Duration) -> BoxFuture<'_, Result<(), Error>>;
    fn is_stopped(&self) -> bool;
    fn has_failed(&self) -> bool;
    fn status(&self) -> Vec<ReflectorStatus>;
    fn metrics(&self) -> InformerMetrics;
    fn waiting(&self) -> Vec<ReflectorStatus>;
    fn is_missing(&self) -> bool;
    fn synced_or_missing(&self) -> BoxFuture<'_, ()>;
    fn hurry_once(&self);
}

impl<K: Object> AnyInformer for Informer<K> {
    fn start(&self) -> Result<(), Error> {
        self.start()
    }

    fn stop(&self, limit: Duration) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.stop_within(limit))
    }

    fn wait_for_sync(&self, limit: Duration) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.wait_for_sync(limit))
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped()
    }

    fn has_failed(&self) -> bool {
        self.has_failed()
    }

    fn status(&self) -> Vec<ReflectorStatus> {
        self.status()
    }

    fn metrics(&self) -> InformerMetrics {
        self.metrics()
    }

    fn waiting(&self) -> Vec<ReflectorStatus> {
        self.waiting()
    }

    fn is_missing(&self) -> bool {
        self.is_missing()
    }

    fn synced_or_missing(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.synced_or_missing())
    }

    fn hurry_once(&self) {
        self.hurry_once();
    }
}

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformerFactory").field("informers", &self.informers().len()).finish_non_exhaustive()
    }
}

impl SharedInformerFactory {
    /// A factory without informers.
    pub fn new(client: Client) -> Self {
        Self { client, informers: Arc::default(), failure: watch::Sender::new(None) }
    }

    fn informers(&self) -> MutexGuard<'_, HashMap<Identity, Entry>> {
        self.informers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The informers, without those that somebody has stopped. One that has failed stays, so that it is seen.
    fn wanted(&self) -> Vec<Entry> {
        let mut informers = self.informers();
        let unwanted = |entry: &Entry| entry.informer.is_stopped() && !entry.informer.has_failed();
        let stopped: Vec<_> = informers.extract_if(|_, entry| unwanted(entry)).collect();
        let mut wanted: Vec<Entry> = informers.values().cloned().collect();
        drop(informers);
        // In the order in which they were asked for, so that they start in a fixed order.
        wanted.sort_unstable_by_key(|entry| entry.number);
        // With the lock, others would wait while a cache is freed.
        drop(stopped);
        wanted
    }

    /// The informer for objects of a Rust type. It is made when it is asked for the first time, and started by
    /// [`start`](Self::start).
    ///
    /// Whoever asks for the same objects again gets the same informer, and its indexes are added. Asking for them to be kept or read in
    /// another way is an error, for there is one cache.
    pub fn informer<K>(&self, options: InformerOptions<K>) -> Result<Informer<K>, Error>
    where
        K: Object + Resource<DynamicType = ()>,
    {
        let type_meta = type_meta::<K>(&());
        self.informer_of(options, &K::kind(&()), type_meta, |client, place| client.objects((), place))
    }

    /// The informer for the metadata of objects of a Rust type.
    pub fn metadata_informer<K>(
        &self,
        options: InformerOptions<PartialObjectMeta<K>>,
    ) -> Result<Informer<PartialObjectMeta<K>>, Error>
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
        PartialObjectMeta<K>: Object,
    {
        let api = |client: &Client, place| client.objects::<K>((), place).metadata();
        self.informer_of(options, &K::kind(&()), metadata_type(), api)
    }

    /// The informer for objects of a kind that is known at run time only.
    pub fn dynamic_informer(
        &self,
        resource: &ApiResource,
        options: InformerOptions<DynamicObject>,
    ) -> Result<Informer<DynamicObject>, Error> {
        let type_meta = type_meta::<DynamicObject>(resource);
        let api = |client: &Client, place| client.objects(resource.clone(), place);
        self.informer_of(options, &resource.kind, type_meta, api)
    }

    /// The informer for the metadata of objects of a kind that is known at run time only.
    pub fn dynamic_metadata_informer(
        &self,
        resource: &ApiResource,
        options: InformerOptions<PartialObjectMeta<DynamicObject>>,
    ) -> Result<Informer<PartialObjectMeta<DynamicObject>>, Error> {
        let api = |client: &Client, place| client.objects::<DynamicObject>(resource.clone(), place).metadata();
        self.informer_of(options, &resource.kind, metadata_type(), api)
    }

    fn informer_of<K>(
        &self,
        mut options: InformerOptions<K>,
        kind: &str,
        type_meta: TypeMeta,
        api: impl Fn(&Client, Place) -> Api<K>,
    ) -> Result<Informer<K>, Error>
    where
        K: Object + Resource<DynamicType: Send + Sync>,
    {
        options.check()?;
        let reflector = ReflectorOptions { type_meta: Some(type_meta), ..options.reflector };
        let everywhere = api(&self.client, Place::AllNamespaces);
        let identity = Identity {
            object: TypeId::of::<K>(),
            path: everywhere.path(),
            namespaces: options.namespaces,
            labels: options.labels,
            fields: options.fields,
        };
        let mut informers = self.informers();
        informers.retain(|_, entry| !entry.informer.is_stopped());
        let informer = match informers.get(&identity) {
            Some(entry) => {
                let informer = entry.typed::<K>();
                let kind = || identity.path.clone();
                if !informer.is_stored_as(&options.storage) {
                    return Err(Error::OtherOptions { kind: kind(), what: "storage" });
                }
                if entry.reflector != reflector {
                    return Err(Error::OtherOptions { kind: kind(), what: "reflector" });
                }
                // The functions of indexes run without a lock.
                drop(informers);
                add_indexes(&informer, options.indexes)?;
                informer
            }
            None => {
                let with_selectors = |api: Api<K>| {
                    let mut lister_watcher = ApiListerWatcher::new(api);
                    if let Some(labels) = &identity.labels {
                        lister_watcher = lister_watcher.labels(labels);
                    }
                    if let Some(fields) = &identity.fields {
                        lister_watcher = lister_watcher.fields(fields);
                    }
                    lister_watcher
                };
                let sources = if identity.namespaces.is_empty() {
                    vec![(None, with_selectors(everywhere))]
                } else {
                    let source = |namespace: &String| {
                        (
                            Some(namespace.clone()),
                            with_selectors(api(&self.client, Place::Namespace(namespace.clone()))),
                        )
                    };
                    identity.namespaces.iter().map(source).collect()
                };
                let config = InformerConfig {
                    kind: identity.path.clone(),
                    storage: options.storage,
                    reflector: reflector.clone(),
                    world: self.client.world().clone(),
                };
                let informer = Informer::new(sources, config);
                // It has no objects yet.
                add_indexes(&informer, options.indexes)?;
                let name: Arc<str> = identity.to_string().into();
                let (failure, what) = (self.failure.clone(), format!("{kind} ({name})"));
                informer.on_failure(move |panic| {
                    let failed = || Error::Failed { informer: what.clone(), panic: panic.to_owned() };
                    failure.send_if_modified(|first| {
                        let is_first = first.is_none();
                        first.get_or_insert_with(failed);
                        is_first
                    });
                });
                let number = informers.values().map(|entry| entry.number + 1).max().unwrap_or_default();
                let entry = Entry { informer: Arc::new(informer.clone()), name, reflector, number };
                informers.insert(identity, entry);
                informer
            }
        };
        Ok(informer)
    }

    /// Reads the objects of a Rust type that are kept, wherever they are. It declares nothing: if nobody has asked for an informer of
    /// all objects of the type, that is an error.
    pub fn lister<K>(&self) -> Result<Lister<K>, Error>
    where
        K: Object + Resource<DynamicType = ()>,
    {
        let path = K::url_path(&(), None);
        let informers = self.informers();
        let mut found = informers.iter().filter(|(identity, entry)| {
            identity.object == TypeId::of::<K>() && identity.path == path && !entry.informer.is_stopped()
        });
        let everything = |identity: &Identity| {
            identity.namespaces.is_empty() && identity.labels.is_none() && identity.fields.is_none()
        };
        let entry = found.find(|(identity, _)| everything(identity)).map(|(_, entry)| entry.typed::<K>().lister());
        entry.ok_or_else(|| Error::NotDeclared {
            kind: K::kind(&()).into_owned(),
            fix: format!("SharedInformerFactory::informer::<{}>(InformerOptions::all())", K::kind(&())),
        })
    }

    /// Stops an informer that nobody needs any more, as [`Informer::stop`] does, and lets go of it. Its objects are freed with the last
    /// clone and lister of it. One that was stopped without this is let go of when the factory is next asked for anything.
    pub async fn remove<K: Object>(&self, informer: Informer<K>) -> Result<(), Error> {
        self.forget(&informer);
        informer.stop().await
    }

    /// Lets go of an informer that is about to be stopped: from now on a request for the same
    /// objects gives a new one.
    pub fn forget<K: Object>(&self, informer: &Informer<K>) {
        let removed: Vec<_> = self.informers().extract_if(|_, entry| entry.holds(informer)).collect();
        // With the lock, others would wait while a cache is freed.
        drop(removed);
    }

    /// Waits until an informer of this factory [fails](Informer::has_failed), and returns an
    /// [`Error::Failed`] that names it. The first failure is returned again to those who ask later.
    pub async fn failed(&self) -> Error {
        let mut failure = self.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|first| first.clone()) {
            Ok(Some(error)) => error,
            // The factory has the sender.
            _ => std::future::pending().await,
        }
    }

    /// Starts all informers that are not running yet: call it again when new ones were asked for.
    pub fn start(&self) -> Result<(), Error> {
        for entry in self.wanted() {
            match entry.informer.start() {
                // Somebody has no use for it any more, which is no reason not to start the others.
                Ok(()) | Err(Error::Stopped { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until all informers have everything that was there from the start. The error names those that do not, and why.
    pub async fn wait_for_cache_sync(&self, limit: Duration) -> Result<(), Error> {
        let started = Instant::now();
        let mut waiting = Vec::new();
        for entry in self.wanted() {
            // The time is for all of them together.
            let left = limit.saturating_sub(started.elapsed());
            let synced = entry.informer.wait_for_sync(left).await.is_ok();
            let unwanted = entry.informer.is_stopped() && !entry.informer.has_failed();
            if !synced && !unwanted {
                waiting.extend(entry.informer.waiting().iter().map(ToString::to_string));
            }
        }
        waiting.sort();
        if waiting.is_empty() { Ok(()) } else { Err(Error::NotSynced { waited: limit, waiting }) }
    }

    /// Shortens the back-offs that are under way to 1 to 2 s at most, but not below a Retry-After of the server. Call it when a request
    /// has succeeded, so that the server is there. It costs little where no informer backs off.
    pub fn hurry(&self) {
        self.informers().values().for_each(|entry| entry.informer.hurry_once());
    }

    /// The reflectors whose first list is not in the cache yet; none once all informers have
    /// synced.
    pub fn waiting(&self) -> Vec<ReflectorStatus> {
        let mut waiting: Vec<_> = self.wanted().iter().flat_map(|entry| entry.informer.waiting()).collect();
        waiting.sort_by(|a, b| a.what.cmp(&b.what));
        waiting
    }

    /// Waits until every informer has synced, or has found that the server does not serve its kind.
    /// There is no limit.
    pub async fn synced_or_missing(&self) {
        loop {
            let settled = |informer: &dyn AnyInformer| informer.waiting().is_empty() || informer.is_missing();
            let mut open = self.wanted();
            open.retain(|entry| !entry.informer.is_stopped() && !settled(&*entry.informer));
            if open.is_empty() {
                return;
            }
            join_all(open.iter().map(|entry| entry.informer.synced_or_missing())).await;
        }
    }

    /// Stops all informers and waits until no handler is called any more, for at most 30 s. The error names the handlers that are
    /// still in a call; the informers are stopped nevertheless.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.shutdown_within(ENDS_WITHIN).await
    }

    /// As [`shutdown`](Self::shutdown), with another limit.
    pub async fn shutdown_within(&self, limit: Duration) -> Result<(), Error> {
        let mut entries: Vec<_> = self.informers().drain().map(|(_, entry)| entry).collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        // One whose handler takes its time does not keep the others from stopping.
        let stopped = join_all(entries.iter().map(|entry| entry.informer.stop(limit))).await;
        let mut waiting = Vec::new();
        for error in stopped.into_iter().filter_map(Result::err) {
            match error {
                Error::NotEnded { waiting: those, .. } => waiting.extend(those),
                other => return Err(other),
            }
        }
        waiting.sort();
        ended_or(limit, waiting)
    }

    /// What all reflectors are doing, but for those of informers that somebody has stopped.
    pub fn status(&self) -> Vec<ReflectorStatus> {
        self.wanted().iter().flat_map(|entry| entry.informer.status()).collect()
    }

    /// The figures of all informers, each with what it is for: `/api/v1/pods`, `/api/v1/pods in a, b where app=web`. Typed, dynamic and
    /// metadata-only informers of the same objects have the same name.
    pub fn metrics(&self) -> Vec<(String, InformerMetrics)> {
        let metrics = |entry: &Entry| (entry.name.to_string(), entry.informer.metrics());
        let mut metrics: Vec<_> = self.wanted().iter().map(metrics).collect();
        metrics.sort_by(|(a, _), (b, _)| a.cmp(b));
        metrics
    }
}

impl Entry {
    fn holds<K: Object>(&self, informer: &Informer<K>) -> bool {
        let any: &dyn Any = &*self.informer;
        any.downcast_ref::<Informer<K>>().is_some_and(|held| held.is_same(informer))
    }

    fn typed<K: Object>(&self) -> Informer<K> {
        let any: &dyn Any = &*self.informer;
        // The identity holds the type.
        any.downcast_ref::<Informer<K>>().cloned().expect("informers are filed under their type")
    }
}

fn add_indexes<K: Object>(informer: &Informer<K>, indexes: Vec<(String, Index<K>)>) -> Result<(), Error> {
    indexes.into_iter().try_for_each(|(name, index)| informer.add_index(&name, index))
}

fn type_meta<K: Resource>(dynamic: &K::DynamicType) -> TypeMeta {
    TypeMeta { api_version: K::api_version(dynamic).into_owned(), kind: K::kind(dynamic).into_owned() }
}

fn metadata_type() -> TypeMeta {
    TypeMeta { api_version: "meta.k8s.io/v1".to_owned(), kind: "PartialObjectMetadata".to_owned() }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_testing::Embedded;

    use super::*;
    use crate::{ListOptions, ListerWatcher, WatchOptions};

    /// A server whose client has a bug.
    struct Buggy(ApiListerWatcher<ConfigMap>);

    impl ListerWatcher for Buggy {
        type List = <ApiListerWatcher<ConfigMap> as ListerWatcher>::List;
        type Watch = <ApiListerWatcher<ConfigMap> as ListerWatcher>::Watch;

        fn describe(&self) -> String {
            self.0.describe()
        }

        async fn list(&self, options: &ListOptions) -> Result<Self::List, steersman_client::Error> {
            self.0.list(options).await
        }

        async fn watch(&self, _: &WatchOptions) -> Result<Self::Watch, steersman_client::Error> {
            panic!("this is the test")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn informers_start_in_the_order_in_which_they_were_asked_for() {
        let factory = SharedInformerFactory::new(Client::from(Embedded::start().client()));
        let names: Vec<_> = (0..16).map(|number| format!("namespace-{number}")).collect();
        for name in &names {
            factory.informer::<ConfigMap>(InformerOptions::all().namespace(name)).expect("the options make sense");
        }
        let started: Vec<_> = factory.wanted().iter().map(|entry| entry.name.clone()).collect();
        assert!(names.iter().zip(&started).all(|(name, started)| started.contains(name)), "{started:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_informer_that_failed_is_seen_until_somebody_asks_for_a_new_one() {
        let client = Client::from(Embedded::start().client());
        let buggy = Buggy(ApiListerWatcher::new(client.all_namespaces::<ConfigMap>()));
        let factory = SharedInformerFactory::new(client);
        factory.informer::<ConfigMap>(InformerOptions::all()).expect("the options make sense");
        {
            let mut informers = factory.informers();
            let entry = informers.values_mut().next().expect("there is one");
            let (kind, storage) = ("ConfigMap".to_owned(), StorageOptions::default());
            let config = InformerConfig {
                kind,
                storage,
                reflector: entry.reflector.clone(),
                world: steersman_client::World::system(),
            };
            entry.informer = Arc::new(Informer::<ConfigMap>::new(vec![(None, buggy)], config));
        }
        factory.start().expect("there is a runtime");
        let error = factory.wait_for_cache_sync(Duration::MAX).await.expect_err("it never syncs").to_string();
        assert!(error.contains("/configmaps: stopped") && error.contains("panicked"), "{error}");
        assert_eq!(factory.status().len(), 1);
        let new = factory.informer::<ConfigMap>(InformerOptions::all()).expect("the options make sense");
        factory.start().expect("there is a runtime");
        factory.wait_for_cache_sync(Duration::MAX).await.expect("it syncs");
        assert!(new.has_synced() && factory.status().len() == 1);
    }
}
