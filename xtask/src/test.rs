//! Everything CI does, the fastest checks first.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::bench::instructions;
use crate::deny::{self, Advisories};
use crate::readme::{self, RealServers};
use crate::servers;
use crate::step::Steps;
use crate::workspace::{self, Package};
use crate::{docs, package, process, project, provide, tidy};

/// Integration tests with this prefix need more than Rust: a real control plane, or a browser. They
/// run, and are counted, separately.
const REAL_SERVER_PREFIX: &str = "real_";
/// Set for the long version. Tests that try many seeds try many more.
const SOAK_VARIABLE: &str = "STEERSMAN_SOAK";
/// How long the load on the embedded server and a manager lasts, in minutes.
const SOAK_MINUTES_VARIABLE: &str = "STEERSMAN_SOAK_MINUTES";

/// Replaces the work queue's mutex by that of the model checker, and enables its tests.
const MODEL_CHECKER_FLAGS: &str = "--cfg steersman_loom";

/// How much to test.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only what needs nothing but Rust: no real servers, no browser, no valgrind, no cargo-deny
    #[arg(long, conflicts_with = "soak")]
    fast: bool,
    /// The long version: many more seeds, and minutes of load with faults on the embedded server
    /// and a manager
    #[arg(long)]
    soak: bool,
    /// How long the load lasts
    #[arg(long, requires = "soak", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    soak_minutes: u32,
}

/// Runs everything. Ends with what was left out, and with a line that counts the tests.
pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace::Metadata { packages, target_directory } = workspace::metadata()?;
    let mut steps = Steps::new();
    let mut left_out = Vec::new();
    let mut advisories = None;
    let mut counts = Counts::default();
    let test = |arguments: &[&str]| {
        let mut command = workspace::cargo();
        command.arg("test").args(arguments);
        if args.soak {
            command.env(SOAK_VARIABLE, "1");
        }
        command
    };

    steps.run("format", || process::run(workspace::cargo().args(["fmt", "--all", "--check"])))?;
    steps.run("tidy", || tidy::run(&tidy::Args::default()))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    steps.run("clippy", || process::run(workspace::cargo().args(clippy)))?;
    counts += steps.run("tests", || {
        let mut command = test(&["--workspace", "--lib", "--bins", "--examples"]);
        let tests = packages.iter().flat_map(Package::integration_tests).filter(|name| !needs_real_server(name));
        count(command.args(tests.flat_map(|name| ["--test", name])))
    })?;
    counts += steps.run("tests under a model checker", || {
        // With other flags everything is compiled again, so it has a folder of its own.
        let mut command = test(&["--package", "steersman-workqueue", "--test", "loom"]);
        count(command.env("RUSTFLAGS", MODEL_CHECKER_FLAGS).env("CARGO_TARGET_DIR", target_directory.join("loom")))
    })?;
    if args.soak {
        counts += steps.run("load with faults", || {
            let mut command = test(&["--package", "steersman-runtime", "--test", "soak", "--", "--nocapture"]);
            count(command.env(SOAK_MINUTES_VARIABLE, args.soak_minutes.to_string()))
        })?;
    }
    counts += steps.run("documentation tests", || count(&mut test(&["--workspace", "--doc"])))?;

    if args.fast {
        left_out.push("the instruction counts, and the tests on real servers and in a browser");
    } else {
        steps.run("programs of the system", provide::programs)?;
        steps.run("instruction counts", || instructions::run(None))?;
        steps.run("real servers", servers::provide_all)?;
        counts += steps.run("tests on real servers", || real_server_tests(&packages, test))?;
    }
    let real_servers = if args.fast { RealServers::LeaveOut } else { RealServers::Include };

    counts += steps.run("the README's project", || {
        let project = readme::Project::extract()?;
        let counts = count(&mut project.test(&target_directory, real_servers))?;
        ensure!(counts.passed > 0, "the README's project has no test");
        Ok(counts)
    })?;
    let crates = project::Crates::Checkout;
    counts += steps.run("a project of steersman init", || project::check(&crates, &target_directory))?;
    steps.run("documentation", || docs::run(&docs::Args::default()))?;
    steps.run("packages", || package::build(&packages, &target_directory))?;
    if args.fast {
        left_out.push("cargo deny");
    } else {
        advisories = Some(steps.run("dependencies", deny::check)?);
    }

    steps.summary();
    if !left_out.is_empty() {
        eprintln!("left out: {}", left_out.join("; "));
    }
    println!("{}", advisories_line(advisories.as_ref()));
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.ignored);
    Ok(())
}

/// The line of the summary on known vulnerabilities. It always states whether they were checked.
fn advisories_line(advisories: Option<&Advisories>) -> String {
    match advisories {
        Some(Advisories::Checked) => "advisories: checked, none concerns a dependency".to_owned(),
        Some(Advisories::NoData { reason }) => format!(
            "advisories: NOT CHECKED, no advisory data was available: the database cannot be reached ({reason})"
        ),
        None => "advisories: NOT CHECKED, --fast leaves them out".to_owned(),
    }
}

fn needs_real_server(test: &str) -> bool {
    test.starts_with(REAL_SERVER_PREFIX)
}

/// Runs each test that needs a real control plane, and checks that all of them ran.
///
/// All at once, like the other tests: package by package, Cargo would build their common
/// dependencies again for each, with the features of that package.
fn real_server_tests(packages: &[Package], test: impl Fn(&[&str]) -> Command) -> Result<Counts> {
    let names: BTreeSet<&str> =
        packages.iter().flat_map(Package::integration_tests).filter(|name| needs_real_server(name)).collect();
    ensure!(!names.is_empty(), "there is no test on a real server: no integration test is named {REAL_SERVER_PREFIX}…");
    let mut arguments = vec!["--workspace"];
    arguments.extend(names.into_iter().flat_map(|name| ["--test", name]));
    let listed = process::output(test(&arguments).args(["--", "--list", "--format=terse"]))?;
    let expected = listed.lines().filter(|line| line.ends_with(": test")).count();
    let counts = count(&mut test(&arguments))?;
    println!("real servers: {} of {expected} tests ran", counts.passed);
    ensure!(counts.passed == expected, "{} tests on real servers did not run", expected - counts.passed);
    Ok(counts)
}

/// How many tests did what, as the test harness counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    failed: usize,
    ignored: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl Counts {
    /// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    fn parse(line: &str) -> Option<Self> {
        let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let mut counts = Self::default();
        for part in numbers.split("; ") {
            match part.split_once(' ') {
                Some((number, "passed")) => counts.passed = number.parse().ok()?,
                Some((number, "failed")) => counts.failed = number.parse().ok()?,
                Some((number, "ignored")) => counts.ignored = number.parse().ok()?,
                _ => {}
            }
        }
        Some(counts)
    }
}

/// Runs a `cargo test` command and adds up its counts.
pub(crate) fn count(command: &mut Command) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut unread = None;
    process::run_and_read(command, |line| {
        if line.starts_with("test result: ") {
            match Counts::parse(line) {
                Some(more) => counts += more,
                None => unread = Some(line.to_owned()),
            }
        }
    })?;
    unread.map_or(Ok(counts), |line| Err(anyhow::anyhow!(line))).context("cannot read the test harness's count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_states_that_there_was_no_advisory_data() {
        let line = advisories_line(Some(&Advisories::NoData { reason: "no route to host".to_owned() }));
        assert!(line.contains("NOT CHECKED, no advisory data was available"), "{line}");
        assert!(line.contains("(no route to host)") && !line.contains('\n'), "{line}");
        assert!(advisories_line(None).contains("NOT CHECKED"));
        assert!(!advisories_line(Some(&Advisories::Checked)).contains("NOT"));
    }

    #[test]
    fn the_harness_s_count_is_read() {
        let line = "test result: ok. 17 passed; 0 failed; 2 ignored; 0 measured; 4 filtered out; finished in 21.27s";
        assert_eq!(Counts::parse(line), Some(Counts { passed: 17, failed: 0, ignored: 2 }));
        assert_eq!(Counts::parse("test result: unheard of"), None);
    }
}
