//! What a controller watches.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube_core::Resource;
use steersman_cache::{Event, Index, Informer, InformerOptions, Object, SharedInformerFactory, StorageOptions};
use steersman_client::{ApiResource, DynamicObject, PartialObjectMeta};

use crate::enqueue::Owners;
use crate::predicate::{Change, Predicate};

type Declare<K> =
    dyn Fn(&SharedInformerFactory, InformerOptions<K>) -> Result<Informer<K>, steersman_cache::Error> + Send + Sync;
type Filter<K> = dyn Fn(&Event<K>) -> bool + Send + Sync;

/// A kind of objects to watch: which of them, how they are kept, and which of their changes matter. Made with [`kind`] or
/// [`dynamic`].
///
/// A manager has one cache for each kind. Which objects it keeps ([`namespace`](Self::namespace), [`labels`](Self::labels),
/// [`fields`](Self::fields)) and how ([`storage`](Self::storage)) is said by the first who asks for it; to say something else later is
/// an error (tests `a_kind_is_declared_once_for_all_who_say_the_same`, `a_kind_is_kept_in_one_way`). Who says nothing
/// - takes what [`Manager::declare`](crate::Manager::declare) said, which is for all;
/// - does not take what a controller said for itself, if that leaves out objects or parts of them: that is an error, too (test
///   `what_a_controller_leaves_out_for_itself_is_not_shared_unsaid`).
///
/// Predicates, filters, resyncs and owners are each source's own, and indexes are added to what there is.
pub struct Kind<K> {
    declare: Arc<Declare<K>>,
    pub(crate) identity: Identity,
    pub(crate) options: InformerOptions<K>,
    /// How they are kept, where somebody said so.
    pub(crate) storage: Option<StorageOptions<K>>,
    pub(crate) conditions: Conditions<K>,
    pub(crate) owners: Owners,
    pub(crate) resync: Option<Duration>,
}

/// Which kind it is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Typed, dynamic and metadata-only objects of one kind are kept apart.
    pub(crate) object: TypeId,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) path: String,
    /// Which objects they are, whatever the version they are read in.
    pub(crate) resource: String,
    /// Whether only the metadata of its objects is known.
    pub(crate) metadata_only: bool,
    /// Whether its objects are in namespaces.
    pub(crate) namespaced: bool,
    /// Whether that is known, and not only likely.
    pub(crate) namespaced_for_sure: bool,
    /// Whether it is known if its objects are in namespaces.
    pub(crate) scope_known: bool,
    /// What to write to declare it.
    pub(crate) call: String,
}

/// Which changes matter.
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

    /// Whether an event matters to all of them. One that panics lets it through: a reconcile too many harms nobody, one too few may.
    pub(crate) fn matter(&self, event: &Event<K>, guard: impl Fn(&str, &dyn Fn() -> bool) -> Option<bool>) -> bool {
        let change = Change::of(event);
        let mut predicates = self.predicates.iter();
        predicates.all(|predicate| guard("predicate", &|| predicate.matters(&change)).unwrap_or(true))
            && self.filters.iter().all(|filter| guard("filter", &|| filter(event)).unwrap_or(true))
    }
}

/// The objects of a Rust type: every `k8s-openapi` kind, every `CustomResource`.
pub fn kind<K>() -> Kind<K>
where
    K: Object + Resource<DynamicType = (), Scope: 'static>,
{
    let declare = |factory: &SharedInformerFactory, options| factory.informer::<K>(options);
    Kind::new(declare, Identity::of::<K, K>(&(), format!("kind::<{}>()", K::kind(&()))))
}

/// The objects of a kind that is known at run time only.
pub fn dynamic(resource: &ApiResource) -> Kind<DynamicObject> {
    let identity = Identity::of::<DynamicObject, DynamicObject>(resource, format!("dynamic(<{}>)", resource.plural));
    let resource = resource.clone();
    Kind::new(move |factory: &SharedInformerFactory, options| factory.dynamic_informer(&resource, options), identity)
}

/// The metadata of objects of a Rust type: the rest is not even sent by the server.
pub fn metadata<K>() -> Kind<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = (), Scope: 'static> + Send + Sync + 'static,
    PartialObjectMeta<K>: Object,
{
    let declare = |factory: &SharedInformerFactory, options| factory.metadata_informer::<K>(options);
    Kind::new(declare, Identity::of::<PartialObjectMeta<K>, K>(&(), format!("metadata::<{}>()", K::kind(&()))))
}

/// The metadata of objects of a kind that is known at run time only.
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
    /// Objects are kept as `O`; `K` knows what they are.
    pub(crate) fn of<O: 'static, K: Resource<Scope: 'static> + 'static>(
        dynamic: &K::DynamicType,
        call: String,
    ) -> Self {
        let is_scope = |scope| TypeId::of::<K::Scope>() == scope;
        let namespaced_for_sure = is_scope(TypeId::of::<NamespaceResourceScope>());
        let in_no_namespace = is_scope(TypeId::of::<ClusterResourceScope>());
        Self {
            object: TypeId::of::<O>(),
            group: K::group(dynamic).into_owned(),
            kind: K::kind(dynamic).into_owned(),
            path: K::url_path(dynamic, None),
            resource: format!("{}.{}", K::plural(dynamic), K::group(dynamic)),
            metadata_only: TypeId::of::<O>() != TypeId::of::<K>(),
            // Of a kind that is known at run time only it is not known: most are.
            namespaced: !in_no_namespace,
            namespaced_for_sure,
            scope_known: in_no_namespace || namespaced_for_sure,
            call,
        }
    }

    /// Whether they are kept in the same cache.
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
        let (storage, owners, resync) = (None, Owners::default(), None);
        Self { declare: Arc::new(declare), identity, options, storage, conditions, owners, resync }
    }

    /// Only changes that matter to `predicate`. Called again, those that matter to all.
    #[must_use]
    pub fn predicate(mut self, predicate: impl Predicate) -> Self {
        self.conditions.predicates.push(Arc::new(predicate));
        self
    }

    /// Only events that the function lets through. It sees the objects; looking at more than their metadata decodes them.
    #[must_use]
    pub fn filter(mut self, filter: impl Fn(&Event<K>) -> bool + Send + Sync + 'static) -> Self {
        self.conditions.filters.push(Arc::new(filter));
        self
    }

    /// Tells of every object again each time this has passed, which is at least a second, as updates that change nothing: for a
    /// controller that also has to look after something outside of Kubernetes. They come after what has changed
    /// ([`LOW_PRIORITY`](crate::LOW_PRIORITY)).
    #[must_use]
    pub fn resync(mut self, every: Duration) -> Self {
        self.resync = Some(every);
        self
    }

    /// As what a controller [owns](crate::ControllerBuilder::owns): tell every owner of its kind, not only the one that controls the
    /// object.
    #[must_use]
    pub fn every_owner(mut self) -> Self {
        self.owners = Owners::All;
        self
    }

    /// Its objects are in no namespace. A Rust type has its scope, and the scope of a dynamic kind
    /// comes from discovery where a controller needs it (test
    /// `the_scope_of_a_dynamic_owner_comes_from_discovery`); this is for servers without discovery,
    /// and wins.
    #[must_use]
    pub fn in_no_namespace(mut self) -> Self {
        self.identity.namespaced = false;
        self.identity.scope_known = true;
        self
    }

    /// Keeps only the objects in a namespace. Called again, those in either.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.options = self.options.namespace(namespace);
        self
    }

    /// Keeps only objects whose labels match.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.options = self.options.labels(selector);
        self
    }

    /// Keeps only objects whose fields match.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.options = self.options.fields(selector);
        self
    }

    /// How they are kept.
    #[must_use]
    pub fn storage(mut self, storage: StorageOptions<K>) -> Self {
        self.options = self.options.storage(storage.clone());
        self.storage = Some(storage);
        self
    }

    /// With an index, by which the cached client lists.
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
