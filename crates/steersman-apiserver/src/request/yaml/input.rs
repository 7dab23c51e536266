//! The text of a document in the form that the parser reads without a panic.
//!
//! libyaml-safer panics on text that is not UTF-8, on a block scalar or an escape that ends
//! together with the text, and on a tag right before a comma. libyaml reads all of them, or refuses
//! them.

use std::borrow::Cow;
use std::collections::HashSet;

use libyaml_safer::{Error, ErrorKind, Mark, Scanner, TokenData};

use super::DEPTH_MAX;
use crate::request::budget;

pub(super) struct Input<'a> {
    text: Cow<'a, str>,
    /// The length of the text without the line break that was added.
    sent: usize,
}

impl<'a> Input<'a> {
    /// Decodes the text, and ends its last line.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, String> {
        let mut text = decode(bytes).map_err(|what| format!("yaml: {what}"))?;
        if let Some(rest) = text.strip_prefix('\u{feff}') {
            text = Cow::Owned(rest.to_owned());
        }
        let sent = text.len();
        if !text.ends_with(is_break) {
            text.to_mut().push('\n');
        }
        let input = Self { text, sent };
        input.check_tags()?;
        Ok(input)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// An error of libyaml, with the line number of Go's port.
    pub(super) fn message(&self, error: &Error) -> String {
        let is_scanner = error.kind() == ErrorKind::Scanner;
        let is_end = is_scanner && error.problem() == "found unexpected end of stream";
        let line = |mark: Mark| if is_end && self.is_behind(mark) { mark.line - 1 } else { mark.line };
        let mut at = error.problem_mark().map_or(0, line);
        if at == 0 {
            at = error.context_mark().map_or(0, line);
        } else if is_scanner {
            at += 1;
        }
        refusal(at, error.problem())
    }

    /// Removes the added line break from a block scalar that ends together with the text.
    pub(super) fn undo_break(&self, scalar: &mut String, end: Mark) {
        if !self.is_behind(end) || !scalar.ends_with('\n') {
            return;
        }
        let is_blank =
            |text: &str| text.rsplit(is_break).next().is_some_and(|line| line.bytes().all(|byte| byte == b' '));
        // A last line that is not indented enough to be a line of the scalar has left a line break
        // only if the scalar keeps all of them.
        if !is_blank(&self.text[..self.sent]) || is_blank(&scalar[..scalar.len() - 1]) {
            scalar.pop();
        }
    }

    /// Whether a mark lies behind the line break that was added.
    fn is_behind(&self, mark: Mark) -> bool {
        mark.index > self.sent as u64
    }

    /// Refuses a tag that ends at a comma. The scanner gets a blank before each such comma: those
    /// that follow a tag are then the ends of tag tokens. The others are in scalars and comments.
    fn check_tags(&self) -> Result<(), String> {
        let Some((spaced, blanks)) = self.spaced() else { return Ok(()) };
        let mut bytes = spaced.bytes();
        let mut scanner = Scanner::new();
        scanner.set_input_string(&mut bytes);
        let (mut has_content, mut depth) = (false, 0_usize);
        for token in scanner {
            // The scanner reads ahead: a tag before this error may not have been returned as a
            // token.
            let token = token.map_err(|error| spaced.message(&error))?;
            match token.data {
                TokenData::Tag { .. } if blanks.contains(&token.end_mark.index) => {
                    let line = token.end_mark.line;
                    let line = if line == 0 { 0 } else { line + 1 };
                    return Err(refusal(line, "did not find expected whitespace or line break"));
                }
                TokenData::StreamEnd | TokenData::DocumentEnd => break,
                TokenData::DocumentStart if has_content => break,
                TokenData::StreamStart { .. } | TokenData::VersionDirective { .. } | TokenData::TagDirective { .. } => {
                    continue;
                }
                TokenData::BlockSequenceStart
                | TokenData::BlockMappingStart
                | TokenData::FlowSequenceStart
                | TokenData::FlowMappingStart => depth += 1,
                TokenData::BlockEnd | TokenData::FlowSequenceEnd | TokenData::FlowMappingEnd => {
                    depth = depth.saturating_sub(1);
                }
                _ => {}
            }
            has_content = true;
            // The parser goes no further either.
            if depth > DEPTH_MAX || !budget::step(1 + depth / 8) {
                break;
            }
        }
        Ok(())
    }

    /// The text with a blank before each comma that may follow a tag, and where the blanks are.
    fn spaced(&self) -> Option<(Self, HashSet<u64>)> {
        let (mut text, mut blanks) = (String::new(), HashSet::new());
        let (mut copied, mut after_tag) = (0, false);
        for (at, byte) in self.text.bytes().enumerate() {
            match byte {
                b'!' => after_tag = true,
                b',' if after_tag => {
                    text.push_str(&self.text[copied..at]);
                    blanks.insert(text.len() as u64);
                    text.push(' ');
                    copied = at;
                    after_tag = false;
                }
                b' ' | b'\t' | b'\r' | b'\n' => after_tag = false,
                _ => {}
            }
        }
        if blanks.is_empty() {
            return None;
        }
        text.push_str(&self.text[copied..]);
        Some((Self { text: Cow::Owned(text), sent: self.sent + blanks.len() }, blanks))
    }
}

/// An error as the real server reports it. The first line has no number.
fn refusal(line: u64, problem: &str) -> String {
    if line == 0 { format!("yaml: {problem}") } else { format!("yaml: line {line}: {problem}") }
}

fn is_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// UTF-16 has a byte order mark; everything else is UTF-8.
fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, &'static str> {
    let unit = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => {
            let text =
                std::str::from_utf8(bytes).map_err(|error| match (error.error_len(), bytes[error.valid_up_to()]) {
                    (None, _) => "incomplete UTF-8 octet sequence",
                    (_, 0xc0..0xf8) => "invalid trailing UTF-8 octet",
                    _ => "invalid leading UTF-8 octet",
                })?;
            return Ok(Cow::Borrowed(text));
        }
    };
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("incomplete UTF-16 character");
    }
    let text: Result<String, _> = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect();
    text.map(Cow::Owned).map_err(|_| "unexpected low surrogate area")
}
