//! A Rust file with its syntax tree.

use std::ops::Range;

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;

use super::{NoPlace, tokens};

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A Rust file with its syntax tree.
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) file: syn::File,
    /// Where `syn` begins to count: after a byte order mark.
    pub(super) start: usize,
}

impl<'a> Source<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, NoPlace> {
        let file = syn::parse_file(text).map_err(|error| {
            NoPlace::new(format!("it is not valid Rust, line {}: {error}", error.span().start().line))
        })?;
        if file.shebang.is_some() {
            return Err(NoPlace::new("it begins with #!, as a script does"));
        }
        let start = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        Ok(Self { text, file, start })
    }

    /// The bytes of a node.
    pub(super) fn range(&self, node: &impl Spanned) -> Range<usize> {
        self.range_of(node.span())
    }

    /// The bytes of a span.
    pub(super) fn range_of(&self, span: Span) -> Range<usize> {
        let range = span.byte_range();
        range.start + self.start..range.end + self.start
    }

    /// Where the line of a place begins.
    pub(super) fn line_start(&self, place: usize) -> usize {
        self.text[..place].rfind('\n').map_or(self.start, |newline| newline + 1)
    }

    /// Where the line of a place ends: before its line break.
    pub(super) fn line_end(&self, place: usize) -> usize {
        let end = self.text[place..].find('\n').map_or(self.text.len(), |newline| place + newline);
        // A comment ends behind the first half of a line break of Windows.
        if self.text[..end].ends_with('\r') { end - 1 } else { end }
    }

    /// The white space at the beginning of the line of a place.
    pub(super) fn indent(&self, place: usize) -> &'a str {
        let line = &self.text[self.line_start(place)..place];
        &line[..line.len() - line.trim_start().len()]
    }

    /// Whether nothing but white space is before a place in its line.
    pub(super) fn is_first_in_line(&self, place: usize) -> bool {
        self.text[self.line_start(place)..place].trim().is_empty()
    }

    /// The line break of this file.
    pub(super) fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// The beginning of the lines of comments directly above a place that is the first in its line,
    /// not above `limit`. Without such comments, the beginning of its own line.
    pub(super) fn above_comments(&self, place: usize, limit: usize) -> usize {
        let mut start = self.line_start(place);
        while start > limit {
            let above = self.line_start(start - 1);
            let line = self.text[above..start].trim();
            if above < limit || !line.starts_with("//") || line.starts_with("//!") {
                break;
            }
            start = above;
        }
        start
    }

    /// The text with an insertion.
    pub(super) fn with(&self, place: usize, inserted: &str) -> String {
        format!("{}{inserted}{}", &self.text[..place], &self.text[place..])
    }

    /// The text without some bytes.
    pub(super) fn without(&self, range: Range<usize>) -> String {
        format!("{}{}", &self.text[..range.start], &self.text[range.end..])
    }

    /// The text without a node. Its line goes with it if nothing else is in it, and the space after
    /// it if something follows.
    pub(super) fn without_line(&self, node: Range<usize>) -> String {
        let line_end = self.line_end(node.end);
        let beside = &self.text[node.end..line_end];
        if !self.is_first_in_line(node.start) || !beside.trim().is_empty() {
            return self.without(node.start..line_end - beside.trim_start().len());
        }
        let after = &self.text[line_end..];
        let newline = if after.starts_with("\r\n") { 2 } else { usize::from(!after.is_empty()) };
        self.without(self.line_start(node.start)..line_end + newline)
    }

    /// Whether the tokens of a text occur in the file, also in a macro.
    pub(super) fn has(&self, text: &str) -> bool {
        self.file.to_token_stream().to_string().contains(&tokens(text))
    }
}
