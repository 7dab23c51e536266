//! Objects of one kind: typed, dynamic, or their metadata alone.

use std::fmt;
use std::marker::PhantomData;

use http::Request;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube_client::client::Body;
use kube_core::discovery::ApiResource;
use kube_core::metadata::PartialObjectMeta;
use kube_core::params::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube_core::{DynamicObject, Resource, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::decode;
use crate::{Client, Error};

impl Client {
    /// The objects of a type in one namespace.
    pub fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::new(self, (), Place::Namespace(namespace.to_owned()))
    }

    /// The objects of a type in all namespaces. They can be listed and watched; for anything else a namespace is needed.
    pub fn all_namespaces<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::new(self, (), Place::AllNamespaces)
    }

    /// The objects of a type that is in no namespace.
    pub fn cluster<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Api::new(self, (), Place::Cluster)
    }

    /// The objects of a kind that is known at run time only. Whether it has namespaces is known to discovery.
    pub fn dynamic(&self, resource: &ApiResource, place: Place) -> Api<DynamicObject> {
        Api::new(self, resource.clone(), place)
    }

    /// The objects of any type, for code that does not know which: `dynamic` says what a type does not know of itself.
    pub fn objects<K: Resource>(&self, dynamic: K::DynamicType, place: Place) -> Api<K> {
        Api::new(self, dynamic, place)
    }
}

/// Where the objects of an [`Api`] are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In one namespace.
    Namespace(String),
    /// In all namespaces.
    AllNamespaces,
    /// In none: their kind has no namespaces.
    Cluster,
}

/// In which form objects are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Full,
    Metadata,
}

/// The objects of one kind in one place.
///
/// Parameters are those of `kube-core`: they serve `kube::Api` as well.
pub struct Api<K: Resource> {
    pub(crate) client: Client,
    pub(crate) dynamic: K::DynamicType,
    pub(crate) place: Place,
    pub(crate) form: Form,
    kind: PhantomData<fn() -> K>,
}

impl<K: Resource> Clone for Api<K>
where
    K::DynamicType: Clone,
{
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), dynamic: self.dynamic.clone(), place: self.place.clone(), ..*self }
    }
}

impl<K: Resource> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("resource", &K::plural(&self.dynamic))
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// What became of an object that was deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum Deleted<K> {
    /// It is there for now, with a deletion timestamp: somebody holds it with a finalizer, or it has time to end.
    /// Some kinds are answered with even when they are gone.
    Object(Box<K>),
    /// It is gone.
    Gone(Box<Status>),
}

impl<K: Resource> Api<K> {
    fn new(client: &Client, dynamic: K::DynamicType, place: Place) -> Self {
        Self { client: client.clone(), dynamic, place, form: Form::Full, kind: PhantomData }
    }

    /// The same objects, of which only the metadata is sent.
    pub fn metadata(&self) -> Api<PartialObjectMeta<K>>
    where
        K::DynamicType: Clone,
    {
        Api {
            client: self.client.clone(),
            dynamic: self.dynamic.clone(),
            place: self.place.clone(),
            form: Form::Metadata,
            kind: PhantomData,
        }
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The path of the objects.
    pub fn path(&self) -> String {
        let namespace = match &self.place {
            Place::Namespace(namespace) => Some(namespace.as_str()),
            Place::AllNamespaces | Place::Cluster => None,
        };
        K::url_path(&self.dynamic, namespace)
    }

    pub(crate) fn requests(&self) -> kube_core::Request {
        kube_core::Request::new(self.path())
    }

    /// Requests about a single object, or for a new one: those need a namespace if the kind has namespaces.
    fn requests_of_one(&self, verb: &str, name: Option<&str>) -> Result<kube_core::Request, Error> {
        let missing = match &self.place {
            Place::AllNamespaces => true,
            Place::Namespace(namespace) => namespace.is_empty(),
            Place::Cluster => false,
        };
        if missing {
            let kind = K::kind(&self.dynamic);
            let problem = format!("to {verb} a {kind} the namespace has to be given: it is in one");
            return Err(Error::InvalidRequest(problem));
        }
        let namespace = if let Place::Namespace(namespace) = &self.place { Some(namespace.as_str()) } else { None };
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

type Built = Result<Request<Vec<u8>>, kube_core::request::Error>;

pub(crate) fn request(built: Built) -> Result<Request<Body>, Error> {
    written(built).map(|request| request.map(Body::from))
}

fn written(built: Built) -> Result<Request<Vec<u8>>, Error> {
    let mut request = built.map_err(|error| Error::InvalidRequest(error.to_string()))?;
    // kube writes `path?` without parameters, and `path?&a=b` with some.
    let query = request.uri().query();
    if let Some(query) = query.filter(|query| query.is_empty() || query.starts_with('&')) {
        let (path, query) = (request.uri().path(), query.trim_start_matches('&'));
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        *request.uri_mut() = target.parse().map_err(|error: http::uri::InvalidUri| {
            Error::InvalidRequest(format!("{target:?} is not a path: {error}"))
        })?;
    }
    Ok(request)
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| {
        Error::InvalidRequest(format!("a {} cannot be sent as JSON: {error}", std::any::type_name::<T>()))
    })
}

impl<K: Resource + DeserializeOwned> Api<K> {
    /// Reads one object.
    pub async fn get(&self, name: &str) -> Result<K, Error> {
        self.get_with(name, &GetParams::default()).await
    }

    /// Reads one object, at a given version or newer.
    pub async fn get_with(&self, name: &str, params: &GetParams) -> Result<K, Error> {
        let requests = self.requests_of_one("get", Some(name))?;
        let built = match self.form {
            Form::Full => requests.get(name, params),
            Form::Metadata => requests.get_metadata(name, params),
        };
        self.ask_for(request(built)?).await
    }

    /// Reads one object; `None` if it does not exist.
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
        let built = self.requests_of_one("create", None)?.create(params, encode(object)?);
        self.write(written(built)?).await
    }

    /// Writes an object as a whole. Its resource version says which state it is meant to replace.
    pub async fn replace(&self, name: &str, params: &PostParams, object: &K) -> Result<K, Error>
    where
        K: Serialize,
    {
        let built = self.requests_of_one("replace", Some(name))?.replace(name, params, encode(object)?);
        self.write(written(built)?).await
    }

    /// Changes part of an object: a JSON patch, a merge patch, a strategic merge patch, or server-side apply.
    pub async fn patch<P: Serialize>(&self, name: &str, params: &PatchParams, patch: &Patch<P>) -> Result<K, Error> {
        let requests = self.requests_of_one("patch", Some(name))?;
        let built = match self.form {
            Form::Full => requests.patch(name, params, patch),
            Form::Metadata => requests.patch_metadata(name, params, patch),
        };
        self.ask_for(request(built)?).await
    }

    /// Server-side apply: says what `manager` wants of the object, which is made if need be. Fields that others manage with
    /// another value are a conflict, unless `force` takes them over.
    pub async fn apply<P: Serialize>(&self, name: &str, manager: &str, force: bool, object: &P) -> Result<K, Error> {
        let mut params = PatchParams::apply(manager);
        params.force = force;
        self.patch(name, &params, &Patch::Apply(object)).await
    }

    /// Deletes an object.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<Deleted<K>, Error> {
        let built = request(self.requests_of_one("delete", Some(name))?.delete(name, params))?;
        let asked = self.client.asked(&built);
        let body = self.client.ask(built).await?;
        if let Ok(status) = serde_json::from_slice::<Kinded>(&body)
            && status.kind == "Status"
        {
            return decode(&asked, &body).map(Deleted::Gone);
        }
        decode(&asked, &body).map(Deleted::Object)
    }

    /// Deletes all objects that `list` selects.
    pub async fn delete_collection(&self, params: &DeleteParams, list: &ListParams) -> Result<(), Error> {
        let built = self.requests_of_one("delete the collection of", None)?.delete_collection(params, list);
        self.client.ask(request(built)?).await.map(drop)
    }

    /// A part of objects that is read and written by itself: `status`, `scale`, `eviction`, `token`, …
    pub fn subresource<'a>(&'a self, subresource: &'a str) -> Subresource<'a, K> {
        Subresource { api: self, name: subresource }
    }

    /// The status of objects.
    pub fn status(&self) -> Subresource<'_, K> {
        self.subresource("status")
    }
}

#[derive(serde::Deserialize)]
struct Kinded {
    #[serde(default)]
    kind: String,
}

/// A part of objects that is read and written by itself: what [`Api::subresource`] returns. What goes in and comes out is
/// the whole object for `status`, and a kind of its own for others, such as `Scale`.
#[derive(Debug)]
pub struct Subresource<'a, K: Resource> {
    api: &'a Api<K>,
    name: &'a str,
}

impl<K: Resource> Subresource<'_, K> {
    /// Reads it.
    pub async fn get<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let built = self.api.requests_of_one("get a part of", Some(name))?.get_subresource(self.name, name);
        self.api.ask_for(request(built)?).await
    }

    /// Creates it: an `Eviction`, a `TokenRequest`, a `Binding`.
    pub async fn create<B: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        params: &PostParams,
        body: &B,
    ) -> Result<T, Error> {
        let requests = self.api.requests_of_one("create a part of", Some(name))?;
        let built = requests.create_subresource(self.name, name, params, encode(body)?);
        self.api.write(written(built)?).await
    }

    /// Writes it as a whole.
    pub async fn replace<B: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        params: &PostParams,
        body: &B,
    ) -> Result<T, Error> {
        let requests = self.api.requests_of_one("replace a part of", Some(name))?;
        let built = requests.replace_subresource(self.name, name, params, encode(body)?);
        self.api.write(written(built)?).await
    }

    /// Changes part of it.
    pub async fn patch<P: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<T, Error> {
        let requests = self.api.requests_of_one("patch a part of", Some(name))?;
        let built = requests.patch_subresource(self.name, name, params, patch);
        self.api.ask_for(request(built)?).await
    }
}
