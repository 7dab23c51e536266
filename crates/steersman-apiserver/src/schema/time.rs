//! Times as Go reads and writes them: RFC 3339, with Go's own leniency and Go's error messages.

use steersman_wire::calendar::{civil_from_days, days_from_civil};

/// How exact a time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
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

/// Reads a time and writes it in UTC. `None` is Go's zero time, which is written as null.
pub(crate) fn normalise(text: &str, precision: Precision) -> Result<Option<String>, String> {
    let mut reader = Reader { text, rest: text, layout: precision.layout() };
    let year = reader.digits(4..=4, "2006")?;
    reader.literal("-")?;
    let month = reader.digits(2..=2, "01")?;
    if !(1..=12).contains(&month) {
        return Err(reader.out_of_range("month"));
    }
    reader.literal("-")?;
    let day = reader.digits(2..=2, "02")?;
    reader.literal("T")?;
    let hour = reader.digits(1..=2, "15")?;
    if hour > 23 {
        return Err(reader.out_of_range("hour"));
    }
    reader.literal(":")?;
    let minute = reader.digits(2..=2, "04")?;
    if minute > 59 {
        return Err(reader.out_of_range("minute"));
    }
    reader.literal(":")?;
    let second = reader.digits(2..=2, "05")?;
    if second > 59 {
        return Err(reader.out_of_range("second"));
    }
    let micros = reader.fraction(precision)?;
    let offset = reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(format!("parsing time {text:?}: extra text: {:?}", reader.rest));
    }
    if day < 1 || day > days_in(year, month) {
        return Err(reader.out_of_range("day"));
    }
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    if seconds == days_from_civil(1, 1, 1) * 86_400 && micros == 0 {
        return Ok(None);
    }
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let sign = if year < 0 { "-" } else { "" };
    let year = year.abs();
    let written = format!("{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    Ok(Some(match precision {
        Precision::Seconds => format!("{written}Z"),
        Precision::Microseconds => format!("{written}.{micros:06}Z"),
    }))
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
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
    fn fraction(&mut self, precision: Precision) -> Result<i64, String> {
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
                self.digits(6..=6, ".000000")
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
        // Go allows one more than there are.
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

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a real server made of the `firstTimestamp` of an Event.
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

    /// What a real server made of the `renewTime` of a Lease.
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
    fn days_and_dates_agree() {
        for days in (-800_000..3_000_000).step_by(7) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            assert!((1..=12).contains(&month) && day >= 1 && day <= days_in(year, month), "{year}-{month}-{day}");
        }
        assert_eq!(civil_from_days(0), (1970, 1, 1));
    }

    #[test]
    fn text_that_is_not_ascii_is_an_error() {
        for text in ["２０２０-01-01T00:00:00Z", "2020-01-01T00:00:00+é9:00", "2020-01-01T00:00:00+0é:00", "é"] {
            assert!(normalise(text, Precision::Seconds).is_err());
            assert!(normalise(text, Precision::Microseconds).is_err());
        }
    }
}
