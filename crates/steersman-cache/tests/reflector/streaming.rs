//! Streaming lists.

use super::script::{HOUR, Running, Server, play, streaming};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn the_end_bookmark_ends_the_list_and_the_same_stream_goes_on_as_the_watch() {
    let server = Server::new().watch("+a@5 +b@6 $10 ~a@11 wait:60 *12 -b@13");
    let (requests, log) = play(server, streaming()).await;
    assert_eq!(requests, [r#"stream """#]);
    assert_eq!(log, ["[a@5 b@6]=>10", "~a@11", "*12", "-b@13"]);
}

#[tokio::test(start_paused = true)]
async fn when_the_stream_ends_the_watch_goes_on_from_where_it_was() {
    let server = Server::new().watch("$10 ~a@11 wait:300 end").watch("open");
    assert_eq!(play(server, streaming()).await.0, [r#"stream """#, r#"watch "11""#]);
    let server = Server::new().watch("$10 wait:300 end").watch("open");
    assert_eq!(play(server, streaming()).await.0, [r#"stream """#, r#"watch "10""#]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_streams_from_the_last_version() {
    let server = Server::new().watch("$10 ~a@11 fail:410").watch("+a@11 $12");
    let (requests, log) = play(server, streaming()).await;
    assert_eq!(requests, [r#"stream """#, r#"stream "11""#]);
    assert_eq!(log, ["[]=>10", "~a@11", "[a@11]=>12"]);
}

#[tokio::test(start_paused = true)]
async fn throttled_or_refused_it_backs_off_and_streams_again() {
    for failure in ["fail:429", "fail:refused", "+a@5 fail:429", "+a@5 fail:refused"] {
        let server = Server::new().watch(failure).watch(failure).watch("+a@5 $10");
        let (requests, log) = play(server.clone(), streaming()).await;
        assert_eq!(requests, [r#"stream """#; 3], "{failure}");
        assert_eq!(log, ["[a@5]=>10"], "{failure}");
        let times = server.times();
        assert!(times[1].as_millis() >= 800 && (times[2] - times[1]).as_millis() >= 1600, "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn expired_or_too_large_it_streams_the_newest_at_once() {
    for failure in ["fail:410", "fail:toolarge", "+a@5 fail:410"] {
        let server = Server::new().watch("$10 fail:410").watch(failure).watch("+a@5 $20");
        let (requests, log) = play(server.clone(), streaming()).await;
        assert_eq!(requests, [r#"stream """#, r#"stream "10""#, r#"stream """#], "{failure}");
        assert_eq!(log, ["[]=>10", "[a@5]=>20"], "{failure}");
        assert_eq!(server.times()[1], server.times()[2]);
    }
}

#[tokio::test(start_paused = true)]
async fn after_any_other_error_it_lists_at_once() {
    for failure in ["fail:500", "fail:403", "fail:400", "fail:422", "+a@5 fail:500", "+a@5 end"] {
        let server = Server::new().watch(failure).list("b@6 =>10").watch("open");
        let (requests, log) = play(server.clone(), streaming()).await;
        assert_eq!(requests, [r#"stream """#, r#"list "0""#, r#"watch "10""#], "{failure}");
        assert_eq!(log, ["[b@6]=>10"], "{failure}");
        assert_eq!(server.times()[2].as_secs(), 0, "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_is_not_asked_to_stream_again() {
    for (failure, relist) in [("fail:422", r#"list "10""#), ("fail:500", r#"stream "10""#)] {
        let server = Server::new().watch(failure).list("=>10").watch("fail:410");
        assert_eq!(play(server, streaming()).await.0[3], relist, "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_end_bookmark_in_time_it_lists() {
    // No event; some events, then none; only changes, which an old server sends forever.
    for silent in ["open", "+a@5 wait:9 +b@6", "+a@5 wait:4 ~a@6 wait:4 ~a@7 wait:4 ~a@8 wait:4 ~a@9"] {
        let server = Server::new().watch(silent).list("b@6 =>10").watch("open");
        let (requests, log) = play(server.clone(), streaming()).await;
        assert_eq!(requests, [r#"stream """#, r#"list "0""#, r#"watch "10""#], "{silent}");
        assert_eq!(log, ["[b@6]=>10"], "{silent}");
        assert!((10..20).contains(&server.times()[1].as_secs()), "{silent}: {:?}", server.times());
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_keeps_coming_may_take_as_long_as_it_likes() {
    let server = Server::new().watch("+a@5 wait:9 +b@6 wait:9 +c@7 wait:9 $10");
    let (requests, log) = play(server, streaming()).await;
    assert_eq!(requests.len(), 1);
    assert_eq!(log, ["[a@5 b@6 c@7]=>10"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_the_stream_for_a_plain_watch_is_listed_from_then_on() {
    let server = Server::new().watch("+a@5 wait:5 *9").list("a@5 =>10").watch("wait:60 fail:410").list("a@5 =>12");
    let (requests, log) = play(server.clone(), streaming()).await;
    assert_eq!(requests, [r#"stream """#, r#"list "0""#, r#"watch "10""#, r#"list "10""#, r#"watch "12""#]);
    assert_eq!(log, ["[a@5]=>10", "[a@5]=>12"]);
    assert_eq!(server.times()[1].as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_the_list_comes_is_in_it_as_it_is_at_the_end() {
    let server = Server::new().watch("+a@5 +b@6 +c@7 ~a@8 -b@9 -c@10 +c@11 $12");
    let running: Running = Running::start(server, streaming());
    sleep(HOUR).await;
    // Of several states, the store takes the last.
    assert_eq!(running.log(), ["[a@5 a@8 c@11]=>12"]);
}
