//! Finds the end of a JSON value that arrives in pieces.

use super::DEPTH_MAX;
use super::block::{BLOCK, Block};
use crate::codec::outline::Outline;

/// A value whose end has not arrived yet.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every value is a container, and a box would be an allocation for each"
)]
pub(super) enum Extent {
    /// A string: whether its opening quote was read, and whether the last byte was a backslash.
    String { opened: bool, escaped: bool },
    /// An object or a list.
    Container(Nesting),
    /// A number or a word: everything up to a delimiter.
    Scalar,
}

impl Extent {
    /// The value that begins with this byte. Its outline covers `levels` levels.
    pub(super) fn of(first: u8, levels: usize) -> Self {
        match first {
            b'"' => Self::String { opened: false, escaped: false },
            b'{' | b'[' => Self::Container(Nesting::new(0).outlined(levels)),
            _ => Self::Scalar,
        }
    }

    /// The outline of the value.
    pub(super) fn into_outline(self) -> Outline {
        if let Self::Container(nesting) = self { nesting.into_outline() } else { Outline::default() }
    }

    /// Reads on, beginning with the first byte of the value. Returns how many bytes of `bytes`
    /// belong to the value, if it ends there.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Container(nesting) => nesting.feed(bytes),
            Self::Scalar => bytes.iter().position(|byte| is_delimiter(*byte)),
            Self::String { opened, escaped } => {
                for (place, byte) in bytes.iter().enumerate() {
                    match byte {
                        _ if *escaped => *escaped = false,
                        b'\\' => *escaped = true,
                        b'"' if *opened => return Some(place + 1),
                        b'"' => *opened = true,
                        _ => {}
                    }
                }
                None
            }
        }
    }
}

/// Whether a number or a word ends before this byte.
pub(super) fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b':' | b'"' | b'{' | b'[') || is_white_space(byte)
}

/// Whether JSON allows this byte between tokens.
#[inline(always)]
pub(super) fn is_white_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Follows strings and brackets until the first bracket is closed.
///
/// It does not check which bracket closes which, nor anything between them. Decoding the value
/// does.
#[derive(Debug, Clone)]
pub(super) struct Nesting {
    depth: usize,
    /// The depth at which the value begins.
    floor: usize,
    /// How many bytes were read.
    read: usize,
    /// The outline, if it is wanted, and how many levels it covers.
    outline: Outline,
    outlined: usize,
    /// All ones within a string, else zero.
    in_string: u64,
    /// 1 when the next byte is escaped.
    escaped: u64,
    /// Zero as long as every byte was ASCII.
    non_ascii: u32,
    too_deep: bool,
}

impl Nesting {
    /// Starts before a bracket that is nested in `floor` others.
    pub(super) fn new(floor: usize) -> Self {
        Self {
            depth: floor,
            floor,
            read: 0,
            outline: Outline::default(),
            outlined: 0,
            in_string: 0,
            escaped: 0,
            non_ascii: 0,
            too_deep: false,
        }
    }

    /// Records an outline of `levels` levels.
    pub(super) fn outlined(self, levels: usize) -> Self {
        Self { outlined: levels, ..self }
    }

    /// The outline of the value.
    pub(super) fn into_outline(self) -> Outline {
        let mut outline = self.outline;
        outline.too_deep = self.too_deep;
        outline.is_ascii = self.non_ascii == 0;
        outline
    }

    /// Whether the value was nested deeper than allowed.
    pub(super) fn too_deep(&self) -> bool {
        self.too_deep
    }

    /// Reads on. Returns the number of bytes up to and including the closing bracket.
    #[inline]
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for (index, block) in blocks.iter().enumerate() {
            if let Some(end) = self.block(&Block::of(block), BLOCK) {
                return Some(index * BLOCK + end);
            }
            self.read += BLOCK;
        }
        if rest.is_empty() {
            return None;
        }
        let mut padded = [b' '; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        let end = self.block(&Block::of(&padded), rest.len()).map(|end| blocks.len() * BLOCK + end);
        self.read += rest.len();
        end
    }

    /// `length` is how many bytes of the block are real.
    #[inline(always)]
    fn block(&mut self, block: &Block, length: usize) -> Option<usize> {
        self.non_ascii |= block.non_ascii;
        let escaped = self.escaped(block.backslashes, length);
        let strings = prefix_xor(block.quotes & !escaped) ^ self.in_string;
        self.in_string = (strings.cast_signed() >> 63).cast_unsigned();
        let (opens, closes) = (block.opens & !strings, block.closes & !strings);
        if opens | closes == 0 {
            return None;
        }
        let (opened, closed) = (opens.count_ones() as usize, closes.count_ones() as usize);
        if self.depth > self.floor + self.outlined + closed && self.depth + opened <= DEPTH_MAX {
            self.depth = self.depth + opened - closed;
            return None;
        }
        self.brackets(opens, closes)
    }

    /// Goes from bracket to bracket, where the value may end or become too deep.
    fn brackets(&mut self, opens: u64, closes: u64) -> Option<usize> {
        let mut brackets = opens | closes;
        while brackets != 0 {
            let place = brackets.trailing_zeros();
            brackets &= brackets - 1;
            if opens >> place & 1 == 1 {
                // The bracket of the value itself is on no level.
                let level = (self.depth - self.floor).wrapping_sub(1);
                if level < self.outlined {
                    self.outline.begin(level, self.read + place as usize);
                }
                self.depth += 1;
                self.too_deep |= self.depth > DEPTH_MAX;
            } else {
                self.depth = self.depth.saturating_sub(1);
                let level = self.depth.wrapping_sub(self.floor + 1);
                if level < self.outlined {
                    self.outline.end(level, self.read + place as usize + 1);
                }
                if self.depth <= self.floor {
                    return Some(place as usize + 1);
                }
            }
        }
        None
    }

    /// The bytes that a backslash escapes. In a run of backslashes every second one escapes the
    /// next byte.
    #[inline(always)]
    fn escaped(&mut self, backslashes: u64, length: usize) -> u64 {
        const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
        if backslashes == 0 {
            return std::mem::take(&mut self.escaped);
        }
        // A run that begins at an even place and ends before an odd one, or the other way round,
        // escapes the byte after it. The subtraction carries each run to its end, where the parity
        // shows.
        let begins = backslashes & !self.escaped;
        let carried = (begins << 1 | ODD).wrapping_sub(begins) ^ ODD;
        let escaped = carried ^ (backslashes | self.escaped);
        let last = length - 1;
        // Padding after the last real byte is not escaped.
        self.escaped = (carried & backslashes) >> last & 1;
        escaped
    }
}

/// Each bit becomes the parity of itself and all lower bits: it is set from each opening quote up
/// to its closing one.
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same, byte by byte.
    fn naive_end(bytes: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (0, false, false);
        for (place, byte) in bytes.iter().enumerate() {
            let was_escaped = std::mem::take(&mut escaped);
            match byte {
                b'\\' => escaped = !was_escaped,
                b'"' if !was_escaped => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth -= 1;
                    if depth <= 0 {
                        return Some(place + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// A pseudo-random text of the bytes that matter.
    fn text(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut text = vec![b'{'];
        text.extend((0..length).map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            b"\\\\\\\"\"{[}] abc"[(state % 13) as usize]
        }));
        text
    }

    #[test]
    fn the_end_is_where_a_byte_loop_finds_it_however_the_text_is_cut() {
        for seed in 0..3000 {
            let text = text(seed, 20 + (seed as usize * 7) % 300);
            let expected = naive_end(&text);
            assert_eq!(Nesting::new(0).feed(&text), expected, "{:?}", String::from_utf8_lossy(&text));
            for cut in [1, 2, 3, 63, 64, 65] {
                let (mut nesting, mut read, mut end) = (Nesting::new(0), 0, None);
                for piece in text.chunks(cut) {
                    end = nesting.feed(piece).map(|place| read + place);
                    if end.is_some() {
                        break;
                    }
                    read += piece.len();
                }
                assert_eq!(end, expected, "cut every {cut}: {:?}", String::from_utf8_lossy(&text));
            }
        }
    }

    #[test]
    fn depth_is_bounded_exactly() {
        let nested = |depth: usize| [b"[".repeat(depth), b"]".repeat(depth)].concat();
        for (depth, too_deep) in [(1, false), (DEPTH_MAX, false), (DEPTH_MAX + 1, true)] {
            let (mut nesting, text) = (Nesting::new(0), nested(depth));
            assert_eq!(nesting.feed(&text), Some(text.len()));
            assert_eq!(nesting.too_deep(), too_deep, "depth {depth}");
        }
        let mut nesting = Nesting::new(1);
        nesting.feed(&nested(DEPTH_MAX));
        assert!(nesting.too_deep(), "what stands around counts too");
    }
}
