//! The controllers, one for each kind.

pub mod backup;
pub mod tenant;
pub mod website;
