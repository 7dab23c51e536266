//! The kinds in version v1alpha1.

pub mod tenant;
pub mod website;
