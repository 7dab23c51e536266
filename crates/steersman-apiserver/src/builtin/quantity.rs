//! Amounts of resources: `500m`, `1Gi`.

use std::cmp::Ordering;

/// The value of a quantity in units of 10⁻⁹, which is the finest there is.
pub(super) fn nano(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let negative = whole.starts_with('-');
    let whole = whole.trim_start_matches(['+', '-']);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let places = u32::try_from(fraction.len()).ok()?;
    let scale: i128 = match suffix {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => 1_000_000_000,
        "k" => 10_i128.pow(12),
        "M" => 10_i128.pow(15),
        "G" => 10_i128.pow(18),
        "T" => 10_i128.pow(21),
        "P" => 10_i128.pow(24),
        "E" => 10_i128.pow(27),
        "Ki" => 1_000_000_000 << 10,
        "Mi" => 1_000_000_000 << 20,
        "Gi" => 1_000_000_000 << 30,
        "Ti" => 1_000_000_000 << 40,
        "Pi" => 1_000_000_000 << 50,
        "Ei" => 1_000_000_000 << 60,
        other => 10_i128.checked_pow(u32::try_from(other.strip_prefix(['e', 'E'])?.parse::<i32>().ok()? + 9).ok()?)?,
    };
    let divisor = 10_i128.checked_pow(places)?;
    let value = digits.checked_mul(scale)?;
    let value = value / divisor + i128::from(value % divisor != 0);
    Some(if negative { -value } else { value })
}

/// Which of two quantities is more. Those that cannot be read count as nothing.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    nano(a).unwrap_or_default().cmp(&nano(b).unwrap_or_default())
}

/// The form in which the server keeps a quantity: the largest unit that leaves no fraction.
pub(super) fn canonical(text: &str) -> Option<String> {
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut value = nano(text)?;
    if value == 0 {
        return Some("0".to_owned());
    }
    let one = 1_000_000_000;
    if text.ends_with('i') && value.abs() >= 1024 * one {
        let mut value = value / one + i128::from(value % one != 0);
        let mut unit = 0;
        while unit + 1 < BINARY.len() && value % 1024 == 0 {
            (value, unit) = (value / 1024, unit + 1);
        }
        return Some(format!("{value}{}", BINARY[unit]));
    }
    let exponent = text.trim_start_matches(['+', '-', '.']).contains(['e', 'E']) && !text.ends_with('E');
    let mut unit = 0;
    while unit + 1 < DECIMAL.len() && value % 1000 == 0 {
        (value, unit) = (value / 1000, unit + 1);
    }
    if exponent && unit != 3 {
        return Some(format!("{value}e{}", (i32::try_from(unit).ok()? - 3) * 3));
    }
    Some(format!("{value}{}", DECIMAL[unit]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_kept_in_their_shortest_form() {
        for (given, kept) in [
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5", "500m"),
            ("1000", "1k"),
            ("512Ki", "512Ki"),
            ("0", "0"),
            ("100", "100"),
            ("-2000", "-2k"),
            ("1e3", "1e3"),
            ("128974848", "128974848"),
            ("0.5Ki", "512"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(kept), "{given}");
        }
        assert_eq!(canonical("x"), None);
        assert_eq!(compare("1024Mi", "1Gi"), Ordering::Equal);
        assert_eq!(compare("999m", "1"), Ordering::Less);
    }
}
