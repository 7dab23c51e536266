//! Values that come in pieces, put together.

use std::fmt;

use bytes::Bytes;

use super::extent::{Extent, is_white_space};
use crate::codec::hidden::Length;
use crate::codec::outline::Outline;
use crate::codec::{Limits, WireError};

/// The chunk that is being read, and the value that has begun in it or before it.
pub(super) struct Gather {
    chunk: Bytes,
    at: usize,
    /// How long the chunks before this one were together.
    before: u64,
    value: Option<Begun>,
    limit: usize,
    /// The size of the largest value that came in pieces: room for the next one is made at once.
    largest: usize,
}

/// A value whose end has not come.
struct Begun {
    extent: Extent,
    /// Where in the chunk it began, or zero if that was in an earlier one.
    start: usize,
    /// What earlier chunks have of it.
    pieces: Vec<u8>,
    kept: Kept,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    /// It is too large; what there is of it stays, to tell whose it is.
    Beginning,
    Nothing,
}

/// What is of interest in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Only where it ends.
    Nothing,
    /// The value.
    Value,
    /// The value, and where its parts on so many levels are.
    Outlined(usize),
}

/// A value that has ended.
pub(super) enum Gathered {
    /// The value, in one piece, and where its parts are if that was asked for.
    Whole(Bytes, Outline),
    /// The beginning of a value that is larger than the limit.
    TooLarge(Vec<u8>),
    /// A value that was passed over.
    PassedOver,
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

    /// How much room there is for the value that comes in pieces.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.value.as_ref().map_or(0, |value| value.pieces.capacity())
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Takes the next chunk. What has not been read of the one before stays in front of it.
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

    /// How many bytes have been read.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    pub(super) fn structure(&self, expected: &'static str) -> WireError {
        WireError::Structure { offset: self.offset(), expected }
    }

    /// The next byte that is not white space, which stays the next one.
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

    /// The chunk has been read to its end, and is not held on to: who reads from the connection can use its memory again.
    fn leave_chunk(&mut self) {
        self.before += self.chunk.len() as u64;
        self.chunk = Bytes::new();
        self.at = 0;
    }

    /// Steps over the byte that was seen.
    pub(super) fn step(&mut self) {
        self.at += 1;
    }

    /// Whether a value has begun and not ended.
    pub(super) fn is_within(&self) -> bool {
        self.value.is_some()
    }

    /// Begins a value at the byte that was seen; `wanted` says what is of interest.
    pub(super) fn begin(&mut self, first: u8, wanted: Wanted) {
        let kept = if wanted == Wanted::Nothing { Kept::Nothing } else { Kept::All };
        let levels = if let Wanted::Outlined(levels) = wanted { levels } else { 0 };
        let extent = Extent::of(first, levels);
        self.value = Some(Begun { extent, start: self.at, pieces: Vec::new(), kept });
    }

    /// Reads on in the value that has begun; none if this chunk does not have its end.
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
        if value.kept == Kept::All && value.pieces.is_empty() && piece.len() <= self.limit {
            return Some(Gathered::Whole(self.chunk.slice(piece), value.extent.into_outline()));
        }
        value.add(&self.chunk[piece], self.limit, self.largest);
        Some(match value.kept {
            Kept::All => {
                self.largest = self.largest.max(value.pieces.len());
                Gathered::Whole(value.pieces.into(), value.extent.into_outline())
            }
            Kept::Beginning => Gathered::TooLarge(value.pieces),
            Kept::Nothing => Gathered::PassedOver,
        })
    }

    /// Passes over everything up to the end of the line; whether that was in this chunk.
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

impl Begun {
    /// Keeps a piece, up to the limit. The first piece makes room for a value as large as any so far.
    fn add(&mut self, piece: &[u8], limit: usize, largest: usize) {
        if self.kept != Kept::All {
            return;
        }
        let room = limit - self.pieces.len();
        if self.pieces.is_empty() && piece.len() <= room {
            self.pieces.reserve_exact(largest.max(piece.len()));
        }
        self.pieces.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            self.kept = Kept::Beginning;
        }
    }
}
