//! Tables, as plain text and as Markdown.

use super::contestants::is_ours;
use super::figures::{COMMON, Row, ratio};
use super::jobs::{Goal, Job, Limit, Scale};

/// The text of a cell that was not measured.
const UNMEASURED: &str = "–";

/// A table with a title above and remarks below.
#[derive(Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    remarks: Vec<String>,
}

impl Table {
    /// The table of one job at one size. All of `rows` belong to it.
    pub(crate) fn of(job: &Job, scale: &Scale, rows: &[&Row]) -> Self {
        let mut columns = vec![Column::new("contestant", rows, |row| row.contestant.to_owned())];
        columns.push(Column::figure("wall s", "wall_s", rows));
        columns.push(Column::spread("wall_s", rows));
        for (title, name) in [("CPU s", "cpu_s"), ("RSS MB", "rss_mb"), ("peak MB", "peak_mb")] {
            columns.push(Column::figure(title, name, rows));
        }
        columns.push(Column::new("count", rows, |row| whole(row.count)));
        let mut special: Vec<&String> = rows.iter().flat_map(|row| row.figures.keys()).collect();
        special.sort();
        special.dedup();
        for name in special.into_iter().filter(|name| !COMMON.contains(&name.as_str())) {
            columns.push(Column::figure(name, name, rows));
            if job.costs.contains(&name.as_str()) {
                columns.push(Column::spread(name, rows));
            }
        }
        let (ratios, remark) = ratios(job, rows);
        columns.extend(ratios);

        let rounds = match rows.iter().map(|row| row.rounds).max() {
            None | Some(1) => "One round.".to_owned(),
            Some(rounds) => format!("Medians of {rounds} rounds."),
        };
        Self {
            title: title(job, scale, rows.first().map_or(0, |row| row.size)),
            header: columns.iter().map(|column| column.title.clone()).collect(),
            rows: (0..rows.len()).map(|row| columns.iter().map(|column| column.cells[row].clone()).collect()).collect(),
            remarks: std::iter::once(format!("{rounds} {remark}")).chain(goals(job, rows)).collect(),
        }
    }

    /// Adds a remark for each goal of the job that is about all its sizes. `rows` holds those of
    /// every size.
    pub(crate) fn add_goals_across_sizes(&mut self, job: &Job, rows: &[Row]) {
        self.remarks.extend(job.goals.iter().filter_map(|goal| outcome_across_sizes(job, goal, rows)));
    }

    /// The table with aligned columns.
    pub(crate) fn plain(&self) -> String {
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| self.lines().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = format!("{}\n", self.title);
        for line in self.lines() {
            let cells: Vec<String> = line
                .iter()
                .zip(&widths)
                .enumerate()
                .map(
                    |(column, (cell, width))| {
                        if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                    },
                )
                .collect();
            text += &format!("  {}\n", cells.join("  ").trim_end());
        }
        for remark in &self.remarks {
            text += &format!("  {remark}\n");
        }
        text
    }

    /// The table as Markdown, under a heading.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut rules = vec!["---".to_owned()];
        rules.resize(self.header.len(), "---:".to_owned());
        let mut text = format!("### {}\n\n{}{}", self.title, line(&self.header), line(&rules));
        for row in &self.rows {
            text += &line(row);
        }
        for remark in &self.remarks {
            text += &format!("\n{remark}\n");
        }
        text
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.header).chain(&self.rows)
    }
}

fn title(job: &Job, scale: &Scale, size: u64) -> String {
    let mut title = format!("{}, {}", job.name, whole(size));
    if scale.events > 0 {
        title += &format!(", {} events", whole(scale.events));
    }
    if scale.rate > 0 {
        title += &format!(", {} a second", whole(scale.rate));
    }
    if scale.window > 0 {
        title += &format!(", over {} s", scale.window);
    }
    format!("{title}: {}", job.about)
}

struct Column {
    title: String,
    cells: Vec<String>,
}

impl Column {
    fn new(title: impl Into<String>, rows: &[&Row], cell: impl Fn(&Row) -> String) -> Self {
        Self { title: title.into(), cells: rows.iter().map(|row| cell(row)).collect() }
    }

    fn figure(title: &str, name: &str, rows: &[&Row]) -> Self {
        Self::new(title, rows, |row| row.median(name).map_or(UNMEASURED.to_owned(), number))
    }

    fn spread(name: &str, rows: &[&Row]) -> Self {
        Self::new("min–max", rows, |row| match row.figures.get(name) {
            Some(spread) => format!("{}–{}", number(spread.min), number(spread.max)),
            None => UNMEASURED.to_owned(),
        })
    }
}

/// A remark for each goal of the job whose figures were measured: the goal, the result, and whether
/// it is met.
fn goals(job: &Job, rows: &[&Row]) -> Vec<String> {
    job.goals.iter().filter_map(|goal| outcome(goal, rows)).collect()
}

fn outcome(goal: &Goal, rows: &[&Row]) -> Option<String> {
    let figure = |contestant: &str| rows.iter().find(|row| row.contestant == contestant)?.median(goal.figure);
    let ours = figure(goal.contestant)?;
    let Goal { contestant, figure: name, .. } = goal;
    let (what, found, limit, unit) = match goal.limit {
        Limit::Value(limit) => (format!("{contestant}: {name}"), ours, limit, ""),
        Limit::Times(limit, peer) => {
            (format!("{contestant} ÷ {peer}: {name}"), ratio(ours, figure(peer)?)?, limit, "×")
        }
        Limit::TimesOfLeastPerObject(_) | Limit::GrowthOf(_) => return None,
    };
    Some(verdict(&what, found, limit, unit))
}

/// The result of a goal about all sizes of a job. Nothing if there are not at least two.
fn outcome_across_sizes(job: &Job, goal: &Goal, rows: &[Row]) -> Option<String> {
    let Goal { contestant, figure, limit } = goal;
    let rows_of = |who: &'static str| rows.iter().filter(move |row| row.job == job.name && row.contestant == who);
    let growth = |who: &'static str| {
        let mut costs: Vec<_> = rows_of(who).filter_map(|row| Some((row.size, row.median(figure)?))).collect();
        costs.sort_by_key(|(size, _)| *size);
        let [(_, first), .., (_, last)] = costs[..] else { return None };
        ratio(last, first)
    };
    match *limit {
        Limit::TimesOfLeastPerObject(limit) => {
            let each = |row: &Row| row.median(figure).and_then(|cost| ratio(cost, row.size as f64));
            let mut costs: Vec<f64> = rows_of(contestant).filter_map(each).collect();
            costs.sort_by(f64::total_cmp);
            let [least, .., most] = costs[..] else { return None };
            let what = format!("{contestant}: {figure} for each object, most ÷ least of the {} sizes", costs.len());
            Some(verdict(&what, ratio(most, least)?, limit, "×"))
        }
        Limit::GrowthOf(peer) => {
            let what = format!("{contestant}: {figure}, largest size ÷ smallest, beside {peer}'s,");
            Some(verdict(&what, growth(contestant)?, growth(peer)?, "×"))
        }
        Limit::Value(_) | Limit::Times(..) => None,
    }
}

fn verdict(what: &str, found: f64, limit: f64, unit: &str) -> String {
    let verdict = if found <= limit { "met" } else { "missed" };
    format!("Goal {verdict}: {what} is {}{unit}, at most {}{unit} is wanted.", number(found), number(limit))
}

/// The columns that compare, and a remark about the direction. With one of our contestants, they
/// show our cost compared to each peer. Without one, they compare each peer to the first.
fn ratios(job: &Job, rows: &[&Row]) -> (Vec<Column>, String) {
    let times = |ratio: Option<f64>| ratio.map_or(UNMEASURED.to_owned(), |ratio| format!("{}×", number(ratio)));
    let ours: Vec<&&Row> = rows.iter().filter(|row| is_ours(row.contestant)).collect();
    let mut columns = Vec::new();
    for cost in job.costs {
        for our in &ours {
            columns.push(Column::new(format!("{} ÷ this: {cost}", our.contestant), rows, |row| {
                let compared = row.contestant != our.contestant;
                times(our.median(cost).zip(row.median(cost)).filter(|_| compared).and_then(|(a, b)| ratio(a, b)))
            }));
        }
        if let (true, Some(first)) = (ours.is_empty(), rows.first()) {
            columns.push(Column::new(format!("this ÷ {}: {cost}", first.contestant), rows, |row| {
                let compared = row.contestant != first.contestant;
                times(row.median(cost).zip(first.median(cost)).filter(|_| compared).and_then(|(a, b)| ratio(a, b)))
            }));
        }
    }
    let remark = match rows {
        [] | [_] => {
            columns.clear();
            "No other row to compare with.".to_owned()
        }
        _ if !ours.is_empty() => {
            "\"÷ this\" is our cost over that of the row: below 1× ours is the smaller.".to_owned()
        }
        [first, ..] => format!(
            "steersman does not take part: \"this ÷ {0}\" is the cost of the row over that of {0}, below 1× the row is the smaller.",
            first.contestant
        ),
    };
    (columns, remark)
}

/// A number with about three significant digits.
fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if value >= 99.95 => whole(value.round() as u64),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ if value >= 0.9995 => format!("{value:.2}"),
        _ if value >= 0.0995 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// A whole number with commas between thousands.
fn whole(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::figures::Answer;
    use super::super::jobs::JOBS;
    use super::*;

    fn row(contestant: &'static str, figures: &[(&str, f64)]) -> Row {
        let figures = figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Row::of("sync", contestant, 5000, &[Answer { count: 5000, figures }])
    }

    fn sync_table(rows: &[Row]) -> Table {
        let job = JOBS.iter().find(|job| job.name == "sync").expect("the job exists");
        Table::of(job, &job.quick, &rows.iter().collect::<Vec<_>>())
    }

    /// The cell of a contestant under a title.
    fn cell<'a>(table: &'a Table, contestant: &str, title: &str) -> &'a str {
        let column = table.header.iter().position(|header| header == title).expect("the column exists");
        &table.rows.iter().find(|row| row[0] == contestant).expect("the contestant has a row")[column]
    }

    #[test]
    fn numbers_keep_the_digits_that_matter() {
        for (value, text) in [
            (0.0, "0"),
            (0.01234, "0.0123"),
            (0.5, "0.500"),
            (0.9999, "1.00"),
            (2.345, "2.35"),
            (9.999, "10.0"),
            (45.67, "45.7"),
            (99.99, "100"),
            (1234567.8, "1,234,568"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!((whole(999).as_str(), whole(1000).as_str()), ("999", "1,000"));
    }

    #[test]
    fn our_cost_is_divided_by_that_of_each_peer() {
        let table = sync_table(&[
            row("steersman", &[("wall_s", 1.0), ("rss_mb", 50.0)]),
            row("client-go", &[("wall_s", 4.0), ("rss_mb", 100.0)]),
            row("curl", &[("wall_s", 0.1)]),
        ]);
        assert_eq!(cell(&table, "client-go", "steersman ÷ this: wall_s"), "0.250×");
        assert_eq!(cell(&table, "client-go", "steersman ÷ this: rss_mb"), "0.500×");
        assert_eq!(cell(&table, "curl", "steersman ÷ this: wall_s"), "10.0×");
        assert_eq!(cell(&table, "curl", "steersman ÷ this: rss_mb"), "–");
        assert_eq!(cell(&table, "steersman", "steersman ÷ this: wall_s"), "–");
    }

    #[test]
    fn goals_are_printed_with_their_results() {
        let job = Job {
            goals: &[
                Goal { contestant: "steersman", figure: "wall_s", limit: Limit::Times(0.1, "client-go") },
                Goal { contestant: "steersman", figure: "rss_mb", limit: Limit::Value(60.0) },
                Goal { contestant: "steersman", figure: "cpu_s", limit: Limit::Value(1.0) },
            ],
            ..*JOBS.iter().find(|job| job.name == "sync").expect("the job exists")
        };
        let ours = row("steersman", &[("wall_s", 1.0), ("rss_mb", 50.0)]);
        let theirs = row("client-go", &[("wall_s", 4.0)]);
        let expected = [
            "Goal missed: steersman ÷ client-go: wall_s is 0.250×, at most 0.100× is wanted.",
            "Goal met: steersman: rss_mb is 50.0, at most 60.0 is wanted.",
        ];
        assert_eq!(goals(&job, &[&ours, &theirs]), expected);
    }

    #[test]
    fn a_goal_about_all_sizes_compares_what_an_object_costs() {
        let goals = &[Goal { contestant: "steersman", figure: "cpu_s", limit: Limit::TimesOfLeastPerObject(1.2) }];
        let job = Job { goals, ..*JOBS.iter().find(|job| job.name == "sync").expect("the job exists") };
        let row = |job, contestant, size, cpu| {
            let figures = [("cpu_s".to_owned(), cpu)].into();
            Row::of(job, contestant, size, &[Answer { count: size, figures }])
        };
        let remarks_of = |rows: &[Row]| {
            let mut table = Table::of(&job, &job.quick, &[]);
            let before = table.remarks.len();
            table.add_goals_across_sizes(&job, rows);
            table.remarks.split_off(before)
        };
        let first = row("sync", "steersman", 100, 1.0);
        let others = [row("sync", "curl", 1000, 90.0), row("watch", "steersman", 1000, 90.0)];
        let alone = std::slice::from_ref(&first);
        assert!(remarks_of(alone).is_empty() && remarks_of(&[alone, &others[..]].concat()).is_empty());
        assert_eq!(
            remarks_of(&[first.clone(), row("sync", "steersman", 1000, 11.0), others[0].clone()]),
            [
                "Goal met: steersman: cpu_s for each object, most ÷ least of the 2 sizes is 1.10×, at most 1.20× is wanted."
            ]
        );
        assert_eq!(
            remarks_of(&[first, row("sync", "steersman", 500, 4.0), row("sync", "steersman", 1000, 9.0)]),
            [
                "Goal missed: steersman: cpu_s for each object, most ÷ least of the 3 sizes is 1.25×, at most 1.20× is wanted."
            ]
        );
    }

    #[test]
    fn growth_is_compared_with_that_of_a_peer() {
        let goals = &[Goal { contestant: "steersman", figure: "ns_per_item", limit: Limit::GrowthOf("client-go") }];
        let job = Job { goals, ..*JOBS.iter().find(|job| job.name == "workqueue-queued-1").expect("the job exists") };
        let row = |contestant, size, cost| {
            let figures = [("ns_per_item".to_owned(), cost)].into();
            Row::of(job.name, contestant, size, &[Answer { count: size, figures }])
        };
        let remarks_of = |ours: [f64; 2], peers: [f64; 2]| {
            let mut table = Table::of(&job, &job.quick, &[]);
            let before = table.remarks.len();
            let rows = [(100, 1), (10, 0)].map(|(size, i)| {
                [row("steersman", size, ours[i]), row("client-go", size, peers[i]), row("client-go", 50, 9e9)]
            });
            table.add_goals_across_sizes(&job, &rows.concat());
            table.remarks.split_off(before)
        };
        let what = "steersman: ns_per_item, largest size ÷ smallest, beside client-go's,";
        assert_eq!(
            remarks_of([2.0, 3.0], [10.0, 20.0]),
            [format!("Goal met: {what} is 1.50×, at most 2.00× is wanted.")]
        );
        assert_eq!(
            remarks_of([2.0, 5.0], [10.0, 20.0]),
            [format!("Goal missed: {what} is 2.50×, at most 2.00× is wanted.")]
        );
    }

    #[test]
    fn without_us_everyone_is_compared_to_the_first_as_the_table_shows() {
        let table = sync_table(&[row("client-go", &[("wall_s", 4.0)]), row("kube-rs", &[("wall_s", 1.0)])]);
        assert_eq!(cell(&table, "kube-rs", "this ÷ client-go: wall_s"), "0.250×");
        assert_eq!(cell(&table, "client-go", "this ÷ client-go: wall_s"), "–");
        assert!(table.plain().contains("the cost of the row over that of client-go"), "{}", table.plain());
    }

    #[test]
    fn a_contestant_alone_is_not_compared() {
        let table = sync_table(&[row("client-go", &[("wall_s", 4.0)])]);
        assert!(!table.plain().contains('÷'), "{}", table.plain());
    }

    #[test]
    fn plain_columns_are_aligned_and_unmeasured_cells_are_dashes() {
        let table =
            sync_table(&[row("client-go", &[("wall_s", 4.0), ("cpu_s", 12.5)]), row("curl", &[("wall_s", 0.1)])]);
        let plain = table.plain();
        let lines: Vec<&str> = plain.lines().collect();
        assert!(lines[0].starts_with("sync, 5,000: "), "{plain}");
        assert!(lines[2].starts_with("  client-go  ") && lines[3].starts_with("  curl       "), "{plain}");
        let end = |line: &str, text: &str| line[..line.find(text).expect(text) + text.len()].chars().count();
        assert_eq!(end(lines[1], "wall s"), end(lines[2], "4.00"));
        assert_eq!(end(lines[1], "CPU s"), end(lines[2], "12.5"));
        assert_eq!(cell(&table, "curl", "RSS MB"), "–");
        assert_eq!(cell(&table, "client-go", "min–max"), "4.00–4.00");
    }

    #[test]
    fn markdown_has_as_many_rules_as_columns() {
        let markdown = sync_table(&[row("client-go", &[("wall_s", 4.0)])]).markdown();
        let lines: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(lines.len(), 3);
        let bars = |line: &str| line.matches('|').count();
        assert!(lines.iter().all(|line| bars(line) == bars(lines[0])), "{markdown}");
        assert!(lines[1].starts_with("| --- | ---: |"), "{markdown}");
    }
}
