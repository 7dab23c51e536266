use std::collections::BTreeMap;
use std::fmt::Write;

use futures::{StreamExt, stream};
use serde_json::Value;

use super::case::{Area, Case};
use super::cases;
use super::normalise::normalise;
use super::run::{Record, run};
use super::target::Servers;

/// How many cases run at a time. Most of their time is waiting.
const CONCURRENCY: usize = 16;

/// The cases that may differ, each with the reason: a table in Markdown with the name of the case
/// in its first column.
pub(crate) struct Differences(BTreeMap<String, String>);

impl Differences {
    /// Reads the tables of a Markdown text. Panics on a row without a reason or with a case that
    /// does not exist.
    pub(crate) fn read(text: &str) -> Self {
        let mut listed = BTreeMap::new();
        let mut in_body = false;
        for line in text.lines().map(str::trim) {
            let Some(row) = line.strip_prefix('|') else {
                in_body = false;
                continue;
            };
            let cells: Vec<_> = row.trim_end_matches('|').splitn(2, '|').map(str::trim).collect();
            if cells[0].chars().all(|character| "-: ".contains(character)) {
                in_body = true;
            } else if in_body {
                let name = cells[0].trim_matches('`');
                let reason = cells.get(1).copied().unwrap_or_default();
                assert!(!reason.is_empty(), "the difference {name} has no reason");
                assert!(cases::all().iter().any(|(_, case)| case.name == name), "there is no case {name}");
                listed.insert(name.to_owned(), reason.to_owned());
            }
        }
        Self(listed)
    }
}

/// What a comparison came to.
pub(crate) struct Report {
    pub(crate) agree: usize,
    /// Cases that differ and are listed.
    pub(crate) differ: usize,
    /// Cases that differ without being listed, and listed ones that agree.
    pub(crate) complaints: Vec<String>,
}

impl Report {
    /// Prints the counts, and panics with every complaint if there is one.
    pub(crate) fn settle(&self) {
        println!("agree {}, differ {} (listed), unlisted {}", self.agree, self.differ, self.complaints.len());
        assert!(self.complaints.is_empty(), "{}", self.complaints.join("\n\n"));
    }
}

/// Runs every case on one set of servers and panics if one does not meet its own expectations.
///
/// Many cases run at a time, and what a real server does by itself, such as taking a new kind into
/// its discovery, takes its time then. A case that goes wrong is therefore run again, alone, and
/// what goes wrong then counts. The same holds for [`compare`].
pub(crate) async fn check(servers: &Servers) {
    let selected = selected();
    let records = play(&selected, servers).await;
    let mut counts = BTreeMap::new();
    let mut complaints = Vec::new();
    for ((area, case), record) in selected.iter().zip(&records) {
        *counts.entry(*area).or_insert(0) += 1;
        if record.complaints.is_empty() {
            continue;
        }
        let alone = run(case, servers.of(case.needs)).await;
        if alone.complaints.is_empty() {
            println!("{} went wrong among others and not alone:\n{}", case.name, record.complaints.join("\n"));
        }
        complaints.extend(alone.complaints.iter().map(|complaint| format!("{}: {complaint}", case.name)));
    }
    write_records(&selected, &[(servers.plain.name, &records)]);
    println!("{} cases: {counts:?}", selected.len());
    assert!(complaints.is_empty(), "{} expectations were not met\n{}", complaints.len(), complaints.join("\n"));
}

/// Runs every case on both sets of servers and compares what they answered.
pub(crate) async fn compare(left: &Servers, right: &Servers, differences: &Differences) -> Report {
    let selected = selected();
    let (left_records, right_records) = tokio::join!(play(&selected, left), play(&selected, right));
    let names = (left.plain.name, right.plain.name);
    write_records(&selected, &[(names.0, &left_records), (names.1, &right_records)]);
    let mut report = Report { agree: 0, differ: 0, complaints: Vec::new() };
    for (index, (_, case)) in selected.iter().enumerate() {
        let mut found = difference(case, names, &left_records[index], &right_records[index]);
        if let Some(among_others) = found.as_ref().filter(|_| !differences.0.contains_key(case.name)) {
            let (left, right) = tokio::join!(run(case, left.of(case.needs)), run(case, right.of(case.needs)));
            let alone = difference(case, names, &left, &right);
            if alone.is_none() {
                println!("{} differs among others and not alone:\n{among_others}", case.name);
            }
            found = alone;
        }
        match (found, differences.0.get(case.name)) {
            (None, None) => report.agree += 1,
            (Some(_), Some(_)) => report.differ += 1,
            (Some(found), None) => report.complaints.push(format!("{} differs:\n{found}", case.name)),
            (None, Some(reason)) => report.complaints.push(format!(
                "{} agrees, yet it is listed as a difference ({reason}): take it off the list",
                case.name
            )),
        }
    }
    report
}

/// Every difference between two records, a line each, below the step it is in.
fn difference(case: &Case, names: (&str, &str), left: &Record, right: &Record) -> Option<String> {
    let (left, right) = (normalise(case, left), normalise(case, right));
    let mut text = String::new();
    for (number, step) in case.steps.iter().enumerate() {
        let mut lines = Vec::new();
        differing(&left[number], &right[number], String::new(), &mut lines);
        if !lines.is_empty() {
            writeln!(text, "  step {}: {}", number + 1, step.title()).expect("a string takes any text");
        }
        for (path, left, right) in lines {
            let value = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
            writeln!(text, "    {path}\n      {}: {}\n      {}: {}", names.0, value(left), names.1, value(right))
                .expect("a string takes any text");
        }
    }
    (!text.is_empty()).then_some(text)
}

type Lines<'a> = Vec<(String, Option<&'a Value>, Option<&'a Value>)>;

fn differing<'a>(left: &'a Value, right: &'a Value, path: String, lines: &mut Lines<'a>) {
    let mut child = |key: &str, left: Option<&'a Value>, right: Option<&'a Value>| match (left, right) {
        (Some(left), Some(right)) => differing(left, right, format!("{path}/{key}"), lines),
        _ => lines.push((format!("{path}/{key}"), left, right)),
    };
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in left {
                child(key, Some(value), right.get(key));
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                child(key, None, Some(value));
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for index in 0..left.len().max(right.len()) {
                child(&index.to_string(), left.get(index), right.get(index));
            }
        }
        _ if left == right => {}
        _ => lines.push((path, Some(left), Some(right))),
    }
}

async fn play(cases: &[(Area, Case)], servers: &Servers) -> Vec<Record> {
    let runs = cases.iter().enumerate();
    let runs = runs.map(|(index, (_, case))| async move { (index, run(case, servers.of(case.needs)).await) });
    // Collected first: a stream of borrowing closures is not general enough to be sent to another
    // thread.
    let runs = stream::iter(runs.collect::<Vec<_>>());
    let mut records: Vec<_> = runs.buffer_unordered(CONCURRENCY).collect().await;
    records.sort_by_key(|(index, _)| *index);
    records.into_iter().map(|(_, record)| record).collect()
}

fn selected() -> Vec<(Area, Case)> {
    let wanted = std::env::var("CONFORMANCE_CASES").unwrap_or_default();
    let mut cases = cases::all();
    let mut names: Vec<_> = cases.iter().map(|(_, case)| case.name).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    assert!(twice.is_empty(), "cases with the same name: {twice:?}");
    cases.retain(|(_, case)| wanted.split(',').any(|wanted| case.name.contains(wanted)));
    cases
}

/// Writes the normalised records into the folder `CONFORMANCE_RECORD`.
fn write_records(cases: &[(Area, Case)], records: &[(&str, &Vec<Record>)]) {
    let Some(path) = std::env::var_os("CONFORMANCE_RECORD") else { return };
    let mut text = String::new();
    for (index, (area, case)) in cases.iter().enumerate() {
        writeln!(text, "# {} ({area:?})", case.name).expect("a string takes any text");
        for (name, records) in records {
            for (step, value) in case.steps.iter().zip(normalise(case, &records[index])) {
                let value = serde_json::to_string_pretty(&value).expect("JSON can be written");
                writeln!(text, "{name}: {}\n{value}", step.title()).expect("a string takes any text");
            }
        }
    }
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conformance::case::case;

    fn record(id: &str, steps: &[Value]) -> Record {
        Record { id: id.to_owned(), steps: steps.to_vec(), complaints: Vec::new() }
    }

    fn object(version: &str, uid: &str, data: &str) -> Value {
        json!({"status": 200, "body": {
            "metadata": {"resourceVersion": version, "uid": uid, "creationTimestamp": "2026-01-02T03:04:05Z"},
                "data": data,
        }})
    }

    const UIDS: [&str; 2] = ["11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"];

    fn compared(left: &[Value], right: &[Value]) -> Option<String> {
        let case = left.iter().fold(case("x"), |case, _| case.get("/x"));
        difference(&case, ("left", "right"), &record("id-one", left), &record("id-two", right))
    }

    #[test]
    fn versions_are_compared_by_their_order() {
        let (left, right) = (
            [object("5", UIDS[0], ""), object("9", UIDS[0], "")],
            [object("70", UIDS[1], ""), object("80", UIDS[1], "")],
        );
        assert_eq!(compared(&left, &right), None);
        let found = compared(&left, &[object("80", UIDS[1], ""), object("70", UIDS[1], "")]).unwrap();
        assert!(found.contains("/body/metadata/resourceVersion"), "{found}");
    }

    #[test]
    fn another_object_is_a_difference() {
        let left = [object("5", UIDS[0], ""), object("5", UIDS[0], "")];
        let found = compared(&left, &[object("5", UIDS[0], ""), object("5", UIDS[1], "")]).unwrap();
        assert!(
            found.contains("step 2") && found.contains("left: \"<uid 1>\"") && found.contains("right: \"<uid 2>\""),
            "{found}"
        );
    }

    #[test]
    fn a_list_may_be_newer_than_its_objects() {
        let list =
            |version: &str| json!({"status": 200, "body": {"items": [], "metadata": {"resourceVersion": version}}});
        assert_eq!(compared(&[object("5", UIDS[0], ""), list("5")], &[object("5", UIDS[0], ""), list("8")]), None);
        assert!(compared(&[object("5", UIDS[0], ""), list("5")], &[object("5", UIDS[0], ""), list("4")]).is_some());
    }

    #[test]
    fn fields_that_only_one_has_are_listed() {
        let mut right = object("5", UIDS[0], "");
        right["body"]["extra"] = true.into();
        let found = compared(&[object("5", UIDS[0], "")], &[right]).unwrap();
        assert!(found.contains("/body/extra\n      left: nothing\n      right: true"), "{found}");
    }

    #[test]
    fn every_area_has_its_cases() {
        let cases = cases::all();
        for (area, minimum) in Area::WITH_MINIMUM {
            let found = cases.iter().filter(|(of, _)| *of == area).count();
            assert!(found >= minimum, "{area:?}: {found} cases of at least {minimum}");
        }
    }

    #[test]
    fn differences_are_the_rows_of_a_table() {
        let listed =
            Differences::read("# Title\n\n| case | reason |\n|---|---|\n| `list-of-nothing` | it is never empty |\n");
        assert_eq!(listed.0.get("list-of-nothing").map(String::as_str), Some("it is never empty"));
        assert_eq!(listed.0.len(), 1);
    }

    #[test]
    #[should_panic(expected = "there is no case none-of-ours")]
    fn differences_name_cases_that_exist() {
        Differences::read("| case | reason |\n|---|---|\n| none-of-ours | x |\n");
    }
}
