//! Classifies 64 bytes at a time: which of them are quotes, backslashes and brackets, as bits.
//!
//! Most of the input is only skipped, so the cost of a byte that does not matter is the cost of
//! everything. With the bits of 64 bytes, strings and nesting are followed without a branch for
//! each token.

use wide::u8x16;

/// How many bytes a block has.
pub(super) const BLOCK: usize = 64;

/// The classes of the bytes of a block; bit `i` belongs to byte `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) quotes: u64,
    pub(super) backslashes: u64,
    /// `{` and `[`.
    pub(super) opens: u64,
    /// `}` and `]`.
    pub(super) closes: u64,
    /// Not zero if any byte is not ASCII. It does not show which one.
    pub(super) non_ascii: u32,
}

impl Block {
    #[inline(always)]
    pub(super) fn of(bytes: &[u8; BLOCK]) -> Self {
        let (rows, _) = bytes.as_chunks::<16>();
        let rows: [u8x16; 4] = std::array::from_fn(|row| u8x16::new(rows[row]));
        // `[` and `]` differ from `{` and `}` in this bit only, and it turns no other byte into one
        // of those.
        let braces = rows.map(|row| row | u8x16::splat(0x20));
        Self {
            quotes: places(&rows, b'"'),
            backslashes: places(&rows, b'\\'),
            opens: places(&braces, b'{'),
            closes: places(&braces, b'}'),
            // The highest bit of each byte.
            non_ascii: (rows[0] | rows[1] | rows[2] | rows[3]).to_bitmask(),
        }
    }
}

/// The places of a byte, as bits.
#[inline(always)]
fn places(rows: &[u8x16; 4], byte: u8) -> u64 {
    let in_row = |row: u8x16| u64::from(row.simd_eq(u8x16::splat(byte)).to_bitmask());
    in_row(rows[0]) | in_row(rows[1]) << 16 | in_row(rows[2]) << 32 | in_row(rows[3]) << 48
}

/// The first `"` or `\` of `bytes` at or after `from`.
#[inline(always)]
pub(super) fn quote_or_backslash(bytes: &[u8], mut from: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    // The lowest bit that is set marks the first zero byte; those above it may be wrong.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    while let Some(chunk) = bytes.get(from..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let found = (zero(word ^ (ONES * b'"' as u64)) | zero(word ^ (ONES * b'\\' as u64))) & HIGH_BITS;
        if found != 0 {
            return Some(from + found.trailing_zeros() as usize / 8);
        }
        from += 8;
    }
    let rest = bytes.get(from..)?;
    rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).map(|place| from + place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that a wrong comparison would mistake for others.
    const SUSPECTS: [u8; 18] = *b"\"\\{}[]\x00\x80\xff\x02\xa2#]\x5e\x7c\xfb\xfd ";

    fn block(seed: usize) -> [u8; BLOCK] {
        std::array::from_fn(|place| SUSPECTS[(place * 7 + seed * 13 + place * seed) % SUSPECTS.len()])
    }

    #[test]
    fn bits_belong_to_their_bytes() {
        for bytes in (0..200).map(block) {
            let bits = |wanted: &[u8]| {
                bytes.iter().rev().fold(0_u64, |bits, byte| bits << 1 | u64::from(wanted.contains(byte)))
            };
            let block = Block::of(&bytes);
            let found = [block.quotes, block.backslashes, block.opens, block.closes];
            assert_eq!(found, [bits(b"\""), bits(b"\\"), bits(b"{["), bits(b"}]")], "{bytes:?}");
        }
    }

    #[test]
    fn one_byte_beyond_ascii_is_seen_wherever_it_is() {
        assert_eq!(Block::of(&[0x7f; BLOCK]).non_ascii, 0);
        for place in 0..BLOCK {
            let mut bytes = [b'a'; BLOCK];
            bytes[place] = 0x80;
            assert_ne!(Block::of(&bytes).non_ascii, 0, "at {place}");
        }
    }

    #[test]
    fn the_first_quote_or_backslash_is_found_wherever_it_is() {
        for length in 0..70 {
            for place in 0..length {
                for byte in *b"\"\\" {
                    let mut bytes = vec![b'a'; length];
                    bytes[place] = byte;
                    assert_eq!(quote_or_backslash(&bytes, 0), Some(place));
                    assert_eq!(quote_or_backslash(&bytes, place), Some(place));
                    assert_eq!(quote_or_backslash(&bytes, place + 1), None);
                }
            }
        }
    }
}
