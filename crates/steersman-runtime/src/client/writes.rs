//! Writes of the objects of one kind. Each is recorded, so that later reads show it.

use std::any::TypeId;

use kube_core::Resource;
use serde::Serialize;
use steersman_cache::{Object, ObjectKey};
use steersman_client::{Client, DeleteParams, Deleted, ListParams, ObjectMeta, Patch, PatchParams};

use super::{Objects, ObjectsSubresource, Shared};
use crate::Error;
use crate::flight_recorder::log;
use crate::read_your_writes::{SeenBefore, Written};

impl<K: Object + Resource> Objects<K> {
    /// Sends a write of an object that may exist, and records the response.
    pub(super) async fn write<T>(
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
        if !self.may_look(key) {
            return Vec::new();
        }
        let namespace = key.namespace().map_or_else(String::new, |namespace| format!("namespaces/{namespace}/"));
        let path = format!("{base}/{namespace}{plural}/{}", key.name());
        let found = self.live_client().rest().get().abs_path(path).send_for().await;
        log::managers(&found.unwrap_or_default())
    }

    /// Whether the runtime may read the object from the server, to explain something.
    pub(super) fn may_look(&self, key: &ObjectKey) -> bool {
        self.shared().caches.access().permits_hint(&self.identity, key.namespace(), key.name())
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
    /// [field owner](crate::CachedClient::field_owner) of this client, and creates the object if it
    /// does not exist. With `force`, it takes over fields that other field owners have set to other
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
        ObjectsSubresource::new(self, subresource)
    }

    pub(super) fn apply_params(&self, force: bool) -> Result<PatchParams, Error> {
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

/// Returns `true` if the response to a write shows an object that the server has deleted: it has a
/// deletion timestamp, no finalizers and no grace period.
fn is_finished(meta: &ObjectMeta) -> bool {
    let held = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    meta.deletion_timestamp.is_some() && !held && meta.deletion_grace_period_seconds == Some(0)
}
