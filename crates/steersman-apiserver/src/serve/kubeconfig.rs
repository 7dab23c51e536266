//! The kubeconfig of a server that was started here.

use serde_json::json;
use steersman_wire::base64;

use super::certificates::Signed;
use crate::request::identity::Identity;

/// The parts of a server's kubeconfigs.
pub(super) struct Kubeconfig {
    pub(super) url: String,
    pub(super) authority: String,
    pub(super) admin: Signed,
    pub(super) token: String,
}

impl Kubeconfig {
    /// A kubeconfig with one cluster and one user. Everything is inline, so that the file can be
    /// copied anywhere.
    pub(super) fn text(&self, acting_as: Option<&Identity>) -> String {
        let mut kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "steersman", "cluster": {
                "server": self.url,
                "certificate-authority-data": base64::encode(self.authority.as_bytes()),
            }}],
            "users": [{"name": "steersman-admin", "user": {
                "client-certificate-data": base64::encode(self.admin.certificate.as_bytes()),
                "client-key-data": base64::encode(self.admin.key.as_bytes()),
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
