//! The key of an object: its namespace and name.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use steersman_wire::Metadata;

use crate::Error;

/// The namespace and the name of an object. Work queues and handlers pass it around.
///
/// Its text is `namespace/name`, or the name alone for cluster-scoped objects. Clones share one
/// allocation.
///
/// ```
/// use steersman_cache::ObjectKey;
///
/// let key: ObjectKey = "shop/web-0".parse()?;
/// assert_eq!((key.namespace(), key.name()), (Some("shop"), "web-0"));
/// assert_eq!(ObjectKey::cluster("node-1").to_string(), "node-1");
/// # Ok::<(), steersman_cache::Error>(())
/// ```
#[derive(Clone)]
pub struct ObjectKey {
    text: Arc<str>,
    /// Offset of the name.
    name: u32,
}

impl ObjectKey {
    /// The key of an object in a namespace. With an empty namespace, of a cluster-scoped object.
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            return Self::cluster(name);
        }
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(namespace);
        text.push('/');
        text.push_str(name);
        Self { name: u32::try_from(namespace.len() + 1).unwrap_or(0), text: text.into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self { text: name.into(), name: 0 }
    }

    /// The key of an object. An object that has no name yet gives a key with an empty name.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// use steersman_cache::ObjectKey;
    ///
    /// let key = ObjectKey::new("shop", "web-0");
    /// let pod = Pod { metadata: key.to_meta(), ..Pod::default() };
    /// assert_eq!(ObjectKey::of(&pod), key);
    /// ```
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    /// Metadata with this namespace and name, for a new object.
    pub fn to_meta(&self) -> ObjectMeta {
        ObjectMeta {
            namespace: self.namespace().map(ToOwned::to_owned),
            name: Some(self.name().to_owned()),
            ..ObjectMeta::default()
        }
    }

    /// The namespace; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        (self.name > 0).then(|| &self.text[..self.name as usize - 1])
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.text[self.name as usize..]
    }

    /// `namespace/name`, or the name alone.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<&Metadata> for ObjectKey {
    fn from(metadata: &Metadata) -> Self {
        Self::new(metadata.namespace(), metadata.name())
    }
}

impl FromStr for ObjectKey {
    type Err = Error;

    /// client-go's `SplitMetaNamespaceKey`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.split('/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(name), None, None) if !name.is_empty() => Ok(Self::cluster(name)),
            (Some(namespace), Some(name), None) if !name.is_empty() => Ok(Self::new(namespace, name)),
            _ => Err(Error::InvalidKey { text: text.to_owned() }),
        }
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for ObjectKey {}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.text)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn a_key_is_written_and_read_as_namespace_and_name() {
        for (text, namespace, name) in [("shop/web", Some("shop"), "web"), ("node", None, "node")] {
            let key: ObjectKey = text.parse().unwrap();
            assert_eq!((key.namespace(), key.name(), key.as_str()), (namespace, name, text));
            assert_eq!(key, ObjectKey::new(namespace.unwrap_or(""), name));
        }
    }

    #[test]
    fn a_key_becomes_metadata_and_an_object_becomes_a_key() {
        for key in [ObjectKey::new("shop", "web"), ObjectKey::cluster("node")] {
            let meta = key.to_meta();
            assert_eq!((meta.namespace.as_deref(), meta.name.as_deref()), (key.namespace(), Some(key.name())));
            assert_eq!(ObjectKey::of(&Pod { metadata: meta, ..Pod::default() }), key);
        }
        assert_eq!(ObjectKey::of(&Pod::default()).name(), "");
    }

    #[test]
    fn an_invalid_key_is_rejected() {
        for text in ["", "a/b/c", "a/", "/"] {
            let error = text.parse::<ObjectKey>().unwrap_err();
            assert!(error.to_string().contains("namespace/name"), "{error}");
        }
    }
}
