//! The reconciles of the running operator, read from its `/debug/state`.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use steersman_client::{Client, Config};
use steersman_runtime::{ControllerState, DebugState, ReconcileState};
use tokio::time::{Instant, sleep};

use super::messages::Sender;
use super::screen::Source;
use crate::reconcile_text::{cause_text, clock, result_text, seconds};

/// The environment variable that names the file for the addresses of the operator.
pub(super) const ADDRESSES_FILE: &str = "STEERSMAN_ADDRESSES_FILE";

/// How often the state is read.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long the operator may take to write its addresses before the user is informed.
const ADDRESSES_DEADLINE: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How many reconciles of a controller are remembered as shown.
const SHOWN_MAX: usize = 4096;

/// What an operator writes to [`ADDRESSES_FILE`].
#[derive(Debug, Deserialize)]
struct Addresses {
    /// The address of its metrics and debug pages, such as `http://127.0.0.1:8080`.
    metrics: Option<String>,
}

/// Prints the reconciles of an operator until it is dropped.
pub(super) async fn follow(file: &Path, sender: &Sender) {
    let Some(url) = address(file, sender).await else { return };
    let client = match url.parse().map(Config::new).map(|config| Client::builder(config).build()) {
        Ok(Ok(client)) => client.with_timeout(REQUEST_TIMEOUT).without_retries(),
        Ok(Err(error)) => return sender.line(Source::Problem, format!("no reconciles are shown: {error}")).await,
        Err(error) => return sender.line(Source::Problem, format!("no reconciles are shown: {url}: {error}")).await,
    };
    sender.line(Source::Run, format!("live page: {url}/debug")).await;
    let (mut live, mut has_failed) = (Live::default(), false);
    loop {
        match client.rest().get().abs_path("/debug/state").send_for::<DebugState>().await {
            Ok(state) => {
                has_failed = false;
                for (source, line) in live.lines(&state) {
                    sender.line(source, line).await;
                }
            }
            // The operator may have ended, which is shown by itself.
            Err(error) if error.status().is_some() && !has_failed => {
                has_failed = true;
                sender.line(Source::Problem, format!("cannot read {url}/debug/state: {error}")).await;
            }
            Err(_) => {}
        }
        sleep(INTERVAL).await;
    }
}

/// Waits until the operator has written its addresses. `None` if it serves no metrics.
async fn address(file: &Path, sender: &Sender) -> Option<String> {
    let (started, mut is_late) = (Instant::now(), false);
    loop {
        // A small local file.
        let addresses = std::fs::read(file).ok().map(|text| serde_json::from_slice::<Addresses>(&text));
        match addresses {
            Some(Ok(Addresses { metrics: Some(url) })) => return Some(url.trim_end_matches('/').to_owned()),
            Some(Ok(Addresses { metrics: None })) => {
                sender.line(Source::Problem, "no reconciles are shown: the operator serves no metrics").await;
                return None;
            }
            Some(Err(error)) => {
                let text = format!("no reconciles are shown: the file {} is invalid: {error}", file.display());
                sender.line(Source::Problem, text).await;
                return None;
            }
            None if !is_late && started.elapsed() > ADDRESSES_DEADLINE => {
                is_late = true;
                let text = format!(
                    "no reconciles are shown yet: the operator has not written its addresses to the file of \
                     {ADDRESSES_FILE}, as a steersman_program::Program does"
                );
                sender.line(Source::Problem, text).await;
            }
            None => {}
        }
        sleep(INTERVAL).await;
    }
}

/// What was shown of one operator.
#[derive(Debug, Default)]
struct Live {
    controllers: HashMap<String, Shown>,
    last_hot_loop: Option<jiff::Timestamp>,
}

#[derive(Debug, Default)]
struct Shown {
    /// The numbers of the reconciles that were shown last.
    ids: BTreeSet<u64>,
    /// Smaller numbers were shown, or are too old.
    oldest: u64,
    /// How many were shown, or reported as not shown.
    count: u64,
    /// How many had ended at the last look.
    ended: u64,
}

impl Live {
    /// The lines that a new state adds.
    fn lines(&mut self, state: &DebugState) -> Vec<(Source, String)> {
        let mut runs = Vec::new();
        let mut lines = Vec::new();
        for controller in &state.controllers {
            let shown = self.controllers.entry(controller.name.clone()).or_default();
            let before = runs.len();
            runs.extend(controller.reconciles.iter().filter(|run| shown.add(run.id)).map(|run| (controller, run)));
            shown.count += (runs.len() - before) as u64;
            if let Some(missed) = shown.missed(controller.reconciles_total) {
                let name = &controller.name;
                lines.push((Source::Reconcile, format!("{name}: {missed} more reconciles ended, too many to show")));
            }
        }
        runs.sort_by_key(|(_, run)| run.started);
        lines.extend(runs.into_iter().map(|(controller, run)| line(controller, run)));
        for found in state.hot_loops.iter().filter(|found| self.last_hot_loop.is_none_or(|last| found.at > last)) {
            let text =
                format!("{} hot loop after {} rounds: {}, and so on", clock(found.at), found.rounds, found.cycle);
            lines.push((Source::FailedReconcile, text));
        }
        self.last_hot_loop = self.last_hot_loop.max(state.hot_loops.iter().map(|found| found.at).max());
        lines
    }
}

impl Shown {
    /// Whether a reconcile was not shown yet.
    fn add(&mut self, id: u64) -> bool {
        if id < self.oldest || !self.ids.insert(id) {
            return false;
        }
        if self.ids.len() > SHOWN_MAX
            && let Some(oldest) = self.ids.pop_first()
        {
            self.oldest = oldest + 1;
        }
        true
    }

    /// How many reconciles will never be shown. What had ended at the last look is in the state by
    /// now, or was pushed out by later ones.
    fn missed(&mut self, ended: u64) -> Option<u64> {
        let missed = std::mem::replace(&mut self.ended, ended).checked_sub(self.count).filter(|missed| *missed > 0);
        self.count += missed.unwrap_or_default();
        missed
    }
}

/// One reconcile: controller, key, trigger, result, duration, writes.
fn line(controller: &ControllerState, run: &ReconcileState) -> (Source, String) {
    let attempt = if run.attempt > 1 { format!(", attempt {}", run.attempt) } else { String::new() };
    let mut triggers: Vec<String> = run.causes.iter().take(1).map(cause_text).collect();
    let more = (run.causes.len().saturating_sub(1) as u64).saturating_add(run.more_causes.into());
    if more > 0 {
        triggers.push(format!("and {more} more"));
    }
    let next = run.next.map_or_else(String::new, |next| format!(", again at {}", clock(next)));
    let error = run.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    let mut parts = vec![
        triggers.join(" "),
        format!("{} after {}{next}{error}", result_text(&run.result), seconds(run.took_seconds)),
    ];
    let mut writes: Vec<String> =
        run.writes.iter().map(|write| format!("{} {} {}", write.verb, write.kind, write.key)).collect();
    if run.more_actions > 0 {
        writes.push(format!("and {} more", run.more_actions));
    }
    if !writes.is_empty() {
        parts.push(writes.join(", "));
    }
    parts.retain(|part| !part.is_empty());
    let text = format!("{} {} {}{attempt} | {}", clock(run.started), controller.name, run.key, parts.join(" | "));
    let source = if run.result == "failed" { Source::FailedReconcile } else { Source::Reconcile };
    // An error may hold what a server has sent.
    (source, text.replace(char::is_control, " "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::messages::{Message, channel};
    use super::*;

    fn run(id: u64) -> Value {
        json!({
            "id": id, "key": format!("default/{id}"), "attempt": 1, "causes": [], "more_causes": 0, "queued_seconds": 0.0,
            "started": format!("2026-01-31T10:00:00.{:03}Z", id % 1000), "took_seconds": 0.0042, "waited_reads": [],
            "writes": [], "more_actions": 0, "result": "done", "error": null, "next": null,
        })
    }

    fn state(total: u64, runs: &[Value], hot_loops: &[Value]) -> DebugState {
        let controller = json!({
            "name": "guestbook", "kind": "Guestbook", "reconciles_total": total, "errors_total": 0,
            "hot_loops_total": 0, "active": 0, "queued": 0, "delayed": 0, "waiting": [], "failing": [],
            "reconciles": runs,
        });
        let state = json!({
            "time": "2026-01-31T10:00:00Z", "ready": true, "controllers": [controller], "informers": [],
            "lease": null, "hot_loops": hot_loops,
        });
        serde_json::from_value(state).unwrap()
    }

    fn texts(live: &mut Live, state: &DebugState) -> Vec<String> {
        live.lines(state).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_line_has_controller_key_trigger_result_duration_and_writes() {
        let mut full = run(7);
        full["attempt"] = json!(2);
        full["causes"] = json!([
            {"source": "owned", "kind": "ConfigMap", "key": "default/a", "event": "updated", "version": 12, "at": null},
            {"source": "retry", "kind": null, "key": null, "event": null, "version": null, "at": null},
        ]);
        full["more_causes"] = json!(1);
        full["result"] = json!("failed");
        full["error"] = json!("quota\n\u{1b}[31mexceeded");
        full["next"] = json!("2026-01-31T10:00:01Z");
        full["writes"] = json!([
            {"verb": "create", "kind": "ConfigMap", "key": "default/a", "version": 13},
            {"verb": "update status", "kind": "Guestbook", "key": "default/7", "version": 14},
        ]);
        full["more_actions"] = json!(3);
        let lines = Live::default().lines(&state(1, &[full], &[]));
        let expected = "10:00:00.007 guestbook default/7, attempt 2 | updated ConfigMap default/a, version 12 (owned) \
                        and 2 more | failed after 4.2 ms, again at 10:00:01.000: quota  [31mexceeded | create ConfigMap \
                        default/a, update status Guestbook default/7, and 3 more";
        assert_eq!(lines, [(Source::FailedReconcile, expected.to_owned())]);
        let lines = Live::default().lines(&state(1, &[run(1)], &[]));
        let expected = "10:00:00.001 guestbook default/1 | done after 4.2 ms";
        assert_eq!(lines, [(Source::Reconcile, expected.to_owned())]);
    }

    #[test]
    fn each_reconcile_is_shown_once_in_the_order_of_their_starts() {
        let mut live = Live::default();
        let names = |lines: Vec<String>| -> Vec<String> {
            lines.iter().map(|line| line.split_whitespace().nth(2).unwrap_or_default().to_owned()).collect()
        };
        // Number 2 still runs when number 3 has ended.
        assert_eq!(names(texts(&mut live, &state(2, &[run(3), run(1)], &[]))), ["default/1", "default/3"]);
        assert_eq!(names(texts(&mut live, &state(3, &[run(1), run(3), run(2)], &[]))), ["default/2"]);
        assert_eq!(texts(&mut live, &state(3, &[run(1), run(3), run(2)], &[])), [""; 0]);
    }

    #[test]
    fn reconciles_that_were_too_many_are_counted_once() {
        let mut live = Live::default();
        let last = [run(9), run(10)];
        assert_eq!(texts(&mut live, &state(10, &last, &[])).len(), 2, "the counter may be ahead of the records");
        assert_eq!(texts(&mut live, &state(10, &last, &[])), ["guestbook: 8 more reconciles ended, too many to show"]);
        assert_eq!(texts(&mut live, &state(10, &last, &[])), [""; 0]);
        assert_eq!(texts(&mut live, &state(11, &[run(11)], &[])).len(), 1);
        assert_eq!(texts(&mut live, &state(11, &[run(11)], &[])), [""; 0]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut shown = Shown::default();
        let max = SHOWN_MAX as u64;
        assert!((1..=max + 1).all(|id| shown.add(id)));
        assert_eq!(shown.ids.len(), SHOWN_MAX);
        assert!(!shown.add(1), "it was shown before");
    }

    #[test]
    fn a_hot_loop_is_shown_once() {
        let mut live = Live::default();
        let found = |second: u32| {
            let at = format!("2026-01-31T10:00:{second:02}Z");
            json!({"at": at, "controller": "guestbook", "key": "default/a", "cycle": "a wrote b", "rounds": 20})
        };
        let one = state(0, &[], &[found(1)]);
        assert_eq!(texts(&mut live, &one), ["10:00:01.000 hot loop after 20 rounds: a wrote b, and so on"]);
        assert_eq!(texts(&mut live, &one), [""; 0]);
        assert_eq!(texts(&mut live, &state(0, &[], &[found(1), found(2)])).len(), 1);
    }

    /// The lines within a minute.
    async fn lines_of(file: &Path) -> Vec<String> {
        let (sender, mut messages) = channel();
        let _ = tokio::time::timeout(Duration::from_secs(60), follow(file, &sender)).await;
        drop(sender);
        let mut lines = Vec::new();
        while let Some(message) = messages.recv().await {
            let Message::Line(Source::Problem, text) = message else { panic!("{message:?}") };
            lines.push(text);
        }
        lines
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_that_writes_no_addresses_is_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("addresses");
        let lines = lines_of(&file).await;
        assert!(matches!(&*lines, [line] if line.contains("has not written its addresses")), "{lines:?}");
        for (text, expected) in [("{", "is invalid"), (r#"{"metrics": null}"#, "serves no metrics")] {
            std::fs::write(&file, text).unwrap();
            let lines = lines_of(&file).await;
            assert!(matches!(&*lines, [line] if line.contains(expected)), "{lines:?}");
        }
    }
}
