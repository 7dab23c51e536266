//! Checks that a result comes from work that was done: the expected counts of the jobs.

use super::figures::Answer;
use super::jobs::RunParameters;

fn expect(what: &str, found: u64, expected: u64) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what} is {found}, not {expected}")) }
}

pub(super) fn count_is_size(asked: &RunParameters, answer: &Answer) -> Result<(), String> {
    expect("the count", answer.count, asked.size)
}

pub(super) fn count_is_events(asked: &RunParameters, answer: &Answer) -> Result<(), String> {
    expect("the count", answer.count, asked.events)
}

pub(super) fn count_is_size_times_events(asked: &RunParameters, answer: &Answer) -> Result<(), String> {
    expect("the count", answer.count, asked.size * asked.events)
}

pub(super) fn count_is_ten_times_size(asked: &RunParameters, answer: &Answer) -> Result<(), String> {
    expect("the count", answer.count, 10 * asked.size)
}

pub(super) fn count_is_children_read(_: &RunParameters, answer: &Answer) -> Result<(), String> {
    expect("the count", answer.count, 100 * 1_000)
}

pub(super) fn hundred_hits_per_lookup(asked: &RunParameters, answer: &Answer) -> Result<(), String> {
    let whole = |name: &str| answer.whole(name).ok_or(format!("the figure {name}, a whole number, is missing"));
    let (lookups, updates) = (whole("lookups")?, whole("updates")?);
    if lookups < 1 || !(1..=asked.events).contains(&updates) {
        return Err(format!("there were {lookups} look-ups and {updates} of {} updates", asked.events));
    }
    expect(&format!("the count of {lookups} look-ups"), answer.count, 100 * lookups)
}

pub(super) fn each_half_for_one_and_for_all_handlers(asked: &RunParameters, answer: &Answer) -> Result<(), String> {
    expect("the count", answer.count, asked.events / 2 * (1 + asked.workers))
}

pub(super) fn count_is_half_of_size_times_repeats(asked: &RunParameters, answer: &Answer) -> Result<(), String> {
    let repeats = repeats(answer)?;
    expect(&format!("the count of {repeats} repetitions"), answer.count, asked.size / 2 * repeats)
}

pub(super) fn count_is_size_times_repeats(asked: &RunParameters, answer: &Answer) -> Result<(), String> {
    let repeats = repeats(answer)?;
    expect(&format!("the count of {repeats} repetitions"), answer.count, asked.size * repeats)
}

pub(super) fn ten_adds_per_key(asked: &RunParameters, answer: &Answer) -> Result<(), String> {
    let keys = asked.size * repeats(answer)?;
    let adds = answer.whole("adds").ok_or("the figure adds, a whole number, is missing")?;
    expect("the number of adds", adds, keys * 10)?;
    if (keys..=keys * 10).contains(&answer.count) {
        Ok(())
    } else {
        Err(format!("the count is {}, not between {keys} and {}", answer.count, keys * 10))
    }
}

/// How often the job was done.
fn repeats(answer: &Answer) -> Result<u64, String> {
    let repeats = answer.whole("repeats").ok_or("the figure repeats, a whole number, is missing")?;
    if repeats < 1 { Err("nothing was repeated even once".to_owned()) } else { Ok(repeats) }
}

#[cfg(test)]
mod tests {
    use super::super::jobs::{JOBS, Job};
    use super::*;

    fn job(name: &str) -> &'static Job {
        JOBS.iter().find(|job| job.name == name).expect("the job exists")
    }

    fn answer(count: u64, figures: &[(&str, f64)]) -> Answer {
        Answer { count, figures: figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect() }
    }

    #[test]
    fn a_wrong_count_is_found() {
        let asked = RunParameters { size: 100, events: 30, workers: 10 };
        let check = |name: &str, answer: &Answer| (job(name).check)(&asked, answer);
        assert_eq!(check("sync", &answer(100, &[])), Ok(()));
        assert_eq!(check("sync", &answer(99, &[])), Err("the count is 99, not 100".to_owned()));
        assert_eq!(check("watch", &answer(30, &[])), Ok(()));
        assert!(check("watch", &answer(100, &[])).is_err());
        assert_eq!(check("apiserver-watch", &answer(3000, &[])), Ok(()));
        assert!(check("apiserver-watch", &answer(2999, &[])).is_err());
        assert_eq!(check("workqueue-ratelimit", &answer(150, &[("repeats", 3.0)])), Ok(()));
        assert!(check("workqueue-ratelimit", &answer(300, &[("repeats", 3.0)])).is_err());
        assert!(check("workqueue-ratelimit", &answer(50, &[])).is_err());
        assert_eq!(check("cache-read-children", &answer(100_000, &[])), Ok(()));
        assert!(check("cache-read-children", &answer(99_999, &[])).is_err());
        assert_eq!(check("cache-handlers", &answer(15 * 11, &[])), Ok(()));
        assert!(check("cache-handlers", &answer(30, &[])).is_err());
        assert_eq!(check("reconcile-own", &answer(30, &[])), Ok(()));
        assert!(check("reconcile-own", &answer(29, &[])).is_err());
        assert_eq!(check("idle", &answer(1000, &[])), Ok(()));
        assert!(check("idle", &answer(999, &[])).is_err());
    }

    #[test]
    fn every_lookup_must_find_all_while_updates_arrive() {
        let asked = RunParameters { size: 1000, events: 30, workers: 1 };
        let check = |count, lookups, updates| {
            (job("cache-index").check)(&asked, &answer(count, &[("lookups", lookups), ("updates", updates)]))
        };
        assert_eq!(check(700, 7.0, 30.0), Ok(()));
        assert_eq!(check(700, 7.0, 1.0), Ok(()));
        assert!(check(699, 7.0, 30.0).is_err());
        assert!(check(0, 0.0, 30.0).is_err());
        assert!(check(700, 7.0, 0.0).is_err());
        assert!(check(700, 7.0, 31.0).is_err());
    }

    #[test]
    fn the_count_of_a_repeated_job_is_size_times_repeats() {
        let asked = RunParameters { size: 100, events: 0, workers: 1 };
        let check = |answer: &Answer| (job("workqueue-together-1").check)(&asked, answer);
        assert_eq!(check(&answer(300, &[("repeats", 3.0)])), Ok(()));
        assert!(check(&answer(299, &[("repeats", 3.0)])).is_err());
        assert!(check(&answer(0, &[("repeats", 0.0)])).is_err());
        assert!(check(&answer(250, &[("repeats", 2.5)])).is_err());
        assert!(check(&answer(100, &[])).is_err());
    }

    #[test]
    fn a_deduplicating_job_must_add_all_and_lose_none() {
        let asked = RunParameters { size: 100, events: 0, workers: 1 };
        let check = |count, adds, repeats| {
            (job("workqueue-dedup-4").check)(&asked, &answer(count, &[("adds", adds), ("repeats", repeats)]))
        };
        assert_eq!(check(100, 1000.0, 1.0), Ok(()));
        assert_eq!(check(1000, 1000.0, 1.0), Ok(()));
        assert_eq!(check(300, 3000.0, 3.0), Ok(()));
        assert!(check(99, 1000.0, 1.0).is_err());
        assert!(check(1001, 1000.0, 1.0).is_err());
        assert!(check(500, 999.0, 1.0).is_err());
        assert!(check(299, 3000.0, 3.0).is_err());
        assert!(check(0, 0.0, 0.0).is_err());
    }
}
