//! The client of a manager: reads from the caches, writes to the server.

mod create_or_update;
mod query;

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use steersman_cache::{Cached, Object, ObjectKey};
use steersman_client::{
    Api, ApiResource, Backoff, Client, DeleteParams, Deleted, DynamicObject, ListParams, NamespaceScope, ObjectMeta,
    PartialObjectMeta, Patch, PatchParams, PostParams, World, WriteGate, retry_if,
};

use crate::caches::{CacheHandle, Caches, Selected};
use crate::error::{Error, NotCached};
use crate::flight_recorder::log;
use crate::kind::{Identity, StaticKind};
use crate::read_your_writes::{CacheReader, SeenBefore, Writes, Written};

pub use create_or_update::{Mutated, OperationResult};
pub use query::ListQuery;

/// Reads from the caches of the manager and writes to the server. Clones share the caches.
///
/// **Read your writes** (contract 6). After a successful write through this client, a read that
/// begins afterwards returns that state of the object or a later one. This holds for every cache of
/// the manager, for all its clients, and for [`Context::get`](crate::Context::get).
///
/// - A read waits for a cache that is behind, for at most the time of
///   [`ManagerBuilder::read_your_writes`](crate::ManagerBuilder::read_your_writes). Then it fails
///   with [`Error::Stale`].
/// - A read no longer returns a deleted object. If a cache selects objects, neither does it return
///   one that a write has moved out of the namespaces, labels or fields of that cache.
/// - If a cache selects by a field that the response to a write does not have, the read waits until
///   the cache has reached the version of the write.
///
/// Not covered: dry runs, subresources that are created (`eviction`, `token`), deleted collections,
/// writes past this client, and kinds whose versions do not compare, which is logged. Each of these
/// sentences is a test in `tests/read_your_writes`. All at once is
/// `no_read_is_stale_in_a_thousand_rounds_of_every_write`, and on several threads
/// `reads_on_other_threads_show_what_was_answered_before_they_began`.
///
/// Two limits. If a cache of several namespaces has not shown a written object, and another client
/// deletes it, reads wait for the next bookmark of all these namespaces, at most a minute. A
/// deletion that no event proves is remembered for 300 s, and until 1,024 later ones. That happens
/// if the cache has never shown the object and another client has created it, or if the cache
/// selects by labels or fields: then another client can have moved the object out and back in.
///
/// A read never starts a watch: reading a kind that is not declared is an error that names the call
/// to add (contract 11, test `reading_a_kind_that_is_not_declared_names_the_call_to_add`). A read
/// waits for a cache that has not synced yet, and its error names the missing list.
///
/// A cache of some namespaces, labels or fields serves only those. A read of an object or a
/// namespace that it can never hold is [`Error::NotCached`], which names the selection and the fix,
/// and never "not found" (test `a_read_outside_the_declared_namespaces_names_them_and_the_fix`).
/// The same holds for a list by labels that contradict the selection. A list of all namespaces
/// returns the objects of all declared ones, as in controller-runtime.
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
    writes: Arc<Writes>,
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
        let shared = Arc::new(Shared { client, caches, writes: Arc::default(), limit });
        Self { shared, dry_run: false, field_owner: None, stale_ok: false }
    }

    /// The same client, whose writes pass `gate`. Reads of all clients wait for them as before.
    pub(crate) fn with_write_gate(&self, gate: WriteGate) -> Self {
        let Shared { client, caches, writes, limit } = &*self.shared;
        let shared = Shared {
            client: client.clone().with_write_gate(gate),
            caches: Arc::clone(caches),
            writes: Arc::clone(writes),
            limit: *limit,
        };
        Self { shared: Arc::new(shared), ..self.clone() }
    }

    /// The client without caches: for reads from the server, and for requests that this client does
    /// not have. [`dry_run`](Self::dry_run) and [`field_owner`](Self::field_owner) do not apply to
    /// its writes, and reads do not wait for them. Its requests do not shorten the back-off of the
    /// caches.
    pub fn live(&self) -> &Client {
        &self.shared.client
    }

    /// The clocks and the randomness of this client.
    pub fn world(&self) -> &World {
        self.live().world()
    }

    /// Runs `update` again as long as it fails with a conflict, which means that another client has
    /// changed the object since it was read. `update` reads the object each time. A cached read can
    /// return the old state once more, and the next attempt then fails with a conflict, too.
    /// Returns any other error, and the last conflict.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use steersman_client::Backoff;
    /// # use steersman_runtime::{CachedClient, Error, ObjectKey};
    /// # async fn example(client: &CachedClient, key: &ObjectKey) -> Result<(), Error> {
    /// client
    ///     .retry_on_conflict(Backoff::RETRY, || async {
    ///         let mut map = ConfigMap::clone(&*client.get::<ConfigMap>(key).await?.get()?);
    ///         map.immutable = Some(true);
    ///         client.update(&map).await
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retry_on_conflict<T, F>(&self, backoff: Backoff, update: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        retry_if(self.world(), backoff, Error::is_conflict, update).await
    }

    /// A client whose writes are dry runs: the server checks them and stores nothing. Writes
    /// through [`live`](Self::live) are real.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        Self { dry_run: true, ..self.clone() }
    }

    /// A client whose writes have the field manager `name`.
    #[must_use]
    pub fn field_owner(&self, name: impl Into<String>) -> Self {
        Self { field_owner: Some(name.into()), ..self.clone() }
    }

    /// A client whose reads do not wait for its writes.
    #[must_use]
    pub fn stale_ok(&self) -> Self {
        Self { stale_ok: true, ..self.clone() }
    }

    /// The objects of a Rust type.
    pub fn objects<K: StaticKind>(&self) -> Objects<K> {
        let call = format!("kind::<{}>()", K::kind(&()));
        Objects::new(self, Identity::of::<K, K>(&(), call), |client, scope| client.objects((), scope))
    }

    /// The objects of a kind that is known only at run time.
    pub fn dynamic(&self, resource: &ApiResource) -> Objects<DynamicObject> {
        let call = format!("dynamic(<{}>)", resource.plural);
        let identity = Identity::of::<DynamicObject, DynamicObject>(resource, call);
        let resource = resource.clone();
        Objects::new(self, identity, move |client, scope| client.objects(resource.clone(), scope))
    }

    #[cfg(test)]
    pub(crate) fn writes(&self) -> &Writes {
        &self.shared.writes
    }

    /// The number of written objects that some cache has not shown yet.
    pub fn remembered_writes(&self) -> usize {
        self.shared.writes.len()
    }

    /// The metadata of objects of a Rust type. It can be read, patched and deleted.
    pub fn metadata<K>(&self) -> Objects<PartialObjectMeta<K>>
    where
        K: StaticKind,
        PartialObjectMeta<K>: Object,
    {
        let call = format!("metadata::<{}>()", K::kind(&()));
        let identity = Identity::of::<PartialObjectMeta<K>, K>(&(), call);
        Objects::new(self, identity, |client, scope| client.objects::<K>((), scope).metadata())
    }

    /// The metadata of objects of a kind that is known only at run time.
    pub fn dynamic_metadata(&self, resource: &ApiResource) -> Objects<PartialObjectMeta<DynamicObject>> {
        let call = format!("dynamic_metadata(<{}>)", resource.plural);
        let identity = Identity::of::<PartialObjectMeta<DynamicObject>, DynamicObject>(resource, call);
        let resource = resource.clone();
        Objects::new(self, identity, move |client, scope| {
            client.objects::<DynamicObject>(resource.clone(), scope).metadata()
        })
    }

    /// Reads an object from the cache: see [`Objects::get`].
    pub async fn get<K: StaticKind>(&self, key: &ObjectKey) -> Result<Cached<K>, Error> {
        self.objects().get(key).await
    }

    /// Creates an object: see [`Objects::create`].
    pub async fn create<K: StaticKind>(&self, object: &K) -> Result<K, Error> {
        self.objects().create(object).await
    }

    /// Replaces an object: see [`Objects::update`].
    pub async fn update<K: StaticKind>(&self, object: &K) -> Result<K, Error> {
        self.objects().update(object).await
    }

    /// Replaces the status of an object: see [`Objects::update_status`].
    pub async fn update_status<K: StaticKind>(&self, object: &K) -> Result<K, Error> {
        self.objects().update_status(object).await
    }

    /// Deletes an object: see [`Objects::delete`].
    pub async fn delete<K: StaticKind>(&self, key: &ObjectKey) -> Result<(), Error> {
        self.objects::<K>().delete(key, &DeleteParams::default()).await.map(drop)
    }

    /// The reads of a cache, with the guarantees of this client.
    pub(crate) fn reader<K: Object>(&self, found: CacheHandle<K>) -> CacheReader<K> {
        let limit = self.shared.limit.filter(|_| !self.stale_ok);
        CacheReader::new(found, &self.shared.writes, limit)
    }

    fn post_params(&self) -> PostParams {
        PostParams { dry_run: self.dry_run, field_manager: self.field_owner.clone() }
    }

    fn patch_params(&self) -> PatchParams {
        PatchParams { dry_run: self.dry_run, field_manager: self.field_owner.clone(), ..PatchParams::default() }
    }
}

/// Creates the `Api` of a kind.
type ApiFn<K> = dyn Fn(&Client, NamespaceScope) -> Api<K> + Send + Sync;

/// The objects of one kind: reads from the cache, writes to the server. The writes have the names
/// of those of [`Api`].
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
        api: impl Fn(&Client, NamespaceScope) -> Api<K> + Send + Sync + 'static,
    ) -> Self {
        Self { client: client.clone(), identity, api: Arc::new(api) }
    }

    fn shared(&self) -> &Shared {
        &self.client.shared
    }

    /// The objects at the server: those of a namespace, or of all namespaces if it is `None` or
    /// empty. Its writes are real even if the client is for [dry runs](CachedClient::dry_run), and
    /// reads do not wait for them.
    pub fn live(&self, namespace: Option<&str>) -> Api<K> {
        let scope = match namespace.filter(|namespace| !namespace.is_empty()) {
            Some(namespace) => NamespaceScope::Namespace(namespace.to_owned()),
            // `Api` then refuses a request about one object before it is sent.
            None if self.identity.namespaced_for_sure => NamespaceScope::AllNamespaces,
            None => NamespaceScope::Cluster,
        };
        (self.api)(&self.shared().client, scope)
    }

    #[cfg(test)]
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn kind(&self) -> &str {
        &self.identity.kind
    }

    fn api_of(&self, meta: &ObjectMeta) -> Result<(Api<K>, ObjectKey), Error> {
        let Some(name) = &meta.name else {
            let problem = format!("cannot write a {} without a name: set metadata.name", self.kind());
            return Err(Error::InvalidObject(problem));
        };
        let key = ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), name);
        Ok((self.live(meta.namespace.as_deref()), key))
    }

    /// A write of the whole object would delete everything outside the metadata.
    fn check_whole(&self) -> Result<(), Error> {
        if self.identity.metadata_only {
            let kind = self.kind();
            let problem = format!("cannot write a whole {kind} from its metadata: use patch, or objects::<{kind}>()");
            return Err(Error::InvalidObject(problem));
        }
        Ok(())
    }

    /// Reads an object. It is an error if the object does not exist. An object that the cache can
    /// never hold, because of its namespace or name, is [`Error::NotCached`], because it may exist.
    pub async fn get(&self, key: &ObjectKey) -> Result<Cached<K>, Error> {
        let found = self.get_opt(key).await?;
        found.ok_or_else(|| Error::NotFound { kind: self.identity.kind.clone(), key: key.to_string() })
    }

    /// Reads an object. Returns `None` if it does not exist. [`Error::NotCached`] as for
    /// [`get`](Self::get).
    pub async fn get_opt(&self, key: &ObjectKey) -> Result<Option<Cached<K>>, Error> {
        self.reader()?.get(key).await
    }

    /// Lists the objects that a [`ListQuery`] selects.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use steersman_runtime::{CachedClient, Error, ListQuery};
    /// # async fn example(client: &CachedClient) -> Result<(), Error> {
    /// let pods = client.objects::<Pod>().list(&ListQuery::all().namespace("shop")).await?;
    /// # drop(pods);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list(&self, query: &ListQuery) -> Result<Vec<Cached<K>>, Error> {
        let reader = self.reader()?;
        query.check_covered(&reader)?;
        let found = reader
            .read(
                query.which(),
                |lister| query.look(lister),
                |found| found.as_ref().map_or(&[], |found| found.as_slice()),
            )
            .await?;
        found.map_err(|error| match error {
            steersman_cache::Error::NoSuchIndex { name, known } => {
                let (kind, fix) = (self.identity.kind.clone(), format!("{}.index({name:?}, …)", self.identity.call));
                NotCached::NoSuchIndex { kind, name, known, fix }.into()
            }
            error => error.into(),
        })
    }

    fn reader(&self) -> Result<CacheReader<K>, Error> {
        Ok(self.client.reader(self.shared().caches.find(&self.identity)?))
    }

    /// Fails if the cache would not show the object: the next read would treat it as missing.
    pub(crate) fn check_selected(&self, key: &ObjectKey, object: &K) -> Result<(), Error> {
        let entry = self.shared().caches.find::<K>(&self.identity)?.entry;
        if entry.selects_object(key, object.meta(), object) == Selected::No {
            let what = format!("{} {key}, whose labels or fields do not match,", self.kind());
            return Err(entry.outside(what, key.namespace()));
        }
        Ok(())
    }

    /// The error of a create that the server has refused, because the object exists and the cache
    /// does not have it. If the cache selects by labels or fields, the object at the server
    /// decides: the server would refuse each retry for an object that the cache never shows.
    pub(crate) async fn already_exists(&self, key: &ObjectKey, refused: Error) -> Error {
        let Ok(CacheHandle { entry, .. }) = self.shared().caches.find::<K>(&self.identity) else { return refused };
        if entry.is_unselective() {
            return refused;
        }
        match self.live(key.namespace()).get_opt(key.name()).await {
            Ok(Some(object)) if entry.selects_object(key, object.meta(), &object) == Selected::No => {
                let what = format!("{} {key} exists, but its labels or fields do not match: it", self.kind());
                entry.outside(what, key.namespace())
            }
            _ => refused,
        }
    }

    /// Sends a write of an object that may exist, and records the response.
    async fn write<T>(
        &self,
        verb: &'static str,
        key: &ObjectKey,
        request: impl Future<Output = Result<T, steersman_client::Error>>,
    ) -> Result<T, Error>
    where
        T: Resource + Serialize + 'static,
    {
        // Before the request: if it removes the last finalizer, a cache may see the deletion before
        // the response arrives.
        let before = SeenBefore::of(&self.shared().caches.of(&self.identity.resource), key);
        // Another client undoes our writes: the fields that it loses now show which one.
        let recorder = log::needs_managers(self.kind(), key);
        if let Some(recorder) = &recorder {
            recorder.managers_before(self.kind(), key, self.managers(key).await);
        }
        let response = request.await?;
        self.written(verb, &response, &before);
        if let Some(recorder) = &recorder {
            recorder.name_suspect(self.kind(), key, &self.managers(key).await);
        }
        Ok(response)
    }

    /// The field managers of an object at the server. Objects of a Rust type come without them.
    async fn managers(&self, key: &ObjectKey) -> Vec<log::Manager> {
        let Some((base, plural)) = self.identity.path.rsplit_once('/') else { return Vec::new() };
        let namespace = key.namespace().map_or_else(String::new, |namespace| format!("namespaces/{namespace}/"));
        let path = format!("{base}/{namespace}{plural}/{}", key.name());
        let found = self.live_client().rest().get().abs_path(path).send_for().await;
        log::managers(&found.unwrap_or_default())
    }

    fn live_client(&self) -> &Client {
        &self.shared().client
    }

    /// Records the response of the server: the object, or a subresource with its version.
    fn written<T: Resource + Serialize + 'static>(&self, verb: &'static str, response: &T, before: &SeenBefore) {
        self.shared().caches.hurry();
        let meta = response.meta();
        let Some(name) = meta.name.as_deref().filter(|_| !self.client.dry_run) else { return };
        let key = ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), name);
        log::wrote(verb, self.kind(), &key, meta, response);
        let Shared { writes, caches, .. } = self.shared();
        let (resource, caches) = (&*self.identity.resource, caches.of(&self.identity.resource));
        let is_whole = TypeId::of::<T>() == TypeId::of::<K>();
        if is_whole && is_finished(meta) {
            // Without a finalizer the object is deleted. The response has an older version.
            let known = (meta.uid.as_deref(), meta.resource_version.as_deref());
            writes.deleted(&caches, resource, &key, known, before);
        } else if let Some(written) = Written::new(meta) {
            let written = if is_whole { written.with_object(meta, response, &caches) } else { written };
            writes.written(&caches, resource, &key, written);
        }
    }

    /// Creates an object.
    pub async fn create(&self, object: &K) -> Result<K, Error> {
        self.check_whole()?;
        let created = self.live(object.meta().namespace.as_deref()).create(&self.client.post_params(), object).await?;
        self.written("create", &created, &SeenBefore::default());
        Ok(created)
    }

    /// Replaces an object. Its resource version states which version it replaces: the server
    /// refuses the update with a conflict if there is a newer one.
    pub async fn update(&self, object: &K) -> Result<K, Error> {
        self.check_whole()?;
        let (api, key) = self.api_of(object.meta())?;
        self.write("update", &key, api.update(key.name(), &self.client.post_params(), object)).await
    }

    /// Replaces the status of an object.
    pub async fn update_status(&self, object: &K) -> Result<K, Error> {
        self.check_whole()?;
        let (_, key) = self.api_of(object.meta())?;
        self.subresource("status").update(&key, object).await
    }

    /// Changes part of an object. [`merge_from`](steersman_client::merge_from) creates the patch
    /// from two states of an object.
    pub async fn patch<P: Serialize>(&self, key: &ObjectKey, patch: &Patch<P>) -> Result<K, Error> {
        self.write("patch", key, self.live(key.namespace()).patch(key.name(), &self.client.patch_params(), patch)).await
    }

    /// Changes part of the status of an object.
    pub async fn patch_status<P: Serialize>(&self, key: &ObjectKey, patch: &Patch<P>) -> Result<K, Error> {
        self.subresource("status").patch(key, patch).await
    }

    /// Server-side apply: sets the fields of `object` for the
    /// [field owner](CachedClient::field_owner) of this client, and creates the object if it does
    /// not exist. With `force`, it takes over fields that other field owners have set to other
    /// values; without, these are a conflict. `object` has `apiVersion`, `kind` and
    /// `metadata.name`.
    pub async fn apply<P: Serialize>(&self, key: &ObjectKey, force: bool, object: &P) -> Result<K, Error> {
        let params = self.apply_params(force)?;
        self.write("apply", key, self.live(key.namespace()).patch(key.name(), &params, &Patch::Apply(object))).await
    }

    /// Server-side apply of the status of an object that exists. Otherwise as
    /// [`apply`](Self::apply).
    pub async fn apply_status<P: Serialize>(&self, key: &ObjectKey, force: bool, object: &P) -> Result<K, Error> {
        self.subresource("status").apply(key, force, object).await
    }

    /// A subresource of objects, such as `scale`, `eviction` or `token`. For `status` there are
    /// [`update_status`](Self::update_status), [`patch_status`](Self::patch_status) and
    /// [`apply_status`](Self::apply_status).
    pub fn subresource<'a>(&'a self, subresource: &'a str) -> ObjectsSubresource<'a, K> {
        ObjectsSubresource { objects: self, name: subresource }
    }

    fn apply_params(&self, force: bool) -> Result<PatchParams, Error> {
        if self.client.field_owner.is_none() {
            let problem = "server-side apply needs a field owner: use client.field_owner(\"…\")";
            return Err(Error::InvalidObject(problem.to_owned()));
        }
        Ok(PatchParams { force, ..self.client.patch_params() })
    }

    /// Deletes an object. With finalizers or a grace period, it continues to exist with a deletion
    /// timestamp.
    pub async fn delete(&self, key: &ObjectKey, params: &DeleteParams) -> Result<Deleted<K>, Error> {
        let params = DeleteParams { dry_run: params.dry_run || self.client.dry_run, ..params.clone() };
        let api = self.live(key.namespace());
        if params.dry_run {
            return Ok(api.delete(key.name(), &params).await?);
        }
        let Shared { writes, caches, .. } = self.shared();
        let (resource, caches) = (&*self.identity.resource, caches.of(&self.identity.resource));
        // Before the request: a cache may see the deletion before the response arrives, and would
        // no longer have the uid.
        let before = SeenBefore::of(&caches, key);
        let response = api.delete(key.name(), &params).await?;
        self.shared().caches.hurry();
        let known = match &response {
            Deleted::Object(object) if object.meta().deletion_timestamp.is_some() && !is_finished(object.meta()) => {
                self.written("delete", &**object, &before);
                return Ok(response);
            }
            Deleted::Object(object) => (object.meta().uid.as_deref(), object.meta().resource_version.as_deref()),
            Deleted::Gone(status) => (status.details.as_ref().map(|details| &*details.uid), None),
        };
        let expected = || params.preconditions.as_ref().and_then(|preconditions| preconditions.uid.as_deref());
        writes.deleted(&caches, resource, key, (known.0.or_else(expected), known.1), &before);
        log::deleted(self.kind(), key);
        Ok(response)
    }

    /// Deletes all objects of a namespace that `list` selects, with one request:
    /// controller-runtime's `DeleteAllOf`. The namespace is `None` for objects that are not in
    /// namespaces. Reads do not wait for the deletions.
    #[doc(alias = "delete_all_of")]
    pub async fn delete_collection(
        &self,
        namespace: Option<&str>,
        params: &DeleteParams,
        list: &ListParams,
    ) -> Result<(), Error> {
        let params = DeleteParams { dry_run: params.dry_run || self.client.dry_run, ..params.clone() };
        self.live(namespace).delete_collection(&params, list).await?;
        self.shared().caches.hurry();
        Ok(())
    }
}

/// A subresource of objects: what [`Objects::subresource`] returns. The body of `status` is the
/// whole object. Other subresources have a kind of their own, such as `Scale`.
#[derive(Debug)]
pub struct ObjectsSubresource<'a, K: Resource> {
    objects: &'a Objects<K>,
    name: &'a str,
}

impl<K: Object + Resource> ObjectsSubresource<'_, K> {
    fn client(&self) -> &CachedClient {
        &self.objects.client
    }

    /// The name of a write, for the flight recorder.
    fn verb(&self, status: &'static str, other: &'static str) -> &'static str {
        if self.name == "status" { status } else { other }
    }

    /// Reads it from the server: caches hold objects only.
    pub async fn get<T: DeserializeOwned>(&self, key: &ObjectKey) -> Result<T, Error> {
        let api = self.objects.live(key.namespace());
        Ok(api.subresource(self.name).get(key.name()).await?)
    }

    /// Creates it: an `Eviction`, a `TokenRequest`, a `Binding`. Reads do not wait for what follows
    /// from it. As any other write through this client, it shortens the
    /// [back-off](steersman_cache::Informer::shorten_backoff) of the caches.
    pub async fn create<B: Serialize, T: DeserializeOwned>(&self, key: &ObjectKey, body: &B) -> Result<T, Error> {
        let (api, params) = (self.objects.live(key.namespace()), self.client().post_params());
        let created = api.subresource(self.name).create(key.name(), &params, body).await?;
        self.objects.shared().caches.hurry();
        Ok(created)
    }

    /// Replaces it.
    pub async fn update<T>(&self, key: &ObjectKey, body: &T) -> Result<T, Error>
    where
        T: Resource + Serialize + DeserializeOwned + 'static,
    {
        let (api, params) = (self.objects.live(key.namespace()), self.client().post_params());
        self.objects
            .write(
                self.verb("update status", "update subresource"),
                key,
                api.subresource(self.name).update(key.name(), &params, body),
            )
            .await
    }

    /// Changes part of it.
    pub async fn patch<T, P: Serialize>(&self, key: &ObjectKey, patch: &Patch<P>) -> Result<T, Error>
    where
        T: Resource + Serialize + DeserializeOwned + 'static,
    {
        let (api, params) = (self.objects.live(key.namespace()), self.client().patch_params());
        self.objects
            .write(
                self.verb("patch status", "patch subresource"),
                key,
                api.subresource(self.name).patch(key.name(), &params, patch),
            )
            .await
    }

    /// Server-side apply: see [`Objects::apply`].
    pub async fn apply<T, P: Serialize>(&self, key: &ObjectKey, force: bool, body: &P) -> Result<T, Error>
    where
        T: Resource + Serialize + DeserializeOwned + 'static,
    {
        let (api, params) = (self.objects.live(key.namespace()), self.objects.apply_params(force)?);
        self.objects
            .write(
                self.verb("apply status", "apply subresource"),
                key,
                api.subresource(self.name).patch(key.name(), &params, &Patch::Apply(body)),
            )
            .await
    }
}

/// Returns `true` if the response to a write shows an object that the server has deleted: it has a
/// deletion timestamp, no finalizers and no grace period.
fn is_finished(meta: &ObjectMeta) -> bool {
    let held = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    meta.deletion_timestamp.is_some() && !held && meta.deletion_grace_period_seconds == Some(0)
}
