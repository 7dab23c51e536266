//! Selects cached objects.

use steersman_cache::{Cached, Lister, NAMESPACE_INDEX, Object};
use steersman_wire::LabelSelector;

use crate::Error;
use crate::read_your_writes::{CacheReader, ReadScope};

/// Selects the cached objects that [`Objects::list`](crate::Objects::list) returns. If it has
/// several conditions, an object has to satisfy all of them.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// # use steersman_runtime::{Cached, CachedClient, Error, ListQuery};
/// # use steersman_wire::LabelSelector;
/// # async fn example(client: &CachedClient) -> Result<Vec<Cached<Pod>>, Box<dyn std::error::Error>> {
/// let query = ListQuery::all().namespace("shop").labels(LabelSelector::parse("app=web")?).index("node", "node-1");
/// # Ok(
/// client.objects::<Pod>().list(&query).await?
/// # )
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct ListQuery {
    namespace: Option<String>,
    labels: Option<LabelSelector>,
    index: Option<(String, String)>,
}

impl ListQuery {
    /// All objects that the cache holds. If the kind is declared for some namespaces, the objects
    /// of all of them.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only objects of a namespace. The empty namespace means all namespaces, as in Go.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self
    }

    /// Only objects whose labels match.
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.labels = Some(labels);
        self
    }

    /// Only objects that have a value in an index. The index is declared with
    /// [`Kind::index`](crate::Kind::index).
    pub fn index(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.index = Some((name.into(), value.into()));
        self
    }

    /// The part of the cache that the query reads.
    pub(crate) fn which(&self) -> ReadScope<'_> {
        self.namespace.as_deref().map_or(ReadScope::All, ReadScope::Namespace)
    }

    /// Fails if the cache can hold none of the selected objects.
    pub(crate) fn check_covered<K: Object>(&self, reader: &CacheReader<K>) -> Result<(), Error> {
        reader.check_covers(self.which(), self.labels.as_ref())?;
        match &self.index {
            Some((index, namespace)) if index == NAMESPACE_INDEX && !namespace.is_empty() => {
                reader.check_covers(ReadScope::Namespace(namespace), None)
            }
            _ => Ok(()),
        }
    }

    /// Reads the cache through the index that leaves the fewest objects to check.
    pub(crate) fn look<K: Object>(&self, lister: &Lister<K>) -> Result<Vec<Cached<K>>, steersman_cache::Error> {
        let namespace = self.namespace.as_deref();
        let Some((index, value)) = &self.index else {
            return Ok(match (&self.labels, namespace) {
                (Some(labels), namespace) => lister.select(namespace, labels),
                (None, Some(namespace)) => lister.namespace(namespace),
                (None, None) => lister.list().into_iter().collect(),
            });
        };
        let mut found = match &self.labels {
            Some(labels) => lister.select_by_index(index, value, labels)?,
            None => lister.by_index(index, value)?,
        };
        if let Some(namespace) = namespace {
            found.retain(|object| object.meta().namespace() == namespace);
        }
        Ok(found)
    }
}
