//! The signature of a JSON web token: ECDSA on the curve P-256, which the real server has as ES256.

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use steersman_wire::base64;

/// The error for a token of another key.
pub(crate) const NO_KEY: &str = "invalid signature, no keys found";
const BAD_SIGNATURE: &str = "go-jose/go-jose: error in cryptographic primitive";
/// How a public key of this curve begins as DER.
const KEY_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The bytes of each coordinate of a point.
const COORDINATE: usize = 32;

/// The key of one server.
pub(crate) struct SigningKey {
    /// Absent if the system has no randomness.
    pair: Option<EcdsaKeyPair>,
    /// The hash of the public key, by which tokens name it.
    id: String,
}

impl SigningKey {
    /// A new key of the system's randomness, and not of the server's `World`: with a seed that is
    /// known, anyone could compute the key and sign tokens. So tokens differ between runs with the
    /// same seed.
    pub(crate) fn generate() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).ok();
        let pair = pair.and_then(|document| EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).ok());
        let public = pair.as_ref().map_or(&[][..], |pair| pair.public_key().as_ref());
        let id = base64::encode_url(&Sha256::digest([&KEY_PREFIX[..], public].concat()));
        Self { pair, id }
    }

    /// Signs a token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> Result<String, &'static str> {
        let header = json!({"alg": "ES256", "kid": self.id});
        let part = |value: &Value| base64::encode_url(value.to_string().as_bytes());
        let content = format!("{}.{}", part(&header), part(claims));
        let pair = self.pair.as_ref().ok_or("there is no randomness")?;
        let signature = pair.sign(&SystemRandom::new(), content.as_bytes()).map_err(|_| "there is no randomness")?;
        Ok(format!("{content}.{}", base64::encode_url(signature.as_ref())))
    }

    /// The claims of a token that this key has signed. The error is that of the real server.
    pub(crate) fn verify(&self, token: &str) -> Result<Value, String> {
        let (content, signature) = token.rsplit_once('.').ok_or(BAD_SIGNATURE)?;
        let (header, claims) = content.split_once('.').ok_or(BAD_SIGNATURE)?;
        let header = decode(header).ok_or(BAD_SIGNATURE)?;
        if header["kid"].as_str().is_some_and(|id| id != self.id) {
            return Err(NO_KEY.to_owned());
        }
        let public = self.pair.as_ref().map(EcdsaKeyPair::public_key).ok_or(NO_KEY)?;
        let signature = base64::decode_url(signature).map_err(|_| BAD_SIGNATURE)?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public.as_ref());
        if header["alg"] != "ES256" || public.verify(content.as_bytes(), &signature).is_err() {
            return Err(BAD_SIGNATURE.to_owned());
        }
        decode(claims).ok_or_else(|| BAD_SIGNATURE.to_owned())
    }

    /// The public key, for others that check tokens.
    pub(crate) fn key_set(&self) -> Value {
        let public = self.pair.as_ref().map_or(&[][..], |pair| pair.public_key().as_ref());
        // An uncompressed point is a byte that marks it as one, and its coordinates.
        let coordinates: Vec<&[u8]> = public.get(1..).unwrap_or_default().chunks(COORDINATE).collect();
        let [x, y] = coordinates[..] else { return json!({"keys": []}) };
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": base64::encode_url(x), "y": base64::encode_url(y),
        }]})
    }
}

fn decode(part: &str) -> Option<Value> {
    serde_json::from_slice(&base64::decode_url(part).ok()?).ok()
}

/// The issuer that a token names, which is not checked. `None` if it is no such token.
pub(crate) fn issuer(token: &str) -> Option<String> {
    let [_, claims, _] = token.split('.').collect::<Vec<_>>()[..] else { return None };
    decode(claims)?["iss"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_for_its_key_only_and_as_it_is() {
        let (key, other) = (SigningKey::generate(), SigningKey::generate());
        let claims = json!({"iss": "me", "sub": "you"});
        let token = key.sign(&claims).unwrap();
        assert_eq!(key.verify(&token), Ok(claims.clone()));
        assert_eq!(issuer(&token).as_deref(), Some("me"));
        assert_eq!(other.verify(&token), Err(NO_KEY.to_owned()));
        let parts: Vec<&str> = token.split('.').collect();
        let with = |part: usize, value: &str| {
            let mut parts = parts.clone();
            parts[part] = value;
            key.verify(&parts.join("."))
        };
        let of = |value: Value| base64::encode_url(value.to_string().as_bytes());
        let bad = Err(BAD_SIGNATURE.to_owned());
        assert_eq!(with(1, &of(json!({"iss": "me", "sub": "root"}))), bad);
        assert_eq!(with(0, &of(json!({"alg": "none"}))), bad);
        assert_eq!(with(0, &of(json!({"alg": "HS256", "kid": key.id}))), bad);
        assert_eq!(with(2, ""), bad);
        assert_eq!(with(2, parts[1]), bad);
        for text in ["", ".", "..", "a.b.c", "a.b", "a.b.c.d", &token[..token.len() - 1]] {
            assert!(key.verify(text).is_err(), "{text}");
        }
        let texts = ["", "..", "a.b.c", "a.b.c.d"];
        assert!(texts.into_iter().all(|text| issuer(text).is_none()));
    }

    #[test]
    fn the_published_key_is_that_of_the_signature() {
        let key = SigningKey::generate();
        let set = key.key_set();
        let part = |name: &str| base64::decode_url(set["keys"][0][name].as_str().unwrap()).unwrap();
        let point = [&[4][..], &part("x"), &part("y")].concat();
        let token = key.sign(&json!({})).unwrap();
        let (content, signature) = token.rsplit_once('.').unwrap();
        let signature = base64::decode_url(signature).unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point);
        assert!(public.verify(content.as_bytes(), &signature).is_ok());
        assert_eq!(set["keys"][0]["kid"], key.id);
    }
}
