//! The indexer against an obvious model, with random operations on both.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;
use steersman_cache::{Cached, Error, Index, Indexer, ObjectKey, Replaced, Snapshot, Storage};
use steersman_wire::LabelSelector;

/// An object, as the indexes and selectors read it. Its key is a namespace, of which the first is
/// empty, and a name.
#[derive(Clone, Debug, PartialEq)]
struct Thing {
    key: (u8, u8),
    app: Option<u8>,
    note: Option<u8>,
    letters: String,
    colour: Option<u8>,
}

#[derive(Clone, Debug)]
enum Step {
    Upsert(Thing),
    Delete((u8, u8)),
    Replace(Vec<Thing>),
    ReplaceIn(u8, Vec<Thing>),
    AddIndex(usize),
    Snapshot,
}

const NAMESPACES: u8 = 3;
const INDEXES: [&str; 6] = ["namespace", "app", "note", "letters", "colour", "function"];

fn key() -> impl Strategy<Value = (u8, u8)> {
    (0..NAMESPACES, prop_oneof![3 => 0..6_u8, 1 => 0..60_u8])
}

fn thing() -> impl Strategy<Value = Thing> {
    let value = || option::weighted(0.8, 0..3_u8);
    (key(), value(), value(), "[abc]{0,4}", value()).prop_map(|(key, app, note, letters, colour)| Thing {
        key,
        app,
        note,
        letters,
        colour,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => thing().prop_map(Step::Upsert),
        6 => key().prop_map(Step::Delete),
        1 => vec(thing(), 0..90).prop_map(Step::Replace),
        2 => (0..NAMESPACES, vec(thing(), 0..40)).prop_map(|(namespace, things)| Step::ReplaceIn(namespace, things)),
        2 => (0..INDEXES.len()).prop_map(Step::AddIndex),
        2 => Just(Step::Snapshot),
    ]
}

/// The names of a namespace and an object.
fn texts((namespace, name): (u8, u8)) -> (String, String) {
    (if namespace == 0 { String::new() } else { format!("ns{namespace}") }, format!("n{name}"))
}

fn number(value: Option<u8>) -> Vec<String> {
    value.iter().map(u8::to_string).collect()
}

impl Thing {
    fn values(&self, index: &str) -> BTreeSet<String> {
        let values = match index {
            "namespace" => vec![texts(self.key).0],
            "app" => number(self.app),
            "note" => number(self.note),
            "letters" | "function" => self.letters.chars().map(String::from).collect(),
            _ => number(self.colour),
        };
        values.into_iter().collect()
    }
}

fn index(name: &str) -> Index<ConfigMap> {
    let letters = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
    match name {
        "app" => Index::label("app"),
        "note" => Index::annotation("note"),
        "letters" => Index::metadata(move |meta| letters(meta.label("letters").unwrap_or_default())),
        "function" => Index::function(move |map: &ConfigMap| {
            letters(map.metadata.labels.as_ref().and_then(|labels| labels.get("letters")).map_or("", |text| text))
        }),
        _ => Index::path("data.colour".parse().unwrap()),
    }
}

/// The expected objects with their versions, and the indexes.
#[derive(Default)]
struct Model {
    things: BTreeMap<(u8, u8), (u64, Thing)>,
    indexes: Vec<&'static str>,
}

struct Both {
    storage: Storage<ConfigMap>,
    store: Indexer<ConfigMap>,
    model: Model,
    version: u64,
    snapshots: Vec<(Snapshot<ConfigMap>, Vec<String>)>,
}

fn state(key: (u8, u8), version: u64) -> String {
    let (namespace, name) = texts(key);
    format!("{}@{version}", ObjectKey::new(&namespace, &name))
}

/// The sorted keys of states.
fn keys(states: &[String]) -> Vec<String> {
    sorted(states.iter().filter_map(|state| state.split('@').next()).map(str::to_owned))
}

fn sorted<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort();
    items
}

fn states<'a>(objects: impl IntoIterator<Item = &'a Cached<ConfigMap>>) -> Vec<String> {
    sorted(objects.into_iter().map(|object| format!("{object:?}")))
}

impl Model {
    fn states(&self, wanted: impl Fn(&Thing) -> bool) -> Vec<String> {
        let wanted = self.things.values().filter(|(_, thing)| wanted(thing));
        sorted(wanted.map(|(version, thing)| state(thing.key, *version)))
    }
}

impl Both {
    fn new() -> Self {
        let model = Model { indexes: vec!["namespace"], ..Model::default() };
        Self { storage: Storage::default(), store: Indexer::new(), model, version: 0, snapshots: Vec::new() }
    }

    /// The object in its next state.
    fn object(&mut self, thing: &Thing) -> Cached<ConfigMap> {
        self.version += 1;
        let (namespace, name) = texts(thing.key);
        let mut object = json!({"metadata": {"name": name, "resourceVersion": self.version.to_string()}});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        object["metadata"]["labels"]["letters"] = json!(thing.letters);
        if let Some(app) = thing.app {
            object["metadata"]["labels"]["app"] = json!(app.to_string());
        }
        if let Some(note) = thing.note {
            object["metadata"]["annotations"]["note"] = json!(note.to_string());
        }
        if let Some(colour) = thing.colour {
            object["data"]["colour"] = json!(colour.to_string());
        }
        self.storage.store(object.to_string().as_bytes(), None).unwrap()
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Upsert(thing) => {
                let object = self.object(thing);
                let old = self.model.things.insert(thing.key, (self.version, thing.clone()));
                assert_eq!(states(&self.store.upsert(object)), states_of(old.iter()));
            }
            Step::Delete(key) => {
                let (namespace, name) = texts(*key);
                let old = self.model.things.remove(key);
                assert_eq!(states(&self.store.delete(&namespace, &name)), states_of(old.iter()));
            }
            Step::Replace(things) => self.replace(None, things),
            Step::ReplaceIn(namespace, things) => self.replace(Some(*namespace), things),
            Step::AddIndex(which) => {
                let name = INDEXES[*which];
                let added = self.store.add_index(name, index(name));
                if self.model.indexes.contains(&name) {
                    assert!(matches!(added, Err(Error::IndexExists { .. })));
                } else {
                    added.unwrap();
                    self.model.indexes.push(name);
                }
            }
            Step::Snapshot => self.snapshots.push((self.store.list(), self.model.states(|_| true))),
        }
    }

    fn replace(&mut self, namespace: Option<u8>, things: &[Thing]) {
        let is_within = |key: &(u8, u8)| namespace.is_none_or(|namespace| key.0 == namespace);
        let (mut objects, mut listed) = (Vec::new(), BTreeMap::new());
        for thing in things {
            objects.push(self.object(thing));
            if is_within(&thing.key) {
                listed.insert(thing.key, (self.version, thing.clone()));
            }
        }
        let Replaced { added, updated, deleted } = match namespace {
            None => self.store.replace(objects),
            Some(namespace) => self.store.replace_in(Some(&texts((namespace, 0)).0), objects),
        };
        let things = std::mem::take(&mut self.model.things);
        let (old, others): (BTreeMap<_, _>, _) = things.into_iter().partition(|(key, _)| is_within(key));
        assert_eq!(states(&added), states_of(listed.values().filter(|(_, thing)| !old.contains_key(&thing.key))));
        assert_eq!(states(&deleted), states_of(old.values().filter(|(_, thing)| !listed.contains_key(&thing.key))));
        let pairs = listed.iter().filter_map(|(key, new)| Some((state(*key, old.get(key)?.0), state(*key, new.0))));
        let reported = updated.iter().map(|(old, new)| (format!("{old:?}"), format!("{new:?}")));
        assert_eq!(sorted(reported), sorted(pairs));
        self.model.things = others;
        self.model.things.extend(listed);
    }

    fn compare(&mut self) {
        let all = self.model.states(|_| true);
        assert_eq!(self.store.len(), all.len());
        assert_eq!(states(&self.store.list()), all);
        assert_eq!(sorted(self.store.keys().iter().map(ToString::to_string)), keys(&all));
        for namespace in 0..NAMESPACES {
            self.compare_namespace(namespace);
        }
        for index in self.model.indexes.clone() {
            self.compare_index(index);
        }
    }

    fn compare_namespace(&self, namespace: u8) {
        let (text, _) = texts((namespace, 0));
        let is_here = |thing: &Thing| thing.key.0 == namespace;
        assert_eq!(states(&self.store.namespace(&text)), self.model.states(is_here));
        let selector = LabelSelector::parse("app in (1,2)").unwrap();
        let is_selected = |thing: &Thing| matches!(thing.app, Some(1 | 2));
        assert_eq!(states(&self.store.select(None, &selector)), self.model.states(is_selected));
        let here = self.model.states(|thing| is_here(thing) && is_selected(thing));
        assert_eq!(states(&self.store.select(Some(&text), &selector)), here);
        for name in 0..8 {
            let (_, name_text) = texts((namespace, name));
            let expected = states_of(self.model.things.get(&(namespace, name)));
            assert_eq!(states(self.store.get(&text, &name_text)), expected);
            assert_eq!(states(self.store.get_by_key(&ObjectKey::new(&text, &name_text))), expected);
        }
    }

    fn compare_index(&mut self, index: &str) {
        let all: BTreeSet<String> = self.model.things.values().flat_map(|(_, thing)| thing.values(index)).collect();
        assert_eq!(sorted(self.store.index_values(index).unwrap()), all.iter().cloned().collect::<Vec<_>>());
        let selector = LabelSelector::parse("!app").unwrap();
        for value in all.iter().map(String::as_str).chain(["absent"]) {
            let has_value = |thing: &Thing| thing.values(index).contains(value);
            let expected = self.model.states(has_value);
            assert_eq!(states(&self.store.by_index(index, value).unwrap()), expected, "{index} {value}");
            let found = self.store.index_keys(index, value).unwrap();
            assert_eq!(sorted(found.iter().map(ToString::to_string)), keys(&expected));
            let selected = self.model.states(|thing| has_value(thing) && thing.app.is_none());
            assert_eq!(states(&self.store.select_by_index(index, value, &selector).unwrap()), selected);
        }
        let absent = Thing { key: (1, 99), app: Some(1), note: None, letters: "ab".to_owned(), colour: Some(2) };
        let object = self.object(&absent);
        let sharing = self.model.states(|thing| !thing.values(index).is_disjoint(&absent.values(index)));
        assert_eq!(states(&self.store.index(index, &object).unwrap()), sharing);
    }
}

fn states_of<'a>(things: impl IntoIterator<Item = &'a (u64, Thing)>) -> Vec<String> {
    sorted(things.into_iter().map(|(version, thing)| state(thing.key, *version)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_an_obvious_model(steps in vec(step(), 0..60)) {
        let mut both = Both::new();
        for step in &steps {
            both.step(step);
            both.compare();
        }
        for (snapshot, expected) in both.snapshots {
            assert_eq!(snapshot.len(), expected.len());
            assert_eq!(states(&snapshot), expected);
            assert_eq!(states(&snapshot.into_iter().collect::<Vec<_>>()), expected);
        }
    }
}
