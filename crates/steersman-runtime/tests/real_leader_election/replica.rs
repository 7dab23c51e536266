//! A replica: a process with a manager that writes as long as it leads. It is this test binary,
//! started again for one test.

use std::fs::File;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steersman_client::{Client, config_from_environment};
use steersman_runtime::leader_election::{LeaderElection, Timing};
use steersman_runtime::{
    Action, CachedClient, Context, Error, Manager, ObjectKey, ReconcileError, kind, reconcile_fn, shutdown_signal,
};
use steersman_testing::eventually_within;

use crate::cluster::{BEAT, Cluster, LEASE, PATIENCE};

const IDENTITY: &str = "STEERSMAN_TEST_IDENTITY";
const NAMESPACE: &str = "STEERSMAN_TEST_NAMESPACE";
const STEPS_DOWN: &str = "STEERSMAN_TEST_STEPS_DOWN";
const STUBBORN: &str = "STEERSMAN_TEST_STUBBORN";
/// The line that a replica writes when the gate keeps a write from leaving.
const REFUSED: &str = "replica: not sent";

/// Exit codes of a replica.
pub(crate) const STOPPED: i32 = 0;
pub(crate) const LOST: i32 = 3;

#[tokio::test]
async fn the_replica() {
    // It is a test like others unless another test has started it to be a replica.
    let Ok(identity) = std::env::var(IDENTITY) else { return };
    let namespace = std::env::var(NAMESPACE).unwrap();
    // It ends with the test that has started it, however that ends.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
    let second = Duration::from_secs(1);
    let timing = Timing {
        lease_duration: 3 * second,
        renew_deadline: 2 * second,
        retry_period: second,
        // A standby that polled would hide a watch that fails.
        fallback_poll: 600 * second,
    };
    let mut election = LeaderElection::new(LEASE).namespace(&namespace).identity(&identity).timing(timing);
    if std::env::var(STEPS_DOWN).is_ok() {
        election = election.step_down();
    }
    let client = Client::builder(config_from_environment().await.unwrap()).user_agent(&identity).build().unwrap();
    let manager = Manager::builder(client).leader_election(election).unwrap().build();
    let (is_stubborn, is_spawned) = (std::env::var(STUBBORN).is_ok(), Arc::new(AtomicBool::new(false)));
    let reconcile = move |ctx: Context<ConfigMap>, key: ObjectKey| {
        let is_spawned = Arc::clone(&is_spawned);
        async move {
            if is_stubborn && !is_spawned.swap(true, Ordering::Relaxed) {
                let (client, key) = (ctx.client().clone(), key.clone());
                // It does not hear that the term is over: only the gate keeps its writes back.
                tokio::spawn(async move {
                    let mut interval = tokio::time::interval(Duration::from_millis(20));
                    loop {
                        interval.tick().await;
                        drop(beat(&client, &key).await);
                    }
                });
            }
            drop(beat(ctx.client(), &key).await);
            Ok(Action::requeue_after(Duration::from_millis(20)))
        }
    };
    let beats = kind::<ConfigMap>().namespace(&namespace).fields(format!("metadata.name={BEAT}"));
    manager.controller(beats).named("beats").complete(reconcile_fn(reconcile)).unwrap();
    let code = match manager.start(shutdown_signal()).await {
        Ok(()) => STOPPED,
        Err(Error::LeadershipLost { .. }) => LOST,
        Err(error) => panic!("{error}"),
    };
    std::process::exit(code);
}

/// The library that `faketime` preloads.
fn faketime_library() -> String {
    let printed = Command::new("faketime").args(["-f", "+0", "printenv", "LD_PRELOAD"]).output();
    let printed = printed.expect("faketime runs. On Debian: apt-get install faketime");
    String::from_utf8(printed.stdout).unwrap().trim().to_owned()
}

/// Updates the ConfigMap, based on what the cache has.
async fn beat(client: &CachedClient, key: &ObjectKey) -> Result<(), ReconcileError> {
    let beats = client.objects::<ConfigMap>();
    let mut beat = ConfigMap::clone(&*beats.get(key).await?.get()?);
    let count = beat.data.as_ref().and_then(|data| data.get("count")?.parse::<u64>().ok()).unwrap_or(0);
    beat.data = Some([("count".to_owned(), (count + 1).to_string())].into());
    let written = client.update(&beat).await;
    if matches!(written, Err(Error::NotLeader(_))) {
        println!("{REFUSED}");
    }
    written?;
    Ok(())
}

/// How a replica is started.
#[derive(Default)]
pub(crate) struct Options {
    /// Contends again after a loss.
    pub(crate) steps_down: bool,
    /// Goes on writing after a loss.
    pub(crate) stubborn: bool,
    /// The wall clock differs by this, as `faketime -f` takes it.
    pub(crate) clock: Option<&'static str>,
}

pub(crate) struct Replica {
    pub(crate) identity: &'static str,
    process: Child,
    output: std::path::PathBuf,
}

impl Replica {
    pub(crate) fn start(cluster: &Cluster, identity: &'static str, options: &Options) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = match options.clock {
            None => Command::new(program),
            Some(clock) => {
                let mut command = Command::new(program);
                // `faketime` itself would stay as a parent, which signals would go to.
                command.env("LD_PRELOAD", faketime_library()).env("FAKETIME", clock);
                command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
                command
            }
        };
        let output = cluster.server().folder().join(format!("{}-{identity}.txt", cluster.namespace));
        command
            .args(["--exact", "replica::the_replica", "--nocapture"])
            .env("KUBECONFIG", cluster.server().kubeconfig())
            .env(IDENTITY, identity)
            .env(NAMESPACE, &cluster.namespace)
            .stdin(Stdio::piped())
            .stdout(Stdio::from(File::create(&output).unwrap()));
        if options.steps_down {
            command.env(STEPS_DOWN, "1");
        }
        if options.stubborn {
            command.env(STUBBORN, "1");
        }
        let process = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}. On Debian: apt-get install faketime"));
        Self { identity, process, output }
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), signal).unwrap();
    }

    /// How often the gate has kept a write from leaving.
    pub(crate) fn refusals(&self) -> usize {
        std::fs::read_to_string(&self.output).unwrap().matches(REFUSED).count()
    }

    /// Waits for its end.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        let what = format!("{} ends", self.identity);
        let process = &mut self.process;
        eventually_within(PATIENCE, &what, || std::future::ready(process.try_wait().unwrap())).await
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
