use super::{MAPS, crs, defined, map, maps, widgets};
use crate::conformance::case::{Case, case};

/// Requests that mean no good, or were made by a program that is broken.
pub(crate) fn cases() -> Vec<Case> {
    [bodies(), patches(), queries(), custom()].into_iter().flatten().collect()
}

fn post(name: &'static str, text: &str) -> Case {
    case(name).send("POST", MAPS).text("application/json", text)
}

/// A ConfigMap with this in its data.
fn data(data: &str) -> String {
    format!("{{\"metadata\":{{\"name\":\"one\"}},\"data\":{data}}}")
}

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

fn bodies() -> Vec<Case> {
    vec![
        post("hostile-nested-without-end", &data(&"[".repeat(100_000))).expect(400),
        post("hostile-nested-objects", &data(&"{\"a\":".repeat(100_000))).expect(400),
        post("hostile-number-with-a-huge-exponent", &data("{\"a\":1e999999}")).expect(400),
        post("hostile-number-with-400-digits", &data(&format!("{{\"a\":{}}}", "9".repeat(400)))).expect(400),
        post("hostile-nul-in-the-text", "{\"metadata\":{\"name\":\"one\"}\u{0}}").expect(400),
        post("hostile-nul-in-a-string", &data("{\"a\":\"\u{0}\"}")).expect(400),
        post("hostile-nul-escaped", &data("{\"a\":\"\\u0000\"}")).expect(201).see("/data/a", "\u{0}"),
        post("hostile-nul-in-the-name", "{\"metadata\":{\"name\":\"o\\u0000ne\"}}").expect(422),
        post("hostile-surrogates-alone", &data("{\"a\":\"\\udc00\\ud800\\u0041\"}")).expect(201),
        post("hostile-surrogate-in-the-name", "{\"metadata\":{\"name\":\"\\ud800\"}}").expect(422),
        post("hostile-keys-that-come-twice", &data("{\"a\":\"1\",\"a\":\"2\"}")).expect(201).see("/data/a", "2"),
        post(
            "hostile-metadata-that-comes-twice",
            "{\"metadata\":{\"name\":\"one\"},\"metadata\":{\"labels\":{\"a\":\"b\"}}}",
        )
        .expect(201),
        post("hostile-key-that-is-enormous", &data(&format!("{{\"{}\":\"1\"}}", "k".repeat(10_000)))).expect(422),
        post("hostile-key-that-is-empty", &data("{\"\":\"1\"}")).expect(422),
        post("hostile-name-that-is-enormous", &format!("{{\"metadata\":{{\"name\":\"{}\"}}}}", "n".repeat(10_000)))
            .expect(422),
        post("hostile-byte-order-mark", "\u{feff}{\"metadata\":{\"name\":\"one\"}}").expect(400),
        post("hostile-comment", "{\"metadata\":{\"name\":\"one\"}} // no").expect(400),
        post("hostile-infinity", &data("{\"a\":Infinity}")).expect(400),
        post("hostile-string-without-end", "{\"metadata\":{\"name\":\"one").expect(400),
        post("hostile-bad-escape", &data("{\"a\":\"\\x41\"}")).expect(400),
        case("hostile-content-type-of-parameters").send("POST", MAPS).text(";;;", map("one").to_string()).expect(415),
        case("hostile-content-type-with-a-bad-charset")
            .send("POST", MAPS)
            .text("application/json; charset=\"", map("one").to_string())
            .expect(415),
        case("hostile-content-type-of-a-patch")
            .send("POST", MAPS)
            .text("application/merge-patch+json", map("one").to_string())
            .expect(415),
    ]
}

fn patches() -> Vec<Case> {
    let patch = |name, kind: &str, text: &str| {
        let kind = format!("application/{kind}+json");
        case(name).post(MAPS, map("one")).send("PATCH", maps("/one")).text(&kind, text)
    };
    let copies: Vec<String> =
        (0..40).map(|place| format!("{{\"op\":\"copy\",\"from\":\"/data\",\"path\":\"/data/k{place}\"}}")).collect();
    let many = vec!["{\"op\":\"test\",\"path\":\"/kind\",\"value\":\"ConfigMap\"}"; 10_001];
    vec![
        patch("hostile-json-patch-nested-without-end", "json-patch", &nested(100_000)).expect(400),
        patch("hostile-merge-patch-nested-without-end", "merge-patch", &"{\"a\":".repeat(100_000)).expect(400),
        patch("hostile-json-patch-that-copies-without-end", "json-patch", &format!("[{}]", copies.join(",")))
            .expect(422),
        patch("hostile-json-patch-with-too-many-operations", "json-patch", &format!("[{}]", many.join(",")))
            .expect(413),
        patch(
            "hostile-json-patch-with-a-huge-index",
            "json-patch",
            "[{\"op\":\"add\",\"path\":\"/metadata/finalizers/99999999999999999999\",\"value\":\"a/b\"}]",
        )
        .expect(422),
        patch("hostile-json-patch-without-a-slash", "json-patch", "[{\"op\":\"add\",\"path\":\"data\",\"value\":{}}]")
            .expect(422),
        patch("hostile-json-patch-of-numbers", "json-patch", "[1,2]").expect(400),
        patch("hostile-json-patch-with-a-number-for-a-path", "json-patch", "[{\"op\":\"add\",\"path\":5}]").expect(400),
        patch("hostile-json-patch-that-removes-everything", "json-patch", "[{\"op\":\"remove\",\"path\":\"\"}]")
            .expect(422),
        patch(
            "hostile-json-patch-that-replaces-everything",
            "json-patch",
            "[{\"op\":\"replace\",\"path\":\"\",\"value\":5}]",
        )
        .expect(422),
        patch("hostile-merge-patch-with-a-lone-surrogate", "merge-patch", "{\"data\":{\"k\":\"\\ud800\"}}").expect(200),
        patch("hostile-merge-patch-with-a-huge-number", "merge-patch", "{\"data\":{\"k\":1e999999}}").expect(400),
        patch("hostile-merge-patch-with-keys-that-come-twice", "merge-patch", "{\"data\":{\"k\":\"1\",\"k\":\"2\"}}")
            .expect(200)
            .warns("duplicate field"),
        case("hostile-merge-patch-with-keys-that-come-twice-strictly")
            .post(MAPS, map("one"))
            .send("PATCH", maps("/one?fieldValidation=Strict"))
            .text("application/merge-patch+json", "{\"data\":{\"k\":\"1\",\"k\":\"2\"},\"unknown\":1}")
            .expect(422),
        case("hostile-merge-patch-with-keys-that-come-twice-ignored")
            .post(MAPS, map("one"))
            .send("PATCH", maps("/one?fieldValidation=Ignore"))
            .text("application/merge-patch+json", "{\"data\":{\"k\":\"1\",\"k\":\"2\"}}")
            .expect(200),
        patch(
            "hostile-json-patch-with-fields-that-no-operation-has",
            "json-patch",
            "[{\"op\":\"add\",\"path\":\"/data\",\"value\":{},\"more\":1}]",
        )
        .expect(200)
        .warns("json patch unknown field"),
        patch(
            "hostile-json-patch-with-keys-that-come-twice",
            "json-patch",
            "[{\"op\":\"add\",\"path\":\"/data\",\"value\":{},\"op\":\"add\",\"more\":1}]",
        )
        .expect(200)
        .warns("json patch duplicate field"),
        patch(
            "hostile-json-patch-with-a-value-whose-keys-come-twice",
            "json-patch",
            "[{\"op\":\"add\",\"path\":\"/data\",\"value\":{\"a\":\"b\",\"a\":\"c\"}}]",
        )
        .expect(200)
        .warns("json patch duplicate field"),
        patch("hostile-merge-patch-of-all-metadata", "merge-patch", "{\"metadata\":null}").expect(400),
    ]
}

fn queries() -> Vec<Case> {
    let list = |name, query: &str| case(name).get(maps(query));
    vec![
        list("hostile-query-with-bad-escapes", "?labelSelector=%zz").expect(200),
        list("hostile-query-that-is-not-utf-8", "?labelSelector=%ff%fe").expect(400),
        list("hostile-query-with-a-nul", "?labelSelector=a%00b").expect(400),
        list("hostile-query-with-semicolons", "?limit=1;watch=true").expect(200),
        list("hostile-label-selector-of-brackets", "?labelSelector=((((").expect(400),
        list("hostile-label-selector-of-commas", "?labelSelector=,,,,").expect(400),
        list("hostile-label-selector-without-an-end", "?labelSelector=a+in+(b").expect(400),
        list("hostile-field-selector-of-equals", "?fieldSelector=%3D%3D%3D").expect(400),
        list("hostile-field-selector-with-a-bad-escape", "?fieldSelector=metadata.name%3Da%5C").expect(400),
        list("hostile-continue-of-nothing", "?continue=e30").expect(400),
        list("hostile-continue-that-is-no-base64", "?continue=%21%21").expect(400),
        list("hostile-continue-of-another-version", "?continue=eyJ2IjoidjAiLCJydiI6MSwic3RhcnQiOiJhIn0").expect(400),
        list(
            "hostile-continue-with-a-bad-start",
            "?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi8uLi9zZWNyZXRzIn0",
        )
        .expect(400),
        list("hostile-limit-that-is-huge", "?limit=99999999999999999999").expect(400),
        list("hostile-limit-that-is-negative", "?limit=-1").expect(200),
        list("hostile-version-that-is-huge", "?resourceVersion=99999999999999999999").expect(400),
        list("hostile-version-that-is-negative", "?resourceVersion=-1").expect(400),
        list("hostile-timeout-that-is-no-number", "?timeoutSeconds=soon").expect(400),
        case("hostile-name-with-a-slash").get(maps("/a%2Fb")).expect(404),
        case("hostile-name-that-leads-up").get(maps("/..%2F..")).expect(404),
        case("hostile-name-with-a-nul").get(maps("/a%00b")).expect(404),
    ]
}

fn custom() -> Vec<Case> {
    // The object first: the message about it shows its first bytes, and those of the case's name
    // differ.
    let widget = |spec: &str| {
        let kind = "\"apiVersion\":\"${id}.example.com/v1\",\"kind\":\"Widget\"";
        format!("{{\"spec\":{spec},\"metadata\":{{\"name\":\"one\"}},{kind}}}")
    };
    let deep = |levels: usize| format!("{{\"a\":{}}}", nested(levels));
    vec![
        defined("hostile-cr-nested-deeply", widgets())
            .send("POST", crs(""))
            .text("application/json", widget(&deep(300)))
            .expect(201)
            // Too deep for the reader of this suite.
            .ignore("")
            .send("PATCH", crs("/one"))
            .text("application/merge-patch+json", "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}")
            .expect(200)
            .ignore("")
            .get(crs("?pretty=true"))
            .expect(200)
            .ignore("")
            .delete(crs("/one"))
            .expect(200),
        defined("hostile-cr-nested-without-end", widgets())
            .send("POST", crs(""))
            .text("application/json", widget(&deep(100_000)))
            .expect(400),
        defined("hostile-cr-with-huge-numbers", widgets())
            .send("POST", crs(""))
            .text("application/json", widget(&format!("{{\"a\":{}}}", "9".repeat(400))))
            .expect(400),
        defined("hostile-cr-with-numbers-at-the-edge", widgets())
            .send("POST", crs(""))
            .text("application/json", widget("{\"a\":[9223372036854775807,-1e-400,1e300,0.1e-5,-0.0]}"))
            .expect(201),
    ]
}
