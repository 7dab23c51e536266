//! The options of an informer.

use std::collections::BTreeMap;
use std::fmt;

use steersman_wire::LabelSelector;

use crate::{Error, Index, ReflectorOptions, StorageOptions};

/// Which objects of one namespace an informer caches. A selector that is not set is that of the
/// informer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NamespaceOptions {
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
}

impl NamespaceOptions {
    /// The selectors of the informer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only objects whose labels match, such as `app=web`.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only objects whose fields match, such as `spec.nodeName=node-1`.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// The label selector.
    pub fn label_selector(&self) -> Option<&str> {
        self.labels.as_deref()
    }

    /// The field selector.
    pub fn field_selector(&self) -> Option<&str> {
        self.fields.as_deref()
    }
}

/// Which objects of a kind an informer caches, and how.
pub struct InformerOptions<K> {
    pub(super) namespaces: Vec<String>,
    pub(super) by_namespace: BTreeMap<String, NamespaceOptions>,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    pub(super) storage: StorageOptions<K>,
    pub(super) reflector: ReflectorOptions,
    pub(super) indexes: Vec<(String, Index<K>)>,
}

impl<K> fmt::Debug for InformerOptions<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerOptions")
            .field("namespaces", &self.namespaces)
            .field("by_namespace", &self.by_namespace)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("storage", &self.storage)
            .field("reflector", &self.reflector)
            .finish_non_exhaustive()
    }
}

impl<K> Default for InformerOptions<K> {
    /// All objects of the kind, in all namespaces.
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            by_namespace: BTreeMap::new(),
            labels: None,
            fields: None,
            storage: StorageOptions::default(),
            reflector: ReflectorOptions::default(),
            indexes: Vec::new(),
        }
    }
}

impl<K> InformerOptions<K> {
    /// All objects of the kind, in all namespaces.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only objects in this namespace. Each call adds a namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// As [`namespace`](Self::namespace), with selectors for the objects in this namespace.
    #[must_use]
    pub fn namespace_with(self, namespace: impl Into<String>, options: NamespaceOptions) -> Self {
        let namespace = namespace.into();
        let mut all = self.namespace(namespace.clone());
        all.by_namespace.insert(namespace, options);
        all
    }

    /// Only objects whose labels match, such as `app=web`.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only objects whose fields match, such as `spec.nodeName=node-1`.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// How objects are stored.
    #[must_use]
    pub fn storage(mut self, storage: StorageOptions<K>) -> Self {
        self.storage = storage;
        self
    }

    /// How lists and watches are requested.
    #[must_use]
    pub fn reflector(mut self, reflector: ReflectorOptions) -> Self {
        self.reflector = reflector;
        self
    }

    /// Adds an index.
    #[must_use]
    pub fn index(mut self, name: impl Into<String>, index: Index<K>) -> Self {
        self.indexes.push((name.into(), index));
        self
    }

    /// The namespaces; empty for all.
    pub fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    /// The options of single namespaces.
    pub fn namespace_options(&self) -> &BTreeMap<String, NamespaceOptions> {
        &self.by_namespace
    }

    /// The label selector.
    pub fn label_selector(&self) -> Option<&str> {
        self.labels.as_deref()
    }

    /// The field selector.
    pub fn field_selector(&self) -> Option<&str> {
        self.fields.as_deref()
    }

    /// The indexes.
    pub fn into_indexes(self) -> Vec<(String, Index<K>)> {
        self.indexes
    }

    pub(super) fn check(&mut self) -> Result<(), Error> {
        self.namespaces.sort();
        self.namespaces.dedup();
        if self.namespaces.iter().any(String::is_empty) {
            let problem = "a namespace is empty: omit it for all namespaces".to_owned();
            return Err(Error::InvalidOptions { problem });
        }
        // Options without a selector say nothing.
        self.by_namespace.retain(|_, options| *options != NamespaceOptions::default());
        let of_namespaces = self.by_namespace.values().filter_map(|options| options.labels.as_ref());
        for labels in self.labels.iter().chain(of_namespaces) {
            LabelSelector::parse(labels).map_err(|error| {
                let problem = format!("label selector {labels:?}: {error}");
                Error::InvalidOptions { problem }
            })?;
        }
        Ok(())
    }
}
