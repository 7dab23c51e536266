//! Informers and their factory: what each promises, on a server in this process or a scripted watch.

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
