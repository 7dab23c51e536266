//! YAML, parsed and written as the real server does: YAML 1.1 with Go's rules for plain scalars,
//! and libyaml's messages.

mod input;
mod nodes;
pub(crate) mod resolve;

use std::collections::{BTreeMap, HashMap};

use libyaml_safer::{Event, EventData, Parser, ScalarStyle};
use serde_json::Value;
use steersman_wire::base64;

use self::input::Input;
use self::nodes::{Node, NodeId, Nodes, Size};
use self::resolve::{Scalar, resolve};
use crate::request::budget;

/// Deeper nesting is refused, as in JSON: readers of the value recurse.
const DEPTH_MAX: usize = 512;

/// How many scalars, lists and maps may come from aliases before their share is limited.
const ALIASED_MIN: u64 = 100;

/// All values from aliases together may be as large as the largest body. The real server counts
/// values and not their bytes.
const ALIASED_BYTES_MAX: u64 = crate::server::BODY_MAX as u64;

/// More duplicate keys are not reported, as in JSON.
const DUPLICATES_MAX: usize = 100;

/// A parsed document.
#[derive(Debug, PartialEq)]
pub(crate) struct Document {
    pub(crate) value: Value,
    /// The duplicate keys, with the real server's message: `line 3: key "name" already set in map`.
    pub(crate) duplicates: Vec<String>,
}

/// Parses the first document of the text. The error has the real server's message:
/// `yaml: line 1: …`.
pub(crate) fn read(text: &[u8]) -> Result<Document, String> {
    let input = Input::new(text)?;
    let mut bytes = input.bytes();
    let mut parser = Parser::new();
    parser.set_input_string(&mut bytes);
    let mut composer = Composer::default();
    loop {
        let mut event = parser.parse().map_err(|error| input.message(&error))?;
        match &mut event.data {
            EventData::StreamEnd | EventData::DocumentEnd { .. } => break,
            EventData::StreamStart { .. } | EventData::DocumentStart { .. } => continue,
            EventData::Scalar { value, style: ScalarStyle::Literal | ScalarStyle::Folded, .. } => {
                input.undo_break(value, event.end_mark);
            }
            _ => {}
        }
        composer.take(event)?;
    }
    let value = composer.root.map_or(Value::Null, |root| composer.nodes.value(root));
    Ok(Document { value, duplicates: composer.duplicates })
}

/// An open list or map.
struct Open {
    anchor: Option<String>,
    contents: Contents,
}

enum Contents {
    List(Vec<NodeId>),
    Map {
        members: BTreeMap<String, NodeId>,
        /// The key whose value comes next.
        key: Option<Key>,
    },
}

enum Key {
    Name(String),
    /// `<<`: the members of the value become members here.
    Merge,
}

/// Builds nodes from events. An anchor and its aliases are the same node, so that nothing is copied
/// before the whole text is parsed and its expanded size is known to be small enough.
#[derive(Default)]
struct Composer {
    open: Vec<Open>,
    nodes: Nodes,
    anchors: HashMap<String, NodeId>,
    root: Option<NodeId>,
    duplicates: Vec<String>,
    /// The number of values, and how many of them come from aliases.
    made: u64,
    aliased: u64,
    aliased_bytes: u64,
}

impl Composer {
    fn take(&mut self, event: Event) -> Result<(), String> {
        let line = event.start_mark.line + 1;
        self.made += 1;
        // For each of its tokens, the library checks every open list and map.
        if !budget::step(1 + self.open.len() / 8) {
            return Err("yaml: the document takes too many steps to read".to_owned());
        }
        match event.data {
            EventData::Scalar { anchor, tag, value, plain_implicit, .. } => {
                let scalar = resolve_tagged(tag.as_deref(), plain_implicit, &value)?;
                if self.expects_key() {
                    if let Some(anchor) = anchor {
                        let node = self.nodes.scalar(scalar.clone().into_json()?);
                        self.anchors.insert(anchor, node);
                    }
                    return self.take_key(scalar, line);
                }
                let node = self.nodes.scalar(scalar.into_json()?);
                self.take_value(node, anchor)
            }
            EventData::Alias { anchor } => {
                if self.open.iter().any(|open| open.anchor.as_ref() == Some(&anchor)) {
                    return Err(format!("yaml: anchor '{anchor}' value contains itself"));
                }
                let found = self.anchors.get(&anchor).copied();
                let node = found.ok_or_else(|| format!("yaml: unknown anchor '{anchor}' referenced"))?;
                self.count_aliased(node)?;
                if self.expects_key() {
                    let Node::Scalar(Value::String(name)) = self.nodes.get(node) else {
                        return Err(invalid_key(&self.nodes.value(node)));
                    };
                    return self.take_key(Scalar::String(name.clone()), line);
                }
                self.take_value(node, None)
            }
            EventData::SequenceStart { anchor, .. } => self.begin(anchor, Contents::List(Vec::new())),
            EventData::MappingStart { anchor, .. } => {
                self.begin(anchor, Contents::Map { members: BTreeMap::new(), key: None })
            }
            EventData::SequenceEnd | EventData::MappingEnd => {
                let Some(Open { anchor, contents }) = self.open.pop() else { return Ok(()) };
                let node = match contents {
                    Contents::List(items) => self.nodes.list(items),
                    Contents::Map { members, .. } => self.nodes.map(members),
                };
                self.take_value(node, anchor)
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, anchor: Option<String>, contents: Contents) -> Result<(), String> {
        if self.open.len() == DEPTH_MAX {
            return Err(too_deep());
        }
        self.open.push(Open { anchor, contents });
        Ok(())
    }

    /// Refuses a small text that expands to a huge value, before it is expanded.
    fn count_aliased(&mut self, node: NodeId) -> Result<(), String> {
        let Size { values, bytes, depth } = self.nodes.size(node);
        // An alias may be nested deeper than its anchor.
        if self.open.len() + depth > DEPTH_MAX {
            return Err(too_deep());
        }
        self.made = self.made.saturating_add(values);
        self.aliased = self.aliased.saturating_add(values);
        self.aliased_bytes = self.aliased_bytes.saturating_add(bytes);
        let share = match self.made {
            0..=400_000 => 0.99,
            400_001..4_000_000 => 0.99 - 0.89 * (self.made - 400_000) as f64 / 3_600_000.0,
            _ => 0.10,
        };
        let too_many = self.aliased > ALIASED_MIN && self.made > 1000 && self.aliased as f64 / self.made as f64 > share;
        if too_many || self.aliased_bytes > ALIASED_BYTES_MAX {
            return Err("yaml: document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { contents: Contents::Map { key: None, .. }, .. }))
    }

    fn take_key(&mut self, scalar: Scalar, line: u64) -> Result<(), String> {
        let Some(Open { contents: Contents::Map { members, key }, .. }) = self.open.last_mut() else { return Ok(()) };
        if matches!(scalar, Scalar::Merge) {
            *key = Some(Key::Merge);
            return Ok(());
        }
        let name = scalar.into_key()?;
        if members.contains_key(&name) && self.duplicates.len() < DUPLICATES_MAX {
            self.duplicates.push(format!("line {line}: key {} already set in map", steersman_wire::quote(&name)));
        }
        *key = Some(Key::Name(name));
        Ok(())
    }

    fn take_value(&mut self, node: NodeId, anchor: Option<String>) -> Result<(), String> {
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, node);
        }
        match self.open.last_mut().map(|open| &mut open.contents) {
            None => self.root = Some(node),
            Some(Contents::List(items)) => items.push(node),
            Some(Contents::Map { members, key }) => match key.take() {
                Some(Key::Name(name)) => drop(members.insert(name, node)),
                Some(Key::Merge) => self.nodes.merge(members, node)?,
                None => return Err(invalid_key(&self.nodes.value(node))),
            },
        }
        Ok(())
    }
}

fn too_deep() -> String {
    "yaml: exceeded max depth of 10000".to_owned()
}

/// A list or a map cannot be a key.
fn invalid_key(value: &Value) -> String {
    let text = match value {
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        _ => "map[interface {}]interface {}{}".to_owned(),
    };
    format!("yaml: invalid map key: {text}")
}

const TAGS: &str = "tag:yaml.org,2002:";

/// The type of a scalar, by its tag or, if it is plain and has none, by its text.
fn resolve_tagged(tag: Option<&str>, plain: bool, text: &str) -> Result<Scalar, String> {
    let wrong =
        |scalar: &Scalar, tag: &str| Err(format!("yaml: cannot decode !!{} `{text}` as a !!{tag}", scalar.tag()));
    let Some(tag) = tag.filter(|tag| !tag.is_empty()) else {
        return Ok(if plain { resolve(text) } else { Scalar::String(text.to_owned()) });
    };
    match tag.strip_prefix(TAGS) {
        Some("binary") => {
            let bytes = base64::decode(text);
            let bytes = bytes.map_err(|_| "yaml: !!binary value contains invalid base64 data".to_owned())?;
            Ok(Scalar::String(String::from_utf8_lossy(&bytes).into_owned()))
        }
        Some(tag @ ("bool" | "int" | "float" | "null")) => match (resolve(text), tag) {
            (Scalar::Int(number), "float") => Ok(Scalar::Float(number as f64)),
            (scalar, tag) if scalar.tag() == tag => Ok(scalar),
            (scalar, tag) => wrong(&scalar, tag),
        },
        _ => Ok(Scalar::String(text.to_owned())),
    }
}

#[cfg(test)]
mod tests;
