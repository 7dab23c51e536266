//! Rules for prose: comments and texts of Rust sources, and Markdown pages.
//!
//! `docs/style.md` has the rules in words. Code blocks and code spans are not prose. A text is a
//! string literal with white space: errors, logs, output, and messages of assertions.

use std::collections::BTreeMap;

use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

use super::File;

/// Comments and pages wrap here. Code may be wider.
const COLUMNS_MAX: usize = 100;
/// Words that mark a sentence that has to be read twice.
const MARKERS: [&[&str]; 15] = [
    &["whoever"],
    &["nobody"],
    &["somebody"],
    &["anybody"],
    &["told"],
    &["tells"],
    &["says"],
    &["said"],
    &["anew"],
    &["in", "vain"],
    &["meanwhile"],
    &["so", "many"],
    &["so", "often"],
    &["so", "much"],
    &["all", "the", "same"],
];
/// How many of them are allowed in 1,000 words.
const MARKERS_PER_1000_MAX: usize = 1;
/// How many files a complaint names.
const FILES_NAMED_MAX: usize = 10;

/// The prose of one file.
pub(super) struct Prose<'a> {
    pub(super) lines: Vec<Line<'a>>,
}

/// One line of prose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Counted from 1.
    pub(super) number: usize,
    /// Without the marks of a comment.
    pub(super) text: &'a str,
    /// With everything.
    whole: &'a str,
}

/// Whether a line belongs to a code block.
#[derive(Default)]
struct Fence {
    open: bool,
}

impl Fence {
    /// Takes the next line, and returns whether it is prose.
    fn is_prose(&mut self, text: &str) -> bool {
        let fence = text.trim_start().starts_with("```");
        self.open ^= fence;
        !fence && !self.open
    }
}

impl<'a> Prose<'a> {
    /// The prose of a Markdown page, or the comments of a Rust source.
    pub(super) fn of(file: &'a File) -> Self {
        if file.has_extension("md") { Self::of_page(&file.text) } else { Self::of_comments(&file.text) }
    }

    fn of_page(page: &'a str) -> Self {
        let mut fence = Fence::default();
        let lines = page.lines().enumerate().map(|(index, text)| Line { number: index + 1, text, whole: text });
        Self { lines: lines.filter(|line| fence.is_prose(line.text)).collect() }
    }

    fn of_comments(source: &'a str) -> Self {
        let all: Vec<&str> = source.lines().collect();
        let mut lines: Vec<Line<'a>> = Vec::new();
        let mut newlines = 0;
        let (mut offset, mut fence, mut last_number) = (0, Fence::default(), 0);
        for token in tokenize(source, FrontmatterAllowed::No) {
            let start = offset;
            offset += token.len as usize;
            let first = newlines;
            newlines += source[start..offset].matches('\n').count();
            if !matches!(token.kind, TokenKind::LineComment { .. } | TokenKind::BlockComment { .. }) {
                continue;
            }
            for (index, text) in source[start..offset].lines().enumerate() {
                let number = first + index + 1;
                if number != last_number + 1 {
                    fence = Fence::default();
                }
                last_number = number;
                let text = text.trim_start().trim_start_matches(['/', '!', '*']).trim_end_matches(['*', '/']);
                if fence.is_prose(text) {
                    lines.push(Line { number, text, whole: all[number - 1] });
                }
            }
        }
        Self { lines }
    }

    /// Its words in lower case, each with its line. A paragraph ends with an empty word, so that no
    /// phrase crosses its end. Code spans are left out, including those over several lines.
    pub(super) fn words(&self) -> Vec<(usize, String)> {
        let mut words = Vec::new();
        let (mut in_code, mut last_number) = (false, 0);
        for line in &self.lines {
            if line.number != last_number + 1 || line.text.trim().is_empty() {
                in_code = false;
                words.push((line.number, String::new()));
            }
            last_number = line.number;
            for (index, piece) in line.text.split('`').enumerate() {
                in_code ^= index > 0;
                if !in_code {
                    words.extend(split(piece).map(|word| (line.number, word)));
                }
            }
        }
        words
    }
}

/// Words in lower case.
fn split(prose: &str) -> impl Iterator<Item = String> {
    let words = prose.split(|char: char| !char.is_alphanumeric() && char != '\'');
    words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase)
}

/// The words of each text of a source, each with its line. Names of the code are left out: those in
/// `{}`, and code spans.
fn texts(source: &str) -> Vec<Vec<(usize, String)>> {
    use LiteralKind::{ByteStr, CStr, RawByteStr, RawCStr, RawStr, Str};
    let mut texts = Vec::new();
    let (mut offset, mut line) = (0, 1);
    for token in tokenize(source, FrontmatterAllowed::No) {
        let text = &source[offset..offset + token.len as usize];
        let first = line;
        offset += text.len();
        line += text.matches('\n').count();
        let TokenKind::Literal { kind, .. } = token.kind else { continue };
        let is_string = matches!(kind, Str { .. } | ByteStr { .. } | CStr { .. })
            || matches!(kind, RawStr { .. } | RawByteStr { .. } | RawCStr { .. });
        if is_string && text.contains(char::is_whitespace) {
            texts.push(words_of_text(text, first));
        }
    }
    texts
}

fn words_of_text(text: &str, first: usize) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let (mut prose, mut braces, mut in_code) = (String::new(), 0_usize, false);
    for (index, line) in text.lines().enumerate() {
        prose.clear();
        // An escape, such as that of a line break, ends a word.
        for char in line.replace("\\n", " ").replace("\\t", " ").chars() {
            match char {
                '{' => braces += 1,
                '}' => braces = braces.saturating_sub(1),
                '`' => in_code = !in_code,
                _ if braces == 0 && !in_code => prose.push(char),
                _ => {}
            }
        }
        words.extend(split(&prose).map(|word| (first + index, word)));
    }
    words
}

/// Wide lines and marker words of all files.
pub(super) fn check(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (extension, name) in [("rs", "comments"), ("md", "pages")] {
        let files: Vec<&File> = files.iter().filter(|file| file.has_extension(extension)).collect();
        complaints.extend(files.iter().flat_map(|file| check_width(file)));
        complaints.extend(check_markers(name, &files));
        complaints.extend(files.iter().flat_map(|file| check_texts(file)));
    }
    complaints
}

/// Every wide line and every marker word, in the order of the files.
pub(super) fn list(files: &[File]) -> Vec<String> {
    let mut places = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("rs") || file.has_extension("md")) {
        places.extend(check_width(file));
        let found = markers(&Prose::of(file).words());
        places.extend(found.iter().map(|(line, marker)| file.complaint(*line, &format!("{marker:?}"))));
        places.extend(check_texts(file));
    }
    places
}

/// A text is short and read alone, so that it has none of the marker words.
fn check_texts(file: &File) -> Vec<String> {
    if !file.has_extension("rs") {
        return Vec::new();
    }
    let found = texts(&file.text).into_iter().flat_map(|words| markers(&words));
    found.map(|(line, marker)| file.complaint(line, &format!("{marker:?} in a text: see docs/style.md"))).collect()
}

fn check_width(file: &File) -> Vec<String> {
    let is_page = file.has_extension("md");
    let wide = Prose::of(file).lines.into_iter().filter(|line| is_wide(line, is_page));
    wide.map(|line| file.complaint(line.number, &format!("prose beyond column {COLUMNS_MAX}"))).collect()
}

/// Tables, single words, web addresses and the targets of links cannot be wrapped. In a comment,
/// the target of a link is a path in Rust, which counts: it can stand below the paragraph.
fn is_wide(line: &Line<'_>, is_page: bool) -> bool {
    let text = line.text.trim();
    let is_definition = text.starts_with('[') && text.contains("]: ");
    if text.starts_with('|') || is_definition || !text.trim_start_matches(['-', '*', '>', ' ']).contains(' ') {
        return false;
    }
    let mut width = line.whole.chars().count();
    let targets = line.whole.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for target in targets.filter(|target| is_page || target.contains("://")) {
        width -= target.chars().count();
    }
    let outside_of_links = |word: &&str| word.contains("://") && !word.contains("](");
    for address in line.whole.split_whitespace().filter(outside_of_links) {
        width -= address.chars().count();
    }
    width > COLUMNS_MAX
}

/// Complains if there are too many marker words in all files together, and names the files with the
/// most.
fn check_markers(name: &str, files: &[&File]) -> Vec<String> {
    let mut count = 0;
    let mut places: BTreeMap<usize, Vec<(usize, String)>> = BTreeMap::new();
    for (index, file) in files.iter().enumerate() {
        let words = Prose::of(file).words();
        count += words.iter().filter(|(_, word)| !word.is_empty()).count();
        let found = markers(&words);
        if !found.is_empty() {
            places.insert(index, found);
        }
    }
    let found: usize = places.values().map(Vec::len).sum();
    if found * 1000 <= count * MARKERS_PER_1000_MAX {
        return Vec::new();
    }
    let mut worst: Vec<_> = places.into_iter().collect();
    worst.sort_by_key(|(_, found)| std::cmp::Reverse(found.len()));
    let mut complaints =
        vec![format!("{name}: {found} marker words in {count} words (docs/style.md): most are in these files")];
    for (index, found) in worst.iter().take(FILES_NAMED_MAX) {
        let complaint = |(line, marker): &(usize, String)| files[*index].complaint(*line, &format!("{marker:?}"));
        complaints.extend(found.iter().map(complaint));
    }
    complaints
}

/// The marker words, each with its line.
fn markers(words: &[(usize, String)]) -> Vec<(usize, String)> {
    let begins = |index: usize, marker: &[&str]| {
        words.len() >= index + marker.len()
            && words[index..].iter().zip(marker).all(|((_, word), expected)| word == expected)
    };
    let found = |index: usize| MARKERS.iter().find(|marker| begins(index, marker));
    (0..words.len()).filter_map(|index| Some((words[index].0, found(index)?.join(" ")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> File {
        File::new("x.rs", text)
    }

    fn page(text: &str) -> File {
        File::new("x.md", text)
    }

    #[test]
    fn comments_are_separated_from_code() {
        let source =
            "//! Top.\nfn f() { // Behind code.\n    let url = \"http://x // y\";\n    /* A\n     * block. */\n}\n";
        let file = rust(source);
        let lines: Vec<_> = Prose::of(&file).lines.iter().map(|line| (line.number, line.text.trim())).collect();
        assert_eq!(lines, [(1, "Top."), (2, "Behind code."), (4, "A"), (5, "block.")]);
    }

    #[test]
    fn a_wide_comment_is_found_and_wide_code_is_not() {
        let long = "word ".repeat(25);
        assert_eq!(check_width(&rust(&format!("fn f() {{}}\n    /// {long}\n"))), ["x.rs:2: prose beyond column 100"]);
        assert_eq!(check_width(&rust(&format!("let text = \"{long}\";\n"))), [""; 0]);
        assert_eq!(check_width(&rust(&format!("/// ```\n/// {long}\n/// ```\n"))), [""; 0]);
        assert_eq!(check_width(&rust(&format!("let text = \"{long}\"; // Behind code.\n"))).len(), 1);
    }

    #[test]
    fn the_target_of_a_link_counts_in_a_comment_unless_it_is_a_web_address() {
        let comment = |target: &str| rust(&format!("/// {} [text]({target}).\n", "word ".repeat(15)));
        assert_eq!(check_width(&comment("crate::ManagerBuilder::trace_requests")).len(), 1);
        assert_eq!(check_width(&comment("https://example.com/ManagerBuilder")), [""; 0]);
    }

    #[test]
    fn a_wide_line_of_a_page_is_found_unless_it_cannot_be_wrapped() {
        let long = "word ".repeat(25);
        assert_eq!(check_width(&page(&long)).len(), 1);
        for right in [
            format!("| {long} |"),
            format!("```\n{long}\n```"),
            format!("[page](https://example.com/{}) is short", "x".repeat(100)),
            format!("See https://example.com/{} for more", "x".repeat(100)),
            format!("[page]: https://example.com/{}", "x".repeat(100)),
            format!("- `{}`", "x".repeat(100)),
        ] {
            assert_eq!(check_width(&page(&right)), [""; 0], "{right}");
        }
    }

    #[test]
    fn marker_words_are_found_over_the_end_of_a_line_and_not_in_code() {
        let marked = concat!("// So", " ma", "ny are to", "ld so\n// ma", "ny things.\n");
        assert_eq!(markers(&Prose::of(&rust(marked)).words()).len(), 3);
        let code = concat!("// The field `to", "ld`.\n//\n// Nothing so\n\n// ma", "ny.\n");
        assert_eq!(markers(&Prose::of(&rust(code)).words()), []);
    }

    #[test]
    fn a_marker_word_in_a_text_is_found_and_a_name_is_not() {
        let marker = concat!("to", "ld");
        let complaint = |line: usize| format!("x.rs:{line}: {marker:?} in a text: see docs/style.md");
        assert_eq!(check_texts(&rust(&format!("f();\npanic!(\"it was {marker} of {{x}}\");\n"))), [complaint(2)]);
        assert_eq!(check_texts(&rust(&format!("f(r#\"it was\n\"{marker}\"\"#);\n"))), [complaint(2)]);
        assert_eq!(check_texts(&rust(concat!("f(\"it waits in \\\n    va", "in\");\n"))).len(), 1);
        let names = format!("f(\"{marker}\", \"a-{marker}-name\", \"see {{{marker}}} and `{marker}`\", {marker});\n");
        assert_eq!(check_texts(&rust(&names)), [""; 0]);
        assert_eq!(check_texts(&page(&format!("\"it was {marker}\"\n"))), [""; 0]);
    }

    #[test]
    fn marker_words_may_be_one_in_a_thousand() {
        let marker = concat!("to", "ld");
        let text = |words: usize| page(&format!("{marker} {}", "word ".repeat(words - 1)));
        let complaints = check_markers("pages", &[&text(999)]);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].starts_with("pages: 1 marker words in 999 words"), "{complaints:?}");
        assert_eq!(complaints[1], format!("x.md:1: {marker:?}"));
        assert_eq!(check_markers("pages", &[&text(1000)]), [""; 0]);
    }
}
