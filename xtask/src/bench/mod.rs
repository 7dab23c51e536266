//! Measures steersman and its peers side by side: `cargo xtask bench`.
//!
//! [`jobs`] is the table of jobs and [`contestants`] that of contestants. A command line becomes a
//! [`plan`]; [`programs`] builds what it needs; [`run`](mod@run) runs one contestant on one job,
//! and [`checks`] checks that the work was done. [`figures`] combines the rounds into rows, which
//! are printed as a [`table`], a [`report`] or a [`plot`]. [`busy`] warns if the machine has other
//! work.
//!
//! Figures of one machine do not carry over to another, and vary by a third from run to run. So all
//! contestants of a job take turns in one run, and the ratio between them counts. `bench/README.md`
//! has the details.

mod busy;
mod checks;
mod contestants;
mod figures;
pub(crate) mod instructions;
mod jobs;
mod plan;
mod plot;
mod programs;
mod report;
mod run;
mod table;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::real_server::RealServer;
use crate::step::{self, Progress};
use figures::{Answer, Row};
use jobs::{Scale, Server};
use plan::{Plan, Planned};
use programs::Programs;
use run::Setting;
use table::Table;

const ROUNDS: u32 = 3;
const ROUNDS_QUICK: u32 = 2;

/// The options of a run.
#[derive(clap::Args)]
#[command(after_help = jobs::help())]
pub(crate) struct Args {
    /// Jobs to measure, by name or by how their names begin (`workqueue`, `workqueue-queued`); all
    /// when none is given
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
    /// Measure less, in under a minute per job
    #[arg(long)]
    quick: bool,
    /// How often each contestant does each job [default: 3, with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Write the rows to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a Markdown report to this file
    #[arg(long, value_name = "FILE.md")]
    report: Option<PathBuf>,
    /// Draw cost against size into this file, for jobs with several sizes
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// How to reach a real API server, for the jobs that need one; by default one is started for
    /// them
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Measure these contestants only
    #[arg(long = "contestant", value_name = "NAME", num_args = 1..)]
    contestants: Vec<String>,
    /// Count the instructions of the hot paths instead, and compare them with the recorded ones
    #[arg(long, conflicts_with_all = ["jobs", "quick", "rounds", "json", "report", "plot", "kubeconfig", "contestants"])]
    instructions: bool,
    /// Accept the counted instructions for this reason
    #[arg(long, value_name = "REASON", requires = "instructions")]
    accept: Option<String>,
}

/// Measures, prints a table per job and size, and writes the requested files. A failed run ends
/// everything, without files.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.instructions {
        return instructions::run(args.accept.as_deref());
    }
    let started = Instant::now();
    contestants::check_names(&args.contestants)?;
    let plan = Plan::new(&args.jobs, &args.contestants)?;
    check_files(args, &plan)?;
    let programs = Programs::build(&plan)?;
    let given = args.kubeconfig.as_deref().map(std::path::absolute).transpose()?;
    let server = if given.is_none() && plan.needs(Server::Real) { Some(RealServer::start()?) } else { None };
    let kubeconfig = given.as_deref().or(server.as_ref().map(RealServer::kubeconfig));
    let setting = Setting { programs: &programs, kubeconfig };
    let busy = busy::remark();
    if let Some(remark) = &busy {
        eprintln!("warning: {remark}; figures suffer from that, unevenly");
    }
    let rounds = args.rounds.unwrap_or(if args.quick { ROUNDS_QUICK } else { ROUNDS });

    let (mut rows, mut tables) = (Vec::new(), Vec::new());
    for planned in &plan.jobs {
        let scale = scale(planned, args.quick);
        for (size, measured) in scale.sizes.iter().zip(measure(&setting, planned, scale, rounds)?) {
            let mut table = Table::of(planned.job, scale, &measured.iter().collect::<Vec<_>>());
            rows.extend(measured);
            if scale.sizes.last() == Some(size) {
                table.add_goals_across_sizes(planned.job, &rows);
            }
            println!("{}", table.plain());
            tables.push(table);
        }
    }
    let closing = closing(&plan, &step::seconds(started.elapsed()), busy.as_deref());
    println!("{closing}");

    if let Some(file) = &args.json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        write(file, &format!("{}\n", serde_json::to_string_pretty(&rows).context("writing rows as JSON")?))?;
    }
    if let Some(file) = &args.report {
        let length = if args.quick { "A quick run" } else { "A full run" };
        let how = format!("{length} of `cargo xtask bench`, {rounds} rounds.");
        write(file, &report::markdown(&report::Machine::this(), &how, &tables, &closing))?;
    }
    if let Some(file) = &args.plot {
        let jobs: Vec<_> = plan.jobs.iter().map(|planned| planned.job).collect();
        write(file, &plot::svg(&jobs, &rows))?;
    }
    Ok(())
}

fn scale(planned: &Planned, quick: bool) -> &'static Scale {
    if quick { &planned.job.quick } else { &planned.job.full }
}

/// All contestants do the job in turn, round after round, each time at all sizes: a machine that
/// becomes slower during the run must not look like a cost that grows with the size. Returns the
/// rows of one size after the other.
fn measure(setting: &Setting<'_>, planned: &Planned, scale: &Scale, rounds: u32) -> Result<Vec<Vec<Row>>> {
    let (job, contestants) = (planned.job, planned.contestants.len());
    let mut answers: Vec<Vec<Vec<Answer>>> = vec![vec![Vec::new(); contestants]; scale.sizes.len()];
    let runs = u64::from(rounds) * (contestants * scale.sizes.len()) as u64;
    let progress = Progress::start(job.name.to_owned(), Some(runs));
    let mut done = 0;
    for round in 0..rounds as usize {
        for (size, answers) in scale.sizes.iter().zip(&mut answers) {
            for (index, contestant) in planned.in_round(round) {
                answers[index].push(setting.run(job, scale, *size, contestant)?);
                done += 1;
                progress.set(done);
            }
        }
    }
    progress.finish();
    let rows_of = |(size, answers): (&u64, &Vec<Vec<Answer>>)| {
        let rows = planned.contestants.iter().zip(answers);
        rows.map(|(contestant, answers)| Row::of(job.name, contestant.name, *size, answers)).collect()
    };
    Ok(scale.sizes.iter().zip(&answers).map(rows_of).collect())
}

/// Fails early if a file could not be written at the end.
fn check_files(args: &Args, plan: &Plan) -> Result<()> {
    for file in [&args.json, &args.report, &args.plot].into_iter().flatten() {
        let folder = file.parent().filter(|folder| *folder != Path::new(""));
        if folder.is_some_and(|folder| !folder.is_dir()) {
            bail!("{} cannot be written: its folder does not exist", file.display());
        }
    }
    if let Some(file) = args.kubeconfig.as_ref().filter(|file| !file.is_file()) {
        bail!("there is no kubeconfig at {}", file.display());
    }
    if args.plot.is_some() && !plan.jobs.iter().any(|planned| plot::has_curve(scale(planned, args.quick).sizes)) {
        bail!("nothing to plot: none of the chosen jobs is measured at several sizes");
    }
    Ok(())
}

/// The last line: what was measured, and what the tables do not show.
fn closing(plan: &Plan, elapsed: &str, busy: Option<&str>) -> String {
    let jobs = plan.jobs.len();
    let mut parts = vec![format!("{jobs} {} measured in {elapsed}", if jobs == 1 { "job" } else { "jobs" })];
    if !plan.left_out.is_empty() {
        parts.push(format!("left out: {}", plan.left_out.join(", ")));
    }
    parts.extend(busy.map(str::to_owned));
    parts.join("; ")
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_adds_to_the_tables() {
        let mut plan = Plan::new(&[], &["client-go".to_owned()]).expect("client-go takes part in jobs");
        let text = closing(&plan, "1m20s", None);
        assert!(text.contains("jobs measured in 1m20s; left out: "), "{text}");
        assert!(text.contains(" latency (no chosen contestant"), "{text}");
        plan.left_out.clear();
        plan.jobs.truncate(1);
        assert_eq!(closing(&plan, "3.0 s", None), "1 job measured in 3.0 s");
        assert_eq!(closing(&plan, "3.0 s", Some("busy")), "1 job measured in 3.0 s; busy");
    }
}
