//! 64 bytes at a time: which of them are quotes, backslashes and brackets, as bits.
//!
//! Most of what is read is only passed over, so the cost of a byte that does not matter is the cost of everything. Bits of
//! 64 bytes let strings and nesting be followed without a branch for each token.

/// How many bytes a block has.
pub(super) const BLOCK: usize = 64;

/// What the bytes of a block are; bit `i` tells of byte `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) quotes: u64,
    pub(super) backslashes: u64,
    /// `{` and `[`.
    pub(super) opens: u64,
    /// `}` and `]`.
    pub(super) closes: u64,
}

impl Block {
    /// Not inlined: only where its answer goes to memory does the compiler swap all bits with vectors (a third faster).
    #[inline(never)]
    pub(super) fn of(bytes: &[u8; BLOCK]) -> Self {
        let [a, b] = columns(bytes, 0, [b'"', b'\\']);
        // `[` and `]` differ from `{` and `}` in this bit only, and no other byte becomes one of those by it.
        let [c, d] = columns(bytes, 0x20, [b'{', b'}']);
        // All four at once, as the compiler makes vectors of that.
        let [a, b, c, d] = transpose([a, b, c, d]);
        let ([quotes, backslashes], [opens, closes]) = (rows(a, b), rows(c, d));
        Self { quotes, backslashes, opens, closes }
    }
}

/// Where each of two bytes is, after `bits` have been set in all bytes of the block.
///
/// The loop is written for the compiler to make vectors of it: the block is four rows of 16 columns, and each column gathers
/// what its four bytes are in one byte, two bits a row. The left and the right half of the columns are the answer.
#[inline(always)]
fn columns(bytes: &[u8; BLOCK], bits: u8, wanted: [u8; 2]) -> [u64; 2] {
    let mut columns = [0_u8; 16];
    for (column, found) in columns.iter_mut().enumerate() {
        let is = |row: usize, which: usize| {
            if bytes[row * 16 + column] | bits == wanted[which] { 1 << (2 * row + which) } else { 0_u8 }
        };
        *found = is(0, 0) | is(1, 0) | is(2, 0) | is(3, 0) | is(0, 1) | is(1, 1) | is(2, 1) | is(3, 1);
    }
    let (halves, _) = columns.as_chunks::<8>();
    [u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1])]
}

/// Takes the bits of each for a square of 8 by 8 and swaps rows and columns.
#[inline(always)]
fn transpose(mut squares: [u64; 4]) -> [u64; 4] {
    for (distance, mask) in [(7, 0x00AA_00AA_00AA_00AA), (14, 0x0000_CCCC_0000_CCCC), (28, 0x0000_0000_F0F0_F0F0)] {
        let differing: [u64; 4] = squares.map(|bits| (bits ^ (bits >> distance)) & mask);
        for (bits, differing) in squares.iter_mut().zip(differing) {
            *bits ^= differing ^ (differing << distance);
        }
    }
    squares
}

/// Puts together what the left and the right columns know, of each of the two bytes: in each half, byte 2 × row + which, bit
/// column.
#[inline(always)]
fn rows(left: u64, right: u64) -> [u64; 2] {
    const EVEN_BYTES: u64 = 0x00FF_00FF_00FF_00FF;
    [(left & EVEN_BYTES) | (right & EVEN_BYTES) << 8, (left >> 8 & EVEN_BYTES) | (right & !EVEN_BYTES)]
}

/// The first `"` or `\` of `bytes` at or after `from`.
#[inline(always)]
pub(super) fn quote_or_backslash(bytes: &[u8], mut from: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    // The lowest high bit that is set tells the first byte that is zero; those above it may be wrong.
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

    /// Bytes that a wrong comparison would take for others.
    const SUSPECTS: [u8; 18] = *b"\"\\{}[]\x00\x80\xff\x02\xa2#]\x5e\x7c\xfb\xfd ";

    fn block(seed: usize) -> [u8; BLOCK] {
        std::array::from_fn(|place| SUSPECTS[(place * 7 + seed * 13 + place * seed) % SUSPECTS.len()])
    }

    #[test]
    fn bits_tell_of_their_bytes() {
        for bytes in (0..200).map(block) {
            let bits = |wanted: &[u8]| {
                bytes.iter().rev().fold(0_u64, |bits, byte| bits << 1 | u64::from(wanted.contains(byte)))
            };
            let expected =
                Block { quotes: bits(b"\""), backslashes: bits(b"\\"), opens: bits(b"{["), closes: bits(b"}]") };
            assert_eq!(Block::of(&bytes), expected, "{bytes:?}");
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
