//! Curves: cost against size, both logarithmic, as SVG. One panel per job that was measured at
//! several sizes.

use super::contestants::CONTESTANTS;
use super::figures::Row;
use super::jobs::Job;

const COLUMNS: usize = 2;
const PANEL_WIDTH: f64 = 460.0;
const PANEL_HEIGHT: f64 = 320.0;
/// Between a panel's edge and its axes.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 52.0;
/// Above all panels, for title and legend.
const HEAD: f64 = 64.0;
/// Dark enough to read on white, and distinguishable by lightness alone.
const COLOURS: [&str; 6] = ["#0b5cad", "#d1495b", "#2e8b57", "#8a5a00", "#6a3d9a", "#333333"];

/// Whether this job gives a curve at these sizes.
pub(crate) fn has_curve(sizes: &[u64]) -> bool {
    sizes.len() > 1
}

/// Draws every job of `jobs` that has a curve in `rows`.
pub(crate) fn svg(jobs: &[&Job], rows: &[Row]) -> String {
    let panels = panels(jobs, rows);
    let contestants = CONTESTANTS.iter().map(|contestant| contestant.name);
    let contestants: Vec<&str> = contestants
        .filter(|name| panels.iter().flat_map(|panel| &panel.curves).any(|curve| curve.contestant == *name))
        .collect();
    let columns = panels.len().clamp(1, COLUMNS);
    let (width, height) = (columns as f64 * PANEL_WIDTH, HEAD + panels.len().div_ceil(columns) as f64 * PANEL_HEIGHT);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    out += &text(16.0, 24.0, "start", "font-size=\"16\" font-weight=\"bold\"", "Cost against size (lower is better)");
    out += &legend(&contestants);
    for (index, panel) in panels.iter().enumerate() {
        let (x, y) = ((index % columns) as f64 * PANEL_WIDTH, HEAD + (index / columns) as f64 * PANEL_HEIGHT);
        out += &format!("<g transform=\"translate({x} {y})\">\n{}</g>\n", panel.svg());
    }
    out + "</svg>\n"
}

/// The panels of all jobs that have curves. Those of one figure have one axis for it, so that they
/// can be compared.
fn panels<'a>(jobs: &[&'a Job], rows: &'a [Row]) -> Vec<Panel<'a>> {
    let mut panels: Vec<Panel<'a>> = jobs.iter().filter_map(|job| Panel::of(job, rows)).collect();
    let ranges: Vec<(&str, f64, f64)> = panels.iter().map(Panel::range).collect();
    for panel in &mut panels {
        let same = || ranges.iter().filter(|(figure, ..)| *figure == panel.job.costs[0]);
        let least = same().map(|(_, least, _)| *least).fold(f64::INFINITY, f64::min);
        let most = same().map(|(_, _, most)| *most).fold(0.0, f64::max);
        panel.costs = marks(least, most);
    }
    panels
}

/// A contestant has the same colour in every plot.
fn colour(contestant: &str) -> &'static str {
    let index = CONTESTANTS.iter().position(|other| other.name == contestant).unwrap_or(0);
    COLOURS[index % COLOURS.len()]
}

fn legend(contestants: &[&str]) -> String {
    let (mut out, mut x) = (String::new(), 16.0);
    for contestant in contestants {
        let colour = colour(contestant);
        out += &format!("<rect x=\"{x}\" y=\"38\" width=\"18\" height=\"10\" fill=\"{colour}\"/>\n");
        out += &text(x + 24.0, 48.0, "start", "", contestant);
        // Letters of this size are about 7 wide.
        x += 24.0 + contestant.chars().count() as f64 * 7.0 + 20.0;
    }
    out
}

fn text(x: f64, y: f64, anchor: &str, attributes: &str, content: &str) -> String {
    let content = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {attributes}>{content}</text>\n")
}

/// One job's curves.
struct Panel<'a> {
    job: &'a Job,
    curves: Vec<Curve<'a>>,
    /// The sizes that were measured, rising.
    sizes: Vec<u64>,
    /// The marks on the cost axis, rising; the first and the last are its ends.
    costs: Vec<f64>,
}

/// One contestant's points.
struct Curve<'a> {
    contestant: &'a str,
    points: Vec<Point>,
}

struct Point {
    size: u64,
    cost: f64,
    min: f64,
    max: f64,
}

impl<'a> Panel<'a> {
    /// The panel of a job, if there are curves for it. A cost of 0 has no place on a logarithmic
    /// axis.
    fn of(job: &'a Job, rows: &'a [Row]) -> Option<Self> {
        let mut curves: Vec<Curve<'a>> = Vec::new();
        for row in rows.iter().filter(|row| row.job == job.name) {
            let Some(spread) = row.figures.get(job.costs[0]).filter(|spread| spread.min > 0.0) else { continue };
            let point = Point { size: row.size, cost: spread.median, min: spread.min, max: spread.max };
            match curves.iter_mut().find(|curve| curve.contestant == row.contestant) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve { contestant: row.contestant, points: vec![point] }),
            }
        }
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let mut sizes: Vec<u64> = points().map(|point| point.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if !has_curve(&sizes) {
            return None;
        }
        for curve in &mut curves {
            curve.points.sort_by_key(|point| point.size);
        }
        Some(Self { job, curves, sizes, costs: Vec::new() })
    }

    /// The figure on the cost axis, the least and the most of it.
    fn range(&self) -> (&'a str, f64, f64) {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let least = points().map(|point| point.min).fold(f64::INFINITY, f64::min);
        (self.job.costs[0], least, points().map(|point| point.max).fold(0.0, f64::max))
    }

    fn x(&self, size: u64) -> f64 {
        let place = share(size as f64, self.sizes[0] as f64, self.sizes[self.sizes.len() - 1] as f64);
        LEFT + place * (PANEL_WIDTH - LEFT - RIGHT)
    }

    fn y(&self, cost: f64) -> f64 {
        let place = share(cost, self.costs[0], self.costs[self.costs.len() - 1]);
        PANEL_HEIGHT - BOTTOM - place * (PANEL_HEIGHT - TOP - BOTTOM)
    }

    fn svg(&self) -> String {
        let (right, bottom) = (PANEL_WIDTH - RIGHT, PANEL_HEIGHT - BOTTOM);
        let mut out = text(LEFT, TOP - 16.0, "start", "font-size=\"14\" font-weight=\"bold\"", self.job.name);
        for cost in &self.costs {
            let y = self.y(*cost);
            out += &format!("<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#dddddd\"/>\n");
            out += &text(LEFT - 8.0, y + 4.0, "end", "", &short(*cost));
        }
        for size in &self.sizes {
            let x = self.x(*size);
            out += &format!("<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#dddddd\"/>\n");
            out += &text(x, bottom + 18.0, "middle", "", &short(*size as f64));
        }
        out += &format!("<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#222222\"/>\n");
        out += &text((LEFT + right) / 2.0, bottom + 38.0, "middle", "", "size");
        let middle = (TOP + bottom) / 2.0;
        let turned = format!("transform=\"rotate(-90 18 {middle:.1})\"");
        out += &text(18.0, middle, "middle", &turned, self.job.costs[0]);
        for curve in &self.curves {
            out += &self.curve(curve, colour(curve.contestant));
        }
        out
    }

    /// A line through the medians; a bar at each from the least to the most.
    fn curve(&self, curve: &Curve<'_>, colour: &str) -> String {
        let places: Vec<String> =
            curve.points.iter().map(|point| format!("{:.1},{:.1}", self.x(point.size), self.y(point.cost))).collect();
        let mut out = format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"><title>{}</title></polyline>\n",
            places.join(" "),
            curve.contestant
        );
        for point in &curve.points {
            let (x, y) = (self.x(point.size), self.y(point.cost));
            let (low, high) = (self.y(point.min), self.y(point.max));
            out += &format!("<path d=\"M{x:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\"/>\n");
            out += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>\n");
        }
        out
    }
}

/// Where `value` is between `low` (0) and `high` (1) on a logarithmic axis.
fn share(value: f64, low: f64, high: f64) -> f64 {
    (value / low).ln() / (high / low).ln()
}

/// Round numbers that enclose `least` and `most`: 1, 2, 5, 10, 20, … or, over a wide range, powers
/// of ten.
fn marks(least: f64, most: f64) -> Vec<f64> {
    let steps: &[f64] = if most / least > 500.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let lowest = least.log10().floor() as i32 - 1;
    let highest = most.log10().ceil() as i32 + 1;
    let all: Vec<f64> =
        (lowest..=highest).flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power))).collect();
    let first = all.iter().rposition(|mark| *mark < least).unwrap_or(0);
    let last = all.iter().position(|mark| *mark > most).unwrap_or(all.len() - 1);
    all[first..=last].to_vec()
}

/// A round number in few letters.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", value / 1e6),
        _ if value >= 1e3 => format!("{}k", value / 1e3),
        _ if value >= 1.0 => format!("{value:.0}"),
        // Removes rounding errors of binary fractions.
        _ => format!("{value:.6}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::Answer;
    use super::super::jobs::JOBS;
    use super::*;

    fn job() -> &'static Job {
        JOBS.iter().find(|job| job.name == "workqueue-together-1").expect("the job exists")
    }

    fn row(contestant: &'static str, size: u64, cost: f64) -> Row {
        row_of(job(), contestant, size, cost)
    }

    fn row_of(job: &Job, contestant: &'static str, size: u64, cost: f64) -> Row {
        let figures = [("wall_s".to_owned(), 1.0), (job.costs[0].to_owned(), cost)].into();
        Row::of(job.name, contestant, size, &[Answer { count: size, figures }])
    }

    fn two_curves() -> Vec<Row> {
        vec![
            row("steersman", 1_000, 100.0),
            row("client-go", 1_000, 400.0),
            row("client-go", 1_000_000, 900.0),
            row("steersman", 1_000_000, 200.0),
        ]
    }

    #[test]
    fn marks_hold_every_cost_between_them() {
        assert_eq!(marks(130.0, 900.0), [100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(marks(100.0, 100.0), [50.0, 100.0, 200.0]);
        assert_eq!(marks(3.0, 40_000.0), [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0]);
    }

    #[test]
    fn axes_are_logarithmic() {
        assert!((share(10.0, 1.0, 1000.0) - 1.0 / 3.0).abs() < 1e-9);
        let rows = two_curves();
        let panels = panels(&[job()], &rows);
        let panel = panels.first().expect("there are curves");
        assert!((panel.x(1_000) - LEFT).abs() < 1e-9);
        assert!((panel.x(1_000_000) - (PANEL_WIDTH - RIGHT)).abs() < 1e-9);
        assert!(panel.y(200.0) < panel.y(100.0), "more is higher up");
    }

    #[test]
    fn panels_of_one_figure_have_one_axis() {
        let other = JOBS.iter().find(|job| job.name == "workqueue-queued-1").expect("the job exists");
        let mut rows = two_curves();
        rows.extend([row_of(other, "client-go", 1_000, 40.0), row_of(other, "client-go", 10_000, 3_000.0)]);
        let panels = panels(&[job(), other], &rows);
        assert_eq!(panels[0].costs, [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0]);
        assert_eq!(panels[0].costs, panels[1].costs);
        assert_eq!(panels[1].sizes, [1_000, 10_000]);
    }

    #[test]
    fn every_contestant_has_one_line_and_stands_in_the_legend() {
        let svg = svg(&[job()], &two_curves());
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 4);
        for text in [">steersman</text>", ">client-go</text>", ">ns_per_item</text>", ">1M</text>", ">500</text>"] {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert!(svg.ends_with("</svg>\n"));
    }

    #[test]
    fn a_single_size_is_no_curve() {
        let rows = [row("steersman", 1_000, 100.0), row("client-go", 1_000, 400.0)];
        assert!(Panel::of(job(), &rows).is_none());
    }

    #[test]
    fn round_numbers_are_short() {
        assert_eq!(["1M", "20k", "500", "0.05"], [1e6, 2e4, 500.0, 0.05].map(short).each_ref().map(String::as_str));
    }
}
