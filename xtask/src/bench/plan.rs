//! The plan of a command line: the jobs, their contestants and their order.

use anyhow::{Result, bail};

use super::contestants::{CONTESTANTS, Contestant, Program};
use super::jobs::{self, Job, Server};

/// The measurements of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) jobs: Vec<Planned>,
    /// Jobs that were not requested by name and cannot be run, with the reason.
    pub(crate) left_out: Vec<String>,
}

/// A job and its contestants.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) job: &'static Job,
    pub(crate) contestants: Vec<&'static Contestant>,
}

impl Plan {
    /// The jobs that `words` select, with the contestants of `only` (all if empty) that take part.
    pub(crate) fn new(words: &[String], only: &[String]) -> Result<Self> {
        let mut plan = Self { jobs: Vec::new(), left_out: Vec::new() };
        for job in jobs::matching(words)? {
            let contestants: Vec<&Contestant> = job
                .contestants
                .iter()
                .filter(|name| only.is_empty() || only.iter().any(|wanted| wanted == *name))
                .filter_map(|name| CONTESTANTS.iter().find(|contestant| contestant.name == *name))
                .collect();
            if contestants.is_empty() {
                plan.left_out.push(format!("{} (no chosen contestant takes part)", job.name));
            } else {
                plan.jobs.push(Planned { job, contestants });
            }
        }
        if plan.jobs.is_empty() {
            bail!("nothing to measure: left out {}", plan.left_out.join(", "));
        }
        Ok(plan)
    }

    /// The programs that the plan needs, each with the contestants that need it.
    pub(crate) fn programs(&self) -> Vec<(Program, Vec<&'static str>)> {
        let mut programs: Vec<(Program, Vec<&'static str>)> = Vec::new();
        for contestant in CONTESTANTS.iter().filter(|contestant| self.involves(contestant)) {
            match programs.iter_mut().find(|(program, _)| *program == contestant.program) {
                Some((_, names)) => names.push(contestant.name),
                None => programs.push((contestant.program, vec![contestant.name])),
            }
        }
        programs
    }

    fn involves(&self, contestant: &Contestant) -> bool {
        self.jobs.iter().flat_map(|planned| &planned.contestants).any(|other| other.name == contestant.name)
    }

    /// Whether a job needs that server.
    pub(crate) fn needs(&self, server: Server) -> bool {
        self.jobs.iter().any(|planned| planned.job.server == server)
    }
}

impl Planned {
    /// The contestants in the order of this round (counted from 0). Each goes first in turn, so
    /// that none always follows the same other one on a warm machine.
    pub(crate) fn in_round(&self, round: usize) -> impl Iterator<Item = (usize, &'static Contestant)> {
        let count = self.contestants.len();
        (0..count).map(move |turn| (turn + round) % count).map(|index| (index, self.contestants[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &[&str], only: &[&str]) -> Result<Plan> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Plan::new(&owned(words), &owned(only))
    }

    fn jobs(plan: &Plan) -> Vec<&str> {
        plan.jobs.iter().map(|planned| planned.job.name).collect()
    }

    #[test]
    fn jobs_without_a_chosen_contestant_are_left_out() {
        let curl = plan(&["cache-sync", "watch"], &["curl"]).expect("curl can do cache-sync");
        assert_eq!(jobs(&curl), ["cache-sync"]);
        assert_eq!(curl.left_out[0], "watch (no chosen contestant takes part)");
        plan(&["watch"], &["curl"]).expect_err("curl cannot do watch");
    }

    #[test]
    fn a_program_is_needed_once_and_knows_for_whom() {
        let sync = plan(&["sync", "cache-sync"], &["controller-runtime", "client-go", "curl"]).expect("all can do one");
        let expected = [(Program::Go, vec!["client-go", "controller-runtime"]), (Program::Curl, vec!["curl"])];
        assert_eq!(sync.programs(), expected);
        assert!(sync.needs(Server::Replay) && !sync.needs(Server::Real));
        assert!(plan(&["latency"], &[]).expect("it can be done").needs(Server::Real));
    }

    #[test]
    fn everyone_goes_first_in_turn() {
        let watch = plan(&["watch"], &[]).expect("it can be done");
        let order = |round| watch.jobs[0].in_round(round).map(|(_, contestant)| contestant.name).collect::<Vec<&str>>();
        let names: Vec<&str> = watch.jobs[0].contestants.iter().map(|contestant| contestant.name).collect();
        for round in 0..2 * names.len() {
            let mut expected = names.clone();
            expected.rotate_left(round % names.len());
            assert_eq!(order(round), expected);
        }
    }
}
