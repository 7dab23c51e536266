//! Each case is a history: events, and the commands that follow from each.

use super::*;

fn binary(version: u8) -> Binary {
    Binary { path: "target/debug/guestbook".into(), stamp: version.to_string() }
}

fn built(version: u8) -> Event {
    Event::Built(Some(binary(version)))
}

fn exited() -> Event {
    Event::Exited { how: "exit status: 0".to_owned() }
}

fn stopped() -> Command {
    Command::Say(Notice::Stopped { how: "exit status: 0".to_owned() })
}

const SOURCES: Event = Event::Changed { sources: true, samples: false };
const SAMPLES: Event = Event::Changed { sources: false, samples: true };
const BOTH: Event = Event::Changed { sources: true, samples: true };
const PREPARED: Event = Event::Prepared { is_ok: true };
const REFUSED: Event = Event::Prepared { is_ok: false };

/// A core whose operator runs, in version 1, with its samples applied.
fn running() -> Core {
    let mut core = Core::start().0;
    for event in [built(1), PREPARED, Event::SamplesApplied] {
        core.on(event);
    }
    core
}

/// Checks the commands of each event of a history.
#[track_caller]
fn check(mut core: Core, history: &[(Event, Vec<Command>)]) -> Core {
    for (number, (event, expected)) in history.iter().enumerate() {
        assert_eq!(core.on(event.clone()), *expected, "event {number}: {event:?}");
    }
    core
}

#[test]
fn the_first_build_is_prepared_started_and_given_its_samples() {
    let (core, first) = Core::start();
    assert_eq!(first, [Command::Build]);
    let core = check(
        core,
        &[
            (built(1), vec![Command::Prepare(binary(1))]),
            (PREPARED, vec![Command::Start(binary(1)), Command::ApplySamples]),
            (Event::SamplesApplied, vec![]),
        ],
    );
    assert!(core.is_running() && !core.is_building());
}

#[test]
fn a_change_builds_and_replaces_the_operator() {
    check(
        running(),
        &[
            (SOURCES, vec![Command::Build]),
            (built(2), vec![Command::Prepare(binary(2))]),
            (PREPARED, vec![Command::Terminate, Command::ApplySamples]),
            (Event::SamplesApplied, vec![]),
            (exited(), vec![stopped(), Command::Start(binary(2))]),
        ],
    );
}

#[test]
fn a_build_that_fails_keeps_the_operator() {
    let failed = |is_running| Command::Say(Notice::BuildFailed { is_running });
    let core = check(running(), &[(SOURCES, vec![Command::Build]), (Event::Built(None), vec![failed(true)])]);
    assert!(core.is_running());
    let core = check(Core::start().0, &[(Event::Built(None), vec![failed(false)]), (SOURCES, vec![Command::Build])]);
    assert!(!core.is_running());
}

#[test]
fn crds_that_are_refused_keep_the_operator_and_its_binary_is_tried_again() {
    check(
        running(),
        &[
            (SOURCES, vec![Command::Build]),
            (built(2), vec![Command::Prepare(binary(2))]),
            (REFUSED, vec![Command::Say(Notice::PrepareFailed { is_running: true })]),
            (SOURCES, vec![Command::Build]),
            // Cargo had nothing to do, but version 1 runs.
            (built(2), vec![Command::Prepare(binary(2))]),
        ],
    );
}

#[test]
fn a_build_without_a_new_binary_restarts_nothing() {
    check(
        running(),
        &[(BOTH, vec![Command::Build]), (built(1), vec![Command::Say(Notice::Unchanged), Command::ApplySamples])],
    );
}

#[test]
fn a_change_during_a_build_is_built_next_and_the_old_binary_is_not_started() {
    check(
        Core::start().0,
        &[
            (SOURCES, vec![]),
            (SOURCES, vec![]),
            (built(1), vec![Command::Build]),
            (built(2), vec![Command::Prepare(binary(2))]),
        ],
    );
    let failed = Command::Say(Notice::BuildFailed { is_running: true });
    check(
        running(),
        &[(SOURCES, vec![Command::Build]), (SOURCES, vec![]), (Event::Built(None), vec![failed, Command::Build])],
    );
}

#[test]
fn a_change_while_crds_are_applied_is_built_after_them() {
    check(
        running(),
        &[
            (SOURCES, vec![Command::Build]),
            (built(2), vec![Command::Prepare(binary(2))]),
            (SOURCES, vec![]),
            (PREPARED, vec![Command::Terminate, Command::Build]),
            (exited(), vec![stopped(), Command::Start(binary(2))]),
            (built(3), vec![Command::Prepare(binary(3))]),
            // The samples of version 2 waited for the build.
            (PREPARED, vec![Command::Terminate, Command::ApplySamples]),
        ],
    );
}

#[test]
fn an_operator_that_is_slow_to_stop_is_replaced_by_the_newest_binary() {
    check(
        running(),
        &[
            (SOURCES, vec![Command::Build]),
            (built(2), vec![Command::Prepare(binary(2))]),
            (PREPARED, vec![Command::Terminate, Command::ApplySamples]),
            (SOURCES, vec![Command::Build]),
            (built(3), vec![Command::Prepare(binary(3))]),
            (PREPARED, vec![]),
            (Event::GraceOver, vec![Command::Say(Notice::Killed), Command::Kill]),
            (exited(), vec![stopped(), Command::Start(binary(3))]),
            (Event::GraceOver, vec![]),
            (Event::SamplesApplied, vec![Command::ApplySamples]),
        ],
    );
}

#[test]
fn an_operator_that_ends_is_started_again_after_the_next_change() {
    let how = "signal: 11 (SIGSEGV)".to_owned();
    check(
        running(),
        &[
            (Event::Exited { how: how.clone() }, vec![Command::Say(Notice::Exited { how })]),
            (SOURCES, vec![Command::Build]),
            // Even if it is the same.
            (built(1), vec![Command::Prepare(binary(1))]),
            (PREPARED, vec![Command::Start(binary(1)), Command::ApplySamples]),
        ],
    );
}

#[test]
fn changed_samples_are_applied_without_a_build() {
    check(
        running(),
        &[
            (SAMPLES, vec![Command::ApplySamples]),
            // Once at a time.
            (SAMPLES, vec![]),
            (SAMPLES, vec![]),
            (Event::SamplesApplied, vec![Command::ApplySamples]),
            (Event::SamplesApplied, vec![]),
        ],
    );
    // Not before there are CRDs.
    let failed = Command::Say(Notice::BuildFailed { is_running: false });
    check(Core::start().0, &[(SAMPLES, vec![]), (Event::Built(None), vec![failed]), (SAMPLES, vec![])]);
}

#[test]
fn ctrl_c_stops_the_operator_first() {
    let stopping = Command::Say(Notice::Stopping);
    let core = check(
        running(),
        &[
            (Event::Interrupted, vec![stopping.clone(), Command::Terminate]),
            (SOURCES, vec![]),
            (SAMPLES, vec![]),
            (exited(), vec![stopped(), Command::End]),
        ],
    );
    assert!(!core.is_building() && !core.is_stopping());
    // It waits for the grace period, or for a second signal.
    check(
        running(),
        &[
            (Event::Interrupted, vec![stopping.clone(), Command::Terminate]),
            (Event::Interrupted, vec![Command::Kill]),
            (Event::Interrupted, vec![]),
            (Event::GraceOver, vec![]),
            (exited(), vec![stopped(), Command::End]),
        ],
    );
    check(
        running(),
        &[
            (Event::Interrupted, vec![stopping, Command::Terminate]),
            (Event::GraceOver, vec![Command::Say(Notice::Killed), Command::Kill]),
            (Event::Interrupted, vec![]),
        ],
    );
}

#[test]
fn ctrl_c_ends_the_work_that_runs() {
    check(Core::start().0, &[(Event::Interrupted, vec![Command::Abandon, Command::End])]);
    let stopping = Command::Say(Notice::Stopping);
    let core = check(
        running(),
        &[
            (SOURCES, vec![Command::Build]),
            (Event::Interrupted, vec![Command::Abandon, stopping.clone(), Command::Terminate]),
            // It ended before it was stopped.
            (built(2), vec![]),
            (exited(), vec![stopped(), Command::End]),
        ],
    );
    assert!(!core.is_running());
    // A replacement is not started any more.
    check(
        running(),
        &[
            (SOURCES, vec![Command::Build]),
            (built(2), vec![Command::Prepare(binary(2))]),
            (PREPARED, vec![Command::Terminate, Command::ApplySamples]),
            (Event::Interrupted, vec![stopping]),
            (exited(), vec![stopped(), Command::End]),
        ],
    );
}
