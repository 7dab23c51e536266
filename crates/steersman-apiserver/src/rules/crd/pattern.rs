//! The `pattern` keyword. Schemas use Go's regular expressions, which differ in details from those
//! of Rust.

use regex::{Error, Regex, RegexBuilder};

use crate::request::budget;

#[cfg(test)]
thread_local! {
    /// How many patterns this thread has compiled. In a debug build, one takes a tenth of a
    /// millisecond.
    pub(super) static COMPILED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The size limits that a pattern is compiled with, in bytes. The first one that suffices is its
/// cost. A pattern that exceeds all of them is refused, as Go refuses large ones.
const SIZES: [usize; 6] = [2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 4 << 20];
/// The bytes of a compiled pattern that cost one step.
const COMPILE_STEP: usize = 8;

/// The longest name of a character class, with its end.
const CLASS_NAME_MAX: usize = 16;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    regex: Regex,
    /// The size of the compiled pattern.
    size: usize,
}

impl Compiled {
    /// Whether the pattern matches the text. Charges the worst case, in which each byte is compared
    /// with each state.
    pub(super) fn is_match(&self, text: &str) -> bool {
        !budget::step((1 + text.len()).saturating_mul(self.size / SIZES[0])) || self.regex.is_match(text)
    }
}

/// Compiles a pattern with Go's syntax. The error is Go's.
pub(super) fn compile(pattern: &str) -> Result<Compiled, String> {
    #[cfg(test)]
    COMPILED.set(COMPILED.get() + 1);
    let translated = translate(pattern);
    for size in SIZES {
        if !budget::step((size + pattern.len()) / COMPILE_STEP) {
            break;
        }
        match RegexBuilder::new(&translated).size_limit(size).build() {
            Ok(regex) => return Ok(Compiled { regex, size }),
            Err(Error::CompiledTooBig(_)) => {}
            Err(error) => return Err(explain(pattern, &error)),
        }
    }
    Err(format!("error parsing regexp: expression too large: `{pattern}`"))
}

fn explain(pattern: &str, error: &Error) -> String {
    let text = error.to_string();
    let why = match text.lines().last().unwrap_or_default().trim_start_matches("error: ") {
        "unclosed group" => "missing closing )",
        "unopened group" => "unexpected )",
        "unclosed character class" => "missing closing ]",
        "repetition operator missing expression" => "missing argument to repetition operator",
        why => why,
    };
    format!("error parsing regexp: {why}: `{pattern}`")
}

/// Translates Go's syntax: `\d`, `\s` and `\w` are ASCII; `[`, `&&`, `~~` and `--` have no meaning
/// within classes; a brace that begins no repetition is a literal.
fn translate(pattern: &str) -> String {
    let mut translated = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => match rest.next() {
                Some('d') => translated.push_str("[0-9]"),
                Some('D') => translated.push_str("[^0-9]"),
                Some('s') => translated.push_str(r"[\t\n\x0C\r ]"),
                Some('S') => translated.push_str(r"[^\t\n\x0C\r ]"),
                Some('w') => translated.push_str("[0-9A-Za-z_]"),
                Some('W') => translated.push_str("[^0-9A-Za-z_]"),
                Some('b') if !in_class => translated.push_str(r"(?-u:\b)"),
                Some(escaped) => translated.extend(['\\', escaped]),
                None => translated.push('\\'),
            },
            '[' if in_class && rest.as_str().starts_with(':') => {
                let ahead = rest.as_str();
                // No class has a longer name. A search to the end of the pattern for each of them
                // would be quadratic.
                let end = ahead.char_indices().nth(CLASS_NAME_MAX).map_or(ahead.len(), |(end, _)| end);
                let (name, _) = ahead[..end].split_once(":]").unwrap_or_default();
                translated.push_str(&format!("[{name}:]"));
                rest.by_ref().take(name.chars().count() + 2).for_each(drop);
            }
            '[' | '&' | '~' if in_class => translated.extend(['\\', character]),
            '[' => {
                in_class = true;
                translated.push('[');
                if rest.as_str().starts_with('^') {
                    translated.extend(rest.next());
                }
                // A bracket at the start of a class is a literal.
                if rest.as_str().starts_with(']') {
                    rest.next();
                    translated.push_str("\\]");
                }
            }
            ']' if in_class => {
                in_class = false;
                translated.push(']');
            }
            '-' if in_class && rest.as_str().starts_with("-]") => translated.push_str("\\-"),
            '{' if !in_class && !is_repetition(rest.as_str()) => translated.push_str("\\{"),
            other => translated.push(other),
        }
    }
    translated
}

/// Whether a brace is followed by `n}`, `n,}` or `n,m}`. Reads no further than the digits.
fn is_repetition(rest: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let least = digits(rest);
    let rest = &rest[least..];
    let most = rest.strip_prefix(',').map_or(rest, |rest| &rest[digits(rest)..]);
    least > 0 && most.starts_with('}')
}

#[cfg(test)]
mod tests {
    use super::{budget, compile, is_repetition, translate};

    #[test]
    fn a_brace_begins_a_repetition_or_is_one() {
        for (rest, expected) in
            [("2}", true), ("2,}x", true), ("2,30}", true), ("}", false), (",2}", false), ("2,a}", false)]
        {
            assert_eq!(is_repetition(rest), expected, "{rest}");
        }
        assert!(!is_repetition(&"{".repeat(100)));
    }

    #[test]
    fn a_class_that_does_not_end_is_not_looked_for_to_the_end() {
        assert_eq!(translate("[[:alpha:]x]"), "[[:alpha:]x]");
        let long = format!("[[:{}:]]", "a".repeat(40));
        assert!(translate(&long).starts_with("[[:]"), "{}", translate(&long));
    }

    #[test]
    fn patterns_match_what_they_match_in_go() {
        let cases = [
            (r"^\d+$", "12", "٣"),
            (r"^[\w.]+$", "a_1.b", "é"),
            (r"^[^\s]$", "x", "\t"),
            (r"^[[]a$", "[a", "]a"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^[[:alpha:]]+$", "ab", "1"),
            (r"^[]a]+$", "]a", "b"),
            (r"^\{a{2}$", "{aa", "{a"),
            (r"^{a}$", "{a}", "a"),
            (r"^[a-z]([-a-z0-9]*[a-z0-9])?$", "a-b", "a-"),
            (r"^a\b", "a-", "ab"),
        ];
        for (pattern, good, bad) in cases {
            let compiled = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(compiled.is_match(good), "{pattern} and {good}");
            assert!(!compiled.is_match(bad), "{pattern} and {bad}");
        }
        assert_eq!(compile("(").unwrap_err(), "error parsing regexp: missing closing ): `(`");
    }

    #[test]
    fn a_pattern_is_bounded_when_it_is_compiled_and_when_it_is_matched() {
        let large = r"(\pL{1,500}){1,500}";
        assert_eq!(compile(large).unwrap_err(), format!("error parsing regexp: expression too large: `{large}`"));
        let cost = |pattern: &str| budget::metered(|| compile(pattern).unwrap()).1.steps;
        let dns = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
        assert!(cost(dns) < 3_000, "{}", cost(dns));
        assert!(cost("[a-z]{1,200}") > cost("[a-z]{1,3}"));
        let compiled = compile("^(a|b)*a(a|b){500}$").unwrap();
        let (_, small) = budget::metered(|| compiled.is_match(&"ab".repeat(50)));
        let (_, large) = budget::metered(|| compiled.is_match(&"ab".repeat(5_000)));
        assert!(large.steps > 90 * small.steps && small.steps > 400, "{small:?} {large:?}");
    }
}
