//! The entries of `metadata.managedFields`: which manager wrote which fields, and when.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::codec;
use super::set::FieldSet;
use crate::request::budget;
use crate::request::write_options::check_manager;
use crate::response::status::{Errors, FieldError};

/// More managers of updates are merged into one.
const UPDATE_MANAGERS_MAX: usize = 10;
/// The limit for the bytes of the name of a subresource.
const SUBRESOURCE_MAX: usize = 256;
/// The manager of merged entries.
const MERGED: &str = "ancient-changes";

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who writes, in one way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Manager {
    pub(crate) name: Box<str>,
    pub(crate) operation: Operation,
    /// Empty for appliers, who are the same in every version.
    pub(crate) api_version: Box<str>,
    pub(crate) subresource: Box<str>,
}

impl Manager {
    /// The manager as the real server identifies it, which is an order of managers.
    pub(crate) fn identifier(&self) -> String {
        let mut text = String::from("{");
        let fields = [
            ("manager", &*self.name),
            ("operation", self.operation.name()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&format!("\"{name}\":{}", Value::from(value)));
        }
        text.push('}');
        text
    }
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) manager: Manager,
    pub(crate) api_version: Box<str>,
    pub(crate) time: Option<Box<str>>,
    fields: Fields,
}

/// The fields of an entry: as stored, or decoded.
#[derive(Clone, Debug)]
enum Fields {
    Text(Box<[u8]>),
    Set(FieldSet),
}

impl Entry {
    pub(crate) fn new(manager: Manager, api_version: &str, time: Option<Box<str>>, set: FieldSet) -> Self {
        Self { manager, api_version: api_version.into(), time, fields: Fields::Set(set) }
    }

    /// An entry whose fields are encoded.
    pub(crate) fn encoded(manager: Manager, api_version: &str, time: Option<Box<str>>, text: Vec<u8>) -> Self {
        Self { manager, api_version: api_version.into(), time, fields: Fields::Text(text.into()) }
    }

    pub(crate) fn is_applied(&self) -> bool {
        self.manager.operation == Operation::Apply
    }

    /// The fields, which are decoded on first use.
    pub(crate) fn set(&mut self) -> &FieldSet {
        if let Fields::Text(text) = &self.fields {
            // A stored entry was written by this server, or was decoded when it was sent.
            self.fields = Fields::Set(codec::decode(text).unwrap_or_default());
        }
        match &self.fields {
            Fields::Set(set) => set,
            Fields::Text(_) => unreachable!("it was decoded above"),
        }
    }

    pub(crate) fn replace(&mut self, set: FieldSet) {
        self.fields = Fields::Set(set);
    }

    /// Whether no fields are left. Stored entries have some.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.fields {
            Fields::Text(text) => **text == *b"{}",
            Fields::Set(set) => set.is_empty(),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let text = |out: &mut Vec<u8>, name: &str, value: &str| {
            out.extend_from_slice(name.as_bytes());
            serde_json::to_writer(out, value).expect("writing to memory does not fail");
        };
        text(out, "{\"apiVersion\":", &self.api_version);
        out.extend_from_slice(br#","fieldsType":"FieldsV1","fieldsV1":"#);
        match &self.fields {
            Fields::Text(text) => out.extend_from_slice(text),
            Fields::Set(set) => codec::encode(set, out),
        }
        if !self.manager.name.is_empty() {
            text(out, ",\"manager\":", &self.manager.name);
        }
        text(out, ",\"operation\":", self.manager.operation.name());
        if !self.manager.subresource.is_empty() {
            text(out, ",\"subresource\":", &self.manager.subresource);
        }
        if let Some(time) = &self.time {
            text(out, ",\"time\":", time);
        }
        out.push(b'}');
    }

    /// Its time for comparisons: no time comes first.
    fn at(&self) -> &str {
        self.time.as_deref().unwrap_or_default()
    }
}

/// The text of one entry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored<'a> {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    time: Option<String>,
    #[serde(default)]
    fields_type: String,
    #[serde(borrow, default, rename = "fieldsV1")]
    fields: Option<&'a RawValue>,
    #[serde(default)]
    subresource: String,
}

/// The entries of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managed {
    pub(crate) entries: Vec<Entry>,
    /// Whether a request has set them.
    pub(super) is_given: bool,
}

impl Managed {
    /// Reads the entries of a stored object. Their fields are not decoded yet.
    pub(crate) fn stored(text: &[u8]) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        budget::text(text.len());
        Self::read(text, false).unwrap_or_default()
    }

    /// Reads the entries of a request, with all checks of their fields. The error states why they
    /// cannot be used.
    pub(crate) fn given(entries: &Value) -> Result<Self, String> {
        let text = entries.to_string();
        budget::make(text.len());
        Self::read(text.as_bytes(), true)
    }

    fn read(text: &[u8], checked: bool) -> Result<Self, String> {
        let stored: Vec<Stored<'_>> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let mut managed = Self { is_given: checked, ..Self::default() };
        let mut places = HashMap::new();
        for (place, one) in stored.into_iter().enumerate() {
            if !budget::step(1) {
                break;
            }
            let operation = match one.operation.as_str() {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            if one.api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match one.fields_type.as_str() {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {place}")),
                other => {
                    let other = steersman_wire::quote(other);
                    return Err(format!("invalid fieldsType {other} in managed fields entry {place}"));
                }
            }
            let fields = one.fields.map_or("{}", RawValue::get);
            let fields = if checked {
                Fields::Set(codec::decode(fields.as_bytes())?)
            } else {
                Fields::Text(fields.as_bytes().into())
            };
            let version_of_manager = if operation == Operation::Apply { "" } else { one.api_version.as_str() };
            let manager = Manager {
                name: one.manager.into(),
                operation,
                api_version: version_of_manager.into(),
                subresource: one.subresource.into(),
            };
            let entry = Entry { manager, api_version: one.api_version.into(), time: one.time.map(Into::into), fields };
            // Of several entries of one manager, the last one counts.
            match places.get(&entry.manager) {
                Some(place) => managed.entries[*place] = entry,
                None => {
                    places.insert(entry.manager.clone(), managed.entries.len());
                    managed.entries.push(entry);
                }
            }
        }
        Ok(managed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The errors in entries that a request has set.
    pub(crate) fn errors(&mut self) -> Errors {
        self.entries.sort_by(Entry::order);
        let mut errors = Errors::default();
        for (place, entry) in self.entries.iter().enumerate() {
            let field = |name: &str| format!("metadata.managedFields[{place}].{name}");
            if !budget::step(1) || errors.is_full() {
                break;
            }
            errors.extend(check_manager(&field("manager"), &entry.manager.name));
            if entry.manager.subresource.len() > SUBRESOURCE_MAX {
                errors.push(FieldError::too_long(field("subresource"), SUBRESOURCE_MAX));
            }
        }
        errors
    }

    pub(crate) fn get(&mut self, manager: &Manager) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.manager == *manager)
    }

    /// Removes the entry of a manager.
    pub(crate) fn take(&mut self, manager: &Manager) -> Option<Entry> {
        let place = self.entries.iter().position(|entry| entry.manager == *manager)?;
        Some(self.entries.remove(place))
    }

    /// Merges the oldest entries of updates of one version, until there are few enough.
    pub(super) fn cap(&mut self) {
        let mut length = self.entries.iter().filter(|entry| !entry.is_applied()).count();
        if length <= UPDATE_MANAGERS_MAX {
            return;
        }
        let mut oldest: Vec<(String, String, Manager)> = self
            .entries
            .iter()
            .filter(|entry| !entry.is_applied())
            .map(|entry| (entry.at().to_owned(), entry.manager.identifier(), entry.manager.clone()))
            .collect();
        oldest.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        // By version, the first of its managers and the merged entry, once there is one.
        let mut first_of: HashMap<Box<str>, Manager> = HashMap::new();
        let mut places: HashMap<Manager, usize> = HashMap::new();
        for (place, entry) in self.entries.iter().enumerate() {
            places.insert(entry.manager.clone(), place);
        }
        let mut gone = vec![false; self.entries.len()];
        for (_, _, manager) in oldest {
            if length <= UPDATE_MANAGERS_MAX || !budget::step(1) {
                break;
            }
            let Some(place) = places.get(&manager).copied().filter(|place| !gone[*place]) else { continue };
            let version = self.entries[place].api_version.clone();
            let Some(first) = first_of.get(&version) else {
                first_of.insert(version, manager);
                continue;
            };
            let bucket = Manager {
                name: MERGED.into(),
                operation: Operation::Update,
                api_version: version.clone(),
                subresource: "".into(),
            };
            if !places.contains_key(&bucket)
                && let Some(place) = places.remove(first)
            {
                self.entries[place].manager = bucket.clone();
                places.insert(bucket.clone(), place);
            }
            let Some(into) = places.get(&bucket).copied() else { continue };
            let set = self.entries[place].set().clone();
            if !budget::step(set.size()) {
                break;
            }
            let union = set.union(self.entries[into].set());
            self.entries[into].time = self.entries[place].time.clone();
            self.entries[into].replace(union);
            if into != place {
                gone[place] = true;
                places.remove(&manager);
                length -= 1;
            }
        }
        let mut gone = gone.into_iter();
        self.entries.retain(|_| !gone.next().unwrap_or_default());
    }

    /// The JSON array, ordered as by the real server. Empty if there are no entries.
    pub(crate) fn text(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.entries.is_empty() {
            return out;
        }
        self.entries.sort_by(Entry::order);
        out.reserve(256);
        out.push(b'[');
        for (place, entry) in self.entries.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            entry.write(&mut out);
        }
        out.push(b']');
        budget::make(out.len());
        out
    }
}

impl Entry {
    fn order(one: &Self, other: &Self) -> Ordering {
        let key = |entry: &Self| entry.manager.operation;
        key(one)
            .cmp(&key(other))
            .then_with(|| one.at().cmp(other.at()))
            .then_with(|| one.manager.name.cmp(&other.manager.name))
            .then_with(|| one.api_version.cmp(&other.api_version))
            .then_with(|| one.manager.subresource.cmp(&other.manager.subresource))
    }
}

/// Whether two texts of entries differ in nothing but times.
pub(crate) fn same_but_times(one: &[u8], other: &[u8]) -> bool {
    if one == other {
        return true;
    }
    let read = |text: &[u8]| Managed::stored(text).entries;
    let (one, other) = (read(one), read(other));
    let is_same = |(one, other): (&Entry, &Entry)| {
        let text = |entry: &Entry| match &entry.fields {
            Fields::Text(text) => text.clone(),
            Fields::Set(_) => Box::default(),
        };
        one.manager == other.manager && one.api_version == other.api_version && text(one) == text(other)
    };
    one.len() == other.len() && one.iter().zip(&other).all(is_same)
}

/// The entries that a write begins with: those of the request if it may set them and they can be
/// used, else the stored ones. An empty list, or one empty entry, resets them.
pub(crate) fn before(stored: &[u8], given: Option<&Value>, is_subresource: bool) -> Managed {
    let given = given.filter(|_| !is_subresource);
    if is_reset(given) {
        return Managed::default();
    }
    // Most updates send back what they have read.
    let given = given.filter(|given| given.to_string().as_bytes() != stored);
    match given.map(Managed::given) {
        Some(Ok(managed)) if !managed.is_empty() => managed,
        _ => Managed::stored(stored),
    }
}

/// Whether the entries of a request reset those of the object.
fn is_reset(given: Option<&Value>) -> bool {
    match given.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}
