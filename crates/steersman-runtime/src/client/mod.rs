//! The client of a manager: reads from the caches, writes to the server.

mod create_or_update;
mod objects;
mod query;
mod subresource;
mod writes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steersman_cache::{Cached, Object, ObjectKey};
use steersman_client::{
    ApiResource, Backoff, Client, DeleteParams, DynamicObject, PartialObjectMeta, PatchParams, PostParams, World,
    WriteGate, retry_if,
};

use crate::caches::{CacheHandle, Caches};
use crate::error::Error;
use crate::kind::{Identity, StaticKind};
use crate::read_your_writes::{CacheReader, Writes};

pub use create_or_update::{Mutated, OperationResult};
pub use objects::Objects;
pub use query::ListQuery;
pub use subresource::ObjectsSubresource;

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
