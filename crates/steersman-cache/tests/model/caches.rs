//! The caches of a world, which store the same objects in different forms.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use serde::Deserialize;
use steersman_cache::{
    Error, Index, Informer, InformerMetrics, InformerOptions, Object, ReflectorOptions, ReflectorStatus,
    SharedInformerFactory, StorageMode, StorageOptions,
};
use steersman_client::{ApiResource, DynamicObject, PartialObjectMeta};

use crate::history::{History, Key, Scope, State};
use crate::watched::{Handler, Watched};
use crate::witness;

/// The type of cached objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Typed,
    /// Typed, with a transform that removes data.
    Transformed,
    Dynamic,
    Metadata,
}

/// The content of an object in any form.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Contents {
    metadata: Labels,
    data: Option<BTreeMap<String, String>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Labels {
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

impl Form {
    /// The part of a server object that a cache has to hold.
    fn of(self, object: &ConfigMap) -> Contents {
        let mut data = object.data.clone().filter(|_| self != Self::Metadata);
        if self == Self::Transformed {
            data.iter_mut().for_each(|data| drop(data.remove("text")));
        }
        let (resource_version, labels) = (object.metadata.resource_version.clone(), object.metadata.labels.clone());
        Contents { metadata: Labels { resource_version, labels }, data }
    }
}

/// An index whose value is unique to each object.
const UNIQUE: &str = "unique";

/// An informer of any form, with its handlers.
pub(crate) trait Cache {
    fn name(&self) -> &str;
    fn scope(&self) -> &Scope;
    fn handlers(&self) -> &[Handler];
    fn remove_handler(&mut self, index: usize) -> Handler;
    fn add_handler(&mut self, resync: Option<Duration>) -> String;
    fn sample(&mut self);
    fn check(&mut self, history: &History) -> Result<(), String>;
    fn agrees_with(&self, now: &BTreeMap<Key, State>) -> Result<(), String>;
    /// Checks that the cached objects equal those of the server, and that the indexes find them.
    fn has_contents(&self, truth: &BTreeMap<Key, ConfigMap>) -> Result<(), String>;
    fn wait_for_version<'a>(&'a self, version: &'a str, limit: Duration) -> BoxFuture<'a, Result<(), Error>>;
    fn status(&self) -> Vec<ReflectorStatus>;
    fn metrics(&self) -> InformerMetrics;
    fn form(&self) -> Form;
}

struct Formed<K> {
    watched: Watched<K>,
    form: Form,
}

impl<K: Object> Cache for Formed<K> {
    fn name(&self) -> &str {
        &self.watched.name
    }

    fn scope(&self) -> &Scope {
        &self.watched.scope
    }

    fn handlers(&self) -> &[Handler] {
        &self.watched.handlers
    }

    fn remove_handler(&mut self, index: usize) -> Handler {
        self.watched.handlers.remove(index)
    }

    fn add_handler(&mut self, resync: Option<Duration>) -> String {
        self.watched.add_handler(resync)
    }

    fn sample(&mut self) {
        self.watched.sample();
    }

    fn check(&mut self, history: &History) -> Result<(), String> {
        self.watched.check(history)
    }

    fn agrees_with(&self, now: &BTreeMap<Key, State>) -> Result<(), String> {
        self.watched.agrees_with(now)
    }

    fn has_contents(&self, truth: &BTreeMap<Key, ConfigMap>) -> Result<(), String> {
        let Watched { name, lister, .. } = &self.watched;
        for object in &lister.list() {
            object.get().map_err(|error| error.to_string())?;
            let kept: Contents = object.view().map_err(|error| error.to_string())?;
            let theirs = truth.get(&witness::key(object)).map(|theirs| self.form.of(theirs));
            if theirs.as_ref() != Some(&kept) {
                return Err(format!("{name} holds {kept:?}, but the server has {theirs:?}"));
            }
            let value = match &kept.data {
                Some(data) => &data["number"],
                None => object.meta().uid(),
            };
            let found = lister.index_keys(UNIQUE, value).map_err(|error| error.to_string())?;
            if found != [object.key()] {
                return Err(format!("{name} finds {found:?} by {value:?} instead of {object:?}"));
            }
        }
        let values = lister.index_values(UNIQUE).map_err(|error| error.to_string())?;
        if values.len() == lister.len() { Ok(()) } else { Err(format!("{name} still finds objects by {values:?}")) }
    }

    fn wait_for_version<'a>(&'a self, version: &'a str, limit: Duration) -> BoxFuture<'a, Result<(), Error>> {
        self.watched.lister.wait_for_version(version, limit).boxed()
    }

    fn status(&self) -> Vec<ReflectorStatus> {
        self.watched.informer.status()
    }

    fn metrics(&self) -> InformerMetrics {
        self.watched.informer.metrics()
    }

    fn form(&self) -> Form {
        self.form
    }
}

/// A cache of these objects in this form.
pub(crate) fn cache(
    factory: &SharedInformerFactory,
    name: String,
    scope: Scope,
    form: Form,
    mode: StorageMode,
    reflector: ReflectorOptions,
) -> Box<dyn Cache> {
    fn options<K>(scope: &Scope, mode: StorageMode, reflector: ReflectorOptions) -> InformerOptions<K> {
        scope.options().reflector(reflector).storage(StorageOptions { mode, ..StorageOptions::default() })
    }
    fn watched<K: Object>(
        name: String,
        scope: Scope,
        form: Form,
        informer: Result<Informer<K>, Error>,
    ) -> Box<dyn Cache> {
        let informer = informer.expect("these options make sense");
        Box::new(Formed { watched: Watched::new(name, scope, informer), form })
    }
    match form {
        Form::Typed | Form::Transformed => {
            let number = |map: &ConfigMap| map.data.iter().map(|data| data["number"].clone()).collect();
            let mut storage = StorageOptions { mode, ..StorageOptions::default() };
            if form == Form::Transformed {
                storage = storage.transform(|map: &mut ConfigMap| {
                    map.data.iter_mut().for_each(|data| drop(data.remove("text")));
                });
            }
            let options = options(&scope, mode, reflector).storage(storage).index(UNIQUE, Index::function(number));
            watched(name, scope, form, factory.informer(options))
        }
        Form::Dynamic => {
            let number = Index::path("data.number".parse().expect("this is a path"));
            let options = options::<DynamicObject>(&scope, mode, reflector).index(UNIQUE, number);
            let informer = factory.dynamic_informer(&ApiResource::erase::<ConfigMap>(&()), options);
            watched(name, scope, form, informer)
        }
        Form::Metadata => {
            let uid = Index::metadata(|meta| vec![meta.uid().to_owned()]);
            let options = options::<PartialObjectMeta<ConfigMap>>(&scope, mode, reflector).index(UNIQUE, uid);
            watched(name, scope, form, factory.metadata_informer(options))
        }
    }
}
