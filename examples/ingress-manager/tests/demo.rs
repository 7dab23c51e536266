//! The program as users start it. Without a cluster it prints what `docs/labs.md` shows.

use std::process::{Command, Output};

const PAGE: &str = include_str!("../../../docs/labs.md");

#[test]
fn without_a_cluster_it_shows_what_it_does() {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_ingress-manager"))
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    assert!(status.success() && stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
    let stdout = String::from_utf8(stdout).unwrap();
    let quoted = format!("```console\n$ cargo run -p ingress-manager\n{stdout}```\n");
    assert!(PAGE.contains(&quoted), "it prints this, unlike docs/labs.md:\n{stdout}");
}

#[test]
fn a_domain_that_is_none_is_refused() {
    let program = env!("CARGO_BIN_EXE_ingress-manager");
    let Output { status, stderr, .. } = Command::new(program).args(["--domain", "no_domain"]).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(!status.success() && stderr.contains("no_domain") && stderr.contains("--domain"), "{stderr}");
}

#[test]
fn the_manifests_are_those_of_the_code() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_ingress-manager"));
    // They need no cluster.
    program.env("KUBECONFIG", "/nowhere/in/particular").env_remove("WATCH_NAMESPACE");
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
    let Output { status, stderr, .. } = program.args(["manifests", "--check", "--out", deploy]).output().unwrap();
    let hint = "write them: cargo run -p ingress-manager -- manifests --out examples/ingress-manager/deploy";
    assert!(status.success(), "{hint}\n{}", String::from_utf8_lossy(&stderr));
}
