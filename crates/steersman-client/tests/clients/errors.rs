//! The texts of errors, and what they must not contain.

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use steersman_client::{Client, Error, ListParams, PostParams, ResponseError};

use super::{SERVER, builder, server};

/// Part of a Secret's data, which no text may contain.
const HIDDEN: &str = "aGlkZGVu";
const PATH: &str = "/api/v1/namespaces/default/secrets/a";

fn over(code: u16, content_type: &'static str, body: String) -> Client {
    let (service, _) = server(move |_, _| {
        let response = Response::builder().status(code).header("content-type", content_type);
        response.body(Full::new(Bytes::from(body.clone()))).unwrap()
    });
    builder().build_over(service).unwrap()
}

async fn get(client: &Client) -> Error {
    client.namespaced::<Secret>("default").get("a").await.unwrap_err()
}

/// Every text of an error and its causes.
fn texts(error: &Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(" {error} {error:?}");
        cause = error.source();
    }
    text
}

fn hidden_in(body: &str) -> String {
    body.replace("HIDDEN", HIDDEN)
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_stays_out_of_the_error() {
    let bodies = [
        r#"{"apiVersion":"v1","kind":"Secret","data":"HIDDEN"}"#,
        r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":5},"data":{"password":"HIDDEN"}}"#,
        r#"{"apiVersion":"v1","kind":"Secret","data":{"password":"HIDDEN"}"#,
        r#"{"apiVersion":"v1","kind":"Secret","data":{"password":HIDDEN}}"#,
        r#"{"apiVersion":"v1","kind":"Secret","immutable":"HIDDEN"}"#,
        r#""HIDDEN""#,
        "password: HIDDEN",
    ];
    for body in bodies {
        let client = over(200, "application/json", hidden_in(body));
        let error = get(&client).await;
        assert!(matches!(error, Error::Decode { .. }), "{error}");
        assert!(!texts(&error).contains(HIDDEN), "{}", texts(&error));
        assert!(
            error.to_string().starts_with(&format!("GET {SERVER}{PATH}: the response is not k8s_openapi")),
            "{error}"
        );
        // The same in a list, as metadata only, and in the response to a write.
        let secrets = client.namespaced::<Secret>("default");
        let list = secrets.list(&ListParams::default()).await.unwrap_err();
        let create = secrets.create(&PostParams::default(), &Secret::default()).await.unwrap_err();
        for error in [list, create] {
            assert!(!texts(&error).contains(HIDDEN), "{}", texts(&error));
        }
    }
}

#[tokio::test]
async fn a_decoding_error_has_the_problem_and_its_position() {
    let error = get(&over(200, "application/json", "{\n  \"data\": 5}".into())).await;
    let Error::Decode { problem: ResponseError::Json { line, problem, expected, .. }, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((*line, *problem), (2, "a value is missing or has another type"));
    assert!(expected.ends_with("::Secret"), "{expected}");
    let error = get(&over(200, "application/json", "{".into())).await;
    assert!(error.to_string().contains("it ends too early at line 1, column 1"), "{error}");
}

#[tokio::test]
async fn an_error_without_status_hides_what_may_be_an_object() {
    let cases = [
        ("application/json", r#"{"apiVersion":"v1","kind":"Secret","data":{"password":"HIDDEN"}}"#),
        ("text/plain", r#"{"data":{"password":"HIDDEN"}}"#),
        ("text/plain", r#"  [{"data":{"password":"HIDDEN"}}]"#),
        ("text/plain", r#""HIDDEN""#),
        ("application/yaml", "data:\n  password: HIDDEN"),
        ("application/vnd.kubernetes.protobuf", "k8s\0 Secret HIDDEN"),
        ("", r#"{"data":"HIDDEN"}"#),
    ];
    for (content_type, body) in cases {
        let error = get(&over(500, content_type, hidden_in(body))).await;
        assert!(!texts(&error).contains(HIDDEN), "{content_type}: {}", texts(&error));
        assert_eq!(error.to_string(), format!("GET {SERVER}{PATH}: the server answered 500 InternalError: "));
    }
}

#[tokio::test]
async fn the_beginning_of_a_proxy_s_plain_text_is_shown() {
    let error = get(&over(503, "text/plain; charset=utf-8", "no healthy upstream\n".into())).await;
    let wanted = format!("GET {SERVER}{PATH}: the server answered 503 ServiceUnavailable: no healthy upstream");
    assert_eq!(error.to_string(), wanted);
    // Cut anywhere, even in the middle of a character.
    let error = get(&over(502, "text/html", format!("a{}", "ä".repeat(10_000)))).await;
    assert!(error.to_string().len() < 700, "{error}");
    assert_eq!(error.status().unwrap().code, 502);
}

fn status(reason: &str, message: &str, code: u16, details: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","message":"{message}","code":{code}{details}}}"#
    )
}

#[tokio::test]
async fn a_refusal_names_method_server_path_code_and_reason() {
    let client = over(422, "application/json", status("Invalid", "a: bad name", 422, ""));
    let params = PostParams { dry_run: true, ..Default::default() };
    let error = client.namespaced::<Secret>("default").create(&params, &Secret::default()).await.unwrap_err();
    let url = format!("{SERVER}/api/v1/namespaces/default/secrets?dryRun=All");
    assert_eq!(error.to_string(), format!("POST {url}: the server answered 422 Invalid: a: bad name"));
    let Error::Api { request, status } = error else { panic!() };
    assert_eq!((request.method, request.url, status.code), (http::Method::POST, url, 422));
}

#[tokio::test]
async fn refusals_are_classified() {
    type Is = fn(&Error) -> bool;
    let all: [(&str, Is); 7] = [
        ("not found", Error::is_not_found),
        ("already exists", Error::is_already_exists),
        ("conflict", Error::is_conflict),
        ("forbidden", Error::is_forbidden),
        ("expired", Error::is_expired),
        ("too many requests", Error::is_too_many_requests),
        ("too large", Error::is_too_large_resource_version),
    ];
    let large = r#","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"x"}]}"#;
    let cases = [
        (404, "NotFound", "", &["not found"][..]),
        (409, "AlreadyExists", "", &["already exists"]),
        (409, "Conflict", "", &["conflict"]),
        (403, "Forbidden", "", &["forbidden"]),
        (410, "Expired", "", &["expired"]),
        (410, "Gone", "", &["expired"]),
        (429, "TooManyRequests", "", &["too many requests"]),
        (504, "Timeout", large, &["too large"]),
        (500, "InternalError", "", &[]),
        (400, "BadRequest", "", &[]),
    ];
    for (code, reason, details, wanted) in cases {
        let error = get(&over(code, "application/json", status(reason, "", code, details))).await;
        let found: Vec<_> = all.iter().filter(|(_, is)| is(&error)).map(|(name, _)| *name).collect();
        assert_eq!(found, wanted, "{code} {reason}");
    }
    // The status code suffices if something other than the API server responded.
    assert!(get(&over(404, "text/plain", "404 page not found".into())).await.is_not_found());
    assert!(get(&over(403, "text/plain", "no".into())).await.is_forbidden());
    // A Status without a code gets the status code of the response.
    assert_eq!(get(&over(418, "application/json", status("x", "", 0, ""))).await.status().unwrap().code, 418);
}

#[tokio::test]
async fn a_resource_that_the_server_does_not_serve_has_a_hint_and_a_missing_object_has_none() {
    let hint = "CustomResourceDefinition";
    let policy = r#","details":{"name":"a","group":"networking.k8s.io","kind":"networkpolicies"}"#;
    let (text, json) = ("text/plain; charset=utf-8", "application/json");
    let not_served = "the server could not find the requested resource";
    let cases = [
        (text, "404 page not found\n".to_owned(), true),
        (json, status("NotFound", not_served, 404, ""), true),
        (json, status("NotFound", not_served, 404, r#","details":{}"#), true),
        (json, status("NotFound", "networkpolicies a not found", 404, policy), false),
        (json, status("Forbidden", "no", 403, ""), false),
    ];
    for (media_type, body, expected) in cases {
        let code = if body.contains("Forbidden") { 403 } else { 404 };
        let policies = over(code, media_type, body).namespaced::<NetworkPolicy>("default");
        let get = policies.get("a").await.unwrap_err().to_string();
        let list = policies.list(&ListParams::default()).await.unwrap_err().to_string();
        let new = NetworkPolicy::default();
        let create = policies.create(&PostParams::default(), &new).await.unwrap_err().to_string();
        for error in [get, list, create] {
            assert_eq!(error.contains(hint), expected, "{error}");
        }
    }
    // No CustomResourceDefinition serves these.
    for path in ["/version", "/apis/example.com/v1", "/api/v1/things", "/apis/apps/v1/things", "/metrics/a/b/c/d"] {
        let client = over(404, text, "404 page not found\n".to_owned());
        let error = client.rest().get().abs_path(path).send().await.unwrap_err().to_string();
        assert!(!error.contains(hint), "{error}");
    }
}

#[tokio::test]
async fn a_missing_object_is_none_and_another_refusal_an_error() {
    let secrets = |code, reason| over(code, "application/json", status(reason, "", code, "")).namespaced::<Secret>("a");
    assert!(secrets(404, "NotFound").get_opt("a").await.unwrap().is_none());
    assert!(secrets(403, "Forbidden").get_opt("a").await.unwrap_err().is_forbidden());
}

#[tokio::test]
async fn the_server_s_delay_is_in_the_error() {
    let (service, _) = server(|_, _| {
        let mut response = super::answer(429, "busy");
        response.headers_mut().insert("retry-after", "9".parse().unwrap());
        response
    });
    let error = get(&builder().retries(0).build_over(service).unwrap()).await;
    assert_eq!(error.status().unwrap().details.as_ref().unwrap().retry_after_seconds, 9);
}

#[tokio::test]
async fn a_status_code_that_is_neither_success_nor_failure_is_an_error() {
    let error = get(&over(302, "text/plain", HIDDEN.into())).await;
    assert!(matches!(error, Error::Decode { problem: ResponseError::Code(_), .. }), "{error}");
    assert!(error.to_string().contains("302 Found") && !texts(&error).contains(HIDDEN), "{error}");
}

#[tokio::test]
async fn nothing_that_can_be_printed_holds_a_body_or_credentials() {
    let mut config = steersman_client::Config::new(SERVER.parse().unwrap());
    config.auth_info.token = Some(HIDDEN.to_owned().into());
    config.auth_info.password = Some(HIDDEN.to_owned().into());
    let body = hidden_in(r#"{"metadata":{},"data":{"password":"HIDDEN"}}"#);
    let answer = body.clone();
    let (service, _) = server(move |_, _| Response::new(Full::new(Bytes::from(answer.clone()))));
    let setup = Client::builder(config);
    let client = setup.clone().build_over(service).unwrap();
    let secrets = client.namespaced::<Secret>("default");
    let request = client.rest_of("", "v1").post().namespace("default").resource("secrets");
    let authorization = http::HeaderValue::from_static(HIDDEN);
    let request = request.header(http::header::AUTHORIZATION, authorization).body("application/json", body);
    let printed = format!("{setup:?} {client:?} {secrets:?} {request:?} {:?}", client.rest());
    assert!(!printed.contains(HIDDEN), "{printed}");
    assert!(printed.contains("/api/v1/namespaces/default/secrets"), "{printed}");
    let answer = request.send().await.unwrap();
    assert!(String::from_utf8_lossy(answer.body()).contains(HIDDEN));
    assert!(!format!("{answer:?}").contains(HIDDEN), "{answer:?}");
}

/// `fn main() -> Result<(), Box<dyn std::error::Error>>` prints `Debug`.
#[tokio::test]
async fn an_error_is_printed_as_it_is_shown_in_one_line() {
    let shown_and_printed = |error: Error| {
        let (shown, boxed) = (error.to_string(), Box::<dyn std::error::Error>::from(error));
        assert_eq!(format!("{boxed:?}"), shown);
        assert_eq!(format!("{boxed:#?}"), shown);
        assert_eq!(shown.lines().count(), 1, "{shown}");
        shown
    };
    let refused = get(&over(403, "application/json", status("Forbidden", "no", 403, ""))).await;
    assert_eq!(shown_and_printed(refused), format!("GET {SERVER}{PATH}: the server answered 403 Forbidden: no"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = |url: String| steersman_client::Config::new(url.parse().unwrap());
    let client = Client::builder(config(format!("http://{address}"))).build().unwrap();
    let unreachable = shown_and_printed(get(&client).await);
    let wanted = format!("GET http://{address}{PATH}: connection failed: Connection refused (os error ");
    assert!(unreachable.starts_with(&wanted), "{unreachable}");
    let found = client.discovery().get().await.unwrap_err();
    let found = shown_and_printed(found);
    assert!(found.contains(&format!("http://{address}/api")) && found.contains(": Connection refused ("), "{found}");
    let client = Client::builder(config("http://no.such.host.invalid:6443".to_owned())).build().unwrap();
    let unknown = shown_and_printed(get(&client).await);
    let wanted = format!("GET http://no.such.host.invalid:6443{PATH}: connection failed: dns error: ");
    assert!(unknown.starts_with(&wanted), "{unknown}");
}
