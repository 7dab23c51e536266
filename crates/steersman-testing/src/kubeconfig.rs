//! The kubeconfig of a server that was started here.

use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::json;

use crate::Error;
use crate::certificates::Signed;

/// A kubeconfig with one cluster and one user. Everything is inline, so that the file can be copied anywhere.
pub(crate) fn kubeconfig(url: &str, authority: &str, user: &Signed) -> Kubeconfig {
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "steersman", "cluster": {
            "server": url,
            "certificate-authority-data": base64(authority.as_bytes()),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": base64(user.certificate.as_bytes()),
            "client-key-data": base64(user.key.as_bytes()),
        }}],
        "contexts": [{"name": "steersman", "context": {
            "cluster": "steersman", "user": "admin", "namespace": "default",
        }}],
        "current-context": "steersman",
    }))
    .expect("this is the shape of a kubeconfig")
}

/// The client configuration for the current context.
pub(crate) async fn config(kubeconfig: Kubeconfig) -> Result<Config, String> {
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(|error| error.to_string())
}

/// A client of the runtime we are in.
pub(crate) fn client(config: Config) -> Result<Client, Error> {
    Client::try_from(config).map_err(Error::client("accept a connection"))
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

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_pads_as_rfc_4648_says() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in cases {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
