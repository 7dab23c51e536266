//! The contestants.

use anyhow::{Result, bail};

/// A contestant.
#[derive(Debug)]
pub(crate) struct Contestant {
    /// The name in tables and files. Ours are called `steersman` or `steersman-VARIANT`.
    pub(crate) name: &'static str,
    /// The program that does its jobs.
    pub(crate) program: Program,
    /// The argument before the job, for a program with several contestants.
    pub(crate) arguments: &'static [&'static str],
}

/// A program that does jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    /// `bench/src/bin/steersman-contestant.rs`; in the jobs of the API server
    /// `apiserver-contestant.rs`, which also generates the load.
    Steersman,
    /// `bench/go`.
    Go,
    /// `bench/kube-rs`.
    KubeRs,
    /// The system's curl, which only downloads: the lower bound.
    Curl,
}

/// All contestants.
pub(crate) const CONTESTANTS: &[Contestant] = &[
    Contestant { name: "steersman", program: Program::Steersman, arguments: &[] },
    Contestant { name: "steersman-in-process", program: Program::Steersman, arguments: &["--server", "in-process"] },
    Contestant { name: "steersman-compressed", program: Program::Steersman, arguments: &["--storage", "compressed"] },
    Contestant { name: "steersman-decoded", program: Program::Steersman, arguments: &["--storage", "decoded"] },
    Contestant { name: "steersman-view", program: Program::Steersman, arguments: &["--reading", "view"] },
    Contestant {
        name: "steersman-protobuf",
        program: Program::Steersman,
        arguments: &["--peer", "steersman-protobuf"],
    },
    Contestant { name: "kube-apiserver", program: Program::Steersman, arguments: &["--server", "kube-apiserver"] },
    Contestant { name: "byte-loop", program: Program::Steersman, arguments: &["--peer", "byte-loop"] },
    Contestant { name: "serde_json-value", program: Program::Steersman, arguments: &["--peer", "serde_json-value"] },
    Contestant { name: "serde_json-typed", program: Program::Steersman, arguments: &["--peer", "serde_json-typed"] },
    Contestant { name: "client-go", program: Program::Go, arguments: &["client-go"] },
    Contestant { name: "controller-runtime", program: Program::Go, arguments: &["controller-runtime"] },
    Contestant { name: "kube-rs", program: Program::KubeRs, arguments: &[] },
    Contestant { name: "curl", program: Program::Curl, arguments: &[] },
];

/// Whether this is a contestant of this project.
pub(crate) fn is_ours(name: &str) -> bool {
    name.strip_prefix("steersman").is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Fails if there is no contestant of one of these names.
pub(crate) fn check_names(names: &[String]) -> Result<()> {
    for name in names {
        if !CONTESTANTS.iter().any(|contestant| contestant.name == name) {
            let known: Vec<&str> = CONTESTANTS.iter().map(|contestant| contestant.name).collect();
            bail!("there is no contestant {name:?}; known are {}. Jobs stand before --contestant", known.join(", "));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_of_steersman_are_ours_and_its_namesakes_are_not() {
        assert!(is_ours("steersman") && is_ours("steersman-sharded"));
        assert!(!is_ours("steersmanship") && !is_ours("client-go"));
    }

    #[test]
    fn an_unknown_contestant_is_refused_with_the_known_ones() {
        check_names(&["curl".to_owned(), "kube-rs".to_owned()]).expect("both are known");
        let error = check_names(&["sync".to_owned()]).expect_err("sync is a job").to_string();
        assert!(error.contains("\"sync\"") && error.contains("controller-runtime"), "{error}");
    }
}
