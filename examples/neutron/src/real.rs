//! A real Neutron for tests, and a real Keystone with it. `cargo xtask servers` installs them.

use crate::{Auth, Error};

/// Whether the Neutron asks who somebody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everybody is administrator.
    NoAuth,
    /// A Keystone with an administrator (`admin`) and the projects `p1` and `p2`, each with one user of the same name.
    Keystone,
}

/// A Neutron in a process of its own, with its data in a temporary folder. Both go when this is dropped or the test ends.
#[derive(Debug)]
pub struct RealNeutron {}

impl RealNeutron {
    /// Starts it and waits until it answers.
    pub async fn start(_mode: Mode) -> Result<Self, Error> {
        todo!()
    }

    /// Where Neutron listens.
    pub fn url(&self) -> &str {
        todo!()
    }

    /// Where Keystone listens (with `/v3`), if there is one.
    pub fn keystone_url(&self) -> Option<&str> {
        todo!()
    }

    /// How to log in as the user of the project `p1` or `p2`, or as `admin`; [`Auth::None`] without Keystone.
    pub fn auth(&self, _project: &str) -> Auth {
        todo!()
    }

    /// Kills Neutron, as a crash would. Its data stays.
    pub fn stop(&mut self) {
        todo!()
    }

    /// Starts a stopped Neutron again, at the same address and with its data.
    pub async fn start_again(&mut self) -> Result<(), Error> {
        todo!()
    }

    /// Kills Keystone.
    pub fn stop_keystone(&mut self) {
        todo!()
    }

    /// Starts a stopped Keystone again.
    pub async fn start_keystone_again(&mut self) -> Result<(), Error> {
        todo!()
    }
}
