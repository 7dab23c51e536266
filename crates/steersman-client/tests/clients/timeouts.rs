//! Silent servers, and how long a client waits for them. Time is paused, and advances when all
//! tasks are idle.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use steersman_client::{Client, Error, TimeoutError, Timeouts};
use steersman_testing::eventually;
use tokio::time::{Instant, pause};

use super::loopback::{Loopback, Then};
use super::{MAP, answer, builder, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const EVENT: &str = "{\"type\":\"ADDED\",\"object\":{}}\n";

/// A chunk of a response without a content length.
fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn chunked(text: &str) -> String {
    format!("{HEAD}transfer-encoding: chunked\r\n\r\n{}", chunk(text))
}

/// Sends a GET, pauses time after the server has read it, and returns the error and the duration.
async fn fails(mut server: Loopback, client: Client, path: &str) -> (Error, Duration) {
    let get = client.rest().get().abs_path(path).send();
    let get = tokio::spawn(get);
    server.request().await;
    pause();
    let started = Instant::now();
    let error = get.await.unwrap().unwrap_err();
    (error, started.elapsed())
}

fn timeout(error: &Error) -> TimeoutError {
    match error {
        Error::Timeout { timeout, .. } => *timeout,
        other => panic!("no timeout: {other}"),
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn about(limit: u64, took: Duration) {
    assert!(took <= seconds(limit + 1) && took + seconds(2) > seconds(limit), "{took:?} instead of {limit} s");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_after_65_seconds() {
    let server = Loopback::start([Then::hang("")]).await;
    let (address, client) = (server.address, server.client().build().unwrap());
    let (error, took) = fails(server, client, MAPS).await;
    assert_eq!(timeout(&error), TimeoutError::Response(seconds(65)));
    assert_eq!(error.to_string(), format!("GET http://{address}{MAPS}: no response within 65s"));
    about(65, took);
}

#[tokio::test]
async fn half_a_head_is_no_answer() {
    let server = Loopback::start([Then::hang("HTTP/1.1 200 OK\r\ncontent-ty")]).await;
    let client = server.client().build().unwrap();
    let (error, took) = fails(server, client, MAPS).await;
    assert_eq!(timeout(&error), TimeoutError::Response(seconds(65)));
    about(65, took);
}

#[tokio::test]
async fn a_watch_that_does_not_start_is_given_up_sooner() {
    let server = Loopback::start([Then::hang("")]).await;
    let client = server.client().build().unwrap();
    let (error, took) = fails(server, client, "/api/v1/configmaps?watch=true").await;
    assert_eq!(timeout(&error), TimeoutError::Response(seconds(30)));
    about(30, took);
}

#[tokio::test]
async fn an_answer_that_stops_in_the_middle_of_a_chunk_is_given_up() {
    let text = format!("{HEAD}transfer-encoding: chunked\r\n\r\n{}40\r\nhalf of", chunk("whole"));
    let server = Loopback::start([Then::hang(&text)]).await;
    let client = server.client().build().unwrap();
    let mut body = client.rest().get().abs_path(MAPS).stream().await.unwrap().boxed();
    assert_eq!(body.try_next().await.unwrap().unwrap(), "whole");
    assert_eq!(body.try_next().await.unwrap().unwrap(), "half of");
    pause();
    let started = Instant::now();
    let error = body.try_next().await.unwrap_err();
    assert_eq!(timeout(&error), TimeoutError::Idle(seconds(60)));
    let wanted = format!("GET http://{}{MAPS}: the response stalled: no data for 60s", server.address);
    assert_eq!(error.to_string(), wanted);
    about(60, started.elapsed());
}

#[tokio::test]
async fn a_whole_list_that_stops_in_the_middle_fails_too() {
    let server = Loopback::start([Then::hang(&chunked("{\"kind\":"))]).await;
    let mut timeouts = super::no_timeouts();
    timeouts.idle = Some(Duration::from_millis(20));
    let client = server.client().timeouts(timeouts).build().unwrap();
    let error = client.rest().get().abs_path(MAPS).send().await.unwrap_err();
    assert_eq!(timeout(&error), TimeoutError::Idle(Duration::from_millis(20)));
}

#[tokio::test]
async fn a_watch_that_falls_silent_is_given_up() {
    let server = Loopback::start([Then::hang(&chunked(EVENT))]).await;
    let client = server.client().build().unwrap();
    let path = "/api/v1/configmaps?watch=true&allowWatchBookmarks=true";
    let mut body = client.rest().get().abs_path(path).stream().await.unwrap().boxed();
    assert_eq!(body.try_next().await.unwrap().unwrap(), EVENT);
    pause();
    let started = Instant::now();
    let error = body.try_next().await.unwrap_err();
    assert_eq!(timeout(&error), TimeoutError::WatchIdle(seconds(180)));
    assert!(error.to_string().ends_with(": no data from the watch for 180s"), "{error}");
    about(180, started.elapsed());
}

#[tokio::test]
async fn a_watch_without_bookmarks_may_be_silent() {
    let server = Loopback::start([Then::hang(&chunked(EVENT))]).await;
    let client = server.client().build().unwrap();
    let mut body = client.rest().get().abs_path("/api/v1/configmaps?watch=1").stream().await.unwrap().boxed();
    body.try_next().await.unwrap().unwrap();
    pause();
    let silence = tokio::time::timeout(seconds(3600), body.next()).await;
    assert!(silence.is_err(), "an hour has gone by, and the watch is on");
}

#[tokio::test]
async fn a_log_that_is_followed_may_be_silent() {
    let server = Loopback::start([Then::hang(&chunked("line\n"))]).await;
    let client = server.client().build().unwrap();
    let path = "/api/v1/namespaces/default/pods/a/log?follow=true";
    let mut body = client.rest().get().abs_path(path).stream().await.unwrap().boxed();
    body.try_next().await.unwrap().unwrap();
    pause();
    assert!(tokio::time::timeout(seconds(3600), body.next()).await.is_err());
}

/// A list may take any time as long as data comes.
#[tokio::test(start_paused = true)]
async fn a_slow_list_is_not_silent() {
    let slow = tower::service_fn(|_| async {
        let parts = futures::stream::unfold(0, |sent| async move {
            tokio::time::sleep(seconds(50)).await;
            (sent < 10).then(|| (Ok::<_, std::io::Error>(http_body::Frame::data(bytes::Bytes::from("x"))), sent + 1))
        });
        Ok::<_, tower::BoxError>(http::Response::new(http_body_util::StreamBody::new(parts)))
    });
    let client = builder().build_over(slow).unwrap();
    let started = Instant::now();
    let answer = client.rest().get().abs_path(MAPS).send().await.unwrap();
    assert_eq!(answer.body(), "xxxxxxxxxx");
    assert!(started.elapsed() >= seconds(500));
}

#[tokio::test(start_paused = true)]
async fn a_request_sends_its_own_timeout_to_the_server() {
    let (service, seen) = server(|_, _| answer(200, MAP));
    let slow = tower::service_fn(move |request| {
        let service = service.clone();
        async move {
            tokio::time::sleep(seconds(3)).await;
            tower::ServiceExt::oneshot(service, request).await
        }
    });
    let client = builder().build_over(slow).unwrap();
    let get = |limit| client.rest().get().abs_path("/version").timeout(limit).send();
    let error = get(seconds(2)).await.unwrap_err();
    assert_eq!(timeout(&error), TimeoutError::Response(seconds(2)));
    get(seconds(7)).await.unwrap();
    assert_eq!(seen.all()[0].uri(), "/version?timeout=7s");
    // The longest timeout that the server can read.
    get(Duration::MAX).await.unwrap();
    assert_eq!(seen.all()[1].uri(), "/version?timeout=9223372036s");
}

/// A body of single bytes, one every 3 s.
fn trickle() -> impl http_body::Body<Data = bytes::Bytes, Error = std::io::Error> + Send {
    http_body_util::StreamBody::new(futures::stream::unfold(0, |sent| async move {
        tokio::time::sleep(seconds(3)).await;
        (sent < 10).then(|| (Ok::<_, std::io::Error>(http_body::Frame::data(bytes::Bytes::from("x"))), sent + 1))
    }))
}

/// The timeout of a stream covers its head only: a stream has no end.
#[tokio::test(start_paused = true)]
async fn a_request_s_timeout_covers_the_body_of_an_answer_that_is_read_to_its_end() {
    for code in [200, 500] {
        let slow = tower::service_fn(move |_| {
            let response = http::Response::builder().status(code).body(trickle()).unwrap();
            std::future::ready(Ok::<_, tower::BoxError>(response))
        });
        let client = builder().build_over(slow).unwrap();
        let get = || client.rest().get().abs_path(MAPS).timeout(seconds(5));
        let started = Instant::now();
        let error = get().send().await.unwrap_err();
        assert_eq!((timeout(&error), started.elapsed().as_secs()), (TimeoutError::Request(seconds(5)), 5));
        assert_eq!(
            error.to_string(),
            format!("GET {}{MAPS}?timeout=5s: the response was not complete within 5s", super::SERVER)
        );
        if code == 200 {
            let parts: Vec<_> = get().stream().await.unwrap().try_collect().await.unwrap();
            assert_eq!(parts.len(), 10);
        }
    }
}

/// The longest and the shortest value of each limit, in every class of request that it applies to.
#[tokio::test(start_paused = true)]
async fn no_limit_is_too_long_or_too_short() {
    let all = |limit| {
        let mut timeouts = Timeouts::default();
        timeouts.connect = Some(limit);
        timeouts.response = Some(limit);
        timeouts.idle = Some(limit);
        timeouts.watch_response = Some(limit);
        timeouts.watch_idle = Some(limit);
        timeouts
    };
    let paths = [MAPS, "/api/v1/configmaps?watch=true&allowWatchBookmarks=true"];
    let slow = tower::service_fn(|_| async {
        tokio::time::sleep(seconds(1)).await;
        Ok::<_, tower::BoxError>(http::Response::new(trickle()))
    });
    for limit in [Duration::MAX, Duration::from_secs(u64::MAX), seconds(1 << 40)] {
        for path in paths {
            let client = builder().timeouts(all(limit)).build_over(slow).unwrap();
            assert_eq!(client.rest().get().abs_path(path).send().await.unwrap().body(), "xxxxxxxxxx");
            assert_eq!(client.rest().get().abs_path(path).timeout(limit).send().await.unwrap().body(), "xxxxxxxxxx");
        }
    }
    for path in paths {
        let client = builder().timeouts(all(Duration::ZERO)).build_over(slow).unwrap();
        let error = client.rest().get().abs_path(path).send().await.unwrap_err();
        assert_eq!(timeout(&error), TimeoutError::Response(Duration::ZERO));
        let client = builder().build_over(slow).unwrap();
        let error = client.rest().get().abs_path(path).timeout(Duration::ZERO).send().await.unwrap_err();
        assert_eq!(timeout(&error), TimeoutError::Response(Duration::ZERO));
    }
}

/// Over a socket, where the connector has its own timer.
#[tokio::test]
async fn a_connection_may_be_waited_for_without_end() {
    let server = Loopback::start([Then::json(MAP)]).await;
    for limit in [Duration::MAX, Duration::from_secs(u64::MAX)] {
        let mut timeouts = super::no_timeouts();
        timeouts.connect = Some(limit);
        let client = server.client().timeouts(timeouts).build().unwrap();
        client.rest().get().abs_path(MAPS).send().await.unwrap();
    }
}

#[tokio::test]
async fn a_closed_port_is_a_refused_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = steersman_client::Config::new(format!("http://{address}").parse().unwrap());
    let error = Client::builder(config).build().unwrap().rest().get().abs_path(MAPS).send().await.unwrap_err();
    assert!(error.is_connection_refused(), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("GET http://{address}{MAPS}")) && text.contains("refused"), "{text}");
}

/// A server with a full backlog does not even refuse connections.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_made_is_given_up_after_30_seconds() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let _fills_the_queue = tokio::net::TcpStream::connect(address).await.unwrap();
    let config = steersman_client::Config::new(format!("http://{address}").parse().unwrap());
    let mut timeouts = super::no_timeouts();
    timeouts.connect = Timeouts::default().connect;
    let client = Client::builder(config).timeouts(timeouts).build().unwrap();
    let started = Instant::now();
    let error = client.rest().get().abs_path(MAPS).send().await.unwrap_err();
    assert_eq!(timeout(&error), TimeoutError::Connect(seconds(30)));
    assert_eq!(error.to_string(), format!("GET http://{address}{MAPS}: no connection within 30s"));
    about(30, started.elapsed());
}

/// A server that sends the head of its response after `head`, and its body `silence` later.
fn late(head: Duration, silence: Duration) -> Client {
    let late = tower::service_fn(move |_| async move {
        tokio::time::sleep(head).await;
        let part = futures::stream::once(async move {
            tokio::time::sleep(silence).await;
            Ok::<_, std::io::Error>(http_body::Frame::data(bytes::Bytes::from(MAP)))
        });
        Ok::<_, tower::BoxError>(http::Response::new(http_body_util::StreamBody::new(part)))
    });
    builder().build_over(late).unwrap()
}

/// The default limits that [`Timeouts`] documents. The one for connections has its own test above,
/// over a socket.
#[tokio::test(start_paused = true)]
async fn what_comes_just_within_a_documented_limit_is_taken_and_what_comes_after_it_is_not() {
    let tick = Duration::from_millis(1);
    let watch = "/api/v1/configmaps?watch=true&allowWatchBookmarks=true";
    let followed = "/api/v1/namespaces/default/pods/a/log?follow=true";
    let heads = [(MAPS, 65), (followed, 65), (watch, 30)];
    for (path, limit) in heads {
        let limit = seconds(limit);
        let get = |head| async move { late(head, Duration::ZERO).rest().get().abs_path(path).send().await };
        get(limit - tick).await.unwrap();
        let started = Instant::now();
        let error = get(limit + tick).await.unwrap_err();
        assert_eq!((timeout(&error), started.elapsed()), (TimeoutError::Response(limit), limit), "{path}");
    }
    let bodies = [(MAPS, TimeoutError::Idle(seconds(60))), (watch, TimeoutError::WatchIdle(seconds(180)))];
    for (path, wanted) in bodies {
        let get = |silence| async move { late(Duration::ZERO, silence).rest().get().abs_path(path).send().await };
        get(wanted.limit() - tick).await.unwrap();
        let started = Instant::now();
        let error = get(wanted.limit() + tick).await.unwrap_err();
        assert_eq!((timeout(&error), started.elapsed()), (wanted, wanted.limit()), "{path}");
    }
}

/// The system's table of sockets shows the keepalive timer of each connection.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn connections_are_kept_alive() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client =
        steersman_client::Client::builder(steersman_client::Config::new(url.parse().unwrap())).build().unwrap();
    let asking = tokio::spawn(async move { client.rest().get().abs_path("/version").send().await });
    let (mut stream, peer) = listener.accept().await.unwrap();
    // Nothing is left to send, which would have another timer.
    tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await.unwrap();
    let port = format!(":{:04X}", peer.port());
    eventually("the connection has a keepalive timer", || {
        let sockets = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let mut sockets = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let ours = sockets.find(|fields| fields.get(1).is_some_and(|local| local.ends_with(&port))).unwrap();
        // 2 is the keepalive timer.
        std::future::ready(ours[5].starts_with("02:"))
    })
    .await;
    asking.abort();
}
