//! The trait of objects in queues and stores.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use crate::Cached;

/// An object of a [`DeltaFifo`](crate::DeltaFifo), a [`Fifo`](crate::Fifo) or a
/// [`Store`](crate::Store).
///
/// Its key must not change while it is in one of them. Cloning should be cheap.
pub trait Queued: Clone {
    /// Its namespace; empty if it is cluster-scoped.
    fn namespace(&self) -> &str;
    /// Its name.
    fn name(&self) -> &str;
    /// Its resource version; empty if it has none.
    fn resource_version(&self) -> &str;
}

impl<K> Queued for Cached<K> {
    fn namespace(&self) -> &str {
        self.meta().namespace()
    }

    fn name(&self) -> &str {
        self.meta().name()
    }

    fn resource_version(&self) -> &str {
        self.meta().resource_version()
    }
}

/// Hashes keys without building them.
#[derive(Clone, Default)]
pub(crate) struct KeyHasher(DefaultHashBuilder);

impl KeyHasher {
    pub(crate) fn hash(&self, object: &impl Queued) -> u64 {
        self.hash_parts(object.namespace(), object.name())
    }

    pub(crate) fn hash_parts(&self, namespace: &str, name: &str) -> u64 {
        self.0.hash_one((namespace, name))
    }
}

pub(crate) fn has_same_key<T: Queued>(a: &T, b: &T) -> bool {
    a.name() == b.name() && a.namespace() == b.namespace()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Storage;

    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) struct State {
        namespace: String,
        name: String,
        version: String,
    }

    impl Queued for State {
        fn namespace(&self) -> &str {
            &self.namespace
        }

        fn name(&self) -> &str {
            &self.name
        }

        fn resource_version(&self) -> &str {
            &self.version
        }
    }

    /// A state from `name@version` or `namespace/name@version`.
    pub(crate) fn state(text: &str) -> State {
        let (key, version) = text.split_once('@').unwrap();
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        State { namespace: namespace.into(), name: name.into(), version: version.into() }
    }

    pub(crate) fn states(texts: &str) -> Vec<State> {
        texts.split_whitespace().map(state).collect()
    }

    #[test]
    fn namespace_and_name_make_the_key() {
        let same = |a, b| has_same_key(&state(a), &state(b));
        assert!(same("x/a@1", "x/a@2") && same("a@1", "a@2"));
        assert!(!same("x/a@1", "y/a@1") && !same("x/a@1", "a@1") && !same("x/a@1", "x/b@1"));

        let hasher = KeyHasher::default();
        assert_ne!(hasher.hash_parts("ab", "c"), hasher.hash_parts("a", "bc"));
    }

    #[test]
    fn a_cached_object_knows_its_key_and_version() {
        let json = br#"{"metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7"}}"#;
        let object = Storage::<serde_json::Value>::default().store(json, None).unwrap();
        assert_eq!((object.namespace(), object.name(), object.resource_version()), ("shop", "web", "7"));
    }
}
