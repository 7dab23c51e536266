//! Reads Prometheus' text format, strictly. `real_metrics.rs` compares it with a parser of
//! Prometheus' own.

use std::collections::{BTreeMap, BTreeSet};

/// All series of an exposition.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    /// The type of each family.
    pub(crate) types: BTreeMap<String, String>,
    /// The value of each series: its name, with its labels in order.
    pub(crate) samples: BTreeMap<(String, BTreeMap<String, String>), f64>,
}

impl Exposition {
    /// Panics on a line that the format does not allow.
    pub(crate) fn parse(text: &str) -> Self {
        let mut exposition = Self::default();
        let (mut family, mut helped) = (String::new(), BTreeSet::new());
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, _) = help.split_once(' ').expect(line);
                assert!(helped.insert(name.to_owned()), "a second help: {line}");
            } else if let Some((name, kind)) =
                line.strip_prefix("# TYPE ").map(|line| line.split_once(' ').expect(line))
            {
                assert!(["counter", "gauge", "histogram", "untyped"].contains(&kind), "{line}");
                let before = exposition.types.insert(name.to_owned(), kind.to_owned());
                assert!(before.is_none(), "a second type: {line}");
                family = name.to_owned();
            } else {
                let (name, labels, value) = sample(line);
                let suffix = name.strip_prefix(&*family).unwrap_or_else(|| panic!("not of {family}: {line}"));
                let is_histogram = exposition.types[&family] == "histogram";
                let suffixes: &[&str] = if is_histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
                assert!(suffixes.contains(&suffix), "{line}");
                let before = exposition.samples.insert((name, labels), value);
                assert!(before.is_none(), "a second sample: {line}");
            }
        }
        exposition
    }

    /// The value of a series with exactly these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let owned = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let found = self.samples.get(&(name.to_owned(), owned)).copied();
        found.unwrap_or_else(|| panic!("no series {name}{labels:?} in {:#?}", self.of(name)))
    }

    /// All series of a name.
    pub(crate) fn of(&self, name: &str) -> Vec<(&BTreeMap<String, String>, f64)> {
        let series = self.samples.iter().filter(|((other, _), _)| other == name);
        series.map(|((_, labels), value)| (labels, *value)).collect()
    }

    /// The names of the labels of all series of a name.
    pub(crate) fn labels(&self, name: &str) -> BTreeSet<Vec<&str>> {
        self.of(name).into_iter().map(|(labels, _)| labels.keys().map(String::as_str).collect()).collect()
    }
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let end = line.find(['{', ' ']).expect(line);
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").expect(line);
            assert!(is_name(label), "{line}");
            let (mut value, mut chars) = (String::new(), after.char_indices());
            let end = loop {
                match chars.next().expect(line) {
                    (place, '"') => break place,
                    (_, '\\') => match chars.next().expect(line).1 {
                        'n' => value.push('\n'),
                        escaped @ ('\\' | '"') => value.push(escaped),
                        other => panic!("\\{other} in {line}"),
                    },
                    (_, char) => value.push(char),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "a label twice: {line}");
            rest = &after[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = &rest[1..];
    }
    let value = match rest.trim() {
        "+Inf" => f64::INFINITY,
        value => value.parse().expect(line),
    };
    (name.to_owned(), labels, value)
}
