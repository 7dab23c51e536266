//! Subresources of the objects of one kind.

use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use steersman_cache::{Object, ObjectKey};
use steersman_client::Patch;

use super::{CachedClient, Objects};
use crate::Error;

/// A subresource of objects: what [`Objects::subresource`] returns. The body of `status` is the
/// whole object. Other subresources have a kind of their own, such as `Scale`.
#[derive(Debug)]
pub struct ObjectsSubresource<'a, K: Resource> {
    objects: &'a Objects<K>,
    name: &'a str,
}

impl<'a, K: Object + Resource> ObjectsSubresource<'a, K> {
    pub(super) fn new(objects: &'a Objects<K>, name: &'a str) -> Self {
        Self { objects, name }
    }

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
