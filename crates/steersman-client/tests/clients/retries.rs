//! Which requests are sent again, and which are not.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response};
use http_body_util::Full;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{Client, Error, ListParams, PostParams, TimeoutError};
use steersman_testing::Log;
use tokio::time::Instant;

use super::loopback::{Loopback, Then};
use super::{MAP, answer, builder, no_timeouts, server};

const PATH: &str = "/api/v1/namespaces/default/configmaps";

fn refusal(code: u16, retry_after: Option<&str>) -> Response<Full<Bytes>> {
    let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Busy","message":"later"}"#;
    let mut response = answer(code, body);
    if let Some(value) = retry_after {
        response.headers_mut().insert("retry-after", value.parse().unwrap());
    }
    response
}

async fn ask(client: &Client, method: &Method) -> Result<(), Error> {
    client.rest().verb(method.clone()).abs_path(PATH).json(&serde_json::json!({})).send().await.map(drop)
}

const ALL: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

#[tokio::test(start_paused = true)]
async fn a_request_is_retried_after_the_server_s_delay() {
    for code in [429, 500, 503, 504] {
        for method in ALL {
            let (service, seen) =
                server(move |before, _| if before < 2 { refusal(code, Some("7")) } else { answer(200, MAP) });
            let client = builder().build_over(service).unwrap();
            let started = Instant::now();
            ask(&client, &method).await.unwrap();
            assert_eq!(seen.len(), 3, "{method} after {code}");
            assert_eq!(started.elapsed().as_secs(), 14, "{method} after {code}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_again_more_than_ten_times() {
    let (service, seen) = server(|_, _| refusal(429, Some("1")));
    let error = ask(&builder().build_over(service).unwrap(), &Method::GET).await.unwrap_err();
    assert!(error.is_too_many_requests());
    assert_eq!(seen.len(), 11);

    let (service, seen) = server(|_, _| refusal(503, Some("1")));
    ask(&builder().retries(2).build_over(service).unwrap(), &Method::POST).await.unwrap_err();
    assert_eq!(seen.len(), 3);

    let (service, seen) = server(|_, _| refusal(503, Some("1")));
    ask(&builder().retries(0).build_over(service).unwrap(), &Method::GET).await.unwrap_err();
    assert_eq!(seen.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_retry_after_nothing_is_sent_again() {
    for code in [429, 500, 502, 503, 504] {
        for method in ALL {
            let (service, seen) = server(move |_, _| refusal(code, None));
            let error = ask(&builder().build_over(service).unwrap(), &method).await.unwrap_err();
            assert_eq!((error.status().unwrap().code, seen.len()), (code, 1), "{method}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn other_codes_and_strange_delays_are_not_sent_again() {
    for (code, retry_after) in [(409, "1"), (404, "1"), (503, "Wed, 21 Oct 2015 07:28:00 GMT"), (503, "-1"), (503, "")]
    {
        let (service, seen) = server(move |_, _| refusal(code, Some(retry_after)));
        ask(&builder().build_over(service).unwrap(), &Method::GET).await.unwrap_err();
        assert_eq!(seen.len(), 1, "{code} {retry_after:?}");
    }
}

/// The retry is the same request, with its body.
#[tokio::test(start_paused = true)]
async fn the_body_is_sent_again_as_well() {
    use http_body_util::BodyExt;
    let bodies = Log::new();
    let service = tower::service_fn({
        let bodies = bodies.clone();
        move |request: http::Request<kube_client::client::Body>| {
            let bodies = bodies.clone();
            async move {
                let (parts, body) = request.into_parts();
                let content_type = parts.headers.get("content-type").cloned();
                bodies.push((parts.uri.to_string(), content_type, body.collect().await?.to_bytes()));
                Ok::<_, tower::BoxError>(if bodies.len() < 2 { refusal(429, Some("1")) } else { answer(201, MAP) })
            }
        }
    });
    let maps = builder().build_over(service).unwrap().namespaced::<ConfigMap>("default");
    let map = ConfigMap { data: Some([("k".into(), "v".into())].into()), ..Default::default() };
    maps.create(&PostParams::default(), &map).await.unwrap();
    let bodies = bodies.all();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
    assert!(!bodies[0].2.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_read_whose_connection_is_reset_is_sent_again() {
    let mut server = Loopback::start([Then::Reset, Then::close(""), Then::json(MAP)]).await;
    let maps = server.without_timeouts().namespaced::<ConfigMap>("default");
    let started = Instant::now();
    maps.get("a").await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(2), "one second before each");
    for _ in 0..3 {
        assert!(server.request().await.starts_with("GET /api/v1/namespaces/default/configmaps/a HTTP/1.1"));
    }
    assert_eq!(server.more(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_connection_is_lost_is_sent_exactly_once() {
    for then in [Then::Reset, Then::close(""), Then::close("HTTP/1.1 201 Crea")] {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let mut server = Loopback::start([then.clone()]).await;
            let error = ask(&server.without_timeouts(), &method).await.unwrap_err();
            assert!(matches!(error, Error::Transport { .. }), "{error}");
            assert!(error.to_string().starts_with(&format!("{method} http://{}{PATH}: ", server.address)), "{error}");
            assert!(server.request().await.starts_with(method.as_str()));
            assert_eq!(server.more(), 0, "{method} after {then:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_never_answered_is_sent_eleven_times() {
    let mut server = Loopback::start([Then::Reset]).await;
    let maps = server.without_timeouts().namespaced::<ConfigMap>("default");
    maps.list(&ListParams::default()).await.unwrap_err();
    server.request().await;
    assert_eq!(server.more(), 10);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_is_not_asked_for_again() {
    let half = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"kind\"";
    let mut server = Loopback::start([Then::close(half)]).await;
    let maps = server.without_timeouts().namespaced::<ConfigMap>("default");
    let error = maps.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    server.request().await;
    assert_eq!(server.more(), 0);
}

/// The caller of a watch knows the version to continue from.
#[tokio::test(start_paused = true)]
async fn a_watch_whose_connection_is_lost_is_not_started_again() {
    let mut server = Loopback::start([Then::Reset]).await;
    let watch =
        server.without_timeouts().rest().get().abs_path("/api/v1/configmaps?watch=true&resourceVersion=7").send().await;
    assert!(matches!(watch.unwrap_err(), Error::Transport { .. }));
    server.request().await;
    assert_eq!(server.more(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_retried_after_the_server_s_delay() {
    let (service, seen) = server(|before, _| if before == 0 { refusal(429, Some("3")) } else { answer(200, "") });
    let client = builder().build_over(service).unwrap();
    client.rest().get().abs_path("/api/v1/configmaps?watch=true").send().await.unwrap();
    assert_eq!(seen.len(), 2);
}

/// A request to a silent server is not repeated: the server may be busy with the first one.
#[tokio::test(start_paused = true)]
async fn a_timeout_is_not_tried_again() {
    let seen = Log::new();
    let silent = tower::service_fn({
        let seen = seen.clone();
        move |_| {
            seen.push(());
            std::future::pending::<Result<Response<Full<Bytes>>, tower::BoxError>>()
        }
    });
    let error = ask(&builder().build_over(silent).unwrap(), &Method::GET).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(seen.len(), 1);
}

/// The server's delay, as the caller of a failed request gets it.
fn delay_of(error: &Error) -> u32 {
    error.status().and_then(|status| status.details.as_ref()).map_or(0, |details| details.retry_after_seconds)
}

/// The caller learns at once that the server is busy, not after a wait that cannot succeed.
#[tokio::test(start_paused = true)]
async fn a_delay_that_exceeds_the_request_s_timeout_is_not_waited_for() {
    for (code, delay) in [(429, "864000"), (503, "5"), (503, "18446744073709551615")] {
        let (service, seen) = server(move |_, _| refusal(code, Some(delay)));
        let client = builder().timeouts(no_timeouts()).build_over(service).unwrap();
        let started = Instant::now();
        let send = client.rest().get().abs_path(PATH).timeout(Duration::from_secs(5)).send();
        let error = send.await.unwrap_err();
        assert_eq!((error.status().unwrap().code, seen.len()), (code, 1), "{error}");
        assert_eq!(u64::from(delay_of(&error)), delay.parse::<u64>().unwrap().min(u32::MAX.into()));
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_s_timeout_covers_all_attempts_and_the_waits_between_them() {
    let (service, seen) = server(|_, _| refusal(503, Some("2")));
    let client = builder().build_over(service).unwrap();
    let started = Instant::now();
    let send = client.rest().get().abs_path(PATH).timeout(Duration::from_secs(5)).send();
    assert_eq!(send.await.unwrap_err().status().unwrap().code, 503);
    assert_eq!((seen.len(), started.elapsed().as_secs()), (3, 4), "a fourth attempt would begin after 6 s");

    // The second attempt has the time that the first attempt and the wait have left.
    let seen = Log::new();
    let slow = tower::service_fn({
        let seen = seen.clone();
        move |_| {
            let attempts = seen.len();
            seen.push(());
            async move {
                tokio::time::sleep(Duration::from_secs(3)).await;
                Ok::<_, tower::BoxError>(if attempts == 0 { refusal(429, Some("1")) } else { answer(200, MAP) })
            }
        }
    });
    let client = builder().build_over(slow).unwrap();
    let started = Instant::now();
    let error = client.rest().get().abs_path(PATH).timeout(Duration::from_secs(5)).send().await.unwrap_err();
    let Error::Timeout { timeout, .. } = error else { panic!("{error}") };
    assert_eq!(timeout, TimeoutError::Response(Duration::from_secs(5)));
    assert_eq!((seen.len(), started.elapsed().as_secs()), (2, 5));
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_not_retried_beyond_the_request_s_timeout() {
    let seen = Log::new();
    let resets = tower::service_fn({
        let seen = seen.clone();
        move |_| {
            seen.push(());
            let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            std::future::ready(Err::<Response<Full<Bytes>>, tower::BoxError>(lost.into()))
        }
    });
    let client = builder().build_over(resets).unwrap();
    let started = Instant::now();
    let error = client.rest().get().abs_path(PATH).timeout(Duration::from_millis(2500)).send().await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error}");
    assert_eq!((seen.len(), started.elapsed().as_secs()), (3, 2));
}

/// A request without a timeout of its own does not wait for days, either.
#[tokio::test(start_paused = true)]
async fn a_delay_above_a_minute_is_left_to_the_caller() {
    let (service, seen) = server(|_, _| refusal(429, Some("61")));
    let started = Instant::now();
    let error = ask(&builder().timeouts(no_timeouts()).build_over(service).unwrap(), &Method::GET).await.unwrap_err();
    assert_eq!((error.status().unwrap().code, delay_of(&error), seen.len()), (429, 61, 1));
    assert_eq!(started.elapsed(), Duration::ZERO);

    let (service, seen) = server(|before, _| if before == 0 { refusal(429, Some("60")) } else { answer(200, MAP) });
    ask(&builder().build_over(service).unwrap(), &Method::GET).await.unwrap();
    assert_eq!((seen.len(), started.elapsed().as_secs()), (2, 60));
}

#[tokio::test(start_paused = true)]
async fn a_watch_does_not_wait_longer_either() {
    let (service, seen) = server(|_, _| refusal(429, Some("864000")));
    let client = builder().build_over(service).unwrap();
    let started = Instant::now();
    client.rest().get().abs_path("/api/v1/configmaps?watch=true").send().await.unwrap_err();
    assert_eq!((seen.len(), started.elapsed()), (1, Duration::ZERO));
}
