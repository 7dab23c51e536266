//! A kind of objects, as a controller watches it.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube_core::Resource;
use steersman_cache::{
    Event, Index, Informer, InformerOptions, NamespaceOptions, Object, ReflectorOptions, SharedInformerFactory,
    StorageOptions,
};
use steersman_client::{ApiResource, DynamicObject, PartialObjectMeta};
use steersman_manifests::operator::{AccessReason, Verb};

use crate::access::KindAccess;
use crate::controller::OwnerMatch;
use crate::predicate::{Change, Predicate};

type Declare<K> =
    dyn Fn(&SharedInformerFactory, InformerOptions<K>) -> Result<Informer<K>, steersman_cache::Error> + Send + Sync;
type Filter<K> = dyn Fn(&Event<K>) -> bool + Send + Sync;

/// A kind of objects to watch: which objects the cache keeps, how it stores them, and which changes
/// cause a reconcile. Created with [`kind`], [`dynamic`], [`metadata`] or [`dynamic_metadata`].
///
/// A manager has one cache for each kind. The first declaration of a kind decides which objects the
/// cache keeps ([`namespace`](Self::namespace), [`labels`](Self::labels), [`fields`](Self::fields))
/// and how it stores them ([`storage`](Self::storage)). A later declaration with other options is
/// an error (tests `a_kind_is_declared_once_for_all_who_say_the_same`,
/// `a_kind_is_kept_in_one_way`). A later declaration without options
/// - shares a cache that [`Manager::declare`](crate::Manager::declare) has declared;
/// - is an error if a controller has declared the cache for itself and the cache leaves out objects
///   or parts of them (test `a_selection_of_one_controller_is_not_shared_silently`).
///
/// Predicates, filters, resyncs and owners apply to each source alone. Indexes are added to those
/// that the cache has.
pub struct Kind<K> {
    declare: Arc<Declare<K>>,
    pub(crate) identity: Identity,
    pub(crate) options: InformerOptions<K>,
    /// The storage options, if the declaration has some.
    pub(crate) storage: Option<StorageOptions<K>>,
    /// The reflector options, if the declaration has some.
    pub(crate) reflector: Option<ReflectorOptions>,
    /// The default namespaces of the manager do not apply.
    pub(crate) all_namespaces: bool,
    pub(crate) conditions: Conditions<K>,
    pub(crate) owner_match: OwnerMatch,
    pub(crate) resync: Option<Duration>,
    /// What the program does with the objects at the server.
    pub(crate) access: Vec<KindAccess>,
}

/// Identifies a kind.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Typed, dynamic and metadata-only objects of one kind have separate caches.
    pub(crate) object: TypeId,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) path: String,
    /// The resource and its group: equal for all versions of the API.
    pub(crate) resource: String,
    /// The objects are metadata alone.
    pub(crate) metadata_only: bool,
    /// The objects are in namespaces. A guess unless `scope_known`.
    pub(crate) namespaced: bool,
    /// The objects are in namespaces, and the Rust type guarantees it.
    pub(crate) namespaced_for_sure: bool,
    /// `namespaced` is known.
    pub(crate) scope_known: bool,
    /// The call that declares the kind, for error messages.
    pub(crate) call: String,
}

/// Which changes cause a reconcile.
pub(crate) struct Conditions<K> {
    predicates: Vec<Arc<dyn Predicate>>,
    filters: Vec<Arc<Filter<K>>>,
}

impl<K> Default for Conditions<K> {
    fn default() -> Self {
        Self { predicates: Vec::new(), filters: Vec::new() }
    }
}

impl<K> Conditions<K> {
    pub(crate) fn add(&mut self, predicates: &[Arc<dyn Predicate>]) {
        self.predicates.extend(predicates.iter().cloned());
    }

    /// Returns `true` if all of them accept an event. One that panics accepts it: an extra
    /// reconcile does no harm, a missing one may.
    pub(crate) fn matter(&self, event: &Event<K>, guard: impl Fn(&str, &dyn Fn() -> bool) -> Option<bool>) -> bool {
        let change = Change::of(event);
        let mut predicates = self.predicates.iter();
        predicates.all(|predicate| guard("predicate", &|| predicate.matters(&change)).unwrap_or(true))
            && self.filters.iter().all(|filter| guard("filter", &|| filter(event)).unwrap_or(true))
    }
}

/// A Rust type that has a kind of its own: every `k8s-openapi` kind, every `CustomResource`. It is
/// implemented for all of them.
#[diagnostic::on_unimplemented(
    message = "the kind of `{Self}` is not known at compile time",
    label = "not a type of one kind",
    note = "for a `DynamicObject`, use `dynamic(&api_resource)`; for the metadata of one, `dynamic_metadata(&api_resource)`",
    note = "a type of your own needs `#[derive(CustomResource)]`"
)]
pub trait StaticKind: Object + Resource<DynamicType = (), Scope: 'static> {}

#[diagnostic::do_not_recommend]
impl<K: Object + Resource<DynamicType = (), Scope: 'static>> StaticKind for K {}

/// The objects of a Rust type: every `k8s-openapi` kind, every `CustomResource`.
pub fn kind<K: StaticKind>() -> Kind<K> {
    let declare = |factory: &SharedInformerFactory, options| factory.informer::<K>(options);
    Kind::new(declare, Identity::of::<K, K>(&(), format!("kind::<{}>()", K::kind(&()))))
}

/// The objects of a kind that is known only at run time.
pub fn dynamic(resource: &ApiResource) -> Kind<DynamicObject> {
    let identity = Identity::of::<DynamicObject, DynamicObject>(resource, format!("dynamic(<{}>)", resource.plural));
    let resource = resource.clone();
    Kind::new(move |factory: &SharedInformerFactory, options| factory.dynamic_informer(&resource, options), identity)
}

/// The metadata of objects of a Rust type. The server sends nothing else.
pub fn metadata<K>() -> Kind<PartialObjectMeta<K>>
where
    K: StaticKind,
    PartialObjectMeta<K>: Object,
{
    let declare = |factory: &SharedInformerFactory, options| factory.metadata_informer::<K>(options);
    Kind::new(declare, Identity::of::<PartialObjectMeta<K>, K>(&(), format!("metadata::<{}>()", K::kind(&()))))
}

/// The metadata of objects of a kind that is known only at run time.
pub fn dynamic_metadata(resource: &ApiResource) -> Kind<PartialObjectMeta<DynamicObject>> {
    let call = format!("dynamic_metadata(<{}>)", resource.plural);
    let identity = Identity::of::<PartialObjectMeta<DynamicObject>, DynamicObject>(resource, call);
    let resource = resource.clone();
    Kind::new(
        move |factory: &SharedInformerFactory, options| factory.dynamic_metadata_informer(&resource, options),
        identity,
    )
}

impl Identity {
    /// `O` is the type of the cached objects, `K` the type that knows the kind.
    pub(crate) fn of<O: 'static, K: Resource<Scope: 'static> + 'static>(
        dynamic: &K::DynamicType,
        call: String,
    ) -> Self {
        let is_scope = |scope| TypeId::of::<K::Scope>() == scope;
        let namespaced_for_sure = is_scope(TypeId::of::<NamespaceResourceScope>());
        let cluster_scoped = is_scope(TypeId::of::<ClusterResourceScope>());
        Self {
            object: TypeId::of::<O>(),
            group: K::group(dynamic).into_owned(),
            kind: K::kind(dynamic).into_owned(),
            path: K::url_path(dynamic, None),
            resource: format!("{}.{}", K::plural(dynamic), K::group(dynamic)),
            metadata_only: TypeId::of::<O>() != TypeId::of::<K>(),
            // Not known of a dynamic kind. Most kinds are namespaced.
            namespaced: !cluster_scoped,
            namespaced_for_sure,
            scope_known: cluster_scoped || namespaced_for_sure,
            call,
        }
    }

    /// The plural name of the resource.
    pub(crate) fn plural(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns `true` if both have the same cache.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.object == other.object && self.path == other.path
    }
}

impl<K> Kind<K> {
    fn new(
        declare: impl Fn(&SharedInformerFactory, InformerOptions<K>) -> Result<Informer<K>, steersman_cache::Error>
        + Send
        + Sync
        + 'static,
        identity: Identity,
    ) -> Self {
        let (options, conditions) = (InformerOptions::default(), Conditions::default());
        let (storage, reflector, owner_match, resync) = (None, None, OwnerMatch::default(), None);
        let (declare, all_namespaces, access) = (Arc::new(declare), false, Vec::new());
        Self { declare, identity, options, storage, reflector, all_namespaces, conditions, owner_match, resync, access }
    }

    /// Reconciles only after changes that `predicate` accepts. With several predicates, all have to
    /// accept.
    #[must_use]
    pub fn predicate(mut self, predicate: impl Predicate) -> Self {
        self.conditions.predicates.push(Arc::new(predicate));
        self
    }

    /// Reconciles only after events for which `filter` returns `true`. It sees the objects: their
    /// metadata is free, everything else decodes them.
    #[must_use]
    pub fn filter(mut self, filter: impl Fn(&Event<K>) -> bool + Send + Sync + 'static) -> Self {
        self.conditions.filters.push(Arc::new(filter));
        self
    }

    /// Delivers every object again after each period of at least a second, as an update without
    /// changes: for a controller that also checks a system outside of Kubernetes. Changes come
    /// first, because resyncs have [`LOW_PRIORITY`](crate::LOW_PRIORITY).
    #[must_use]
    pub fn resync(mut self, every: Duration) -> Self {
        self.resync = Some(every);
        self
    }

    /// With [`owns`](crate::ControllerBuilder::owns): reconciles all owners of the controller's
    /// kind, not only the one that controls the object.
    #[must_use]
    pub fn every_owner(mut self) -> Self {
        self.owner_match = OwnerMatch::All;
        self
    }

    /// Declares that the objects are not in namespaces. The scope of a Rust type is known, and that
    /// of a dynamic kind comes from discovery where a controller needs it (test
    /// `the_scope_of_a_dynamic_owner_comes_from_discovery`). This is for servers without discovery,
    /// and overrides it.
    #[must_use]
    pub fn cluster_scoped(mut self) -> Self {
        self.identity.namespaced = false;
        self.identity.scope_known = true;
        self
    }

    /// Declares that the objects are in namespaces: the opposite of
    /// [`cluster_scoped`](Self::cluster_scoped).
    #[must_use]
    pub fn namespaced(mut self) -> Self {
        self.identity.namespaced = true;
        self.identity.scope_known = true;
        self
    }

    /// Declares that the program writes objects of this kind with these verbs. Roles are derived
    /// from it: see [`Manager::access`](crate::Manager::access). It changes nothing else, unless
    /// the manager permits [only declared
    /// writes](crate::ManagerBuilder::only_declared_writes).
    ///
    /// | call | verbs |
    /// |---|---|
    /// | `create`, `update`, `patch`, `delete`, `delete_collection` | the verb of that name |
    /// | `create_or_update` | `Create` and `Update` |
    /// | `create_or_patch` | `Create` and `Patch`, and `Patch` of the status if it changes that |
    /// | `apply` | `Patch`, and `Create` for an object that may not exist |
    ///
    /// An object that is adopted, which means that it exists when its owner reference is set, needs
    /// `Delete`, too, on a server with the admission plugin OwnerReferencesPermissionEnforcement.
    ///
    /// ```
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use steersman_runtime::{Error, Manager, Reconciler, Verb, kind};
    /// # fn example(manager: &Manager, reconciler: impl Reconciler<Deployment>) -> Result<(), Error> {
    /// manager
    ///     .controller(kind::<Deployment>().finalizers().writes_status([Verb::Patch]))
    ///     .owns(kind::<ConfigMap>().writes([Verb::Create, Verb::Update]))
    ///     .uses(kind::<Secret>().live([Verb::Get]))
    ///     .records_events()
    ///     .complete(reconciler)?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn writes(self, verbs: impl IntoIterator<Item = Verb>) -> Self {
        self.accesses(None, verbs, AccessReason::Write)
    }

    /// As [`writes`](Self::writes), of the subresource `status`.
    #[must_use]
    pub fn writes_status(self, verbs: impl IntoIterator<Item = Verb>) -> Self {
        self.accesses(Some("status"), verbs, AccessReason::Status)
    }

    /// As [`writes`](Self::writes), of another subresource, such as `scale` or `eviction`. Reads of
    /// a subresource are declared with it, too.
    #[must_use]
    pub fn writes_subresource(self, name: &str, verbs: impl IntoIterator<Item = Verb>) -> Self {
        self.accesses(Some(name), verbs, AccessReason::Subresource)
    }

    /// Declares that the program adds a [`Finalizer`](crate::finalizer::Finalizer) to the objects
    /// and removes it: `Patch` of the objects.
    #[must_use]
    pub fn finalizers(self) -> Self {
        self.accesses(None, [Verb::Patch], AccessReason::Finalizer)
    }

    /// Declares that the program reads the objects from the server, with
    /// [`CachedClient::live`](crate::CachedClient::live) or
    /// [`Objects::live`](crate::Objects::live). Reads from a cache need no declaration.
    #[must_use]
    pub fn live(self, verbs: impl IntoIterator<Item = Verb>) -> Self {
        self.accesses(None, verbs, AccessReason::Live)
    }

    fn accesses(
        mut self,
        subresource: Option<&str>,
        verbs: impl IntoIterator<Item = Verb>,
        reason: AccessReason,
    ) -> Self {
        self.access.push(KindAccess::new(subresource, verbs, reason));
        self
    }

    /// Caches only the objects of a namespace. With several calls, those of all these namespaces.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.options = self.options.namespace(namespace);
        self
    }

    /// As [`namespace`](Self::namespace), with selectors for the objects in this namespace. A
    /// selector that is not set is that of the kind. Storage options are for all namespaces; a
    /// transform can look at the namespace of its object.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use steersman_runtime::{NamespaceOptions, kind};
    /// // All Pods in shop, and in kube-system those of DNS.
    /// let dns = NamespaceOptions::new().labels("k8s-app=kube-dns");
    /// let pods = kind::<Pod>().namespace("shop").namespace_with("kube-system", dns);
    /// # drop(pods);
    /// ```
    #[must_use]
    pub fn namespace_with(mut self, namespace: impl Into<String>, options: NamespaceOptions) -> Self {
        self.options = self.options.namespace_with(namespace, options);
        self
    }

    /// Caches the objects of all namespaces, also if the manager has
    /// [default namespaces](crate::CacheDefaults::namespace).
    #[must_use]
    pub fn all_namespaces(mut self) -> Self {
        self.all_namespaces = true;
        self
    }

    /// Sets how lists and watches are requested: page size, watch timeouts, back-off.
    #[must_use]
    pub fn reflector(mut self, reflector: ReflectorOptions) -> Self {
        self.reflector = Some(reflector);
        self
    }

    /// Caches only objects whose labels match.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.options = self.options.labels(selector);
        self
    }

    /// Caches only objects whose fields match.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.options = self.options.fields(selector);
        self
    }

    /// Sets how the cache stores the objects.
    #[must_use]
    pub fn storage(mut self, storage: StorageOptions<K>) -> Self {
        self.options = self.options.storage(storage.clone());
        self.storage = Some(storage);
        self
    }

    /// Adds an index, for [`ListQuery::index`](crate::ListQuery::index).
    #[must_use]
    pub fn index(mut self, name: impl Into<String>, index: Index<K>) -> Self {
        self.options = self.options.index(name, index);
        self
    }

    pub(crate) fn informer(
        &self,
        factory: &SharedInformerFactory,
        options: InformerOptions<K>,
    ) -> Result<Informer<K>, steersman_cache::Error> {
        (self.declare)(factory, options)
    }
}

impl<K> fmt::Debug for Kind<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("identity", &self.identity).field("options", &self.options).finish_non_exhaustive()
    }
}
