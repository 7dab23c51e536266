//! The cache against a model: whatever is written to the server, and however bad the connection to it is, the cache and those who
//! are told of its changes see what contracts 1, 2, 3, 4, 7 and 8 promise.
//!
//! A run is made of a seed. `MODEL_SEEDS=5000` runs so many of them, `MODEL_SEED=17` only that one. Two runs of a seed differ only
//! in the jitter of the reflector's back-off and in the uids.

mod faults;
mod history;
mod random;
mod regressions;
mod script;
mod witness;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use script::Script;
use world::World;

/// Many more under `cargo xtask test --soak`.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number("MODEL_SEED") {
        return seed..seed + 1;
    }
    let soak = std::env::var_os("STEERSMAN_SOAK").is_some();
    0..number("MODEL_SEEDS").unwrap_or(if soak { 5_000 } else { 200 })
}

/// One run, and what was wrong with it, if anything.
fn run(seed: u64) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime can be made");
    let script = Script::default();
    let all = async { World::new(seed, script.clone()).await.run().await };
    let problem = match catch_unwind(AssertUnwindSafe(|| runtime.block_on(all))) {
        Ok(Ok(())) => return None,
        Ok(Err(problem)) => problem,
        Err(_) => "it panicked, see above".to_owned(),
    };
    Some(format!("{script}\nseed {seed} (again: MODEL_SEED={seed}): {problem}"))
}

#[test]
fn the_cache_agrees_with_the_server_whatever_happens() {
    let (seeds, next) = (seeds(), AtomicU64::new(0));
    let work = || {
        while let Some(seed) = seeds.clone().nth(next.fetch_add(1, Ordering::Relaxed) as usize) {
            if let Some(problem) = run(seed) {
                // The others need not go on.
                next.store(u64::from(u32::MAX), Ordering::Relaxed);
                return Some(problem);
            }
        }
        None
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let problems: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().filter_map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    assert!(problems.is_empty(), "{}", problems[0]);
}
