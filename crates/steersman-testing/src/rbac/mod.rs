//! Proves that the roles of an operator are enough, and not more.
//!
//! [`assert_rbac_is_enough_and_not_more`] derives the roles from what the operator declares
//! (`Manager::describe`), grants them to its ServiceAccount on an embedded server with RBAC, and
//! runs the operator with that account's rights. It does so three times:
//!
//! | run | needs beside the rest |
//! |---|---|
//! | with streaming lists | `watch` of each cache |
//! | without streaming lists | `list` of each cache |
//! | with the admission plugin OwnerReferencesPermissionEnforcement | `update` of the owners' `finalizers` |
//!
//! A request that is forbidden fails the test with the line to add. A rule that no run needed is
//! printed as a warning, or fails the test too: [`Scenario::every_rule_is_used`].
//!
//! ```
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use steersman_runtime::owner::set_controller_reference;
//! use steersman_runtime::{Action, Context, Error, Manager, ObjectKey, ReconcileError, Verb, kind, reconcile_fn};
//! use steersman_testing::rbac::{Scenario, assert_rbac_is_enough_and_not_more};
//!
//! /// Every ConfigMap has an empty Secret of its name.
//! async fn reconcile(ctx: Context<ConfigMap>, key: ObjectKey) -> Result<Action, ReconcileError> {
//!     let Some(map) = ctx.get(&key).await? else { return Ok(Action::done()) };
//!     let secret = Secret { metadata: key.to_meta(), ..Secret::default() };
//!     ctx.client().create_or_update(secret, |secret| set_controller_reference(&*map, secret)).await?;
//!     Ok(Action::done())
//! }
//!
//! fn setup(manager: &Manager) -> Result<(), Error> {
//!     manager
//!         .controller(kind::<ConfigMap>())
//!         .owns(kind::<Secret>().writes([Verb::Create]))
//!         .complete(reconcile_fn(reconcile))?;
//!     Ok(())
//! }
//!
//! // In a test: #[tokio::test(start_paused = true)]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn roles_are_enough_and_not_more() {
//!     let sample = "{apiVersion: v1, kind: ConfigMap, metadata: {name: sample}}";
//!     assert_rbac_is_enough_and_not_more(setup, Scenario::samples([(); 0], sample).every_rule_is_used()).await;
//! }
//! # roles_are_enough_and_not_more();
//! ```
//!
//! Pause the time, as for other tests on an embedded server: the scenario waits until the operator
//! is idle, many times.

mod changes;
mod report;
mod run;
mod scenario;

use std::fmt::Display;

use steersman_runtime::Manager;

pub use report::{RbacError, RbacReport};
pub use scenario::Scenario;

use run::Run;

/// Runs an operator under its derived roles, and fails if they are not enough: see the
/// [module](self). `setup` adds the controllers to a manager; it is called for each run, and once
/// with a manager that is offline.
///
/// # Panics
///
/// A request was forbidden, the operator did not write anything in a run, the scenario failed, or,
/// with [`Scenario::every_rule_is_used`], a rule was not used.
pub async fn assert_rbac_is_enough_and_not_more<E: Display>(
    setup: impl Fn(&Manager) -> Result<(), E>,
    scenario: Scenario,
) {
    match check(setup, scenario).await {
        Ok(report) => {
            for rule in report.unused {
                // Through the test harness's capture.
                eprintln!("warning: a rule of the operator was not used: {rule}");
            }
        }
        Err(error) => panic!("{error}"),
    }
}

/// As [`assert_rbac_is_enough_and_not_more`], with the result as a value.
///
/// # Errors
///
/// Where that function panics.
pub async fn check<E: Display>(
    setup: impl Fn(&Manager) -> Result<(), E>,
    scenario: Scenario,
) -> Result<RbacReport, RbacError> {
    let setup = |manager: &Manager| setup(manager).map_err(|error| format!("setup fails: {error}"));
    let mut seen = Vec::new();
    for run in Run::ALL {
        seen.extend(run.play(&setup, &scenario).await.map_err(|problems| RbacError::in_run(run.name(), problems))?);
    }
    let (manager, _) = scenario.model(&setup).map_err(|problem| RbacError::in_run("offline", vec![problem]))?;
    let unused = report::unused(&manager.access(), &seen);
    if scenario.is_strict() && !unused.is_empty() {
        return Err(RbacError::unused(unused));
    }
    Ok(RbacReport { unused })
}
