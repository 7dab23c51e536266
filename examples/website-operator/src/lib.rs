//! The operator: its kinds, its controllers, and the program around them.

use steersman::{Error, Manager};
use steersman_program::Program;

pub mod api;
pub mod controllers;

/// The program: custom resources, samples and controllers.
pub fn program() -> Program {
    Program::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), setup)
        .crd(api::v1alpha1::website::crd)
        .samples(include_str!("../samples/website.yaml"))
        .crd(api::v1alpha1::tenant::crd)
        .samples(include_str!("../samples/tenant.yaml"))
        .external_crd(include_str!("../crds/backup.yaml"))
}

/// Adds the controllers to the manager.
pub fn setup(manager: &Manager) -> Result<(), Error> {
    controllers::website::add(manager)?;
    controllers::tenant::add(manager)?;
    controllers::backup::add(manager)?;
    Ok(())
}
