//! Metrics, warnings, and the headers that describe the client.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{
    Client, Config, Error, ListParams, LogWarnings, NoWarnings, RequestMetrics, RequestSample, Warning, WarningHandler,
};
use steersman_testing::Log;

use super::loopback::{Loopback, Then};
use super::{MAP, answer, builder, server};

/// A handler that collects the calls.
#[derive(Debug)]
struct Recorder<T>(Log<T>);

impl RequestMetrics for Recorder<(Method, Option<u16>, String, u64)> {
    fn request(&self, sample: RequestSample<'_>) {
        let RequestSample { method, code, host, duration, .. } = sample;
        self.0.push((method.clone(), code, host.to_owned(), duration.as_secs()));
    }
}

impl WarningHandler for Recorder<Warning> {
    fn warn(&self, warning: &Warning) {
        self.0.push(warning.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_counted_with_verb_code_and_host() {
    let (service, _) = server(|before, _| {
        let mut response = answer(if before == 0 { 503 } else { 200 }, MAP);
        response.headers_mut().insert("retry-after", "5".parse().unwrap());
        response
    });
    let slow = tower::service_fn(move |request| {
        let service = service.clone();
        async move {
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            tower::ServiceExt::oneshot(service, request).await
        }
    });
    let metrics = Log::<(Method, Option<u16>, String, u64)>::new();
    let client = builder().metrics(Recorder(metrics.clone())).build_over(slow).unwrap();
    client.namespaced::<ConfigMap>("default").get("a").await.unwrap();
    client.rest().delete().abs_path("/api/v1/namespaces/default/configmaps/a").send().await.unwrap();
    let host = "server.test:8080".to_owned();
    let wanted = [(Method::GET, 503), (Method::GET, 200), (Method::DELETE, 200)];
    assert_eq!(metrics.all(), wanted.map(|(method, code)| (method, Some(code), host.clone(), 2)));
}

impl RequestMetrics for Recorder<Option<u64>> {
    fn request(&self, sample: RequestSample<'_>) {
        self.0.push(sample.request_size);
    }
}

#[tokio::test]
async fn requests_of_one_handle_are_counted_with_the_size_of_their_body() {
    let (service, _) = server(|_, _| answer(200, MAP));
    let (of_builder, of_handle) = (Log::<Option<u64>>::new(), Log::<Option<u64>>::new());
    let client = builder().metrics(Recorder(of_builder.clone())).build_over(service).unwrap();
    let counted = client.clone().with_request_metrics(Arc::new(Recorder(of_handle.clone())));
    client.namespaced::<ConfigMap>("default").get("a").await.unwrap();
    let path = "/api/v1/namespaces/default/configmaps";
    counted.rest().post().abs_path(path).body("application/json", MAP).send().await.unwrap();
    let size = Some(MAP.len() as u64);
    assert_eq!((of_builder.all(), of_handle.all()), (vec![None, size], vec![size]));
}

/// One line for each call but `request`.
impl RequestMetrics for Recorder<String> {
    fn request(&self, _: RequestSample<'_>) {}

    fn rate_limited(&self, method: &Method, host: &str, waited: Duration) {
        self.0.push(format!("{method} {host} waited {} s", waited.as_secs()));
    }

    fn retried(&self, code: Option<u16>, method: &Method, host: &str) {
        self.0.push(format!("{method} {host} repeated after {code:?}"));
    }

    fn wants_response_bodies(&self) -> bool {
        true
    }

    fn response_body(&self, method: &Method, host: &str, bytes: u64) {
        self.0.push(format!("{method} {host} had {bytes} bytes"));
    }

    fn resolved(&self, host: &str, _: Duration) {
        self.0.push(format!("{host} resolved"));
    }
}

#[tokio::test(start_paused = true)]
async fn waits_retries_and_responses_are_reported_by_verb_and_host() {
    let (service, _) = server(|before, request| {
        let mut response = answer(if before == 0 { 429 } else { 200 }, MAP);
        if request.uri().query().is_some_and(|query| query.contains("watch")) {
            response = answer(200, "{\"type\":\"BOOKMARK\"}\n");
        }
        response.headers_mut().insert("retry-after", "5".parse().unwrap());
        response
    });
    let (of_builder, of_handle) = (Log::<String>::new(), Log::<String>::new());
    let client = builder().rate_limit(0.1, 1).metrics(Recorder(of_builder.clone())).build_over(service).unwrap();
    let client = client.with_request_metrics(Arc::new(Recorder(of_handle.clone())));
    client.namespaced::<ConfigMap>("default").get("a").await.unwrap();
    // A watch has no end, and waits for no token.
    let watch = client.rest().get().abs_path("/api/v1/configmaps?watch=true").stream().await.unwrap();
    let host = "server.test:8080";
    // The body of the first response is discarded: it was read to its end, too.
    let wanted = [
        format!("GET {host} waited 0 s"),
        format!("GET {host} repeated after Some(429)"),
        format!("GET {host} had {} bytes", MAP.len()),
        format!("GET {host} waited 5 s"),
        format!("GET {host} had {} bytes", MAP.len()),
    ];
    assert_eq!((of_builder.all(), of_handle.all()), (wanted.to_vec(), wanted.to_vec()));
    drop(watch);
}

#[tokio::test]
async fn a_read_that_lost_its_connection_is_reported_as_repeated() {
    let loopback = Loopback::start([Then::Reset, Then::json(MAP)]).await;
    let seen = Log::<String>::new();
    let config = Config::new(format!("http://localhost:{}", loopback.address.port()).parse().unwrap());
    let client = Client::builder(config).build().unwrap().with_request_metrics(Arc::new(Recorder(seen.clone())));
    client.namespaced::<ConfigMap>("default").get("a").await.unwrap();
    let host = format!("localhost:{}", loopback.address.port());
    // A name is looked up for each connection, an address never.
    let size = MAP.len();
    let wanted = ["localhost resolved", &format!("GET {host} repeated after None"), "localhost resolved"];
    assert_eq!((seen.all()[..3].to_vec(), seen.len()), (wanted.map(ToOwned::to_owned).to_vec(), 4));
    assert_eq!(seen.all()[3], format!("GET {host} had {size} bytes"));
    let by_address = Log::<String>::new();
    let config = Config::new(format!("http://{}", loopback.address).parse().unwrap());
    let client = Client::builder(config).metrics(Recorder(by_address.clone())).build().unwrap();
    client.namespaced::<ConfigMap>("default").get("a").await.unwrap();
    assert_eq!(by_address.all(), [format!("GET {} had {size} bytes", loopback.address)]);
}

#[tokio::test]
async fn an_attempt_without_a_response_is_counted_without_a_code() {
    let fails = tower::service_fn(|_| async {
        Err::<http::Response<http_body_util::Full<bytes::Bytes>>, tower::BoxError>("no way".into())
    });
    let metrics = Log::<(Method, Option<u16>, String, u64)>::new();
    let client = builder().metrics(Recorder(metrics.clone())).build_over(fails).unwrap();
    let error = client.namespaced::<ConfigMap>("default").get("a").await.unwrap_err();
    assert!(error.to_string().contains("no way"), "{error}");
    assert_eq!(metrics.all(), [(Method::GET, None, "server.test:8080".to_owned(), 0)]);
}

#[tokio::test]
async fn warnings_go_to_the_handler_and_are_in_the_answer() {
    let (service, _) = server(|_, _| {
        let mut response = answer(200, MAP);
        response.headers_mut().append("warning", r#"299 - "one, \"quoted\"", 299 agent "two""#.parse().unwrap());
        response.headers_mut().append("warning", r#"299 - "three""#.parse().unwrap());
        response.headers_mut().append("warning", "not a warning".parse().unwrap());
        response
    });
    let warnings = Log::new();
    let client = builder().warnings(Recorder(warnings.clone())).build_over(service.clone()).unwrap();
    let answer = client.rest().get().abs_path("/api/v1/configmaps").send().await.unwrap();
    let wanted = ["one, \"quoted\"", "two", "three"];
    let texts = |warnings: Vec<Warning>| warnings.into_iter().map(|warning| warning.text).collect::<Vec<_>>();
    assert_eq!(texts(warnings.all()), wanted);
    assert_eq!(texts(answer.warnings()), wanted);
    assert_eq!(answer.warnings()[1], Warning { code: 299, agent: "agent".into(), text: "two".into() });
    // The handlers of this crate accept them, too.
    for client in [builder().warnings(NoWarnings), builder().warnings(LogWarnings::default())] {
        client.build_over(service.clone()).unwrap().rest().get().abs_path("/version").send().await.unwrap();
    }
}

#[tokio::test]
async fn a_refusal_warns_as_well() {
    let (service, _) = server(|_, _| {
        let mut response = answer(404, "{}");
        response.headers_mut().append("warning", r#"299 - "gone soon""#.parse().unwrap());
        response
    });
    let warnings = Log::new();
    let client = builder().warnings(Recorder(warnings.clone())).build_over(service).unwrap();
    client.namespaced::<ConfigMap>("default").get("a").await.unwrap_err();
    assert_eq!(warnings.len(), 1);
}

#[tokio::test]
async fn the_user_agent_names_program_system_and_crate() {
    let (service, seen) = server(|_, _| answer(200, MAP));
    builder().build_over(service.clone()).unwrap().rest().get().abs_path("/version").send().await.unwrap();
    builder().user_agent("mine/1").build_over(service).unwrap().rest().get().abs_path("/").send().await.unwrap();
    let agents: Vec<_> = seen.all().iter().map(|request| request.headers()["user-agent"].clone()).collect();
    let text = agents[0].to_str().unwrap();
    assert!(text.starts_with("clients-") && text.contains(std::env::consts::OS), "{text}");
    assert!(text.ends_with(concat!(" steersman/", env!("CARGO_PKG_VERSION"))), "{text}");
    assert_eq!(agents[1], "mine/1");
}

#[test]
fn a_user_agent_that_no_header_can_hold_is_refused() {
    let (service, _) = server(|_, _| answer(200, MAP));
    let error = builder().user_agent("two\nlines").build_over(service).unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error}");
}

#[tokio::test]
async fn json_is_asked_for_unless_the_request_asks_for_something() {
    let (service, seen) = server(|_, request| {
        answer(200, if request.uri().path().ends_with("/a") { MAP } else { r#"{"metadata":{},"items":[]}"# })
    });
    let client: Client = builder().protobuf(false).build_over(service).unwrap();
    let maps = client.namespaced::<ConfigMap>("default");
    maps.get("a").await.unwrap();
    maps.metadata().get("a").await.unwrap();
    maps.metadata().list(&ListParams::default()).await.unwrap();
    let request = client.rest().get().abs_path("/version");
    request.header(http::header::ACCEPT, http::HeaderValue::from_static("text/plain")).send().await.unwrap();
    let accepts: Vec<_> = seen.all().iter().map(|request| request.headers()["accept"].clone()).collect();
    assert_eq!(accepts[0], "application/json");
    let has = |at: usize, what: &str| accepts[at].to_str().unwrap().contains(what);
    assert!(has(1, "as=PartialObjectMetadata;"), "{accepts:?}");
    assert!(has(2, "as=PartialObjectMetadataList;"), "{accepts:?}");
    assert_eq!(accepts[3], "text/plain");
}

/// All clones share the handlers.
#[test]
fn handlers_may_be_shared() {
    fn is_shared<T: Send + Sync + ?Sized>() {}
    is_shared::<Arc<dyn RequestMetrics>>();
    is_shared::<Arc<dyn WarningHandler>>();
    is_shared::<Client>();
}
