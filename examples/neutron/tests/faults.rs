//! Servers with faults, and invalid responses.

mod support;

use std::time::Duration;

use neutron::{Auth, Cloud, Error, NetworkFilter, Neutron, NewNetwork};
use serde_json::json;
use support::stub::{Seen, Stub, answer, json_answer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn client(url: &str, timeout: Duration) -> Neutron {
    Neutron::of(Cloud { endpoint: Some(url.to_owned()), timeout, ..Cloud::new(Auth::None) }).unwrap()
}

async fn list(neutron: &Neutron) -> Result<usize, Error> {
    Ok(neutron.networks(&NetworkFilter::default()).await?.len())
}

/// The error of the client for a server that writes `bytes` to every connection, and then closes it
/// or keeps it open.
async fn error_of_server_that_writes(bytes: &'static [u8], closes: bool, timeout: Duration) -> Error {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = async {
        let mut open = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The request fits into one read. If it was cut, the response would only come sooner.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(bytes).await;
            if !closes {
                open.push(stream);
            }
        }
    };
    let neutron = client(&url, timeout);
    tokio::select! {
        result = list(&neutron) => result.expect_err("this is no answer"),
        () = serving => unreachable!("it serves for ever"),
    }
}

const PATIENT: Duration = Duration::from_secs(60);
const IMPATIENT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    for begun in [&b""[..], b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{\"networks\": [", b"HTTP/1.1 200"] {
        let error = error_of_server_that_writes(begun, false, IMPATIENT).await;
        assert!(matches!(error, Error::TimedOut { .. }) && error.is_unavailable(), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    for begun in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{\"networks\": [",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{\"networks\": []}",
        b"HTTP/1.1 200 OK\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ] {
        let error = error_of_server_that_writes(begun, true, PATIENT).await;
        assert!(matches!(error, Error::Unreachable { .. }) && error.is_unavailable(), "{error:?}");
    }
}

#[tokio::test]
async fn a_closed_port_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = list(&client(&url, PATIENT)).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_unavailable() {
    let error = list(&client("http://neutron.invalid", PATIENT)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
}

#[tokio::test]
async fn an_error_page_is_unavailable_and_shown() {
    for status in [500, 502, 503, 504] {
        let stub = Stub::start(move |_, _| async move {
            answer(status, "<html><body><h1>Down for maintenance</h1></body></html>")
        })
        .await;
        let error = list(&client(stub.url(), PATIENT)).await.unwrap_err();
        assert!(error.is_unavailable() && error.to_string().ends_with(": Down for maintenance"), "{error}");
        assert_eq!(stub.seen().len(), 1, "it is for the caller to try again");
    }
}

#[tokio::test]
async fn what_is_not_neutron_is_unavailable() {
    for body in ["", "OK", "[]", "{}", r#"{"networks": 7}"#, r#"{"networks": [{"name": "no id"}]}"#, "<html></html>"] {
        let stub = Stub::start(move |_, _| async move { answer(200, body) }).await;
        let error = list(&client(stub.url(), PATIENT)).await.unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }) && error.is_unavailable(), "{body}: {error:?}");
    }
}

#[tokio::test]
async fn only_neutron_can_say_that_a_network_is_not_there() {
    let theirs =
        json!({"NeutronError": {"type": "NetworkNotFound", "message": "Network x could not be found.", "detail": ""}});
    let stub = Stub::start(move |_, _| {
        let reply = json_answer(404, &theirs);
        async move { reply }
    })
    .await;
    let neutron = client(stub.url(), PATIENT);
    assert_eq!(neutron.network("x").await.unwrap(), None);
    assert!(!neutron.delete_network("x").await.unwrap());

    let stub = Stub::start(|_, _| async { answer(404, "<html><h1>404 Not Found</h1>nginx</html>") }).await;
    let neutron = client(stub.url(), PATIENT);
    for error in [neutron.network("x").await.unwrap_err(), neutron.delete_network("x").await.unwrap_err()] {
        assert!(error.is_unavailable(), "{error}");
    }
}

#[tokio::test]
async fn an_id_does_not_lead_elsewhere() {
    let stub = Stub::start(|_, _| async { answer(204, "") }).await;
    let neutron = client(stub.url(), PATIENT);
    for id in ["", ".", "..", "../subnets", "a/b", "a?b", "a b", "%2e%2e"] {
        let error = neutron.delete_network(id).await.unwrap_err();
        assert!(error.to_string().ends_with("is not the id of a network"), "{error}");
    }
    assert_eq!(stub.seen().len(), 0);
}

#[tokio::test]
async fn all_pages_of_a_list_are_read_from_the_same_server() {
    let stub = Stub::start(|seen: Seen, _| {
        let page = |id: &str, next: Option<&str>| {
            let link = next.map(|marker| json!({"rel": "next", "href": format!("https://inside.example/v2.0/networks?limit=1&marker={marker}")}));
            let links: Vec<_> = link.into_iter().chain([json!({"rel": "previous", "href": "http://x/?page_reverse=True"})]).collect();
            json_answer(200, &json!({"networks": [{"id": id, "name": "n"}], "networks_links": links}))
        };
        let reply = match seen.path.as_str() {
            "/v2.0/networks?name=n" => page("one", Some("one")),
            "/v2.0/networks?limit=1&marker=one" => page("two", Some("two")),
            "/v2.0/networks?limit=1&marker=two" => page("three", None),
            other => answer(500, format!("unexpected: {other}")),
        };
        async move { reply }
    })
    .await;
    let filter = NetworkFilter { name: Some("n".to_owned()), ..Default::default() };
    let found = client(stub.url(), PATIENT).networks(&filter).await.unwrap();
    assert_eq!(found.iter().map(|network| network.id.as_str()).collect::<Vec<_>>(), ["one", "two", "three"]);
}

#[tokio::test]
async fn equality_is_checked_here_because_mariadb_takes_no_notice_of_case() {
    let stub = Stub::start(|_, _| async {
        let network = |id: &str, name: &str, tags: &[&str]| json!({"id": id, "name": name, "description": name, "project_id": "p", "tags": tags});
        json_answer(200, &json!({"networks": [network("1", "web", &["a", "b"]), network("2", "Web", &["A", "B"]), network("3", "wéb", &[])]}))
    })
    .await;
    let neutron = client(stub.url(), PATIENT);
    let web = || Some("web".to_owned());
    for filter in [
        NetworkFilter { name: web(), ..Default::default() },
        NetworkFilter { description: web(), ..Default::default() },
        NetworkFilter { tags: vec!["a".to_owned(), "b".to_owned()], ..Default::default() },
    ] {
        let found = neutron.networks(&filter).await.unwrap();
        assert_eq!(found.iter().map(|network| network.id.as_str()).collect::<Vec<_>>(), ["1"], "for {filter:?}");
    }
    let paths: Vec<_> = stub.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/v2.0/networks?name=web", "/v2.0/networks?description=web", "/v2.0/networks?tags=a%2Cb"]);
}

#[tokio::test]
async fn a_revision_goes_with_the_request_and_only_the_given_fields_change() {
    let stub = Stub::start(|_, _| async { json_answer(200, &json!({"network": {"id": "x"}})) }).await;
    let neutron = client(&format!("{}/networking/", stub.url()), PATIENT);
    let change = neutron::NetworkChange { name: Some("web".to_owned()), ..Default::default() };
    neutron.update_network("x", &change, Some(7)).await.unwrap();
    neutron.update_network("x", &change, None).await.unwrap();
    neutron.create_network(&NewNetwork { name: "web".to_owned(), ..Default::default() }).await.unwrap();
    let seen = stub.seen();
    assert_eq!(seen[0].path, "/networking/v2.0/networks/x");
    assert_eq!(seen[0].if_match.as_deref(), Some("revision_number=7"));
    assert_eq!(seen[0].body, json!({"network": {"name": "web"}}));
    assert_eq!(seen[1].if_match, None);
    assert_eq!(seen[2].body, json!({"network": {"name": "web", "description": ""}}));
}
