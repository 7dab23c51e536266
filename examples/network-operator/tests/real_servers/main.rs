//! The operator on a real kube-apiserver, and on a real Neutron.

#[path = "../common/mod.rs"]
mod common;

mod cluster;
mod end_to_end;
mod process;
