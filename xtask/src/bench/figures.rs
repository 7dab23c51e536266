//! The results of contestants, and their summary.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

/// The figures that every job has. Tables show them first, and JSON rows have them even if they
/// were not measured.
pub(crate) const COMMON: [&str; 4] = ["wall_s", "cpu_s", "rss_mb", "peak_mb"];

/// The report of one run of a contestant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// The work that was done.
    pub(crate) count: u64,
    /// The measured figures, by name.
    pub(crate) figures: BTreeMap<String, f64>,
}

impl Answer {
    /// Reads the result line: the last one of a contestant's output.
    pub(crate) fn parse(output: &str) -> Result<Self> {
        let mut fields = result_line(output)?;
        let count = fields.remove("count").context("the result line has no count")?;
        let count = count.as_u64().with_context(|| format!("the count is {count}, not a whole number"))?;
        Ok(Self { count, figures: numbers(fields)? })
    }

    /// Reads curl's report of a download. All `pods` were received if the number of bytes equals
    /// the size of the list.
    pub(crate) fn of_download(output: &str, pods: u64, list_bytes: u64) -> Result<Self> {
        let figures = numbers(result_line(output)?)?;
        match figures.get("bytes") {
            Some(bytes) if *bytes == list_bytes as f64 => Ok(Self { count: pods, figures }),
            bytes => bail!("{} bytes were downloaded; the list has {list_bytes}", bytes.copied().unwrap_or_default()),
        }
    }

    /// A figure that must be a whole number.
    pub(crate) fn whole(&self, name: &str) -> Option<u64> {
        let value = *self.figures.get(name)?;
        (value.fract() == 0.0).then_some(value as u64)
    }
}

fn result_line(output: &str) -> Result<Map<String, Value>> {
    let line = output.lines().rfind(|line| !line.trim().is_empty()).context("nothing was printed")?;
    serde_json::from_str(line).with_context(|| format!("the last line printed is no JSON object: {line}"))
}

fn numbers(fields: Map<String, Value>) -> Result<BTreeMap<String, f64>> {
    let mut figures = BTreeMap::new();
    for (name, value) in fields {
        match value.as_f64() {
            Some(number) if number.is_finite() && number >= 0.0 => {
                figures.insert(name, number);
            }
            // Figures that could not be measured on this system.
            _ if value.is_null() => {}
            _ => bail!("the figure {name} is {value}, not a number from 0 up"),
        }
    }
    if !figures.contains_key("wall_s") {
        bail!("the result line has no wall_s");
    }
    Ok(figures)
}

/// A figure over all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of `values`, or nothing if there are none.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) };
        Some(Self { median, min, max })
    }
}

/// The ratio of `cost` to `base`. Nothing if that has no meaning.
pub(crate) fn ratio(cost: f64, base: f64) -> Option<f64> {
    (base > 0.0).then(|| cost / base)
}

/// The summary of all rounds of one contestant in one job at one size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) job: &'static str,
    pub(crate) contestant: &'static str,
    pub(crate) size: u64,
    pub(crate) rounds: usize,
    pub(crate) count: u64,
    pub(crate) figures: BTreeMap<String, Spread>,
}

impl Row {
    /// Combines the results of all rounds. There is at least one.
    pub(crate) fn of(job: &'static str, contestant: &'static str, size: u64, answers: &[Answer]) -> Self {
        let counts = Spread::of(answers.iter().map(|answer| answer.count as f64).collect());
        let mut values: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
        for (name, value) in answers.iter().flat_map(|answer| &answer.figures) {
            values.entry(name).or_default().push(*value);
        }
        let figures = values.into_iter().filter_map(|(name, values)| Some((name.clone(), Spread::of(values)?)));
        Self {
            job,
            contestant,
            size,
            rounds: answers.len(),
            count: counts.expect("there is at least one answer").median as u64,
            figures: figures.collect(),
        }
    }

    /// The median of a figure, if it was measured.
    pub(crate) fn median(&self, figure: &str) -> Option<f64> {
        self.figures.get(figure).map(|spread| spread.median)
    }

    /// The row in its JSON form.
    pub(crate) fn json(&self) -> Value {
        let wall = self.figures.get("wall_s");
        let mut row = json!({
            "job": self.job,
            "contestant": self.contestant,
            "size": self.size,
            "count": self.count,
            "rounds": self.rounds,
            "wall_s_min": wall.map(|wall| wall.min),
            "wall_s_max": wall.map(|wall| wall.max),
        });
        for name in COMMON {
            row[name] = json!(self.median(name));
        }
        for (name, spread) in &self.figures {
            row[name] = json!(spread.median);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(wall: f64) -> Answer {
        Answer { count: 5, figures: [("wall_s".to_owned(), wall), ("ns_per_item".to_owned(), wall * 2.0)].into() }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 9.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
        assert_eq!(Spread::of(vec![4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of(vec![7.0]), Some(Spread { median: 7.0, min: 7.0, max: 7.0 }));
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn a_ratio_needs_something_to_compare_with() {
        assert_eq!(ratio(1.0, 4.0), Some(0.25));
        assert_eq!(ratio(1.0, 0.0), None);
    }

    #[test]
    fn the_last_line_is_the_answer() {
        let output =
            "starting\n{\"count\":3,\"wall_s\":9}\n{\"count\":5,\"wall_s\":1.5,\"ns_per_item\":3,\"rss_mb\":null}\n\n";
        assert_eq!(Answer::parse(output).expect("the line is right"), answer(1.5));
    }

    #[test]
    fn an_incomplete_or_invalid_response_is_refused() {
        for (output, complaint) in [
            ("", "nothing was printed"),
            ("done", "no JSON object"),
            ("{\"wall_s\":1}", "no count"),
            ("{\"count\":1.5,\"wall_s\":1}", "not a whole number"),
            ("{\"count\":1}", "no wall_s"),
            ("{\"count\":1,\"wall_s\":null}", "no wall_s"),
            ("{\"count\":1,\"wall_s\":-1}", "not a number from 0 up"),
            ("{\"count\":1,\"wall_s\":1,\"cpu_s\":\"much\"}", "not a number from 0 up"),
        ] {
            let error = Answer::parse(output).expect_err(output);
            assert!(format!("{error:#}").contains(complaint), "{output:?}: {error:#}");
        }
    }

    #[test]
    fn a_download_counts_when_every_byte_has_come() {
        let answer = Answer::of_download("{\"bytes\":630,\"wall_s\":0.1}", 2, 630).expect("every byte has come");
        assert_eq!(answer.count, 2);
        let error = Answer::of_download("{\"bytes\":629,\"wall_s\":0.1}", 2, 630).expect_err("a byte is missing");
        assert_eq!(error.to_string(), "629 bytes were downloaded; the list has 630");
    }

    #[test]
    fn a_row_holds_medians_and_the_spread_of_the_time() {
        let row = Row::of("sync", "kube-rs", 5, &[answer(2.0), answer(1.0), answer(4.0)]);
        let expected = json!({
            "job": "sync", "contestant": "kube-rs", "size": 5, "count": 5, "rounds": 3,
            "wall_s": 2.0, "wall_s_min": 1.0, "wall_s_max": 4.0,
            "cpu_s": null, "rss_mb": null, "peak_mb": null, "ns_per_item": 4.0,
        });
        assert_eq!(row.json(), expected);
    }
}
