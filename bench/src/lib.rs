//! What steersman and its peers are measured with.
//!
//! A measurement has three parties. The **harness** (`cargo xtask bench`) starts the others, one
//! contestant at a time, and compares what they report. The **replay** ([`replay`]) plays the API
//! server: it holds a cluster of synthetic Pods ([`pods`]), or of small objects of ten kinds
//! ([`kinds`]), in memory, ready to send, so that it is never what a contestant waits for. A
//! **contestant** is a program that does one job with one framework and says what it cost;
//! [`contestant`] holds what those written in Rust do alike.
//!
//! The protocol between the three is written down in `bench/README.md`.

pub mod apiserver;
pub mod cache;
pub mod cache_memory;
pub mod clients;
pub mod contestant;
pub mod instructions;
pub mod kinds;
pub mod latency;
pub mod own;
pub mod pods;
pub mod reconcile;
pub mod replay;
pub mod wire;
pub mod workqueue;
