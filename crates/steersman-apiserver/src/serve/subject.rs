//! The user of a client certificate: its common name is the user, its organisations are the groups.

use sha2::{Digest, Sha256};

use crate::request::identity::{CREDENTIAL, Identity};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// UTF-8, printable, teletex and ASCII strings.
const STRINGS: [u8; 4] = [0x0c, 0x13, 0x14, 0x16];
/// The version, which is tagged as it may be absent.
const VERSION: u8 = 0xa0;
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

impl Identity {
    /// The identity of a client certificate in DER form: its common name is the user, its
    /// organisations are the groups. `None` if it has no common name.
    ///
    /// This only parses. A server on a socket has checked that its own authority signed the
    /// certificate.
    pub fn of_certificate(certificate: &[u8]) -> Option<Self> {
        identity(certificate)
    }
}

/// The identity of this certificate, which has been checked before. `None` if it has no common
/// name.
pub(super) fn identity(certificate: &[u8]) -> Option<Identity> {
    let names = names(certificate)?;
    let of = |oid: [u8; 3]| names.iter().filter(move |(found, _)| **found == oid).map(|(_, name)| name.clone());
    let name = of(COMMON_NAME).next_back().filter(|name| !name.is_empty())?;
    let hash: String = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect();
    Some(Identity::new(name, of(ORGANIZATION)).with_extra(CREDENTIAL, format!("X509SHA256={hash}")))
}

/// The parts of the subject's name: the type and the text of each.
fn names(certificate: &[u8]) -> Option<Vec<(&[u8], String)>> {
    let (certificate, _) = expect(SEQUENCE, certificate)?;
    let (mut rest, _) = expect(SEQUENCE, certificate)?;
    if let Some((_, after)) = expect(VERSION, rest) {
        rest = after;
    }
    // Serial number, algorithm, issuer and validity come before it.
    for _ in 0..4 {
        (_, _, rest) = element(rest)?;
    }
    let (mut subject, _) = expect(SEQUENCE, rest)?;
    let mut names = Vec::new();
    while !subject.is_empty() {
        let (mut set, after) = expect(SET, subject)?;
        subject = after;
        while !set.is_empty() {
            let (pair, after) = expect(SEQUENCE, set)?;
            set = after;
            let (oid, value) = expect(OBJECT_IDENTIFIER, pair)?;
            let (tag, text, _) = element(value)?;
            if STRINGS.contains(&tag) {
                names.push((oid, String::from_utf8_lossy(text).into_owned()));
            }
        }
    }
    Some(names)
}

/// The content of an element that must have this tag, and the rest.
fn expect(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// The tag and the content of the first element, and the rest.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        // Four bytes of length are more than any certificate needs.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_subject_is_the_user_and_its_organisations_the_groups() {
        let second = DnType::CustomDnType(vec![2, 5, 4, 10]);
        let long = "x".repeat(300);
        let der = certificate(&[
            (DnType::CountryName, "CH"),
            (DnType::OrganizationName, "first"),
            (DnType::CommonName, "jäne"),
            (second, &long),
        ]);
        let identity = identity(&der).unwrap();
        assert_eq!(identity.name(), "jäne");
        assert_eq!(identity.groups(), ["first", &long, "system:authenticated"]);
        let credential = &identity.extra()[CREDENTIAL][0];
        assert_eq!(credential.len(), "X509SHA256=".len() + 64);
    }

    #[test]
    fn a_certificate_without_a_common_name_has_no_user() {
        let whole = certificate(&[(DnType::CommonName, "jane")]);
        assert_eq!(identity(&certificate(&[(DnType::OrganizationName, "first")])), None);
        for end in 0..whole.len() {
            let _ = identity(&whole[..end]);
            let mut bad = whole.clone();
            bad[end] ^= 0xff;
            let _ = identity(&bad);
        }
        assert_eq!(identity(&whole[..40]), None);
    }
}
