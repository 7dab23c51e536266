//! Counting instructions: `cargo xtask bench --instructions`.
//!
//! The program `instructions` of the bench runs one case at a time under callgrind, which counts
//! only inside the function `measured`. Counts are compared with those in
//! `bench/instructions.json`. They hold for one toolchain: where the
//! versions of rustc, valgrind or glibc or the instructions of the processor differ, they are
//! printed and not judged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::step::Progress;
use crate::{process, provide, workspace};

/// A count that has grown by more than this, in per cent, is a failure.
const GROWTH_MAX: u64 = 3;
/// How many instructions metrics and the flight recorder may add to an empty reconcile.
const OBSERVED_MAX: u64 = 1_500;
/// How much they may add from an event to the end of a reconcile with one typed read, in per cent.
const OBSERVED_GROWTH_MAX: u64 = 5;
/// How much managed fields may add to a create on the embedded API server, in per cent.
const MANAGED_GROWTH_MAX: u64 = 20;
/// How much 10,000 Events that wait for the server may add to a reconcile that records one, in per
/// cent.
const PENDING_GROWTH_MAX: u64 = 1;
/// The recorded counts.
const FILE: &str = "bench/instructions.json";
/// How a person accepts new counts.
const ACCEPT: &str = "cargo xtask bench --instructions --accept";
/// The function inside which callgrind counts.
const MEASURED: &str = "steersman_bench::instructions::measured";
/// The program that does the cases.
const PROGRAM: &str = "instructions";
/// The Cargo profile that it is built with.
const PROFILE: &str = "instructions";
/// Cases that are counted at a time.
const PARALLEL: usize = 2;
/// The instructions of a processor that the C library chooses its functions by.
const CPU_FLAGS: [&str; 6] = ["avx2", "avx512f", "bmi2", "erms", "fsrm", "sse4_2"];

/// The content of `bench/instructions.json`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Record {
    toolchain: Toolchain,
    /// The accepted count of each case: instructions of one operation.
    counts: BTreeMap<String, u64>,
    /// The accepted changes, the newest last.
    accepted: Vec<Accepted>,
}

/// What the counts depend on besides our own code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Toolchain {
    rustc: String,
    valgrind: String,
    glibc: String,
    cpu_flags: String,
}

/// A count that a person has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Accepted {
    case: String,
    /// None for a new case, and if the old count belongs to another toolchain.
    old: Option<u64>,
    new: u64,
    reason: String,
}

/// The result of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    New,
    Same,
    Cheaper,
    /// By more than the limit.
    Dearer,
    /// Recorded, but the program does not know it.
    Removed,
}

/// Counts, prints a table, and fails if a count has grown. With a reason, accepts the new counts
/// instead.
pub(crate) fn run(accept: Option<&str>) -> Result<()> {
    ensure!(accept.is_none_or(|reason| !reason.trim().is_empty()), "--accept needs a reason");
    let toolchain = Toolchain::this()?;
    let file = workspace::root().join(FILE);
    // The first counts are accepted into a file that does not exist yet.
    let mut record = if accept.is_some() && !file.exists() { Record::default() } else { Record::read(&file)? };
    let counts = count(&build()?)?;
    let comparable = record.toolchain == toolchain;
    let old = if comparable { record.counts.clone() } else { BTreeMap::new() };
    let verdicts = judge(&old, &counts);
    println!("{}", table(&old, &counts, &verdicts));
    // Both sides were counted now, so that it holds for every toolchain.
    check_budgets(&counts)?;
    if let Some(reason) = accept {
        record.accept(toolchain, counts, reason);
        return record.write(&file);
    }
    if !comparable {
        println!("not judged: the recorded counts belong to {}; this is {}", record.toolchain.text(), toolchain.text());
        return Ok(());
    }
    conclude(&verdicts)
}

/// An error if a count has grown, or if the record and the program have different cases.
fn conclude(verdicts: &BTreeMap<String, Outcome>) -> Result<()> {
    let named = |wanted: Outcome| -> String {
        let cases = verdicts.iter().filter(|(_, verdict)| **verdict == wanted).map(|(case, _)| case.as_str());
        cases.collect::<Vec<_>>().join(", ")
    };
    let dearer = named(Outcome::Dearer);
    ensure!(
        dearer.is_empty(),
        "over {GROWTH_MAX} % more instructions than recorded: {dearer}. Profile the case, or accept the new count with \
         `{ACCEPT} \"why\"`"
    );
    let new = named(Outcome::New);
    ensure!(new.is_empty(), "no recorded count: {new}. Record it with `{ACCEPT} \"new case\"`");
    let removed = named(Outcome::Removed);
    ensure!(removed.is_empty(), "recorded, but no case of the program: {removed}. Remove it with `{ACCEPT} \"why\"`");
    Ok(())
}

/// An error if what a case does costs too much more than the same case without it.
fn check_budgets(counts: &BTreeMap<String, u64>) -> Result<()> {
    let count = |case: &str| counts.get(case).copied().with_context(|| format!("no count of {case}"));
    let share = |case: &str, more: u64| anyhow::Ok(count(case)? * (100 + more) / 100);
    let observed = "metrics or the flight recorder";
    let budgets = [
        ("reconcile-empty", "reconcile-empty-bare", count("reconcile-empty-bare")? + OBSERVED_MAX, observed),
        ("reconcile-event", "reconcile-event-bare", share("reconcile-event-bare", OBSERVED_GROWTH_MAX)?, observed),
        ("reconcile-events-pending", "reconcile-events", share("reconcile-events", PENDING_GROWTH_MAX)?, "Events"),
        ("server-create", "server-create-bare", share("server-create-bare", MANAGED_GROWTH_MAX)?, "managed fields"),
    ];
    for (case, base, most, dear) in budgets {
        let found = count(case)?;
        ensure!(
            found <= most,
            "{case} takes {found} instructions, at most {most} with what {base} takes: make {dear} cheaper"
        );
    }
    Ok(())
}

impl Toolchain {
    fn this() -> Result<Self> {
        let valgrind = Command::new("valgrind").arg("--version").output();
        let Some(valgrind) = valgrind.ok().filter(|output| output.status.success()) else {
            bail!("valgrind is not installed, and counting instructions needs it: sudo apt-get install valgrind");
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        let output = |program: &str, argument: &str| -> Result<String> {
            Ok(process::output(Command::new(program).arg(argument))?.trim().to_owned())
        };
        Ok(Self {
            rustc: output("rustc", "--version")?,
            valgrind: text(valgrind.stdout),
            glibc: output("getconf", "GNU_LIBC_VERSION")?,
            cpu_flags: cpu_flags(&fs::read_to_string("/proc/cpuinfo").context("reading the processor's flags")?),
        })
    }

    fn text(&self) -> String {
        let Self { rustc, valgrind, glibc, cpu_flags } = self;
        format!("{rustc}, {valgrind}, {glibc}, {cpu_flags}")
    }
}

/// The relevant flags of the first processor.
fn cpu_flags(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let words: Vec<&str> = line.into_iter().flat_map(str::split_whitespace).collect();
    CPU_FLAGS.into_iter().filter(|flag| words.contains(flag)).collect::<Vec<_>>().join(" ")
}

/// Builds the program, and returns the folder that it is in.
///
/// Incremental builds and flags from the environment cut and inline code differently, and counts
/// would depend on them.
fn build() -> Result<PathBuf> {
    let progress = Progress::start("building the program whose instructions are counted", None);
    let mut command = workspace::cargo();
    command.args(["build", "--profile", PROFILE, "--package", "steersman-bench", "--bin", PROGRAM]);
    command.arg("--no-default-features");
    process::output(command.env("CARGO_INCREMENTAL", "0").env_remove("RUSTFLAGS"))?;
    progress.finish();
    Ok(workspace::metadata()?.target_directory.join(PROFILE))
}

/// The instructions of one operation of each case. Two cases are counted at a time: callgrind uses
/// one processor each.
fn count(folder: &Path) -> Result<BTreeMap<String, u64>> {
    let list = process::output(Command::new(folder.join(PROGRAM)).arg("--list"))?;
    let cases: Vec<&str> = list.lines().filter_map(|line| line.split('\t').next()).collect();
    let valgrind = provide::find_program("valgrind").context("valgrind is not in PATH")?;
    let progress = Progress::start("counting instructions", Some(cases.len() as u64));
    let (next, counts) = (AtomicUsize::new(0), Mutex::new(Ok(BTreeMap::new())));
    let worker = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let count = count_case(&valgrind, folder, case).with_context(|| format!("counting {case}"));
            let mut counts = counts.lock().expect("no holder of this lock panics");
            match (count, &mut *counts) {
                (Ok(count), Ok(counts)) => {
                    counts.insert((*case).to_owned(), count);
                    progress.set(counts.len() as u64);
                }
                (Err(error), Ok(_)) => *counts = Err(error),
                (_, Err(_)) => return,
            }
        }
    };
    std::thread::scope(|scope| (0..PARALLEL).for_each(|_| drop(scope.spawn(worker))));
    progress.finish();
    counts.into_inner().expect("no holder of this lock panics")
}

/// Addresses of the stack seed some hashers. They depend on the environment and on the name of the
/// program, so the environment is empty and the name is relative.
fn count_case(valgrind: &Path, folder: &Path, case: &str) -> Result<u64> {
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    command.arg(format!("--toggle-collect={MEASURED}")).arg(format!("./{PROGRAM}")).arg(case);
    command.env_clear().current_dir(folder);
    let output = command.output().context("running valgrind")?;
    let (answer, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "the program failed under valgrind: {}", process::last_lines(&log, 5));
    let operations: u64 = answer.trim().parse().context("reading how many operations there were")?;
    let collected = collected(&log).context("valgrind printed no count")?;
    ensure!(collected > 0, "nothing was counted: the function {MEASURED} was not seen");
    Ok(collected / operations.max(1))
}

/// Reads `==42== Collected : 1234`.
fn collected(log: &str) -> Option<u64> {
    let line = log.lines().find_map(|line| line.split_once("Collected : "))?;
    line.1.trim().parse().ok()
}

fn judge(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>) -> BTreeMap<String, Outcome> {
    let verdict = |case: &str, new: u64| match old.get(case) {
        None => Outcome::New,
        Some(old) if 100 * new > (100 + GROWTH_MAX) * old => Outcome::Dearer,
        Some(old) if 100 * new < (100 - GROWTH_MAX) * old => Outcome::Cheaper,
        Some(_) => Outcome::Same,
    };
    let removed = old.keys().filter(|case| !new.contains_key(*case)).map(|case| (case.clone(), Outcome::Removed));
    new.iter().map(|(case, new)| (case.clone(), verdict(case, *new))).chain(removed).collect()
}

fn growth(old: u64, new: u64) -> f64 {
    new as f64 / old.max(1) as f64 - 1.0
}

fn table(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>, verdicts: &BTreeMap<String, Outcome>) -> String {
    let mut lines = vec![format!("{:<28} {:>12} {:>12} {:>8}", "case", "recorded", "now", "change")];
    for (case, new) in new {
        let before = old.get(case);
        let recorded = before.map_or_else(|| "–".to_owned(), ToString::to_string);
        let change = before.map_or_else(String::new, |old| format!("{:+.1} %", growth(*old, *new) * 100.0));
        let remark = match verdicts.get(case) {
            Some(Outcome::Dearer) => "  dearer",
            Some(Outcome::Cheaper) => "  cheaper: accept it, so that it stays so",
            _ => "",
        };
        lines.push(format!("{case:<28} {recorded:>12} {new:>12} {change:>8}{remark}"));
    }
    lines.join("\n")
}

impl Record {
    fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))
    }

    fn write(&self, file: &Path) -> Result<()> {
        let text = format!("{}\n", serde_json::to_string_pretty(self)?);
        fs::write(file, text).with_context(|| format!("writing {}", file.display()))
    }

    /// Accepts the counts, with a line for each that differs.
    fn accept(&mut self, toolchain: Toolchain, counts: BTreeMap<String, u64>, reason: &str) {
        let same_toolchain = self.toolchain == toolchain;
        for (case, new) in &counts {
            let old = self.counts.get(case).copied().filter(|_| same_toolchain);
            if old != Some(*new) {
                let (case, reason) = (case.clone(), reason.to_owned());
                self.accepted.push(Accepted { case, old, new: *new, reason });
            }
        }
        (self.toolchain, self.counts) = (toolchain, counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
        of.iter().map(|(case, count)| ((*case).to_owned(), *count)).collect()
    }

    #[test]
    fn a_count_fails_from_three_per_cent_on() {
        let old = counts(&[("a", 1000), ("b", 1000), ("c", 1000)]);
        let verdicts = judge(&old, &counts(&[("a", 1030), ("b", 1031), ("c", 900), ("d", 5)]));
        let verdict = |case: &str| verdicts[case];
        assert_eq!(
            [verdict("a"), verdict("b"), verdict("c"), verdict("d")],
            [Outcome::Same, Outcome::Dearer, Outcome::Cheaper, Outcome::New]
        );
    }

    #[test]
    fn a_case_that_grew_is_new_or_was_removed_fails() {
        let old = counts(&[("a", 1000), ("b", 1000)]);
        let message = |new: &[(&str, u64)]| conclude(&judge(&old, &counts(new))).map_err(|error| error.to_string());
        assert_eq!(message(&[("a", 1030), ("b", 900)]), Ok(()));
        let grown = message(&[("a", 1031), ("b", 1000)]).unwrap_err();
        assert!(grown.contains("recorded: a. ") && grown.contains("--accept \"why\""), "{grown}");
        assert!(message(&[("a", 1000), ("b", 1000), ("c", 5)]).unwrap_err().contains("no recorded count: c."));
        assert!(message(&[("a", 1000)]).unwrap_err().contains("no case of the program: b."));
    }

    #[test]
    fn the_recorded_counts_keep_the_budgets() {
        let record = Record::read(&workspace::root().join(FILE)).unwrap();
        check_budgets(&record.counts).unwrap();
        let bare = [
            ("reconcile-empty-bare", 5_000),
            ("reconcile-event-bare", 100_000),
            ("reconcile-events", 10_000),
            ("server-create-bare", 70_000),
        ];
        let most = [
            ("reconcile-empty", 6_500, "metrics or the flight recorder"),
            ("reconcile-event", 105_000, "metrics or the flight recorder"),
            ("reconcile-events-pending", 10_100, "Events"),
            ("server-create", 84_000, "managed fields"),
        ];
        let counted = |dear: Option<&str>| {
            let with = most.map(|(case, most, _)| (case, most + u64::from(dear == Some(case))));
            check_budgets(&counts(&[bare.as_slice(), &with].concat())).map_err(|error| error.to_string())
        };
        assert_eq!(counted(None), Ok(()));
        for (case, most, what) in most {
            let refused = counted(Some(case)).unwrap_err();
            assert!(refused.starts_with(&format!("{case} takes {} instructions", most + 1)), "{refused}");
            assert!(refused.ends_with(&format!("make {what} cheaper")), "{refused}");
        }
        assert!(check_budgets(&counts(&bare)).is_err(), "a missing case is no success");
    }

    #[test]
    fn a_missing_record_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Record::read(&folder.path().join("instructions.json")).is_err());
    }

    #[test]
    fn what_is_accepted_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("instructions.json");
        let mut record = Record::default();
        record.accept(Toolchain::default(), counts(&[("a", 10)]), "first");
        record.write(&file).unwrap();
        assert_eq!(Record::read(&file).unwrap(), record);
    }

    #[test]
    fn accepting_records_old_new_and_the_reason() {
        let mut record = Record { counts: counts(&[("a", 10), ("b", 20)]), ..Record::default() };
        record.accept(Toolchain::default(), counts(&[("a", 10), ("b", 25)]), "checks more");
        let accepted = Accepted { case: "b".to_owned(), old: Some(20), new: 25, reason: "checks more".to_owned() };
        assert_eq!(record.accepted, [accepted]);
        assert_eq!(record.counts["b"], 25);
        // With another toolchain, the old count has no meaning.
        let other = Toolchain { rustc: "rustc 2.0".to_owned(), ..Toolchain::default() };
        record.accept(other, counts(&[("b", 25)]), "rustc 2.0");
        assert_eq!(record.accepted.last().map(|accepted| (accepted.old, accepted.new)), Some((None, 25)));
    }

    #[test]
    fn the_count_is_read_from_valgrind_s_log() {
        let log = "==7== Events    : Ir\n==7== Collected : 123456\n==7==\n";
        assert_eq!(collected(log), Some(123_456));
        assert_eq!(collected("==7== Error"), None);
    }

    #[test]
    fn only_flags_that_choose_functions_count() {
        let cpuinfo = "processor\t: 0\nflags\t\t: fpu sse4_2 avx2 hypervisor erms\n";
        assert_eq!(cpu_flags(cpuinfo), "avx2 erms sse4_2");
    }
}
