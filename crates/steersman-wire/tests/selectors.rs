//! Properties of all selectors.

use proptest::prelude::*;
use serde_json::{Value, json};
use steersman_wire::{FieldSelector, LabelRequirement, LabelSelector, SelectorOperator, is_qualified_name};

/// Few keys and values, so that selectors match labels.
fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "in", "notin", "x.y/a"]).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "b", "in", "notin", "1", "2", "10"]).prop_map(str::to_owned)
}

fn labels() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::btree_map(key(), value(), 0..4).prop_map(Vec::from_iter)
}

/// Text with the words and symbols of both grammars.
fn text() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "a", "b", "in", "notin", "x.y/a", "1", "=", "==", "!=", "!", ",", "(", ")", ">", "<", " ", "\t", "\0", "\\",
        "\\,", "é", "-",
    ]);
    prop::collection::vec(prop_oneof![9 => word.prop_map(str::to_owned), 1 => any::<String>()], 0..12)
        .prop_map(|words| words.concat())
}

fn requirement() -> impl Strategy<Value = LabelRequirement> {
    let operator = prop::sample::select(vec![
        SelectorOperator::Exists,
        SelectorOperator::DoesNotExist,
        SelectorOperator::Equals,
        SelectorOperator::DoubleEquals,
        SelectorOperator::NotEquals,
        SelectorOperator::In,
        SelectorOperator::NotIn,
        SelectorOperator::GreaterThan,
        SelectorOperator::LessThan,
    ]);
    (key(), operator, prop::collection::vec(value(), 1..4), 0..12_u8).prop_map(|(key, operator, mut values, bound)| {
        match operator {
            SelectorOperator::Exists | SelectorOperator::DoesNotExist => values.clear(),
            SelectorOperator::In | SelectorOperator::NotIn => {}
            SelectorOperator::GreaterThan | SelectorOperator::LessThan => values = vec![bound.to_string()],
            SelectorOperator::Equals | SelectorOperator::DoubleEquals | SelectorOperator::NotEquals => {
                values.truncate(1);
            }
        }
        LabelRequirement::new(&key, operator, values).expect("the requirement is valid")
    })
}

fn get<'a>(labels: &'a [(String, String)]) -> impl Fn(&str) -> Option<&'a str> {
    |wanted| labels.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str())
}

proptest! {
    #[test]
    fn the_canonical_text_of_a_label_selector_matches_the_same(
        requirements in prop::collection::vec(requirement(), 0..5),
        labels in labels(),
    ) {
        let selector = LabelSelector::new(requirements);
        let again = LabelSelector::parse(&selector.to_string()).expect("the canonical text is a selector");
        prop_assert_eq!(selector.matches(get(&labels)), again.matches(get(&labels)), "{}", selector);
        // Its values have no duplicates any more, so the text stays the same from now on.
        prop_assert_eq!(LabelSelector::parse(&again.to_string()).expect("so is that of this one"), again);
    }

    #[test]
    fn the_text_of_a_field_selector_matches_the_same(text in text(), labels in labels()) {
        if let Ok(selector) = FieldSelector::parse(&text) {
            let again = FieldSelector::parse(&selector.to_string()).expect("the text is a selector");
            prop_assert_eq!(selector.matches(get(&labels)), again.matches(get(&labels)), "{}", selector);
        }
    }

    #[test]
    fn any_value_of_a_field_can_be_written(value in any::<String>()) {
        let escaped = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        let selector = FieldSelector::parse(&format!("field={escaped}")).expect("an escaped value is accepted");
        prop_assert_eq!(&selector.requirements()[0].value, &value);
        prop_assert_eq!(selector.to_string(), format!("field={escaped}"));
    }

    #[test]
    fn whatever_is_accepted_has_valid_keys(text in text()) {
        if let Ok(selector) = LabelSelector::parse(&text) {
            for requirement in selector.requirements() {
                prop_assert!(is_qualified_name(requirement.key()).is_empty());
            }
            prop_assert!(selector.requirements().is_sorted_by_key(LabelRequirement::key));
        }
    }

    #[test]
    fn no_text_makes_parsing_panic(text in any::<String>()) {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }

    #[test]
    fn the_structured_form_means_the_same(requirements in prop::collection::vec(requirement(), 0..5)) {
        let mut labels = serde_json::Map::new();
        let mut expressions = Vec::new();
        let mut meant = Vec::new();
        for requirement in requirements {
            let (key, values) = (requirement.key(), requirement.values());
            match requirement.operator() {
                // Of several labels with one key, JSON keeps one.
                SelectorOperator::Equals if !labels.contains_key(key) => _ = labels.insert(key.to_owned(), json!(values[0])),
                SelectorOperator::Exists => expressions.push(json!({ "key": key, "operator": "Exists" })),
                SelectorOperator::DoesNotExist => expressions.push(json!({ "key": key, "operator": "DoesNotExist" })),
                SelectorOperator::In => expressions.push(json!({ "key": key, "operator": "In", "values": values })),
                SelectorOperator::NotIn => expressions.push(json!({ "key": key, "operator": "NotIn", "values": values })),
                _ => continue,
            }
            meant.push(requirement);
        }
        // Labels come before expressions, and requirements of one key keep that order.
        meant.sort_by_key(|requirement| requirement.operator() != SelectorOperator::Equals);
        let structured = json!({ "matchLabels": labels, "matchExpressions": expressions });
        prop_assert_eq!(LabelSelector::from_json(&structured), Ok(LabelSelector::new(meant)));
    }
}

/// A quadratic step would take minutes here.
#[test]
fn long_selectors_are_no_trouble() {
    let words = |count: u32| (0..count).map(|number| format!("a{number}")).collect::<Vec<_>>().join(",");
    let long = words(200_000);
    assert_eq!(LabelSelector::parse(&long).expect("all are keys").requirements().len(), 200_000);
    let values = LabelSelector::parse(&format!("a in ({long})")).expect("all are values");
    assert!((0..200_000).all(|number| values.matches(|_| Some(["a0", "a199999"][number % 2]))));
    assert!(LabelSelector::parse(&"(".repeat(1_000_000)).is_err());
    assert!(LabelSelector::parse(&"a".repeat(1_000_000)).is_err());
    assert!(LabelSelector::parse(&"!".repeat(1_000_000)).is_err());
    let fields = FieldSelector::parse(&"a=b,".repeat(200_000)).expect("all are requirements");
    assert_eq!(fields.requirements().len(), 200_000);
    assert!(FieldSelector::parse(&"\\,".repeat(300_000)).is_err());
}

#[test]
fn requirements_have_key_operator_and_values() {
    let selector = LabelSelector::parse("b in (y, x), a=1, c").expect("the selector is valid");
    let asked: Vec<_> = selector.requirements().iter().map(|r| (r.key(), r.operator(), r.values().to_vec())).collect();
    assert_eq!(
        asked,
        [
            ("a", SelectorOperator::Equals, vec!["1".to_owned()]),
            ("b", SelectorOperator::In, vec!["x".to_owned(), "y".to_owned()]),
            ("c", SelectorOperator::Exists, vec![]),
        ]
    );

    let selector = FieldSelector::parse("metadata.name==web,spec.nodeName!=").expect("the selector is valid");
    let asked: Vec<_> = selector.requirements().iter().map(|r| (&*r.field, r.operator, &*r.value)).collect();
    assert_eq!(
        asked,
        [("metadata.name", SelectorOperator::Equals, "web"), ("spec.nodeName", SelectorOperator::NotEquals, "")]
    );
}

#[test]
fn everything_and_nothing() {
    let everything = LabelSelector::parse(" ").expect("an empty selector is valid");
    assert_eq!(everything, LabelSelector::default());
    assert!(everything.is_empty() && !everything.is_nothing() && everything.matches(|_| None));
    let nothing = LabelSelector::from_json(&Value::Null).expect("null is a selector");
    assert!(!nothing.is_empty() && nothing.is_nothing() && !nothing.matches(|_| Some("a")));
    assert!(FieldSelector::parse("=,,").expect("empty requirements are passed over").is_empty());
}

#[test]
fn a_wrong_number_of_values_is_refused() {
    let refused = |operator, values: &[&str]| {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        LabelRequirement::new("a", operator, values).expect_err("the number of values is wrong").to_string()
    };
    assert_eq!(
        refused(SelectorOperator::Equals, &["1", "2"]),
        r#"values: Invalid value: ["1","2"]: exact-match compatibility requires one single value"#
    );
    assert_eq!(
        refused(SelectorOperator::LessThan, &["1", "b"]),
        "[values: Invalid value: [\"1\",\"b\"]: for 'Gt', 'Lt' operators, exactly one value is required, \
         values[1]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer]"
    );
}
