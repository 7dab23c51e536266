//! Reads from the caches, writes to the server.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use steersman_cache::{Cached, Object, ObjectKey};
use steersman_client::{
    Api, ApiResource, Client, DeleteParams, Deleted, DynamicObject, ObjectMeta, PartialObjectMeta, Patch, PatchParams,
    Place, PostParams,
};
use steersman_wire::LabelSelector;

use crate::caches::{Caches, Found, Keeps};
use crate::error::{Error, NotCached};
use crate::kind::Identity;
use crate::query::ListQuery;
use crate::reads::Reader;
use crate::writes::{Sighting, Writes, Written};
use steersman_client::{Backoff, World, retry_if};

/// Reads from the manager's caches and writes to the server. Clones share the caches.
///
/// **Read your writes** (contract 6). After a successful write through this client, a read that begins afterwards returns
/// that state of the object or a later one. This holds for every cache of the manager, through any of its clients and
/// through [`Context::object`](crate::Context::object).
///
/// - A read waits for a cache that is behind, at most for the time of
///   [`ManagerBuilder::read_your_writes`](crate::ManagerBuilder::read_your_writes). Then it fails with [`Error::Stale`].
/// - A deleted object is not seen any more. Nor is, in a cache that selects, an object that the write took out of the
///   namespaces, labels or fields of that cache.
/// - Where a cache selects by a field that the answer did not have, the read waits until the cache has reached the version
///   of the write.
///
/// Not covered: dry runs, subresources that are created (`eviction`, `token`), collections that are deleted, writes past
/// this client, and kinds whose versions do not compare, which is logged. Each of these sentences is a test in
/// `tests/read_your_writes`. All at once is `no_read_is_stale_in_a_thousand_rounds_of_every_write`, and on several threads
/// `reads_on_other_threads_show_what_was_answered_before_they_began`.
///
/// Two limits. If a cache of several namespaces has not shown a written object, and another client deletes it, reads wait
/// for the next bookmark of all these namespaces, a minute at most. And a deletion of which nothing proves that a cache has
/// passed it is remembered for 300 s, and until 1,024 later ones are: the cache has never shown the object, and another
/// client made it; or the cache selects by labels or fields, and another client can have taken the object out and back in.
///
/// A read never starts a watch: a kind that is not declared is an error that names the call to add (contract 11, test
/// `reading_a_kind_that_nobody_declared_names_the_call_to_add`). A cache that is not filled yet is not taken for an empty
/// one: the read waits, and the error names what is missing.
///
/// A cache that keeps only some namespaces, labels or fields answers for those alone. A read of an object or a namespace
/// that it can never hold is [`Error::NotCached`], which names the selection and the fix; it is not "not found" (test
/// `a_read_outside_the_declared_namespaces_names_them_and_the_fix`). So is a read by labels that contradict the selection.
/// A list over all namespaces returns the objects of all declared ones, as in controller-runtime.
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

    /// The client without caches: for reads that must come from the server, and for what this one does not do. What is written with it
    /// is written: neither [`dry_run`](Self::dry_run) nor [`field_owner`](Self::field_owner) reaches it, and no read waits for it.
    /// It needs no cache, so its requests leave the back-off of the caches as it is.
    pub fn live(&self) -> &Client {
        &self.shared.client
    }

    /// Its clocks and its randomness.
    pub fn world(&self) -> &World {
        self.live().world()
    }

    /// Runs `update` again as long as it ends in a conflict: another client has changed the object
    /// since it was read. `update` reads the object each time; the cache shows the new state soon
    /// after the conflict, and a cached read in between may end in one more. Any other error, and the
    /// last conflict, is returned.
    pub async fn retry_on_conflict<T, F>(&self, backoff: Backoff, update: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        retry_if(self.world(), backoff, Error::is_conflict, update).await
    }

    /// The same client, whose writes are checked by the server and not done; but for those through [`live`](Self::live).
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

    #[cfg(test)]
    pub(crate) fn writes(&self) -> &Writes {
        &self.shared.writes
    }

    /// How many written objects are remembered because a cache may not have seen them.
    pub fn remembered_writes(&self) -> usize {
        self.shared.writes.len()
    }

    /// The metadata of objects of a Rust type: to be read, patched and deleted.
    pub fn metadata<K>(&self) -> Objects<PartialObjectMeta<K>>
    where
        K: Resource<DynamicType = (), Scope: 'static> + Send + Sync + 'static,
        PartialObjectMeta<K>: Object,
    {
        let call = format!("metadata::<{}>()", K::kind(&()));
        let identity = Identity::of::<PartialObjectMeta<K>, K>(&(), call);
        Objects::new(self, identity, |client, place| client.objects::<K>((), place).metadata())
    }

    /// The metadata of objects of a kind that is known at run time only.
    pub fn dynamic_metadata(&self, resource: &ApiResource) -> Objects<PartialObjectMeta<DynamicObject>> {
        let call = format!("dynamic_metadata(<{}>)", resource.plural);
        let identity = Identity::of::<PartialObjectMeta<DynamicObject>, DynamicObject>(resource, call);
        let resource = resource.clone();
        Objects::new(self, identity, move |client, place| {
            client.objects::<DynamicObject>(resource.clone(), place).metadata()
        })
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

    /// Reads a cache of this client's manager.
    pub(crate) fn reader<K: Object>(&self, found: Found<K>) -> Reader<K> {
        let limit = self.shared.limit.filter(|_| !self.stale_ok);
        Reader::new(found, &self.shared.writes, limit)
    }

    fn post_params(&self) -> PostParams {
        PostParams { dry_run: self.dry_run, field_manager: self.field_owner.clone() }
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

    /// The objects at the server: those of a namespace, or of all, which the empty namespace means as well. Its writes are done, also where the client is for
    /// [dry runs](CachedClient::dry_run), and no read waits for them.
    pub fn live(&self, namespace: Option<&str>) -> Api<K> {
        let place = match namespace.filter(|namespace| !namespace.is_empty()) {
            Some(namespace) => Place::Namespace(namespace.to_owned()),
            // Then a request about one object is refused before it is sent.
            None if self.identity.namespaced_for_sure => Place::AllNamespaces,
            None => Place::Cluster,
        };
        (self.api)(&self.shared().client, place)
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
            let problem = format!("a {} without a name cannot be written: set metadata.name", self.kind());
            return Err(Error::InvalidObject(problem));
        };
        let key = ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), name);
        Ok((self.live(meta.namespace.as_deref()), key))
    }

    /// What is not in the metadata would be lost.
    fn check_whole(&self) -> Result<(), Error> {
        if self.identity.metadata_only {
            let kind = self.kind();
            let problem =
                format!("of a {kind} only the metadata is known here: patch it, or write it as a whole elsewhere");
            return Err(Error::InvalidObject(problem));
        }
        Ok(())
    }

    /// One object; an error if it does not exist. An object that the cache cannot hold, because of its namespace or name, is
    /// [`Error::NotCached`] and never "not found": it may exist.
    pub async fn get(&self, key: &ObjectKey) -> Result<Cached<K>, Error> {
        let found = self.get_opt(key).await?;
        found.ok_or_else(|| Error::NotFound { kind: self.identity.kind.clone(), key: key.to_string() })
    }

    /// One object; `None` if it does not exist. [`Error::NotCached`] as for [`get`](Self::get).
    pub async fn get_opt(&self, key: &ObjectKey) -> Result<Option<Cached<K>>, Error> {
        self.reader()?.get(key).await
    }

    /// All objects that the cache keeps: of a kind that is declared for some namespaces, the objects of all of these.
    pub async fn list(&self) -> Result<Vec<Cached<K>>, Error> {
        self.query(&ListQuery::all()).await
    }

    /// The objects of a namespace. The empty namespace means all of them, as in Go: the same as [`list`](Self::list).
    pub async fn list_in(&self, namespace: &str) -> Result<Vec<Cached<K>>, Error> {
        self.query(&ListQuery::all().namespace(namespace)).await
    }

    /// The objects whose labels match, of one namespace or of all. The empty namespace means all of them, as in Go.
    pub async fn select(&self, namespace: Option<&str>, labels: &LabelSelector) -> Result<Vec<Cached<K>>, Error> {
        self.query(&ListQuery::all().namespace(namespace.unwrap_or_default()).labels(labels.clone())).await
    }

    /// The objects that have a value in an index that was declared with their kind.
    pub async fn by_index(&self, index: &str, value: &str) -> Result<Vec<Cached<K>>, Error> {
        self.query(&ListQuery::all().index(index, value)).await
    }

    /// The objects that a query asks for: of a namespace, with labels, with a value in an index, or several of these at once.
    pub async fn query(&self, query: &ListQuery) -> Result<Vec<Cached<K>>, Error> {
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

    fn reader(&self) -> Result<Reader<K>, Error> {
        Ok(self.client.reader(self.shared().caches.find(&self.identity)?))
    }

    /// An error if the cache that this client reads would not show the object, so that the next read would take it for absent.
    pub(crate) fn check_selected(&self, key: &ObjectKey, object: &K) -> Result<(), Error> {
        let declared = self.shared().caches.find::<K>(&self.identity)?.declared;
        if declared.keeps_object(key, object.meta(), object) == Keeps::No {
            let what = format!("{} {key}, whose labels or fields do not match,", self.kind());
            return Err(declared.outside(what, key.namespace()));
        }
        Ok(())
    }

    /// What the refusal of a create means that was sent because the cache does not have the object. If the cache selects by
    /// labels or fields, the object at the server decides: an object that the cache never shows would be refused for ever.
    pub(crate) async fn already_exists(&self, key: &ObjectKey, refused: Error) -> Error {
        let Ok(Found { declared, .. }) = self.shared().caches.find::<K>(&self.identity) else { return refused };
        if declared.is_unselective() {
            return refused;
        }
        match self.live(key.namespace()).get_opt(key.name()).await {
            Ok(Some(object)) if declared.keeps_object(key, object.meta(), &object) == Keeps::No => {
                let what = format!("{} {key} exists, but its labels or fields do not match: it", self.kind());
                declared.outside(what, key.namespace())
            }
            _ => refused,
        }
    }

    /// Sends a write of an object that may exist, and notes the answer.
    async fn write<T>(
        &self,
        key: &ObjectKey,
        request: impl Future<Output = Result<T, steersman_client::Error>>,
    ) -> Result<T, Error>
    where
        T: Resource + Serialize + 'static,
    {
        // Before it is sent: if it takes the last finalizer away, a cache may see the deletion before the answer comes.
        let before = Sighting::of(&self.shared().caches.of(&self.identity.resource), key);
        let answer = request.await?;
        self.written(&answer, &before);
        Ok(answer)
    }

    /// Notes what the server has answered with: the object, or a part of it that has its version.
    fn written<T: Resource + Serialize + 'static>(&self, answer: &T, before: &Sighting) {
        self.shared().caches.hurry();
        let meta = answer.meta();
        let Some(name) = meta.name.as_deref().filter(|_| !self.client.dry_run) else { return };
        let key = ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), name);
        let Shared { writes, caches, .. } = self.shared();
        let (resource, caches) = (&*self.identity.resource, caches.of(&self.identity.resource));
        let is_whole = TypeId::of::<T>() == TypeId::of::<K>();
        if is_whole && is_finished(meta) {
            // With its last finalizer it went. The version in the answer is an older one.
            let told = (meta.uid.as_deref(), meta.resource_version.as_deref());
            writes.deleted(&caches, resource, &key, told, before);
        } else if let Some(written) = Written::new(meta) {
            let written = if is_whole { written.with_object(meta, answer, &caches) } else { written };
            writes.written(&caches, resource, &key, written);
        }
    }

    /// Creates an object.
    pub async fn create(&self, object: &K) -> Result<K, Error> {
        self.check_whole()?;
        let created = self.live(object.meta().namespace.as_deref()).create(&self.client.post_params(), object).await?;
        self.written(&created, &Sighting::default());
        Ok(created)
    }

    /// Writes an object as a whole. Its version says which state it is meant to replace.
    pub async fn update(&self, object: &K) -> Result<K, Error> {
        self.check_whole()?;
        let (api, key) = self.api_of(object.meta())?;
        self.write(&key, api.replace(key.name(), &self.client.post_params(), object)).await
    }

    /// Writes the status of an object as a whole.
    pub async fn update_status(&self, object: &K) -> Result<K, Error> {
        self.check_whole()?;
        let (_, key) = self.api_of(object.meta())?;
        self.update_subresource(&key, "status", object).await
    }

    /// Writes a part of an object that is written by itself, such as `scale`. What goes in and comes out may be a kind of its own.
    pub async fn update_subresource<T>(&self, key: &ObjectKey, subresource: &str, body: &T) -> Result<T, Error>
    where
        T: Resource + Serialize + DeserializeOwned + 'static,
    {
        let api = self.live(key.namespace());
        self.write(key, api.subresource(subresource).replace(key.name(), &self.client.post_params(), body)).await
    }

    /// Creates a part of an object, such as an `eviction` or a `token`. Reads do not wait for what follows from it. As after any
    /// other write through this client, the back-off of the caches is [short](steersman_cache::Informer::hurry).
    pub async fn create_subresource<B: Serialize, T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        body: &B,
    ) -> Result<T, Error> {
        let api = self.live(key.namespace());
        let created = api.subresource(subresource).create(key.name(), &self.client.post_params(), body).await?;
        self.shared().caches.hurry();
        Ok(created)
    }

    /// Changes part of an object.
    pub async fn patch<P: Serialize>(&self, key: &ObjectKey, patch: &Patch<P>) -> Result<K, Error> {
        self.write(key, self.live(key.namespace()).patch(key.name(), &self.client.patch_params(), patch)).await
    }

    /// Changes part of the status of an object.
    pub async fn patch_status<P: Serialize>(&self, key: &ObjectKey, patch: &Patch<P>) -> Result<K, Error> {
        self.patch_subresource(key, "status", patch).await
    }

    /// Changes part of a part of an object that is written by itself, such as `scale`.
    pub async fn patch_subresource<T, P: Serialize>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        patch: &Patch<P>,
    ) -> Result<T, Error>
    where
        T: Resource + Serialize + DeserializeOwned + 'static,
    {
        let api = self.live(key.namespace());
        self.write(key, api.subresource(subresource).patch(key.name(), &self.client.patch_params(), patch)).await
    }

    /// Server-side apply: says what this client's [field owner](CachedClient::field_owner) wants of the object, which is made if need
    /// be. `force` takes over fields that others manage with another value. What is wanted has its `apiVersion`, `kind` and
    /// `metadata.name`, as the server asks.
    pub async fn apply<P: Serialize>(&self, key: &ObjectKey, object: &P, force: bool) -> Result<K, Error> {
        let params = self.apply_params(force)?;
        self.write(key, self.live(key.namespace()).patch(key.name(), &params, &Patch::Apply(object))).await
    }

    /// Server-side apply of the status: as [`apply`](Self::apply), to an object that exists.
    pub async fn apply_status<P: Serialize>(&self, key: &ObjectKey, object: &P, force: bool) -> Result<K, Error> {
        let params = self.apply_params(force)?;
        let api = self.live(key.namespace());
        self.write(key, api.status().patch(key.name(), &params, &Patch::Apply(object))).await
    }

    fn apply_params(&self, force: bool) -> Result<PatchParams, Error> {
        if self.client.field_owner.is_none() {
            let problem = "server-side apply needs to know who applies: client.field_owner(\"…\")";
            return Err(Error::InvalidObject(problem.to_owned()));
        }
        Ok(PatchParams { force, ..self.client.patch_params() })
    }

    /// Deletes an object. It may be there for a while, with a deletion timestamp.
    pub async fn delete(&self, key: &ObjectKey, params: &DeleteParams) -> Result<Deleted<K>, Error> {
        let params = DeleteParams { dry_run: params.dry_run || self.client.dry_run, ..params.clone() };
        let api = self.live(key.namespace());
        if params.dry_run {
            return Ok(api.delete(key.name(), &params).await?);
        }
        let Shared { writes, caches, .. } = self.shared();
        let (resource, caches) = (&*self.identity.resource, caches.of(&self.identity.resource));
        // Before it is sent: a cache may see the deletion before the answer comes, and then nobody knows which object it was.
        let before = Sighting::of(&caches, key);
        let answer = api.delete(key.name(), &params).await?;
        self.shared().caches.hurry();
        let told = match &answer {
            Deleted::Object(object) if object.meta().deletion_timestamp.is_some() && !is_finished(object.meta()) => {
                self.written(&**object, &before);
                return Ok(answer);
            }
            Deleted::Object(object) => (object.meta().uid.as_deref(), object.meta().resource_version.as_deref()),
            Deleted::Gone(status) => (status.details.as_ref().map(|details| &*details.uid), None),
        };
        let expected = || params.preconditions.as_ref().and_then(|preconditions| preconditions.uid.as_deref());
        writes.deleted(&caches, resource, key, (told.0.or_else(expected), told.1), &before);
        Ok(answer)
    }
}

/// Whether an object that is being deleted has gone with the state that the server answered with, because nothing holds it any more.
fn is_finished(meta: &ObjectMeta) -> bool {
    let held = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    meta.deletion_timestamp.is_some() && !held && meta.deletion_grace_period_seconds == Some(0)
}
