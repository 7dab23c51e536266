//! What the setup function declares, without a cluster.

use std::panic::resume_unwind;
use std::thread;

use steersman_client::Client;
use steersman_manifests::operator::Operator;

use crate::flags::{Environment, RunFlags};
use crate::{Error, Program};

impl<A: clap::Args + Send + Sync + 'static> Program<A> {
    /// Runs the setup function on a manager whose client sends nothing, and fills in what it has
    /// declared.
    ///
    /// It runs on a thread of its own, so that it can be called from within a runtime as well.
    pub(crate) fn describe(&self, flags: &RunFlags<A>, operator: &mut Operator) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(Error::Threads)?;
        let described = thread::scope(|scope| {
            let setup = || runtime.block_on(async { self.describe_here(flags, operator) });
            scope.spawn(setup).join()
        });
        runtime.shutdown_background();
        described.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn describe_here(&self, flags: &RunFlags<A>, operator: &mut Operator) -> Result<(), Error> {
        let client = Client::offline();
        let manager = self.manager(client.clone(), flags, Environment::Cluster)?;
        let declared = self.set_up(&manager, flags);
        // A setup function may have ignored the error.
        if let Some(request) = client.refused_request() {
            return Err(Error::RequestInSetup { request: request.to_string() });
        }
        declared?;
        manager.describe(operator);
        Ok(())
    }
}
