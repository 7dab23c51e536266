use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::case::Case;
use super::run::Record;

/// Replaces what two servers cannot have in common by tokens that say what it was.
///
/// - Versions of objects become their rank among all that the record shows, so that their order is
///   compared. The version of a list or a bookmark is that of the newest of these objects it can
///   include: other writes may have happened by then.
/// - Uids and addresses are numbered by their first appearance, generated names too.
/// - Hashes of documents are numbered too if the documents contain the case's own name.
/// - Times, ages in Tables, continue tokens and the case's own name become words. Entries of
///   `managedFields` are ordered without their times, and texts of their fields compared as JSON.
///
/// What the script itself sent is left as it is.
pub(crate) fn normalise(case: &Case, record: &Record) -> Vec<Value> {
    let script: String = case.requests().map(|request| format!("{} {}\n", request.path, request.body)).collect();
    let prefixes =
        script.split("\"generateName\":\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    let prefixes = prefixes.collect();
    let mut normaliser = Normaliser {
        script,
        prefixes,
        id: record.id.clone(),
        has_own_kinds: case.mentions("${id}"),
        ..Normaliser::default()
    };
    for step in &record.steps {
        normaliser.gather(step, false);
    }
    let versions = std::mem::take(&mut normaliser.seen);
    normaliser.versions = versions.into_iter().zip(1..).collect();
    record.steps.iter().map(|step| normaliser.rewrite(step, false)).collect()
}

#[derive(Default)]
struct Normaliser {
    script: String,
    id: String,
    seen: BTreeSet<u64>,
    versions: BTreeMap<u64, usize>,
    prefixes: Vec<String>,
    generated: Vec<String>,
    uids: Vec<String>,
    /// Whether documents have the case's own name in them, so that their hashes differ.
    has_own_kinds: bool,
    hashes: Vec<String>,
    addresses: Vec<String>,
}

impl Normaliser {
    /// Notes the versions of objects. `many`: of a list or a bookmark.
    fn gather(&mut self, value: &Value, many: bool) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.gather(item, many)),
            Value::Object(fields) => {
                for (key, field) in fields {
                    match (key.as_str(), version(field)) {
                        ("resourceVersion", Some(number)) if !many => _ = self.seen.insert(number),
                        _ => self.gather(field, is_of_many(fields, key, many)),
                    }
                }
            }
            _ => {}
        }
    }

    fn rewrite(&mut self, value: &Value, many: bool) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.rewrite(item, many)).collect(),
            Value::Object(fields) => {
                let fields = &sorted_rules(fields);
                let mut rewritten = Map::new();
                for (key, field) in fields {
                    // A case that compares some fields alone has their pointers as keys.
                    let name = key.rsplit('/').next().unwrap_or(key);
                    let value = match (name, version(field)) {
                        ("managedFields", _) => self.managed_fields(field),
                        ("resourceVersion", Some(number)) => self.version(number, many).into(),
                        ("continue", _) if field.as_str().is_some_and(|token| !token.is_empty()) => "<continue>".into(),
                        ("cells", _) => self.cells(field),
                        ("clusterIP" | "clusterIPs" | "nodePort" | "healthCheckNodePort", _) => self.address(field),
                        _ => self.rewrite(field, is_of_many(fields, key, many)),
                    };
                    rewritten.insert(self.text(key), value);
                }
                rewritten.into()
            }
            other => other.clone(),
        }
    }

    /// The cells of a Table, without the ages of what was just created.
    fn cells(&mut self, cells: &Value) -> Value {
        let cell = |cell: &Value| match cell.as_str() {
            Some(text) if is_age(text) => "<age>".into(),
            _ => self.rewrite(cell, false),
        };
        cells.as_array().into_iter().flatten().map(cell).collect()
    }

    /// Two entries of one second and of two seconds have two orders.
    fn managed_fields(&mut self, entries: &Value) -> Value {
        let Value::Array(entries) = entries else { return entries.clone() };
        let mut entries = entries.clone();
        entries.sort_by_cached_key(|entry| {
            ["operation", "manager", "apiVersion", "subresource"].map(|field| entry[field].to_string())
        });
        entries.iter().map(|entry| self.rewrite(entry, false)).collect()
    }

    fn version(&self, number: u64, many: bool) -> String {
        match self.versions.range(..=number).next_back() {
            Some((exact, rank)) if many || *exact == number => format!("<version {rank}>"),
            _ => "<version>".to_owned(),
        }
    }

    fn address(&mut self, value: &Value) -> Value {
        let text = match value {
            Value::Array(items) => return items.iter().map(|item| self.address(item)).collect(),
            Value::String(text) if text.is_empty() || text == "None" => return value.clone(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if self.script.contains(&text) {
            return value.clone();
        }
        format!("<address {}>", number(&mut self.addresses, &text)).into()
    }

    fn text(&mut self, text: &str) -> String {
        if is_time(text) && !self.script.contains(text) {
            return if text.contains('.') { "<micro time>" } else { "<time>" }.to_owned();
        }
        let mut text = text.replace(&self.id, "<id>");
        text = self.replace_objects(&text);
        text = self.replace_generated(&text);
        text = self.replace_uids(&text);
        if self.has_own_kinds {
            text = self.replace_hashes(&text);
            // The case's own name as a part of identifiers.
            let plain = self.id.replace('-', "");
            text = text.replace(&plain, "<id>").replace(&plain.replacen('x', "X", 1), "<Id>");
        }
        for (index, address) in self.addresses.iter().enumerate().filter(|(_, address)| address.contains('.')) {
            text = text.replace(address, &format!("<address {}>", index + 1));
        }
        let about_versions = ["Too large resource version", "too old resource version", "ResourceVersion in"];
        if about_versions.iter().any(|words| text.contains(words)) { self.replace_versions(&text) } else { text }
    }

    /// Replaces an object that is quoted whole in a message: it has the server's own times and
    /// managed fields.
    fn replace_objects(&self, text: &str) -> String {
        const QUOTE: &str = "Invalid value: \"{\\\"apiVersion\\\"";
        match (text.find(QUOTE), text.rfind("}\": ")) {
            (Some(start), Some(end)) if start < end => {
                format!("{}Invalid value: \"<object>{}", &text[..start], &text[end + 1..])
            }
            _ => text.to_owned(),
        }
    }

    /// Replaces the five random characters after a prefix that the script sent.
    fn replace_generated(&mut self, text: &str) -> String {
        const LENGTH: usize = 5;
        let mut rewritten = text.to_owned();
        for prefix in &self.prefixes {
            let random =
                |rest: &str| rest.get(..LENGTH).is_some_and(|end| end.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            let names: Vec<_> = text.match_indices(prefix.as_str()).map(|(at, _)| &text[at..]).collect();
            for name in names.into_iter().filter(|name| random(&name[prefix.len()..])) {
                let name = &name[..prefix.len() + LENGTH];
                let token = format!("{prefix}<generated {}>", number(&mut self.generated, name));
                rewritten = rewritten.replace(name, &token);
            }
        }
        rewritten
    }

    fn replace_uids(&mut self, text: &str) -> String {
        const LENGTH: usize = 36;
        let mut rewritten = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            match rest.get(..LENGTH) {
                Some(uid) if is_uid(uid) && !self.script.contains(uid) => {
                    rewritten.push_str(&format!("<uid {}>", number(&mut self.uids, uid)));
                    rest = &rest[LENGTH..];
                }
                _ => {
                    rewritten.push(character);
                    rest = &rest[character.len_utf8()..];
                }
            }
        }
        rewritten
    }

    /// Replaces the hashes of OpenAPI documents: 128 digits.
    fn replace_hashes(&mut self, text: &str) -> String {
        const DIGITS: usize = 128;
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
        let Some(start) = text.as_bytes().windows(DIGITS).position(|part| part.iter().all(is_digit)) else {
            return text.to_owned();
        };
        let (before, rest) = text.split_at(start);
        let (hash, after) = rest.split_at(DIGITS);
        let number = number(&mut self.hashes, hash);
        format!("{before}<hash {number}>{}", self.replace_hashes(after))
    }

    /// Replaces every number in a message about versions.
    fn replace_versions(&self, text: &str) -> String {
        let mut rewritten = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(|character: char| character.is_ascii_digit()) {
            let length =
                rest[start..].find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len() - start);
            let digits = &rest[start..start + length];
            rewritten.push_str(&rest[..start]);
            let sent = self.script.contains(digits) && digits.len() > 5;
            rewritten.push_str(&match digits.parse() {
                Ok(number) if !sent => self.version(number, false),
                _ => digits.to_owned(),
            });
            rest = &rest[start + length..];
        }
        rewritten + rest
    }
}

/// The rules of a review in a fixed order: the real server keeps bindings in no order.
fn sorted_rules(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut fields = fields.clone();
    for name in ["resourceRules", "nonResourceRules"] {
        if let Some(Value::Array(rules)) = fields.get_mut(name) {
            rules.sort_by_cached_key(Value::to_string);
        }
    }
    fields
}

/// Whether the field `key` holds the metadata of a list or of a bookmark. A bookmark as a Table has
/// its version in a row, too.
fn is_of_many(fields: &Map<String, Value>, key: &str, many: bool) -> bool {
    match key {
        "metadata" => many || fields.contains_key("items") || fields.contains_key("rows"),
        "object" => many || fields.get("type").is_some_and(|kind| kind == "BOOKMARK"),
        "rows" => many,
        _ => false,
    }
}

fn version(value: &Value) -> Option<u64> {
    value.as_str().and_then(|text| text.parse().ok())
}

/// The number of `item` by its first appearance.
fn number(items: &mut Vec<String>, item: &str) -> usize {
    if let Some(index) = items.iter().position(|other| other == item) {
        return index + 1;
    }
    items.push(item.to_owned());
    items.len()
}

/// Whether this is an age of less than two minutes.
fn is_age(text: &str) -> bool {
    text.strip_suffix('s').is_some_and(|digits| digits.len() <= 3 && digits.parse::<u8>().is_ok())
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Whether this is a time like 2026-01-02T03:04:05Z, with or without microseconds.
fn is_time(text: &str) -> bool {
    let shape =
        |text: &str| text.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte }).collect::<Vec<_>>();
    let shape = shape(text);
    shape == b"0000-00-00T00:00:00Z" || shape == b"0000-00-00T00:00:00.000000Z"
}
