//! Whether a table knows all that a type reads.

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::table::{Count, Message, Named, Schema, Type};

/// Whether messages of the kind hold every field that `T` reads, so that nothing is lost when an object comes as protobuf.
///
/// The type is asked, by having it read an object in which everything is there once: it names its fields when it begins to
/// read. One that takes whatever comes, such as a map or `serde_json::Value`, is not covered, and neither is one that does not take
/// what Kubernetes has there.
pub(super) fn covers<T: DeserializeOwned>(schema: &Schema) -> bool {
    T::deserialize(Probe { schema, what: What::Object }).is_ok()
}

/// Gives a type what it could meet at some place.
#[derive(Clone, Copy)]
struct Probe<'a> {
    schema: &'a Schema,
    what: What,
}

/// What there is at the place.
#[derive(Clone, Copy)]
enum What {
    /// The object.
    Object,
    /// One value.
    One(Type),
    /// A list with one.
    List(Type),
    /// A map with one.
    Map(Type),
}

type Problem = serde::de::value::Error;

impl<'a> Probe<'a> {
    fn with(self, what: What) -> Self {
        Self { what, ..self }
    }

    /// The message that is there, if it is one.
    fn message(self) -> Option<&'a Message> {
        match self.what {
            What::Object => Some(self.schema.root()),
            What::One(Type::Message(number)) => Some(self.schema.message(number)),
            _ => None,
        }
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Problem;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let Some(message) = self.message() else { return self.deserialize_any(visitor) };
        let mut known = Vec::new();
        for field in fields {
            match message.named(field) {
                Some((_, named)) => known.push((*field, named)),
                None if message.is_type(field) => {}
                None => return Err(Problem::custom(format_args!("{name} has {field}, which no message has"))),
            }
        }
        visitor.visit_map(Members { probe: self, known: known.into_iter(), next: None })
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        let one = |kind| self.with(What::One(kind));
        match self.what {
            What::Object | What::One(Type::Message(_)) => Err(Problem::custom("it takes whatever comes")),
            What::List(kind) => visitor.visit_seq(SeqDeserializer::new(std::iter::once(one(kind)))),
            What::Map(kind) => visitor.visit_map(MapDeserializer::new(std::iter::once(("key", one(kind))))),
            What::One(Type::Bool) => visitor.visit_bool(false),
            What::One(Type::Int32 | Type::Int64 | Type::IntOrString) => visitor.visit_i64(0),
            What::One(Type::String | Type::Bytes) => visitor.visit_str(""),
            What::One(Type::Time) => visitor.visit_str("1970-01-01T00:00:00Z"),
            What::One(Type::MicroTime) => visitor.visit_str("1970-01-01T00:00:00.000000Z"),
            What::One(Type::Quantity) => visitor.visit_str("0"),
            What::One(Type::Raw) => visitor.visit_unit(),
            What::One(Type::Strings) => {
                let text: StrDeserializer<'_, Problem> = "".into_deserializer();
                visitor.visit_seq(SeqDeserializer::new(std::iter::once(text)))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

impl IntoDeserializer<'_, Problem> for Probe<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Every member that the type names, once.
struct Members<'a> {
    probe: Probe<'a>,
    known: std::vec::IntoIter<(&'static str, &'a Named)>,
    next: Option<&'a Named>,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Problem;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Problem> {
        let Some((name, named)) = self.known.next() else { return Ok(None) };
        self.next = Some(named);
        let name: StrDeserializer<'_, Problem> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Problem> {
        let named = self.next.take().ok_or_else(|| Problem::custom("a value before its name"))?;
        let field = self.probe.schema.field(named);
        let what = match field.count {
            Count::List => What::List(field.kind),
            Count::Map => What::Map(field.kind),
            Count::One | Count::Optional | Count::Inline => What::One(field.kind),
        };
        seed.deserialize(self.probe.with(what))
    }
}
