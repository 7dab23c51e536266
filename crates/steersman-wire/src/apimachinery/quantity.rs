//! Quantities as Go reads and writes them: `1000m` is `1`, `1024Mi` is `1Gi`, and a quantity in
//! canonical form stays as it is written.

use std::cmp::Ordering;

const WRONG_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_NUMBER: &str = "unable to parse numeric part of quantity";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";
/// More digits are refused. Go accepts any number of them, and takes time accordingly.
const DIGITS_MAX: usize = 1_000;
/// Smaller amounts are rounded up to 10^-9.
const NANO: i64 = -9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `12M`
    DecimalSi,
    /// `12Mi`
    BinarySi,
    /// `12e6`
    DecimalExponent,
}

/// Reads a quantity and writes it in its canonical form. The error is Go's.
///
/// ```
/// use steersman_wire::canonical_quantity;
///
/// assert_eq!(canonical_quantity("1000m").as_deref(), Ok("1"));
/// assert_eq!(canonical_quantity("2048Mi").as_deref(), Ok("2Gi"));
/// assert!(canonical_quantity("much").is_err());
/// ```
pub fn canonical_quantity(text: &str) -> Result<String, &'static str> {
    let quantity = Quantity::parse(text)?;
    if quantity.is_canonical() {
        return Ok(text.to_owned());
    }
    let (amount, format) = quantity.amount();
    Ok(amount.write(quantity.parts.negative, format))
}

/// Compares two quantities by their amounts. The first that cannot be read is the error, which is
/// Go's.
///
/// ```
/// use steersman_wire::compare_quantity;
///
/// assert!(compare_quantity("1024Mi", "1Gi")?.is_eq());
/// assert!(compare_quantity("999m", "1")?.is_lt());
/// # Ok::<(), &'static str>(())
/// ```
pub fn compare_quantity(a: &str, b: &str) -> Result<Ordering, &'static str> {
    let (a, b) = (Quantity::parse(a)?, Quantity::parse(b)?);
    let ((amount_a, _), (amount_b, _)) = (a.amount(), b.amount());
    // -1, 0 or 1.
    let sign = |quantity: &Quantity<'_>, amount: &Amount| match (amount.is_zero(), quantity.parts.negative) {
        (true, _) => 0,
        (false, true) => -1,
        (false, false) => 1,
    };
    let (sign_a, sign_b) = (sign(&a, &amount_a), sign(&b, &amount_b));
    Ok(sign_a.cmp(&sign_b).then_with(|| {
        let order = amount_a.compare(&amount_b);
        if sign_a < 0 { order.reverse() } else { order }
    }))
}

/// A quantity as it is written.
struct Quantity<'a> {
    parts: Parts<'a>,
    /// The exponent of the suffix, to the base of the format.
    exponent: i32,
    format: Format,
}

impl<'a> Quantity<'a> {
    fn parse(text: &'a str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err(WRONG_FORMAT);
        }
        let parts = Parts::of(text)?;
        let (exponent, format) = suffix(parts.suffix).ok_or(WRONG_SUFFIX)?;
        let quantity = Self { parts, exponent, format };
        if quantity.digits() > DIGITS_MAX { Err(WRONG_NUMBER) } else { Ok(quantity) }
    }

    fn digits(&self) -> usize {
        self.parts.digits.len() + self.parts.fraction.len()
    }

    /// Whether Go holds it in a machine word, without rounding.
    fn is_exact(&self) -> bool {
        let digits = self.digits();
        match self.format {
            Format::DecimalSi | Format::DecimalExponent => digits <= 18 && self.scale() >= NANO,
            Format::BinarySi => {
                let room = 15 - digits as i64 - i64::from(self.exponent) * 3 / 10 - 1;
                self.parts.fraction.is_empty() && room >= 0
            }
        }
    }

    /// The power of ten of the last digit of a decimal format.
    fn scale(&self) -> i64 {
        i64::from(self.exponent) - self.parts.fraction.len() as i64
    }

    /// Whether Go keeps the text as it is.
    fn is_canonical(&self) -> bool {
        let Parts { digits, fraction, .. } = self.parts;
        self.is_exact()
            && match self.format {
                Format::DecimalSi | Format::DecimalExponent => {
                    let all = || digits.bytes().chain(fraction.bytes());
                    let ends_in_thousands = self.digits() >= 3 && all().rev().take(3).all(|digit| digit == b'0');
                    self.scale() % 3 == 0 && !ends_in_thousands && all().next() != Some(b'0')
                }
                Format::BinarySi => Amount::new(digits, fraction).last_digits(3) & 7 != 0,
            }
    }

    /// The amount without its sign, rounded as Go rounds it, and the format in which Go writes it.
    fn amount(&self) -> (Amount, Format) {
        let (mut amount, mut format) = (Amount::new(self.parts.digits, self.parts.fraction), self.format);
        match format {
            Format::DecimalSi | Format::DecimalExponent => amount.exponent += i64::from(self.exponent),
            Format::BinarySi => amount.shift_left(self.exponent),
        }
        if !self.is_exact() {
            amount.round_up_to_nano();
            if format == Format::BinarySi {
                amount = amount.min(i64::MAX as u64);
                if amount.is_below_one() {
                    format = Format::DecimalSi;
                }
            }
        }
        (amount, format)
    }
}

/// The parts of a quantity.
struct Parts<'a> {
    negative: bool,
    /// Before the point, without leading zeros; at least `0`.
    digits: &'a str,
    /// After the point.
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, &'static str> {
        let negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
        let (digits, rest) = split_digits(rest);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        let exponent = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
        let (_, wrong) = split_digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent));
        if !wrong.is_empty() {
            return Err(WRONG_FORMAT);
        }
        Ok(Self { negative, digits: if digits.is_empty() { "0" } else { digits }, fraction, suffix })
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// The exponent of a suffix, to the base of its format.
fn suffix(suffix: &str) -> Option<(i32, Format)> {
    Some(match suffix {
        "n" => (-9, Format::DecimalSi),
        "u" => (-6, Format::DecimalSi),
        "m" => (-3, Format::DecimalSi),
        "" => (0, Format::DecimalSi),
        "k" => (3, Format::DecimalSi),
        "M" => (6, Format::DecimalSi),
        "G" => (9, Format::DecimalSi),
        "T" => (12, Format::DecimalSi),
        "P" => (15, Format::DecimalSi),
        "E" => (18, Format::DecimalSi),
        "Ki" => (10, Format::BinarySi),
        "Mi" => (20, Format::BinarySi),
        "Gi" => (30, Format::BinarySi),
        "Ti" => (40, Format::BinarySi),
        "Pi" => (50, Format::BinarySi),
        "Ei" => (60, Format::BinarySi),
        _ => (suffix.strip_prefix(['e', 'E'])?.parse().ok()?, Format::DecimalExponent),
    })
}

/// An amount without its sign: its digits, times ten to the power of the exponent.
struct Amount {
    /// Numbers from 0 to 9, the lowest first.
    digits: Vec<u8>,
    exponent: i64,
}

impl Amount {
    fn new(digits: &str, fraction: &str) -> Self {
        let digits = fraction.bytes().rev().chain(digits.bytes().rev()).map(|digit| digit - b'0').collect();
        Self { digits, exponent: -(fraction.len() as i64) }
    }

    fn is_zero(&self) -> bool {
        self.digits.iter().all(|digit| *digit == 0)
    }

    /// The number of its last digits: the remainder of a division by a power of ten.
    fn last_digits(&self, count: usize) -> u64 {
        self.digits.iter().take(count).rev().fold(0, |number, digit| number * 10 + u64::from(*digit))
    }

    /// Times two to the power of `bits`.
    fn shift_left(&mut self, bits: i32) {
        for _ in 0..bits {
            let mut carry = 0;
            for digit in &mut self.digits {
                let doubled = *digit * 2 + carry;
                *digit = doubled % 10;
                carry = doubled / 10;
            }
            if carry > 0 {
                self.digits.push(carry);
            }
        }
    }

    fn round_up_to_nano(&mut self) {
        let dropped = usize::try_from(NANO - self.exponent).unwrap_or(0);
        if dropped == 0 {
            return;
        }
        let lost = self.digits.iter().take(dropped).any(|digit| *digit != 0);
        self.digits.drain(..dropped.min(self.digits.len()));
        self.exponent = NANO;
        let mut places = self.digits.iter_mut();
        let mut carry = lost;
        while carry {
            match places.next() {
                Some(digit) => {
                    carry = *digit == 9;
                    *digit = (*digit + 1) % 10;
                }
                None => {
                    self.digits.push(1);
                    break;
                }
            }
        }
    }

    /// Its value, if it is a whole number that fits.
    fn whole(&self) -> Option<u128> {
        if self.is_zero() {
            return Some(0);
        }
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        let exponent = u32::try_from(self.exponent + zeros as i64).ok()?;
        let number = self.digits[zeros..].iter().rev().try_fold(0_u128, |number, digit| {
            number.checked_mul(10).and_then(|number| number.checked_add(u128::from(*digit)))
        })?;
        number.checked_mul(10_u128.checked_pow(exponent)?)
    }

    /// The place of its highest digit: 0 for a number from 1 to 9.
    fn magnitude(&self) -> Option<i64> {
        let highest = self.digits.iter().rposition(|digit| *digit != 0)?;
        Some(self.exponent + highest as i64)
    }

    fn compare(&self, other: &Self) -> Ordering {
        // From the highest digit that is not zero to the lowest, so that of two with the same
        // beginning the longer one is greater.
        let significant = |amount: &Self| {
            let zeros = amount.digits.iter().take_while(|digit| **digit == 0).count();
            amount.digits[zeros..].iter().copied().rev().skip_while(|digit| *digit == 0).collect::<Vec<u8>>()
        };
        self.magnitude().cmp(&other.magnitude()).then_with(|| significant(self).cmp(&significant(other)))
    }

    fn is_below_one(&self) -> bool {
        self.magnitude().is_some_and(|magnitude| magnitude < 0)
    }

    /// The lesser of the two. Rounded to a whole number only if that is `most`.
    fn min(self, most: u64) -> Self {
        // A number with fewer digits before the point than `most` is less; with as many, its whole
        // part decides.
        let whole = match self.magnitude() {
            Some(magnitude) if magnitude > 18 => u128::MAX,
            Some(18) => {
                let places = self.digits.len() as i64;
                (0..19).fold(0, |number, place| {
                    let index = 18 - place - self.exponent;
                    let digit = if index < places {
                        self.digits.get(usize::try_from(index).unwrap_or(usize::MAX))
                    } else {
                        None
                    };
                    number * 10 + u128::from(*digit.unwrap_or(&0))
                })
            }
            _ => 0,
        };
        let has_fraction = self.whole().is_none();
        if whole > u128::from(most) || (whole == u128::from(most) && has_fraction) {
            return Self::new(&most.to_string(), "");
        }
        self
    }

    fn write(&self, negative: bool, format: Format) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let sign = if negative { "-" } else { "" };
        if let (Format::BinarySi, Some(mut whole)) = (format, self.whole())
            && whole >= 1024
        {
            let mut thousands = 0;
            while whole % 1024 == 0 {
                whole /= 1024;
                thousands += 1;
            }
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(thousands).unwrap_or(&"");
            return format!("{sign}{whole}{suffix}");
        }
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        let exponent = self.exponent + zeros as i64;
        let filled = exponent.rem_euclid(3);
        let exponent = exponent - filled;
        let digits: String = self.digits[zeros..].iter().rev().map(|digit| char::from(b'0' + digit)).collect();
        let digits = digits.trim_start_matches('0').to_owned() + &"0".repeat(filled as usize);
        let suffix = match (format, exponent) {
            (_, 0) => String::new(),
            (Format::DecimalExponent, exponent) => format!("e{exponent}"),
            (_, -9) => "n".to_owned(),
            (_, -6) => "u".to_owned(),
            (_, -3) => "m".to_owned(),
            (_, 3) => "k".to_owned(),
            (_, 6) => "M".to_owned(),
            (_, 9) => "G".to_owned(),
            (_, 12) => "T".to_owned(),
            (_, 15) => "P".to_owned(),
            (_, 18) => "E".to_owned(),
            // Go has no suffix for it, and writes none.
            _ => String::new(),
        };
        format!("{sign}{digits}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go's `resource.Quantity` (apimachinery 0.36) writes after reading these.
    #[test]
    fn quantities_are_written_as_go_writes_them() {
        for (text, expected) in [
            ("0", Ok("0")),
            ("1", Ok("1")),
            ("-1", Ok("-1")),
            ("+1", Ok("+1")),
            ("010", Ok("010")),
            ("1000m", Ok("1")),
            ("100m", Ok("100m")),
            ("1500m", Ok("1500m")),
            ("0.5", Ok("500m")),
            (".5", Ok("500m")),
            ("1.5", Ok("1500m")),
            ("1.500", Ok("1.500")),
            ("1.", Ok("1.")),
            (".", Ok("0")),
            ("-", Ok("0")),
            ("+", Ok("0")),
            ("-0", Ok("0")),
            ("00", Ok("0")),
            ("0.0", Ok("0")),
            ("1000", Ok("1k")),
            ("10000", Ok("10k")),
            ("123456", Ok("123456")),
            ("1k", Ok("1k")),
            ("1K", Err(WRONG_SUFFIX)),
            ("1000k", Ok("1M")),
            ("1M", Ok("1M")),
            ("1e3", Ok("1e3")),
            ("1E3", Ok("1E3")),
            ("1e4", Ok("10e3")),
            ("-1e5", Ok("-100e3")),
            ("1e-3", Ok("1e-3")),
            ("1.5e3", Ok("1500")),
            ("1e-10", Ok("1e-9")),
            ("1e+2", Ok("100")),
            ("1e", Err(WRONG_SUFFIX)),
            ("1E", Ok("1E")),
            ("1000E", Ok("1")),
            ("1P", Ok("1P")),
            ("1T", Ok("1T")),
            ("1n", Ok("1n")),
            ("1u", Ok("1u")),
            ("0.1n", Ok("1n")),
            ("100n", Ok("100n")),
            ("1.1n", Ok("2n")),
            ("1024", Ok("1024")),
            ("1Ki", Ok("1Ki")),
            ("1024Ki", Ok("1Mi")),
            ("1024Mi", Ok("1Gi")),
            ("1Mi", Ok("1Mi")),
            ("8Mi", Ok("8Mi")),
            ("1025Mi", Ok("1025Mi")),
            ("2048Ki", Ok("2Mi")),
            ("1536Mi", Ok("1536Mi")),
            ("0.5Ki", Ok("512")),
            ("0.5Mi", Ok("512Ki")),
            ("1.5Gi", Ok("1536Mi")),
            ("0.1Ki", Ok("102400m")),
            ("0.0001Ki", Ok("102400u")),
            ("1000Ki", Ok("1000Ki")),
            ("1Ei", Ok("1Ei")),
            ("8Ei", Ok("9223372036854775807")),
            ("9Ei", Ok("9223372036854775807")),
            ("100Ei", Ok("9223372036854775807")),
            ("7.9999999999999999999Ei", Ok("9223372036854775807")),
            ("-9Ei", Ok("-9223372036854775807")),
            ("-1024Mi", Ok("-1Gi")),
            ("-0.5Gi", Ok("-512Mi")),
            ("0Ki", Ok("0")),
            ("0Mi", Ok("0")),
            ("9223372036854775807", Ok("9223372036854775807")),
            ("9223372036854775808", Ok("9223372036854775808")),
            ("9999999999999999999999", Ok("9999999999999999999999")),
            ("99999999999999999999", Ok("99999999999999999999")),
            ("12345678901234567890123456789", Ok("12345678901234567890123456789")),
            ("0.123456789", Ok("123456789n")),
            ("0.1234567891", Ok("123456790n")),
            ("0.9999999999", Ok("1")),
            ("999999999999999999.9999999999", Ok("1E")),
            ("1000000000000000000000000", Ok("1")),
            ("1000000000000000000Ki", Ok("9223372036854775807")),
            ("123456789012345Ki", Ok("123456789012345Ki")),
            ("12345678901234567Ki", Ok("9223372036854775807")),
            ("1abc", Err(WRONG_FORMAT)),
            ("abc", Err(WRONG_FORMAT)),
            ("1m2", Err(WRONG_SUFFIX)),
            ("1ki", Err(WRONG_SUFFIX)),
            ("1mi", Err(WRONG_SUFFIX)),
            ("1e3m", Err(WRONG_FORMAT)),
            ("1Mi3", Err(WRONG_SUFFIX)),
            ("1.2.3", Err(WRONG_FORMAT)),
            ("--1", Err(WRONG_SUFFIX)),
            ("5%", Err(WRONG_FORMAT)),
            ("1_000", Err(WRONG_FORMAT)),
            ("1e1.5", Err(WRONG_FORMAT)),
            ("100000000000000000n", Ok("100M")),
            ("1e18", Ok("1e18")),
            ("1e21", Ok("1e21")),
            ("1e20m", Err(WRONG_FORMAT)),
            ("3e-9", Ok("3e-9")),
            ("33e-10", Ok("4e-9")),
            ("0.000000001", Ok("1n")),
            ("0.0000000001k", Ok("100n")),
            ("512e6", Ok("512e6")),
            ("1073741824", Ok("1073741824")),
            ("64Gi", Ok("64Gi")),
            ("250m", Ok("250m")),
            ("4000m", Ok("4")),
            ("2500M", Ok("2500M")),
        ] {
            assert_eq!(canonical_quantity(text), expected.map(str::to_owned), "{text:?}");
        }
    }

    /// Each is less than the next, or equal to those in the same list.
    const ASCENDING: [&[&str]; 14] = [
        &["-1E", "-1000P"],
        &["-1Gi", "-1024Mi"],
        &["-1"],
        &["-1n", "-0.1n"],
        &["0", "-0", "0Ki", "0.0", "0e5"],
        &["1n", "0.1n", "1e-12"],
        &["999m"],
        &["1", "1000m", "1.0", "1e0", "1000000000n"],
        &["1.5", "1500m"],
        &["1k", "1e3", "1000"],
        &["1Ki", "1024", "1.024k"],
        &["1Gi", "1024Mi", "1073741824"],
        &["9Ei", "9223372036854775807"],
        &["12345678901234567890123456789012345678901234567890"],
    ];

    #[test]
    fn quantities_are_compared_by_their_amounts() {
        for (place_a, a) in
            ASCENDING.iter().enumerate().flat_map(|(place, texts)| texts.iter().map(move |a| (place, *a)))
        {
            for (place_b, texts) in ASCENDING.iter().enumerate() {
                for b in *texts {
                    assert_eq!(compare_quantity(a, b), Ok(place_a.cmp(&place_b)), "{a} and {b}");
                }
            }
        }
        assert_eq!((compare_quantity("x", "1"), compare_quantity("1", "1K")), (Err(WRONG_FORMAT), Err(WRONG_SUFFIX)));
    }

    #[test]
    fn long_quantities_are_read_in_bounded_time() {
        assert_eq!(canonical_quantity(&"9".repeat(3_000_000)), Err(WRONG_NUMBER));
        assert_eq!(canonical_quantity(&format!("1.{}", "0".repeat(3_000_000))), Err(WRONG_NUMBER));
        assert_eq!(canonical_quantity("1e2147483647"), Ok("10e2147483646".to_owned()));
        assert_eq!(canonical_quantity("1e99999999999"), Err(WRONG_SUFFIX));
        assert_eq!(canonical_quantity("é"), Err(WRONG_FORMAT));
        assert_eq!(canonical_quantity("1é"), Err(WRONG_FORMAT));
    }
}
