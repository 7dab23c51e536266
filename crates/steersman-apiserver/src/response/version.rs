//! The document at `/version`.

use http::StatusCode;
use serde_json::json;

use crate::response::{self, HandlerResult};
use crate::rules::kinds::builtin;

/// The architecture, as Go calls it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The release that the server emulates. The build information is our own.
pub(crate) fn document() -> HandlerResult {
    let version = &builtin().kubernetes;
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    // The oldest release that it can be rolled back to: the previous one.
    let before = minor.parse().unwrap_or(1_u32).saturating_sub(1).to_string();
    let body = json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": before,
        "gitVersion": format!("v{version}"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    });
    response::indented(response::json(StatusCode::OK, body.to_string()))
}
