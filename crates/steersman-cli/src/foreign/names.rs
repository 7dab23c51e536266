//! Names of Rust for the names in a schema.

use std::collections::BTreeSet;

use heck::{ToSnakeCase, ToUpperCamelCase};

use crate::project::names::is_keyword;

/// Keywords that cannot be raw identifiers.
const NEVER_RAW: [&str; 5] = ["self", "Self", "super", "crate", "_"];

/// Names that are taken, so that each is given once.
#[derive(Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    pub(super) fn with<const N: usize>(taken: [&str; N]) -> Self {
        Self(taken.map(str::to_owned).into())
    }

    /// The name, with a number if it is taken.
    pub(super) fn take(&mut self, name: String) -> String {
        let numbered = (2..).map(|number| format!("{name}{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !self.0.contains(name)).unwrap_or(name);
        self.0.insert(free.clone());
        free
    }
}

/// A name for a type.
pub(super) fn type_name(text: &str) -> String {
    identifier(&words(text).to_upper_camel_case(), "Unnamed")
}

/// A name for a variant of an enum.
pub(super) fn variant(value: &str) -> String {
    match value {
        "" => "Empty".to_owned(),
        value => {
            let name = identifier(&words(value).to_upper_camel_case(), "Value");
            if is_keyword(&name) { format!("{name}_") } else { name }
        }
    }
}

/// A name for a field.
pub(super) fn field(key: &str) -> String {
    identifier(&words(key).to_snake_case(), "unnamed")
}

/// A field as it is written: a keyword becomes a raw identifier.
pub(super) fn raw(field: &str) -> String {
    match field {
        field if NEVER_RAW.contains(&field) => format!("{field}_"),
        field if is_keyword(field) => format!("r#{field}"),
        field => field.to_owned(),
    }
}

/// The name that serde gives to a field in a struct with `rename_all = "camelCase"`.
pub(super) fn camel_case(field: &str) -> String {
    let mut name = String::new();
    let mut capital = false;
    for character in field.chars() {
        match character {
            '_' => capital = true,
            character if capital && !name.is_empty() => {
                name.push(character.to_ascii_uppercase());
                capital = false;
            }
            character => {
                name.push(character);
                capital = false;
            }
        }
    }
    name
}

/// The text with spaces in place of everything that cannot be in an identifier.
fn words(text: &str) -> String {
    text.replace(|character: char| !character.is_ascii_alphanumeric(), " ")
}

/// An identifier does not begin with a digit.
fn identifier(name: &str, empty: &str) -> String {
    match name.chars().next() {
        None => empty.to_owned(),
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        Some(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_identifiers_of_rust() {
        let cases = [
            ("clusterIP", "cluster_ip"),
            ("x-kubernetes", "x_kubernetes"),
            ("$ref", "ref"),
            ("3d", "_3d"),
            ("+-", "unnamed"),
            ("fooBar_baz", "foo_bar_baz"),
        ];
        for (key, name) in cases {
            assert_eq!(field(key), name);
        }
        assert_eq!(
            (raw("type"), raw("self"), raw("gen"), raw("a")),
            ("r#type".into(), "self_".into(), "r#gen".into(), "a".into())
        );
    }

    #[test]
    fn variants_are_identifiers_of_rust() {
        for (value, name) in [("", "Empty"), ("a.b/c", "ABC"), ("10", "_10"), ("self", "Self_"), ("=", "Value")] {
            assert_eq!(variant(value), name);
        }
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let mut names = Names::with(["A"]);
        assert_eq!([names.take("A".into()), names.take("A".into()), names.take("B".into())], ["A2", "A3", "B"]);
    }

    #[test]
    fn the_name_of_serde_is_known() {
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        #[allow(non_snake_case)]
        struct Fields {
            cluster_ip: u8,
            _3d: u8,
            a__b: u8,
            r#type: u8,
            a_: u8,
        }
        let value = serde_json::to_value(Fields { cluster_ip: 0, _3d: 0, a__b: 0, r#type: 0, a_: 0 }).unwrap();
        for field in ["cluster_ip", "_3d", "a__b", "type", "a_"] {
            assert!(value.get(camel_case(field)).is_some(), "{field} is not {} in {value}", camel_case(field));
        }
    }
}
