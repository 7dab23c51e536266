//! The status of a reflector, and its request rate on a failing server.

use std::time::Duration;

use super::script::{HOUR, Running, Server, plain, streaming};
use steersman_cache::{Phase, Reason};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn the_status_shows_the_phase_and_since_when() {
    let started = Instant::now().into_std();
    let server = Server::new().list("wait:10 a@5 =>10").watch("open wait:50 end");
    let server = server.watch("open wait:50 end").watch("open wait:40 fail:410");
    let running: Running = Running::start(server, plain());
    assert_eq!(running.status().phase, Phase::Starting);
    assert_eq!(running.status().to_string(), "config maps: not started");
    sleep(5 * SECOND).await;
    assert_eq!((running.status().phase, running.status().since), (Phase::Listing, started));
    assert_eq!(running.status().to_string(), "config maps: listing for 5 s");
    // Consecutive watches are one phase.
    sleep(125 * SECOND).await;
    assert_eq!((running.status().phase, running.status().since), (Phase::Watching, started + 10 * SECOND));
    assert_eq!(running.status().to_string(), "config maps: watching for 120 s");
    assert_eq!((running.status().lists, running.status().watches), (1, 3));
    sleep(20 * SECOND + SECOND / 10).await;
    let status = running.status();
    assert!(matches!(status.phase, Phase::BackingOff { until } if until > Instant::now().into_std()), "{status}");
    assert!(status.to_string().starts_with("config maps: retrying in"), "{status}");
    assert_eq!(
        status.last_error.as_ref().map(|error| (error.reason, error.at)),
        Some((Reason::Expired, started + 150 * SECOND))
    );
    sleep(2 * SECOND).await;
    assert_eq!(running.status().phase, Phase::Listing);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_reported_with_its_fix() {
    let cases = [
        ("fail:404", Reason::NotInstalled, "apply its CustomResourceDefinition"),
        ("fail:403", Reason::Forbidden, "User \"jane\" cannot list resource \"configmaps\""),
        ("fail:403", Reason::Forbidden, "grant the verbs list and watch"),
        ("fail:refused", Reason::Unreachable, "connection refused (will retry)"),
        ("fail:429", Reason::Throttled, "the server is overloaded, will retry"),
        ("fail:500", Reason::Other, "an error on the server"),
    ];
    for (failure, reason, words) in cases {
        let running: Running = Running::start(Server::new().always_list(failure), plain());
        sleep(HOUR).await;
        let status = running.status();
        let error = status.last_error.as_ref().unwrap();
        assert_eq!(error.reason, reason);
        assert!(error.to_string().starts_with("config maps cannot be read: "), "{error}");
        assert!(status.to_string().contains(words), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn cached_objects_are_mentioned_only_where_there_are_some() {
    let server = Server::new().list("=>10").watch("open wait:50 end").always_watch("fail:refused");
    let running: Running = Running::start(server, plain());
    sleep(HOUR).await;
    let text = running.status().to_string();
    assert!(text.ends_with("connection refused (cached objects are still served)"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_is_not_reported_as_refused() {
    // First a list without a response, then a watch.
    let listing = Server::new().list("fail:refused").always_list("wait:1000 =>10");
    let watching = Server::new().list("=>10").watch("fail:refused").always_watch("wait:1000 open");
    for server in [listing, watching] {
        let running: Running = Running::start(server, plain());
        sleep(SECOND / 10).await;
        let text = running.status().to_string();
        assert!(text.contains("retrying in") && text.contains("; cannot be read: "), "{text}");
        sleep(100 * SECOND).await;
        let text = running.status().to_string();
        let (now, before) = text.split_once("; the previous attempt failed: ").unwrap_or_else(|| panic!("{text}"));
        assert!(now.starts_with("config maps: no response for 9"), "{text}");
        assert!(before.contains("connection refused"), "{text}");
        let waiting = running.status().no_response_for().unwrap();
        assert!((98..=100).contains(&waiting.as_secs()), "{waiting:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_error_stays_but_is_not_shown_after_recovery() {
    let server = Server::new().list("fail:403").list("=>10").watch("open");
    let running: Running = Running::start(server, plain());
    sleep(HOUR).await;
    let status = running.status();
    assert_eq!(status.last_error.as_ref().map(|error| error.reason), Some(Reason::Forbidden));
    assert!(status.last_error.as_ref().is_some_and(|error| error.at < status.since));
    assert!(!status.to_string().contains("forbidden"), "{status}");
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_it_is_tried_again_and_never_in_a_busy_loop() {
    for failure in ["400", "403", "404", "410", "422", "429", "500", "refused", "toolarge"] {
        let failure = format!("fail:{failure}");
        let nothing = Server::new().always_list(&failure).always_watch(&failure);
        let no_watch = Server::new().always_list("=>10").always_watch(&failure);
        let no_list = Server::new().watch("$10 fail:410").always_watch("+a@5 fail:500").always_list(&failure);
        for (what, server) in [("nothing", nothing), ("no watch", no_watch), ("no list", no_list)] {
            for options in [plain(), streaming()] {
                let _running: Running = Running::start(server.clone(), options);
                let before = server.requests().len();
                sleep(HOUR).await;
                // Up to three requests every 30 to 60 s; for a kind that is not installed, every
                // 1.5 to 3 s.
                let missing = failure == "fail:404" && what != "no watch";
                let expected = if missing { 1200..2500 } else { 60..400 };
                let requests = server.requests().len() - before;
                assert!(expected.contains(&requests), "{failure}, {what}: {requests} requests in an hour");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn when_it_works_again_everything_is_there() {
    let mut server = Server::new();
    for _ in 0..30 {
        server = server.list("fail:403");
    }
    let running: Running = Running::start(server.list("a@5 =>10").watch("open"), plain());
    sleep(HOUR).await;
    assert_eq!(running.log(), ["[a@5]=>10"]);
    assert_eq!(running.status().phase, Phase::Watching);
}
