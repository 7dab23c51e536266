//! What the caches of a manager have in common, unless a kind is declared otherwise.

use steersman_cache::{ReflectorError, ReflectorOptions, StorageMode, StorageOptions};
use steersman_wire::Strip;

use super::Scope;
use crate::kind::Kind;

/// Called with the kind and the failure of a list or a watch.
pub(crate) type OnWatchError = Box<dyn Fn(&str, &ReflectorError) + Send + Sync>;

/// The options of all caches of a manager, as `cache.Options` of controller-runtime:
/// [`ManagerBuilder::cache_defaults`](crate::ManagerBuilder::cache_defaults). What a [`Kind`]
/// declares itself comes first, option by option.
///
/// ```
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # use steersman_runtime::{CacheDefaults, Error, Manager, kind};
/// # fn example(client: steersman_client::Client) -> Result<(), Error> {
/// let defaults = CacheDefaults::new().namespace("shop").labels("app=web");
/// let manager = Manager::builder(client).cache_defaults(defaults).build();
/// manager.declare(kind::<ConfigMap>())?; // in namespace shop, with the label app=web
/// manager.declare(kind::<Secret>().all_namespaces().labels(""))?; // all of them
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct CacheDefaults {
    namespaces: Vec<String>,
    labels: Option<String>,
    fields: Option<String>,
    mode: Option<StorageMode>,
    strip: Option<Strip>,
    reflector: ReflectorOptions,
}

impl CacheDefaults {
    /// The usual options: all objects in all namespaces.
    pub fn new() -> Self {
        Self::default()
    }

    /// Caches only the objects of a namespace. With several calls, those of all these namespaces.
    /// It does not apply to kinds that are not in namespaces; a dynamic kind of these needs
    /// [`cluster_scoped`](Kind::cluster_scoped). A kind overrides it with
    /// [`namespace`](Kind::namespace) or [`all_namespaces`](Kind::all_namespaces).
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// Caches only objects whose labels match. A kind overrides it with [`labels`](Kind::labels).
    /// An empty selector matches everything.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Caches only objects whose fields match, such as `metadata.name!=x`. Every kind has to know
    /// the fields. A kind overrides it with [`fields`](Kind::fields); an empty selector matches
    /// everything.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// The form in which objects are stored. A kind overrides it with [`storage`](Kind::storage).
    pub fn storage_mode(mut self, mode: StorageMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// The fields that are removed from every object. A kind overrides it with
    /// [`storage`](Kind::storage).
    pub fn strip(mut self, strip: Strip) -> Self {
        self.strip = Some(strip);
        self
    }

    /// How lists and watches are requested. A kind overrides it with
    /// [`reflector`](Kind::reflector).
    pub fn reflector(mut self, reflector: ReflectorOptions) -> Self {
        self.reflector = reflector;
        self
    }

    /// The namespaces of kinds that have none of their own.
    pub(crate) fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    /// The scope of a kind with this declared one: defaults fill what it leaves open.
    pub(super) fn complete<K>(&self, declared: Scope, kind: &Kind<K>) -> Scope {
        let mut scope = declared;
        let takes_namespaces = kind.identity.namespaced && !kind.all_namespaces;
        if scope.namespaces.is_empty() && takes_namespaces {
            scope.namespaces.clone_from(&self.namespaces);
            scope.namespaces.sort();
            scope.namespaces.dedup();
        }
        let complete = |declared: Option<String>, default: &Option<String>| {
            declared.or_else(|| default.clone()).filter(|selector| !selector.is_empty())
        };
        scope.labels = complete(scope.labels, &self.labels);
        scope.fields = complete(scope.fields, &self.fields);
        scope
    }

    /// The storage options of kinds that declare none.
    pub(super) fn storage<K>(&self) -> Option<StorageOptions<K>> {
        if self.mode.is_none() && self.strip.is_none() {
            return None;
        }
        let usual = StorageOptions::<K>::default();
        let strip = self.strip.clone().unwrap_or(usual.strip);
        Some(StorageOptions { mode: self.mode.unwrap_or(usual.mode), strip, ..StorageOptions::default() })
    }

    pub(super) fn reflector_of<K>(&self, kind: &Kind<K>) -> ReflectorOptions {
        kind.reflector.clone().unwrap_or_else(|| self.reflector.clone())
    }
}
