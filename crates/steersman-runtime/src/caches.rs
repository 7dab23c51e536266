//! The manager's caches: one informer for each kind.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steersman_cache::{Informer, InformerOptions, Lister, Object, ObjectKey, ReflectorStatus, SharedInformerFactory};
use steersman_client::Client;
use steersman_wire::{FieldSelector, LabelSelector, Metadata, Operator, SelectorError};

use crate::Error;
use crate::kind::{Identity, Kind};

/// The informers of a manager. A kind is declared once, by whoever wants it first; the others share it.
pub(crate) struct Caches {
    factory: SharedInformerFactory,
    declared: Mutex<Vec<Arc<Declared>>>,
}

/// An informer and what it is for.
pub(crate) struct Declared {
    /// Which one it is among the informers of the manager.
    pub(crate) number: usize,
    pub(crate) identity: Identity,
    scope: Scope,
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
    informer: Box<dyn Any + Send + Sync>,
    look: Box<dyn Look>,
}

/// Which objects of its kind an informer keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Scope {
    namespaces: Vec<String>,
    labels: Option<String>,
    fields: Option<String>,
}

/// What can be seen of an informer without knowing its type.
pub(crate) trait Look: Send + Sync {
    fn meta(&self, key: &ObjectKey) -> Option<Metadata>;
    fn resource_version(&self) -> String;
}

impl<K: Object> Look for Lister<K> {
    fn meta(&self, key: &ObjectKey) -> Option<Metadata> {
        self.get_by_key(key).map(|object| object.meta().clone())
    }

    fn resource_version(&self) -> String {
        self.resource_version()
    }
}

/// Whether an informer keeps an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeps {
    Yes,
    No,
    /// Its selector asks for what is not known here.
    Unknown,
}

impl Scope {
    fn of<K>(options: &InformerOptions<K>) -> Self {
        let mut namespaces = options.namespaces().to_vec();
        namespaces.sort();
        namespaces.dedup();
        let text = |text: Option<&str>| text.map(ToOwned::to_owned);
        Self { namespaces, labels: text(options.label_selector()), fields: text(options.field_selector()) }
    }
}

impl Declared {
    pub(crate) fn look(&self) -> &dyn Look {
        &*self.look
    }

    /// Whether objects leave it only when they are deleted.
    pub(crate) fn is_unselective(&self) -> bool {
        self.labels.is_none() && self.fields.is_none()
    }

    /// The fields by which it selects.
    pub(crate) fn selected_fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().flat_map(FieldSelector::requirements).map(|requirement| &*requirement.field)
    }

    /// Whether an object in this namespace is kept. Its labels may not be known, and of its fields only some may be.
    pub(crate) fn keeps<'a>(
        &self,
        namespace: &str,
        labels: Option<&BTreeMap<String, String>>,
        field: impl Fn(&str) -> Option<&'a str>,
    ) -> Keeps {
        let namespaces = &self.scope.namespaces;
        if !namespaces.is_empty() && !namespaces.iter().any(|ours| ours == namespace) {
            return Keeps::No;
        }
        let by_labels = match (&self.labels, labels) {
            (None, _) => Keeps::Yes,
            (Some(_), None) => Keeps::Unknown,
            (Some(selector), Some(labels)) if selector.matches(|label| labels.get(label).map(String::as_str)) => {
                Keeps::Yes
            }
            _ => Keeps::No,
        };
        let by_fields = self.fields.iter().flat_map(FieldSelector::requirements).map(|requirement| {
            match field(&requirement.field) {
                None => Keeps::Unknown,
                Some(value) if (value == requirement.value) == (requirement.operator == Operator::Equals) => Keeps::Yes,
                Some(_) => Keeps::No,
            }
        });
        by_fields.fold(by_labels, Keeps::and)
    }
}

impl Keeps {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").field("kinds", &self.declared().len()).finish_non_exhaustive()
    }
}

impl Caches {
    pub(crate) fn new(client: Client) -> Self {
        Self { factory: SharedInformerFactory::new(client), declared: Mutex::default() }
    }

    fn declared(&self) -> MutexGuard<'_, Vec<Arc<Declared>>> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The informer for a kind. The first who asks says which objects are kept; those who ask without saying so share them, and to
    /// say something else is an error.
    pub(crate) fn declare<K: Object>(&self, kind: &mut Kind<K>) -> Result<(Informer<K>, Arc<Declared>), Error> {
        let options = std::mem::take(&mut kind.options);
        let scope = Scope::of(&options);
        let mut declared = self.declared();
        if let Some(found) = declared.iter().find(|declared| declared.identity.is_same(&kind.identity)) {
            if scope != Scope::default() && scope != found.scope {
                let kind = &kind.identity.kind;
                let problem = format!(
                    "{kind} is declared with {:?} and with {scope:?}: a manager has one cache for each kind; say the same at both, or \
                     at the first only",
                    found.scope
                );
                return Err(steersman_cache::Error::InvalidOptions { problem }.into());
            }
            let informer = found.informer.downcast_ref::<Informer<K>>().cloned();
            let informer = informer.expect("the identity holds the type");
            for (name, index) in options.into_indexes() {
                informer.add_index(&name, index)?;
            }
            return Ok((informer, Arc::clone(found)));
        }
        let invalid = |problem: SelectorError| steersman_cache::Error::InvalidOptions { problem: problem.to_string() };
        let labels = scope.labels.as_deref().map(LabelSelector::parse).transpose().map_err(invalid)?;
        let fields = scope.fields.as_deref().map(FieldSelector::parse).transpose().map_err(invalid)?;
        let informer = kind.informer(&self.factory, options)?;
        let number = declared.len();
        let new = Arc::new(Declared {
            number,
            identity: kind.identity.clone(),
            scope,
            labels,
            fields,
            look: Box::new(informer.lister()),
            informer: Box::new(informer.clone()),
        });
        declared.push(Arc::clone(&new));
        Ok((informer, new))
    }

    /// The declared informer of a kind, or an error that says how to declare one (contract 11).
    pub(crate) fn find<K: Object>(&self, identity: &Identity) -> Result<(Informer<K>, Arc<Declared>), Error> {
        let declared = self.declared();
        let found = declared.iter().find(|declared| declared.identity.is_same(identity));
        let found = found.and_then(|declared| {
            Some((declared.informer.downcast_ref::<Informer<K>>()?.clone(), Arc::clone(declared)))
        });
        found.ok_or_else(|| {
            let fix = format!("Manager::declare({}), or owns(…) or watches(…) of a controller,", identity.call);
            steersman_cache::Error::NotDeclared { kind: identity.kind.clone(), fix }.into()
        })
    }

    /// All informers of this resource: typed, dynamic and metadata-only, in whichever version.
    pub(crate) fn of(&self, resource: &str) -> Vec<Arc<Declared>> {
        self.declared().iter().filter(|declared| declared.identity.resource == resource).cloned().collect()
    }

    pub(crate) fn start(&self) -> Result<(), Error> {
        Ok(self.factory.start()?)
    }

    pub(crate) async fn wait_for_sync(&self, limit: Duration) -> Result<(), Error> {
        Ok(self.factory.wait_for_cache_sync(limit).await?)
    }

    pub(crate) async fn shutdown(&self) {
        self.factory.shutdown().await;
    }

    pub(crate) fn status(&self) -> Vec<ReflectorStatus> {
        self.factory.status()
    }
}
