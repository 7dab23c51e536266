//! The benchmarks of steersman and its peers.
//!
//! A measurement has three parts. The **harness** (`cargo xtask bench`) starts the others, one
//! contestant at a time, and compares their reports. The **replay** ([`replay`]) plays the API
//! server: it holds a cluster of synthetic Pods ([`pods`]), or of small objects of ten kinds
//! ([`kinds`]), in memory, ready to send, so that a contestant never waits for it. A **contestant**
//! is a program that runs one job with one framework and reports its cost; [`contestant`] is the
//! common part of those in Rust.
//!
//! `bench/README.md` describes the protocol between the three.

#[cfg(feature = "jobs")]
pub mod apiserver;
#[cfg(feature = "jobs")]
pub mod cache;
#[cfg(feature = "jobs")]
pub mod cache_memory;
#[cfg(feature = "jobs")]
pub mod clients;
pub mod contestant;
pub mod instructions;
#[cfg(feature = "jobs")]
pub mod kinds;
#[cfg(feature = "jobs")]
pub mod latency;
#[cfg(feature = "jobs")]
pub mod own;
pub mod pods;
#[cfg(feature = "jobs")]
pub mod reconcile;
#[cfg(feature = "jobs")]
pub mod replay;
pub mod wire;
#[cfg(feature = "jobs")]
pub mod workqueue;
