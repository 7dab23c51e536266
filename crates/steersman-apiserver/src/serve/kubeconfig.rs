//! The kubeconfig of a server that was started here.

use serde_json::json;

use super::certificates::Signed;
use crate::identity::Identity;

/// What the kubeconfigs of a server are made of.
pub(super) struct Kubeconfig {
    pub(super) url: String,
    pub(super) authority: String,
    pub(super) admin: Signed,
    pub(super) token: String,
}

impl Kubeconfig {
    /// A kubeconfig with one cluster and one user. Everything is inline, so that the file can be copied anywhere.
    pub(super) fn text(&self, acting_as: Option<&Identity>) -> String {
        let mut kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "steersman", "cluster": {
                "server": self.url,
                "certificate-authority-data": base64(self.authority.as_bytes()),
            }}],
            "users": [{"name": "steersman-admin", "user": {
                "client-certificate-data": base64(self.admin.certificate.as_bytes()),
                "client-key-data": base64(self.admin.key.as_bytes()),
                "token": self.token,
            }}],
            "contexts": [{"name": "steersman", "context": {
                "cluster": "steersman", "user": "steersman-admin", "namespace": "default",
            }}],
            "current-context": "steersman",
        });
        if let Some(identity) = acting_as {
            let user = &mut kubeconfig["users"][0]["user"];
            user["as"] = identity.name().into();
            user["as-groups"] = json!(identity.groups());
            for (name, empty, value) in [
                ("as-uid", identity.uid().is_empty(), json!(identity.uid())),
                ("as-user-extra", identity.extra().is_empty(), json!(identity.extra())),
            ] {
                if !empty {
                    user[name] = value;
                }
            }
        }
        format!("{kubeconfig:#}\n")
    }
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
