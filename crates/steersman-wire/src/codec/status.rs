//! The error responses of the API server.

use serde::Deserialize;

/// A `Status`: the body of an error response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorStatus {
    /// The HTTP status code.
    pub code: u16,
    /// The reason as one word for programs, such as `Expired`.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// How many seconds to wait before a retry, if the server sends it.
    pub retry_after_seconds: Option<u32>,
    /// The types of the causes in `details.causes`, such as `ResourceVersionTooLarge`.
    pub causes: Vec<String>,
}

/// The JSON form, in which every field may be missing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    code: Option<i64>,
    reason: Option<String>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    retry_after_seconds: Option<i64>,
    causes: Option<Vec<Cause>>,
}

#[derive(Deserialize)]
struct Cause {
    reason: Option<String>,
}

impl ErrorStatus {
    /// Whether the requested resource version is no longer available, so that the client has to
    /// list again.
    pub fn is_gone(&self) -> bool {
        self.code == 410 || matches!(self.reason.as_str(), "Expired" | "Gone")
    }

    /// Reads a `Status` in JSON.
    pub(crate) fn from_json(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let written: Written = serde_json::from_slice(bytes)?;
        let details = written.details.unwrap_or(Details { retry_after_seconds: None, causes: None });
        let causes = details.causes.unwrap_or_default();
        Ok(Self {
            code: written.code.and_then(|code| code.try_into().ok()).unwrap_or(0),
            reason: written.reason.unwrap_or_default(),
            message: written.message.unwrap_or_default(),
            retry_after_seconds: details
                .retry_after_seconds
                .and_then(|seconds| seconds.try_into().ok())
                .filter(|s| *s > 0),
            causes: causes.into_iter().filter_map(|cause| cause.reason).collect(),
        })
    }
}
