//! Base64 as Go's `encoding/base64` reads and writes it: standard with padding, and for URLs
//! without.
//!
//! The crate `base64` encodes and decodes. Go's leniency is on top: line ends are skipped anywhere,
//! and surplus bits at the end are ignored. So are Go's errors, which name the byte where Go's
//! decoder stops.

use std::borrow::Cow;

use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet::Alphabet};

const STANDARD_PADDED: GeneralPurpose = engine(&STANDARD, true);
const URL_UNPADDED: GeneralPurpose = engine(&URL_SAFE, false);

const fn engine(alphabet: &Alphabet, padded: bool) -> GeneralPurpose {
    let padding = if padded { DecodePaddingMode::RequireCanonical } else { DecodePaddingMode::RequireNone };
    let config = GeneralPurposeConfig::new().with_encode_padding(padded).with_decode_padding_mode(padding);
    GeneralPurpose::new(alphabet, config.with_decode_allow_trailing_bits(true))
}

/// Standard base64, with padding.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD_PADDED.encode(bytes)
}

/// Base64 for URLs, without padding.
pub fn encode_url(bytes: &[u8]) -> String {
    URL_UNPADDED.encode(bytes)
}

/// Decodes standard base64. The error is Go's.
pub fn decode(text: &str) -> Result<Vec<u8>, String> {
    decode_with(&STANDARD_PADDED, text).map_err(|()| {
        let at = stops_at(text.as_bytes(), *b"+/", true);
        format!("illegal base64 data at input byte {at}")
    })
}

/// Decodes base64 for URLs. The error is the offset of the byte that Go's error names.
pub fn decode_url(text: &str) -> Result<Vec<u8>, usize> {
    decode_with(&URL_UNPADDED, text).map_err(|()| stops_at(text.as_bytes(), *b"-_", false))
}

fn decode_with(engine: &GeneralPurpose, text: &str) -> Result<Vec<u8>, ()> {
    let mut text = Cow::Borrowed(text.as_bytes());
    if text.iter().any(is_line_end) {
        text.to_mut().retain(|byte| !is_line_end(byte));
    }
    engine.decode(text).map_err(drop)
}

fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// The byte at which Go's decoder stops in text that is not base64.
fn stops_at(text: &[u8], specials: [u8; 2], padded: bool) -> usize {
    let next = |from: usize| (from..text.len()).find(|at| !is_line_end(&text[*at]));
    // How many characters of a group of four were read.
    let (mut count, mut from) = (0, 0);
    while let Some(at) = next(from) {
        from = at + 1;
        if padded && text[at] == b'=' {
            if count < 2 {
                return at;
            }
            if count == 2 {
                match next(from) {
                    None => return text.len(),
                    Some(second) if text[second] != b'=' => return second - 1,
                    Some(second) => from = second + 1,
                }
            }
            return next(from).unwrap_or(text.len());
        }
        if !text[at].is_ascii_alphanumeric() && !specials.contains(&text[at]) {
            return at;
        }
        count = (count + 1) % 4;
    }
    text.len() - count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive() {
        for length in 0..50 {
            let bytes: Vec<u8> = (0..length).map(|number: u8| number.wrapping_mul(97)).collect();
            assert_eq!(decode(&encode(&bytes)), Ok(bytes));
        }
        assert_eq!(encode(b"hi"), "aGk=");
        assert_eq!(encode(b"hello!"), "aGVsbG8h");
    }

    /// The errors of Go's decoder, some of them seen from a real server.
    #[test]
    fn go_decides_what_is_legal() {
        for (text, expected) in [
            ("aGk=", Ok(&b"hi"[..])),
            ("aG\nk=\r\n", Ok(b"hi")),
            ("aGl=", Ok(b"hi")),
            ("", Ok(b"")),
            ("aGk", Err(0)),
            ("aGkhaG", Err(4)),
            ("***", Err(0)),
            ("aGk*", Err(3)),
            ("=", Err(0)),
            ("a=", Err(1)),
            ("aG=", Err(3)),
            ("aG=x", Err(2)),
            ("aGk=x", Err(4)),
            ("aG==\nx", Err(5)),
            ("é", Err(0)),
        ] {
            let expected = expected.map(<[u8]>::to_vec).map_err(|at| format!("illegal base64 data at input byte {at}"));
            assert_eq!(decode(text), expected, "{text:?}");
        }
    }

    #[test]
    fn padding_follows_rfc_4648() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in cases {
            assert_eq!(encode(plain.as_bytes()), encoded);
            assert_eq!(encode_url(plain.as_bytes()), encoded.trim_end_matches('='));
            assert_eq!(decode_url(encoded.trim_end_matches('=')).as_deref(), Ok(plain.as_bytes()));
        }
    }

    #[test]
    fn urls_have_an_alphabet_of_their_own() {
        let bytes = [0xfb, 0xff, 0xfe];
        assert_eq!((encode(&bytes), encode_url(&bytes)), ("+//+".to_owned(), "-__-".to_owned()));
        assert_eq!(decode_url("-__-").as_deref(), Ok(&bytes[..]));
        assert_eq!(decode_url("-_\n_-\r").as_deref(), Ok(&bytes[..]));
        assert_eq!((decode_url("Zm9*"), decode_url("***"), decode_url("Z")), (Err(3), Err(0), Err(0)));
    }
}
