//! Starts, ends and retries of watches.

use std::time::Duration;

use super::script::{HOUR, Running, Server, plain, play};
use tokio::time::sleep;

const LIST: &str = r#"list "0""#;

#[tokio::test(start_paused = true)]
async fn a_watch_is_to_last_five_to_ten_minutes_at_random() {
    let server = Server::new().list("=>10").always_watch("*10 wait:2 end");
    play(server.clone(), plain()).await;
    let timeouts = server.timeouts();
    assert!(timeouts.len() > 1000);
    assert!(timeouts.iter().all(|seconds| (300..=600).contains(seconds)));
    assert!(timeouts.iter().any(|seconds| *seconds < 330) && timeouts.iter().any(|seconds| *seconds > 570));
}

#[tokio::test(start_paused = true)]
async fn events_and_bookmarks_move_the_version() {
    let server = Server::new().list("=>10").watch("*15 wait:300 end").watch("+a@16 ~a@17 wait:300 end");
    let server = server.watch("-a@18 wait:300 end").watch("open");
    let (requests, log) = play(server, plain()).await;
    assert_eq!(requests, [LIST, r#"watch "10""#, r#"watch "15""#, r#"watch "17""#, r#"watch "18""#]);
    assert_eq!(log, ["[]=>10", "*15", "+a@16", "~a@17", "-a@18"]);
}

#[tokio::test(start_paused = true)]
async fn what_has_no_version_does_not_move_it() {
    let server = Server::new().list("=>10").watch("~a@11 ~a@ * wait:300 end").watch("open");
    assert_eq!(play(server, plain()).await.0, [LIST, r#"watch "10""#, r#"watch "11""#]);
}

#[tokio::test(start_paused = true)]
async fn what_a_watch_from_nowhere_begins_with_is_no_place_to_go_on_from() {
    for version in ["", "0"] {
        let list = format!("=>{version}");
        let server =
            Server::new().list(&list).watch("+b@9 +a@5 wait:300 end").watch("+b@9 +a@5 ~a@12 +c@13 wait:300 end");
        let from = format!("watch {version:?}");
        assert_eq!(play(server.watch("open"), plain()).await.0, [LIST, &from, &from, r#"watch "13""#]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_within_a_second_with_nothing_backs_off() {
    // Nor a watch whose events do not move the version: it would be repeated in a busy loop.
    for nothing in ["open end", "! end", "!b end", "kind:Secret:a@11 end", "*10 end"] {
        let server = Server::new().always_list("=>10").always_watch(nothing);
        let running: Running = Running::start(server.clone(), plain());
        sleep(HOUR).await;
        let requests = server.requests();
        assert!((60..130).contains(&requests.len()), "{nothing}: {}", requests.len());
        let error = running.status().last_error.unwrap().to_string();
        assert!(error.contains("ended at once"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_later_or_brought_something_is_started_again_at_once() {
    for (watch, ends) in [("wait:1 end", 1), ("~a@11 end", 0)] {
        let server = Server::new().list("=>10").watch(watch).watch("open");
        play(server.clone(), plain()).await;
        assert_eq!(server.times()[2], Duration::from_secs(ends), "{watch}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_answer_came_late_is_not_a_short_one() {
    // Some proxies hold back the response head: `wait` comes before the watch begins.
    let server = Server::new().list("=>10").watch("wait:5 open end").watch("open");
    play(server.clone(), plain()).await;
    assert_eq!(server.times()[2], Duration::from_secs(5));
}

/// A list, the stalled watches that cause the next list, and so on.
fn is_listed_after_each_five_watches(requests: &[String]) -> bool {
    requests
        .chunks(6)
        .all(|round| round[0].starts_with("list") && round[1..].iter().all(|request| request.starts_with("watch")))
}

#[tokio::test(start_paused = true)]
async fn five_watches_without_an_event_are_followed_by_a_list() {
    // A proxy that holds back the head until a timeout; a server that ends each watch empty, early
    // or late; one that closes the connection without a response; and one that responds with a
    // list instead of events.
    let stalled = [
        "wait:30 fail:timeout",
        "wait:30 fail:closed",
        "open wait:180 fail:timeout",
        "open wait:300 end",
        "wait:300 open end",
        "open end",
        "! end",
        "! wait:60 end",
    ];
    for watch in stalled {
        let server = Server::new().list("a@5 =>10").list("a@11 =>12").always_list("=>13").always_watch(watch);
        let (requests, log) = play(server.clone(), plain()).await;
        assert!(is_listed_after_each_five_watches(&requests), "{watch}: {requests:?}");
        assert_eq!(log[..2], ["[a@5]=>10", "[a@11]=>12"], "{watch}");
        let times = server.times();
        // At least the duration of the watches, and the first back-off before the list.
        let waited = (times[6] - times[5]).as_millis();
        assert!(waited >= 800, "{watch}: a list {waited} ms after the watch before it began");
        assert!(requests.len() < 200, "{watch}: {} requests in an hour", requests.len());
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_or_a_bookmark_is_progress_also_at_an_unchanged_version() {
    for progress in ["*10 wait:300 end", "~a@10 wait:300 end", "*10 wait:60 fail:timeout", "!b wait:300 end"] {
        let server = Server::new().list("=>10").always_watch(progress);
        let (requests, _) = play(server, plain()).await;
        assert!(requests.len() > 10, "{progress}: {requests:?}");
        assert!(requests[1..].iter().all(|request| request == r#"watch "10""#), "{progress}: {requests:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_stall_with_progress_between_them_are_not_in_a_row() {
    let mut server = Server::new().list("=>10");
    for _ in 0..5 {
        server = server.watch("wait:30 fail:timeout").watch("open wait:300 end").watch("open wait:60 fail:timeout");
        server = server.watch("*10 wait:300 end");
    }
    let (requests, _) = play(server.always_watch("open"), plain()).await;
    assert_eq!(requests.len(), 22);
    assert!(requests[1..].iter().all(|request| request == r#"watch "10""#), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_replaces_stalled_watches_goes_on_until_it_succeeds() {
    let server = Server::new().list("=>10").always_watch("wait:30 fail:timeout").list("fail:500").always_list("=>12");
    let (requests, _) = play(server, plain()).await;
    assert_eq!(requests[5..9], [r#"watch "10""#, r#"list "10""#, r#"list "10""#, r#"watch "12""#]);
}

#[tokio::test(start_paused = true)]
async fn refused_or_throttled_a_watch_backs_off_and_there_is_no_relist() {
    let failures = ["fail:refused", "fail:reset", "fail:429", "open fail:refused", "open fail:reset", "open fail:429"];
    for failure in failures.into_iter().chain(["wait:60 open fail:429"]) {
        let server = Server::new().list("=>10").always_watch(failure);
        play(server.clone(), plain()).await;
        let requests = server.requests();
        assert!(requests[1..].iter().all(|request| request == r#"watch "10""#), "{failure}");
        assert!((20..130).contains(&requests.len()), "{failure}: {}", requests.len());
        let times = server.times();
        assert!((times[2] - times[1]).as_millis() >= 800, "{failure}: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_is_made_again_at_once_and_there_is_no_relist() {
    let server = Server::new().list("=>10").watch("~a@11 wait:60 fail:refused").watch("open");
    let (requests, _) = play(server.clone(), plain()).await;
    assert_eq!(requests, [LIST, r#"watch "10""#, r#"watch "11""#]);
    assert_eq!(server.times()[2], Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_means_a_relist_after_a_while() {
    for failure in ["fail:410", "open fail:410", "wait:60 open fail:410", "fail:toolarge"] {
        let server = Server::new().list("=>10").watch(failure).list("=>12").watch("open");
        let (requests, _) = play(server.clone(), plain()).await;
        assert_eq!(requests, [LIST, r#"watch "10""#, r#"list "10""#, r#"watch "12""#], "{failure}");
        let times = server.times();
        assert!((800..=61_600).contains(&times[2].as_millis()), "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_asked_to_watch_five_times_before_a_list_is_tried() {
    let server = Server::new().list("=>10").always_watch("fail:500").always_list("=>12");
    let (requests, _) = play(server, plain()).await;
    let mut expected = vec![LIST];
    expected.extend([r#"watch "10""#; 5]);
    expected.push(r#"list "10""#);
    expected.extend([r#"watch "12""#; 5]);
    expected.push(r#"list "12""#);
    assert_eq!(requests[..expected.len()], expected);
}

#[tokio::test(start_paused = true)]
async fn failures_with_progress_between_them_are_not_in_a_row() {
    let mut server = Server::new().list("=>10");
    for version in 11..30 {
        server = server.watch("fail:500").watch(&format!("~a@{version} fail:500"));
    }
    let (requests, _) = play(server, plain()).await;
    assert!(requests[1..].iter().all(|request| request.starts_with("watch")), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_not_the_servers_failure_means_a_list() {
    for failure in ["fail:403", "fail:404", "fail:400"] {
        let server = Server::new().list("=>10").watch(failure).list("=>12").watch("open");
        assert_eq!(play(server, plain()).await.0[2], r#"list "10""#, "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn back_off_grows_from_800_ms_to_30_s_each_up_to_twice_as_long() {
    let server = Server::new().always_list("fail:refused");
    play(server.clone(), plain()).await;
    let times = server.times();
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis());
    let expected = [800, 1600, 3200, 6400, 12_800, 25_600].into_iter().chain(std::iter::repeat(30_000));
    for (gap, expected) in gaps.zip(expected) {
        assert!((expected..=2 * expected + 2).contains(&gap), "{gap} instead of {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn back_off_starts_over_after_two_minutes_of_health() {
    for (health, anew) in [(130, true), (100, false)] {
        let mut server = Server::new().list("=>10");
        for _ in 0..10 {
            server = server.watch("fail:429");
        }
        let server = server.watch(&format!("wait:{health} open fail:429")).watch("open");
        play(server.clone(), plain()).await;
        let times = server.times();
        let gap = times[12] - times[11] - Duration::from_secs(health);
        assert_eq!(gap < Duration::from_millis(1700), anew, "{gap:?}");
    }
}
