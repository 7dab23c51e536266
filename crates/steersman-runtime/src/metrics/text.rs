//! Prometheus' text format, version 0.0.4, from that of OpenMetrics.
//!
//! controller-runtime serves this one, and dashboards know its `le` values: `1` where OpenMetrics
//! has `1.0`.

/// The media type of [`from_open_metrics`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Converts a whole exposition.
pub(crate) fn from_open_metrics(text: &str) -> String {
    let mut converted = String::with_capacity(text.len());
    // The help of a family comes before its type, which decides its name.
    let mut help = None;
    for line in text.lines() {
        if let Some(line) = line.strip_prefix("# HELP ") {
            help = line.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                converted.extend(["# HELP ", name, suffix, " ", help, "\n"]);
            }
            converted.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            push_sample(&mut converted, line);
        }
    }
    converted
}

/// Leaves out an exemplar, which this format does not have, and writes the bound of a bucket as Go.
fn push_sample(converted: &mut String, line: &str) {
    let end = labels_end(line);
    let (series, value) = line.split_at(end);
    let value = value.split_once(" # ").map_or(value, |(value, _)| value);
    match series.split_once("_bucket{le=\"") {
        Some((name, rest)) if !name.contains('{') => {
            let (bound, rest) = rest.split_once('"').unwrap_or((rest, ""));
            converted.extend([name, "_bucket{le=\"", &as_go_writes(bound), "\"", rest]);
        }
        _ => converted.push_str(series),
    }
    converted.extend([value, "\n"]);
}

/// A number in the form of Go's `strconv.FormatFloat(…, 'g', -1, 64)`.
fn as_go_writes(number: &str) -> String {
    let Ok(value) = number.parse::<f64>() else { return number.to_owned() };
    if value.is_infinite() {
        return number.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Where the name and the labels of a sample end.
fn labels_end(line: &str) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (place, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return place + 1,
            b' ' if !quoted => return place,
            _ => {}
        }
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_keep_their_suffix_and_bounds_are_those_of_go() {
        let open_metrics = "\
# HELP adds Help with spaces.
# TYPE adds counter
adds_total{name=\"a } # {x} \\\" b\"} 3 # {trace=\"1\"} 1.0
# HELP time Seconds.
# TYPE time histogram
# UNIT time seconds
time_sum{c=\"p\"} 1.5
time_count{c=\"p\"} 2
time_bucket{le=\"1.0\",c=\"p\"} 1
time_bucket{le=\"0.005\",c=\"p\"} 1
time_bucket{le=\"1e-8\",c=\"1.0\"} 1 # {trace=\"1\"} 0.67
time_bucket{le=\"+Inf\",c=\"p\"} 2
# HELP build Info.
# TYPE build info
build_info{v=\"1\"} 1
# TYPE other unknown
other 1.0
# EOF
";
        let prometheus = "\
# HELP adds_total Help with spaces.
# TYPE adds_total counter
adds_total{name=\"a } # {x} \\\" b\"} 3
# HELP time Seconds.
# TYPE time histogram
time_sum{c=\"p\"} 1.5
time_count{c=\"p\"} 2
time_bucket{le=\"1\",c=\"p\"} 1
time_bucket{le=\"0.005\",c=\"p\"} 1
time_bucket{le=\"1e-08\",c=\"1.0\"} 1
time_bucket{le=\"+Inf\",c=\"p\"} 2
# HELP build_info Info.
# TYPE build_info gauge
build_info{v=\"1\"} 1
# TYPE other untyped
other 1.0
";
        assert_eq!(from_open_metrics(open_metrics), prometheus);
    }

    #[test]
    fn bounds_are_written_as_go_writes_them() {
        let cases = [("1.0", "1"), ("0.0001", "0.0001"), ("1e-5", "1e-05"), ("262144.0", "262144"), ("1000.0", "1000")];
        for (number, go) in cases.into_iter().chain([("1048576.0", "1.048576e+06"), ("+Inf", "+Inf"), ("2.5", "2.5")]) {
            assert_eq!(as_go_writes(number), go);
        }
    }
}
