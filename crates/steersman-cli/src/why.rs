//! `steersman why`: why an object was reconciled, read from `/debug/state` of a running controller.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Uri;
use kube_client::Config;
use steersman_client::{Client, Error};
use steersman_runtime::{ControllerState, DebugState, ReconcileState};

use crate::reconcile_text::{cause_text, clock, result_text, seconds};

/// The limit of the whole request.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The flags of `steersman why`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Kind of the object, such as ConfigMap
    kind: String,
    /// The object: NAMESPACE/NAME, or NAME if it is in no namespace
    #[arg(value_name = "NAMESPACE/NAME")]
    key: String,
    /// Address of the controller's metrics, such as http://127.0.0.1:8080
    #[arg(long, value_name = "URL")]
    url: Uri,
    /// File with the bearer token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the certificates of the authority that signed the server's (PEM)
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// Do not check the server's certificate
    #[arg(long)]
    insecure_skip_tls_verify: bool,
}

/// Prints the timeline.
pub(crate) fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let state = runtime.block_on(fetch(args))?;
    let (kind, key) = (&*args.kind, &*args.key);
    print!("{}", timeline(&state, kind, key).with_context(|| nothing(&state, kind, key))?);
    Ok(())
}

async fn fetch(args: &Args) -> Result<DebugState> {
    let key = args.key.as_str();
    ensure!(
        !key.is_empty() && key.split('/').count() <= 2 && key.split('/').all(|part| !part.is_empty()),
        "invalid object {key:?}: expected NAMESPACE/NAME or NAME"
    );
    let url = &args.url;
    ensure!(
        matches!(url.scheme_str(), Some("http" | "https")),
        "invalid address {url}: expected http://HOST:PORT or https://HOST:PORT"
    );
    let mut config = Config::new(url.clone());
    config.accept_invalid_certs = args.insecure_skip_tls_verify;
    if let Some(file) = &args.certificate_authority {
        config.root_cert_file = Some(file.clone());
    }
    if let Some(file) = &args.token_file {
        let token = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        config.auth_info.token = Some(token.trim().to_owned().into());
    }
    let client = Client::builder(config).build()?.with_timeout(TIMEOUT).without_retries();
    let url = url.to_string().trim_end_matches('/').to_owned();
    let request = client.rest().get().abs_path("/debug/state").param("kind", &args.kind).param("key", key);
    match request.send().await {
        Ok(response) => serde_json::from_slice(response.body())
            .with_context(|| format!("{url}/debug/state is not the state of a controller")),
        Err(error) => Err(explained(&url, &error)),
    }
}

/// The error if there is nothing about the object. Its kind may be misspelled, and another replica
/// may lead.
fn nothing(state: &DebugState, kind: &str, key: &str) -> String {
    let mut text = format!("no reconcile of {kind} {key} is recorded");
    let kinds: BTreeSet<_> = state.controllers.iter().map(|controller| &*controller.kind).collect();
    if !kinds.iter().any(|known| known.eq_ignore_ascii_case(kind)) && !kinds.is_empty() {
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
        let _ = write!(text, "; the controllers at this address reconcile {kinds}");
    }
    if let Some(standby) = standby(state) {
        let _ = write!(text, "; {standby}");
    }
    text
}

/// Which replica knows more, if this one does not lead.
fn standby(state: &DebugState) -> Option<String> {
    let lease = state.lease.as_ref().filter(|lease| !lease.is_leader)?;
    let leader = if lease.holder.is_empty() { "no replica leads" } else { &format!("{} leads", lease.holder) };
    Some(format!("this replica is a standby, {leader}"))
}

/// What to do about an error.
fn explained(url: &str, error: &Error) -> anyhow::Error {
    let advice = match error.status().map(|status| status.code) {
        Some(404) => format!("{url} has no /debug/state: enable it with MetricsServer::debug_pages"),
        Some(401) => format!("{url} needs a token: use --token-file"),
        Some(403) => {
            format!("the token may not read {url}/debug/state: its role needs get of this nonResourceURL")
        }
        _ => format!("cannot read {url}/debug/state"),
    };
    // The text of the error has its causes already.
    let error = error.to_string();
    let hints = [
        ("invalid peer certificate", "use --certificate-authority, or --insecure-skip-tls-verify if it is self-signed"),
        ("InvalidContentType", "the server has no TLS: use http://"),
        ("invalid HTTP version", "the server may have TLS: use https://"),
    ];
    match hints.iter().find(|(part, _)| error.contains(part)) {
        Some((_, hint)) => anyhow::anyhow!("{advice}: {error}; {hint}"),
        None => anyhow::anyhow!("{advice}: {error}"),
    }
}

/// The timeline of an object. `None` if there is nothing about it.
fn timeline(state: &DebugState, kind: &str, key: &str) -> Option<String> {
    let mut runs: Vec<(&ControllerState, &ReconcileState)> = state
        .controllers
        .iter()
        .flat_map(|controller| controller.reconciles.iter().map(move |run| (controller, run)))
        .collect();
    runs.sort_by_key(|(_, run)| run.started);
    let mut text = String::new();
    for (controller, run) in &runs {
        reconcile(&mut text, controller, run);
    }
    for found in state.hot_loops.iter().filter(|found| found.cycle.contains(&format!("{kind} {key}:"))) {
        let _ =
            writeln!(text, "{}  hot loop after {} rounds: {}, and so on", clock(found.at), found.rounds, found.cycle);
    }
    for controller in state.controllers.iter().filter(|controller| controller.kind.eq_ignore_ascii_case(kind)) {
        for failing in controller.failing.iter().filter(|failing| failing.key == key) {
            let next = failing.next_retry.map_or_else(String::new, |next| format!(", next retry at {}", clock(next)));
            let _ = writeln!(text, "{} fails: {} times in a row{next}", controller.name, failing.failures);
        }
        for waiting in controller.waiting.iter().filter(|waiting| waiting.key == key) {
            let _ = writeln!(text, "{} has it in its queue since {}", controller.name, seconds(waiting.waited_seconds));
        }
    }
    if let Some(standby) = standby(state).filter(|_| !text.is_empty()) {
        let _ = writeln!(text, "{standby}");
    }
    (!text.is_empty()).then_some(text)
}

fn reconcile(text: &mut String, controller: &ControllerState, run: &ReconcileState) {
    for cause in &run.causes {
        let _ = writeln!(text, "{}  {}", clock(cause.at.unwrap_or(run.started)), cause_text(cause));
    }
    if run.more_causes > 0 {
        let _ = writeln!(text, "{}  and {} more causes", clock(run.started), run.more_causes);
    }
    let attempt = if run.attempt > 1 { format!(", attempt {}", run.attempt) } else { String::new() };
    let _ = writeln!(
        text,
        "{}  reconcile #{} of {} by {}{attempt}, after {} in the queue",
        clock(run.started),
        run.id,
        run.key,
        controller.name,
        seconds(run.queued_seconds)
    );
    for read in &run.waited_reads {
        let _ = writeln!(text, "{INDENT}  read of {} waited {}", read.kind, seconds(read.waited_seconds));
    }
    for write in &run.writes {
        let version = write.version.map_or_else(String::new, |version| format!(", version {version}"));
        let _ = writeln!(text, "{INDENT}  {} {} {}{version}", write.verb, write.kind, write.key);
    }
    if run.more_actions > 0 {
        let _ = writeln!(text, "{INDENT}  and {} more reads and writes", run.more_actions);
    }
    let error = run.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    let next = run.next.map_or_else(String::new, |next| format!(", again at {}", clock(next)));
    let _ = writeln!(text, "{INDENT}  {} after {}{next}{error}", result_text(&run.result), seconds(run.took_seconds));
}

/// As wide as the time of a line.
const INDENT: &str = "            ";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(is_leader: bool, holder: &str) -> DebugState {
        let lease = json!({"name": "copies", "is_leader": is_leader, "holder": holder});
        let state = json!({
            "time": "2026-01-31T10:00:00Z", "ready": true, "controllers": [], "informers": [], "lease": lease,
            "hot_loops": [],
        });
        serde_json::from_value(state).unwrap()
    }

    #[test]
    fn a_standby_names_the_replica_that_leads() {
        let text = |state| nothing(&state, "ConfigMap", "default/a");
        let none = "no reconcile of ConfigMap default/a is recorded";
        assert_eq!(text(state(true, "me")), none);
        assert_eq!(text(state(false, "other")), format!("{none}; this replica is a standby, other leads"));
        assert_eq!(text(state(false, "")), format!("{none}; this replica is a standby, no replica leads"));
    }
}
