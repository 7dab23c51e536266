//! The informers of a factory, by identity and without their types.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::options::NamespaceOptions;
use crate::object::cached::Object;
use crate::{Error, Informer, InformerMetrics, ReflectorOptions, ReflectorStatus};

/// Which objects an informer caches. The factory has one informer per identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    /// Typed, dynamic and metadata-only objects have informers of their own.
    pub(super) object: TypeId,
    pub(super) path: String,
    pub(super) namespaces: Vec<String>,
    pub(super) by_namespace: BTreeMap<String, NamespaceOptions>,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
}

impl Identity {
    /// Whether it is all objects of the kind.
    pub(super) fn is_everything(&self) -> bool {
        self.namespaces.is_empty() && self.labels.is_none() && self.fields.is_none()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if !self.namespaces.is_empty() {
            let name = |namespace: &String| match self.by_namespace.get(namespace) {
                Some(NamespaceOptions { labels, fields }) => {
                    let selectors: Vec<&str> = labels.iter().chain(fields).map(String::as_str).collect();
                    format!("{namespace} ({})", selectors.join(" and "))
                }
                None => namespace.clone(),
            };
            write!(f, " in {}", self.namespaces.iter().map(name).collect::<Vec<_>>().join(", "))?;
        }
        let selectors: Vec<&str> = self.labels.iter().chain(&self.fields).map(String::as_str).collect();
        if selectors.is_empty() { Ok(()) } else { write!(f, " where {}", selectors.join(" and ")) }
    }
}

/// An informer of any type.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) informer: Arc<dyn AnyInformer>,
    /// The identity as text.
    pub(super) name: Arc<str>,
    pub(super) reflector: ReflectorOptions,
    /// Its place in the order of requests.
    pub(super) number: u64,
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The methods of informers that the factory calls for every type.
pub(super) trait AnyInformer: Any + Send + Sync {
    fn start(&self) -> Result<(), Error>;
    fn stop(&self, limit: Duration) -> BoxFuture<'_, Result<(), Error>>;
    fn wait_for_sync(&self, limit: Duration) -> BoxFuture<'_, Result<(), Error>>;
    fn is_stopped(&self) -> bool;
    fn has_failed(&self) -> bool;
    fn status(&self) -> Vec<ReflectorStatus>;
    fn metrics(&self) -> InformerMetrics;
    fn waiting(&self) -> Vec<ReflectorStatus>;
    fn is_missing(&self) -> bool;
    fn synced_or_missing(&self) -> BoxFuture<'_, ()>;
    fn shorten_current_backoff(&self);
}

impl<K: Object> AnyInformer for Informer<K> {
    fn start(&self) -> Result<(), Error> {
        self.start()
    }

    fn stop(&self, limit: Duration) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.stop_within(limit))
    }

    fn wait_for_sync(&self, limit: Duration) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.wait_for_sync(limit))
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped()
    }

    fn has_failed(&self) -> bool {
        self.has_failed()
    }

    fn status(&self) -> Vec<ReflectorStatus> {
        self.status()
    }

    fn metrics(&self) -> InformerMetrics {
        self.metrics()
    }

    fn waiting(&self) -> Vec<ReflectorStatus> {
        self.waiting()
    }

    fn is_missing(&self) -> bool {
        self.is_missing()
    }

    fn synced_or_missing(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.synced_or_missing())
    }

    fn shorten_current_backoff(&self) {
        self.shorten_current_backoff();
    }
}

impl Entry {
    /// Whether the informer was stopped. A failed one counts as active, so that its error is seen.
    pub(super) fn is_stopped(&self) -> bool {
        self.informer.is_stopped() && !self.informer.has_failed()
    }

    pub(super) fn holds<K: Object>(&self, informer: &Informer<K>) -> bool {
        let any: &dyn Any = &*self.informer;
        any.downcast_ref::<Informer<K>>().is_some_and(|held| held.is_same(informer))
    }

    pub(super) fn typed<K: Object>(&self) -> Informer<K> {
        let any: &dyn Any = &*self.informer;
        // The identity contains the type.
        any.downcast_ref::<Informer<K>>().cloned().expect("the identity of an informer contains its type")
    }
}
