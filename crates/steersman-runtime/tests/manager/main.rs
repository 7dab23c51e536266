//! The life of a manager, on the embedded server in process.

mod access;
mod cache_options;
mod durations;
mod endpoints;
mod events;
mod failing;
mod kinds;
mod leader_election;
mod metrics;
mod namespaces;
mod outages;
mod removal;
mod roles;
mod secrets;
mod signals;
mod starting;
mod stopping;
#[path = "../support/mod.rs"]
mod support;
mod terms;
mod waiting;
mod world;
