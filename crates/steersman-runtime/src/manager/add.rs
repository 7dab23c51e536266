//! Adds controllers, runnables and servers to a manager, and removes controllers.

use std::future::Future;
use std::sync::Arc;

use tokio::time::timeout;

use super::running::{Group, Launch, Runnable, RunnableFuture};
use super::{Life, Manager, State};
use crate::controller::{Controller, Shared};
use crate::stop::StopSignal;
use crate::{Error, ReconcileError};

impl Manager {
    /// Adds a runnable. It starts when all caches have synced, except those of kinds that the
    /// server does not serve, and stops after the controllers. [`StopSignal`] shows when. It may
    /// end earlier without an error. While the manager runs, it starts at once.
    pub fn add<F, R, E>(&self, name: &str, run: F) -> Result<(), Error>
    where
        F: FnOnce(StopSignal) -> R + Send + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.add_to(Group::Runnables, name, run)
    }

    /// Adds a server, such as one for `/readyz` or metrics. It starts first, before the caches have
    /// synced, and stops last, after controllers, runnables and caches. Otherwise it is a runnable
    /// like those of [`add`](Self::add).
    ///
    /// ```no_run
    /// # use steersman_runtime::{Error, Manager, StopSignal};
    /// # async fn serve(_: impl Fn() -> bool, _: StopSignal) -> std::io::Result<()> { Ok(()) }
    /// # fn example(manager: &Manager) -> Result<(), Error> {
    /// let probed = manager.clone();
    /// manager.add_server("probes", move |stop| serve(move || probed.is_ready(), stop))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_server<F, R, E>(&self, name: &str, run: F) -> Result<(), Error>
    where
        F: FnOnce(StopSignal) -> R + Send + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.add_to(Group::Servers, name, run)
    }

    /// Adds a runnable that runs only while this replica leads. It starts with each term of
    /// leadership and has to end when its [`StopSignal`] shows that the term is over. A run that
    /// has not ended when the requests of its term are cancelled is dropped. Its writes through
    /// [`client`](Self::client) pass no gate, unlike those of a controller. Without leader election
    /// it runs as one of [`add`](Self::add).
    pub fn add_elected<F, R, E>(&self, name: &str, run: F) -> Result<(), Error>
    where
        F: Fn(StopSignal) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Some(leadership) = self.leadership().cloned() else { return self.add(name, run) };
        let run = move |launch: Launch| -> RunnableFuture {
            Box::pin(async move {
                let in_term = |stop| {
                    let running = run(stop);
                    async move { running.await.map_err(ReconcileError::new) }
                };
                leadership.in_terms(&launch.stop, in_term).await
            })
        };
        let runnable = Runnable { name: name.to_owned(), group: Group::ElectedRunnables, run: Box::new(run) };
        self.add_runnable(&mut self.state(), runnable)
    }

    pub(super) fn add_to<F, R, E>(&self, group: Group, name: &str, run: F) -> Result<(), Error>
    where
        F: FnOnce(StopSignal) -> R + Send + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let run = move |launch: Launch| -> RunnableFuture {
            Box::pin(async move { run(launch.stop).await.map_err(ReconcileError::new) })
        };
        self.add_runnable(&mut self.state(), Runnable { name: name.to_owned(), group, run: Box::new(run) })
    }

    /// Fails if another controller has this name.
    pub(crate) fn check_name(&self, name: &str) -> Result<(), Error> {
        self.state().check_name(name)
    }

    pub(crate) fn add_controller<F, R>(&self, shared: &Arc<Shared>, run: F) -> Result<(), Error>
    where
        F: FnOnce(Launch) -> R + Send + 'static,
        R: Future<Output = Result<(), ReconcileError>> + Send + 'static,
    {
        let name = shared.name();
        let run = move |launch: Launch| -> RunnableFuture { Box::pin(run(launch)) };
        let runnable = Runnable { name: runnable_name(name), group: Group::Controllers, run: Box::new(run) };
        let mut state = self.state();
        state.check_name(name)?;
        self.inner.starting.send_modify(|starting| _ = starting.insert(name.to_owned()));
        let added = self.add_runnable(&mut state, runnable);
        if added.is_err() {
            self.started(name);
        }
        added?;
        state.controllers.insert(name.to_owned(), Arc::clone(shared));
        Ok(())
    }

    /// The manager no longer waits for this controller.
    pub(crate) fn started(&self, name: &str) {
        self.inner.starting.send_modify(|starting| _ = starting.remove(name));
    }

    /// Removes a controller, also while the manager runs: it finishes the reconciles that run, and
    /// drops the keys that wait. Its name is free again. Caches stay, because others may read them,
    /// until they are [undeclared](Self::undeclare). Removing a controller again waits for the same
    /// end (test `a_controller_is_removed_while_the_manager_runs`).
    ///
    /// It waits for the grace period of the manager at most: a reconcile that takes longer is
    /// [`Error::NotStopped`]. It goes on, and no other begins.
    pub async fn remove_controller(&self, controller: &Controller) -> Result<(), Error> {
        let shared = &controller.shared;
        {
            let mut state = self.state();
            shared.removal.stop();
            if state.controllers.get(controller.name()).is_some_and(|other| Arc::ptr_eq(other, shared)) {
                state.controllers.remove(controller.name());
                self.hide_controller(shared);
                self.metrics().controllers().remove(shared.figures());
                self.started(controller.name());
                if let Life::New(runnables) = &mut state.life {
                    let name = runnable_name(controller.name());
                    runnables.retain(|runnable| runnable.group != Group::Controllers || runnable.name != name);
                }
            }
        }
        shared.queue.shut_down();
        let (what, waited) = (runnable_name(controller.name()), self.inner.grace);
        timeout(waited, shared.ended.stopped()).await.map_err(|_| Error::NotStopped { what, waited })
    }

    fn add_runnable(&self, state: &mut State, runnable: Runnable) -> Result<(), Error> {
        match &mut state.life {
            Life::New(runnables) => {
                runnables.push(runnable);
                Ok(())
            }
            Life::Running(sender) => {
                self.inner.caches.start()?;
                sender.send(runnable).map_err(|_| Error::Stopped)
            }
            Life::Ended => Err(Error::Stopped),
        }
    }
}

/// The name of a controller among the runnables.
fn runnable_name(controller: &str) -> String {
    format!("controller {controller}")
}

impl State {
    fn check_name(&self, name: &str) -> Result<(), Error> {
        if self.controllers.contains_key(name) { Err(Error::DuplicateName { name: name.to_owned() }) } else { Ok(()) }
    }
}
