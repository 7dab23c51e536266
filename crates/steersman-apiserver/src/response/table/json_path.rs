//! JSONPath as `kubectl` and printer columns have it: fields, indices, slices, wildcards, filters,
//! unions and recursive descent.
//!
//! Work is charged to the request, since `..` visits a value once for each of its ancestors.

use serde_json::Value;

use crate::request::budget;

/// More results of a step are dropped. A column shows the first one.
const RESULTS_MAX: usize = 10_000;
/// How deep filters and unions may be nested.
const NESTED_MAX: usize = 16;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<Node>);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Field(String),
    /// `[start:end:step]`
    Slice(Slice),
    /// `*`
    Wildcard,
    /// `..`
    Recursive,
    /// `[?(left operator right)]`. Without an operator, the left side exists.
    Filter(Vec<Node>, Option<(Operator, Vec<Node>)>),
    /// `[a,b]`
    Union(Vec<Vec<Node>>),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    /// Whether this is an index, which has no end of its own.
    is_index: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path. `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        parse(text, 0).map(Self)
    }

    /// The first value at the path. `None` if there is none, or if a step does not fit the value.
    pub(super) fn first<'a>(&'a self, value: &'a Value) -> Option<&'a Value> {
        // The real server looks at the results of the first step alone if there are several texts.
        walk(vec![value], &self.0).ok()?.into_iter().next()
    }
}

/// Ends the evaluation: a step does not fit a value.
struct Misfit;

fn parse(text: &str, depth: usize) -> Option<Vec<Node>> {
    if depth > NESTED_MAX {
        return None;
    }
    let mut nodes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(filter) = rest.strip_prefix("[?(") {
            let (inside, after) = filter_end(filter)?;
            nodes.push(parse_filter(inside, depth)?);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("..") {
            if nodes.last() == Some(&Node::Recursive) {
                return None;
            }
            nodes.push(Node::Recursive);
            rest = after;
            if rest.starts_with(|next: char| next == '_' || next.is_alphanumeric()) {
                rest = parse_field(rest, &mut nodes);
            }
        } else if let Some(after) = rest.strip_prefix('[') {
            let (inside, after) = after.split_once(']')?;
            nodes.extend(parse_brackets(inside, depth)?);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            rest = parse_field(after, &mut nodes);
        } else if let Some(after) = rest.strip_prefix([' ', '@', '$']) {
            rest = after;
        } else if first == '"' || first == '\'' {
            let end = quote_end(&rest[1..], first)?;
            nodes.push(Node::Literal(unescape(&rest[1..=end]).into()));
            rest = &rest[end + 2..];
        } else if first == '+' || first == '-' || first.is_ascii_digit() {
            let end =
                rest[1..].find(|next: char| next != '.' && !next.is_ascii_digit()).map_or(rest.len(), |at| at + 1);
            let digits = rest[..end].trim_start_matches('+');
            let number = digits.parse::<i64>().map(Value::from).or_else(|_| digits.parse::<f64>().map(Value::from));
            nodes.push(Node::Literal(number.ok()?));
            rest = &rest[end..];
        } else if let Some(after) = rest.strip_prefix("true") {
            nodes.push(Node::Literal(true.into()));
            rest = after;
        } else if let Some(after) = rest.strip_prefix("false") {
            nodes.push(Node::Literal(false.into()));
            rest = after;
        } else {
            return None;
        }
    }
    Some(nodes)
}

/// Reads a name up to a character that cannot be part of one. A backslash escapes it.
fn parse_field<'a>(text: &'a str, nodes: &mut Vec<Node>) -> &'a str {
    let mut name = String::new();
    let mut characters = text.char_indices();
    let mut end = text.len();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' => {
                end = at;
                break;
            }
            character => name.push(character),
        }
    }
    nodes.push(if name == "*" { Node::Wildcard } else { Node::Field(name) });
    &text[end..]
}

/// What is between `[` and `]`.
fn parse_brackets(text: &str, depth: usize) -> Option<Vec<Node>> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 1 {
        let parts = parts.iter().map(|part| parse(&format!("[{}]", part.trim_matches(' ')), depth + 1));
        return Some(vec![Node::Union(parts.collect::<Option<_>>()?)]);
    }
    if let Some(name) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        return (!name.contains('\'')).then(|| parse(&format!(".{name}"), depth + 1))?;
    }
    if text == "*" {
        return Some(vec![Node::Slice(Slice::default())]);
    }
    let numbers = text.split(':').map(|part| match part {
        "" => Some(None),
        part => part.parse().ok().map(Some),
    });
    let numbers: Vec<Option<i64>> = numbers.collect::<Option<_>>()?;
    let slice = match numbers[..] {
        [start @ Some(_)] => Slice { start, is_index: true, ..Slice::default() },
        [start, end] => Slice { start, end, ..Slice::default() },
        [start, end, step] => Slice { start, end, step, is_index: false },
        _ => return None,
    };
    Some(vec![Node::Slice(slice)])
}

/// The text of a filter, and the text behind it.
fn filter_end(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), character) if open == character && before != '\\' => quote = None,
            (None, ')') => return Some((&text[..at], text[at + 1..].strip_prefix(']')?)),
            _ => {}
        }
        before = character;
    }
    None
}

fn parse_filter(text: &str, depth: usize) -> Option<Node> {
    let is_operator = |character: char| matches!(character, '!' | '<' | '>' | '=');
    let Some(start) = text.find(is_operator).filter(|start| *start > 0) else {
        return Some(Node::Filter(parse(text, depth + 1)?, None));
    };
    let (left, rest) = text.split_at(start);
    let end = rest.find(|character| !is_operator(character))?;
    let operator = match &rest[..end] {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        _ => return None,
    };
    Some(Node::Filter(parse(left, depth + 1)?, Some((operator, parse(&rest[end..], depth + 1)?))))
}

/// The place of the closing quote.
fn quote_end(text: &str, quote: char) -> Option<usize> {
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        if character == quote && before != '\\' {
            return Some(at);
        }
        before = character;
    }
    None
}

fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    plain
}

fn walk<'a>(mut values: Vec<&'a Value>, nodes: &'a [Node]) -> Result<Vec<&'a Value>, Misfit> {
    for node in nodes {
        let mut found = Vec::new();
        for value in values {
            if !budget::step(1) {
                return Err(Misfit);
            }
            step(value, node, &mut found)?;
            found.truncate(RESULTS_MAX);
        }
        values = found;
    }
    Ok(values)
}

fn step<'a>(value: &'a Value, node: &'a Node, found: &mut Vec<&'a Value>) -> Result<(), Misfit> {
    match (node, value) {
        (Node::Literal(literal), _) => found.push(literal),
        (Node::Union(parts), _) => {
            for part in parts {
                found.extend(walk(vec![value], part)?);
            }
        }
        (Node::Field(name), Value::Object(members)) => found.extend(members.get(name)),
        (Node::Wildcard, Value::Object(members)) => found.extend(members.values()),
        (Node::Wildcard, Value::Array(items)) => found.extend(items),
        (Node::Recursive, _) => descend(value, found),
        (Node::Slice(slice), Value::Array(items)) => found.extend(slice.of(items)?),
        (Node::Filter(left, right), Value::Array(items)) => {
            for item in items {
                if !budget::step(1) {
                    return Err(Misfit);
                }
                if passes(item, left, right.as_ref())? {
                    found.push(item);
                }
            }
        }
        (Node::Field(_) | Node::Wildcard, _) | (Node::Slice(_), Value::Null) => {}
        (Node::Slice(_) | Node::Filter(..), _) => return Err(Misfit),
    }
    Ok(())
}

/// The value and all containers in it that are not empty.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    if found.len() >= RESULTS_MAX || !budget::step(1) {
        return;
    }
    match value {
        Value::Object(members) if !members.is_empty() => {
            found.push(value);
            members.values().for_each(|member| descend(member, found));
        }
        Value::Array(items) if !items.is_empty() => {
            found.push(value);
            items.iter().for_each(|item| descend(item, found));
        }
        _ => {}
    }
}

impl Slice {
    fn of(self, items: &[Value]) -> Result<impl Iterator<Item = &Value>, Misfit> {
        let len = i64::try_from(items.len()).map_err(|_| Misfit)?;
        let from_end = |at: i64| if at < 0 { at + len } else { at };
        let start = from_end(self.start.unwrap_or(0));
        let end = match self.end {
            _ if self.is_index => start.checked_add(1).ok_or(Misfit)?,
            end => from_end(end.unwrap_or(len)),
        };
        let range = if start == end {
            0..0
        } else if start < 0 || start >= len || end < 0 || end > len || start > end {
            return Err(Misfit);
        } else {
            start as usize..end as usize
        };
        let step = self.step.unwrap_or(1);
        if step <= 0 {
            return Err(Misfit);
        }
        Ok(items[range].iter().step_by(usize::try_from(step).map_err(|_| Misfit)?))
    }
}

fn passes(item: &Value, left: &[Node], right: Option<&(Operator, Vec<Node>)>) -> Result<bool, Misfit> {
    let Some((operator, right)) = right else {
        return Ok(walk(vec![item], left).is_ok_and(|found| !found.is_empty()));
    };
    let (left, right) = (walk(vec![item], left)?, walk(vec![item], right)?);
    let (left, right) = match (&left[..], &right[..]) {
        ([], _) | (_, []) => return Ok(false),
        ([left], [right]) => (*left, *right),
        _ => return Err(Misfit),
    };
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => left.partial_cmp(right),
        // An integer and a fraction do not compare.
        (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
            left.as_f64().partial_cmp(&right.as_f64())
        }
        (Value::Bool(left), Value::Bool(right)) => {
            return match operator {
                Operator::Equal => Ok(left == right),
                Operator::NotEqual => Ok(left != right),
                _ => Err(Misfit),
            };
        }
        _ => return Err(Misfit),
    };
    let order = order.ok_or(Misfit)?;
    Ok(match operator {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_their_first_value() {
        let value = json!({
            "spec": {"a": 1, "b.c/d": "dotted", "list": [10, 20, 30, 40], "empty": [], "flag": true},
            "status": {"conditions": [
                {"type": "Synced", "status": "False", "count": 1},
                {"type": "Ready", "status": "True", "count": 2, "reason": "a)b"},
            ]},
        });
        for (path, expected) in [
            (".spec.a", json!(1)),
            (".spec.none", json!(null)),
            (".spec.a.b", json!(null)),
            (r".spec.b\.c/d", json!("dotted")),
            (r".spec['b\.c/d']", json!("dotted")),
            (".spec.list[0]", json!(10)),
            (".spec.list[-1]", json!(40)),
            (".spec.list[4]", json!(null)),
            (".spec.list[9223372036854775807]", json!(null)),
            (".spec.list[1:3]", json!(20)),
            (".spec.list[-2:]", json!(30)),
            (".spec.list[3:1]", json!(null)),
            (".spec.list[*]", json!(10)),
            (".spec.empty[*]", json!(null)),
            (".spec.list[1,2]", json!(20)),
            (".spec['flag','a']", json!(true)),
            (".spec[0]", json!(null)),
            (".spec.*", json!(1)),
            ("..reason", json!("a)b")),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.type == 'Ready')].status", json!("True")),
            (".status.conditions[?(@.type!='Ready')].status", json!("False")),
            (".status.conditions[?(@.count>1)].type", json!("Ready")),
            (".status.conditions[?(@.count<=1)].type", json!("Synced")),
            (".status.conditions[?(@.reason)].type", json!("Ready")),
            (".status.conditions[?(@.reason=='a)b')].type", json!("Ready")),
            (".status.conditions[?(@.type=='None')].status", json!(null)),
            (".status.conditions[?(@.type==1)].status", json!(null)),
        ] {
            let parsed = JsonPath::parse(path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(parsed.first(&value).cloned().unwrap_or_default(), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in
            [".a[", ".a[x]", ".a[1:2:3:4]", ".a[?(@.b", ".a[?(@.b=='c'", "....", ".a#[", ".a[?(@.b=>1)]", ".a[]"]
        {
            assert!(JsonPath::parse(path).is_none() || path == ".a#[", "{path}");
        }
        assert!(JsonPath::parse(&format!(".a{}", "[?(@.a".repeat(10_000))).is_none());
    }

    #[test]
    fn descent_is_bounded() {
        let mut value = json!(1);
        for _ in 0..300 {
            value = json!({"a": value, "b": [1]});
        }
        let path = JsonPath::parse("..a..a..a..none").unwrap();
        let ((), cost) = budget::metered(|| assert!(path.first(&value).is_none()));
        assert!(cost.steps <= 20_000_001, "{cost:?}");
    }
}
