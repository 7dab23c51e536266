//! The `pattern` keyword. Schemas are written for Go's regular expressions, which differ in small things.

use regex::Regex;

#[cfg(test)]
thread_local! {
    /// How many patterns this thread has compiled: in a debug build one costs a tenth of a millisecond.
    pub(super) static COMPILED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Compiles a pattern as Go would read it, or says why Go would not.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    #[cfg(test)]
    COMPILED.set(COMPILED.get() + 1);
    Regex::new(&translate(pattern)).map_err(|error| {
        let text = error.to_string();
        let why = match text.lines().last().unwrap_or_default().trim_start_matches("error: ") {
            "unclosed group" => "missing closing )",
            "unopened group" => "unexpected )",
            "unclosed character class" => "missing closing ]",
            "repetition operator missing expression" => "missing argument to repetition operator",
            why => why,
        };
        format!("error parsing regexp: {why}: `{pattern}`")
    })
}

/// Go's `\d`, `\s` and `\w` are ASCII; `[`, `&&`, `~~` and `--` mean nothing within its classes; and a brace that
/// begins no repetition is a brace.
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
                let (name, _) = rest.as_str().split_once(":]").unwrap_or_default();
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
                // The first of a class is one of its characters.
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

/// Whether what follows a brace is `n}`, `n,}` or `n,m}`.
fn is_repetition(rest: &str) -> bool {
    let Some((inside, _)) = rest.split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests {
    use super::compile;

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
}
