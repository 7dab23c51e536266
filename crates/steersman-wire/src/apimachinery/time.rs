//! Times as Go reads and writes them: RFC 3339, with Go's leniency and Go's error messages. The
//! calendar is jiff's.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, datetime};
use jiff::tz::Offset;

/// The beginning of the year 1 in seconds since 1970. In Go it means no time.
pub const ZERO: i64 = -62_135_596_800;

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// The calendar repeats after 400 years. So every number of seconds has a date, although jiff's
/// range ends with the year 9999.
const CYCLE_YEARS: i64 = 400;
const CYCLE_SECONDS: i64 = 146_097 * 86_400;

/// How exact a time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// `metav1.Time`: any fraction is read, and dropped.
    Seconds,
    /// `metav1.MicroTime`: exactly six digits are read and written.
    Microseconds,
}

impl Precision {
    /// The layout that Go's errors name.
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Microseconds => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Reads a time: the seconds since 1970 and the microseconds, which are 0 for
/// [`Precision::Seconds`]. The error is Go's.
///
/// ```
/// use steersman_wire::time::{self, Precision};
///
/// assert_eq!(time::parse("1970-01-01T02:00:01+02:00", Precision::Seconds), Ok((1, 0)));
/// assert_eq!(time::format(1, None), "1970-01-01T00:00:01Z");
/// ```
pub fn parse(text: &str, precision: Precision) -> Result<(i64, u32), String> {
    let mut parser = Parser { text, rest: text, layout: precision.layout() };
    let year = parser.digits(4..=4, "2006")?;
    parser.literal("-")?;
    let month = parser.digits(2..=2, "01")?;
    if !(1..=12).contains(&month) {
        return Err(parser.out_of_range("month"));
    }
    parser.literal("-")?;
    let day = parser.digits(2..=2, "02")?;
    parser.literal("T")?;
    let hour = parser.digits(1..=2, "15")?;
    if hour > 23 {
        return Err(parser.out_of_range("hour"));
    }
    parser.literal(":")?;
    let minute = parser.digits(2..=2, "04")?;
    if minute > 59 {
        return Err(parser.out_of_range("minute"));
    }
    parser.literal(":")?;
    let second = parser.digits(2..=2, "05")?;
    if second > 59 {
        return Err(parser.out_of_range("second"));
    }
    let micros = parser.fraction(precision)?;
    let offset = parser.zone()?;
    if !parser.rest.is_empty() {
        return Err(format!("parsing time {text:?}: extra text: {:?}", parser.rest));
    }
    // The year has four digits; the other numbers have two.
    let date = Date::new(year as i16, month as i8, day as i8).map_err(|_| parser.out_of_range("day"))?;
    let local = date.at(hour as i8, minute as i8, second as i8, 0).duration_since(EPOCH).as_secs();
    Ok((local - offset, micros))
}

/// Writes a time in UTC, with six digits of its second if `micros` are given.
pub fn format(seconds: i64, micros: Option<u32>) -> String {
    let (year, time) = civil(seconds);
    let mut text = Vec::with_capacity(27);
    match u32::try_from(year) {
        Ok(year @ 0..=9_999) => text.extend([year / 100, year % 100].map(digits).as_flattened()),
        _ => text.extend(format!("{}{:04}", if year < 0 { "-" } else { "" }, year.unsigned_abs()).bytes()),
    }
    push_after_year(&mut text, time, micros);
    // Digits and signs are ASCII.
    String::from_utf8_lossy(&text).into_owned()
}

/// Appends a time to `out`. Returns `None` and writes nothing if the year does not have four
/// digits.
pub(crate) fn push(out: &mut Vec<u8>, seconds: i64, micros: Option<u32>) -> Option<()> {
    let (year, time) = civil(seconds);
    let year = u32::try_from(year).ok().filter(|year| *year <= 9_999)?;
    out.extend_from_slice([year / 100, year % 100].map(digits).as_flattened());
    push_after_year(out, time, micros);
    Some(())
}

/// The year, and a time whose other fields are right.
fn civil(seconds: i64) -> (i64, DateTime) {
    let cycles = seconds.div_euclid(CYCLE_SECONDS);
    let within = Timestamp::from_second(seconds.rem_euclid(CYCLE_SECONDS));
    let time = Offset::UTC.to_datetime(within.expect("jiff knows the 400 years after 1970"));
    (i64::from(time.year()) + cycles * CYCLE_YEARS, time)
}

fn push_after_year(out: &mut Vec<u8>, time: DateTime, micros: Option<u32>) {
    let fields = [time.month(), time.day(), time.hour(), time.minute(), time.second()];
    let [[a, b], [c, d], [e, f], [g, h], [i, j]] = fields.map(|field| digits(u32::from(field.unsigned_abs())));
    out.extend_from_slice(&[b'-', a, b, b'-', c, d, b'T', e, f, b':', g, h, b':', i, j]);
    if let Some(micros) = micros {
        out.push(b'.');
        out.extend_from_slice([micros / 10_000, micros / 100 % 100, micros % 100].map(digits).as_flattened());
    }
    out.push(b'Z');
}

/// A number of two digits.
fn digits(number: u32) -> [u8; 2] {
    [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Parser<'_> {
    fn cannot_parse(&self, element: &str) -> String {
        format!("parsing time {:?} as {:?}: cannot parse {:?} as {element:?}", self.text, self.layout, self.rest)
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {:?}: {what} out of range", self.text)
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.cannot_parse(literal))?;
        Ok(())
    }

    /// As many digits as there are, within the range.
    fn digits(&mut self, count: std::ops::RangeInclusive<usize>, element: &str) -> Result<i64, String> {
        let found = self.rest.bytes().take(*count.end()).take_while(u8::is_ascii_digit).count();
        if found < *count.start() {
            return Err(self.cannot_parse(element));
        }
        let (digits, rest) = self.rest.split_at(found);
        self.rest = rest;
        Ok(digits.bytes().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    /// The microseconds.
    fn fraction(&mut self, precision: Precision) -> Result<u32, String> {
        let digits = self.rest.strip_prefix(['.', ',']).unwrap_or_default();
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        match precision {
            Precision::Seconds => {
                if count > 0 {
                    self.rest = &digits[count..];
                }
                Ok(0)
            }
            Precision::Microseconds if count < 6 => Err(self.cannot_parse(".000000")),
            Precision::Microseconds => {
                self.rest = digits;
                Ok(self.digits(6..=6, ".000000")? as u32)
            }
        }
    }

    /// The seconds east of UTC.
    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let number = |at: usize| match bytes.get(at..at + 2) {
            Some([tens @ b'0'..=b'9', ones @ b'0'..=b'9']) => {
                Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
            }
            _ => None,
        };
        let sign = match bytes.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(self.cannot_parse("Z07:00")),
        };
        let (Some(hours), Some(b':'), Some(minutes)) = (number(1), bytes.get(3), number(4)) else {
            return Err(self.cannot_parse("Z07:00"));
        };
        // Go allows one more hour than a day has.
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 3_600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time in UTC. `None` for Go's zero time.
    fn normalise(text: &str, precision: Precision) -> Result<Option<String>, String> {
        let (seconds, micros) = parse(text, precision)?;
        let is_zero = (seconds, micros) == (ZERO, 0);
        Ok((!is_zero).then(|| format(seconds, (precision == Precision::Microseconds).then_some(micros))))
    }

    /// What a real server makes of the `firstTimestamp` of an Event.
    #[test]
    fn times_are_read_as_the_real_server_reads_them() {
        for (text, expected) in [
            ("2020-01-01T00:00:00Z", Ok("2020-01-01T00:00:00Z")),
            ("2020-01-01T00:00:00.999+02:00", Ok("2019-12-31T22:00:00Z")),
            ("2020-01-01T0:00:00Z", Ok("2020-01-01T00:00:00Z")),
            ("2020-01-01T00:00:00,5Z", Ok("2020-01-01T00:00:00Z")),
            ("2020-01-01T00:00:00-00:00", Ok("2020-01-01T00:00:00Z")),
            ("2020-01-01T00:00:00+24:00", Ok("2019-12-31T00:00:00Z")),
            ("2020-01-01T00:00:00+23:60", Ok("2019-12-31T00:00:00Z")),
            ("0000-01-01T00:00:00Z", Ok("0000-01-01T00:00:00Z")),
            ("9999-12-31T23:59:59-01:00", Ok("10000-01-01T00:59:59Z")),
            ("2020-02-29T23:59:59-00:01", Ok("2020-03-01T00:00:59Z")),
            ("x", Err(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#)),
            ("", Err(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#)),
            ("20200101", Err(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "0101" as "-""#)),
            ("2020-01-01", Err(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#)),
            ("2020-01-01 00:00:00Z", Err(r#" as "2006-01-02T15:04:05Z07:00": cannot parse " 00:00:00Z" as "T""#)),
            ("2020-1-01T00:00:00Z", Err(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "1-01T00:00:00Z" as "01""#)),
            ("2020-01-01T00:0x:00Z", Err(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "0x:00Z" as "04""#)),
            ("2020-01-01T00:00:00", Err(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00""#)),
            ("2020-01-01T00:00:00.Z", Err(r#" as "2006-01-02T15:04:05Z07:00": cannot parse ".Z" as "Z07:00""#)),
            ("2020-01-01T00:00:00+0200", Err(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "+0200" as "Z07:00""#)),
            ("2020-01-01T00:00:00+2:00", Err(r#" as "2006-01-02T15:04:05Z07:00": cannot parse "+2:00" as "Z07:00""#)),
            ("2020-01-01T00:00:00Zx", Err(r#": extra text: "x""#)),
            ("2020-13-01T00:00:00Z", Err(": month out of range")),
            ("2020-00-01T00:00:00Z", Err(": month out of range")),
            ("2020-02-30T00:00:00Z", Err(": day out of range")),
            ("2020-01-00T00:00:00Z", Err(": day out of range")),
            ("2020-01-01T24:00:00Z", Err(": hour out of range")),
            ("2020-01-01T00:60:00Z", Err(": minute out of range")),
            ("2020-01-01T00:00:60Z", Err(": second out of range")),
            ("2020-01-01T00:00:00+25:00", Err(": time zone offset hour out of range")),
        ] {
            let expected =
                expected.map(|time| Some(time.to_owned())).map_err(|error| format!("parsing time {text:?}{error}"));
            assert_eq!(normalise(text, Precision::Seconds), expected);
        }
    }

    /// What a real server makes of the `renewTime` of a Lease.
    #[test]
    fn microseconds_are_six_digits() {
        let normalise = |text| normalise(text, Precision::Microseconds);
        assert_eq!(normalise("2020-01-01T00:00:00.123456+02:00"), Ok(Some("2019-12-31T22:00:00.123456Z".to_owned())));
        for (text, rest) in [
            ("2020-01-01T00:00:00Z", r#"cannot parse "Z" as ".000000""#),
            ("2020-01-01T00:00:00.123Z", r#"cannot parse ".123Z" as ".000000""#),
            ("2020-01-01T00:00:00.1234567Z", r#"cannot parse "7Z" as "Z07:00""#),
        ] {
            let error = format!(r#"parsing time {text:?} as "2006-01-02T15:04:05.000000Z07:00": {rest}"#);
            assert_eq!(normalise(text), Err(error));
        }
    }

    #[test]
    fn gos_zero_time_is_no_time() {
        assert_eq!(normalise("0001-01-01T00:00:00Z", Precision::Seconds), Ok(None));
        assert_eq!(normalise("0001-01-01T00:00:00.000000Z", Precision::Microseconds), Ok(None));
        assert_eq!(normalise("0001-01-01T01:00:00+01:00", Precision::Seconds), Ok(None));
    }

    #[test]
    fn every_day_of_four_centuries_is_written_and_read_again() {
        let mut last = String::new();
        for day in -80_000..80_000 {
            let text = format(day * 86_400, None);
            assert_eq!(parse(&text, Precision::Seconds), Ok((day * 86_400, 0)), "{text}");
            assert!(text > last, "{text} after {last}");
            last = text;
        }
    }

    #[test]
    fn times_are_written_and_read_again() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_199_149_261, "2008-01-01T01:01:01Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (ZERO, "0001-01-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            let mut pushed = Vec::new();
            push(&mut pushed, seconds, None).expect(text);
            assert_eq!((format(seconds, None).as_str(), pushed.as_slice()), (text, text.as_bytes()));
            assert_eq!(parse(text, Precision::Seconds), Ok((seconds, 0)), "{text}");
        }
        assert_eq!(format(1, Some(42)), "1970-01-01T00:00:01.000042Z");
        assert_eq!(parse("1970-01-01T00:00:01.000042Z", Precision::Microseconds), Ok((1, 42)));
    }

    #[test]
    fn years_without_four_digits_are_written_but_not_pushed() {
        for (seconds, text) in [
            (253_402_300_800, "10000-01-01T00:00:00Z"),
            (-62_167_219_201, "-0001-12-31T23:59:59Z"),
            (i64::MAX, "292277026596-12-04T15:30:07Z"),
            (i64::MIN, "-292277022657-01-27T08:29:52Z"),
        ] {
            assert_eq!(format(seconds, None), text);
            assert_eq!(push(&mut Vec::new(), seconds, None), None, "{text}");
        }
    }

    #[test]
    fn text_that_is_not_ascii_is_an_error() {
        for text in ["２０２０-01-01T00:00:00Z", "2020-01-01T00:00:00+é9:00", "2020-01-01T00:00:00+0é:00", "é"] {
            assert!(normalise(text, Precision::Seconds).is_err());
            assert!(normalise(text, Precision::Microseconds).is_err());
        }
    }
}
