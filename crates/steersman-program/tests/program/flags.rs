//! The flags of production.

use steersman::client::Config;
use steersman::{Client, Manager};
use steersman_apiserver::ApiServer;
use steersman_program::{Environment, Invocation, LogFormat};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::guestbook::program;

/// The manager that the flags describe.
fn manager(flags: &[&str], environment: Environment) -> Result<Manager, String> {
    let program = program();
    let arguments = [&["guestbook"], flags].concat();
    let invocation = program.try_parse_from(arguments).map_err(|error| error.to_string())?;
    let Invocation::Run(flags) = invocation else { panic!("{invocation:?}") };
    let config = Config::new("http://embedded".parse().unwrap());
    let client = Client::builder(config).build_over(ApiServer::new()).unwrap();
    program.manager(client, &flags, environment).map_err(|error| error.to_string())
}

#[tokio::test]
async fn in_development_servers_are_plain_on_loopback_at_free_ports() {
    let manager = manager(&[], Environment::Development).unwrap();
    for address in [manager.metrics_address(), manager.probes_address()] {
        assert!(address.is_some_and(|address| address.ip().is_loopback() && address.port() > 0), "{address:?}");
    }
    assert!(manager.leadership().is_none());
}

#[tokio::test]
async fn in_a_cluster_the_flags_have_the_defaults_of_kubebuilder() {
    let cluster = Environment::Cluster;
    let leading = manager(&["--health-probe-bind-address=127.0.0.1:0", "--leader-elect"], cluster).unwrap();
    assert_eq!(leading.metrics_address(), None);
    assert!(leading.probes_address().is_some());
    assert!(leading.leadership().is_some());
    let off = manager(&["--health-probe-bind-address=0"], cluster).unwrap();
    assert_eq!(off.probes_address(), None);
}

/// The beginning of the response of the metrics to a request without TLS.
async fn plain_response(manager: Manager) -> String {
    let address = manager.metrics_address().unwrap();
    let running = tokio::spawn(async move { manager.start(std::future::pending()).await });
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut response = Vec::new();
    // A server with TLS may reset the connection.
    let _ = stream.read_to_end(&mut response).await;
    running.abort();
    String::from_utf8_lossy(&response).into_owned()
}

#[tokio::test]
async fn metrics_in_a_cluster_have_tls_unless_a_flag_switches_it_off() {
    let cluster = Environment::Cluster;
    // Without probes: their usual port is fixed, and may be in use.
    let (address, no_probes) = ("--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=0");
    for flags in [[address, no_probes].as_slice(), &[address, no_probes, "--metrics-secure"]] {
        assert!(!plain_response(manager(flags, cluster).unwrap()).await.starts_with("HTTP/"), "{flags:?}");
    }
    let plain = manager(&[address, no_probes, "--metrics-secure=false"], cluster).unwrap();
    assert!(plain_response(plain).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_wrong_flag_is_named() {
    for (flags, expected) in [
        (["--metrics-bind-address=8443"].as_slice(), "--metrics-bind-address"),
        (&["--health-probe-bind-address=here"], "--health-probe-bind-address"),
        (&["--debug-pages", "--health-probe-bind-address=0"], "--debug-pages: it needs --metrics-bind-address"),
        (&["--metrics-bind-address=127.0.0.1:0", "--metrics-cert-path=missing"], "--metrics-bind-address"),
        (&["--leader-election-namespace=a"], "--leader-elect"),
        (&["--log-level=loud"], "--log-level"),
        (&["--log-format=xml"], "--log-format"),
        (&["--workers=many"], "--workers"),
        (&["--workers=1", "crd"], "cannot be used with"),
    ] {
        let error = manager(flags, Environment::Cluster).expect_err("the flags are wrong");
        assert!(error.contains(expected), "{flags:?}: {error}");
    }
}

#[test]
fn flags_of_the_program_and_of_every_operator_are_parsed_together() {
    let arguments = "guestbook --workers=7 --kubeconfig=file --master=http://host --watch-namespace=a,b \
                     --log-format=json --log-level=debug";
    let invocation = program().try_parse_from(arguments.split_whitespace()).unwrap();
    let Invocation::Run(flags) = invocation else { panic!("{invocation:?}") };
    assert_eq!(flags.own.workers, 7);
    assert!(flags.cluster.are_set());
    assert_eq!(flags.watch.namespaces().unwrap(), ["a", "b"]);
    assert_eq!((flags.log.log_format, flags.log.log_level.to_string()), (LogFormat::Json, "debug".to_owned()));
}

#[test]
fn the_help_has_the_text_of_the_program_and_all_flags() {
    let help = |flag| program().try_parse_from(["guestbook", flag]).unwrap_err().to_string();
    let long = help("--help");
    assert!(long.starts_with("Keeps guestbooks\n\nEach has a ConfigMap."), "{long}");
    assert!(help("-h").starts_with("Keeps guestbooks\n\nUsage:"), "{}", help("-h"));
    for part in [
        "--workers",
        "--kubeconfig",
        "--master",
        "--watch-namespace",
        "--metrics-bind-address",
        "--metrics-secure",
        "--metrics-cert-path",
        "--metrics-cert-name",
        "--metrics-cert-key",
        "--health-probe-bind-address",
        "--debug-pages",
        "--leader-elect",
        "--leader-election-namespace",
        "--log-format",
        "--log-level",
        "manifests",
        "crd",
    ] {
        assert!(long.contains(part), "{part}:\n{long}");
    }
    assert_eq!(help("--version"), "guestbook 1.2.3\n");
}
