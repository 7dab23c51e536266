use serde_json::json;

use super::{MAPS, map, maps};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [paths(), bodies(), content(), discovery()].into_iter().flatten().collect()
}

/// Paths and methods that are not there.
fn paths() -> Vec<Case> {
    vec![
        case("path-unknown").get("/nowhere").expect(404),
        case("path-unknown-resource").get("/api/v1/shoes").expect(404),
        case("path-unknown-version").get("/api/v9/pods").expect(404),
        case("path-unknown-group").get("/apis/example.org/v1").expect(404),
        case("path-unknown-version-of-a-group").get("/apis/apps/v9").expect(404),
        case("path-unknown-subresource").post(MAPS, map("one")).get(maps("/one/shoes")).expect(404),
        case("path-status-of-a-kind-without").post(MAPS, map("one")).put(maps("/one/status"), map("one")).expect(404),
        case("path-with-a-slash-at-the-end").get(maps("/")).expect(200),
        case("path-with-two-slashes").get("/api//v1/namespaces/default").expect(404),
        case("method-post-on-an-object").post(MAPS, map("one")).post(maps("/one"), map("one")).expect(405),
        case("method-put-on-a-collection").put(MAPS, map("one")).expect(405),
        case("method-unknown").send("SHOUT", maps("/one")).expect(405),
        case("method-options").send("OPTIONS", MAPS).expect(405),
        case("method-head").post(MAPS, map("one")).send("HEAD", maps("/one")).expect(405),
        case("method-post-on-discovery").post("/api/v1", json!({})).expect(405),
    ]
}

fn bodies() -> Vec<Case> {
    let post = |name, text: &str| case(name).send("POST", MAPS).text("application/json", text);
    let deep = format!("{{\"metadata\":{{\"name\":\"one\"}},\"data\":{}{}}}", "[".repeat(20000), "]".repeat(20000));
    vec![
        post("body-empty", "").expect(400),
        post("body-no-json", "shoe").expect(400),
        post("body-cut-off", "{\"metadata\":").expect(400),
        post("body-with-more-after-the-end", "{\"metadata\":{\"name\":\"one\"}} {}").expect(400),
        post("body-a-list", "[]").expect(400),
        post("body-a-string", "\"shoe\"").expect(400),
        post("body-null", "null").expect(422),
        post("body-a-number-for-an-object", "{\"metadata\":{\"name\":\"one\"},\"data\":5}").expect(400),
        post("body-a-number-for-a-string", "{\"metadata\":{\"name\":5}}").expect(400),
        post("body-nested-too-deep", &deep).expect(400),
        post("body-with-a-huge-number", "{\"metadata\":{\"name\":\"one\",\"generation\":1e400}}").expect(400),
        post("body-with-a-fraction-for-an-integer", "{\"metadata\":{\"name\":\"one\",\"generation\":1.5}}").expect(400),
        post("body-with-bad-escapes", "{\"metadata\":{\"name\":\"one\"},\"data\":{\"a\":\"\\ud800\"}}").expect(201),
        post("body-too-large", &format!("{{\"data\":{{\"a\":\"{}\"}}}}", "x".repeat(3 * 1024 * 1024))).expect(413),
        post("body-of-a-list-kind", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMapList\",\"items\":[]}").expect(400),
        post("body-of-a-kind-nobody-knows", "{\"apiVersion\":\"v1\",\"kind\":\"Shoe\"}").expect(400),
        case("body-options-of-delete-are-no-json")
            .post(MAPS, map("one"))
            .delete(maps("/one"))
            .text("application/json", "{")
            .expect(400),
        case("body-options-of-delete-of-another-kind")
            .post(MAPS, map("one"))
            .delete(maps("/one"))
            .json(json!({"apiVersion": "v1", "kind": "Pod"}))
            .expect(400),
    ]
}

/// What is sent and what is asked for.
fn content() -> Vec<Case> {
    let typed = |name, content_type| case(name).send("POST", MAPS).text(content_type, map("one").to_string());
    let accept = |name, accept| case(name).post(MAPS, map("one")).get(maps("/one")).header("accept", accept);
    vec![
        typed("content-type-unknown", "text/plain").expect(415),
        typed("content-type-absent-is-json", "").expect(201),
        typed("content-type-with-a-charset", "application/json; charset=utf-8").expect(201),
        typed("content-type-that-is-broken", "application//json").expect(415),
        case("content-type-yaml")
            .send("POST", MAPS)
            .text("application/yaml", "metadata:\n  name: one\ndata:\n  a: \"1\"\n")
            .expect(201),
        case("content-type-yaml-that-is-wrong").send("POST", MAPS).text("application/yaml", "a: [").expect(400),
        accept("accept-anything", "*/*").expect(200),
        accept("accept-any-application-is-refused", "application/*").expect(406),
        accept("accept-yaml", "application/yaml").expect(200).ignore(""),
        accept("accept-in-order-of-preference", "text/html, application/json").expect(200),
        accept("accept-nothing-we-have", "text/html").expect(406),
        accept("accept-an-unknown-conversion", "application/json;as=Shoe;g=meta.k8s.io;v=v1").expect(406),
        accept("accept-a-conversion-or-plain", "application/json;as=Shoe;g=meta.k8s.io;v=v1,application/json")
            .expect(200),
        accept("accept-quality", "application/yaml;q=0.1,application/json;q=0.9").expect(200),
        case("pretty-get").post(MAPS, map("one")).get(maps("/one?pretty=true")).expect(200),
    ]
}

fn discovery() -> Vec<Case> {
    const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    vec![
        case("discovery-core-versions")
            .get("/api")
            .expect(200)
            .see("/kind", "APIVersions")
            .ignore("/serverAddressByClientCIDRs"),
        case("discovery-core-resources").get("/api/v1").expect(200).see("/kind", "APIResourceList"),
        case("discovery-group").get("/apis/apps").expect(200).see("/kind", "APIGroup"),
        case("discovery-group-resources").get("/apis/apps/v1").expect(200).see("/groupVersion", "apps/v1"),
        case("discovery-aggregated-core").get("/api").header("accept", AGGREGATED).expect(200),
        case("discovery-aggregated-but-plain-is-fine")
            .get("/api")
            .header("accept", format!("application/json;q=0.9,{AGGREGATED}"))
            .expect(200)
            .ignore("/serverAddressByClientCIDRs"),
        case("discovery-aggregated-group-is-not-aggregated").get("/apis/apps").header("accept", AGGREGATED).expect(406),
        case("version")
            .get("/version")
            .expect(200)
            .see("/gitVersion", "v1.36.3")
            .ignore("/buildDate")
            .ignore("/gitCommit")
            .ignore("/goVersion")
            .ignore("/platform")
            .ignore("/compiler")
            .ignore("/gitTreeState"),
        case("health")
            .get("/healthz")
            .expect(200)
            .get("/livez")
            .expect(200)
            .get("/readyz")
            .expect(200)
            .message_contains("ok"),
        case("health-ping").get("/healthz/ping").expect(200).get("/readyz/ping").expect(200),
        case("health-of-something-unknown").get("/healthz/shoes").expect(404),
        case("root-lists-paths").get("/").expect(200).ignore("/paths"),
    ]
}
