//! Scripts of requests (`tests/scripts`) that are sent to two servers, whose responses must agree.
//!
//! ```text
//! == What the script shows
//! METHOD path body
//!     > Header: value
//!     keep name /pointer/into/the/answer
//!     only /pointer /pointer
//! ```
//!
//! `$name` in a path, header or body is the value that was stored under the name; `$project` is a
//! project of the script's own, `$x255` is a text of that length. The body is sent unchanged.
//! Everything in the response of our server must be in the response of the real one (which may have
//! more fields), or only the fields that `only` names.
//!
//! Values that differ are normalized first: stored values and other ids get their names back, times
//! and addresses of ports become placeholders, and lists are sorted by name where Neutron has no
//! order.

use std::collections::BTreeMap;
use std::path::Path;

use http::Request;
use serde_json::{Map, Value, json};

use super::http::exchange;

/// Fields with random values.
const RANDOM_FIELDS: [&str; 2] = ["mac_address", "ip_address"];

/// The visible effect of a rule of Neutron.
pub(crate) struct Script {
    file: String,
    title: String,
    steps: Vec<Step>,
}

struct Step {
    line: usize,
    method: String,
    path: String,
    body: String,
    headers: Vec<(String, String)>,
    kept: Vec<(String, String)>,
    only: Vec<String>,
}

/// Reads every script.
pub(crate) fn all() -> Vec<Script> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| read(path)).collect()
}

fn read(path: &Path) -> Vec<Script> {
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let mut scripts: Vec<Script> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", index + 1);
        if line.is_empty() {
        } else if let Some(title) = line.strip_prefix("== ") {
            scripts.push(Script { file: file.clone(), title: title.to_owned(), steps: Vec::new() });
        } else if let Some(more) = line.strip_prefix("    ") {
            let step = scripts.last_mut().and_then(|script| script.steps.last_mut());
            step.unwrap_or_else(|| panic!("{place}: belongs to no request")).add(more, &place);
        } else {
            let script = scripts.last_mut().unwrap_or_else(|| panic!("{place}: belongs to no script"));
            script.steps.push(Step::read(line, index + 1, &place));
        }
    }
    scripts
}

impl Step {
    fn read(line: &str, number: usize, place: &str) -> Self {
        let (method, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{place}: a method and a path"));
        let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
        Self {
            line: number,
            method: method.to_owned(),
            path: path.to_owned(),
            body: body.to_owned(),
            headers: Vec::new(),
            kept: Vec::new(),
            only: Vec::new(),
        }
    }

    fn add(&mut self, line: &str, place: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [">", name, value] => self.headers.push((name.trim_end_matches(':').to_owned(), (*value).to_owned())),
            ["keep", name, pointer] => self.kept.push(((*name).to_owned(), (*pointer).to_owned())),
            ["only", pointers @ ..] => self.only.extend(pointers.iter().map(ToString::to_string)),
            _ => panic!("{place}: not understood: {line}"),
        }
    }
}

/// One of the servers, in the middle of a script.
struct Run<'a> {
    url: &'a str,
    kept: BTreeMap<String, String>,
}

impl<'a> Run<'a> {
    fn new(url: &'a str, project: &str) -> Self {
        let kept = [("project", project.to_owned()), ("x255", "x".repeat(255)), ("x256", "x".repeat(256))];
        Self { url, kept: kept.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
    }

    async fn take(&mut self, step: &Step) -> Value {
        let url = format!("{}{}", self.url, self.filled(&step.path));
        let mut request = Request::builder().method(step.method.as_str()).uri(url);
        for (name, value) in &step.headers {
            request = request.header(name, self.filled(value));
        }
        if !step.body.is_empty() {
            request = request.header("Content-Type", "application/json");
        }
        let (status, body) = exchange(request.body(self.filled(&step.body)).unwrap()).await;
        for (name, pointer) in &step.kept {
            let value = match body.pointer(pointer) {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => format!("(no {pointer} in the answer)"),
            };
            self.kept.insert(name.clone(), value);
        }
        let shown = if step.only.is_empty() {
            body
        } else {
            let named = step
                .only
                .iter()
                .map(|pointer| (pointer.clone(), body.pointer(pointer).cloned().unwrap_or_else(|| json!("(missing)"))));
            Value::Object(named.collect())
        };
        json!({"status": status, "body": self.made_comparable(&shown)})
    }

    fn filled(&self, text: &str) -> String {
        let mut names: Vec<_> = self.kept.keys().collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        names.into_iter().fold(text.to_owned(), |text, name| text.replace(&format!("${name}"), &self.kept[name]))
    }

    fn made_comparable(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text_made_comparable(text)),
            Value::Array(items) => {
                let mut items: Vec<_> = items.iter().map(|item| self.made_comparable(item)).collect();
                items.sort_by_key(order);
                Value::Array(items)
            }
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(name, value)| self.field(name, value)).collect())
            }
            other => other.clone(),
        }
    }

    fn field(&self, name: &str, value: &Value) -> (String, Value) {
        let value = match value {
            Value::String(_) if RANDOM_FIELDS.contains(&name) => json!("(random)"),
            Value::String(_) if name.ends_with("_at") => json!("(time)"),
            value => self.made_comparable(value),
        };
        (name.to_owned(), value)
    }

    fn text_made_comparable(&self, text: &str) -> String {
        let mut text = text.replace(self.url, "(url)");
        for (name, value) in &self.kept {
            // A stored number must not replace every equal number.
            if value.len() >= 32 {
                text = text.replace(value.as_str(), &format!("${name}"));
            }
        }
        without_ids(&text)
    }
}

/// Only resources are sorted, by the field that distinguishes them in the scripts. Addresses have
/// an order of their own.
fn order(item: &Value) -> String {
    let of = |name: &str| item.get(name).map(Value::to_string).unwrap_or_default();
    ["name", "cidr", "description", "mtu", "id"].map(of).concat()
}

/// Replaces UUIDs.
fn without_ids(text: &str) -> String {
    let mut rest = text;
    let mut shown = String::new();
    while let Some(letter) = rest.chars().next() {
        if rest.get(..36).is_some_and(is_id) {
            shown += "(id)";
            rest = &rest[36..];
        } else {
            shown.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    shown
}

fn is_id(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Sends a script to our server and to the real one. Each disagreement is described: the step and
/// both responses.
pub(crate) async fn disagreements(script: &Script, ours: &str, real: &str) -> Vec<String> {
    // No other list has the resources of this script.
    let project = format!("{:032x}", fastrand::u128(..));
    let (mut at_ours, mut at_real) = (Run::new(ours, &project), Run::new(real, &project));
    let mut found = Vec::new();
    for step in &script.steps {
        let (ours, real) = (at_ours.take(step).await, at_real.take(step).await);
        let mut differences = Vec::new();
        compare("", &ours, &real, &mut differences);
        if !differences.is_empty() {
            let request = format!("{} {} {}", step.method, step.path, step.body);
            let place = format!("{}:{} ({})", script.file, step.line, script.title);
            found.push(format!(
                "{place}\n  {}\n{}\n  ours: {ours}\n  real: {real}\n",
                request.trim_end(),
                differences.join("\n")
            ));
        }
    }
    found
}

fn compare(place: &str, ours: &Value, real: &Value, differences: &mut Vec<String>) {
    match (ours, real) {
        (Value::Object(ours), Value::Object(real)) => {
            for (name, value) in ours {
                match real.get(name) {
                    Some(real) => compare(&format!("{place}/{name}"), value, real, differences),
                    None => differences.push(format!("  {place}/{name} is not in the real answer")),
                }
            }
            if place == "/body" {
                for name in missing(real, ours) {
                    differences.push(format!("  {place}/{name} is missing"));
                }
            }
        }
        (Value::Array(ours), Value::Array(real)) if ours.len() == real.len() => {
            for (index, (ours, real)) in ours.iter().zip(real).enumerate() {
                compare(&format!("{place}/{index}"), ours, real, differences);
            }
        }
        (ours, real) if ours == real => {}
        (ours, real) => differences.push(format!("  {place}: ours {ours}, real {real}")),
    }
}

fn missing<'a>(real: &'a Map<String, Value>, ours: &'a Map<String, Value>) -> impl Iterator<Item = &'a String> {
    real.keys().filter(|name| !ours.contains_key(name.as_str()))
}
