//! The common parts of the tests of the client and of the two Neutrons.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod client_suite;
pub(crate) mod http;
pub(crate) mod script;
pub(crate) mod stub;
