//! Subresources: `status`, `scale`, `eviction`, `token`.

use kube_core::Resource;
use kube_core::params::{Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Api;
use super::requests::{encode, request, written};
use crate::Error;

/// A subresource of the objects of an [`Api`]: what [`Api::subresource`] returns. For `status` the
/// type is the whole object, for others a kind of its own, such as `Scale`.
#[derive(Debug)]
pub struct Subresource<'a, K: Resource> {
    pub(super) api: &'a Api<K>,
    pub(super) name: &'a str,
}

impl<K: Resource> Subresource<'_, K> {
    /// Reads the subresource of an object.
    pub async fn get<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let built = self.api.object_requests("get a subresource of", Some(name))?.get_subresource(self.name, name);
        self.api.send_decode(request(built)?).await
    }

    /// Creates a subresource: an `Eviction`, a `TokenRequest`, a `Binding`.
    pub async fn create<B: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        params: &PostParams,
        body: &B,
    ) -> Result<T, Error> {
        let requests = self.api.object_requests("create a subresource of", Some(name))?;
        let built = requests.create_subresource(self.name, name, params, encode(body)?);
        self.api.send_object(written(built)?).await
    }

    /// Writes the subresource as a whole.
    pub async fn update<B: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        params: &PostParams,
        body: &B,
    ) -> Result<T, Error> {
        let requests = self.api.object_requests("update a subresource of", Some(name))?;
        let built = requests.replace_subresource(self.name, name, params, encode(body)?);
        self.api.send_object(written(built)?).await
    }

    /// Changes part of the subresource.
    pub async fn patch<P: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<T, Error> {
        let requests = self.api.object_requests("patch a subresource of", Some(name))?;
        let built = requests.patch_subresource(self.name, name, params, patch);
        self.api.send_decode(request(built)?).await
    }

    /// Server-side apply: `manager` declares the fields it wants. A field that another manager owns
    /// with another value is a conflict, unless `force` takes it over.
    pub async fn apply<P: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        manager: &str,
        force: bool,
        object: &P,
    ) -> Result<T, Error> {
        let mut params = PatchParams::apply(manager);
        params.force = force;
        self.patch(name, &params, &Patch::Apply(object)).await
    }
}
