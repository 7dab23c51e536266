//! Shares informers: one for each kind and selection of objects.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use kube_core::Resource;
use steersman_client::{Api, ApiResource, Client, DynamicObject, NamespaceScope, PartialObjectMeta};
use steersman_wire::TypeMeta;
use tokio::sync::watch;
use tokio::time::Instant;

use super::handlers::{STOP_TIMEOUT, stop_result};
use super::registry::{AnyInformer, Entry, Identity};
use crate::object::cached::Object;
use crate::{
    ApiListerWatcher, Error, Index, Informer, InformerConfig, InformerMetrics, InformerOptions, Lister, ReflectorError,
    ReflectorOptions, ReflectorStatus,
};

/// Creates informers, one for each kind and selection of objects, and starts and stops them
/// together.
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
/// **Guarantee.** Only [`informer`](Self::informer) and its siblings declare a watch.
/// [`lister`](Self::lister) of a kind without an informer is an error that names the call to make
/// (contract 11).
#[derive(Clone)]
pub struct SharedInformerFactory {
    client: Client,
    informers: Arc<Mutex<HashMap<Identity, Entry>>>,
    /// The first informer that failed.
    failure: watch::Sender<Option<Error>>,
    /// Called with the kind and the failure of a list or a watch.
    on_error: Option<Arc<OnWatchError>>,
}

type OnWatchError = dyn Fn(&str, &ReflectorError) + Send + Sync;

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformerFactory").field("informers", &self.informers().len()).finish_non_exhaustive()
    }
}

impl SharedInformerFactory {
    /// A factory without informers.
    pub fn new(client: Client) -> Self {
        Self { client, informers: Arc::default(), failure: watch::Sender::new(None), on_error: None }
    }

    /// Calls a function with the kind and the failure of each list or watch that fails. It applies
    /// to informers that are created later: see [`Informer::set_watch_error_handler`].
    #[must_use]
    pub fn with_watch_error_handler(
        mut self,
        function: impl Fn(&str, &ReflectorError) + Send + Sync + 'static,
    ) -> Self {
        self.on_error = Some(Arc::new(function));
        self
    }

    fn informers(&self) -> MutexGuard<'_, HashMap<Identity, Entry>> {
        self.informers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The informers that were not stopped, in the order of requests. Drops the stopped ones.
    fn active(&self) -> Vec<Entry> {
        let mut informers = self.informers();
        let stopped: Vec<_> = informers.extract_if(|_, entry| entry.is_stopped()).collect();
        let mut active: Vec<Entry> = informers.values().cloned().collect();
        drop(informers);
        // A fixed order, so that they start in it.
        active.sort_unstable_by_key(|entry| entry.number);
        // Freed without the lock, because freeing a cache takes time.
        drop(stopped);
        active
    }

    /// The informer for objects of a Rust type. The first call creates it, and
    /// [`start`](Self::start) starts it.
    ///
    /// A later call for the same objects returns the same informer and adds the indexes. Other
    /// storage or reflector options are an error, because there is one cache.
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

    /// The informer for objects of a kind that is known only at run time.
    pub fn dynamic_informer(
        &self,
        resource: &ApiResource,
        options: InformerOptions<DynamicObject>,
    ) -> Result<Informer<DynamicObject>, Error> {
        let type_meta = type_meta::<DynamicObject>(resource);
        let api = |client: &Client, place| client.objects(resource.clone(), place);
        self.informer_of(options, &resource.kind, type_meta, api)
    }

    /// The informer for the metadata of objects of a kind that is known only at run time.
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
        api: impl Fn(&Client, NamespaceScope) -> Api<K>,
    ) -> Result<Informer<K>, Error>
    where
        K: Object + Resource<DynamicType: Send + Sync>,
    {
        options.check()?;
        let reflector = ReflectorOptions { type_meta: Some(type_meta), ..options.reflector };
        let everywhere = api(&self.client, NamespaceScope::AllNamespaces);
        let identity = Identity {
            object: TypeId::of::<K>(),
            path: everywhere.path(),
            namespaces: options.namespaces,
            by_namespace: options.by_namespace,
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
                    return Err(Error::OptionsConflict { kind: kind(), options: "storage" });
                }
                if entry.reflector != reflector {
                    return Err(Error::OptionsConflict { kind: kind(), options: "reflector" });
                }
                // Index functions run without a lock.
                drop(informers);
                add_indexes(&informer, options.indexes)?;
                informer
            }
            None => {
                let with_selectors = |api: Api<K>, namespace: Option<&String>| {
                    let own = namespace.and_then(|namespace| identity.by_namespace.get(namespace));
                    let mut lister_watcher = ApiListerWatcher::new(api);
                    if let Some(labels) = own.and_then(|own| own.labels.as_ref()).or(identity.labels.as_ref()) {
                        lister_watcher = lister_watcher.labels(labels);
                    }
                    if let Some(fields) = own.and_then(|own| own.fields.as_ref()).or(identity.fields.as_ref()) {
                        lister_watcher = lister_watcher.fields(fields);
                    }
                    lister_watcher
                };
                let sources = if identity.namespaces.is_empty() {
                    vec![(None, with_selectors(everywhere, None))]
                } else {
                    let source = |namespace: &String| {
                        let api = api(&self.client, NamespaceScope::Namespace(namespace.clone()));
                        (Some(namespace.clone()), with_selectors(api, Some(namespace)))
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
                add_indexes(&informer, options.indexes)?;
                if let Some(on_error) = self.on_error.clone() {
                    let kind = kind.to_owned();
                    informer.set_watch_error_handler(move |error| on_error(&kind, error));
                }
                let name: Arc<str> = identity.to_string().into();
                let (failure, described) = (self.failure.clone(), format!("{kind} ({name})"));
                informer.on_failure(move |panic| {
                    let failed = || Error::Failed { informer: described.clone(), panic: panic.to_owned() };
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

    /// A lister of all objects of a Rust type. It declares no watch: without an informer of all
    /// objects of the type, it is an error.
    pub fn lister<K>(&self) -> Result<Lister<K>, Error>
    where
        K: Object + Resource<DynamicType = ()>,
    {
        let path = K::url_path(&(), None);
        let informers = self.informers();
        let mut found = informers.iter().filter(|(identity, entry)| {
            identity.object == TypeId::of::<K>() && identity.path == path && !entry.informer.is_stopped()
        });
        let lister = found.find(|(identity, _)| identity.is_everything()).map(|(_, entry)| entry.typed::<K>().lister());
        lister.ok_or_else(|| Error::NotDeclared {
            kind: K::kind(&()).into_owned(),
            fix: format!("SharedInformerFactory::informer::<{}>(InformerOptions::all())", K::kind(&())),
        })
    }

    /// Stops an informer, as [`Informer::stop`] does, and releases it. Its objects are freed with
    /// its last clone and lister. The factory releases an informer that was stopped otherwise at
    /// the next call.
    pub async fn remove<K: Object>(&self, informer: Informer<K>) -> Result<(), Error> {
        self.forget(&informer);
        informer.stop().await
    }

    /// Releases an informer that is about to be stopped: the next request for the same objects
    /// creates a new one.
    pub fn forget<K: Object>(&self, informer: &Informer<K>) {
        let removed: Vec<_> = self.informers().extract_if(|_, entry| entry.holds(informer)).collect();
        // Freed without the lock, because freeing a cache takes time.
        drop(removed);
    }

    /// Waits until an informer of this factory [fails](Informer::has_failed), and returns an
    /// [`Error::Failed`] that names it. Later calls return the first failure again.
    pub async fn failed(&self) -> Error {
        let mut failure = self.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|first| first.clone()) {
            Ok(Some(error)) => error,
            // The factory owns the sender, so the channel is never closed.
            _ => std::future::pending().await,
        }
    }

    /// Starts all informers that are not running: call it again after requesting new ones.
    pub fn start(&self) -> Result<(), Error> {
        for entry in self.active() {
            match entry.informer.start() {
                // A stopped informer does not keep the others from starting.
                Ok(()) | Err(Error::Stopped { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until all informers have synced. The error names those that have not, and why.
    pub async fn wait_for_cache_sync(&self, limit: Duration) -> Result<(), Error> {
        let started = Instant::now();
        let mut waiting = Vec::new();
        for entry in self.active() {
            // The limit is for all of them together.
            let left = limit.saturating_sub(started.elapsed());
            let synced = entry.informer.wait_for_sync(left).await.is_ok();
            if !synced && !entry.is_stopped() {
                waiting.extend(entry.informer.waiting().iter().map(ToString::to_string));
            }
        }
        waiting.sort();
        if waiting.is_empty() { Ok(()) } else { Err(Error::NotSynced { waited: limit, waiting }) }
    }

    /// Shortens current back-offs to at most 1 to 2 s, but not below a Retry-After of the server.
    /// Call it after a successful request, which shows that the server is reachable. It is cheap if
    /// no informer backs off.
    pub fn shorten_backoff(&self) {
        let informers = self.informers();
        let mut entries: Vec<_> = informers.values().collect();
        // A fixed order, because each draws a random number when it wakes.
        entries.sort_unstable_by_key(|entry| entry.number);
        entries.iter().for_each(|entry| entry.informer.shorten_current_backoff());
    }

    /// The reflectors whose first list is not in the cache; none once all informers have synced.
    pub fn waiting(&self) -> Vec<ReflectorStatus> {
        let mut waiting: Vec<_> = self.active().iter().flat_map(|entry| entry.informer.waiting()).collect();
        waiting.sort_by(|a, b| a.resource.cmp(&b.resource));
        waiting
    }

    /// Waits until every informer has synced, or has found that the server does not serve its kind.
    /// There is no limit.
    pub async fn synced_or_missing(&self) {
        loop {
            let settled = |informer: &dyn AnyInformer| informer.waiting().is_empty() || informer.is_missing();
            let mut open = self.active();
            open.retain(|entry| !entry.informer.is_stopped() && !settled(&*entry.informer));
            if open.is_empty() {
                return;
            }
            join_all(open.iter().map(|entry| entry.informer.synced_or_missing())).await;
        }
    }

    /// Stops all informers and waits up to 30 s until no handler is called any more. The error
    /// names the handlers that are still in a call; the informers are stopped anyway.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.shutdown_within(STOP_TIMEOUT).await
    }

    /// As [`shutdown`](Self::shutdown), with another limit.
    pub async fn shutdown_within(&self, limit: Duration) -> Result<(), Error> {
        let mut entries: Vec<_> = self.informers().drain().map(|(_, entry)| entry).collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        // Together, so that one slow handler does not delay the others.
        let stopped = join_all(entries.iter().map(|entry| entry.informer.stop(limit))).await;
        let mut waiting = Vec::new();
        for error in stopped.into_iter().filter_map(Result::err) {
            match error {
                Error::StopTimeout { waiting: handlers, .. } => waiting.extend(handlers),
                other => return Err(other),
            }
        }
        waiting.sort();
        stop_result(limit, waiting)
    }

    /// The status of all reflectors, except those of stopped informers.
    pub fn status(&self) -> Vec<ReflectorStatus> {
        self.active().iter().flat_map(|entry| entry.informer.status()).collect()
    }

    /// The metrics of all informers by name: `/api/v1/pods`, `/api/v1/pods in a, b where app=web`.
    /// Typed, dynamic and metadata-only informers of the same objects have the same name.
    pub fn metrics(&self) -> Vec<(String, InformerMetrics)> {
        let metrics = |entry: &Entry| (entry.name.to_string(), entry.informer.metrics());
        let mut metrics: Vec<_> = self.active().iter().map(metrics).collect();
        metrics.sort_by(|(a, _), (b, _)| a.cmp(b));
        metrics
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
    use crate::{ListOptions, ListerWatcher, StorageOptions, WatchOptions};

    /// A client with a bug: every watch panics.
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
    async fn informers_start_in_the_order_of_requests() {
        let factory = SharedInformerFactory::new(Embedded::empty().client());
        let names: Vec<_> = (0..16).map(|number| format!("namespace-{number}")).collect();
        for name in &names {
            factory.informer::<ConfigMap>(InformerOptions::all().namespace(name)).expect("the options are valid");
        }
        let started: Vec<_> = factory.active().iter().map(|entry| entry.name.clone()).collect();
        assert!(names.iter().zip(&started).all(|(name, started)| started.contains(name)), "{started:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_informer_is_visible_until_a_new_one_is_requested() {
        let client = Embedded::empty().client();
        let buggy = Buggy(ApiListerWatcher::new(client.all_namespaces::<ConfigMap>()));
        let factory = SharedInformerFactory::new(client);
        factory.informer::<ConfigMap>(InformerOptions::all()).expect("the options are valid");
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
        let new = factory.informer::<ConfigMap>(InformerOptions::all()).expect("the options are valid");
        factory.start().expect("there is a runtime");
        factory.wait_for_cache_sync(Duration::MAX).await.expect("it syncs");
        assert!(new.has_synced() && factory.status().len() == 1);
    }
}
