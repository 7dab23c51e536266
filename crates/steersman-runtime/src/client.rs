//! Reads from the caches, writes to the server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_core::Resource;
use serde::Serialize;
use steersman_cache::{Cached, Lister, Object, ObjectKey};
use steersman_client::{
    Api, ApiResource, Client, DeleteParams, Deleted, DynamicObject, ObjectMeta, PartialObjectMeta, Patch, PatchParams,
    Place, PostParams,
};
use steersman_wire::LabelSelector;

use crate::Error;
use crate::caches::{Caches, Declared};
use crate::kind::Identity;
use crate::writes::{Which, Writes};

/// Reads from the manager's caches and writes to the server. Clones share the caches.
///
/// **Read your writes** (contract 6). After a successful write through this client, a read from any cache of its manager gives that
/// state of the object or a later one, or waits for it, for at most the time that
/// [`ManagerBuilder::read_your_writes`](crate::ManagerBuilder::read_your_writes) sets; then it is [`Error::Stale`]. What was deleted at
/// once is not seen any more. An object that the write took out of a cache's namespaces or labels is gone from that cache. Not
/// covered: dry runs, subresources that are created (`eviction`, `token`), collections that are deleted, writes past this client,
/// and kinds whose versions do not compare.
///
/// A read never starts a watch: a kind that nobody declared is an error that says what to call (contract 11).
#[derive(Clone)]
pub struct CachedClient {
    shared: Arc<Shared>,
    dry_run: bool,
    field_owner: Option<String>,
    stale_ok: bool,
}

struct Shared {
    client: Client,
    caches: Arc<Caches>,
    writes: Writes,
    limit: Option<Duration>,
}

impl fmt::Debug for CachedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedClient")
            .field("caches", &self.shared.caches)
            .field("dry_run", &self.dry_run)
            .field("field_owner", &self.field_owner)
            .field("stale_ok", &self.stale_ok)
            .finish_non_exhaustive()
    }
}

impl CachedClient {
    pub(crate) fn new(client: Client, caches: Arc<Caches>, limit: Option<Duration>) -> Self {
        let shared = Arc::new(Shared { client, caches, writes: Writes::default(), limit });
        Self { shared, dry_run: false, field_owner: None, stale_ok: false }
    }

    /// The client without caches: for reads that must come from the server, and for what this one does not do.
    pub fn live(&self) -> &Client {
        &self.shared.client
    }

    /// The same client, whose writes are checked by the server and not done.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        Self { dry_run: true, ..self.clone() }
    }

    /// The same client, whose writes are marked as those of `name`.
    #[must_use]
    pub fn field_owner(&self, name: impl Into<String>) -> Self {
        Self { field_owner: Some(name.into()), ..self.clone() }
    }

    /// The same client, whose reads do not wait for what was written.
    #[must_use]
    pub fn stale_ok(&self) -> Self {
        Self { stale_ok: true, ..self.clone() }
    }

    /// The objects of a Rust type.
    pub fn objects<K>(&self) -> Objects<K>
    where
        K: Object + Resource<DynamicType = (), Scope: 'static>,
    {
        let call = format!("kind::<{}>()", K::kind(&()));
        Objects::new(self, Identity::of::<K, K>(&(), call), |client, place| client.objects((), place))
    }

    /// The objects of a kind that is known at run time only.
    pub fn dynamic(&self, resource: &ApiResource) -> Objects<DynamicObject> {
        let call = format!("dynamic(<{}>)", resource.plural);
        let identity = Identity::of::<DynamicObject, DynamicObject>(resource, call);
        let resource = resource.clone();
        Objects::new(self, identity, move |client, place| client.objects(resource.clone(), place))
    }

    /// The metadata of objects of a Rust type.
    pub fn metadata<K>(&self) -> Objects<PartialObjectMeta<K>>
    where
        K: Resource<DynamicType = (), Scope: 'static> + Send + Sync + 'static,
        PartialObjectMeta<K>: Object,
    {
        let call = format!("metadata::<{}>()", K::kind(&()));
        let identity = Identity::of::<PartialObjectMeta<K>, K>(&(), call);
        Objects::new(self, identity, |client, place| client.objects::<K>((), place).metadata())
    }

    /// One object from the cache.
    pub async fn get<K>(&self, key: &ObjectKey) -> Result<Cached<K>, Error>
    where
        K: Object + Resource<DynamicType = (), Scope: 'static>,
    {
        self.objects().get(key).await
    }

    /// Creates an object.
    pub async fn create<K>(&self, object: &K) -> Result<K, Error>
    where
        K: Object + Resource<DynamicType = (), Scope: 'static>,
    {
        self.objects().create(object).await
    }

    /// Writes an object as a whole. Its version says which state it is meant to replace.
    pub async fn update<K>(&self, object: &K) -> Result<K, Error>
    where
        K: Object + Resource<DynamicType = (), Scope: 'static>,
    {
        self.objects().update(object).await
    }

    /// Writes the status of an object as a whole.
    pub async fn update_status<K>(&self, object: &K) -> Result<K, Error>
    where
        K: Object + Resource<DynamicType = (), Scope: 'static>,
    {
        self.objects().update_status(object).await
    }

    /// Deletes an object.
    pub async fn delete<K>(&self, key: &ObjectKey) -> Result<(), Error>
    where
        K: Object + Resource<DynamicType = (), Scope: 'static>,
    {
        self.objects::<K>().delete(key, &DeleteParams::default()).await.map(drop)
    }

    fn post_params(&self) -> PostParams {
        PostParams { dry_run: self.dry_run, field_manager: self.field_owner.clone(), ..PostParams::default() }
    }

    fn patch_params(&self) -> PatchParams {
        PatchParams { dry_run: self.dry_run, field_manager: self.field_owner.clone(), ..PatchParams::default() }
    }
}

/// How the objects of a kind are asked for.
type ApiFn<K> = dyn Fn(&Client, Place) -> Api<K> + Send + Sync;

/// The objects of one kind: read from the cache, written to the server.
pub struct Objects<K: Resource> {
    client: CachedClient,
    identity: Identity,
    api: Arc<ApiFn<K>>,
}

impl<K: Resource> fmt::Debug for Objects<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl<K: Object + Resource> Objects<K> {
    fn new(
        client: &CachedClient,
        identity: Identity,
        api: impl Fn(&Client, Place) -> Api<K> + Send + Sync + 'static,
    ) -> Self {
        Self { client: client.clone(), identity, api: Arc::new(api) }
    }

    fn shared(&self) -> &Shared {
        &self.client.shared
    }

    /// The objects at the server.
    pub fn live(&self, namespace: Option<&str>) -> Api<K> {
        let place = namespace.map_or(Place::Cluster, |namespace| Place::Namespace(namespace.to_owned()));
        (self.api)(&self.shared().client, place)
    }

    fn api_of(&self, meta: &ObjectMeta) -> Result<(Api<K>, String), Error> {
        let Some(name) = meta.name.clone() else {
            return Err(Error::InvalidObject(format!(
                "a {} without a name cannot be written: set metadata.name",
                self.identity.kind
            )));
        };
        Ok((self.live(meta.namespace.as_deref()), name))
    }

    /// One object; an error if it does not exist.
    pub async fn get(&self, key: &ObjectKey) -> Result<Cached<K>, Error> {
        let found = self.get_opt(key).await?;
        found.ok_or_else(|| Error::NotFound { kind: self.identity.kind.clone(), key: key.to_string() })
    }

    /// One object; `None` if it does not exist.
    pub async fn get_opt(&self, key: &ObjectKey) -> Result<Option<Cached<K>>, Error> {
        let lister = self.caught_up(Which::One(key)).await?;
        Ok(lister.get_by_key(key))
    }

    /// All objects.
    pub async fn list(&self) -> Result<Vec<Cached<K>>, Error> {
        Ok(self.caught_up(Which::All).await?.list().into_iter().collect())
    }

    /// The objects of a namespace.
    pub async fn list_in(&self, namespace: &str) -> Result<Vec<Cached<K>>, Error> {
        Ok(self.caught_up(Which::Namespace(namespace)).await?.namespace(namespace))
    }

    /// The objects whose labels match, of one namespace or of all.
    pub async fn select(&self, namespace: Option<&str>, labels: &LabelSelector) -> Result<Vec<Cached<K>>, Error> {
        let which = namespace.map_or(Which::All, Which::Namespace);
        Ok(self.caught_up(which).await?.select(namespace, labels))
    }

    /// The objects that have a value in an index that was declared with their kind.
    pub async fn by_index(&self, index: &str, value: &str) -> Result<Vec<Cached<K>>, Error> {
        Ok(self.caught_up(Which::All).await?.by_index(index, value)?)
    }

    /// The cache, when it shows what was written.
    async fn caught_up(&self, which: Which<'_>) -> Result<Lister<K>, Error> {
        let (informer, declared) = self.shared().caches.find::<K>(&self.identity)?;
        let lister = informer.lister();
        let Some(limit) = self.shared().limit.filter(|_| !self.client.stale_ok) else { return Ok(lister) };
        let missing = || self.shared().writes.missing(&self.identity.path, which, &declared);
        if missing().is_none() || lister.wait_until(limit, || missing().is_none()).await {
            return Ok(lister);
        }
        let Some((key, wanted)) = missing() else { return Ok(lister) };
        Err(Error::Stale {
            kind: self.identity.kind.clone(),
            key: key.to_string(),
            wanted,
            reached: lister.resource_version(),
            waited: limit,
        })
    }

    /// Notes what the server has answered with.
    fn written(&self, object: &K) {
        if !self.client.dry_run {
            self.shared().writes.written(&self.shared().caches, &self.identity.path, object.meta());
        }
    }

    /// Creates an object.
    pub async fn create(&self, object: &K) -> Result<K, Error> {
        let created = self.live(object.meta().namespace.as_deref()).create(&self.client.post_params(), object).await?;
        self.written(&created);
        Ok(created)
    }

    /// Writes an object as a whole. Its version says which state it is meant to replace.
    pub async fn update(&self, object: &K) -> Result<K, Error> {
        let (api, name) = self.api_of(object.meta())?;
        let updated = api.replace(&name, &self.client.post_params(), object).await?;
        self.written(&updated);
        Ok(updated)
    }

    /// Writes the status of an object as a whole.
    pub async fn update_status(&self, object: &K) -> Result<K, Error> {
        let (api, name) = self.api_of(object.meta())?;
        let updated: K = api.status().replace(&name, &self.client.post_params(), object).await?;
        self.written(&updated);
        Ok(updated)
    }

    /// Changes part of an object.
    pub async fn patch<P: Serialize>(&self, key: &ObjectKey, patch: &Patch<P>) -> Result<K, Error> {
        let patched = self.live(key.namespace()).patch(key.name(), &self.client.patch_params(), patch).await?;
        self.written(&patched);
        Ok(patched)
    }

    /// Changes part of the status of an object.
    pub async fn patch_status<P: Serialize>(&self, key: &ObjectKey, patch: &Patch<P>) -> Result<K, Error> {
        let api = self.live(key.namespace());
        let patched: K = api.status().patch(key.name(), &self.client.patch_params(), patch).await?;
        self.written(&patched);
        Ok(patched)
    }

    /// Server-side apply: says what this client's [field owner](CachedClient::field_owner) wants of the object, which is made if need
    /// be. `force` takes over fields that others manage with another value.
    pub async fn apply<P: Serialize>(&self, key: &ObjectKey, object: &P, force: bool) -> Result<K, Error> {
        if self.client.field_owner.is_none() {
            let problem = "server-side apply needs to know who applies: client.field_owner(\"…\")";
            return Err(Error::InvalidObject(problem.to_owned()));
        }
        let params = PatchParams { force, ..self.client.patch_params() };
        let applied = self.live(key.namespace()).patch(key.name(), &params, &Patch::Apply(object)).await?;
        self.written(&applied);
        Ok(applied)
    }

    /// Deletes an object. It may be there for a while, with a deletion timestamp.
    pub async fn delete(&self, key: &ObjectKey, params: &DeleteParams) -> Result<Deleted<K>, Error> {
        let params = DeleteParams { dry_run: params.dry_run || self.client.dry_run, ..params.clone() };
        let api = self.live(key.namespace());
        if params.dry_run {
            return Ok(api.delete(key.name(), &params).await?);
        }
        let (path, writes) = (&self.identity.path, &self.shared().writes);
        let precondition = params.preconditions.as_ref().and_then(|preconditions| preconditions.uid.clone());
        let uid = precondition.or_else(|| self.cached_uid(key));
        // Before it is sent: the cache may see the deletion before the answer comes.
        if let Some(uid) = &uid {
            writes.gone(path, key, uid);
        }
        let answer = api.delete(key.name(), &params).await;
        let remains = match &answer {
            Ok(Deleted::Gone(status)) => {
                let told = status.details.as_ref().map(|details| &details.uid).filter(|uid| !uid.is_empty());
                if let Some(told) = told.filter(|told| Some(*told) != uid.as_ref()) {
                    writes.gone(path, key, told);
                }
                false
            }
            Ok(Deleted::Object(object)) => {
                let meta = object.meta();
                let held = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
                let remains =
                    meta.deletion_timestamp.is_some() && (held || meta.deletion_grace_period_seconds != Some(0));
                if remains {
                    self.written(object);
                }
                remains
            }
            Err(_) => true,
        };
        if let Some(uid) = uid.filter(|_| remains) {
            writes.not_gone(path, key, &uid);
        }
        Ok(answer?)
    }

    fn cached_uid(&self, key: &ObjectKey) -> Option<String> {
        let caches = self.shared().caches.at(&self.identity.path);
        caches.iter().find_map(|declared: &Arc<Declared>| Some(declared.look().meta(key)?.uid().to_owned()))
    }
}
