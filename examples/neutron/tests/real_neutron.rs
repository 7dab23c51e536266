//! The client and the embedded Neutron against a real one.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use neutron::embedded::EmbeddedNeutron;
use neutron::real::{Mode, RealNeutron};
use neutron::{Auth, Cloud, Neutron};
use support::eventually;
use tokio::sync::OnceCell;

/// Set in a process of this test binary that the test kills.
const VICTIM: &str = "NEUTRON_TEST_VICTIM";

/// The server without Keystone that the tests here share.
async fn shared() -> &'static RealNeutron {
    static SHARED: OnceCell<RealNeutron> = OnceCell::const_new();
    SHARED.get_or_init(|| async { RealNeutron::start(Mode::NoAuth).await.unwrap() }).await
}

#[tokio::test]
async fn real_neutron_and_embedded_agree() {
    let (embedded, real) = (EmbeddedNeutron::start().await.unwrap(), shared().await);
    let scripts = support::script::all();
    assert!(scripts.len() > 20, "only {} scripts were found", scripts.len());
    let mut found = Vec::new();
    for script in &scripts {
        found.extend(support::script::disagreements(script, &embedded.url(), real.url()).await);
    }
    assert!(found.is_empty(), "{} answers differ:\n{}", found.len(), found.join("\n"));
}

#[tokio::test]
async fn real_neutron_does_everything_for_the_client() {
    let real = shared().await;
    let (endpoint, timeout) = (Some(real.url().to_owned()), Duration::from_secs(60));
    let neutron = Neutron::of(Cloud { endpoint, timeout, ..Cloud::new(Auth::None) }).unwrap();
    let project = format!("{:032x}", fastrand::u128(..));
    support::client_suite::run(&neutron, Some(&project)).await.unwrap();
}

#[tokio::test]
async fn real_neutron_goes_with_a_killed_test() {
    if std::env::var_os(VICTIM).is_some() {
        let real = RealNeutron::start(Mode::NoAuth).await.unwrap();
        println!("victim {} {}", real.url(), real.folder().display());
        std::io::stdout().flush().unwrap();
        return std::future::pending().await;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "real_neutron_goes_with_a_killed_test", "--nocapture"]).env(VICTIM, "1");
    let mut victim = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.contains("victim ")).expect("the victim starts a server");
    let mut words = line.split("victim ").nth(1).unwrap().split(' ');
    let (url, folder) = (words.next().unwrap(), Path::new(words.next().unwrap()));
    let address = url.trim_start_matches("http://");
    assert!(folder.is_dir() && std::net::TcpStream::connect(address).is_ok());

    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("Neutron ends", async || std::net::TcpStream::connect(address).is_err()).await;
    eventually("its folder goes", async || !folder.exists()).await;
}
