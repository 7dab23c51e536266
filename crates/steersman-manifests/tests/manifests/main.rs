//! CRDs from Rust types: the schemas, and what the embedded server makes of them.

mod diff;
mod embedded;
#[expect(unreachable_pub, reason = "the file is a module of a library")]
#[path = "../../../../examples/labs/src/network.rs"]
mod labs;
#[expect(dead_code, unreachable_pub, reason = "the file is a module of a library")]
#[path = "../../../../examples/network-operator/src/network.rs"]
mod network_operator;
mod operator;
mod problems;
mod rare;
mod sample_operator;
mod samples;
mod schemas;
mod things;
mod torture;
mod versions;
