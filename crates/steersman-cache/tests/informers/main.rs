//! The guarantees of informers and their factory, on an embedded server or a scripted watch.

#[path = "../common/mod.rs"]
mod common;

mod factories;
mod faults;
mod handlers;
mod kinds;
mod memory;
mod reading;
mod slow_handlers;
mod states;
mod stopping;
