use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use sha2::{Digest, Sha512};
use tower::Service;

use super::builtin::parts;
use super::content::hexadecimal;
use super::document::{builtin_v3, json, v2};
use super::schema::Version;
use super::table::table;
use crate::ApiServer;
use crate::response::ServerBody;

fn hash_of(text: &[u8]) -> String {
    hexadecimal(&Sha512::digest(text))
}

/// The hashes were recorded from a real server. A document with the same hash is the same text.
#[test]
fn documents_of_built_in_kinds_equal_those_of_the_real_server() {
    let mut documents = 0;
    for part in parts() {
        let name = part.document.clone();
        let hash = hash_of(&json(&builtin_v3(part), Version::V3));
        assert_eq!(Some(hash.as_str()), table().hash(&name), "{name}");
        documents += 1;
    }
    assert_eq!(documents, table().documents().count());
    let hash = hash_of(&json(&v2(Vec::new()), Version::V2));
    assert_eq!(Some(hash.as_str()), table().hash("v2"));
}

async fn send(server: &ApiServer, request: http::request::Builder, body: &Value) -> Response<ServerBody> {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = request.header("content-type", "application/json").body(Full::from(body)).unwrap();
    let Ok(response) = server.clone().call(request).await;
    response
}

async fn get(server: &ApiServer, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Bytes) {
    let request = headers.iter().fold(Request::get(path), |request, (name, value)| request.header(*name, *value));
    let (parts, body) = send(server, request, &Value::Null).await.into_parts();
    (parts.status, parts.headers, body.collect().await.unwrap().to_bytes())
}

async fn get_json(server: &ApiServer, path: &str) -> Value {
    let (status, _, body) = get(server, path, &[]).await;
    assert_eq!(status, 200, "{path}");
    serde_json::from_slice(&body).unwrap()
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Widgets in a group, with one field.
fn widgets(group: &str, field: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        field: {"type": "string", "description": "<one>"},
    }}}});
    json!({"metadata": {"name": format!("widgets.{group}")}, "spec": {
        "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }})
}

async fn define(server: &ApiServer, definition: &Value) {
    assert_eq!(send(server, Request::post(DEFINITIONS), definition).await.status(), 201);
}

/// The address of a document, with its hash.
async fn address(server: &ApiServer, document: &str) -> Option<String> {
    let index = get_json(server, "/openapi/v3").await;
    index["paths"][document]["serverRelativeURL"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_definition_adds_a_document_and_changes_its_hash() {
    let server = ApiServer::new();
    let document = "apis/example.com/v1";
    assert_eq!(address(&server, document).await, None);
    assert_eq!(get(&server, "/openapi/v3/apis/example.com/v1", &[]).await.0, 404);
    define(&server, &widgets("example.com", "one")).await;
    let first = address(&server, document).await.unwrap();
    let (status, headers, body) = get(&server, &first, &[]).await;
    assert_eq!((status, &headers["cache-control"]), (StatusCode::OK, &"public, immutable".parse().unwrap()));
    let hash = first.split_once('=').unwrap().1;
    assert_eq!(headers["etag"], format!("\"{hash}\""));
    assert!(body.starts_with(br#"{"openapi":"3.0.0","#));

    let patch = Request::patch(format!("{DEFINITIONS}/widgets.example.com"));
    let body = widgets("example.com", "two").to_string();
    let request = patch.header("content-type", "application/merge-patch+json").body(Full::from(body)).unwrap();
    let Ok(changed) = server.clone().call(request).await;
    assert_eq!(changed.status(), 200);
    let second = address(&server, document).await.unwrap();
    assert_ne!(first, second);
    let (status, headers, _) = get(&server, &first, &[]).await;
    assert_eq!((status, headers["location"].to_str().unwrap()), (StatusCode::MOVED_PERMANENTLY, second.as_str()));
    let fields = get_json(&server, &second).await;
    let spec = &fields["components"]["schemas"]["com.example.v1.Widget"]["properties"]["spec"]["properties"];
    assert!(spec["one"].is_null() && spec["two"].is_object(), "{spec}");

    let of_v2 = get_json(&server, "/openapi/v2").await;
    assert!(of_v2["definitions"]["com.example.v1.Widget"].is_object());
    let deleted = send(&server, Request::delete(format!("{DEFINITIONS}/widgets.example.com")), &Value::Null).await;
    assert_eq!(deleted.status(), 200);
    assert_eq!(address(&server, document).await, None);
    let hash = table().hash("v2").unwrap();
    assert_eq!(get(&server, "/openapi/v2", &[]).await.1["etag"], format!("\"{hash}\""));
}

#[tokio::test]
async fn a_definition_of_another_group_keeps_the_hash() {
    let server = ApiServer::new();
    define(&server, &widgets("example.com", "one")).await;
    let before = address(&server, "apis/example.com/v1").await;
    define(&server, &widgets("example.org", "one")).await;
    assert_eq!(address(&server, "apis/example.com/v1").await, before);
    assert_ne!(address(&server, "apis/example.org/v1").await, before);
}

#[tokio::test]
async fn a_client_that_has_the_document_gets_no_body() {
    let server = ApiServer::new();
    let path = "/openapi/v3/apis/batch/v1";
    let tag = get(&server, path, &[]).await.1["etag"].to_str().unwrap().to_owned();
    for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
        let (status, headers, body) = get(&server, path, &[("if-none-match", &known)]).await;
        assert_eq!((status, body.len(), headers.get("content-type")), (StatusCode::NOT_MODIFIED, 0, None), "{known}");
        assert_eq!(headers["etag"], tag);
    }
    assert_eq!(get(&server, path, &[("if-none-match", "\"x\"")]).await.0, 200);
}

#[tokio::test]
async fn version_2_is_compressed_if_the_client_accepts_that() {
    let server = ApiServer::new();
    let plain = get(&server, "/openapi/v2", &[]).await;
    assert_eq!(plain.1.get("content-encoding"), None);
    for accepted in ["gzip", "br, gzip;q=0.5"] {
        let (_, headers, body) = get(&server, "/openapi/v2", &[("accept-encoding", accepted)]).await;
        assert_eq!(headers["content-encoding"], "gzip");
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*body), &mut text).unwrap();
        assert_eq!(text, plain.2);
    }
    for refused in ["gzip;q=0", "br"] {
        assert_eq!(get(&server, "/openapi/v2", &[("accept-encoding", refused)]).await.2, plain.2);
    }
}

/// What one server has made, another one sends.
#[tokio::test]
async fn documents_are_shared_between_servers() {
    let (one, two) = (ApiServer::new(), ApiServer::new());
    for path in ["/openapi/v2", "/openapi/v3/api/v1"] {
        let (one, two) = (get(&one, path, &[]).await.2, get(&two, path, &[]).await.2);
        assert_eq!(one.as_ptr(), two.as_ptr(), "{path}");
    }
}
