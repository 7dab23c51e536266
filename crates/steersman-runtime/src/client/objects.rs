//! The objects of one kind: reads from its cache.

use std::fmt;
use std::sync::Arc;

use kube_core::Resource;
use steersman_cache::{Cached, Object, ObjectKey};
use steersman_client::{Api, Client, NamespaceScope, ObjectMeta};

use super::{CachedClient, ListQuery, Shared};
use crate::caches::{CacheHandle, Selected};
use crate::error::{Error, NotCached};
use crate::kind::Identity;
use crate::read_your_writes::CacheReader;

/// Creates the `Api` of a kind.
type ApiFn<K> = dyn Fn(&Client, NamespaceScope) -> Api<K> + Send + Sync;

/// The objects of one kind: reads from the cache, writes to the server. The writes have the names
/// of those of [`Api`].
pub struct Objects<K: Resource> {
    pub(super) client: CachedClient,
    pub(super) identity: Identity,
    api: Arc<ApiFn<K>>,
}

impl<K: Resource> fmt::Debug for Objects<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl<K: Object + Resource> Objects<K> {
    pub(super) fn new(
        client: &CachedClient,
        identity: Identity,
        api: impl Fn(&Client, NamespaceScope) -> Api<K> + Send + Sync + 'static,
    ) -> Self {
        Self { client: client.clone(), identity, api: Arc::new(api) }
    }

    pub(super) fn shared(&self) -> &Shared {
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

    pub(super) fn api_of(&self, meta: &ObjectMeta) -> Result<(Api<K>, ObjectKey), Error> {
        let Some(name) = &meta.name else {
            let problem = format!("cannot write a {} without a name: set metadata.name", self.kind());
            return Err(Error::InvalidObject(problem));
        };
        let key = ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), name);
        Ok((self.live(meta.namespace.as_deref()), key))
    }

    /// A write of the whole object would delete everything outside the metadata.
    pub(super) fn check_whole(&self) -> Result<(), Error> {
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
        if entry.is_unselective() || !self.may_look(key) {
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
}
