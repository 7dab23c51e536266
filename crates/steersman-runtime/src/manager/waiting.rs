//! Waits for caches, and logs what is missing and why.

use std::future::Future;
use std::time::Duration;

use steersman_cache::{Reason, ReflectorStatus};
use tokio::time::{Instant, sleep_until};

use super::start::after;
use crate::Error;

/// When the first reminder is logged.
const FIRST_REMINDER: Duration = Duration::from_secs(3);
/// The time between two reminders.
const REMINDER: Duration = Duration::from_secs(10);
/// The length of a cause in a reminder.
const CAUSE_MAX: usize = 160;
/// The number of caches that a reminder names.
const NAMED_MAX: usize = 3;

/// Waits until caches have synced. While `waiting` is not empty, `remind` gets a short text that
/// names the caches and the reasons: after three seconds, and then every ten. After `limit` that is
/// an error.
pub(crate) async fn wait_with_reminders(
    limit: Option<Duration>,
    synced: impl Future<Output = Result<(), Error>>,
    waiting: impl Fn() -> Vec<ReflectorStatus>,
    remind: impl Fn(&str),
) -> Result<(), Error> {
    let started = Instant::now();
    let deadline = limit.map(after);
    let mut reminder = started + FIRST_REMINDER;
    let mut synced = std::pin::pin!(synced);
    loop {
        tokio::select! {
            biased;
            synced = &mut synced => return synced,
            () = sleep_until(deadline.map_or(reminder, |deadline| deadline.min(reminder))) => {}
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let waiting = waiting().iter().map(ToString::to_string).collect();
            return Err(steersman_cache::Error::NotSynced { waited: started.elapsed(), waiting }.into());
        }
        let waiting = waiting();
        if !waiting.is_empty() {
            remind(&summary(&waiting));
        }
        reminder += REMINDER;
    }
}

/// What is missing and why. Caches with the same reason are named together.
fn summary(waiting: &[ReflectorStatus]) -> String {
    let mut groups: Vec<(Option<Reason>, String, Vec<&str>)> = Vec::new();
    for status in waiting {
        let (reason, why) = why(status);
        match groups.iter_mut().find(|(other, text, _)| (reason.is_some() && *other == reason) || *text == why) {
            Some((_, _, names)) => names.push(&status.resource),
            None => groups.push((reason, why, vec![&status.resource])),
        }
    }
    let mut left = NAMED_MAX;
    let mut parts = Vec::new();
    for (_, why, names) in &groups {
        let shown = &names[..names.len().min(left)];
        left -= shown.len();
        match (shown, names.len() - shown.len()) {
            ([], more) => parts.push(format!("{more} more: {why}")),
            (_, 0) => parts.push(format!("{}: {why}", shown.join(", "))),
            (_, more) => parts.push(format!("{} and {more} more: {why}", shown.join(", "))),
        }
    }
    parts.join("; ")
}

/// Why a list is missing. The reason is set if all caches in this state have the same one.
fn why(status: &ReflectorStatus) -> (Option<Reason>, String) {
    // The error before does not matter if the server no longer responds.
    if let Some(waited) = status.no_response_for().filter(|waited| waited.as_secs() >= 1) {
        return (None, format!("no response for {} s", waited.as_secs()));
    }
    let Some(error) = &status.last_error else { return (None, "not listed yet".to_owned()) };
    let why = match error.reason {
        Reason::NotInstalled => "not served by the server: install its CustomResourceDefinition".to_owned(),
        Reason::Forbidden => "forbidden: grant the verbs list and watch".to_owned(),
        _ => shortened(&error.cause),
    };
    let is_shared = matches!(error.reason, Reason::NotInstalled | Reason::Forbidden | Reason::Unreachable);
    (is_shared.then_some(error.reason), why)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(CAUSE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use steersman_cache::ReflectorError;

    use super::*;

    fn status(resource: &str, reason: Reason, cause: &str) -> ReflectorStatus {
        let error =
            ReflectorError { reason, message: String::new(), cause: cause.to_owned(), at: Instant::now().into_std() };
        let mut status = ReflectorStatus::new(resource.to_owned());
        status.last_error = Some(error);
        status
    }

    #[test]
    fn a_reminder_names_a_few_caches_and_each_reason_once() {
        let away = |what| status(what, Reason::Unreachable, &format!("{what} is away"));
        let all = ["/a", "/b", "/c", "/d", "/e"].map(away);
        assert_eq!(summary(&all), "/a, /b, /c and 2 more: /a is away");
        let mixed = [away("/a"), status("/b", Reason::Forbidden, ""), away("/c"), status("/d", Reason::Forbidden, "")];
        assert_eq!(summary(&mixed), "/a, /c: /a is away; /b and 1 more: forbidden: grant the verbs list and watch");
        let others = ["1", "2", "3", "4"].map(|what| status(what, Reason::Other, what));
        assert_eq!(summary(&others), "1: 1; 2: 2; 3: 3; 1 more: 4");
    }

    #[test]
    fn a_long_cause_is_cut() {
        let long = "ä".repeat(500);
        assert_eq!(summary(&[status("/a", Reason::Other, &long)]).chars().count(), "/a: ".len() + CAUSE_MAX + 1);
    }
}
