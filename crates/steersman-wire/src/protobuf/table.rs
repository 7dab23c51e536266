//! Which fields the messages of built-in kinds have.
//!
//! `data/protobuf.txt` says it, in three parts between empty lines: the release that it was made of; a line for each kind,
//! with the name of its message; and a line for each message with its fields, each as `NUMBER:NAME:TYPE`. The name is that of
//! JSON. If there is none, the fields of that message are in JSON fields of the message around it. The type is that of Go, with
//! `*` before what may be absent, `[]` before a list's items and `map:` before a map's values; `?` behind it says that Go
//! leaves it out of JSON when it is empty.
//!
//! It is text, and only what a program speaks of is read, when it is first spoken of: a table of everything would have to be
//! put together by every program at its start.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

static TABLE: &str = include_str!("../../data/protobuf.txt");

/// The messages of one kind: its own and all within it.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The kind's own is the first.
    messages: Vec<Message>,
}

/// One message.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) fields: Vec<Field>,
    /// The place of a field among the others, by its number; [`NONE`] where no field has that number.
    by_number: Vec<u8>,
    /// The fields that Go writes as JSON even if they are empty, a bit each.
    pub(super) always: u64,
    /// The fields by their names in JSON, those of messages without a name included.
    by_name: Vec<Named>,
}

/// A field, by its name in JSON.
#[derive(Debug)]
pub(super) struct Named {
    name: &'static str,
    /// The numbers of the fields without a name in whose messages it is, the outermost first.
    pub(super) path: Vec<u32>,
    /// Its own message.
    message: u16,
    /// Its place there.
    place: usize,
}

/// One field.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: &'static str,
    /// The name as it stands in JSON: a comma, the name in quotes, a colon.
    pub(super) member: Box<str>,
    pub(super) kind: Type,
    pub(super) count: Count,
    /// Whether Go leaves it out of JSON when it is empty.
    pub(super) omit_empty: bool,
}

/// What one value of a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    Int32,
    Int64,
    String,
    Bytes,
    /// A message of seconds, in JSON a text.
    Time,
    /// The same with microseconds.
    MicroTime,
    /// A message with a text.
    Quantity,
    IntOrString,
    /// A message with JSON.
    Raw,
    /// A message with a list of texts.
    Strings,
    /// The message of that number in the schema.
    Message(u16),
}

/// How many values a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    One,
    /// One or none, which are not the same as one that is empty.
    Optional,
    List,
    Map,
    /// One message whose fields are in JSON fields of the message around it.
    Inline,
}

const NONE: u8 = u8::MAX;

impl Schema {
    /// The schema of a built-in kind.
    pub(crate) fn of(api_version: &str, kind: &str) -> Option<&'static Self> {
        static KNOWN: LazyLock<Mutex<HashMap<&'static str, &'static Schema>>> = LazyLock::new(Mutex::default);
        // Every version of every group has options by that name, and they are all the same.
        let api_version = if kind == "DeleteOptions" { "v1" } else { api_version };
        let message = kind_line(api_version, kind)?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        // What is made here is never freed, and there are no more of them than kinds in the table.
        Some(known.entry(message).or_insert_with(|| Box::leak(Box::new(Self::compile(message)))))
    }

    pub(super) fn root(&self) -> &Message {
        &self.messages[0]
    }

    pub(super) fn message(&self, number: u16) -> &Message {
        &self.messages[usize::from(number)]
    }

    fn compile(root: &'static str) -> Self {
        let mut compiler = Compiler { numbers: HashMap::new(), names: Vec::new() };
        compiler.number(root);
        let mut messages = Vec::new();
        while let Some(name) = compiler.names.get(messages.len()) {
            let fields = message_line(name).unwrap_or_default();
            messages.push(Message::new(fields.split(' ').filter_map(|field| compiler.field(field)).collect()));
        }
        let mut schema = Self { messages };
        for number in 0..schema.messages.len() {
            schema.messages[number].by_name = schema.names(number as u16);
        }
        schema
    }

    /// The fields of a message by their names in JSON.
    fn names(&self, message: u16) -> Vec<Named> {
        let mut names = Vec::new();
        for (place, field) in self.message(message).fields.iter().enumerate() {
            match (field.count, field.kind) {
                (Count::Inline, Type::Message(within)) => {
                    names.extend(self.names(within).into_iter().map(|mut named| {
                        named.path.insert(0, field.number);
                        named
                    }));
                }
                _ => names.push(Named { name: field.name, path: Vec::new(), message, place }),
            }
        }
        names.sort_by_key(|named| named.name);
        names
    }

    pub(super) fn field(&self, named: &Named) -> &Field {
        &self.message(named.message).fields[named.place]
    }
}

impl Message {
    fn new(fields: Vec<Field>) -> Self {
        let largest = fields.iter().map(|field| field.number as usize).max().unwrap_or(0);
        let mut by_number = vec![NONE; largest + 1];
        let mut always = 0;
        for (place, field) in fields.iter().enumerate() {
            by_number[field.number as usize] = place as u8;
            if !field.omit_empty {
                always |= 1 << place;
            }
        }
        Self { fields, by_number, always, by_name: Vec::new() }
    }

    /// The place of the field with that number.
    #[inline]
    pub(super) fn place(&self, number: u32) -> Option<usize> {
        self.by_number.get(number as usize).filter(|place| **place != NONE).map(|place| usize::from(*place))
    }

    /// Whether a name that the message does not have is that of a type, which an object within another may say and has no use for: a message says
    /// it in its envelope, or not at all.
    pub(super) fn is_type(&self, name: &str) -> bool {
        matches!(name, "apiVersion" | "kind") && self.named("metadata").is_some()
    }

    /// The field with that name in JSON, and its place among all of them.
    pub(super) fn named(&self, name: &str) -> Option<(usize, &Named)> {
        let place = self.by_name.binary_search_by(|named| named.name.cmp(name)).ok()?;
        Some((place, &self.by_name[place]))
    }
}

struct Compiler {
    numbers: HashMap<&'static str, u16>,
    names: Vec<&'static str>,
}

impl Compiler {
    fn number(&mut self, message: &'static str) -> u16 {
        *self.numbers.entry(message).or_insert_with(|| {
            self.names.push(message);
            (self.names.len() - 1) as u16
        })
    }

    /// A field as the table has it.
    fn field(&mut self, text: &'static str) -> Option<Field> {
        let (number, rest) = text.split_once(':')?;
        let (name, kind) = rest.split_once(':')?;
        let omit_empty = kind.ends_with('?');
        let kind = kind.trim_end_matches('?');
        let of = |count: Count| move |kind: &'static str| (count, kind);
        let counts = [("*", Count::Optional), ("[]", Count::List), ("map:", Count::Map)];
        let found = counts.into_iter().find_map(|(prefix, count)| kind.strip_prefix(prefix).map(of(count)));
        let (count, kind) = found.unwrap_or((if name.is_empty() { Count::Inline } else { Count::One }, kind));
        let kind = match kind {
            "bool" => Type::Bool,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "time" => Type::Time,
            "microtime" => Type::MicroTime,
            "quantity" => Type::Quantity,
            "intorstring" => Type::IntOrString,
            "raw" => Type::Raw,
            "strings" => Type::Strings,
            message => Type::Message(self.number(message)),
        };
        let member = format!(",\"{name}\":").into();
        Some(Field { number: number.parse().ok()?, name, member, kind, count, omit_empty })
    }
}

/// The second and third part of the table.
fn parts() -> (&'static str, &'static str) {
    static PARTS: LazyLock<(&str, &str)> = LazyLock::new(|| {
        let mut parts = TABLE.splitn(3, "\n\n").skip(1);
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    });
    *PARTS
}

/// The name of a kind's message.
fn kind_line(api_version: &str, kind: &str) -> Option<&'static str> {
    find(parts().0, |line| {
        let mut words = line.split(' ');
        let found = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        found.cmp(&(api_version, kind))
    })
    .and_then(|line| line.rsplit(' ').next())
}

/// The fields of a message.
fn message_line(name: &str) -> Option<&'static str> {
    let line = find(parts().1, |line| line.split(' ').next().unwrap_or_default().cmp(name))?;
    Some(line[name.len()..].trim_start())
}

/// The line that `compare` finds equal, in lines in the order of `compare`.
fn find(lines: &'static str, compare: impl Fn(&str) -> Ordering) -> Option<&'static str> {
    let mut lines = lines;
    while !lines.is_empty() {
        let middle = lines[..lines.len() / 2].rfind('\n').map_or(0, |end| end + 1);
        let end = lines[middle..].find('\n').map_or(lines.len(), |length| middle + length);
        let line = &lines[middle..end];
        match compare(line) {
            Ordering::Equal => return Some(line),
            Ordering::Greater => lines = lines[..middle].trim_end_matches('\n'),
            Ordering::Less => lines = lines.get(end + 1..).unwrap_or_default(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_every_line_of_it_is_found() {
        let (kinds, messages) = parts();
        for line in kinds.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [api_version, kind, message] = words[..] else { panic!("{line}") };
            assert_eq!(kind_line(api_version, kind), Some(message), "{line}");
            assert!(message_line(message).is_some(), "{message}");
        }
        for line in messages.lines() {
            let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
            assert_eq!(message_line(name), Some(fields));
        }
        assert!(kinds.lines().count() > 100 && messages.lines().count() > 500);
        assert_eq!(kind_line("v1", "Podd"), None);
        assert_eq!(kind_line("apps/v1", "Pod"), None);
        assert_eq!(message_line("core.v1.Po"), None);
    }

    /// What reading and writing take for granted.
    #[test]
    fn messages_are_no_larger_and_no_stranger_than_the_code_can_hold() {
        for line in parts().0.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let schema = Schema::of(words[0], words[1]).expect(line);
            for (number, message) in schema.messages.iter().enumerate() {
                assert!(message.fields.len() <= 64 && message.by_name.len() <= 64, "{line}: a bit for each field");
                for field in &message.fields {
                    if let Type::Message(within) = field.kind {
                        assert!(!reaches(schema, within, number as u16), "{line}: {} is within itself", field.name);
                    }
                    if field.count == Count::Inline {
                        assert!(matches!(field.kind, Type::Message(_)), "{line}: only messages have no name");
                    }
                    let is_plain = !matches!(field.kind, Type::Message(_)) || field.count != Count::One;
                    assert!(is_plain || !field.omit_empty, "{line}: Go never takes {} for empty", field.name);
                }
                assert!(message.by_name.windows(2).all(|pair| pair[0].name != pair[1].name), "{line}");
            }
        }
    }

    fn reaches(schema: &Schema, from: u16, to: u16) -> bool {
        from == to
            || schema.message(from).fields.iter().any(|field| match field.kind {
                Type::Message(within) => reaches(schema, within, to),
                _ => false,
            })
    }

    #[test]
    fn metadata_is_where_it_is_looked_for() {
        for line in parts().0.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if matches!(words[..2], ["v1", "Status" | "DeleteOptions"]) {
                continue;
            }
            let root = Schema::of(words[0], words[1]).expect(line).root();
            assert_eq!(root.place(1).map(|place| root.fields[place].name), Some("metadata"), "{line}");
        }
    }
}
