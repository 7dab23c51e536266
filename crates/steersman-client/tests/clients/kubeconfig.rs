//! The configuration from files and from the environment. The environment belongs to the process,
//! so each of these tests runs in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use kube_client::config::{KubeConfigOptions, Kubeconfig};
use steersman_client::{Client, Config, Error, config_from_environment, config_from_flags, config_in_cluster};

use super::loopback::{Loopback, Then, header};
use super::{MAP, endless_files, in_time, make_fifo, no_timeouts};

/// The folder of a test in its own process.
const FOLDER: &str = "STEERSMAN_TEST_FOLDER";

/// In the first process: runs the test of this name in a second one, with its own home folder and
/// `environment`, where `FOLDER/` stands for the folder that `prepare` gets. In the second process:
/// returns that folder.
fn alone(test: &str, environment: &[(&str, &str)], prepare: impl FnOnce(&Path)) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("kubeconfig::{test}"), "--nocapture"]);
    for variable in [
        "KUBECONFIG",
        "KUBERNETES_SERVICE_HOST",
        "KUBERNETES_SERVICE_PORT",
        "HTTPS_PROXY",
        "https_proxy",
        "NO_PROXY",
        "no_proxy",
    ] {
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

/// As kube's own configuration from the environment, which fails for files that do not exist.
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
async fn without_kubeconfig_the_file_in_the_home_folder_is_used() {
    let prepare = |folder: &Path| {
        write(&folder.join("home/.kube/config"), &kubeconfig("home", "http://home:1", "token"));
        write(&folder.join("home/.kube/token"), "token-of-home");
    };
    let Some(_) = alone("without_kubeconfig_the_file_in_the_home_folder_is_used", &[("KUBECONFIG", "")], prepare)
    else {
        return;
    };
    let config = config_from_flags(None, None).await.unwrap();
    assert_eq!(config.cluster_url, "http://home:1");
    assert_eq!(authorization(config).await.unwrap(), "Bearer token-of-home");
    let client = Client::from_environment().await.unwrap();
    assert_eq!((client.server(), client.default_namespace()), ("http://home:1", "home-space"));
}

/// What `fn main() -> Result<(), Box<dyn std::error::Error>>` prints, and what a log shows.
fn printed(error: Error) -> String {
    let shown = error.to_string();
    let boxed: Box<dyn std::error::Error> = error.into();
    let printed = format!("{boxed:?}");
    assert_eq!(printed, shown);
    assert_eq!(printed.lines().count(), 1, "{printed}");
    printed
}

#[tokio::test]
async fn without_any_configuration_the_error_names_what_was_searched() {
    let Some(folder) = alone("without_any_configuration_the_error_names_what_was_searched", &[], |_| {}) else {
        return;
    };
    let wanted = format!(
        "cannot set up the client: no configuration found: {} does not exist, and KUBERNETES_SERVICE_HOST is not set, as \
         it is in a Pod; set KUBECONFIG to the path of a kubeconfig",
        folder.join("home/.kube/config").display()
    );
    assert_eq!(printed(config_from_environment().await.unwrap_err()), wanted);
}

#[tokio::test]
async fn without_any_of_the_files_in_the_environment_the_error_names_them() {
    let name = "without_any_of_the_files_in_the_environment_the_error_names_them";
    let environment =
        [("KUBECONFIG", "FOLDER/nowhere:FOLDER/empty:FOLDER/null"), ("KUBERNETES_SERVICE_HOST", "10.0.0.1")];
    let prepare = |folder: &Path| {
        write(&folder.join("empty"), "");
        write(
            &folder.join("null"),
            "{apiVersion: v1, kind: Config, clusters: null, contexts: null, current-context: ''}",
        );
    };
    let Some(folder) = alone(name, &environment, prepare) else { return };
    let path = |name: &str| folder.join(name).display().to_string();
    let wanted = format!(
        "cannot set up the client: no configuration found: KUBECONFIG names {}, which does not exist, {}, which has no \
         contexts, {}, which has no contexts, and KUBERNETES_SERVICE_PORT is not set, as it is in a Pod; correct KUBECONFIG, \
         or unset it to use ~/.kube/config",
        path("nowhere"),
        path("empty"),
        path("null"),
    );
    assert_eq!(printed(config_from_environment().await.unwrap_err()), wanted);
}

/// The test cannot choose the folder of the service account: most machines have none there.
#[tokio::test]
async fn in_a_pod_the_service_account_is_used() {
    let environment = [("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("KUBERNETES_SERVICE_PORT", "443")];
    let Some(_) = alone("in_a_pod_the_service_account_is_used", &environment, |_| {}) else { return };
    for config in [config_from_environment().await, config_in_cluster()] {
        match config {
            Ok(config) => assert_eq!(config.cluster_url, "https://10.0.0.1:443"),
            Err(error) => {
                let start = "cannot set up the client: cannot use the service account's file \
                             /var/run/secrets/kubernetes.io/serviceaccount/";
                assert!(printed(error).starts_with(start));
            }
        }
    }
}

#[test]
fn outside_of_a_pod_there_is_no_service_account() {
    let environment = [("KUBERNETES_SERVICE_HOST", "")];
    let Some(_) = alone("outside_of_a_pod_there_is_no_service_account", &environment, |_| {}) else { return };
    let wanted = "cannot set up the client: not in a cluster: KUBERNETES_SERVICE_HOST is not set";
    assert_eq!(printed(config_in_cluster().unwrap_err()), wanted);
}

/// A kubeconfig, with one change.
fn changed(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut file = serde_json::from_str(&kubeconfig("first", "https://one:1", "token")).unwrap();
    change(&mut file);
    file.to_string()
}

#[tokio::test]
async fn what_is_wrong_in_a_file_is_named_with_the_choices() {
    type Change = fn(&mut serde_json::Value);
    let cases: [(Change, &str); 15] = [
        (
            |file| file["current-context"] = "y".into(),
            r#"context "y" does not exist in FILE; its contexts are "first" (kubectl config use-context)"#,
        ),
        (
            |file| drop(file.as_object_mut().unwrap().remove("current-context")),
            r#"no current-context in FILE; its contexts are "first" (kubectl config use-context)"#,
        ),
        (
            |file| file["contexts"] = serde_json::json!([]),
            r#"context "first" does not exist in FILE, which has no contexts"#,
        ),
        (
            |file| file["contexts"][0]["context"]["cluster"] = "x".into(),
            r#"context "first" refers to cluster "x", which does not exist in FILE; its clusters are "cluster""#,
        ),
        (
            |file| drop(file["clusters"][0]["cluster"].as_object_mut().unwrap().remove("server")),
            r#"cluster "cluster" in FILE has no server"#,
        ),
        (
            |file| file["clusters"][0]["cluster"]["server"] = "https://a b".into(),
            r#"cluster "cluster" in FILE: invalid server "https://a b": invalid uri character"#,
        ),
        (
            |file| file["clusters"][0]["cluster"]["proxy-url"] = "http://user:hidden@a b".into(),
            r#"cluster "cluster" in FILE: invalid proxy-url, or HTTPS_PROXY: invalid uri character"#,
        ),
        (
            |file| file["clusters"][0]["cluster"]["certificate-authority"] = "gone.crt".into(),
            r#"cluster "cluster" in FILE: cannot read certificate-authority FOLDER/gone.crt: No such file or directory (os error 2)"#,
        ),
        (
            |file| file["clusters"][0]["cluster"]["certificate-authority-data"] = "!".into(),
            r#"cluster "cluster" in FILE: certificate-authority-data is not base64"#,
        ),
        (
            |file| file["clusters"][0]["cluster"]["certificate-authority-data"] = "aGVsbG8=".into(),
            r#"cluster "cluster" in FILE: certificate-authority-data holds no PEM certificate"#,
        ),
        (
            |file| {
                file["clusters"][0]["cluster"]["certificate-authority-data"] =
                    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCiEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=".into();
            },
            r#"cluster "cluster" in FILE: certificate-authority-data holds no PEM certificate"#,
        ),
        (
            |file| file["users"][0]["user"]["client-certificate"] = "gone.crt".into(),
            r#"user "first" in FILE: cannot read client-certificate FOLDER/gone.crt: No such file or directory (os error 2)"#,
        ),
        (
            |file| file["users"][0]["user"]["client-key-data"] = "hidden!".into(),
            r#"user "first" in FILE: client-key-data is not base64"#,
        ),
        (
            |file| {
                file["users"][0]["user"]["client-key-data"] = "aGlkZGVu".into();
                file["users"][0]["user"]["client-certificate-data"] = "aGlkZGVu".into();
            },
            r#"user "first" in FILE: client-certificate-data is not PEM"#,
        ),
        (
            |file| file["users"][0]["user"]["client-certificate-data"] = "LS0tLS1CRUdJTiBYLS0tLS0=".into(),
            r#"user "first" in FILE has a client-certificate, but no client-key"#,
        ),
    ];
    let name = "what_is_wrong_in_a_file_is_named_with_the_choices";
    let Some(folder) = alone(name, &[("KUBECONFIG", "FOLDER/config")], |_| {}) else { return };
    let path = folder.join("config");
    for (change, wanted) in cases {
        write(&path, &changed(change));
        let wanted = wanted.replace("FILE", &path.display().to_string());
        let wanted = format!("cannot set up the client: {}", wanted.replace("FOLDER", &folder.display().to_string()));
        assert_eq!(printed(config_from_environment().await.unwrap_err()), wanted);
        assert_eq!(printed(config_from_flags(None, Some(&path)).await.unwrap_err()), wanted);
    }
}

#[tokio::test]
async fn a_name_that_is_in_none_of_several_files_is_named_with_the_choices_of_all() {
    let name = "a_name_that_is_in_none_of_several_files_is_named_with_the_choices_of_all";
    let prepare = |folder: &Path| {
        write(&folder.join("one"), &changed(|file| file["current-context"] = "y".into()));
        write(&folder.join("two"), &kubeconfig("second", "http://two:2", "token"));
    };
    let environment = [("KUBECONFIG", "FOLDER/one:FOLDER/nowhere:FOLDER/two")];
    let Some(folder) = alone(name, &environment, prepare) else { return };
    let wanted = format!(
        r#"cannot set up the client: context "y" does not exist in {}, {}; their contexts are "first", "second" (kubectl config use-context)"#,
        folder.join("one").display(),
        folder.join("two").display(),
    );
    assert_eq!(printed(config_from_environment().await.unwrap_err()), wanted);
}

/// The contents of a PEM block are checked when the client is built.
#[tokio::test]
async fn certificates_that_are_broken_inside_are_named_with_the_server() {
    let prepare = |folder: &Path| {
        let pem = |tag| format!("-----BEGIN {tag}-----\naGlkZGVu\n-----END {tag}-----\n");
        write(&folder.join("certificate"), &pem("CERTIFICATE"));
        write(&folder.join("key"), &pem("PRIVATE KEY"));
        write(&folder.join("token"), "token-one");
        let authority = |file: &mut serde_json::Value| {
            file["clusters"][0]["cluster"]["certificate-authority"] = "certificate".into();
        };
        let identity = |file: &mut serde_json::Value| {
            file["users"][0]["user"] = serde_json::json!({"client-certificate": "certificate", "client-key": "key"});
        };
        write(&folder.join("authority"), &changed(authority));
        write(&folder.join("identity"), &changed(identity));
    };
    let name = "certificates_that_are_broken_inside_are_named_with_the_server";
    let Some(folder) = alone(name, &[], prepare) else { return };
    for (file, problem) in [("authority", "failed to add a root certificate"), ("identity", "invalid private key")] {
        let config = config_from_flags(None, Some(&folder.join(file))).await.unwrap();
        let error = printed(Client::builder(config).build().unwrap_err());
        assert!(error.starts_with("cannot set up the client: https://one:1/: "), "{error}");
        assert!(error.contains(problem) && !error.contains("hidden") && !error.contains("aGlkZGVu"), "{error}");
    }
}

/// As in kubectl: some servers need no credentials. A warning is logged.
#[tokio::test]
async fn a_context_whose_user_does_not_exist_has_no_credentials() {
    let prepare = |folder: &Path| write(&folder.join("config"), &changed(|file| file["users"] = serde_json::json!([])));
    let name = "a_context_whose_user_does_not_exist_has_no_credentials";
    let Some(_) = alone(name, &[("KUBECONFIG", "FOLDER/config")], prepare) else { return };
    assert_eq!(authorization(config_from_environment().await.unwrap()).await, None);
}

#[tokio::test]
async fn a_file_that_a_flag_names_has_to_exist() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing");
    let error = printed(config_from_flags(None, Some(&path)).await.unwrap_err());
    let wanted = "cannot set up the client: cannot read kubeconfig";
    assert_eq!(error, format!("{wanted} {}: No such file or directory (os error 2)", path.display()));
}

/// The service account of a Pod does not replace a broken file.
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
        let text = printed(error);
        assert!(text.starts_with("cannot set up the client: invalid kubeconfig "), "{text}");
        assert!(text.contains(&folder.join(file).display().to_string()) && text.contains("line"), "{text}");
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

#[tokio::test]
async fn no_proxy_exempts_servers_from_the_proxy_of_the_environment() {
    let environment =
        [("KUBECONFIG", "FOLDER/inside"), ("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", "10.0.0.0/8,.svc")];
    let prepare = |folder: &Path| {
        write(&folder.join("inside"), &kubeconfig("a", "https://10.1.2.3:6443", "token"));
        let named = kubeconfig("a", "https://10.1.2.3:6443", "token");
        write(&folder.join("named"), &named.replace(r#""server""#, r#""proxy-url":"http://own:3128","server""#));
    };
    let Some(folder) = alone("no_proxy_exempts_servers_from_the_proxy_of_the_environment", &environment, prepare)
    else {
        return;
    };
    let proxy = |config: Config| config.proxy_url.map(|proxy| proxy.to_string());
    assert_eq!(proxy(config_from_environment().await.unwrap()), None);
    let flags = |url: &'static str, file: &'static str| {
        let file = folder.join(file);
        async move { config_from_flags(Some(url), Some(&file)).await.unwrap() }
    };
    let everywhere = flags("https://api.example.com", "inside").await;
    assert_eq!(proxy(everywhere).as_deref(), Some("http://proxy:3128/"));
    assert_eq!(proxy(flags("https://127.0.0.1:6443", "inside").await), None);
    assert_eq!(
        proxy(flags("https://10.1.2.3", "named").await).as_deref(),
        Some("http://own:3128/"),
        "it was asked for"
    );
}

/// The error of a configuration that must be read in time.
fn error_in_time<F: Future<Output = Result<Config, Error>>>(read: impl FnOnce() -> F + Send + 'static) -> String {
    in_time(|| async { read().await.unwrap_err().to_string() })
}

/// A FIFO or a device may have no end, and a huge file takes all memory.
#[test]
fn only_regular_files_of_a_sane_size_are_read() {
    let environment = [("KUBECONFIG", "FOLDER/config:FOLDER/fifo")];
    let prepare = |folder: &Path| {
        write(&folder.join("config"), &kubeconfig("first", "http://one:1", "token"));
        make_fifo(&folder.join("fifo"));
        // Sparse: it takes no space on the disk.
        std::fs::File::create(folder.join("huge")).unwrap().set_len(1 << 40).unwrap();
    };
    let Some(folder) = alone("only_regular_files_of_a_sane_size_are_read", &environment, prepare) else { return };
    let fifo = folder.join("fifo");
    let refused = format!("cannot use {} as kubeconfig: it is not a regular file", fifo.display());
    let error = error_in_time(config_from_environment);
    assert!(error.contains(&refused), "{error}");
    let of_flag = |path: PathBuf| error_in_time(move || async move { config_from_flags(None, Some(&path)).await });
    let error = of_flag(fifo);
    assert!(error.contains(&refused), "{error}");
    assert!(of_flag("/dev/null".into()).contains("/dev/null as kubeconfig: it is not a regular file"));
    assert!(of_flag(folder.clone()).contains("is not a regular file"));
    let error = of_flag(folder.join("huge"));
    assert!(error.contains("has 1099511627776 bytes, and at most 8388608 are read"), "{error}");
}

/// The files that a kubeconfig names have the same limits as the kubeconfig.
#[test]
fn certificates_and_keys_are_regular_files_of_a_sane_size() {
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("pem");
    write(&pem, "-----BEGIN CERTIFICATE-----\nYXV0aG9yaXR5\n-----END CERTIFICATE-----\n");
    for (endless, problem) in endless_files(folder.path()) {
        for field in ["certificate-authority", "client-certificate", "client-key"] {
            let file = |name: &str| if name == field { endless.clone() } else { pem.clone() };
            let text = serde_json::json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "one",
                "contexts": [{"name": "one", "context": {"cluster": "cluster", "user": "user"}}],
                "clusters": [{"name": "cluster", "cluster": {
                    "server": "https://one:1", "certificate-authority": file("certificate-authority"),
                }}],
                "users": [{"name": "user", "user": {
                    "client-certificate": file("client-certificate"), "client-key": file("client-key"),
                }}],
            });
            let path = folder.path().join("config");
            write(&path, &text.to_string());
            let error = error_in_time(move || async move { config_from_flags(None, Some(&path)).await });
            assert!(error.contains(&format!("{field} {}", endless.display())) && error.contains(problem), "{error}");
        }
    }
}

/// Scripts set `KUBECONFIG=/dev/null` to disable the user's own configuration.
#[test]
fn the_null_device_in_the_environment_is_no_file() {
    let environment = [("KUBECONFIG", "/dev/null")];
    if alone("the_null_device_in_the_environment_is_no_file", &environment, |_| {}).is_none() {
        return;
    }
    let error = error_in_time(config_from_environment);
    assert!(error.contains("KUBECONFIG names /dev/null, which has no contexts"), "{error}");
}
