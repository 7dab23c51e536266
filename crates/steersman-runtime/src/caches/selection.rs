//! Which objects a cache holds, and which reads it can therefore serve.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use steersman_cache::{NamespaceOptions, ObjectKey};
use steersman_client::ObjectMeta;
use steersman_wire::{FieldSelector, LabelRequirement, LabelSelector, SelectorError, SelectorOperator};

use super::{CacheEntry, Scope};
use crate::error::{Error, NotCached};
use crate::read_your_writes::ReadScope;

/// Whether an informer caches an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selected {
    Yes,
    No,
    /// The selector names a field or label that is not known here.
    Unknown,
}

/// The selectors of a cache.
#[derive(Debug, Default)]
pub(super) struct Selectors {
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
}

/// The selectors of a cache, which single namespaces may replace.
#[derive(Debug, Default)]
pub(super) struct SelectorsByNamespace {
    default: Selectors,
    by_namespace: BTreeMap<String, Selectors>,
}

impl Selected {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Unknown,
        }
    }
}

impl CacheEntry {
    /// Whether objects leave the cache only when they are deleted.
    pub(crate) fn is_unselective(&self) -> bool {
        self.selectors.all().all(|selectors| selectors.labels.is_none() && selectors.fields.is_none())
    }

    /// The fields by which the cache selects.
    pub(crate) fn selected_fields(&self) -> impl Iterator<Item = &str> {
        let fields = self.selectors.all().flat_map(|selectors| &selectors.fields);
        fields.flat_map(FieldSelector::requirements).map(|requirement| &*requirement.field)
    }

    /// Whether the cache holds an object with these labels and fields. `None` stands for unknown
    /// labels, and for an unknown field.
    pub(crate) fn selects<'a>(
        &'a self,
        key: &'a ObjectKey,
        labels: Option<&BTreeMap<String, String>>,
        field: impl Fn(&str) -> Option<&'a str>,
    ) -> Selected {
        let namespace = key.namespace().unwrap_or_default();
        let selectors = self.selectors.of(namespace);
        let by_labels = match (&selectors.labels, labels) {
            (None, _) => Selected::Yes,
            (Some(_), None) => Selected::Unknown,
            (Some(selector), Some(labels)) if selector.matches(|label| labels.get(label).map(String::as_str)) => {
                Selected::Yes
            }
            _ => Selected::No,
        };
        let by_fields = selectors.selects_fields(|name| match name {
            "metadata.name" => Some(key.name()),
            "metadata.namespace" => Some(namespace),
            name => field(name),
        });
        self.selects_namespace(namespace).and(by_labels).and(by_fields)
    }

    /// Whether the cache can hold an object with this key, now or later. Namespace and name never
    /// change.
    pub(crate) fn can_hold(&self, key: &ObjectKey) -> bool {
        self.selects(key, None, |_| None) != Selected::No
    }

    /// Whether the cache holds this object.
    pub(crate) fn selects_object<K: Serialize>(&self, key: &ObjectKey, meta: &ObjectMeta, object: &K) -> Selected {
        let fields = selected_values([self], object);
        let none = BTreeMap::new();
        self.selects(key, Some(meta.labels.as_ref().unwrap_or(&none)), |field| fields.get(field).map(String::as_str))
    }

    fn selects_namespace(&self, namespace: &str) -> Selected {
        let namespaces = &self.scope.namespaces;
        match namespaces.is_empty() || namespaces.iter().any(|ours| ours == namespace) {
            true => Selected::Yes,
            false => Selected::No,
        }
    }

    /// Fails if the cache can never hold the objects that are read: an empty result would mean
    /// "does not exist".
    pub(crate) fn check_covers(&self, which: ReadScope<'_>, labels: Option<&LabelSelector>) -> Result<(), Error> {
        match which {
            ReadScope::One(key) if !self.can_hold(key) => {
                return Err(self.outside(format!("{} {key}", self.identity.kind), key.namespace()));
            }
            ReadScope::Namespace(namespace) => {
                let by_field = self
                    .selectors
                    .of(namespace)
                    .selects_fields(|field| (field == "metadata.namespace").then_some(namespace));
                if self.selects_namespace(namespace).and(by_field) == Selected::No {
                    let what = format!("{} in namespace {namespace:?}", self.identity.kind);
                    return Err(self.outside(what, Some(namespace)));
                }
            }
            ReadScope::One(_) | ReadScope::All => {}
        }
        let Some(labels) = labels else { return Ok(()) };
        let namespace = if let ReadScope::Namespace(namespace) = which { Some(namespace) } else { None };
        let is_disjoint =
            |selectors: &Selectors| selectors.labels.as_ref().is_some_and(|ours| are_disjoint(ours, labels));
        let is_outside = match namespace {
            Some(namespace) => is_disjoint(self.selectors.of(namespace)),
            None => self.selectors.used(&self.scope.namespaces).all(is_disjoint),
        };
        match is_outside {
            true => Err(self.outside(format!("{} with labels {labels}", self.identity.kind), namespace)),
            false => Ok(()),
        }
    }

    /// The error for an object that the cache cannot hold.
    pub(crate) fn outside(&self, what: String, namespace: Option<&str>) -> Error {
        let selection = self.scope.describe();
        let mut fix = String::new();
        let call = &self.identity.call;
        match namespace.filter(|namespace| self.selects_namespace(namespace) == Selected::No) {
            Some(namespace) => {
                let entry = self.scope.namespaces.iter().map(String::as_str).chain([namespace]);
                let calls: String = entry.map(|namespace| format!(".namespace({namespace:?})")).collect();
                let _ = write!(fix, "declare {call}{calls}, or {call} for all namespaces");
            }
            None => {
                let _ = write!(fix, "declare {call} with a selection that includes it");
            }
        }
        let live = namespace.map_or("None".to_owned(), |namespace| format!("Some({namespace:?})"));
        let _ = write!(fix, " (in Manager::declare or in the controller), or read from the server with live({live})");
        NotCached::OutsideSelection { what, selection, fix }.into()
    }
}

impl Selectors {
    pub(super) fn parse(labels: Option<&str>, fields: Option<&str>) -> Result<Self, SelectorError> {
        let labels = labels.map(LabelSelector::parse).transpose()?;
        let fields = fields.map(FieldSelector::parse).transpose()?;
        Ok(Self { labels, fields })
    }

    fn selects_fields<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> Selected {
        let requirements = self.fields.iter().flat_map(FieldSelector::requirements);
        let each = requirements.map(|requirement| match field(&requirement.field) {
            None => Selected::Unknown,
            Some(value) if (value == requirement.value) == (requirement.operator == SelectorOperator::Equals) => {
                Selected::Yes
            }
            Some(_) => Selected::No,
        });
        each.fold(Selected::Yes, Selected::and)
    }
}

impl SelectorsByNamespace {
    pub(super) fn parse(scope: &Scope) -> Result<Self, SelectorError> {
        let (labels, fields) = (scope.labels.as_deref(), scope.fields.as_deref());
        let of_namespace = |(namespace, options): (&String, &NamespaceOptions)| {
            let (own_labels, own_fields) = (options.label_selector(), options.field_selector());
            Ok((namespace.clone(), Selectors::parse(own_labels.or(labels), own_fields.or(fields))?))
        };
        let by_namespace = scope.by_namespace.iter().map(of_namespace).collect::<Result<_, SelectorError>>()?;
        Ok(Self { default: Selectors::parse(labels, fields)?, by_namespace })
    }

    /// The selectors of a namespace.
    fn of(&self, namespace: &str) -> &Selectors {
        self.by_namespace.get(namespace).unwrap_or(&self.default)
    }

    fn all(&self) -> impl Iterator<Item = &Selectors> {
        std::iter::once(&self.default).chain(self.by_namespace.values())
    }

    /// Those of the namespaces that a cache keeps; none stands for all.
    fn used(&self, namespaces: &[String]) -> impl Iterator<Item = &Selectors> {
        let default = namespaces.is_empty().then_some(&self.default);
        default.into_iter().chain(namespaces.iter().map(|namespace| self.of(namespace)))
    }
}

impl Scope {
    fn describe_namespace(&self, namespace: &str) -> String {
        let Some(options) = self.by_namespace.get(namespace) else { return namespace.to_owned() };
        let labels = options.label_selector().map(|labels| format!("labels {labels}"));
        let fields = options.field_selector().map(|fields| format!("fields {fields}"));
        let selectors: Vec<_> = labels.into_iter().chain(fields).collect();
        format!("{namespace} ({})", selectors.join(", "))
    }

    /// The selection as text, for errors.
    pub(super) fn describe(&self) -> String {
        let mut parts = Vec::new();
        match &*self.namespaces {
            [] => {}
            [one] => parts.push(format!("namespace {}", self.describe_namespace(one))),
            several => {
                let names: Vec<_> = several.iter().map(|name| self.describe_namespace(name)).collect();
                parts.push(format!("namespaces {}", names.join(", ")));
            }
        }
        // As the selector prints itself, so that equal selections have equal texts.
        let labels = self.labels.as_deref().map(|labels| LabelSelector::parse(labels).map(|labels| labels.to_string()));
        parts.extend(labels.and_then(Result::ok).map(|labels| format!("labels {labels}")));
        parts.extend(self.fields.as_ref().map(|fields| format!("fields {fields}")));
        parts.join(", ")
    }
}

/// The values of all fields of an object by which any of these caches selects, as far as the object
/// has them. An absent field may have a default that only the server knows.
pub(crate) fn selected_values<'a, K: Serialize>(
    caches: impl IntoIterator<Item = &'a CacheEntry>,
    object: &K,
) -> BTreeMap<String, String> {
    let mut names = caches.into_iter().flat_map(CacheEntry::selected_fields).peekable();
    if names.peek().is_none() {
        return BTreeMap::new();
    }
    let Ok(object) = serde_json::to_value(object) else { return BTreeMap::new() };
    names.filter_map(|name| Some((name.to_owned(), scalar(&object, name)?))).collect()
}

/// A field as selectors see it.
fn scalar(object: &Value, path: &str) -> Option<String> {
    let value = path.split('.').try_fold(object, |object, name| object.get(name))?;
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether it is certain that no object matches both selectors, although some object matches the
/// second.
fn are_disjoint(ours: &LabelSelector, asked: &LabelSelector) -> bool {
    if asked.is_nothing() {
        return false;
    }
    let keys = ours.requirements().iter().map(LabelRequirement::key);
    keys.into_iter().any(|key| {
        let of_key = |selector: &'_ LabelSelector| -> Vec<LabelRequirement> {
            selector.requirements().iter().filter(|requirement| requirement.key() == key).cloned().collect()
        };
        let asked = of_key(asked);
        let both: Vec<_> = of_key(ours).into_iter().chain(asked.iter().cloned()).collect();
        may_be_satisfied(&asked) && !may_be_satisfied(&both)
    })
}

/// Whether a label can satisfy all of these requirements on it. If that cannot be decided, it can.
fn may_be_satisfied(requirements: &[LabelRequirement]) -> bool {
    let names_values =
        |operator| matches!(operator, SelectorOperator::Equals | SelectorOperator::DoubleEquals | SelectorOperator::In);
    let named = requirements.iter().filter(|requirement| names_values(requirement.operator()));
    let mut candidates: Vec<Option<&str>> = vec![None];
    candidates.extend(named.flat_map(|requirement| requirement.values().iter().map(|value| Some(&**value))));
    if candidates.iter().any(|label| requirements.iter().all(|requirement| requirement.matches(*label))) {
        return true;
    }
    // If a value is named, or the label must be absent, the candidates are complete.
    let bounds = |operator| names_values(operator) || operator == SelectorOperator::DoesNotExist;
    !requirements.iter().any(|requirement| bounds(requirement.operator()))
}
