//! The load of one round, all at once.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_client::{Client, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::target::Target;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON: &str = "application/json";
/// Silent connections, half of which the server keeps.
pub(crate) const SILENT: usize = 60;
const WRITERS: usize = 4;
const WRITES: usize = 40;
const UNREAD: usize = 6;
const DEFINITIONS_EACH: usize = 4;

/// Runs a round. It ends when everything has ended that the server does not have to end itself.
pub(crate) async fn round(target: &Target, proxy: SocketAddr, faulty: &Client, round: usize) {
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        tasks.spawn(write(faulty.clone(), round, writer));
    }
    for events in [1, 20, 100] {
        tasks.spawn(watch(target.through(proxy), events));
    }
    for number in 0..DEFINITIONS_EACH {
        tasks.spawn(define(target.clone(), round * DEFINITIONS_EACH + number));
    }
    tasks.spawn(misbehave(target.clone()));
    // These stay open while the others continue. Then their clients disappear without closing them.
    let mut open = Vec::new();
    for _ in 0..SILENT {
        open.extend(target.tcp().await);
    }
    let mut unread = Vec::new();
    for number in 0..UNREAD {
        let from = if number % 2 == 0 { "0" } else { "" };
        let path = format!("{MAPS}?watch=1&resourceVersion={from}");
        unread.extend(target.send(&target.head("GET", &path, ""), b"").await);
        let head = target.head("POST", MAPS, "Content-Type: application/json\r\nContent-Length: 1000\r\n");
        unread.extend(target.send(&head, b"{\"metadata\": {").await);
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// Creates, changes and deletes through a network that fails: the result of each write is unknown.
async fn write(client: Client, round: usize, writer: usize) {
    let maps = client.namespaced::<ConfigMap>("default");
    for number in 0..WRITES {
        let turn = round * 31 + writer * 17 + number * 7;
        let name = format!("load-{}", turn % 150);
        let text = "x".repeat(turn * 97 % 8_000);
        match number % 4 {
            0 | 1 => {
                let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
                let data = Some([("text".to_owned(), text)].into());
                let _ =
                    maps.create(&PostParams::default(), &ConfigMap { metadata, data, ..ConfigMap::default() }).await;
            }
            2 => {
                let patch = Patch::Merge(json!({"data": {"text": text}}));
                let _ = maps.patch(&name, &PatchParams::default(), &patch).await;
            }
            _ => drop(maps.delete(&name, &DeleteParams::default()).await),
        }
    }
}

/// Watches from the beginning, and disconnects in the middle.
async fn watch(target: Target, events: usize) {
    let path = format!("{MAPS}?watch=1&resourceVersion=0&timeoutSeconds=2&allowWatchBookmarks=true");
    let Ok(mut stream) = target.send(&target.head("GET", &path, ""), b"").await else { return };
    let (mut buffer, mut seen) = (vec![0; 8192], 0);
    while seen < events {
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => seen += buffer[..read].iter().filter(|byte| **byte == b'\n').count(),
            _ => return,
        }
    }
}

/// A new definition with objects and watches, and its deletion.
async fn define(target: Target, number: usize) {
    let plural = format!("things{number}");
    let things = format!("/apis/example.com/v1/namespaces/default/{plural}");
    // No two patterns are equal.
    let field = |index: usize| {
        let pattern = format!("^[a-z]{{{index},63}}([-a-z0-9]*[a-z0-9])?$");
        json!({"type": "string", "pattern": pattern, "description": "d".repeat(500)})
    };
    let fields: serde_json::Map<String, Value> = (0..40).map(|index| (format!("f{index}"), field(index))).collect();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
    let definition = json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "kind": format!("Thing{number}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    assert_eq!(target.insist("POST", DEFINITIONS, definition.to_string().as_bytes()).await, 201);
    let mut watches = Vec::new();
    for thing in 0..4 {
        let object = json!({
            "apiVersion": "example.com/v1", "kind": format!("Thing{number}"),
            "metadata": {"name": format!("thing-{thing}"), "annotations": {"text": "x".repeat(50_000)}},
            "spec": {"f1": "a"},
        });
        assert_eq!(target.insist("POST", &things, object.to_string().as_bytes()).await, 201);
        let head = target.head("GET", &format!("{things}?watch=1&resourceVersion=0"), "");
        watches.extend(target.send(&head, b"").await);
    }
    let path = format!("{DEFINITIONS}/{plural}.example.com");
    assert_eq!(target.insist("DELETE", &path, b"").await, 200);
}

/// Sends invalid requests. Each is refused, and the connection may be closed.
async fn misbehave(target: Target) {
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let bodies: [(&str, &str, Vec<u8>); 8] = [
        (MAPS, JSON, b"{\"metadata\": {\"name\": ".to_vec()),
        (MAPS, JSON, b"\xff\xfe\0\x01".to_vec()),
        (MAPS, JSON, deep.into_bytes()),
        (MAPS, JSON, vec![b' '; 4 << 20]),
        (MAPS, "application/vnd.kubernetes.protobuf", b"k8s\0\xff\xff\xff\xff\xff\xff".to_vec()),
        (MAPS, "application/yaml", b"a: &a [*a, *a\n\t- b".to_vec()),
        (MAPS, "text/html", b"<p>".to_vec()),
        (DEFINITIONS, JSON, b"{\"metadata\": {\"name\": \"x.y\"}, \"spec\": {\"versions\": [{}]}}".to_vec()),
    ];
    for (path, content_type, body) in &bodies {
        // A body that is too large may be refused before it is read to the end.
        if let Ok(status) = target.call("POST", path, content_type, body).await {
            assert!((400..500).contains(&status), "{content_type}: {status}");
        }
    }
    for path in ["/api/v1/nothing", "/apis//x", "/api/v1/pods?limit=x", "/api/v1/pods?watch=1&labelSelector=%3D%3D"] {
        let status = target.insist("GET", path, b"").await;
        assert!((400..500).contains(&status), "{path}: {status}");
    }
    for bytes in [&b"GET / HTTP/9\r\n\r\n"[..], &[0; 5000], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff"] {
        if let Ok(mut stream) = target.tls().await {
            let _ = stream.write_all(bytes).await;
            let _ = stream.read(&mut [0; 100]).await;
        }
        if let Ok(mut stream) = target.tcp().await {
            let _ = stream.write_all(bytes).await;
        }
    }
}
