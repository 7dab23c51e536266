//! The kubeconfig of a server that was started here.

use serde_json::json;

use super::certificates::Signed;

/// A kubeconfig with one cluster and one user. Everything is inline, so that the file can be copied anywhere.
pub(super) fn kubeconfig(url: &str, authority: &str, user: &Signed, token: &str) -> String {
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "steersman", "cluster": {
            "server": url,
            "certificate-authority-data": base64(authority.as_bytes()),
        }}],
        "users": [{"name": "steersman-admin", "user": {
            "client-certificate-data": base64(user.certificate.as_bytes()),
            "client-key-data": base64(user.key.as_bytes()),
            "token": token,
        }}],
        "contexts": [{"name": "steersman", "context": {
            "cluster": "steersman", "user": "steersman-admin", "namespace": "default",
        }}],
        "current-context": "steersman",
    });
    format!("{kubeconfig:#}\n")
}

/// Standard base64, with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let index = bits >> (18 - 6 * place) & 0x3f;
            text.push(if place <= chunk.len() { char::from(ALPHABET[index as usize]) } else { '=' });
        }
    }
    text
}
