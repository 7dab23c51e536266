//! Credentials that `RealServer` writes are readable by their owner only, and foreign ones are not
//! copied. Small scripts take the place of the servers, so that no real server is needed.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use steersman_testing::{Embedded, Error, Program, RealServer};

/// Set in the environment of a second process that a test runs of itself.
const ROLE: &str = "STEERSMAN_TEST_ROLE";

fn script(folder: &Path, name: &str, body: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// This test binary once more, to run one test in its other role.
fn myself(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(ROLE, "child");
    command
}

/// The server's folder and files are created with modes 0700 and 0600, whatever the umask allows.
#[tokio::test]
async fn only_the_owner_reads_the_folder_and_its_files() {
    let test = "only_the_owner_reads_the_folder_and_its_files";
    if std::env::var_os(ROLE).is_none() {
        // A umask of 0 removes nothing: the modes are those that the files were created with.
        let mut command = Command::new("/bin/sh");
        let child = myself(test);
        command.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(child.get_program()).args(child.get_args());
        let output = command.env(ROLE, "child").env_remove("USE_EXISTING_CLUSTER").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let scripts = tempfile::tempdir().unwrap();
    let idle = script(scripts.path(), "etcd", "exec sleep 600");
    // It runs in the folder of the server, and prints each file in it once the last one is there.
    let list = "until [ -s kubeconfig ]; do sleep 0.01; done; stat -c 'mode %a %n' . *; exit 3";
    let list = script(scripts.path(), "kube-apiserver", list);
    let start = RealServer::builder()
        .program(Program::Etcd, idle)
        .program(Program::KubeApiserver, list)
        .start_timeout(Duration::from_secs(60))
        .start();
    let Err(Error::Exited { log, .. }) = start.await else { panic!("the script does not serve") };
    let modes: BTreeMap<&str, &str> = log
        .lines()
        .filter_map(|line| line.strip_prefix("mode ")?.split_once(' '))
        .map(|(mode, name)| (name, mode))
        .collect();
    for name in ["kubeconfig", "server.key", "service-account.key", "kube-apiserver.log"] {
        assert!(modes.contains_key(name), "no {name} in {modes:?}");
    }
    for (name, mode) in modes {
        assert_eq!(mode, if name == "." { "700" } else { "600" }, "{name}");
    }
}

/// The kubeconfig of an existing cluster is used where it is. No copy of it is written.
#[tokio::test]
async fn the_kubeconfig_of_an_existing_cluster_is_used_in_place() {
    if std::env::var_os(ROLE).is_some() {
        let server = RealServer::start().await.unwrap();
        let named = PathBuf::from(std::env::var_os("KUBECONFIG").unwrap());
        assert_eq!(server.kubeconfig(), named);
        let files: Vec<_> = std::fs::read_dir(server.folder()).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(files.is_empty(), "{files:?}");
        server.namespace("in-place").await.unwrap();
        return;
    }
    let serving = Embedded::start().server().serve().start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    std::fs::write(&kubeconfig, serving.kubeconfig()).unwrap();
    let mut child = myself("the_kubeconfig_of_an_existing_cluster_is_used_in_place");
    child.env("USE_EXISTING_CLUSTER", "true").env("KUBECONFIG", &kubeconfig);
    let output = tokio::task::spawn_blocking(move || child.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serving.stop().await;
}

/// Programs get one file by `RealServer::kubeconfig`, so a merged configuration is refused with the
/// remedy.
#[tokio::test]
async fn several_kubeconfigs_of_an_existing_cluster_are_refused() {
    if std::env::var_os(ROLE).is_some() {
        let error = RealServer::start().await.unwrap_err().to_string();
        assert!(error.contains("KUBECONFIG names 2 files") && error.contains("--flatten"), "{error}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let paths = ["one", "two"].map(|name| folder.path().join(name));
    for path in &paths {
        std::fs::write(path, "apiVersion: v1\nkind: Config\n").unwrap();
    }
    let mut child = myself("several_kubeconfigs_of_an_existing_cluster_are_refused");
    child.env("USE_EXISTING_CLUSTER", "true").env("KUBECONFIG", std::env::join_paths(&paths).unwrap());
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
