//! The audit log of a real API server.

use std::ffi::OsString;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Error, private};

/// The file in the folder of the server. It is no log that a failed test should print.
pub(crate) const LOG: &str = "audit.jsonl";

/// A request that the server has answered, from its audit log (`audit.k8s.io/v1`).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditEvent {
    /// When the request came.
    pub request_received_timestamp: Timestamp,
    /// When it was answered.
    pub stage_timestamp: Timestamp,
    /// `create`, `update`, `patch`, `get` and so on.
    pub verb: String,
    /// The user agent of the client.
    #[serde(default)]
    pub user_agent: String,
    /// The user, unless the client impersonated another.
    #[serde(default)]
    pub user: AuditUser,
    /// The user that the client impersonated, as [`RealServer::user`](crate::RealServer::user)
    /// does.
    #[serde(default)]
    pub impersonated_user: AuditUser,
    /// The object of the request.
    #[serde(default)]
    pub object_ref: AuditObject,
    /// The response.
    #[serde(default)]
    pub response_status: AuditStatus,
    /// The body of the request, for Leases.
    #[serde(default)]
    pub request_object: Value,
}

/// A user. The name is empty if there is none.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AuditUser {
    /// The name.
    pub username: String,
}

/// The object of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct AuditObject {
    /// Empty for the core group.
    pub api_group: String,
    /// In the plural: `leases`.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for collections.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
}

/// The response of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[non_exhaustive]
pub struct AuditStatus {
    /// The HTTP status code.
    #[serde(default)]
    pub code: u16,
}

impl AuditEvent {
    /// Whether it was a write that the server carried out.
    pub fn is_done_write(&self) -> bool {
        self.is_write() && (200..300).contains(&self.response_status.code)
    }

    /// Whether it was a write.
    pub fn is_write(&self) -> bool {
        matches!(&*self.verb, "create" | "update" | "patch" | "delete" | "deletecollection")
    }
}

/// Writes the policy, and returns the flags of kube-apiserver.
pub(crate) fn flags(folder: &Path) -> Result<[OsString; 2], Error> {
    let leases = json!({"group": "coordination.k8s.io", "resources": ["leases"]});
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [{"level": "Request", "resources": [leases]}, {"level": "Metadata"}],
    });
    let path = folder.join("audit-policy.json");
    private::write(&path, &policy.to_string()).map_err(Error::io(format!("write {}", path.display())))?;
    let flag = |name: &str, path: &Path| OsString::from(format!("--{name}={}", path.display()));
    Ok([flag("audit-policy-file", &path), flag("audit-log-path", &folder.join(LOG))])
}

pub(crate) fn read(path: &Path) -> Result<Vec<AuditEvent>, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::io(format!("read {}", path.display())))?;
    // The last line may be one that is being written.
    let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let parsed = complete.lines().map(serde_json::from_str);
    parsed.collect::<Result<_, _>>().map_err(|error| Error::io(format!("parse {}", path.display()))(error.into()))
}
