//! Reflectors that are dropped.

use super::script::{HOUR, Running, Server, Store, plain, streaming};
use steersman_cache::{Phase, Reflector, ReflectorOptions, Storage};
use tokio::task::yield_now;
use tokio::time::sleep;

fn server() -> Server {
    let server = Server::new().watch("+a@5 +b@6 fail:500").list("a@5 b@6 =>10").watch("~a@11 -b@12 *13 fail:410");
    server.list("a@11 c@14 =>15").watch("-c@16 fail:410").watch("+a@11 +d@17 $18 ~d@19")
}

/// Polls a reflector this number of times and drops it. Returns what it wrote.
async fn cut_off(options: ReflectorOptions, turns: usize) -> Vec<String> {
    let store: Store = Store::default();
    let reflector = Reflector::new(server(), Storage::default(), store.clone(), options);
    let status = reflector.status();
    let turns = async {
        for _ in 0..turns {
            yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = turns => {}
        never = reflector.run() => match never {},
    }
    assert_eq!(status.get().phase, Phase::Stopped);
    store.log()
}

#[tokio::test(start_paused = true)]
async fn dropped_at_any_moment_it_leaves_nothing_half_done() {
    for options in [plain(), streaming()] {
        let whole = {
            let running: Running = Running::start(server(), options.clone());
            sleep(HOUR).await;
            running.log()
        };
        let mut seen = std::collections::BTreeSet::new();
        for turns in 0..200 {
            let log = cut_off(options.clone(), turns).await;
            assert_eq!(log, whole[..log.len()], "after {turns} turns");
            seen.insert(log.len());
        }
        assert!(seen.len() > 3, "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_of_its_status_sees_its_end() {
    let running: Running = Running::start(Server::new(), plain());
    let status = running.status.clone();
    sleep(HOUR).await;
    drop(running);
    let ended = status.wait_for(|status| status.phase == Phase::Stopped).await.map(|status| status.to_string());
    assert_eq!(ended.unwrap(), "config maps: stopped");
}
