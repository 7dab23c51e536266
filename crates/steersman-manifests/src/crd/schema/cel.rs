//! Names and positions in CEL rules.

use serde_json::Value;

use super::super::error::SchemaProblem;
use super::Schema;
use super::node::VALIDATIONS;

/// What to do with a field that CEL cannot name.
pub(super) const NAMES: &str = "use letters, digits, and the characters _ . - and / after a letter or _";

/// Words that are no names of fields in CEL.
const RESERVED: [&str; 18] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];

/// The name of a field, as CEL writes it after a dot. `None` if CEL cannot name the field.
pub(super) fn field(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let is_name = |character: char| character.is_ascii_alphanumeric() || "_.-/".contains(character);
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !begins || !name.chars().all(is_name) {
        return None;
    }
    let escaped = name.replace("__", "__underscores__");
    Some(escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}

/// `has(object.name)`.
pub(super) fn has(object: &str, name: &str) -> Option<String> {
    Some(format!("has({object}.{})", field(name)?))
}

/// A string in CEL.
pub(super) fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Finds rules with `oldSelf` where the server cannot find the old value: within the items of a
/// list that is not a map, and within an atomic map.
pub(super) fn check_transitions(schema: &Schema, path: &str, is_found: bool, problems: &mut Vec<SchemaProblem>) {
    let rules = schema.get(VALIDATIONS).and_then(Value::as_array).into_iter().flatten();
    for rule in rules.filter_map(|rule| rule["rule"].as_str()).filter(|rule| rule.contains("oldSelf") && !is_found) {
        problems.push(SchemaProblem {
            path: path.to_owned(),
            problem: format!("the rule {rule:?} compares with the old value, which a server cannot find within a list or an atomic map"),
            advice: "make the list a map with #[schemars(extend(\"x-kubernetes-list-type\" = \"map\", \
                     \"x-kubernetes-list-map-keys\" = [\"name\"]))], or put the rule on the list"
                .to_owned(),
        });
    }
    let below = is_found && schema.get("x-kubernetes-map-type").is_none_or(|map_type| map_type != "atomic");
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Value::Object(property) = property {
            check_transitions(property, &format!("{path}.{name}"), below, problems);
        }
    }
    if let Some(Value::Object(values)) = schema.get("additionalProperties") {
        check_transitions(values, &format!("{path}{{}}"), below, problems);
    }
    if let Some(Value::Object(items)) = schema.get("items") {
        let is_map = schema.get("x-kubernetes-list-type").is_some_and(|list_type| list_type == "map");
        check_transitions(items, &format!("{path}[]"), below && is_map, problems);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_escaped_as_the_server_reads_them() {
        let names = [
            ("cidr", Some("cidr")),
            ("namespace", Some("__namespace__")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("a__b", Some("a__underscores__b")),
            ("_x", Some("_x")),
            ("9a", None),
            ("a b", None),
            ("", None),
        ];
        for (name, expected) in names {
            assert_eq!(field(name).as_deref(), expected, "{name}");
        }
        assert_eq!(text(r"it's a \"), r"'it\'s a \\'");
    }
}
