//! Puts values together that arrive in pieces.

use std::fmt;

use bytes::Bytes;

use super::extent::{Extent, is_white_space};
use crate::codec::hidden::Length;
use crate::codec::outline::Outline;
use crate::codec::{Limits, WireError};

/// The current chunk, and the value that began in it or before it.
pub(super) struct Gather {
    chunk: Bytes,
    at: usize,
    /// The total length of the earlier chunks.
    before: u64,
    value: Option<PartialValue>,
    limit: usize,
    /// The size of the largest value that arrived in pieces. It is the capacity for the next one.
    largest: usize,
}

/// A value whose end has not arrived.
struct PartialValue {
    extent: Extent,
    /// Where it begins in the chunk, or zero if it began in an earlier one.
    start: usize,
    /// Its bytes from earlier chunks.
    pieces: Vec<u8>,
    keep: Keep,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    All,
    /// The value is too large. Its beginning is keep, so that an error can name the object.
    Beginning,
    Nothing,
}

/// What to keep of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    /// Nothing: only find its end.
    Nothing,
    /// The value.
    Value,
    /// The value and an outline of this many levels.
    Outlined(usize),
}

/// A complete value.
pub(super) enum Gathered {
    /// The value in one piece, and its outline if it was capture.
    Whole(Bytes, Outline),
    /// The beginning of a value that is larger than the limit.
    TooLarge(Vec<u8>),
    /// A value that was skipped.
    Skipped,
}

impl fmt::Debug for Gather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begun = self.value.as_ref().map(|value| Length(value.pieces.len()));
        f.debug_struct("Gather")
            .field("chunk", &Length(self.chunk.len()))
            .field("at", &self.at)
            .field("before", &self.before)
            .field("begun", &begun)
            .finish_non_exhaustive()
    }
}

impl Gather {
    pub(super) fn new(limits: Limits) -> Self {
        let limit = limits.object_bytes_max;
        Self { chunk: Bytes::new(), at: 0, before: 0, value: None, limit, largest: 0 }
    }

    /// The capacity for the value that arrives in pieces.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.value.as_ref().map_or(0, |value| value.pieces.capacity())
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Adds the next chunk after the unread rest of the one before.
    pub(super) fn push(&mut self, chunk: Bytes) {
        if self.at < self.chunk.len() {
            let rest = [&self.chunk[self.at..], &chunk[..]].concat();
            self.before += self.at as u64;
            self.chunk = rest.into();
        } else {
            self.before += self.chunk.len() as u64;
            self.chunk = chunk;
        }
        self.at = 0;
    }

    /// How many bytes were read.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    pub(super) fn structure(&self, expected: &'static str) -> WireError {
        WireError::Structure { offset: self.offset(), expected }
    }

    /// The next byte that is not white space. The position stays before it.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = &self.chunk[self.at..];
        match rest.iter().position(|byte| !is_white_space(*byte)) {
            Some(place) => {
                self.at += place;
                Some(rest[place])
            }
            None => {
                self.leave_chunk();
                None
            }
        }
    }

    /// Drops the chunk, which was read to its end, so that the connection can reuse its memory.
    fn leave_chunk(&mut self) {
        self.before += self.chunk.len() as u64;
        self.chunk = Bytes::new();
        self.at = 0;
    }

    /// Steps over the byte that was peeked.
    pub(super) fn step(&mut self) {
        self.at += 1;
    }

    /// Whether a value has begun and not ended.
    pub(super) fn is_within(&self) -> bool {
        self.value.is_some()
    }

    /// Begins a value at the byte that was peeked.
    pub(super) fn begin(&mut self, first: u8, capture: Capture) {
        let keep = if capture == Capture::Nothing { Keep::Nothing } else { Keep::All };
        let levels = if let Capture::Outlined(levels) = capture { levels } else { 0 };
        let extent = Extent::of(first, levels);
        self.value = Some(PartialValue { extent, start: self.at, pieces: Vec::new(), keep });
    }

    /// Reads on in the value. Returns `None` if it does not end in this chunk.
    pub(super) fn proceed(&mut self) -> Option<Gathered> {
        let value = self.value.as_mut()?;
        let Some(end) = value.extent.feed(&self.chunk[self.at..]) else {
            value.add(&self.chunk[value.start..], self.limit, self.largest);
            value.start = 0;
            self.leave_chunk();
            return None;
        };
        self.at += end;
        let mut value = self.value.take()?;
        let piece = value.start..self.at;
        if value.keep == Keep::All && value.pieces.is_empty() && piece.len() <= self.limit {
            return Some(Gathered::Whole(self.chunk.slice(piece), value.extent.into_outline()));
        }
        value.add(&self.chunk[piece], self.limit, self.largest);
        Some(match value.keep {
            Keep::All => {
                self.largest = self.largest.max(value.pieces.len());
                Gathered::Whole(value.pieces.into(), value.extent.into_outline())
            }
            Keep::Beginning => Gathered::TooLarge(value.pieces),
            Keep::Nothing => Gathered::Skipped,
        })
    }

    /// Skips everything up to the end of the line. Returns whether the line ends in this chunk.
    pub(super) fn skip_line(&mut self) -> bool {
        match self.chunk[self.at..].iter().position(|byte| *byte == b'\n') {
            Some(place) => {
                self.at += place + 1;
                true
            }
            None => {
                self.leave_chunk();
                false
            }
        }
    }
}

impl PartialValue {
    /// Appends a piece, up to the limit. The first piece reserves the size of the largest value so
    /// far.
    fn add(&mut self, piece: &[u8], limit: usize, largest: usize) {
        if self.keep != Keep::All {
            return;
        }
        let room = limit - self.pieces.len();
        if self.pieces.is_empty() && piece.len() <= room {
            self.pieces.reserve_exact(largest.max(piece.len()));
        }
        self.pieces.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            self.keep = Keep::Beginning;
        }
    }
}
