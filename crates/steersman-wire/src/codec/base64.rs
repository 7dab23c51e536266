//! Bytes as text: base64 with padding as JSON has it, read with Go's leniency, and base64 for URLs, without padding.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Standard base64, with padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = write(bytes, STANDARD);
    text.extend(std::iter::repeat_n('=', text.len().next_multiple_of(4) - text.len()));
    text
}

/// Base64 for URLs, without padding.
pub fn encode_url(bytes: &[u8]) -> String {
    write(bytes, URL)
}

fn write(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(char::from(alphabet[(bits >> (18 - 6 * place) & 0x3f) as usize]));
        }
    }
    text
}

/// The bytes of standard base64, or what Go says is wrong. Line ends are skipped, as Go does, and bits that are left over at the end are not looked at.
pub fn decode(text: &str) -> Result<Vec<u8>, String> {
    let corrupt = |at: usize| format!("illegal base64 data at input byte {at}");
    let text = text.as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0_usize);
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        at += 1;
        if matches!(byte, b'\r' | b'\n') {
            continue;
        }
        if byte == b'=' {
            let next = |at: &mut usize| {
                while matches!(text.get(*at), Some(b'\r' | b'\n')) {
                    *at += 1;
                }
                text.get(*at).copied()
            };
            match count {
                0 | 1 => return Err(corrupt(at - 1)),
                2 => match next(&mut at) {
                    None => return Err(corrupt(text.len())),
                    Some(b'=') => at += 1,
                    Some(_) => return Err(corrupt(at - 1)),
                },
                _ => {}
            }
            if next(&mut at).is_some() {
                return Err(corrupt(at));
            }
            bits <<= 6 * (4 - count);
            bytes.extend_from_slice(&bits.to_be_bytes()[1..count]);
            return Ok(bytes);
        }
        let sextet = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(corrupt(at - 1)),
        };
        bits = bits << 6 | u32::from(sextet);
        count += 1;
        if count == 4 {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    if count > 0 {
        return Err(corrupt(at - count));
    }
    Ok(bytes)
}

/// The bytes of base64 for URLs, or the place of the first character that is wrong.
pub fn decode_url(text: &str) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for (chunk_at, chunk) in text.as_bytes().chunks(4).enumerate() {
        let mut bits = 0_u32;
        for (place, character) in chunk.iter().enumerate() {
            let value = URL.iter().position(|known| known == character).ok_or(chunk_at * 4 + place)?;
            bits |= (value as u32) << (18 - 6 * place);
        }
        if chunk.len() == 1 {
            return Err(chunk_at * 4 + 1);
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Ok(bytes)
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
    fn padding_is_as_rfc_4648_says() {
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
        assert_eq!((decode_url("Zm9*"), decode_url("***"), decode_url("Z")), (Err(3), Err(0), Err(1)));
    }
}
