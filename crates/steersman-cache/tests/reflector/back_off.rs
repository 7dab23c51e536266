//! How long a reflector waits after a failure.

use std::time::Duration;

use super::script::{HOUR, Server, plain, play, streaming};
use steersman_cache::ReflectorOptions;

#[tokio::test(start_paused = true)]
async fn a_retry_after_is_the_shortest_wait_up_to_a_minute() {
    for (seconds, expected) in [(45, 45), (100_000, 60)] {
        let failure = format!("fail:429;{seconds}");
        for server in [
            Server::new().list(&failure).list(&failure).list("=>10").watch("open"),
            Server::new().list("=>10").watch(&failure).watch(&failure).watch("open"),
        ] {
            play(server.clone(), plain()).await;
            let times = server.times();
            let gaps: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
            let long = gaps.iter().filter(|gap| (expected..=expected + 1).contains(*gap)).count();
            assert_eq!(long, 2, "after a Retry-After of {seconds} s: {gaps:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_looked_for_every_few_seconds_with_one_request() {
    for options in [plain(), streaming()] {
        let server = Server::new().always_list("fail:404").always_watch("fail:404");
        play(server.clone(), options).await;
        let (requests, times) = (server.requests(), server.times());
        let late = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(late <= Duration::from_millis(3_010), "{late:?}");
        assert!(requests[2..].iter().all(|request| request.starts_with("list")), "{:?}", &requests[..9]);
        assert!(requests.len() < 2500, "{} requests in an hour", requests.len());
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_and_the_shortest_times_are_no_reason_to_panic() {
    for time in [Duration::MAX, Duration::from_secs(u64::MAX / 2), Duration::ZERO] {
        for streaming in [true, false] {
            let options = ReflectorOptions { streaming, watch_timeout: time, streaming_silence: time, ..plain() };
            let server =
                Server::new().always_list("a@5 =>10").always_watch("wait:60 +a@5 wait:60 $10 ~a@11 wait:60 end");
            let (_, log) = play(server.clone(), options).await;
            assert!(log.contains(&"~a@11".to_owned()), "{time:?}: {log:?}");
            let expected = if time.is_zero() { 0 } else { u32::MAX };
            assert!(server.timeouts().iter().all(|timeout| *timeout == expected), "{:?}", server.timeouts());
            assert!(server.requests().len() < HOUR.as_secs() as usize);
        }
    }
}
