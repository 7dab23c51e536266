//! A client in a Pod, with the files of its service account in another folder.

use std::path::Path;
use std::time::Duration;

use steersman_client::{Client, Config, Error, config_from_service_account};
use steersman_testing::Embedded;

use super::loopback::{Loopback, Then, header};
use super::mounted::ServiceAccount;
use super::{MAP, endless_files, in_time, no_timeouts};

/// A PEM block. No connection in these tests depends on its contents.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nYXV0aG9yaXR5\n-----END CERTIFICATE-----\n";

fn config(account: &ServiceAccount) -> Config {
    config_from_service_account(account.folder(), "10.0.0.1", "443").unwrap()
}

#[test]
fn the_files_and_the_two_variables_give_server_namespace_and_credentials() {
    let account = ServiceAccount::new("first", AUTHORITY, "team-a\n");
    for (host, port, server) in [
        ("10.0.0.1", "443", "https://10.0.0.1:443"),
        ("api.example.com", "6443", "https://api.example.com:6443"),
        ("fd00::1", "443", "https://[fd00::1]:443"),
        ("[fd00::1]", "443", "https://[fd00::1]:443"),
    ] {
        let config = config_from_service_account(account.folder(), host, port).unwrap();
        assert_eq!(config.cluster_url, server);
        assert_eq!(config.default_namespace, "team-a");
        assert_eq!(config.root_cert.unwrap().len(), 1);
        assert_eq!(config.root_cert_file.as_deref(), Some(&*account.folder().join("ca.crt")));
        assert_eq!(config.proxy_url, None);
    }
}

#[test]
fn files_without_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (endless, problem) in endless_files(folder.path()) {
        for name in ["token", "ca.crt", "namespace"] {
            let account = tempfile::tempdir().unwrap();
            for (file, text) in [("token", "first"), ("ca.crt", AUTHORITY), ("namespace", "team-a")] {
                let path = account.path().join(file);
                if file == name {
                    std::os::unix::fs::symlink(&endless, &path).unwrap();
                } else {
                    std::fs::write(&path, text).unwrap();
                }
            }
            let path = account.path().to_owned();
            let config = || async move { config_from_service_account(&path, "10.0.0.1", "443").unwrap_err() };
            let error = in_time(config).to_string();
            let file = account.path().join(name);
            assert!(error.contains(&file.display().to_string()) && error.contains(problem), "{error}");
        }
    }
}

/// Sends a request to a server without TLS, and returns the credentials that the server has seen.
async fn authorization(server: &mut Loopback, client: &Client) -> String {
    // The response does not matter here.
    let _ = client.rest().get().abs_path("/version").send().await;
    header(&server.request().await, "authorization").unwrap_or("none").to_owned()
}

fn client_of(server: &Loopback, account: &ServiceAccount) -> Client {
    let mut config = config(account);
    config.cluster_url = server.config().cluster_url;
    Client::builder(config).timeouts(no_timeouts()).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_token_that_the_kubelet_rotates_is_used_within_a_minute() {
    let mut account = ServiceAccount::new("first", AUTHORITY, "team-a");
    let mut server = Loopback::start([Then::json(MAP)]).await;
    let client = client_of(&server, &account);
    assert_eq!(client.default_namespace(), "team-a");
    assert_eq!(authorization(&mut server, &client).await, "Bearer first");
    account.rotate("second");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(authorization(&mut server, &client).await, "Bearer second");
    account.rotate("third");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(authorization(&mut server, &client.clone()).await, "Bearer third");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_is_read_again_for_the_next_request() {
    let refusal = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";
    let mut account = ServiceAccount::new("first", AUTHORITY, "team-a");
    let mut server = Loopback::start([Then::Say(refusal.into()), Then::json(MAP)]).await;
    let client = client_of(&server, &account);
    account.rotate("second");
    assert_eq!(authorization(&mut server, &client).await, "Bearer first");
    assert_eq!(authorization(&mut server, &client).await, "Bearer second");
}

/// The host and port of an address such as `https://127.0.0.1:6443`.
fn host_and_port(url: &str) -> (String, String) {
    let url: http::Uri = url.parse().unwrap();
    (url.host().unwrap().to_owned(), url.port_u16().unwrap().to_string())
}

#[tokio::test]
async fn the_server_s_certificate_is_checked_against_the_file() {
    let (embedded, stranger) = (Embedded::empty(), Embedded::start());
    let serving = embedded.server().serve().start().await.unwrap();
    let stranger = stranger.server().serve().start().await.unwrap();
    let (host, port) = host_and_port(serving.url());
    let account = ServiceAccount::new(serving.token(), serving.authority(), "default");
    let get = |folder: &Path| {
        let client = Client::builder(config_from_service_account(folder, &host, &port).unwrap()).build().unwrap();
        async move { client.rest().get().abs_path("/api/v1/namespaces/default").send().await }
    };
    get(account.folder()).await.unwrap();

    let other = ServiceAccount::new(serving.token(), stranger.authority(), "default");
    let error = get(other.folder()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    let wanted =
        format!("GET {}/api/v1/namespaces/default: connection failed: invalid peer certificate", serving.url());
    assert!(error.to_string().starts_with(&wanted), "{error}");
}

#[test]
fn a_file_that_is_missing_or_broken_is_named_without_its_contents() {
    let no_file = "No such file or directory (os error 2)";
    let cases = [
        ("token", None, no_file),
        ("token", Some(""), "it is empty"),
        ("token", Some("hidden\nhidden"), "it holds characters that are invalid in a token"),
        ("ca.crt", None, no_file),
        ("ca.crt", Some("hidden"), "it holds no PEM certificate"),
        ("namespace", None, no_file),
        ("namespace", Some("\n"), "it is empty"),
    ];
    for (name, contents, problem) in cases {
        let account = ServiceAccount::new("first", AUTHORITY, "team-a");
        let path = account.folder().join(name);
        std::fs::remove_file(&path).unwrap();
        if let Some(contents) = contents {
            std::fs::write(&path, contents).unwrap();
        }
        let error = config_from_service_account(account.folder(), "10.0.0.1", "443").unwrap_err();
        let path = path.display();
        let wanted = format!("cannot set up the client: cannot use the service account's file {path}: {problem}");
        assert_eq!((error.to_string(), format!("{error:?}")), (wanted.clone(), wanted));
    }
}

#[test]
fn a_variable_that_is_no_address_is_named() {
    let account = ServiceAccount::new("first", AUTHORITY, "team-a");
    let error = |host, port| config_from_service_account(account.folder(), host, port).unwrap_err().to_string();
    assert_eq!(
        error("10.0.0.1", "https"),
        r#"cannot set up the client: invalid KUBERNETES_SERVICE_PORT "https": expected a port number"#
    );
    let start = r#"cannot set up the client: invalid KUBERNETES_SERVICE_HOST "a b": "#;
    assert!(error("a b", "443").starts_with(start), "{}", error("a b", "443"));
}
