//! The comparison of API servers: cases that are data, a runner that records what a server
//! answered, and a comparison of two records.
//!
//! A [`Case`](case::Case) is a short script of requests about one rule. [`run`](run::run) plays it
//! on a [`Target`] in a namespace of its own and records every answer.
//! [`normalise`](normalise::normalise) takes out what no two servers can have in common: uids,
//! times, the numbers of versions. What is left must be equal, message texts included.
//!
//! Each case also states briefly what it expects, so that [`check`] can decide on a single server
//! whether the case exercises the rule it is named after. [`compare`] does not look at
//! expectations: it compares two records.
//!
//! | variable | what it does |
//! |---|---|
//! | `CONFORMANCE_CASES=text,other` | runs only the cases with one of these texts in their name |
//! | `CONFORMANCE_RECORD=file` | writes what every server answered, normalised, to `file` |

// The objects of a case are written in place: there is nothing to borrow them from.
#![expect(clippy::needless_pass_by_value)]

mod case;
mod cases;
mod compare;
pub(crate) mod documents;
mod normalise;
mod run;
mod target;

pub(crate) use compare::{Differences, check, compare};
pub(crate) use target::{Servers, Target};
