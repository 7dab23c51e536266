//! Versions and pages of lists.

use super::script::{HOUR, Running, Server, plain, play};
use tokio::time::sleep;

/// The versions of the requested lists.
fn listed(requests: &[String]) -> Vec<&str> {
    requests.iter().filter_map(|request| request.strip_prefix("list \"")?.split('"').next()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_at_0_and_the_watch_from_the_lists_version() {
    let (requests, log) = play(Server::new().list("a@5 b@6 =>10").watch("open"), plain()).await;
    assert_eq!(requests, [r#"list "0""#, r#"watch "10""#]);
    assert_eq!(log, ["[a@5 b@6]=>10"]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_is_at_the_last_version_that_was_seen() {
    let server = Server::new().list("=>10").watch("fail:410").list("=>12").watch("open");
    assert_eq!(listed(&play(server, plain()).await.0), ["0", "10"]);
    let server = Server::new().list("=>10").watch("+a@11 wait:5 fail:410").list("=>12").watch("open");
    assert_eq!(listed(&play(server, plain()).await.0), ["0", "11"]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_whose_version_is_expired_is_at_the_newest() {
    let server = Server::new().list("=>10").watch("fail:410").list("fail:410").list("=>12").watch("open");
    let (requests, log) = play(server, plain()).await;
    assert_eq!(listed(&requests), ["0", "10", ""]);
    assert_eq!(requests.last().unwrap(), r#"watch "12""#);
    assert_eq!(log, ["[]=>10", "[]=>12"]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_whose_version_is_too_large_is_at_the_newest_and_the_next_at_what_that_gave() {
    let server = Server::new().list("=>20").watch("fail:410");
    let server = server.list("fail:toolarge").list("=>30").watch("fail:410");
    let server = server.list("fail:toolarge").list("=>40").watch("fail:410");
    let server = server.list("fail:toolarge").list("=>50").watch("open");
    assert_eq!(listed(&play(server, plain()).await.0), ["0", "20", "", "30", "", "40", ""]);
}

#[tokio::test(start_paused = true)]
async fn the_newest_is_asked_for_until_it_comes() {
    let server = Server::new().list("=>10").watch("fail:410").list("fail:410").list("fail:500").list("fail:410");
    let (requests, _) = play(server.list("=>12").watch("open"), plain()).await;
    assert_eq!(listed(&requests), ["0", "10", "", "", ""]);
}

#[tokio::test(start_paused = true)]
async fn pages_of_500_are_read_where_the_newest_is_asked_for_and_nowhere_else() {
    let server = Server::new().list("=>10").watch("fail:410").list("fail:410");
    let server = server.list("a@1 =>12 ..one").list("b@2 =>12 ..two").list("c@3 =>12").watch("open");
    let (requests, log) = play(server, plain()).await;
    let pages = [
        r#"list "10""#,
        r#"list "" limit=500"#,
        r#"list "" limit=500 continue=one"#,
        r#"list "" limit=500 continue=two"#,
        r#"watch "12""#,
    ];
    assert_eq!(requests[2..], pages);
    assert_eq!(log, ["[]=>10", "[a@1 b@2 c@3]=>12"]);
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_that_is_expired_means_one_full_list() {
    let server = Server::new().list("=>10").watch("fail:410").list("fail:410");
    let server = server.list("a@1 b@2 =>12 ..one").list("fail:410").list("a@1 c@13 =>13").watch("open");
    let (requests, log) = play(server, plain()).await;
    let pages = [r#"list "" limit=500"#, r#"list "" limit=500 continue=one"#, r#"list """#, r#"watch "13""#];
    assert_eq!(requests[3..], pages);
    assert_eq!(log, ["[]=>10", "[a@1 c@13]=>13"], "nothing of the pages is left");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_in_the_middle_leaves_what_there_is() {
    let server =
        Server::new().list("a@5 b@6 =>10").watch("fail:410").list("a@5 fail:500").list("b@6 =>12").watch("open");
    let (_, log) = play(server, plain()).await;
    assert_eq!(log, ["[a@5 b@6]=>10", "[b@6]=>12"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_brings_the_same_state_keeps_the_one_in_memory() {
    let server = Server::new().list("a@5 b@6 =>10").watch("wait:60 fail:410").list("a@5 b@7 =>12").watch("open");
    let running: Running = Running::start(server, plain());
    sleep(HOUR / 3600).await;
    let (a, b) = (running.store.get("a").unwrap(), running.store.get("b").unwrap());
    sleep(HOUR).await;
    assert_eq!(running.log(), ["[a@5 b@6]=>10", "[a@5 b@7]=>12"]);
    let (a_now, b_now) = (running.store.get("a").unwrap(), running.store.get("b").unwrap());
    // The metadata is in the state's own allocation.
    assert!(std::ptr::eq(a.meta(), a_now.meta()), "the state that was there before");
    assert!(!std::ptr::eq(b.meta(), b_now.meta()));
}

#[tokio::test(start_paused = true)]
async fn a_list_of_objects_without_versions_refreshes_them() {
    let server = Server::new().list("a@ =>10").watch("wait:60 fail:410").list("a@ =>12").watch("open");
    let running: Running = Running::start(server, plain());
    sleep(HOUR / 3600).await;
    let before = running.store.get("a").unwrap();
    sleep(HOUR).await;
    assert_eq!(running.log(), ["[a@]=>10", "[a@]=>12"]);
    let now = running.store.get("a").unwrap();
    assert!(!std::ptr::eq(before.meta(), now.meta()), "without a version, the state cannot be compared");
}
