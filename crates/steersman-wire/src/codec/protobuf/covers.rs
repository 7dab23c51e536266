//! Whether the table has all fields that a type reads.

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::table::{Count, Field, Message, Type};

/// Whether the messages of a kind have every field that `T` reads, so that protobuf loses nothing.
///
/// `T` deserializes an object in which every field occurs once, and names its fields when it
/// begins. A type that accepts anything, such as a map or `serde_json::Value`, is not covered.
/// Neither is one that rejects what Kubernetes sends.
pub(super) fn covers<T: DeserializeOwned>(message: &'static Message) -> bool {
    T::deserialize(Probe::One(Type::Message(message))).is_ok()
}

/// Deserializes to the values that a type may get at one place.
#[derive(Clone, Copy)]
enum Probe {
    /// One value.
    One(Type),
    /// A list with one value.
    List(Type),
    /// A map with one value.
    Map(Type),
}

type Problem = serde::de::value::Error;

impl<'de> Deserializer<'de> for Probe {
    type Error = Problem;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let Self::One(Type::Message(message)) = self else { return self.deserialize_any(visitor) };
        let mut known = Vec::new();
        for field in fields {
            match message.named(field) {
                Some(named) => known.push((*field, named.field)),
                None if message.is_type_field(field) => {}
                None => return Err(Problem::custom(format_args!("{name} has {field}, which no message has"))),
            }
        }
        visitor.visit_map(Members { known: known.into_iter(), next: None })
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self {
            Self::One(Type::Message(_)) => Err(Problem::custom("it accepts anything")),
            Self::One(Type::Schema | Type::Choice(_)) => Err(Problem::custom("a schema may contain any fields")),
            Self::List(kind) => visitor.visit_seq(SeqDeserializer::new(std::iter::once(Self::One(kind)))),
            Self::Map(kind) => visitor.visit_map(MapDeserializer::new(std::iter::once(("key", Self::One(kind))))),
            Self::One(Type::Bool) => visitor.visit_bool(false),
            Self::One(Type::Int32 | Type::Int64 | Type::IntOrString) => visitor.visit_i64(0),
            Self::One(Type::Double) => visitor.visit_f64(0.0),
            Self::One(Type::String | Type::Bytes) => visitor.visit_str(""),
            Self::One(Type::Time) => visitor.visit_str("1970-01-01T00:00:00Z"),
            Self::One(Type::MicroTime) => visitor.visit_str("1970-01-01T00:00:00.000000Z"),
            Self::One(Type::Quantity) => visitor.visit_str("0"),
            Self::One(Type::Raw) => visitor.visit_unit(),
            Self::One(Type::Strings) => {
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

impl IntoDeserializer<'_, Problem> for Probe {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Every member that the type names, once.
struct Members {
    known: std::vec::IntoIter<(&'static str, &'static Field)>,
    next: Option<&'static Field>,
}

impl<'de> MapAccess<'de> for Members {
    type Error = Problem;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Problem> {
        let Some((name, field)) = self.known.next() else { return Ok(None) };
        self.next = Some(field);
        let name: StrDeserializer<'_, Problem> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Problem> {
        let field = self.next.take().ok_or_else(|| Problem::custom("a value before its name"))?;
        seed.deserialize(match field.count {
            Count::List => Probe::List(field.kind),
            Count::Map => Probe::Map(field.kind),
            Count::One | Count::Optional | Count::Inline => Probe::One(field.kind),
        })
    }
}
