//! The manager's caches: one informer for each kind.

mod defaults;
mod missing_namespaces;
mod selection;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use steersman_cache::{
    Index, Informer, InformerMetrics, InformerOptions, Lister, NamespaceOptions, Object, ObjectKey, ReflectorOptions,
    ReflectorStatus, SharedInformerFactory, StorageOptions,
};
use steersman_client::Client;
use steersman_wire::{FieldSelector, Metadata, SelectorError, SelectorOperator, Strip};

use crate::access::{KindAccess, Registry, Target, Use, What};
use crate::error::{Error, NotCached};
use crate::kind::{Identity, Kind};

pub use defaults::CacheDefaults;
pub(crate) use defaults::OnWatchError;
use selection::SelectorsByNamespace;
pub(crate) use selection::{Selected, selected_values};

/// Longer than any process runs.
pub(crate) const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The informers of a manager. The first declaration of a kind creates its informer; later ones
/// share it.
pub(crate) struct Caches {
    client: Client,
    factory: SharedInformerFactory,
    defaults: CacheDefaults,
    entries: Mutex<Vec<Arc<CacheEntry>>>,
    /// The number of the next one.
    next: AtomicUsize,
    /// What the program declares to do at the server.
    access: Arc<Registry>,
}

/// The origin of a declaration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum User<'a> {
    /// The program that builds the manager: the declaration holds for all controllers.
    Manager,
    /// A controller: the declaration is its own.
    Controller(&'a str),
}

/// An informer with its entry.
pub(crate) struct CacheHandle<K> {
    pub(crate) informer: Informer<K>,
    pub(crate) entry: Arc<CacheEntry>,
}

impl<K> Clone for CacheHandle<K> {
    fn clone(&self) -> Self {
        Self { informer: self.informer.clone(), entry: self.entry.clone() }
    }
}

/// A declared kind whose new indexes have not been added yet.
#[must_use = "finish() adds the indexes"]
pub(crate) struct Declaration<K> {
    handle: CacheHandle<K>,
    in_use: Option<InUse>,
    indexes: Vec<(String, Index<K>)>,
}

impl<K: Object> Declaration<K> {
    /// Adds the indexes. Index functions may be slow: call it without any lock.
    pub(crate) fn finish(self) -> Result<(CacheHandle<K>, Option<InUse>), Error> {
        for (name, index) in self.indexes {
            self.handle.informer.add_index(&name, index)?;
        }
        Ok((self.handle, self.in_use))
    }
}

/// Marks a cache as watched: a cache with such a mark cannot be removed.
pub(crate) type InUse = Arc<str>;

/// An informer and its declaration.
pub(crate) struct CacheEntry {
    /// Its number among the informers of the manager.
    pub(crate) number: usize,
    pub(crate) identity: Identity,
    scope: Scope,
    /// The controller that declared it for itself. `None` if it holds for all.
    by: Option<String>,
    /// The cached objects lack fields that they have by default.
    is_lossy: bool,
    users: Mutex<Vec<Weak<str>>>,
    selectors: SelectorsByNamespace,
    /// The declaration does not select objects, beyond the manager's defaults.
    is_default_scope: bool,
    reflector: ReflectorOptions,
    informer: Box<dyn Any + Send + Sync>,
    lookup: Box<dyn MetadataLookup>,
    /// Logs declared namespaces that do not exist, once the informer runs.
    hint: Mutex<Option<BoxFuture<'static, ()>>>,
}

/// The objects of its kind that an informer caches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Scope {
    namespaces: Vec<String>,
    by_namespace: BTreeMap<String, NamespaceOptions>,
    labels: Option<String>,
    fields: Option<String>,
}

/// The part of an informer that does not depend on its type.
pub(crate) trait MetadataLookup: Send + Sync {
    fn meta(&self, key: &ObjectKey) -> Option<Metadata>;
    fn resource_version(&self) -> String;
}

impl<K: Object> MetadataLookup for Lister<K> {
    fn meta(&self, key: &ObjectKey) -> Option<Metadata> {
        self.get_by_key(key).map(|object| object.meta().clone())
    }

    fn resource_version(&self) -> String {
        self.resource_version()
    }
}

impl Scope {
    fn of<K>(options: &InformerOptions<K>) -> Self {
        let mut namespaces = options.namespaces().to_vec();
        namespaces.sort();
        namespaces.dedup();
        let text = |text: Option<&str>| text.map(ToOwned::to_owned);
        let by_namespace = options.namespace_options().clone();
        Self {
            namespaces,
            by_namespace,
            labels: text(options.label_selector()),
            fields: text(options.field_selector()),
        }
    }

    /// The name of the only object that is cached, if the fields select one.
    fn name(&self) -> Option<String> {
        if !self.by_namespace.is_empty() {
            return None;
        }
        let fields = FieldSelector::parse(self.fields.as_deref()?).ok()?;
        let is_exact = |operator| matches!(operator, SelectorOperator::Equals | SelectorOperator::DoubleEquals);
        let mut required = fields.requirements().iter();
        let named = required.find(|required| required.field == "metadata.name" && is_exact(required.operator))?;
        Some(named.value.clone())
    }

    fn options<K>(&self) -> InformerOptions<K> {
        let mut options = self.namespaces.iter().fold(InformerOptions::all(), InformerOptions::namespace);
        for (namespace, of_namespace) in &self.by_namespace {
            options = options.namespace_with(namespace, of_namespace.clone());
        }
        if let Some(labels) = &self.labels {
            options = options.labels(labels);
        }
        if let Some(fields) = &self.fields {
            options = options.fields(fields);
        }
        options
    }
}

impl CacheEntry {
    pub(crate) fn lookup(&self) -> &dyn MetadataLookup {
        &*self.lookup
    }

    fn users(&self) -> MutexGuard<'_, Vec<Weak<str>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the cache as watched as long as the result lives.
    fn used_by(&self, name: &str) -> InUse {
        let user: InUse = Arc::from(name);
        let mut users = self.users();
        users.retain(|user| user.strong_count() > 0);
        users.push(Arc::downgrade(&user));
        user
    }

    /// Whether a declaration without options may share it.
    fn check_is_for_all(&self, has_scope: bool, has_storage: bool) -> Result<(), Error> {
        let Some(by) = &self.by else { return Ok(()) };
        let kind = &self.identity.kind;
        let what = match (has_scope || self.is_default_scope, has_storage || !self.is_lossy) {
            (true, true) => return Ok(()),
            (false, _) => format!("only some objects ({:?})", self.scope),
            (true, false) => "only parts of its objects (storage options)".to_owned(),
        };
        let problem = format!(
            "controller {by} caches {kind} with {what}, and a manager has one cache for each kind: use the same options here, or \
             declare the kind for all controllers with Manager::declare({}…) before the first controller",
            self.identity.call
        );
        Err(steersman_cache::Error::InvalidOptions { problem }.into())
    }
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").field("kinds", &self.entries().len()).finish_non_exhaustive()
    }
}

impl Caches {
    pub(crate) fn new(
        client: Client,
        defaults: CacheDefaults,
        on_error: Option<OnWatchError>,
        access: Arc<Registry>,
    ) -> Self {
        let mut factory = SharedInformerFactory::new(client.clone());
        if let Some(on_error) = on_error {
            factory = factory.with_watch_error_handler(on_error);
        }
        Self { client, factory, defaults, entries: Mutex::default(), next: AtomicUsize::new(0), access }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Arc<CacheEntry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The informer for a kind and, for a controller, the mark that it is in use; the caller adds
    /// the indexes. The first declaration decides which objects are cached, and how. A later
    /// declaration with other options is an error. A declaration without options shares the
    /// informer if it was declared for all controllers. If a controller declared it for itself, it
    /// is shared only if it holds all objects completely.
    pub(crate) fn declare<K: Object>(&self, kind: &mut Kind<K>, user: User<'_>) -> Result<Declaration<K>, Error> {
        self.check_scope(&kind.identity)?;
        let options = std::mem::take(&mut kind.options);
        let declared = Scope::of(&options);
        let scope = self.defaults.complete(declared.clone(), kind);
        let mut entries = self.entries();
        let same = entries.iter().find(|entry| entry.identity.is_same(&kind.identity)).cloned();
        let (handle, indexes) = match same {
            Some(entry) => {
                (self.share(kind, (declared != Scope::default()).then_some(&scope), &entry)?, options.into_indexes())
            }
            None => {
                let storage = kind.storage.clone().or_else(|| self.defaults.storage());
                let mut complete = scope.options().reflector(self.defaults.reflector_of(kind));
                complete = storage.clone().into_iter().fold(complete, InformerOptions::storage);
                complete =
                    options.into_indexes().into_iter().fold(complete, |all, (name, index)| all.index(name, index));
                let handle = self.make(kind, complete, (scope, declared == Scope::default()), user)?;
                entries.push(Arc::clone(&handle.entry));
                (handle, Vec::new())
            }
        };
        let in_use = match user {
            User::Manager => None,
            User::Controller(name) => Some(handle.entry.used_by(name)),
        };
        let target = Target::new(&kind.identity, &handle.entry.scope.namespaces);
        let cache = What::Cache { streaming: handle.entry.reflector.streaming, name: handle.entry.scope.name() };
        self.access.add(uses(&target, user, std::iter::once(cache).chain(requests(kind))));
        Ok(Declaration { handle, in_use, indexes })
    }

    /// Declares what a program does with a kind, without a cache.
    pub(crate) fn declare_use<K>(&self, kind: &Kind<K>, user: User<'_>) -> Result<(), Error> {
        self.check_scope(&kind.identity)?;
        let target = self.target(kind);
        let name = Scope::of(&kind.options).name();
        let named = requests(kind).map(|what| match what {
            What::Requests(requests) => What::Requests(KindAccess { name: name.clone(), ..requests }),
            What::Cache { .. } => what,
        });
        self.access.add(uses(&target, user, named));
        Ok(())
    }

    /// The kind as rules name it, in the namespaces of its cache or of this declaration.
    pub(crate) fn target<K>(&self, kind: &Kind<K>) -> Target {
        let said = Scope::of(&kind.options);
        let entries = self.entries();
        let declared = entries.iter().find(|entry| said == Scope::default() && entry.identity.is_same(&kind.identity));
        let scope = declared.map_or_else(|| self.defaults.complete(said.clone(), kind), |entry| entry.scope.clone());
        Target::new(&kind.identity, &scope.namespaces)
    }

    /// The declared access.
    pub(crate) fn access(&self) -> &Arc<Registry> {
        &self.access
    }

    /// An offline manager cannot ask whether the objects of a dynamic kind are in namespaces.
    fn check_scope(&self, identity: &Identity) -> Result<(), Error> {
        if identity.scope_known || !self.client.is_offline() {
            return Ok(());
        }
        Err(Error::UnknownScope { kind: identity.kind.clone(), call: identity.call.clone() })
    }

    fn share<K: Object>(
        &self,
        kind: &Kind<K>,
        scope: Option<&Scope>,
        entry: &Arc<CacheEntry>,
    ) -> Result<CacheHandle<K>, Error> {
        let invalid = |problem| Error::from(steersman_cache::Error::InvalidOptions { problem });
        if let Some(scope) = scope
            && *scope != entry.scope
        {
            return Err(invalid(format!(
                "{} is declared with {:?} and with {scope:?}: a manager has one cache for each kind; use the same \
                 options in both, or set them in the first only",
                kind.identity.kind, entry.scope
            )));
        }
        if let Some(reflector) = &kind.reflector
            && *reflector != entry.reflector
        {
            return Err(invalid(format!(
                "{} is declared with other reflector options already: a manager has one cache for each kind; use the same options \
                 at both, or set them once, with Manager::declare({}.reflector(…)), before the first controller",
                kind.identity.kind, kind.identity.call
            )));
        }
        if let Some(storage) = &kind.storage {
            // The factory compares the storage options of its informers.
            let asked = entry.scope.options().storage(storage.clone()).reflector(entry.reflector.clone());
            match kind.informer(&self.factory, asked) {
                Err(steersman_cache::Error::OptionsConflict { .. }) => {
                    return Err(invalid(format!(
                        "{} is declared with other storage options already: a manager has one cache for each kind; use the \
                         same options in both (with a transform: a clone of them), or declare them once with \
                         Manager::declare({}.storage(…)) before the first controller",
                        kind.identity.kind, kind.identity.call
                    )));
                }
                other => other?,
            };
        }
        entry.check_is_for_all(scope.is_some(), kind.storage.is_some())?;
        Ok(CacheHandle::of(entry).expect("the identity holds the type"))
    }

    fn make<K: Object>(
        &self,
        kind: &Kind<K>,
        options: InformerOptions<K>,
        (scope, is_default_scope): (Scope, bool),
        user: User<'_>,
    ) -> Result<CacheHandle<K>, Error> {
        let invalid = |problem: SelectorError| steersman_cache::Error::InvalidOptions { problem: problem.to_string() };
        let selectors = SelectorsByNamespace::parse(&scope).map_err(invalid)?;
        let informer = kind.informer(&self.factory, options)?;
        let lossy = |storage: &StorageOptions<K>| storage.transform.is_some() || storage.strip != Strip::default();
        let hint = (!scope.namespaces.is_empty()).then(|| {
            let (kind, access) = (kind.identity.kind.clone(), Arc::clone(&self.access));
            let declared = missing_namespaces::Declared { kind, namespaces: scope.namespaces.clone() };
            missing_namespaces::warn(self.client.clone(), access, informer.subscribe(), declared).boxed()
        });
        let entry = Arc::new(CacheEntry {
            hint: Mutex::new(hint),
            number: self.next.fetch_add(1, Ordering::Relaxed),
            identity: kind.identity.clone(),
            scope,
            by: if let User::Controller(name) = user { Some(name.to_owned()) } else { None },
            is_lossy: kind.storage.as_ref().is_some_and(lossy),
            users: Mutex::default(),
            selectors,
            is_default_scope,
            reflector: self.defaults.reflector_of(kind),
            lookup: Box::new(informer.lister()),
            informer: Box::new(informer.clone()),
        });
        Ok(CacheHandle { informer, entry })
    }

    /// The declared informer of a kind, or an error that names the call that declares one (contract
    /// 11).
    pub(crate) fn find<K: Object>(&self, identity: &Identity) -> Result<CacheHandle<K>, Error> {
        let entries = self.entries();
        let found = entries.iter().find(|entry| entry.identity.is_same(identity)).and_then(CacheHandle::of);
        found.ok_or_else(|| {
            let others: Vec<_> = entries.iter().filter(|other| other.identity.path == identity.path).collect();
            match others.iter().all(|other| other.identity.metadata_only).then(|| others.first()).flatten() {
                Some(other) if !identity.metadata_only => metadata_only(identity, &other.identity),
                _ => not_declared(identity),
            }
        })
    }

    /// Removes a kind that no controller watches any more, and returns its informer, which the
    /// caller stops. A declaration before that creates a new informer.
    pub(crate) fn remove<K: Object>(&self, identity: &Identity) -> Result<Informer<K>, Error> {
        let mut entries = self.entries();
        let index = entries.iter().position(|entry| entry.identity.is_same(identity));
        let index = index.ok_or_else(|| not_declared(identity))?;
        let users: BTreeSet<_> = entries[index].users().iter().filter_map(Weak::upgrade).collect();
        if !users.is_empty() {
            let by = users.iter().map(ToString::to_string).collect();
            return Err(Error::InUse { kind: identity.kind.clone(), by });
        }
        let found = CacheHandle::<K>::of(&entries.remove(index)).expect("the identity holds the type");
        // Under the lock: no declaration can get an informer that is about to stop.
        self.factory.forget(&found.informer);
        Ok(found.informer)
    }

    /// All informers of this resource: typed, dynamic and metadata-only, in any version.
    pub(crate) fn of(&self, resource: &str) -> Vec<Arc<CacheEntry>> {
        self.entries().iter().filter(|entry| entry.identity.resource == resource).cloned().collect()
    }

    pub(crate) fn start(&self) -> Result<(), Error> {
        self.factory.start()?;
        for entry in self.entries().iter() {
            let hint = entry.hint.lock().unwrap_or_else(PoisonError::into_inner).take();
            hint.map(tokio::spawn);
        }
        Ok(())
    }

    /// Waits until all have synced, including those that are declared during the wait.
    pub(crate) async fn synced(&self) {
        while self.factory.wait_for_cache_sync(FOREVER).await.is_ok() {
            if self.factory.waiting().is_empty() {
                return;
            }
        }
        // An informer has failed: see `failed`.
        std::future::pending::<()>().await;
    }

    /// Waits until all have synced, except those of kinds that the server does not serve.
    pub(crate) async fn synced_or_missing(&self) {
        self.factory.synced_or_missing().await;
    }

    /// The reflectors whose first list is missing.
    pub(crate) fn waiting(&self) -> Vec<ReflectorStatus> {
        self.factory.waiting()
    }

    /// Waits until an informer fails. The error names it.
    pub(crate) async fn failed(&self) -> Error {
        self.factory.failed().await.into()
    }

    /// Stops all informers. Returns the names of those that have not ended after `limit`.
    pub(crate) async fn shutdown(&self, limit: Duration) -> Vec<String> {
        match self.factory.shutdown_within(limit).await {
            Err(steersman_cache::Error::StopTimeout { waiting, .. }) => waiting,
            Ok(()) | Err(_) => Vec::new(),
        }
    }

    /// A request has succeeded: caches in back-off retry soon.
    pub(crate) fn hurry(&self) {
        self.factory.shorten_backoff();
    }

    pub(crate) fn metrics(&self) -> Vec<(String, InformerMetrics)> {
        self.factory.metrics()
    }

    pub(crate) fn status(&self) -> Vec<ReflectorStatus> {
        self.factory.status()
    }
}

/// What a declaration of a kind declares besides its cache.
fn requests<K>(kind: &Kind<K>) -> impl Iterator<Item = What> {
    kind.access.iter().cloned().map(What::Requests)
}

fn uses(target: &Target, user: User<'_>, whats: impl Iterator<Item = What>) -> Vec<Use> {
    let by = if let User::Controller(name) = user { Some(name.to_owned()) } else { None };
    whats.map(|what| Use { target: target.clone(), by: by.clone(), what }).collect()
}

impl<K: Object> CacheHandle<K> {
    fn of(entry: &Arc<CacheEntry>) -> Option<Self> {
        let informer = entry.informer.downcast_ref::<Informer<K>>()?.clone();
        Some(Self { informer, entry: Arc::clone(entry) })
    }
}

fn not_declared(identity: &Identity) -> Error {
    let fix = format!("Manager::declare({}), or owns(…) or watches(…) of a controller,", identity.call);
    NotCached::Undeclared { kind: identity.kind.clone(), fix }.into()
}

fn metadata_only(identity: &Identity, cached: &Identity) -> Error {
    let read = format!("CachedClient::{}", cached.call);
    let fix = format!("read {read}, or cache whole objects with Manager::declare({})", identity.call);
    NotCached::MetadataOnly { kind: identity.kind.clone(), fix }.into()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_testing::Embedded;

    use super::*;
    use crate::{Manager, kind};

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_declared_before_its_old_cache_has_stopped_gets_a_new_cache() {
        let server = Embedded::empty();
        let manager = Manager::new(server.client());
        let running = manager.clone();
        tokio::spawn(async move { running.start(std::future::pending()).await });
        tokio::task::yield_now().await;
        manager.declare(kind::<ConfigMap>()).unwrap();
        let maps = kind::<ConfigMap>();
        // The steps of `undeclare`, with a `declare` in between.
        let old = manager.caches().remove::<ConfigMap>(&maps.identity).unwrap();
        let lister = manager.declare(maps).unwrap();
        old.stop().await.unwrap();
        let mut map = ConfigMap::default();
        (map.metadata.namespace, map.metadata.name) = (Some("default".to_owned()), Some("m".to_owned()));
        manager.client().create(&map).await.unwrap();
        manager.client().get::<ConfigMap>(&ObjectKey::new("default", "m")).await.expect("the new cache runs");
        assert_eq!(lister.len(), 1);
    }
}
