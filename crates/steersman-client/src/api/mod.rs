//! The objects of one kind: typed, dynamic, or metadata only.

use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube_core::discovery::ApiResource;
use kube_core::metadata::PartialObjectMeta;
use kube_core::params::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube_core::{DynamicObject, Resource, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;

mod conflict;
mod list_watch;
mod merge_patch;
mod protobuf;
pub(crate) mod requests;
mod subresource;

pub use conflict::{Backoff, retry_if, retry_on_conflict};
pub use list_watch::TypedEvent;
pub use merge_patch::{merge_from, merge_from_with_optimistic_lock};
pub(crate) use protobuf::ProtobufSupport;
pub use subresource::Subresource;

use self::requests::{encode, request, written};
use crate::response::decode;
use crate::{Client, Error};

impl Client {
    /// The objects of a type in one namespace.
    pub fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::new(self, (), NamespaceScope::Namespace(namespace.to_owned()))
    }

    /// The objects of a type in all namespaces, to list and to watch. Every other request needs a
    /// namespace.
    pub fn all_namespaces<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::new(self, (), NamespaceScope::AllNamespaces)
    }

    /// The objects of a cluster-scoped type.
    pub fn cluster<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Api::new(self, (), NamespaceScope::Cluster)
    }

    /// The objects of a kind that is known at run time only. Discovery knows whether the kind has
    /// namespaces: see [`ServedResource::scope`](crate::ServedResource::scope).
    pub fn dynamic(&self, resource: &ApiResource, scope: NamespaceScope) -> Api<DynamicObject> {
        Api::new(self, resource.clone(), scope)
    }

    /// The objects of any type, for generic code. `dynamic` is `()` for a static type, and the
    /// [`ApiResource`] for a dynamic one.
    pub fn objects<K: Resource>(&self, dynamic: K::DynamicType, scope: NamespaceScope) -> Api<K> {
        Api::new(self, dynamic, scope)
    }
}

/// The namespaces of the objects of an [`Api`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceScope {
    /// One namespace.
    Namespace(String),
    /// All namespaces.
    AllNamespaces,
    /// None: the kind is cluster-scoped.
    Cluster,
}

/// Whether whole objects are requested, or their metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Full,
    Metadata,
}

/// The objects of one kind in one scope.
///
/// The parameters are those of `kube-core`, as for `kube::Api`.
pub struct Api<K: Resource> {
    pub(crate) client: Client,
    pub(crate) dynamic: K::DynamicType,
    pub(crate) scope: NamespaceScope,
    pub(crate) form: Form,
    object: PhantomData<fn() -> K>,
}

impl<K: Resource> Clone for Api<K>
where
    K::DynamicType: Clone,
{
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), dynamic: self.dynamic.clone(), scope: self.scope.clone(), ..*self }
    }
}

impl<K: Resource> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("resource", &K::plural(&self.dynamic))
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// The server's response to a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum Deleted<K> {
    /// The object. With a deletion timestamp it still exists: it has finalizers, or its grace
    /// period runs. For some kinds the server sends the object even though it is already deleted.
    Object(Box<K>),
    /// A success: the object is deleted.
    Gone(Box<Status>),
}

impl<K: Resource> Api<K> {
    fn new(client: &Client, dynamic: K::DynamicType, scope: NamespaceScope) -> Self {
        Self { client: client.clone(), dynamic, scope, form: Form::Full, object: PhantomData }
    }

    /// The same objects, as metadata only.
    pub fn metadata(&self) -> Api<PartialObjectMeta<K>>
    where
        K::DynamicType: Clone,
    {
        Api {
            client: self.client.clone(),
            dynamic: self.dynamic.clone(),
            scope: self.scope.clone(),
            form: Form::Metadata,
            object: PhantomData,
        }
    }

    /// The client of these requests.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The path of the collection.
    pub fn path(&self) -> String {
        let namespace = match &self.scope {
            NamespaceScope::Namespace(namespace) => Some(namespace.as_str()),
            NamespaceScope::AllNamespaces | NamespaceScope::Cluster => None,
        };
        K::url_path(&self.dynamic, namespace)
    }

    pub(crate) fn requests(&self) -> kube_core::Request {
        kube_core::Request::new(self.path())
    }

    /// Requests for one object or a new one. They need a namespace if the kind has namespaces.
    fn object_requests(&self, verb: &str, name: Option<&str>) -> Result<kube_core::Request, Error> {
        let missing = match &self.scope {
            NamespaceScope::AllNamespaces => true,
            NamespaceScope::Namespace(namespace) => namespace.is_empty(),
            NamespaceScope::Cluster => false,
        };
        if missing {
            let kind = K::kind(&self.dynamic);
            let problem = format!("cannot {verb} a {kind} without a namespace: its kind is namespaced");
            return Err(Error::InvalidRequest(problem));
        }
        let namespace =
            if let NamespaceScope::Namespace(namespace) = &self.scope { Some(namespace.as_str()) } else { None };
        for (what, segment) in [("name", name), ("namespace", namespace)] {
            let problems = segment.map(steersman_wire::is_path_segment_name).unwrap_or_default();
            if let Some(problem) = problems.first() {
                let problem = format!("invalid {what} {:?}: {problem}", segment.unwrap_or_default());
                return Err(Error::InvalidRequest(problem));
            }
        }
        Ok(self.requests())
    }
}

impl<K: Resource + DeserializeOwned> Api<K> {
    /// Reads one object.
    pub async fn get(&self, name: &str) -> Result<K, Error> {
        self.get_with(name, &GetParams::default()).await
    }

    /// Reads one object, at a given resource version or newer.
    pub async fn get_with(&self, name: &str, params: &GetParams) -> Result<K, Error> {
        let requests = self.object_requests("get", Some(name))?;
        let built = match self.form {
            Form::Full => requests.get(name, params),
            Form::Metadata => requests.get_metadata(name, params),
        };
        self.send_decode(request(built)?).await
    }

    /// Reads one object, or `None` if it does not exist.
    pub async fn get_opt(&self, name: &str) -> Result<Option<K>, Error> {
        match self.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object.
    pub async fn create(&self, params: &PostParams, object: &K) -> Result<K, Error>
    where
        K: Serialize,
    {
        let built = self.object_requests("create", None)?.create(params, encode(object)?);
        self.send_object(written(built)?).await
    }

    /// Writes an object as a whole, with PUT. If its `resourceVersion` is set and is not the
    /// server's, the update is a conflict.
    pub async fn update(&self, name: &str, params: &PostParams, object: &K) -> Result<K, Error>
    where
        K: Serialize,
    {
        let built = self.object_requests("update", Some(name))?.replace(name, params, encode(object)?);
        self.send_object(written(built)?).await
    }

    /// Changes part of an object, with a JSON patch, a merge patch, a strategic merge patch or
    /// server-side apply. [`merge_from`](crate::merge_from) makes a merge patch from two states.
    pub async fn patch<P: Serialize>(&self, name: &str, params: &PatchParams, patch: &Patch<P>) -> Result<K, Error> {
        let requests = self.object_requests("patch", Some(name))?;
        let built = match self.form {
            Form::Full => requests.patch(name, params, patch),
            Form::Metadata => requests.patch_metadata(name, params, patch),
        };
        self.send_decode(request(built)?).await
    }

    /// Server-side apply: `manager` declares the fields it wants, and the object is created if it
    /// does not exist. A field that another manager owns with another value is a conflict, unless
    /// `force` takes it over.
    pub async fn apply<P: Serialize>(&self, name: &str, manager: &str, force: bool, object: &P) -> Result<K, Error> {
        let mut params = PatchParams::apply(manager);
        params.force = force;
        self.patch(name, &params, &Patch::Apply(object)).await
    }

    /// Reads one object through the subresource `status`, which may have its own permission.
    pub async fn get_status(&self, name: &str) -> Result<K, Error> {
        self.status().get(name).await
    }

    /// Writes the status of an object as a whole. The server ignores all other changes.
    pub async fn update_status(&self, name: &str, params: &PostParams, object: &K) -> Result<K, Error>
    where
        K: Serialize,
    {
        self.status().update(name, params, object).await
    }

    /// Changes part of the status of an object, as [`patch`](Self::patch) does.
    pub async fn patch_status<P: Serialize>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K, Error> {
        self.status().patch(name, params, patch).await
    }

    /// Server-side apply of the status of an existing object, as [`apply`](Self::apply) does.
    pub async fn apply_status<P: Serialize>(
        &self,
        name: &str,
        manager: &str,
        force: bool,
        object: &P,
    ) -> Result<K, Error> {
        self.status().apply(name, manager, force, object).await
    }

    /// Deletes an object.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<Deleted<K>, Error> {
        let built = request(self.object_requests("delete", Some(name))?.delete(name, params))?;
        let info = self.client.request_info(&built);
        let body = self.client.send_collect(built).await?;
        if let Ok(status) = serde_json::from_slice::<KindField>(&body)
            && status.kind == "Status"
        {
            return decode(&info, &body).map(Deleted::Gone);
        }
        decode(&info, &body).map(Deleted::Object)
    }

    /// Deletes all objects that `list` selects, in one namespace or of a cluster-scoped kind:
    /// controller-runtime's `DeleteAllOf`.
    pub async fn delete_collection(&self, params: &DeleteParams, list: &ListParams) -> Result<(), Error> {
        let built = self.object_requests("delete all objects of", None)?.delete_collection(params, list);
        self.client.send_collect(request(built)?).await.map(drop)
    }

    /// A subresource: `status`, `scale`, `eviction`, `token`, …
    ///
    /// ```no_run
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use k8s_openapi::api::autoscaling::v1::Scale;
    /// # async fn example(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
    /// let deployments = client.namespaced::<Deployment>("default");
    /// let scale: Scale = deployments.subresource("scale").get("web").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn subresource<'a>(&'a self, subresource: &'a str) -> Subresource<'a, K> {
        Subresource { api: self, name: subresource }
    }

    /// The subresource `status`.
    pub fn status(&self) -> Subresource<'_, K> {
        self.subresource("status")
    }
}

#[derive(serde::Deserialize)]
struct KindField {
    #[serde(default)]
    kind: String,
}
