//! Where the server is and who asks, as files and the environment say. The environment belongs to the process: each of these
//! tests runs in one of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use kube_client::config::{KubeConfigOptions, Kubeconfig};
use steersman_client::{Client, Config, Error, config_from_environment, config_from_flags};

use super::loopback::{Loopback, Then, header};
use super::{MAP, no_timeouts};

/// The folder of a test that runs in a process of its own.
const FOLDER: &str = "STEERSMAN_TEST_FOLDER";

/// In the first process: runs the test of this name in a second one, with a home of its own and `environment`, in which
/// `FOLDER/` stands for the folder that `prepare` is given. In the second: returns that folder.
fn alone(test: &str, environment: &[(&str, &str)], prepare: impl FnOnce(&Path)) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("kubeconfig::{test}"), "--nocapture"]);
    for variable in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "https_proxy"] {
        command.env_remove(variable);
    }
    command.env("HOME", folder.path().join("home")).env(FOLDER, folder.path());
    for (name, value) in environment {
        command.env(name, value.replace("FOLDER", &folder.path().display().to_string()));
    }
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    None
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A kubeconfig with one context, whose user has the token in `token_file`.
fn kubeconfig(context: &str, server: &str, token_file: &str) -> String {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": "cluster", "user": context, "namespace": format!("{context}-space")}}],
        "clusters": [{"name": "cluster", "cluster": {"server": server}}],
        "users": [{"name": context, "user": {"tokenFile": token_file}}],
    })
    .to_string()
}

async fn authorization(mut config: Config) -> Option<String> {
    let mut server = Loopback::start([Then::json(MAP)]).await;
    config.cluster_url = server.config().cluster_url;
    let client = Client::builder(config).timeouts(no_timeouts()).build().unwrap();
    client.rest().get().abs_path("/version").send().await.unwrap();
    header(&server.request().await, "authorization").map(str::to_owned)
}

#[tokio::test]
async fn of_several_files_the_first_wins_and_paths_are_beside_their_own_file() {
    let name = "of_several_files_the_first_wins_and_paths_are_beside_their_own_file";
    let environment = [("KUBECONFIG", "FOLDER/one/config:FOLDER/nowhere/config:FOLDER/two/config")];
    let prepare = |folder: &Path| {
        write(&folder.join("one/config"), &kubeconfig("first", "http://one:1", "token"));
        write(&folder.join("two/config"), &kubeconfig("second", "http://two:2", "deep/token"));
        write(&folder.join("one/token"), "token-one");
        write(&folder.join("two/deep/token"), "token-two");
    };
    let Some(_) = alone(name, &environment, prepare) else { return };

    let config = config_from_environment().await.unwrap();
    assert_eq!(config.cluster_url, "http://one:1", "both have that cluster");
    assert_eq!(config.default_namespace, "first-space", "both have a current context");
    assert_eq!(authorization(config).await.unwrap(), "Bearer token-one");

    let options = KubeConfigOptions { context: Some("second".to_owned()), ..Default::default() };
    let files = ["one", "two"].map(|name| {
        let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
        Kubeconfig::read_from(folder.join(name).join("config")).unwrap()
    });
    let [one, two] = files;
    let config = Config::from_custom_kubeconfig(one.merge(two).unwrap(), &options).await.unwrap();
    assert_eq!(config.cluster_url, "http://one:1", "the user of the second file, the cluster of the first");
    assert_eq!(authorization(config).await.unwrap(), "Bearer token-two");
}

/// As kube's own reading of the environment does, which knows nothing of files that do not exist.
#[tokio::test]
async fn kube_s_own_configuration_serves_as_well() {
    let environment = [("KUBECONFIG", "FOLDER/one/config:FOLDER/two/config")];
    let prepare = |folder: &Path| {
        write(&folder.join("one/config"), &kubeconfig("first", "http://one:1", "token"));
        write(&folder.join("two/config"), &kubeconfig("second", "http://two:2", "token"));
        write(&folder.join("two/token"), "token-two");
    };
    let Some(_) = alone("kube_s_own_configuration_serves_as_well", &environment, prepare) else { return };
    let options = KubeConfigOptions { context: Some("second".to_owned()), ..Default::default() };
    let config = Config::from_kubeconfig(&options).await.unwrap();
    assert_eq!(
        (config.cluster_url.to_string().as_str(), &*config.default_namespace),
        ("http://one:1/", "second-space")
    );
    assert_eq!(authorization(config).await.unwrap(), "Bearer token-two");
}

#[tokio::test]
async fn without_kubeconfig_the_home_is_looked_into() {
    let prepare = |folder: &Path| {
        write(&folder.join("home/.kube/config"), &kubeconfig("home", "http://home:1", "token"));
        write(&folder.join("home/.kube/token"), "token-of-home");
    };
    let Some(_) = alone("without_kubeconfig_the_home_is_looked_into", &[("KUBECONFIG", "")], prepare) else { return };
    let config = config_from_flags(None, None).await.unwrap();
    assert_eq!(config.cluster_url, "http://home:1");
    assert_eq!(authorization(config).await.unwrap(), "Bearer token-of-home");
    let client = Client::from_environment().await.unwrap();
    assert_eq!((client.server(), client.default_namespace()), ("http://home:1", "home-space"));
}

#[tokio::test]
async fn without_anything_the_error_says_where_was_looked() {
    let Some(folder) = alone("without_anything_the_error_says_where_was_looked", &[], |_| {}) else { return };
    let error = config_from_environment().await.unwrap_err().to_string();
    assert!(error.contains(&folder.join("home/.kube/config").display().to_string()), "{error}");
    assert!(error.contains("Pod"), "{error}");
}

/// The service account of a Pod is no substitute for a file that somebody has broken.
#[tokio::test]
async fn a_broken_file_is_an_error_without_its_contents() {
    let environment =
        [("KUBECONFIG", "FOLDER/config"), ("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "1")];
    let prepare = |folder: &Path| {
        write(
            &folder.join("config"),
            "users:\n- name: a\n  user:\n    token: my-own-secret\n    exec: [my-own-secret\n",
        );
        write(
            &folder.join("typed"),
            "users:\n- name: a\n  user:\n    token: {my-own-secret: 1}\n    exec: my-own-secret\n",
        );
    };
    let Some(folder) = alone("a_broken_file_is_an_error_without_its_contents", &environment, prepare) else { return };
    let typed = config_from_flags(None, Some(&folder.join("typed"))).await.unwrap_err();
    for (error, file) in [(config_from_environment().await.unwrap_err(), "config"), (typed, "typed")] {
        assert!(matches!(error, Error::Config(_)));
        let text = format!("{error} {error:?}");
        assert!(text.contains(&folder.join(file).display().to_string()), "{text}");
        assert!(!text.contains("my-own-secret"), "{text}");
    }
}

#[tokio::test]
async fn flags_give_a_file_an_address_both_or_none() {
    let prepare = |folder: &Path| {
        write(&folder.join("home/.kube/config"), &kubeconfig("home", "http://home:1", "token"));
        write(&folder.join("home/.kube/token"), "token-of-home");
        write(&folder.join("env"), &kubeconfig("env", "http://env:1", "token-of-env"));
        write(&folder.join("token-of-env"), "token-of-env");
        write(&folder.join("flag"), &kubeconfig("flag", "http://flag:1", "token-of-flag"));
        write(&folder.join("token-of-flag"), "token-of-flag");
    };
    let environment = [("KUBECONFIG", "FOLDER/env")];
    let Some(folder) = alone("flags_give_a_file_an_address_both_or_none", &environment, prepare) else { return };
    let file = folder.join("flag");
    let (url, none) = (Some("https://other:6443"), Some(Path::new("")));
    let cases = [
        (None, Some(&*file), "http://flag:1", "flag-space", Some("Bearer token-of-flag")),
        (Some(""), Some(&*file), "http://flag:1", "flag-space", Some("Bearer token-of-flag")),
        (url, Some(&*file), "https://other:6443", "flag-space", Some("Bearer token-of-flag")),
        (url, None, "https://other:6443", "default", None),
        (Some("other:80"), none, "http://other:80", "default", None),
        (None, None, "http://env:1", "env-space", Some("Bearer token-of-env")),
        (Some(""), none, "http://env:1", "env-space", Some("Bearer token-of-env")),
    ];
    for (url, file, server, namespace, token) in cases {
        let config = config_from_flags(url, file).await.unwrap();
        assert_eq!(config.cluster_url, server, "{url:?} {file:?}");
        assert_eq!(config.default_namespace, namespace, "{url:?} {file:?}");
        assert_eq!(authorization(config).await.as_deref(), token, "{url:?} {file:?}");
    }
    let error = config_from_flags(None, Some(&folder.join("missing"))).await.unwrap_err().to_string();
    assert!(error.contains("missing"), "{error}");
    let error = config_from_flags(Some("ftp://other"), None).await.unwrap_err().to_string();
    assert!(error.contains("ftp://other"), "{error}");
}

#[tokio::test]
async fn a_program_in_a_kubeconfig_is_found_beside_it() {
    let prepare = |folder: &Path| {
        let text = kubeconfig("a", "http://a:1", "token");
        let exec = r#"{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"./bin/plugin","interactiveMode":"Never"}}"#;
        write(&folder.join("config"), &text.replace(r#"{"tokenFile":"token"}"#, exec));
        write(&folder.join("bin/plugin"), "");
        let text = r#"echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"of-program"}}'"#;
        super::credentials::script(&folder.join("bin/plugin"), text);
    };
    let environment = [("KUBECONFIG", "FOLDER/config")];
    let Some(_) = alone("a_program_in_a_kubeconfig_is_found_beside_it", &environment, prepare) else { return };
    let config = config_from_environment().await.unwrap();
    assert_eq!(authorization(config).await.unwrap(), "Bearer of-program");
}
