//! The operator on the embedded API server and the embedded Neutron.

#[path = "../common/mod.rs"]
mod common;

mod crash;
mod demo;
mod deployments;
mod failures;
mod manifests;
mod networks;
mod otlp;
mod sweep;
mod two_operators;
