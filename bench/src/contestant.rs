//! The common part of all contestants in Rust: arguments, measurements, the result line.
//!
//! This file uses nothing else of this package, because the kube-rs contestant, which is no member
//! of the workspace, compiles it, too.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Map, Value};
use tokio::sync::Notify;

/// Bytes in the megabyte of every figure.
const MEGABYTE: f64 = 1e6;

/// The job that a contestant is asked to do.
#[derive(clap::Args, Clone, Debug)]
pub struct Ask {
    /// The job's name
    pub job: String,
    /// How many objects or keys the job is about
    #[arg(long)]
    pub size: u64,
    /// The replay's address, for jobs that need it
    #[arg(long)]
    pub url: Option<String>,
    /// How many watch events follow the first list
    #[arg(long, default_value_t = 0)]
    pub events: u64,
    /// How many workers take from the queue, or how many handlers an informer has
    #[arg(long, default_value_t = 1)]
    pub workers: u64,
    /// Seconds over which delays are spread, or for which is measured
    #[arg(long, default_value_t = 0)]
    pub window: u64,
    /// How to reach a real API server, for jobs that need one
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// When this program was started, in nanoseconds since 1970
    #[arg(long)]
    pub started: Option<u64>,
}

impl Ask {
    /// The replay's address.
    pub fn url(&self) -> Result<&str> {
        self.url.as_deref().with_context(|| format!("the job {} needs --url", self.job))
    }

    /// The kubeconfig of the real server.
    pub fn kubeconfig(&self) -> Result<&PathBuf> {
        self.kubeconfig.as_ref().with_context(|| format!("the job {} needs --kubeconfig", self.job))
    }

    /// The time from the start of this program to that moment.
    pub fn since_start(&self, moment: SystemTime) -> Result<Duration> {
        let started = self.started.with_context(|| format!("the job {} needs --started", self.job))?;
        let moment = moment.duration_since(SystemTime::UNIX_EPOCH).context("the clock stands before 1970")?;
        moment.checked_sub(Duration::from_nanos(started)).context("--started is later than that")
    }
}

/// Ends this process once standard input is closed, so that it never outlives its parent.
pub fn exit_when_stdin_closes() {
    std::thread::spawn(|| {
        let mut buffer = [0; 64];
        let mut stdin = std::io::stdin();
        while matches!(stdin.read(&mut buffer), Ok(length) if length > 0) {}
        std::process::exit(3);
    });
}

/// The cost of some work: elapsed time, and processor time of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Time that passed.
    pub wall: Duration,
    /// User and system time of all threads.
    pub cpu: Duration,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

/// Measures the cost of some work.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
    cpu: Duration,
}

impl Stopwatch {
    /// The work starts now.
    pub fn start() -> Self {
        Self { cpu: cpu_time(), started: Instant::now() }
    }

    /// The cost up to now.
    pub fn cost(&self) -> Cost {
        Cost { wall: self.started.elapsed(), cpu: cpu_time().saturating_sub(self.cpu) }
    }
}

/// User and system time of this process so far.
pub fn cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may always ask for its own usage");
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| Duration::new(time.tv_sec().unsigned_abs(), time.tv_usec().unsigned_abs() as u32 * 1000))
        .sum()
}

/// The memory of this process. Only on Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Bytes resident now.
    pub resident: Option<u64>,
    /// The most bytes that were ever resident, or since [`reset_peak`].
    pub peak: Option<u64>,
}

/// The present memory of this process.
pub fn memory() -> Memory {
    memory_of("self")
}

/// The present memory of the process with this id.
pub fn memory_of(process: &str) -> Memory {
    std::fs::read_to_string(format!("/proc/{process}/status")).map(|status| memory_from(&status)).unwrap_or_default()
}

fn memory_from(status: &str) -> Memory {
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024)
    };
    Memory { resident: bytes("VmRSS:"), peak: bytes("VmHWM:") }
}

/// Resets the peak: the next one counts from the present memory. Where the system does not allow
/// that, the peak stays.
pub fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The report of a contestant.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The work that was done.
    pub count: u64,
    /// Its cost.
    pub cost: Cost,
    /// The memory of the measured processes, if that is not this process.
    pub memory: Option<Memory>,
    /// Figures of this job only.
    pub figures: Vec<(&'static str, f64)>,
}

impl Outcome {
    /// Prints the result line, with the present memory of this process: call it when everything has
    /// settled, and while the result of the work still exists.
    pub fn report(&self) {
        println!("{}", self.line(self.memory.unwrap_or_else(memory)));
    }

    fn line(&self, memory: Memory) -> String {
        let megabytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / MEGABYTE);
        let mut line = Map::new();
        line.insert("count".to_owned(), self.count.into());
        line.insert("wall_s".to_owned(), self.cost.wall.as_secs_f64().into());
        line.insert("cpu_s".to_owned(), self.cost.cpu.as_secs_f64().into());
        line.insert("rss_mb".to_owned(), megabytes(memory.resident).into());
        line.insert("peak_mb".to_owned(), megabytes(memory.peak).into());
        for (name, value) in &self.figures {
            line.insert((*name).to_owned(), (*value).into());
        }
        Value::Object(line).to_string()
    }
}

/// A counter with a goal that can be awaited.
#[derive(Debug)]
pub struct Counter {
    value: AtomicU64,
    goal: AtomicU64,
    reached: Notify,
}

impl Counter {
    /// Counts from 0 to `goal`.
    pub fn new(goal: u64) -> Self {
        Self { value: AtomicU64::new(0), goal: AtomicU64::new(goal), reached: Notify::new() }
    }

    /// One more.
    pub fn add(&self) {
        if self.value.fetch_add(1, Ordering::Relaxed) + 1 == self.goal.load(Ordering::Relaxed) {
            self.reached.notify_one();
        }
    }

    /// How many there have been.
    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Raises the goal by this number. Call it when the goal was reached, and before anything is
    /// added.
    pub fn go_on(&self, more: u64) {
        self.goal.fetch_add(more, Ordering::Relaxed);
    }

    /// Waits for the goal. Only one task can wait.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }
}

/// The resource version of the replay's first object. Large, so that no version gains a digit
/// during a run.
pub const FIRST_VERSION: u64 = 1_000_000;

/// The namespace and the name of a small object of the replay, the same for all its kinds.
pub fn small_object(index: u64) -> (String, String) {
    (format!("team-{}", index % 100), format!("object-{index:06}"))
}

/// Waits exactly this long, like Go's contestants. A timer of tokio waits up to 1.5 ms longer, and
/// a server that was idle for longer takes longer to respond.
pub async fn pause(duration: Duration) -> Result<()> {
    Ok(tokio::task::spawn_blocking(move || std::thread::sleep(duration)).await?)
}

/// The report of a job that measured several durations, at least one.
pub fn latencies(mut took: Vec<Duration>) -> Result<Vec<(&'static str, f64)>> {
    took.sort_unstable();
    let microseconds = |took: Option<&Duration>| took.map(|took| took.as_secs_f64() * 1e6).context("nothing was timed");
    let percentile = |percent: usize| microseconds(took.get(took.len() * percent / 100));
    Ok(vec![("p50_us", percentile(50)?), ("p99_us", percentile(99)?), ("max_us", microseconds(took.last())?)])
}

/// The shortest total time of the rounds of the job `reconcile-noop`, so that a single delay does
/// not matter.
const ENOUGH_RECONCILES: Duration = Duration::from_secs(1);

/// The rounds of the job `reconcile-noop`: in each, every key is reconciled once.
#[derive(Debug, Default)]
pub struct Rounds {
    done: u64,
    cost: Cost,
}

impl Rounds {
    /// Whether there were enough.
    pub fn are_enough(&self) -> bool {
        self.cost.wall >= ENOUGH_RECONCILES
    }

    /// Adds a round of this duration.
    pub fn add(&mut self, cost: Cost) {
        self.done += 1;
        self.cost += cost;
    }

    /// The report for `count` reconciles in all rounds.
    pub fn outcome(&self, count: u64) -> Outcome {
        let (seconds, reconciles) = (self.cost.wall.as_secs_f64(), count.max(1) as f64);
        let figures = vec![
            ("repeats", self.done as f64),
            ("reconciles_per_s", reconciles / seconds),
            ("ns_per_reconcile", seconds * 1e9 / reconciles),
        ];
        Outcome { count, cost: self.cost, memory: None, figures }
    }
}

/// How many Pods of the replay have the same owner.
pub const PODS_PER_OWNER: u64 = 100;

/// The uid of an owner of Pods of the replay: owner 0 has the first [`PODS_PER_OWNER`], owner 1 the
/// next ones.
pub fn owner_uid(owner: u64) -> String {
    format!("c0ffee00-5d1c-4b7e-9a30-{owner:012x}")
}

/// How often the children of one owner are listed in the job `cache-read-children`.
pub const CHILD_LISTS: u64 = 1000;
/// Visits the owners in an order that is neither rising nor falling; a prime, so that none is left
/// out.
const OWNER_STRIDE: usize = 7919;

/// The report of a job that read `count` objects.
pub fn reads(count: u64, cost: Cost) -> Outcome {
    let ns_per_read = cost.wall.as_nanos() as f64 / count.max(1) as f64;
    Outcome { count, cost, memory: None, figures: vec![("ns_per_read", ns_per_read)] }
}

/// The look-ups of the job `cache-index`: one owner after the other, until the window is over.
#[derive(Debug)]
pub struct Lookups {
    owners: Vec<String>,
    window: Duration,
    hits: u64,
    took: Vec<Duration>,
    stopwatch: Stopwatch,
    /// The end of the previous look-up.
    last: Instant,
}

impl Lookups {
    /// The first look-up starts now.
    pub fn start(ask: &Ask) -> Self {
        let owners = (0..ask.size / PODS_PER_OWNER).map(owner_uid).collect();
        let window = Duration::from_secs(ask.window);
        let stopwatch = Stopwatch::start();
        Self { owners, window, hits: 0, took: Vec::new(), stopwatch, last: stopwatch.started }
    }

    /// The owner of the next look-up; nothing once the window is over.
    pub fn next_owner(&self) -> Option<&str> {
        let over = self.last.duration_since(self.stopwatch.started) >= self.window;
        let index = (self.took.len() * OWNER_STRIDE).checked_rem(self.owners.len())?;
        (!over).then(|| self.owners[index].as_str())
    }

    /// Adds a look-up that found this number of Pods.
    pub fn found(&mut self, hits: u64) {
        self.hits += hits;
        let now = Instant::now();
        self.took.push(now - self.last);
        self.last = now;
    }

    /// The report, with the number of updates that arrived during the look-ups.
    pub fn outcome(mut self, updates: u64) -> Result<Outcome> {
        let cost = self.stopwatch.cost();
        self.took.sort_unstable();
        let percentile = |percent: usize| {
            let took = self.took.get(self.took.len() * percent / 100);
            took.map(|took| took.as_secs_f64() * 1e6).context("nothing was looked up: is there a --window?")
        };
        let (seconds, lookups) = (cost.wall.as_secs_f64(), self.took.len() as f64);
        let figures = vec![
            ("lookups", lookups),
            ("updates", updates as f64),
            ("updates_per_s", updates as f64 / seconds),
            ("us_per_lookup", seconds * 1e6 / lookups),
            ("p50_us", percentile(50)?),
            ("p99_us", percentile(99)?),
        ];
        Ok(Outcome { count: self.hits, cost, memory: None, figures })
    }
}

/// The path that makes the replay send its events.
pub const START_EVENTS: &str = "/replay/start-events";

/// Makes the replay at `url` send its events.
pub fn start_events(url: &str) -> Result<()> {
    post(url, START_EVENTS)
}

/// Makes the replay at `url` send its events up to event `last`, counted from 1.
pub fn start_events_until(url: &str, last: u64) -> Result<()> {
    post(url, &format!("{START_EVENTS}?events={last}"))
}

fn post(url: &str, path: &str) -> Result<()> {
    let address = url.strip_prefix("http://").context("the replay speaks plain HTTP only")?.trim_end_matches('/');
    let mut stream = TcpStream::connect(address).with_context(|| format!("connecting to the replay at {address}"))?;
    write!(stream, "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("reading the replay's answer")?;
    let status = answer.lines().next().unwrap_or_default();
    if !status.contains(" 200 ") {
        bail!("the replay did not start its events: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status_file() {
        let status = "Name:\treplay\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t1\n";
        assert_eq!(memory_from(status), Memory { resident: Some(1024 * 1024), peak: Some(2048 * 1024) });
    }

    #[test]
    fn what_the_status_file_does_not_say_is_unknown() {
        assert_eq!(memory_from("Name:\treplay\nVmRSS:\tmuch\n"), Memory::default());
    }

    #[test]
    fn the_result_line_is_one_json_object() {
        let outcome = Outcome {
            count: 7,
            cost: Cost { wall: Duration::from_millis(1500), cpu: Duration::from_millis(250) },
            memory: None,
            figures: vec![("ns_per_item", 12.5)],
        };
        let line = outcome.line(Memory { resident: Some(3_000_000), peak: None });
        let expected = serde_json::json!({
            "count": 7, "wall_s": 1.5, "cpu_s": 0.25, "rss_mb": 3.0, "peak_mb": null, "ns_per_item": 12.5,
        });
        assert_eq!(serde_json::from_str::<Value>(&line).expect("the line is JSON"), expected);
        assert!(!line.contains('\n'));
    }

    fn ask(size: u64, window: u64) -> Ask {
        let job = "cache-index".to_owned();
        Ask { job, size, url: None, events: 0, workers: 1, window, kubeconfig: None, started: None }
    }

    fn lookups(size: u64, window: u64) -> Lookups {
        Lookups::start(&ask(size, window))
    }

    #[test]
    fn a_counter_is_waited_for_and_goes_on() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
        runtime.block_on(async {
            let counter = Counter::new(2);
            counter.add();
            counter.add();
            counter.reached().await;
            counter.go_on(1);
            let mut waiting = std::pin::pin!(counter.reached());
            let early = std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx).is_ready())).await;
            assert!(!early, "the second goal was reached with the first");
            counter.add();
            waiting.await;
            assert_eq!(counter.value(), 3);
        });
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let took = (1..=200).rev().map(Duration::from_micros).collect();
        let figures = latencies(took).expect("there were times");
        for ((name, value), expected) in figures.iter().zip([("p50_us", 101.0), ("p99_us", 199.0), ("max_us", 200.0)]) {
            assert_eq!(*name, expected.0);
            assert!((value - expected.1).abs() < 1e-6, "{name} is {value}");
        }
        latencies(Vec::new()).expect_err("there is nothing to report");
    }

    #[test]
    fn rounds_report_what_one_reconcile_cost() {
        let mut rounds = Rounds::default();
        let cost = Cost { wall: Duration::from_millis(600), cpu: Duration::from_millis(800) };
        rounds.add(cost);
        assert!(!rounds.are_enough());
        rounds.add(cost);
        assert!(rounds.are_enough());
        let figures = rounds.outcome(1200).figures;
        let expected = [("repeats", 2.0), ("reconciles_per_s", 1000.0), ("ns_per_reconcile", 1_000_000.0)];
        assert!(figures.iter().zip(expected).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-3), "{figures:?}");
    }

    #[test]
    fn the_time_since_the_start_is_measured_from_the_harness_s_start() {
        let mut ask = ask(1, 0);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        ask.since_start(now).expect_err("no time of the start was given");
        ask.started = Some(99_500_000_000);
        assert_eq!(ask.since_start(now).expect("it was started before"), Duration::from_millis(500));
        ask.started = Some(101_000_000_000);
        ask.since_start(now).expect_err("a program does not start after its work");
    }

    #[test]
    fn lookups_visit_every_owner_before_any_again() {
        let mut lookups = lookups(5000, 3600);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..50 {
            let owner = lookups.next_owner().expect("the window is not over").to_owned();
            assert!(seen.insert(owner), "an owner was visited twice");
            lookups.found(PODS_PER_OWNER);
        }
        let outcome = lookups.outcome(7).expect("there were look-ups");
        assert_eq!(outcome.count, 5000);
        assert!(outcome.figures.contains(&("lookups", 50.0)) && outcome.figures.contains(&("updates", 7.0)));
    }

    #[test]
    fn without_a_window_or_owners_nothing_is_looked_up_and_that_is_an_error() {
        for lookups in [lookups(5000, 0), lookups(99, 3600)] {
            assert_eq!(lookups.next_owner(), None);
            lookups.outcome(0).expect_err("there is nothing to report");
        }
    }

    #[test]
    fn processor_time_passes_while_work_is_done() {
        let stopwatch = Stopwatch::start();
        let mut sum = 0_u64;
        while stopwatch.cost().cpu < Duration::from_millis(5) {
            sum = std::hint::black_box(sum + 1);
            assert!(stopwatch.cost().wall < Duration::from_secs(30), "no processor time passed after {sum} rounds");
        }
    }
}
