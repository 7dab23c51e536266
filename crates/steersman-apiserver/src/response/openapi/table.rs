//! The recorded table: schemas with their descriptions, the query parameters of each verb, and the
//! hashes of the documents.
//!
//! `cargo xtask kinds` writes it; `xtask/src/openapi.rs` describes its lines. The first request for
//! a document finds the lines of each type. A line is parsed when its type is written.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::node::Text;

const RECORDED: &str = include_str!("../../../data/openapi.txt");

/// The fields that most kinds share.
pub(super) const TYPE_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.TypeMeta";

/// The table, with the lines of each part.
pub(super) struct Table {
    /// `1.36`
    pub(super) version: String,
    hashes: BTreeMap<&'static str, &'static str>,
    /// The paths of the resources whose deletion returns the object.
    deletions: BTreeSet<&'static str>,
    parameters: BTreeMap<&'static str, &'static str>,
    types: BTreeMap<&'static str, TypeLines>,
    /// The types of kinds, by `group/version/kind`.
    by_kind: BTreeMap<&'static str, &'static str>,
}

/// The lines of one type.
#[derive(Clone, Copy)]
pub(super) struct TypeLines {
    /// The line of the type after its name.
    head: &'static str,
    fields: &'static str,
}

/// One line: words, and a description.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) words: &'static str,
    description: Option<&'static str>,
}

/// A query or path parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `query` or `path`.
    pub(super) at: &'static str,
    pub(super) kind: &'static str,
    pub(super) description: Text,
}

/// The table. The first call reads it.
pub(super) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::read(RECORDED).expect("the recorded table is checked by this crate's tests"))
}

impl Table {
    fn read(recorded: &'static str) -> Option<Self> {
        let mut sections = recorded.splitn(5, "\n\n");
        let release = sections.next()?.strip_prefix("Kubernetes ")?;
        let version = release.rsplit_once('.')?.0.to_owned();
        let hashes = sections.next()?.lines().filter_map(|line| line.split_once(' ')).collect();
        let deletions = sections.next()?.lines().skip(1).filter_map(|line| Some(line.split_once(' ')?.0)).collect();
        let parameters = blocks(sections.next()?).map(|(head, fields)| (&head[1..], fields)).collect();
        let mut types = BTreeMap::new();
        let mut by_kind = BTreeMap::new();
        for (head, fields) in blocks(sections.next()?) {
            let (name, head) = head.split_once(' ').unwrap_or((head, ""));
            types.insert(name, TypeLines { head, fields });
            let words = head.split(" | ").next().unwrap_or_default();
            // Of the types of all groups, the kind is that of the first one.
            for kind in words.split(' ').filter_map(|word| word.strip_prefix("gvk=")) {
                by_kind.insert(kind, name);
            }
        }
        Some(Self { version, hashes, deletions, parameters, types, by_kind })
    }

    /// The recorded hash of a document, if it is a document of built-in kinds.
    pub(super) fn hash(&self, document: &str) -> Option<&'static str> {
        self.hashes.get(document).copied()
    }

    /// The paths of the documents of version 3.
    pub(super) fn documents(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.hashes.iter().filter(|(name, _)| **name != "v2").map(|(name, hash)| (*name, *hash))
    }

    /// Whether the deletion of such an object returns it.
    pub(super) fn returns_deleted(&self, path: &str) -> bool {
        self.deletions.contains(path)
    }

    /// The parameters of a set.
    pub(super) fn parameters(&self, set: &str) -> impl Iterator<Item = Parameter> {
        let lines = self.parameters.get(set).copied().unwrap_or_default();
        let at = if matches!(set, "namespace" | "path") { "path" } else { "query" };
        lines.lines().map(move |line| {
            let line = Line::read(line);
            let description = line.description().unwrap_or_default();
            Parameter { name: line.name, at, kind: line.words, description }
        })
    }

    /// The full name of the type of a kind.
    pub(super) fn type_of(&self, group: &str, version: &str, kind: &str) -> Option<&'static str> {
        self.by_kind.get(format!("{group}/{version}/{kind}").as_str()).copied()
    }

    pub(super) fn type_lines(&self, name: &str) -> Option<(&'static str, TypeLines)> {
        self.types.get_key_value(name).map(|(name, lines)| (*name, *lines))
    }

    /// The names of all types.
    pub(super) fn type_names(&self) -> impl Iterator<Item = &'static str> {
        self.types.keys().copied().filter(|name| *name != TYPE_META)
    }

    /// The line of a field, with the text that is shared between kinds.
    pub(super) fn field(&self, line: &'static str) -> Line {
        let line = Line::read(line);
        if !line.words.is_empty() {
            return line;
        }
        let shared = self.types.get(TYPE_META).map(|shared| shared.fields).unwrap_or_default();
        shared.lines().map(Line::read).find(|shared| shared.name == line.name).unwrap_or(line)
    }
}

/// The lines without an indent, each with the indented lines below.
fn blocks(section: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut rest = section;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (head, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let mut end = 0;
        while after[end..].starts_with(' ') {
            end = after[end..].find('\n').map_or(after.len(), |line| end + line + 1);
        }
        rest = &after[end..];
        Some((head, &after[..end]))
    })
}

impl TypeLines {
    /// The line of the type itself, without a name.
    pub(super) fn head(self) -> Line {
        let (words, description) = split(self.head);
        Line { name: "", words, description }
    }

    /// The lines of its fields.
    pub(super) fn fields(self) -> impl Iterator<Item = &'static str> {
        self.fields.lines()
    }
}

/// The words and the description.
fn split(line: &'static str) -> (&'static str, Option<&'static str>) {
    match line.split_once(" | ") {
        Some((words, description)) => (words, Some(description)),
        None => (line, None),
    }
}

impl Line {
    fn read(line: &'static str) -> Self {
        let (words, description) = split(line.trim_start_matches(' '));
        let (name, words) = words.split_once(' ').unwrap_or((words, ""));
        Self { name, words, description }
    }

    /// The text of the description.
    pub(super) fn description(&self) -> Option<Text> {
        self.description.map(|text| {
            if !text.contains('\\') {
                return Cow::Borrowed(text);
            }
            let mut plain = String::with_capacity(text.len());
            let mut characters = text.chars();
            while let Some(character) = characters.next() {
                match character {
                    '\\' if characters.next() == Some('n') => plain.push('\n'),
                    other => plain.push(other),
                }
            }
            Cow::Owned(plain)
        })
    }
}
