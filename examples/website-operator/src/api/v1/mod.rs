//! The kinds in version v1.

pub mod backup;
