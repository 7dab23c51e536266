//! Base64 for URLs, without padding, as continue tokens are written.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * place) & 0x3f) as usize]));
        }
    }
    text
}

/// The bytes, or the place of the first character that is wrong.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for (chunk_at, chunk) in text.as_bytes().chunks(4).enumerate() {
        let mut bits = 0_u32;
        for (place, character) in chunk.iter().enumerate() {
            let value = ALPHABET.iter().position(|known| known == character).ok_or(chunk_at * 4 + place)?;
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
    fn what_is_encoded_can_be_decoded() {
        for (plain, encoded) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(encode(plain.as_bytes()), encoded);
            assert_eq!(decode(encoded).as_deref(), Ok(plain.as_bytes()));
        }
        assert_eq!((decode("Zm9*"), decode("***"), decode("Z")), (Err(3), Err(0), Err(1)));
        assert_eq!(decode(&encode(&[0xfb, 0xff, 0xfe])).as_deref(), Ok(&[0xfb, 0xff, 0xfe][..]));
    }
}
