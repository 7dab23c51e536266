//! Counting instructions: `cargo xtask bench --instructions`.
//!
//! The program `instructions` of the bench runs one case at a time under callgrind, which counts
//! only inside the function `measured`. Counts are compared with those in
//! `bench/instructions.json`. They are valid for one toolchain: if the versions of rustc, valgrind
//! or glibc or the instructions of the processor differ, they are only printed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::step::Progress;
use crate::{process, workspace};

/// A count that has grown by more than this, in per cent, is a failure.
const GROWTH_MAX: u64 = 3;
/// The function inside which callgrind counts.
const MEASURED: &str = "steersman_bench::instructions::measured";
/// The Cargo profile that the program is built with.
const PROFILE: &str = "instructions";
/// The instructions of a processor by which the C library chooses its functions.
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
}

/// Counts, prints a table, and fails if a count has grown. With a reason, accepts the new counts
/// instead.
pub(crate) fn run(accept: Option<&str>) -> Result<()> {
    ensure!(accept.is_none_or(|reason| !reason.trim().is_empty()), "--accept needs a reason");
    let toolchain = Toolchain::this()?;
    let file = workspace::root().join("bench/instructions.json");
    let mut record = Record::read(&file)?;
    let counts = count(&build()?)?;
    let comparable = record.toolchain == toolchain;
    let old = if comparable { record.counts.clone() } else { BTreeMap::new() };
    let verdicts = judge(&old, &counts);
    println!("{}", table(&old, &counts, &verdicts));
    if let Some(reason) = accept {
        record.accept(toolchain, counts, reason);
        return record.write(&file);
    }
    if !comparable {
        println!("not judged: the recorded counts belong to {}; this is {}", record.toolchain.text(), toolchain.text());
        return Ok(());
    }
    let named = |wanted: Outcome| -> Vec<&str> {
        verdicts.iter().filter(|(_, verdict)| **verdict == wanted).map(|(case, _)| case.as_str()).collect()
    };
    let (dearer, new) = (named(Outcome::Dearer), named(Outcome::New));
    ensure!(
        dearer.is_empty(),
        "{} needs over {GROWTH_MAX} % more instructions than recorded. Profile it, or accept it with \
         `cargo xtask bench --instructions --accept \"why\"`",
        dearer.join(", ")
    );
    ensure!(
        new.is_empty(),
        "{} has no recorded count: record it with `cargo xtask bench --instructions --accept \"new case\"`",
        new.join(", ")
    );
    Ok(())
}

impl Toolchain {
    fn this() -> Result<Self> {
        let valgrind = Command::new("valgrind").arg("--version").output();
        let Some(valgrind) = valgrind.ok().filter(|output| output.status.success()) else {
            bail!("valgrind is not installed, and counting instructions needs it: apt-get install valgrind");
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

/// Builds the program, and returns its path.
fn build() -> Result<PathBuf> {
    let progress = Progress::start("building the program whose instructions are counted", None);
    let mut command = workspace::cargo();
    command.args(["build", "--profile", PROFILE, "--package", "steersman-bench", "--bin", "instructions"]);
    process::output(&mut command)?;
    progress.finish();
    Ok(workspace::metadata()?.target_directory.join(PROFILE).join("instructions"))
}

/// The instructions of one operation of each case.
fn count(program: &Path) -> Result<BTreeMap<String, u64>> {
    let list = process::output(Command::new(program).arg("--list"))?;
    let cases: Vec<&str> = list.lines().filter_map(|line| line.split('\t').next()).collect();
    let progress = Progress::start("counting instructions", Some(cases.len() as u64));
    let mut counts = BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        counts.insert((*case).to_owned(), count_case(program, case).with_context(|| format!("counting {case}"))?);
        progress.set(index as u64 + 1);
    }
    progress.finish();
    Ok(counts)
}

fn count_case(program: &Path, case: &str) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    command.arg(format!("--toggle-collect={MEASURED}")).arg(program).arg(case);
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
    new.iter().map(|(case, new)| (case.clone(), verdict(case, *new))).collect()
}

fn growth(old: u64, new: u64) -> f64 {
    new as f64 / old.max(1) as f64 - 1.0
}

fn table(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>, verdicts: &BTreeMap<String, Outcome>) -> String {
    let mut lines = vec![format!("{:<20} {:>12} {:>12} {:>8}", "case", "recorded", "now", "change")];
    for (case, new) in new {
        let before = old.get(case);
        let recorded = before.map_or_else(|| "–".to_owned(), ToString::to_string);
        let change = before.map_or_else(String::new, |old| format!("{:+.1} %", growth(*old, *new) * 100.0));
        let remark = match verdicts.get(case) {
            Some(Outcome::Dearer) => "  dearer",
            Some(Outcome::Cheaper) => "  cheaper: accept it, so that it stays so",
            _ => "",
        };
        lines.push(format!("{case:<20} {recorded:>12} {new:>12} {change:>8}{remark}"));
    }
    lines.join("\n")
}

impl Record {
    fn read(file: &Path) -> Result<Self> {
        if !file.exists() {
            return Ok(Self::default());
        }
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
