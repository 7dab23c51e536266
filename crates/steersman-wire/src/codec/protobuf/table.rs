//! The fields of the messages of built-in kinds.
//!
//! `data/protobuf.txt` has three parts, separated by empty lines: the release; a line for each kind
//! with the name of its message; a line for each message with its fields, each as
//! `NUMBER,"NAME":TYPE`. The name is the one in JSON, written as a member after another one.
//! Without a name, the fields of that message are members of the JSON object around it. The type is
//! Go's, with `*` before an optional value, `[]` before the items of a list and `map:` before the
//! values of a map. A `?` at the end means that Go omits an empty value from JSON.
//!
//! The table stays text, and a line is parsed when its message is first used. A table in memory
//! would have to be built at every program start.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use smallvec::SmallVec;

static TABLE: &str = include_str!("../../../data/protobuf.txt");

/// The messages that were used so far. They are never freed; the table limits their number.
static KNOWN: LazyLock<Mutex<HashMap<&'static str, &'static Message>>> = LazyLock::new(Mutex::default);

/// One message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(super) fields: Box<[Field]>,
    /// The index of a field by its number. [`NONE`] if no field has that number.
    by_number: Box<[u8]>,
    /// The fields that Go writes as JSON even if they are empty, a bit each.
    pub(super) always: u64,
}

/// A field that was found by its name in JSON.
#[derive(Debug)]
pub(super) struct Named {
    /// The numbers of the fields without a name that lead to it, the outermost first.
    pub(super) path: SmallVec<[u32; 2]>,
    /// Its index among all fields with a name.
    pub(super) place: usize,
    pub(super) field: &'static Field,
}

/// One field.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) count: Count,
    /// Whether Go omits an empty value from JSON.
    pub(super) omit_empty: bool,
    pub(super) kind: Type,
    /// The name as a JSON member after another one: a comma, the name in quotes, a colon.
    pub(super) member: &'static str,
}

/// The type of one value of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Type {
    Bool,
    Int32,
    Int64,
    String,
    Bytes,
    /// A message with seconds; a text in JSON.
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
    /// A number with a fraction.
    Double,
    /// A schema of a custom resource, which contains schemas: [`Message::schema`].
    Schema,
    /// A message with one of two values, which is that value in JSON.
    Choice(Choice),
    Message(&'static Message),
}

/// The values of a message of which JSON shows one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// A schema, or a list of schemas.
    List,
    /// A boolean, or a schema.
    Bool,
    /// A schema, or a list of texts.
    Strings,
}

/// How many values a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    One,
    /// One or none. None differs from an empty one.
    Optional,
    List,
    Map,
    /// One message whose fields are members of the JSON object around it.
    Inline,
}

const NONE: u8 = u8::MAX;

impl Message {
    /// The message of a built-in kind.
    pub(crate) fn of(api_version: &str, kind: &str) -> Option<&'static Self> {
        // Every version of every group has the same options under that name.
        let api_version = if kind == "DeleteOptions" { "v1" } else { api_version };
        let name = kind_line(api_version, kind)?;
        Some(Self::named_message(&mut KNOWN.lock().unwrap_or_else(PoisonError::into_inner), name))
    }

    /// The message of schemas of custom resources.
    pub(super) fn schema() -> &'static Self {
        static SCHEMA: LazyLock<&'static Message> = LazyLock::new(|| {
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            Message::named_message(&mut known, "apiextensions.v1.JSONSchemaProps")
        });
        *SCHEMA
    }

    fn named_message(known: &mut HashMap<&'static str, &'static Self>, name: &'static str) -> &'static Self {
        if let Some(message) = known.get(name) {
            return message;
        }
        let fields = message_line(name).unwrap_or_default().split(' ');
        let message = Box::leak(Box::new(Self::new(fields.filter_map(|field| Field::parse(known, field)).collect())));
        known.insert(name, message);
        message
    }

    fn new(fields: Box<[Field]>) -> Self {
        let largest = fields.iter().map(|field| field.number as usize).max().unwrap_or(0);
        let mut by_number = vec![NONE; largest + 1];
        let mut always = 0;
        for (place, field) in fields.iter().enumerate() {
            by_number[field.number as usize] = place as u8;
            if !field.omit_empty {
                always |= 1 << place;
            }
        }
        Self { fields, by_number: by_number.into(), always }
    }

    /// The index of the field with that number.
    #[inline]
    pub(super) fn place(&self, number: u32) -> Option<usize> {
        self.by_number.get(number as usize).filter(|place| **place != NONE).map(|place| usize::from(*place))
    }

    /// Whether an unknown name belongs to the type of an object. An object within another may have
    /// a type in JSON; a message has it only in its envelope.
    pub(super) fn is_type_field(&'static self, name: &str) -> bool {
        matches!(name, "apiVersion" | "kind") && self.named("metadata").is_some()
    }

    /// The field with that name in JSON. A linear search is enough for so few fields.
    pub(super) fn named(&'static self, name: &str) -> Option<Named> {
        self.find(name, &mut 0)
    }

    fn find(&'static self, name: &str, place: &mut usize) -> Option<Named> {
        for field in &self.fields {
            match (field.count, field.kind) {
                (Count::Inline, Type::Message(within)) => {
                    if let Some(mut named) = within.find(name, place) {
                        named.path.insert(0, field.number);
                        return Some(named);
                    }
                }
                _ if field.name() == name => return Some(Named { path: SmallVec::new(), place: *place, field }),
                _ => *place += 1,
            }
        }
        None
    }
}

impl Field {
    /// The name in JSON.
    pub(super) fn name(&self) -> &'static str {
        &self.member[2..self.member.len() - 2]
    }

    /// Parses a field of the table.
    fn parse(known: &mut HashMap<&'static str, &'static Message>, text: &'static str) -> Option<Self> {
        let (number, rest) = text.split_at(text.find(',')?);
        let (member, kind) = rest.split_at(rest.find(':')? + 1);
        let omit_empty = kind.ends_with('?');
        let kind = kind.trim_end_matches('?');
        let of = |count: Count| move |kind: &'static str| (count, kind);
        let counts = [("*", Count::Optional), ("[]", Count::List), ("map:", Count::Map)];
        let found = counts.into_iter().find_map(|(prefix, count)| kind.strip_prefix(prefix).map(of(count)));
        let (count, kind) = found.unwrap_or((if member == r#","":"# { Count::Inline } else { Count::One }, kind));
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
            "float64" => Type::Double,
            "schema" => Type::Schema,
            "schemaorlist" => Type::Choice(Choice::List),
            "schemaorbool" => Type::Choice(Choice::Bool),
            "schemaorstrings" => Type::Choice(Choice::Strings),
            message => Type::Message(Message::named_message(known, message)),
        };
        Some(Self { number: number.parse().ok()?, count, omit_empty, kind, member })
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

/// The name of the message of a kind.
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

/// The line for which `compare` returns `Equal`. The lines are sorted by `compare`.
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

    /// Assumptions of the readers and writers. A recursive message other than schemas would not
    /// even terminate here.
    #[test]
    fn messages_are_no_larger_and_no_stranger_than_the_code_can_hold() {
        for line in parts().0.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            Message::of(words[0], words[1]).expect(line);
        }
        Message::schema();
        for (name, message) in KNOWN.lock().unwrap().iter() {
            let mut names = Vec::new();
            names_of(message, &mut names);
            assert!(message.fields.len() <= 64 && names.len() <= 64, "{name}: a bit for each field");
            for (place, field) in names.iter().enumerate() {
                let named = message.named(field).expect(field);
                assert_eq!((named.place, named.field.name()), (place, *field), "{name}: each name once");
            }
            for field in &message.fields {
                let is_message = matches!(field.kind, Type::Message(_));
                assert!(is_message || field.count != Count::Inline, "{name}: only messages have no name");
                let is_plain = !is_message || field.count != Count::One;
                assert!(is_plain || !field.omit_empty, "{name}: Go never takes {} for empty", field.name());
            }
        }
        assert_eq!(KNOWN.lock().unwrap().len(), parts().1.lines().count(), "no line without a use");
    }

    fn names_of(message: &Message, names: &mut Vec<&'static str>) {
        for field in &message.fields {
            match (field.count, field.kind) {
                (Count::Inline, Type::Message(within)) => names_of(within, names),
                _ => names.push(field.name()),
            }
        }
    }

    #[test]
    fn metadata_is_where_it_is_looked_for() {
        for line in parts().0.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if matches!(words[..2], ["v1", "Status" | "DeleteOptions"]) {
                continue;
            }
            let root = Message::of(words[0], words[1]).expect(line);
            assert_eq!(root.place(1).map(|place| root.fields[place].name()), Some("metadata"), "{line}");
        }
    }
}
