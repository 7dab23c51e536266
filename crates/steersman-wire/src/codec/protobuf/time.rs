//! Times: seconds since 1970 in messages, texts in JSON.

use smallvec::SmallVec;

use crate::apimachinery::calendar::{civil_from_days, days_from_civil};

/// The beginning of the year 1, which Go takes for no time at all.
pub(super) const ZERO: i64 = -62_135_596_800;
const DAY: i64 = 86_400;

/// The text of a time, with six digits of its second or none; none for a year that has not four digits.
pub(super) fn format(seconds: i64, micros: Option<u32>) -> Option<SmallVec<[u8; 27]>> {
    let (year, month, day) = civil_from_days(seconds.div_euclid(DAY));
    if !(0..=9_999).contains(&year) {
        return None;
    }
    let rest = seconds.rem_euclid(DAY) as u32;
    let (year, month, day) = (year as u32, month as u32, day as u32);
    let [[a, b], [c, d], [e, f], [g, h]] = [year / 100, year % 100, month, day].map(digits);
    let [[i, j], [k, l], [m, n]] = [rest / 3_600, rest / 60 % 60, rest % 60].map(digits);
    let seconds = [a, b, c, d, b'-', e, f, b'-', g, h, b'T', i, j, b':', k, l, b':', m, n];
    let mut text = SmallVec::from_slice(&seconds);
    if let Some(micros) = micros {
        text.push(b'.');
        text.extend([micros / 10_000, micros / 100 % 100, micros % 100].map(digits).into_iter().flatten());
    }
    text.push(b'Z');
    Some(text)
}

/// A number of two digits.
fn digits(number: u32) -> [u8; 2] {
    [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]
}

/// Seconds and nanoseconds of a text as RFC 3339 has it.
pub(super) fn parse(text: &str) -> Option<(i64, u32)> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let is = |place: usize, character: u8| (text.as_bytes().get(place) == Some(&character)).then_some(());
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')].into_iter().try_for_each(|(at, byte)| is(at, byte))?;
    if hour > 23 || minute > 59 || second > 59 || !(1..=12).contains(&month) {
        return None;
    }
    let day_number = days_from_civil(year, month, day);
    if civil_from_days(day_number) != (year, month, day) {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=9).contains(&length) {
            return None;
        }
        nanos = fraction[..length].parse::<u32>().ok()? * 10_u32.pow(9 - length as u32);
        rest = &fraction[length..];
    }
    let offset = match rest.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let at = text.len() - 5;
            let (hours, minutes) = (number(at, at + 2)?, number(at + 3, at + 5)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 3_600 + minutes * 60) * if *sign == b'+' { 1 } else { -1 }
        }
        _ => return None,
    };
    Some((day_number * DAY + hour * 3_600 + minute * 60 + second - offset, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (-62_135_596_800, "0001-01-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(format(seconds, None).as_deref(), Some(text.as_bytes()));
            assert_eq!(parse(text), Some((seconds, 0)), "{text}");
        }
        assert_eq!(format(253_402_300_800, None), None);
        assert_eq!(format(i64::MAX / 2, None), None);
        assert_eq!(format(1, Some(42)).as_deref(), Some(&b"1970-01-01T00:00:01.000042Z"[..]));
    }

    #[test]
    fn fractions_and_offsets_are_heeded() {
        assert_eq!(parse("1970-01-01T00:00:01.000042Z"), Some((1, 42_000)));
        assert_eq!(parse("1970-01-01T00:00:01.5Z"), Some((1, 500_000_000)));
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Some((0, 0)));
        assert_eq!(parse("1969-12-31T18:30:00-05:30"), Some((0, 0)));
        for wrong in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-02-30T00:00:00Z",
            "1970-13-01T00:00:00Z",
            "1970-00-01T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:60Z",
            "1970-01-01 00:00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00.0000000001Z",
            "1970-01-01T00:00:00+1:00",
            "1970-01-01T00:00:00Zx",
            "+970-01-01T00:00:00Z",
            "１970-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
