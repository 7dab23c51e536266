//! Puts values together that arrive in pieces.

use std::fmt;

use bytes::{Buf, Bytes};

use crate::codec::hidden::Length;
use crate::codec::{Limits, WireError};

/// How much of a value that is too large is kept, so that an error can name the object.
const BEGINNING: usize = 4_096;
/// The largest capacity that is reserved for a value before its bytes arrive.
const ROOM_MAX: usize = 1 << 20;

/// The current chunk, and the value that began in it or before it.
pub(super) struct Pieces {
    chunk: Bytes,
    /// How many bytes were read.
    offset: u64,
    value: Option<PartialValue>,
    limit: usize,
}

/// A value whose end has not arrived.
struct PartialValue {
    pieces: Vec<u8>,
    /// How many of its bytes are still to come.
    missing: u64,
    too_large: bool,
}

/// A complete value.
pub(super) enum Piece {
    Whole(Bytes),
    /// The beginning of a value that is larger than the limit.
    TooLarge(Vec<u8>),
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begun = self.value.as_ref().map(|value| Length(value.pieces.len()));
        f.debug_struct("Pieces")
            .field("chunk", &Length(self.chunk.len()))
            .field("offset", &self.offset)
            .field("begun", &begun)
            .finish_non_exhaustive()
    }
}

impl Pieces {
    pub(super) fn new(limits: Limits) -> Self {
        Self { chunk: Bytes::new(), offset: 0, value: None, limit: limits.object_bytes_max }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn structure(&self, expected: &'static str) -> WireError {
        WireError::Structure { offset: self.offset, expected }
    }

    /// Adds the next chunk after the unread rest of the one before.
    pub(super) fn push(&mut self, chunk: Bytes) {
        self.chunk = if self.chunk.is_empty() { chunk } else { [&self.chunk[..], &chunk[..]].concat().into() };
    }

    /// Whether everything was read and no value has begun.
    pub(super) fn is_between_values(&self) -> bool {
        self.chunk.is_empty() && self.value.is_none()
    }

    /// The next `N` bytes. `None` until all of them have arrived.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = *self.chunk.first_chunk::<N>()?;
        self.step(N);
        Some(array)
    }

    /// The next number. `None` until all of it has arrived.
    pub(super) fn varint(&mut self) -> Result<Option<u64>, WireError> {
        let mut number = 0_u64;
        for (place, byte) in self.chunk.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                self.step(place + 1);
                return Ok(Some(number));
            }
        }
        if self.chunk.len() >= 10 { Err(self.structure("a number")) } else { Ok(None) }
    }

    /// Begins a value of `length` bytes.
    pub(super) fn begin(&mut self, length: u64) {
        let too_large = length > self.limit as u64;
        self.value = Some(PartialValue { pieces: Vec::new(), missing: length, too_large });
    }

    /// Reads on in the value. Returns `None` until all of it has arrived.
    pub(super) fn proceed(&mut self) -> Option<Piece> {
        let value = self.value.as_mut()?;
        let here = usize::try_from(value.missing).map_or(self.chunk.len(), |missing| missing.min(self.chunk.len()));
        let ends = value.missing == here as u64;
        let piece = self.chunk.split_to(here);
        self.offset += here as u64;
        if ends && value.pieces.is_empty() && !value.too_large {
            self.value = None;
            return Some(Piece::Whole(piece));
        }
        let kept = if value.too_large { piece.len().min(BEGINNING.saturating_sub(value.pieces.len())) } else { here };
        if value.pieces.is_empty() && !value.too_large {
            value.pieces.reserve_exact(usize::try_from(value.missing).unwrap_or(ROOM_MAX).min(ROOM_MAX));
        }
        value.pieces.extend_from_slice(&piece[..kept]);
        value.missing -= here as u64;
        if !ends {
            return None;
        }
        let PartialValue { pieces, too_large, .. } = self.value.take()?;
        Some(if too_large { Piece::TooLarge(pieces) } else { Piece::Whole(pieces.into()) })
    }

    fn step(&mut self, length: usize) {
        self.chunk.advance(length);
        self.offset += length as u64;
        if self.chunk.is_empty() {
            // Drops the chunk, so that the connection can reuse its memory.
            self.chunk = Bytes::new();
        }
    }
}
