//! The client with the embedded Neutron, and its faults.

mod support;

use neutron::embedded::{EmbeddedNeutron, Fault};
use neutron::{Auth, Cloud, NetworkFilter, Neutron, NewNetwork};

fn named(name: &str) -> NewNetwork {
    NewNetwork { name: name.to_owned(), ..Default::default() }
}

#[tokio::test]
async fn the_client_does_everything_with_the_embedded_neutron() {
    let server = EmbeddedNeutron::start().await.unwrap();
    support::client_suite::run(&server.client(), Some("lab")).await.unwrap();
}

#[tokio::test]
async fn every_request_is_in_the_log_once() {
    let server = EmbeddedNeutron::start().await.unwrap();
    let network = server.client().create_network(&named("web")).await.unwrap();
    server.client().delete_network(&network.id).await.unwrap();
    let log: Vec<_> = server.take_log().into_iter().map(|entry| (entry.method, entry.path, entry.status)).collect();
    let expected =
        [("POST", "/v2.0/networks".to_owned(), 201), ("DELETE", format!("/v2.0/networks/{}", network.id), 204)];
    assert_eq!(log, expected.map(|(method, path, status)| (method.to_owned(), path, status)));
    assert_eq!(server.take_log(), []);
}

#[tokio::test]
async fn what_was_created_outlives_a_stop() {
    let mut server = EmbeddedNeutron::start().await.unwrap();
    let neutron = server.client();
    let network = neutron.create_network(&named("web")).await.unwrap();
    server.stop().await;
    let error = neutron.network(&network.id).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    server.start_again().await.unwrap();
    assert_eq!(neutron.network(&network.id).await.unwrap(), Some(network));
}

#[tokio::test]
async fn a_fault_is_seen_by_the_client_and_ends() {
    let server = EmbeddedNeutron::start().await.unwrap();
    let neutron = server.client();
    server.set_fault(Some(Fault::Unavailable));
    let error = neutron.networks(&NetworkFilter::default()).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("No server is available"), "{error}");

    server.set_fault(Some(Fault::Hang));
    let endpoint = Some(server.url());
    let impatient =
        Neutron::of(Cloud { endpoint, timeout: std::time::Duration::from_millis(50), ..Cloud::new(Auth::None) })
            .unwrap();
    let error = impatient.networks(&NetworkFilter::default()).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().ends_with("no answer within 50ms"), "{error}");

    server.set_fault(None);
    assert_eq!(neutron.networks(&NetworkFilter::default()).await.unwrap(), []);
}

#[tokio::test]
async fn a_request_whose_answer_is_lost_was_carried_out() {
    let server = EmbeddedNeutron::start().await.unwrap();
    let neutron = server.client();
    server.set_fault(Some(Fault::LoseAnswers));
    let error = neutron.create_network(&named("web")).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    server.set_fault(None);
    let found = neutron.networks(&NetworkFilter { name: Some("web".to_owned()), ..Default::default() }).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
}

#[tokio::test]
async fn a_quota_for_all_projects_can_be_set() {
    let server = EmbeddedNeutron::start().await.unwrap();
    server.set_quota("network", 1);
    let neutron = server.client();
    neutron.create_network(&named("one")).await.unwrap();
    let error = neutron.create_network(&named("two")).await.unwrap_err();
    assert!(
        error.is_over_quota() && error.to_string().ends_with("Quota exceeded for resources: ['network']."),
        "{error}"
    );
}

#[tokio::test]
async fn an_invalid_request_harms_no_other_connection() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = EmbeddedNeutron::start().await.unwrap();
    let address = server.url().trim_start_matches("http://").to_owned();
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v2.0/networks HTTP/1.1\r\ncontent-length: 9\r\n\r\nx",
    ] {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // A reset is a valid end as well.
        let _ = stream.read_to_end(&mut answer).await;
    }
    assert_eq!(server.client().networks(&NetworkFilter::default()).await.unwrap(), []);
}
