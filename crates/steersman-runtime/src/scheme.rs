//! Kinds and their Rust types.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;

use kube_core::Resource;
use steersman_cache::Object;
use steersman_client::{DynamicObject, GroupVersionKind};
use steersman_wire::Json;

use crate::Error;

/// Maps kinds to Rust types and back.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// use steersman_runtime::{DecodedObject, Scheme};
///
/// let scheme = Scheme::new().with::<Pod>()?.with::<ConfigMap>()?;
/// assert_eq!(scheme.kind_of::<Pod>()?.kind, "Pod");
/// let object = scheme.decode(br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#)?;
/// assert_eq!(object.downcast::<ConfigMap>().unwrap().metadata.name.as_deref(), Some("a"));
/// let other = scheme.decode(br#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"b"}}"#)?;
/// assert!(matches!(other, DecodedObject::Dynamic(_)));
/// # Ok::<(), steersman_runtime::Error>(())
/// ```
#[derive(Default, Clone)]
pub struct Scheme {
    by_kind: HashMap<GroupVersionKind, Registered>,
    by_type: HashMap<TypeId, GroupVersionKind>,
}

#[derive(Clone, Copy)]
struct Registered {
    object: TypeId,
    name: &'static str,
    decode: fn(&[u8]) -> Result<AnyObject, Error>,
}

type AnyObject = Box<dyn Any + Send + Sync>;

/// An object that [`Scheme::decode`] has decoded. `Debug` prints its kind and name only: it may be
/// a Secret.
pub enum DecodedObject {
    /// The type that is registered for the kind.
    Typed(Box<dyn Any + Send + Sync>),
    /// An object of a kind that is not registered.
    Dynamic(Box<DynamicObject>),
}

impl fmt::Debug for DecodedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Typed(_) => f.debug_tuple("Typed").finish_non_exhaustive(),
            Self::Dynamic(object) => f
                .debug_struct("Dynamic")
                .field("types", &object.types)
                .field("namespace", &object.metadata.namespace)
                .field("name", &object.metadata.name)
                .finish_non_exhaustive(),
        }
    }
}

impl DecodedObject {
    /// The object as a type. `None` if it has another type.
    pub fn downcast<K: 'static>(self) -> Option<Box<K>> {
        match self {
            Self::Typed(object) => object.downcast().ok(),
            Self::Dynamic(_) => None,
        }
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.by_kind.iter().map(|(kind, registered)| (kind_text(kind), registered.name));
        f.debug_map().entries(kinds).finish()
    }
}

fn kind_text(kind: &GroupVersionKind) -> String {
    format!("{}, Kind={}", kind.api_version(), kind.kind)
}

impl Scheme {
    /// Creates a scheme without kinds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a type for its kind. A second registration changes nothing. Another type for the
    /// same kind is an error.
    pub fn register<K: Object + Resource<DynamicType = ()>>(&mut self) -> Result<(), Error> {
        let kind = GroupVersionKind::gvk(&K::group(&()), &K::version(&()), &K::kind(&()));
        let wanted = type_name::<K>();
        if let Some(registered) = self.by_kind.get(&kind).filter(|registered| registered.object != TypeId::of::<K>()) {
            return Err(Error::SchemeClash { kind: kind_text(&kind), registered: registered.name, wanted });
        }
        let decode = |object: &[u8]| -> Result<AnyObject, Error> { Ok(Box::new(decoded::<K>(object)?)) };
        self.by_kind.insert(kind.clone(), Registered { object: TypeId::of::<K>(), name: wanted, decode });
        self.by_type.insert(TypeId::of::<K>(), kind);
        Ok(())
    }

    /// As [`register`](Self::register), for a chain of calls.
    pub fn with<K: Object + Resource<DynamicType = ()>>(mut self) -> Result<Self, Error> {
        self.register::<K>()?;
        Ok(self)
    }

    /// The kind of a type.
    pub fn kind_of<K: 'static>(&self) -> Result<&GroupVersionKind, Error> {
        let found = self.by_type.get(&TypeId::of::<K>());
        found.ok_or_else(|| Error::NotRegistered { kind: type_name::<K>().to_owned() })
    }

    /// The name of the Rust type of a kind.
    pub fn type_of(&self, kind: &GroupVersionKind) -> Option<&'static str> {
        self.by_kind.get(kind).map(|registered| registered.name)
    }

    /// Decodes the JSON of an object into the type of its kind. An object of a kind that is not
    /// registered stays dynamic.
    pub fn decode(&self, object: &[u8]) -> Result<DecodedObject, Error> {
        let metadata = Json.metadata(object).map_err(|error| Error::InvalidObject(error.to_string()))?;
        let (group, version) = metadata.api_version().rsplit_once('/').unwrap_or(("", metadata.api_version()));
        if metadata.kind().is_empty() || version.is_empty() {
            return Err(Error::InvalidObject("cannot decode an object without apiVersion and kind".to_owned()));
        }
        match self.by_kind.get(&GroupVersionKind::gvk(group, version, metadata.kind())) {
            Some(registered) => (registered.decode)(object).map(DecodedObject::Typed),
            None => decoded(object).map(|object| DecodedObject::Dynamic(Box::new(object))),
        }
    }
}

/// Leaves out the message of the decoder: it quotes the object, which may be a Secret.
fn decoded<K: Object>(object: &[u8]) -> Result<K, Error> {
    serde_json::from_slice(object).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Error::InvalidObject(format!(
            "cannot decode the object as {}: unexpected value in line {line}, column {column}",
            type_name::<K>()
        ))
    })
}
