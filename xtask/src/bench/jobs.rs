//! What a job of the bench is. A new job is one entry in [`JOBS`], and an implementation in each
//! contestant.

use std::time::Duration;

use anyhow::{Result, bail};

use super::figures::Answer;

mod list;

pub(crate) use list::JOBS;

/// A job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// The name on the command line and in tables.
    pub(crate) name: &'static str,
    /// One line about it.
    pub(crate) about: &'static str,
    /// The name that contestants get: without the number of workers, which is a separate argument.
    pub(crate) task: &'static str,
    /// The server that it needs.
    pub(crate) server: Server,
    /// The contestants, in the order of the tables.
    pub(crate) contestants: &'static [&'static str],
    /// The number of workers of the queue, or of handlers of an informer.
    pub(crate) workers: u64,
    /// The sizes of a full run.
    pub(crate) full: Scale,
    /// The sizes of a quick run.
    pub(crate) quick: Scale,
    /// The figures that are compared, the most important first: smaller is better. The first is
    /// also plotted, and every contestant must report it.
    pub(crate) costs: &'static [&'static str],
    /// The goals for our figures.
    pub(crate) goals: &'static [Goal],
    /// Checks that the work was done. The error describes what is wrong.
    pub(crate) check: fn(&RunParameters, &Answer) -> Result<(), String>,
    /// A run that takes longer has failed.
    pub(crate) time_limit: Duration,
}

/// The goal for one figure of one of our contestants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) contestant: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) limit: Limit,
}

/// The limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    /// This value.
    Value(f64),
    /// This multiple of that peer's figure.
    Times(f64, &'static str),
    /// For each object, at every size, this multiple of the least figure at any size.
    TimesOfLeastPerObject(f64),
    /// The growth from the smallest to the largest size is at most that of this peer.
    GrowthOf(&'static str),
}

impl Goal {
    const fn value(contestant: &'static str, figure: &'static str, value: f64) -> Self {
        Self { contestant, figure, limit: Limit::Value(value) }
    }

    const fn times(contestant: &'static str, figure: &'static str, times: f64, peer: &'static str) -> Self {
        Self { contestant, figure, limit: Limit::Times(times, peer) }
    }

    const fn flat(contestant: &'static str, figure: &'static str, times: f64) -> Self {
        Self { contestant, figure, limit: Limit::TimesOfLeastPerObject(times) }
    }

    const fn growth_of(contestant: &'static str, figure: &'static str, peer: &'static str) -> Self {
        Self { contestant, figure, limit: Limit::GrowthOf(peer) }
    }
}

/// The server that a job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// None.
    None,
    /// The replay.
    Replay,
    /// A real API server: the one of `--kubeconfig`, or one that the harness starts.
    Real,
}

/// The size of a job, and its objects and events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The numbers of objects or keys, one measurement each.
    pub(crate) sizes: &'static [u64],
    /// The number of watch events.
    pub(crate) events: u64,
    /// The events per second; 0 for no limit.
    pub(crate) rate: u64,
    /// Seconds over which delays are spread, or the duration of the measurement.
    pub(crate) window: u64,
    /// The content of the replay.
    pub(crate) objects: Objects,
}

/// The content of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    /// Pods that are nearly equal.
    Pods,
    /// Pods of 300 different workloads.
    DiversePods,
    /// Small objects of this number of kinds; the size is the number of each.
    Small(u8),
}

impl Scale {
    const fn of(sizes: &'static [u64]) -> Self {
        Self { sizes, events: 0, rate: 0, window: 0, objects: Objects::Pods }
    }

    const fn with_events(self, events: u64) -> Self {
        Self { events, ..self }
    }

    const fn at_rate(self, rate: u64) -> Self {
        Self { rate, ..self }
    }

    const fn with_objects(self, objects: Objects) -> Self {
        Self { objects, ..self }
    }

    const fn with_window(self, window: u64) -> Self {
        Self { window, ..self }
    }
}

/// The parameters of a run against which its result is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunParameters {
    pub(crate) size: u64,
    pub(crate) events: u64,
    pub(crate) workers: u64,
}

/// The jobs that `words` select: each is the name of a job, or a prefix of several names up to a
/// `-`. All jobs if there is no word.
pub(crate) fn matching(words: &[String]) -> Result<Vec<&'static Job>> {
    for word in words {
        if !JOBS.iter().any(|job| is_meant(job, word)) {
            let known: Vec<&str> = JOBS.iter().map(|job| job.name).collect();
            bail!("there is no job {word:?}; known are {}", known.join(", "));
        }
    }
    Ok(JOBS.iter().filter(|job| words.is_empty() || words.iter().any(|word| is_meant(job, word))).collect())
}

fn is_meant(job: &Job, word: &str) -> bool {
    job.name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Every job with its description, for the help text.
pub(crate) fn help() -> String {
    let lines: Vec<String> = JOBS.iter().map(|job| format!("  {:<22}{}", job.name, job.about)).collect();
    format!("Jobs:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::contestants::CONTESTANTS;
    use super::*;

    fn names(words: &[&str]) -> Vec<&'static str> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        matching(&words).expect("the words name jobs").iter().map(|job| job.name).collect()
    }

    #[test]
    fn a_word_means_a_job_or_all_that_begin_with_it() {
        assert_eq!(names(&["sync"]), ["sync"]);
        assert_eq!(names(&["cache-read"]), ["cache-read-all", "cache-read-children"]);
        assert_eq!(names(&["workqueue-queued"]), ["workqueue-queued-1", "workqueue-queued-4"]);
        assert_eq!(names(&["workqueue"]).len(), 8);
        assert_eq!(names(&["reconcile"]), ["reconcile", "reconcile-own", "reconcile-noop"]);
        assert_eq!(names(&["idle", "start"]), ["start", "idle"]);
        assert_eq!(names(&["watch", "sync"]), ["sync", "watch"]);
        assert_eq!(names(&[]).len(), JOBS.len());
    }

    #[test]
    fn part_of_a_word_means_nothing_and_the_known_jobs_are_listed() {
        let error = matching(&["work".to_owned()]).expect_err("work is not a job").to_string();
        assert!(
            error.contains("\"work\"") && error.contains("workqueue-delay") && error.contains("latency"),
            "{error}"
        );
        matching(&[String::new()]).expect_err("no job has an empty name");
    }

    #[test]
    fn the_table_holds_together() {
        let mut seen = HashSet::new();
        for job in JOBS {
            assert!(seen.insert(job.name), "{} is there twice", job.name);
            assert!(job.name.starts_with(job.task), "{} has the task {}", job.name, job.task);
            assert!(!job.costs.is_empty() && !job.contestants.is_empty() && !job.about.is_empty(), "{}", job.name);
            for name in job.contestants {
                assert!(CONTESTANTS.iter().any(|contestant| contestant.name == *name), "{} has {name}", job.name);
            }
            for goal in job.goals {
                assert!(
                    job.contestants.contains(&goal.contestant),
                    "{} has a goal for no contestant: {goal:?}",
                    job.name
                );
                assert!(job.costs.contains(&goal.figure), "{} has a goal for no cost: {goal:?}", job.name);
            }
        }
    }
}
