//! This crate returns the same results as apimachinery v0.36.3.
//!
//! A program that calls apimachinery wrote `apimachinery.jsonl`. A row has the subject, the input
//! and the result. For a selector that is its canonical text and one digit for each of [`LABELS`]
//! (1 if it matches), or the error; for a name the messages; for two resource versions the order or
//! the error.

use serde_json::{Value, json};
use steersman_wire::{
    FieldSelector, LabelSelector, NameFormat, SelectorError, compare_resource_version, is_dns1035_label,
    is_dns1123_label, is_dns1123_subdomain, is_path_segment_name, is_path_segment_prefix, is_qualified_name,
    is_valid_label_value, quote,
};

/// The labels or fields of the objects that selectors are matched with.
const LABELS: [&[(&str, &str)]; 8] = [
    &[],
    &[("a", "")],
    &[("a", "b")],
    &[("a", "1")],
    &[("a", "2"), ("b", "a")],
    &[("b", "1")],
    &[("in", "in"), ("a", "notin")],
    &[("a", "x"), ("b", ""), ("in", "1")],
];

#[test]
fn answers_as_apimachinery_does() {
    let mut wrong = Vec::new();
    for line in include_str!("apimachinery.jsonl").lines() {
        let row: Vec<Value> = serde_json::from_str(line).expect("a row is a JSON list");
        let (answer, expected) = ask(&row);
        if answer != expected {
            wrong.push(format!("{} {}\n  expected {expected:?}\n  got      {answer:?}", row[0], row[1]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Our result for a row, and the recorded one.
fn ask(row: &[Value]) -> (Vec<Value>, &[Value]) {
    let text = || row[1].as_str().expect("this input is a text");
    let messages = |messages: Vec<String>| vec![json!(messages)];
    let answer = match row[0].as_str().expect("a row begins with its subject") {
        "label" => label_answer(LabelSelector::parse(text())),
        "json" => label_answer(LabelSelector::from_json(&row[1])),
        "field" => match FieldSelector::parse(text()) {
            Ok(selector) => vec![json!(selector.to_string()), digits(|labels| selector.matches(get(labels)))],
            Err(error) => vec![json!(error.to_string())],
        },
        "subdomain" => messages(is_dns1123_subdomain(text())),
        "label1123" => messages(is_dns1123_label(text())),
        "label1035" => messages(is_dns1035_label(text())),
        "qualified" => messages(is_qualified_name(text())),
        "labelValue" => messages(is_valid_label_value(text())),
        "pathSegment" => messages(is_path_segment_name(text())),
        "pathSegmentPrefix" => messages(is_path_segment_prefix(text())),
        "subdomainPrefix" => messages(NameFormat::DnsSubdomain.validate_prefix(text())),
        "label1123Prefix" => messages(NameFormat::DnsLabel.validate_prefix(text())),
        "label1035Prefix" => messages(NameFormat::Dns1035Label.validate_prefix(text())),
        "quote" => vec![json!(quote(text()))],
        "resourceVersion" => {
            let order = compare_resource_version(text(), row[2].as_str().expect("the second version is a text"));
            let answer = order.map_or_else(|error| error.to_string(), |order| (order as i8).to_string());
            return (vec![json!(answer)], &row[3..]);
        }
        other => panic!("no such question: {other}"),
    };
    (answer, &row[2..])
}

fn label_answer(selector: Result<LabelSelector, SelectorError>) -> Vec<Value> {
    match selector {
        Ok(selector) => vec![json!(selector.to_string()), digits(|labels| selector.matches(get(labels)))],
        Err(error) => vec![json!(error.to_string())],
    }
}

fn digits(matches: impl Fn(&'static [(&'static str, &'static str)]) -> bool) -> Value {
    LABELS.iter().map(|labels| if matches(labels) { '1' } else { '0' }).collect::<String>().into()
}

fn get(labels: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<&'static str> {
    |wanted| labels.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value)
}
