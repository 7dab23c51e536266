//! Everything at once: Networks are created, changed and deleted while the operator is killed and
//! Neutron is unavailable. In the end, a script that does not use the operator's code checks that
//! both sides agree.

use std::process::Command;
use std::time::{Duration, Instant};

use fastrand::Rng;
use network_operator::{Network, NetworkSpec};
use neutron::real::{Mode, RealNeutron};
use neutron::{Neutron, NewNetwork};
use serde_json::{Value, json};
use steersman::client::{Api, DeleteParams, PatchParams, PostParams};
use steersman::{Client, Patch};
use steersman_testing::{RealServer, eventually_within};

use crate::common::{install_crd, spec};
use crate::process::Process;

/// Set it to repeat a run, as far as the machine allows.
const SEED_VARIABLE: &str = "END_TO_END_SEED";
const CLUSTER_ID: &str = "end-to-end";
/// How long the two sides may take to agree after the last change.
const PATIENCE: Duration = Duration::from_secs(120);

/// The shape of a run.
struct Plan {
    mode: Mode,
    /// The number of operators at the same time.
    operators: usize,
    networks: usize,
    kills: usize,
}

/// A run: both servers, the operators between them, and their user.
struct Run {
    server: RealServer,
    neutron: RealNeutron,
    operators: Vec<Process>,
    networks: Api<Network>,
    rng: Rng,
    started: Instant,
}

impl Run {
    async fn start(plan: &Plan) -> Self {
        let seed = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        println!("to play this again: {SEED_VARIABLE}={seed}");
        let (server, neutron) = tokio::join!(RealServer::start(), RealNeutron::start(plan.mode));
        let (server, neutron) = (server.unwrap(), neutron.unwrap());
        let client = Client::builder(server.config().await.unwrap()).build().unwrap();
        install_crd(&client).await;
        let flags = [
            "--kubeconfig",
            server.kubeconfig().to_str().unwrap(),
            "--cluster-id",
            CLUSTER_ID,
            "--resync",
            "5s",
            "--workers",
            "4",
        ];
        let mut flags: Vec<String> = flags.map(str::to_owned).into();
        match plan.mode {
            Mode::NoAuth => flags.extend(["--neutron-url".to_owned(), neutron.url().to_owned()]),
            Mode::Keystone => flags.push("--os-env".to_owned()),
        }
        let log = |number| server.folder().join(format!("operator-{number}.log"));
        let operator = |number| Process::new(flags.clone(), variables(&neutron), log(number));
        let operators = (0..plan.operators).map(operator).collect();
        let networks = client.namespaced("default");
        Self { server, neutron, operators, networks, rng: Rng::with_seed(seed), started: Instant::now() }
    }

    fn say(&self, what: &str) {
        println!("{:>6.1}s {what}", self.started.elapsed().as_secs_f64());
    }

    async fn create(&mut self, number: usize) {
        let mut wanted = spec(&format!("10.{number}.0.0/24"), &format!("10.{number}.0.1"));
        wanted.mtu = self.rng.bool().then_some(1400);
        wanted.dhcp = self.rng.bool();
        let network = Network::new(&name(number), NetworkSpec { dns_servers: self.dns_servers(), ..wanted });
        self.networks.create(&PostParams::default(), &network).await.unwrap();
    }

    fn dns_servers(&mut self) -> Vec<String> {
        (0..self.rng.usize(..3)).map(|number| format!("9.9.9.{number}")).collect()
    }

    /// Changes a field that Neutron can change, or the addresses.
    async fn change(&mut self, number: usize) {
        let spec = if self.rng.bool() {
            json!({"gateway": format!("10.{number}.0.254"), "dnsServers": self.dns_servers(), "mtu": 1300})
        } else {
            json!({"cidr": format!("10.{number}.0.0/20"), "gateway": format!("10.{number}.1.1")})
        };
        self.patch(number, json!({"spec": spec})).await;
    }

    async fn patch(&self, number: usize, patch: Value) {
        self.networks.patch(&name(number), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn delete(&self, number: usize) {
        self.networks.delete(&name(number), &DeleteParams::default()).await.unwrap();
    }

    /// Deletes a Network without its finalizer.
    async fn delete_by_force(&self, number: usize) {
        self.delete(number).await;
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        // It is deleted already if it had no finalizer, or if the operator was faster.
        if let Err(error) = self.networks.patch(&name(number), &PatchParams::default(), &patch).await {
            assert!(error.is_not_found(), "{error}");
        }
    }

    /// Kills one of the operators and starts it again.
    fn crash(&mut self) {
        let number = self.rng.usize(..self.operators.len());
        self.say(&format!("operator {number} is killed"));
        self.operators[number].kill();
        self.operators[number].start();
    }

    /// Lets some time pass in which the operator works.
    async fn pass(&mut self, least: u64, most: u64) {
        let milliseconds = self.rng.u64(least..most);
        // Waits for no condition: the time of the next step is random.
        let mut tick = tokio::time::interval(Duration::from_millis(milliseconds));
        tick.tick().await;
        tick.tick().await;
    }

    /// Runs the script on both sides: what they agree on, or where they differ.
    fn ask(&self) -> Result<String, String> {
        let output = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real_servers/agree.py"))
            .args([self.server.kubeconfig().to_str().unwrap(), self.neutron.url(), CLUSTER_ID])
            .envs(variables(&self.neutron))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() { Ok(said) } else { Err(said + &String::from_utf8_lossy(&output.stderr)) }
    }

    /// Waits until both sides agree that there are `count` networks.
    async fn agree(&self, count: usize) {
        let said = eventually_within(PATIENCE, "they agree", || async {
            let logs = || self.operators.iter().map(Process::log).collect::<Vec<_>>().join("\nanother operator:\n");
            self.ask().map_err(|differences| format!("\n{differences}\nan operator:\n{}", logs()))
        })
        .await;
        self.say(&said);
        assert_eq!(said, format!("they agree on {count} networks"));
    }

    /// The script would have reported a network that is left over.
    async fn a_stranger_is_found(&self) {
        let neutron = Neutron::new(self.neutron.url(), self.neutron.auth("p1")).unwrap();
        let project_id = self.neutron.keystone_url().is_none().then(|| "kubernetes".to_owned());
        let stranger = NewNetwork { name: "stranger".to_owned(), project_id, ..NewNetwork::default() };
        let id = neutron.create_network(&stranger).await.unwrap().id;
        let difference = self.ask().unwrap_err();
        assert!(difference.contains(&id) && difference.contains("is left over"), "{difference}");
        neutron.delete_network(&id).await.unwrap();
    }
}

/// The credentials of the operator and the script.
fn variables(neutron: &RealNeutron) -> Vec<(&'static str, String)> {
    let Some(url) = neutron.keystone_url() else { return Vec::new() };
    let pairs = [
        ("OS_USERNAME", "p1"),
        ("OS_PASSWORD", "p1pass"),
        ("OS_PROJECT_NAME", "p1"),
        ("OS_USER_DOMAIN_ID", "default"),
        ("OS_PROJECT_DOMAIN_ID", "default"),
    ];
    let mut variables: Vec<_> = pairs.map(|(name, value)| (name, value.to_owned())).into();
    variables.push(("OS_AUTH_URL", format!("{}/v3", url.trim_end_matches("/v3"))));
    variables
}

fn name(number: usize) -> String {
    format!("net-{number}")
}

async fn play(plan: Plan) {
    let mut run = Run::start(&plan).await;
    let count = plan.networks;
    // A third of the kills falls into each act.
    let mut kills: Vec<_> = (0..plan.kills).map(|_| run.rng.usize(..3 * count)).collect();
    kills.sort_unstable();
    let mut kills = kills.into_iter().peekable();
    let away = run.rng.usize(count..2 * count);

    run.operators.iter_mut().for_each(Process::start);
    for step in 0..3 * count {
        let number = step % count;
        match step / count {
            0 => run.create(number).await,
            1 => run.change(number).await,
            // The last act takes half of them.
            _ if number.is_multiple_of(2) => {}
            _ if number.is_multiple_of(5) => run.delete_by_force(number).await,
            _ => run.delete(number).await,
        }
        run.pass(50, 350).await;
        if step == away {
            run.say("Neutron is killed");
            run.neutron.stop();
            run.neutron.stop_keystone();
        }
        if step == away + count / 5 {
            run.neutron.start_keystone_again().await.unwrap();
            run.neutron.start_again().await.unwrap();
            run.say("Neutron is back");
        }
        while kills.next_if(|kill| *kill == step).is_some() {
            run.crash();
            run.pass(200, 1500).await;
        }
    }
    run.say("everything is asked for");
    run.agree(count.div_ceil(2)).await;
    run.a_stranger_is_found().await;
    for number in (0..count).filter(|number| number.is_multiple_of(2)) {
        run.delete(number).await;
    }
    run.agree(0).await;
    run.operators.iter_mut().for_each(Process::kill);
}

#[tokio::test]
async fn fifty_networks_ten_kills_and_an_outage_leave_nothing_over_and_nothing_twice() {
    play(Plan { mode: Mode::NoAuth, operators: 1, networks: 50, kills: 10 }).await;
}

#[tokio::test]
async fn with_keystone_and_two_operators_it_ends_the_same() {
    play(Plan { mode: Mode::Keystone, operators: 2, networks: 12, kills: 3 }).await;
}
