//! Credentials: tokens, token files, and credential plugins.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use kube_client::config::{ExecConfig, ExecInteractiveMode};
use steersman_client::{Client, Config, Error};

use super::loopback::{Loopback, Then, header};
use super::{MAP, endless_files, in_time, make_fifo, no_timeouts};

const REFUSAL: &str = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";

fn without_timeouts(config: Config) -> Client {
    Client::builder(config).timeouts(no_timeouts()).build().unwrap()
}

/// Sends a request and returns the credentials that the server has seen.
async fn authorization(server: &mut Loopback, client: &Client) -> String {
    // The response does not matter here.
    let _ = client.rest().get().abs_path("/version").send().await;
    let request = server.request().await;
    header(&request, "authorization").unwrap_or("none").to_owned()
}

fn with_token_file(server: &Loopback, path: &Path) -> Config {
    let mut config = server.config();
    config.auth_info.token_file = Some(path.display().to_string());
    config
}

#[tokio::test(start_paused = true)]
async fn a_token_file_that_changes_is_read_again_within_a_minute() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "first\n").unwrap();
    let mut server = Loopback::start([Then::json(MAP)]).await;
    let client = without_timeouts(with_token_file(&server, &path));
    assert_eq!(authorization(&mut server, &client).await, "Bearer first", "without the end of the line");
    std::fs::write(&path, "second").unwrap();
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(authorization(&mut server, &client).await, "Bearer first", "not read for every request");
    tokio::time::advance(Duration::from_secs(40)).await;
    assert_eq!(authorization(&mut server, &client).await, "Bearer second");
    assert_eq!(authorization(&mut server, &client.clone()).await, "Bearer second");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_is_read_again_for_the_next_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "first").unwrap();
    let mut server = Loopback::start([Then::json(MAP), Then::Say(REFUSAL.into()), Then::json(MAP)]).await;
    let client = without_timeouts(with_token_file(&server, &path));
    authorization(&mut server, &client).await;
    std::fs::write(&path, "second").unwrap();
    assert_eq!(authorization(&mut server, &client).await, "Bearer first");
    assert_eq!(authorization(&mut server, &client).await, "Bearer second");
}

#[tokio::test(start_paused = true)]
async fn a_token_file_that_goes_away_or_breaks_leaves_the_last_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "first").unwrap();
    let mut server = Loopback::start([Then::json(MAP)]).await;
    let client = without_timeouts(with_token_file(&server, &path));
    for broken in [Some(""), Some("two\nlines"), None] {
        match broken {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(authorization(&mut server, &client).await, "Bearer first");
    }
    std::fs::write(&path, "second").unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(authorization(&mut server, &client).await, "Bearer second");
}

#[tokio::test]
async fn a_token_file_that_cannot_be_used_is_named_without_its_contents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let server = Loopback::start([Then::json(MAP)]).await;
    for (contents, problem) in [(None, "No such file"), (Some(""), "empty"), (Some("secret\nsecret"), "characters")] {
        if let Some(contents) = contents {
            std::fs::write(&path, contents).unwrap();
        }
        let error = Client::builder(with_token_file(&server, &path)).build().unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(matches!(error, Error::Config(_)), "{text}");
        assert!(text.contains(&path.display().to_string()) && text.contains(problem), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

/// A client with a configuration made in code.
#[test]
fn files_without_end_are_refused() {
    type Field = fn(&mut Config, String);
    let fields: [(&str, Field); 4] = [
        ("token file", |config, file| config.auth_info.token_file = Some(file)),
        ("client-certificate", |config, file| config.auth_info.client_certificate = Some(file)),
        ("client-key", |config, file| config.auth_info.client_key = Some(file)),
        ("certificate authority", |config, file| config.root_cert_file = Some(file.into())),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (endless, problem) in endless_files(folder.path()) {
        for (name, set) in fields {
            let file = endless.display().to_string();
            let mut config = Config::new("https://server.test".parse().unwrap());
            set(&mut config, file.clone());
            let error = in_time(|| async { Client::builder(config).build().unwrap_err() }).to_string();
            assert!(error.contains(&format!("{name} {file}")) && error.contains(problem), "{error}");
        }
    }
}

#[test]
fn a_token_file_that_becomes_a_fifo_leaves_the_last_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "first").unwrap();
    let used = in_time(move || async move {
        tokio::time::pause();
        let mut server = Loopback::start([Then::json(MAP)]).await;
        let client = without_timeouts(with_token_file(&server, &path));
        std::fs::remove_file(&path).unwrap();
        make_fifo(&path);
        tokio::time::advance(Duration::from_secs(60)).await;
        authorization(&mut server, &client).await
    });
    assert_eq!(used, "Bearer first");
}

#[tokio::test]
async fn a_token_that_is_given_goes_before_a_file() {
    let mut server = Loopback::start([Then::json(MAP)]).await;
    let mut config = with_token_file(&server, Path::new("/nonexistent/token"));
    config.auth_info.token = Some("given".to_owned().into());
    let client = without_timeouts(config);
    assert_eq!(authorization(&mut server, &client).await, "Bearer given");
}

#[tokio::test]
async fn a_name_and_a_password_are_sent_as_basic_authentication() {
    let mut server = Loopback::start([Then::json(MAP)]).await;
    let mut config = server.config();
    config.auth_info.username = Some("user".to_owned());
    config.auth_info.password = Some("p@ss".to_owned().into());
    let client = without_timeouts(config);
    assert_eq!(authorization(&mut server, &client).await, "Basic dXNlcjpwQHNz");
}

/// Writes a shell script.
pub(crate) fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn with_program(server: &Loopback, path: &Path) -> Config {
    let mut config = server.config();
    let exec = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        // Not the script itself: it cannot be executed while another test's child process has it
        // open.
        "command": "/bin/sh",
        "args": [path.display().to_string(), "an argument"],
        "env": [{"name": "PASSWORD", "value": "hidden"}],
        "interactiveMode": "Never",
    });
    let exec: ExecConfig = serde_json::from_value(exec).unwrap();
    assert_eq!(exec.interactive_mode, Some(ExecInteractiveMode::Never));
    config.auth_info.exec = Some(exec);
    config
}

#[tokio::test]
async fn a_program_gives_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin");
    script(
        &path,
        r#"case "$KUBERNETES_EXEC_INFO" in *ExecCredential*) ;; *) exit 1 ;; esac
echo "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"$1 $PASSWORD\"}}""#,
    );
    let mut server = Loopback::start([Then::json(MAP)]).await;
    let client = without_timeouts(with_program(&server, &path));
    assert_eq!(authorization(&mut server, &client).await, "Bearer an argument hidden");
}

#[tokio::test]
async fn a_token_that_expires_is_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin");
    script(
        &path,
        r#"cd "$(dirname "$0")"; echo x >> calls; calls=$(wc -l < calls | tr -d ' ')
year=2000; [ "$calls" -ge 2 ] && year=2999
echo "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"token-$calls\",\"expirationTimestamp\":\"$year-01-01T00:00:00Z\"}}""#,
    );
    let mut server = Loopback::start([Then::json(MAP)]).await;
    let client = without_timeouts(with_program(&server, &path));
    let first = authorization(&mut server, &client).await;
    let second = authorization(&mut server, &client).await;
    let third = authorization(&mut server, &client).await;
    let number = |text: &str| text.rsplit('-').next().unwrap().parse::<u32>().unwrap();
    // Building the client runs the plugin for the first time.
    assert!(number(&first) >= 2, "an expired token is not sent: {first}");
    assert_eq!((&second, &third), (&first, &first), "one that holds is kept");
}

#[tokio::test]
async fn a_program_that_fails_is_an_error_without_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin");
    let server = Loopback::start([Then::json(MAP)]).await;
    let fails = "echo token-of-mine; echo please log in >&2; exit 3";
    for (text, problem) in [(fails, "please log in"), ("echo '{token-of-mine'", "ExecCredential")] {
        script(&path, text);
        let error = Client::builder(with_program(&server, &path)).build().unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(problem), "{text}");
        assert!(!text.contains("token-of-mine") && !text.contains("hidden"), "{text}");
    }
    script(&path, "echo '{}'");
    let error = Client::builder(with_program(&server, &path)).build().unwrap_err();
    assert!(error.to_string().contains("did not contain a status"), "{error}");
}

/// The same if the plugin worked at first.
#[tokio::test]
async fn a_program_that_fails_later_is_an_error_without_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin");
    let server = Loopback::start([Then::json(MAP)]).await;
    let status = r#"{\"token\":\"t\",\"expirationTimestamp\":\"2000-01-01T00:00:00Z\"}"#;
    script(&path, &format!(r#"echo "{{\"kind\":\"ExecCredential\",\"status\":{status}}}""#));
    let client = without_timeouts(with_program(&server, &path));
    script(&path, "echo token-of-mine; echo please log in >&2; exit 3");
    let error = client.rest().get().abs_path("/version").send().await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("please log in") && text.contains("GET http://"), "{text}");
    assert!(!text.contains("token-of-mine") && !text.contains("hidden"), "{text}");
}
