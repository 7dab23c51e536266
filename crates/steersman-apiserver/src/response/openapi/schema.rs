//! The schemas of built-in types, in both versions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::node::{Members, Node};
use super::table::{Line, Table, TypeLines, table};

/// The version of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V2,
    V3,
}

impl Version {
    /// A reference to a type.
    pub(super) fn reference(self, name: &str) -> Node {
        let place = match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        };
        Members::default().with_text("$ref", format!("{place}{name}")).build()
    }

    /// The members that refer to a type, for a schema with other members.
    pub(super) fn refer(self, name: &str, to: &mut Members) {
        match (self, self.reference(name)) {
            (Self::V2, Node::Map(members)) => {
                for (name, value) in members {
                    to.push(name, value);
                }
            }
            (_, reference) => to.push("allOf", Node::List(vec![reference])),
        }
    }
}

/// The kinds that a document lists at a type that belongs to all groups, such as DeleteOptions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kinds<'a> {
    All,
    /// Those of one group and version, and of the core group.
    Of(&'a str, &'a str),
    /// Those that client-go knows, as in the documents of custom resources.
    Client,
}

impl Kinds<'_> {
    fn has(self, group: &str, version: &str) -> bool {
        match self {
            Self::All => true,
            Self::Of(own, of) => (group, version) == (own, of) || (group, version) == ("", "v1"),
            Self::Client => !matches!(
                group,
                "admission.k8s.io" | "apiextensions.k8s.io" | "apiregistration.k8s.io" | "imagepolicy.k8s.io"
            ),
        }
    }
}

/// The types that these ones refer to, and they themselves.
pub(super) fn reachable(names: impl IntoIterator<Item = &'static str>) -> BTreeSet<&'static str> {
    let table = table();
    let mut waiting: Vec<&'static str> = names.into_iter().collect();
    let mut found = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        let Some((name, lines)) = table.type_lines(name) else { continue };
        if found.insert(name) {
            waiting.extend(lines.fields().filter_map(|line| reference_of(table, line)));
        }
    }
    found
}

fn reference_of(table: &Table, line: &'static str) -> Option<&'static str> {
    let FieldType { inner, .. } = FieldType::read(table.field(line).words);
    inner.contains('.').then_some(inner)
}

/// The type of a field: `[]string=""`.
struct FieldType {
    /// `[` for a list and `{` for a map, from the outside.
    containers: Vec<u8>,
    inner: &'static str,
    /// The default of the inner type, as JSON.
    default: Option<&'static str>,
}

impl FieldType {
    fn read(words: &'static str) -> Self {
        let mut rest = words.split(' ').next().unwrap_or_default();
        let mut containers = Vec::new();
        while let Some(after) = rest.strip_prefix("[]").or_else(|| rest.strip_prefix("{}")) {
            containers.push(rest.as_bytes()[0]);
            rest = after;
        }
        let (inner, default) = match rest.split_once('=') {
            Some((inner, default)) => (inner, Some(default)),
            None => (rest, None),
        };
        Self { containers, inner, default }
    }
}

/// The schema of a type.
pub(super) fn definition(name: &str, version: Version, kinds: Kinds<'_>) -> Option<Node> {
    let (_, lines) = table().type_lines(name)?;
    Some(of_type(lines, version, kinds))
}

fn of_type(lines: TypeLines, version: Version, kinds: Kinds<'_>) -> Node {
    let head = lines.head();
    let (words, unions) = match head.words.split_once(" unions=") {
        Some((words, unions)) => (words, Some(unions)),
        None => (head.words, None),
    };
    let word = |name: &str| words.split(' ').find_map(|word| word.strip_prefix(name));
    let mut schema = Members::default();
    if let Some(description) = head.description() {
        schema.push("description", Node::Text(description));
    }
    let of_v2 = word("v2=").filter(|_| version == Version::V2);
    push_basic(of_v2.unwrap_or_else(|| words.split(' ').next().unwrap_or_default()), &mut schema);
    if let Some(required) = word("required=") {
        schema.push("required", Node::texts(required.split(',')));
    }
    let mut properties = lines.fields().map(|line| table().field(line)).peekable();
    if properties.peek().is_some() {
        let mut named = Members::default();
        for line in properties {
            named.push(line.name, field(&line, version));
        }
        schema.push("properties", named.build());
    }
    let listed: Vec<[&'static str; 3]> =
        words.split(' ').filter_map(|word| split_kind(word.strip_prefix("gvk=")?)).collect();
    if !listed.is_empty() {
        let is_common = listed.len() > 1;
        let of_document = listed.into_iter().filter(|[group, version, _]| !is_common || kinds.has(group, version));
        schema.push("x-kubernetes-group-version-kind", Node::List(of_document.map(kind_node).collect()));
    }
    if let Some(kind) = word("map=") {
        schema.push("x-kubernetes-map-type", Node::text(kind));
    }
    if let Some(unions) = unions {
        schema.push("x-kubernetes-unions", recorded_json(unions));
    }
    schema.build()
}

fn split_kind(kind: &'static str) -> Option<[&'static str; 3]> {
    let mut parts = kind.split('/');
    Some([parts.next()?, parts.next()?, parts.next()?])
}

fn kind_node([group, version, kind]: [&'static str; 3]) -> Node {
    Members::default().with_text("group", group).with_text("kind", kind).with_text("version", version).build()
}

fn recorded_json(text: &str) -> Node {
    Node::from(&serde_json::from_str::<Value>(text).unwrap_or_default())
}

/// `integer/int32`, or `string|number` for one of several types.
fn push_basic(basic: &'static str, schema: &mut Members) {
    let (kind, format) = match basic.split_once('/') {
        Some((kind, format)) => (kind, Some(format)),
        None => (basic, None),
    };
    let is_one_of = kind.contains('|');
    if !is_one_of && kind != "any" {
        schema.push("type", Node::text(kind));
    }
    if let Some(format) = format {
        schema.push("format", Node::text(format));
    }
    if is_one_of {
        let one = |kind| Members::default().with("type", Node::text(kind)).build();
        schema.push("oneOf", Node::List(kind.split('|').map(one).collect()));
    }
}

/// The schema of a field.
fn field(line: &Line, version: Version) -> Node {
    let (words, values) = match line.words.split_once(" enum=") {
        Some((words, values)) => (words, Some(values)),
        None => (line.words, None),
    };
    let mut inner = FieldType::read(words);
    if version == Version::V2 {
        inner.default = None;
    }
    let mut schema = Members::default();
    if let Some(description) = line.description() {
        schema.push("description", Node::Text(description));
    }
    push_type(&inner, &inner.containers, values, version, &mut schema);
    // In the order of their names.
    let extensions = [
        ("keys=", "x-kubernetes-list-map-keys"),
        ("list=", "x-kubernetes-list-type"),
        ("map=", "x-kubernetes-map-type"),
        ("patchKey=", "x-kubernetes-patch-merge-key"),
        ("patch=", "x-kubernetes-patch-strategy"),
    ];
    for (prefix, extension) in extensions {
        let Some(value) = words.split(' ').find_map(|word| word.strip_prefix(prefix)) else { continue };
        let value = if prefix == "keys=" { Node::texts(value.split(',')) } else { Node::text(value) };
        schema.push(extension, value);
    }
    match (schema.build(), version) {
        // A reference without other members needs no list around it.
        (Node::Map(mut members), Version::V3) if members.len() == 1 && members[0].0 == "allOf" => {
            match members.remove(0).1 {
                Node::List(mut references) => references.remove(0),
                other => other,
            }
        }
        (node, _) => node,
    }
}

fn push_type(
    field: &FieldType,
    containers: &[u8],
    values: Option<&'static str>,
    version: Version,
    schema: &mut Members,
) {
    let nested = |rest: &[u8]| {
        let mut inner = Members::default();
        push_type(field, rest, values, version, &mut inner);
        match inner.build() {
            Node::Map(members) if members.len() == 1 && members[0].0 == "allOf" => version.reference(field.inner),
            node => node,
        }
    };
    match containers {
        [b'[', rest @ ..] => {
            schema.push("type", Node::text("array"));
            schema.push("items", nested(rest));
        }
        [_, rest @ ..] => {
            schema.push("type", Node::text("object"));
            schema.push("additionalProperties", nested(rest));
        }
        [] => {
            let is_reference = field.inner.contains('.');
            if !is_reference {
                push_basic(field.inner, schema);
            }
            if let Some(default) = field.default {
                schema.push("default", recorded_json(default));
            }
            if let Some(values) = values {
                schema.push("enum", recorded_json(values));
            }
            if is_reference {
                version.refer(field.inner, schema);
            }
        }
    }
}
