//! Which cached objects somebody wants.

use steersman_cache::{Cached, Lister, NAMESPACE_INDEX, Object};
use steersman_wire::LabelSelector;

use crate::Error;
use crate::reads::Reader;
use crate::writes::Which;

/// Which objects of a cache are wanted: all, unless something is said; those for which all that is said holds. Read with
/// [`Objects::query`](crate::Objects::query).
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// # use steersman_runtime::{Cached, CachedClient, Error, ListQuery};
/// # use steersman_wire::LabelSelector;
/// # async fn example(client: &CachedClient) -> Result<Vec<Cached<Pod>>, Box<dyn std::error::Error>> {
/// let query = ListQuery::all().namespace("shop").labels(LabelSelector::parse("app=web")?).index("node", "node-1");
/// # Ok(
/// client.objects::<Pod>().query(&query).await?
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
    /// All objects.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only those of a namespace. The empty namespace means all of them, as in Go.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self
    }

    /// Only those whose labels match.
    pub fn labels(mut self, labels: LabelSelector) -> Self {
        self.labels = Some(labels);
        self
    }

    /// Only those that have a value in an index that was declared with their kind.
    pub fn index(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.index = Some((name.into(), value.into()));
        self
    }

    /// The objects among which those that are wanted are found.
    pub(crate) fn which(&self) -> Which<'_> {
        self.namespace.as_deref().map_or(Which::All, Which::Namespace)
    }

    /// An error if the cache can hold nothing of what is wanted.
    pub(crate) fn check_covered<K: Object>(&self, reader: &Reader<K>) -> Result<(), Error> {
        reader.check_covers(self.which(), self.labels.as_ref())?;
        match &self.index {
            Some((index, namespace)) if index == NAMESPACE_INDEX && !namespace.is_empty() => {
                reader.check_covers(Which::Namespace(namespace), None)
            }
            _ => Ok(()),
        }
    }

    /// From the fewest objects that the cache finds without looking at all of them.
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
