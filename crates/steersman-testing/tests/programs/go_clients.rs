//! client-go and controller-runtime, as programs use them.

use std::process::Command;

use steersman_apiserver::ApiServer;

use crate::home;

/// Runs one scenario of `xtask/servers/clients` on a server of its own.
async fn run(scenario: &str) {
    let program = home::folder().expect("there is a cache folder").join(home::FILE_NAME);
    assert!(program.is_file(), "no {}: run `cargo xtask servers go-clients`", program.display());
    let server = ApiServer::new();
    let serving = server.serve().start().await.unwrap();
    let kubeconfig = serving.kubeconfig_file().unwrap();
    let mut command = Command::new(program);
    command.arg(scenario).env("KUBECONFIG", kubeconfig.path());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.panics(), 0);
    serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_informers_see_what_a_typed_client_writes() {
    run("informer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_generated_client_of_definitions_installs_one() {
    run("definition").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_with_leader_election_hands_over() {
    run("manager").await;
}
