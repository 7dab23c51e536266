//! The cache against a model. Random writes go to the server, and the connection of the cache has
//! random faults. The cache and its handlers have to keep contracts 1, 2, 3, 4, 7 and 8.
//!
//! A seed determines a run. `MODEL_SEEDS=5000` sets the number of seeds, and `MODEL_SEED=17` runs
//! one. Two runs of a seed differ only in the jitter of the reflector's back-off and in the uids.

mod caches;
mod faults;
mod history;
mod random;
mod regressions;
mod script;
mod watched;
mod witness;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use script::{Counts, Script};
use world::World;

/// More seeds under `cargo xtask test --soak`.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number("MODEL_SEED") {
        return seed..seed + 1;
    }
    let soak = std::env::var_os("STEERSMAN_SOAK").is_some();
    0..number("MODEL_SEEDS").unwrap_or(if soak { 5_000 } else { 250 })
}

/// Events that have to occur in a hundred runs: otherwise the model tests less than it seems to.
const EXPECTED: [&str; 31] = [
    "400",
    "410",
    "410 in a watch",
    "429",
    "429 with Retry-After",
    "500",
    "503",
    "begun with",
    "calls",
    "compactions",
    "compressed objects",
    "dynamic objects",
    "ended in the middle",
    "recreated unseen",
    "deleted unseen",
    "in pieces",
    "late joiner begun with",
    "lists after the first",
    "lost after",
    "lost before",
    "lost in the middle",
    "metadata-only objects",
    "pause",
    "quiet",
    "quiet on a bad connection",
    "refused",
    "silence",
    "slow",
    "transformed objects",
    "typed objects",
    "unanswered",
];

/// One run. Returns its counts, or what was wrong.
fn run(seed: u64) -> Result<Counts, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime can be made");
    let script = Script::default();
    let all = async { World::new(seed, script.clone()).await.run().await };
    let problem = match catch_unwind(AssertUnwindSafe(|| runtime.block_on(all))) {
        Ok(Ok(())) => return Ok(script.counts()),
        Ok(Err(problem)) => problem,
        Err(_) => "it panicked, see above".to_owned(),
    };
    Err(format!("{script}\nseed {seed} (again: MODEL_SEED={seed}): {problem}"))
}

/// Runs seeds until there are no more, or one fails.
fn run_all(seeds: &Mutex<std::ops::Range<u64>>) -> Result<Counts, String> {
    let mut all = Counts::new();
    loop {
        let Some(seed) = seeds.lock().expect("no thread panics with it").next() else { return Ok(all) };
        let counts = run(seed).inspect_err(|_| *seeds.lock().expect("no thread panics with it") = 0..0)?;
        for (what, times) in counts {
            *all.entry(what).or_default() += times;
        }
    }
}

#[test]
fn the_cache_agrees_with_the_server_whatever_happens() {
    let (all, seeds) = (seeds(), Mutex::new(seeds()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<Result<Counts, String>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| run_all(&seeds))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    let mut counts = Counts::new();
    for result in results {
        for (what, times) in result.unwrap_or_else(|problem| panic!("{problem}")) {
            *counts.entry(what).or_default() += times;
        }
    }
    println!("{counts:#?}");
    let missing: Vec<_> = EXPECTED.iter().filter(|what| counts.get(*what).is_none_or(|times| *times == 0)).collect();
    assert!(all.end - all.start < 100 || missing.is_empty(), "these never came to pass: {missing:?}");
}
