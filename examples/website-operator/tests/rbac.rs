//! The operator works under exactly the roles of its manifests.

use std::error::Error;

use steersman_testing::rbac::{Scenario, assert_rbac_is_enough_and_not_more};

use website_operator::{program, setup};

/// Creates, changes and deletes each object of `samples/`. A request that the roles do not permit
/// fails the test with the line to add, and a rule that is not needed is a warning.
#[tokio::test(start_paused = true)]
async fn the_roles_are_enough_and_not_more() -> Result<(), Box<dyn Error>> {
    let program = program();
    let crds = program.crds()?.into_iter().chain(program.external_crds()?);
    let samples = program.sample_objects()?;
    let samples: String = samples.iter().map(|it| format!("---\n{it}\n")).collect();
    assert_rbac_is_enough_and_not_more(setup, Scenario::samples(crds, &samples)).await;
    Ok(())
}
