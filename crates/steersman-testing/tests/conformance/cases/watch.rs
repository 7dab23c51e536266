use serde_json::{Value, json};

use super::{CRDS, MAPS, crs, labelled, map, maps, widgets, with};
use crate::conformance::case::{Case, Needs, case};

pub(crate) fn cases() -> Vec<Case> {
    [starts(), events(), selectors(), bookmarks(), requests()].into_iter().flatten().collect()
}

/// A ConfigMap with another value.
fn changed(name: &str, value: &str) -> Value {
    with(map(name), json!({"data": {"k": value}}))
}

/// A case with the ConfigMap `one` in the answer `one`.
fn one(name: &'static str) -> Case {
    case(name).post(MAPS, map("one")).named("one").expect(201)
}

/// Where a watch begins.
fn starts() -> Vec<Case> {
    vec![
        one("watch-from-a-version-gives-what-came-after")
            .post(MAPS, map("two"))
            .watch("w", maps("?watch=true&resourceVersion=${rv:one}"))
            .expect(200)
            .put(maps("/one"), changed("one", "new"))
            .named("new")
            .delete(maps("/one"))
            .events("w", "ADDED two, MODIFIED one, DELETED one")
            .see("/1/object/metadata/resourceVersion", "${rv:new}"),
        one("watch-without-a-version-gives-what-is-there-first")
            .watch("w", maps("?watch=true"))
            .events("w", "ADDED one")
            .post(MAPS, map("two"))
            .events("w", "ADDED two"),
        one("watch-from-version-0-gives-what-is-there-first")
            .post(MAPS, map("another"))
            .get(MAPS)
            .watch("w", maps("?watch=true&resourceVersion=0&timeoutSeconds=1"))
            .end("w", "ADDED another, ADDED one"),
        one("watch-from-the-version-of-a-list")
            .get(MAPS)
            .named("list")
            .watch("w", maps("?watch=true&resourceVersion=${rv:list}"))
            .post(MAPS, map("two"))
            .events("w", "ADDED two"),
        case("watch-from-a-version-of-the-future")
            .watch("w", maps("?watch=true&resourceVersion=99999999999&timeoutSeconds=1"))
            .expect(200)
            .end("w", ""),
        case("watch-from-a-version-that-is-no-number").watch("w", maps("?watch=true&resourceVersion=abc")).expect(500),
        case("watch-from-a-version-that-is-negative").watch("w", maps("?watch=true&resourceVersion=-1")).expect(500),
        case("watch-with-a-match-is-refused")
            .watch("w", maps("?watch=true&resourceVersion=1&resourceVersionMatch=NotOlderThan"))
            .expect(422),
        one("watch-with-a-limit-ignores-it")
            .post(MAPS, map("two"))
            .watch("w", maps("?watch=true&limit=1&timeoutSeconds=1"))
            .end("w", "ADDED one, ADDED two"),
        case("watch-with-a-continue-token-is-refused").watch("w", maps("?watch=true&continue=abc")).expect(422),
        // On the real server a cache of recent events outlives compaction; that of a new kind
        // begins with the kind.
        case("watch-from-a-version-that-was-forgotten")
            .needs(Needs::Compaction)
            .post(CRDS, widgets())
            .expect(201)
            .until(crs(""))
            .expect(200)
            .watch("w", crs("?watch=true&resourceVersion=1"))
            .expect(200)
            .end("w", "ERROR 410")
            .see("/0/object/reason", "Expired"),
    ]
}

/// What the events are.
fn events() -> Vec<Case> {
    let version = |name| one(name).watch("w", maps("?watch=true&resourceVersion=${rv:one}"));
    vec![
        version("watch-update-that-changes-nothing-is-no-event")
            .put(maps("/one"), map("one"))
            .see("/metadata/resourceVersion", "${rv:one}")
            .post(MAPS, map("mark"))
            .events("w", "ADDED mark"),
        version("watch-deletion-carries-the-last-state-and-a-new-version")
            .delete(maps("/one"))
            .events("w", "DELETED one")
            .see("/0/object/data/k", "v"),
        version("watch-finalizers-are-changes-until-the-last-goes")
            .merge(maps("/one"), json!({"metadata": {"finalizers": ["example.com/f"]}}))
            .delete(maps("/one"))
            .merge(maps("/one"), json!({"metadata": {"finalizers": null}}))
            .events("w", "MODIFIED one, MODIFIED one, DELETED one"),
        version("watch-recreated-object-is-deleted-and-added")
            .delete(maps("/one"))
            .post(MAPS, map("one"))
            .events("w", "DELETED one, ADDED one"),
        version("watch-does-not-see-dry-runs")
            .put(maps("/one?dryRun=All"), changed("one", "new"))
            .delete(maps("/one?dryRun=All"))
            .post(MAPS, map("mark"))
            .events("w", "ADDED mark"),
        version("watch-of-a-namespace-does-not-see-others")
            .post("/api/v1/namespaces", json!({"metadata": {"name": "${ns}-b"}}))
            .post("/api/v1/namespaces/${ns}-b/configmaps", map("elsewhere"))
            .expect(201)
            .post(MAPS, map("mark"))
            .events("w", "ADDED mark"),
        one("watch-across-namespaces")
            .post("/api/v1/namespaces", json!({"metadata": {"name": "${ns}-b"}}))
            .watch("w", "/api/v1/configmaps?watch=true&resourceVersion=${rv:one}&labelSelector=case%3D${id}")
            .post("/api/v1/namespaces/${ns}-b/configmaps", labelled("elsewhere", &["case=${id}"]))
            .post(MAPS, labelled("here", &["case=${id}"]))
            .events("w", "ADDED elsewhere, ADDED here"),
        version("watch-delete-collection-is-a-deletion-each")
            .post(MAPS, map("two"))
            .delete(MAPS)
            .expect(200)
            .events("w", "ADDED two, DELETED one, DELETED two"),
        version("watch-ends-after-its-timeout").watch("w", maps("?watch=true&timeoutSeconds=1")).end("w", "ADDED one"),
        version("watch-of-status-changes")
            .post(
                "/api/v1/namespaces/${ns}/pods",
                json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
            )
            .named("p")
            .watch("p-watch", "/api/v1/namespaces/${ns}/pods?watch=true&resourceVersion=${rv:p}")
            .merge("/api/v1/namespaces/${ns}/pods/p/status", json!({"status": {"phase": "Running"}}))
            .events("p-watch", "MODIFIED p")
            .see("/0/object/status/phase", "Running"),
        one("watch-as-partial-metadata")
            .watch("w", maps("?watch=true"))
            .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .expect(200)
            .events("w", "ADDED one")
            .see("/0/object/kind", "PartialObjectMetadata")
            .absent("/0/object/data"),
    ]
}

/// Objects that come into a selection and leave it.
fn selectors() -> Vec<Case> {
    let red = |name| {
        case(name)
            .post(MAPS, labelled("one", &["color=red"]))
            .named("one")
            .watch("w", maps("?watch=true&resourceVersion=${rv:one}&labelSelector=color%3Dred"))
            .expect(200)
    };
    vec![
        red("watch-label-leaving-is-a-deletion-with-the-old-state")
            .put(maps("/one"), labelled("one", &["color=blue"]))
            .named("left")
            .events("w", "DELETED one")
            .see("/0/object/metadata/labels/color", "red")
            .see("/0/object/metadata/resourceVersion", "${rv:left}"),
        red("watch-label-entering-is-an-addition")
            .put(maps("/one"), labelled("one", &["color=blue"]))
            .put(maps("/one"), labelled("one", &["color=red"]))
            .events("w", "DELETED one, ADDED one"),
        red("watch-label-changes-inside-are-changes")
            .put(maps("/one"), labelled("one", &["color=red", "size=big"]))
            .events("w", "MODIFIED one"),
        red("watch-label-changes-outside-are-not-seen")
            .post(MAPS, map("plain"))
            .put(maps("/plain"), changed("plain", "new"))
            .delete(maps("/plain"))
            .post(MAPS, labelled("mark", &["color=red"]))
            .events("w", "ADDED mark"),
        red("watch-label-deletion-outside-is-not-seen")
            .put(maps("/one"), labelled("one", &["color=blue"]))
            .delete(maps("/one"))
            .post(MAPS, labelled("mark", &["color=red"]))
            .events("w", "DELETED one, ADDED mark"),
        one("watch-field-name")
            .watch("w", maps("?watch=true&fieldSelector=metadata.name%3Dtwo"))
            .put(maps("/one"), changed("one", "new"))
            .post(MAPS, map("two"))
            .delete(maps("/two"))
            .events("w", "ADDED two, DELETED two"),
        case("watch-field-that-is-not-supported").watch("w", maps("?watch=true&fieldSelector=data.k%3Dv")).expect(400),
        case("watch-label-selector-that-is-wrong").watch("w", maps("?watch=true&labelSelector=a%20b")).expect(400),
        one("watch-one-name-by-its-path-is-a-get").get(maps("/one?watch=true")).see("/kind", "ConfigMap"),
        case("watch-field-of-pods-entering")
            .post(
                "/api/v1/namespaces/${ns}/pods",
                json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
            )
            .named("p")
            .watch(
                "w",
                "/api/v1/namespaces/${ns}/pods?watch=true&resourceVersion=${rv:p}&fieldSelector=status.phase%3DRunning",
            )
            .merge("/api/v1/namespaces/${ns}/pods/p/status", json!({"status": {"phase": "Running"}}))
            .merge("/api/v1/namespaces/${ns}/pods/p/status", json!({"status": {"phase": "Succeeded"}}))
            .events("w", "ADDED p, DELETED p"),
    ]
}

/// A watch that begins with the state.
fn watch_list(rest: &str) -> String {
    let query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    maps(&format!("{query}{rest}"))
}

fn bookmarks() -> Vec<Case> {
    vec![
        one("watch-list-sends-the-state-then-a-bookmark")
            .watch("w", watch_list(""))
            .expect(200)
            .events("w", "ADDED one, BOOKMARK")
            .see("/1/object/metadata/annotations/k8s.io~1initial-events-end", "true")
            .post(MAPS, map("two"))
            .events("w", "ADDED two"),
        one("watch-list-not-older-than-a-version")
            .watch("w", watch_list("&resourceVersion=${rv:one}"))
            .events("w", "ADDED one, BOOKMARK"),
        case("watch-list-of-nothing").watch("w", watch_list("")).events("w", "BOOKMARK"),
        one("watch-list-with-a-selector").watch("w", watch_list("&labelSelector=absent")).events("w", "BOOKMARK"),
        one("watch-list-without-bookmarks")
            .watch("w", maps("?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"))
            .end("w", "ADDED one"),
        case("watch-list-needs-a-match").watch("w", maps("?watch=true&sendInitialEvents=true")).expect(422),
        case("watch-list-refuses-an-exact-match")
            .watch("w", maps("?watch=true&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1"))
            .expect(422),
        case("watch-list-of-the-future")
            .watch("w", watch_list("&resourceVersion=99999999999&timeoutSeconds=2"))
            .expect(200)
            .end("w", "ERROR 504"),
        one("watch-send-initial-events-false-begins-now")
            .watch("w", maps("?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"))
            .expect(200)
            .post(MAPS, map("two"))
            .events("w", "ADDED two"),
        one("watch-send-initial-events-false-from-a-version")
            .post(MAPS, map("two"))
            .watch(
                "w",
                maps("?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=${rv:one}"),
            )
            .events("w", "ADDED two"),
        one("watch-bookmark-before-the-timeout")
            .watch("w", maps("?watch=true&resourceVersion=${rv:one}&allowWatchBookmarks=true&timeoutSeconds=3"))
            .events("w", "BOOKMARK")
            .absent("/0/object/data"),
    ]
}

/// How a watch is asked for.
fn requests() -> Vec<Case> {
    vec![
        one("watch-1-is-true").watch("w", maps("?watch=1&timeoutSeconds=1")).end("w", "ADDED one"),
        one("watch-0-is-a-list").get(maps("?watch=0")).see("/kind", "ConfigMapList"),
        one("watch-false-is-a-list").get(maps("?watch=false")).see("/kind", "ConfigMapList"),
        one("watch-empty-is-true").watch("w", maps("?watch=&timeoutSeconds=1")).end("w", "ADDED one"),
        one("watch-alone-is-true").watch("w", maps("?watch&timeoutSeconds=1")).end("w", "ADDED one"),
        one("watch-garbage-is-true").watch("w", maps("?watch=perhaps&timeoutSeconds=1")).end("w", "ADDED one"),
        one("watch-upper-case-false").get(maps("?watch=FALSE&timeoutSeconds=1")).expect(200),
        one("watch-by-the-old-path")
            .watch("w", "/api/v1/watch/namespaces/${ns}/configmaps?timeoutSeconds=1")
            .expect(200)
            .end("w", "ADDED one"),
        one("watch-by-the-old-path-of-one-name")
            .post(MAPS, map("two"))
            .watch("w", "/api/v1/watch/namespaces/${ns}/configmaps/one?timeoutSeconds=1")
            .expect(200)
            .end("w", "ADDED one"),
        one("watch-by-the-old-path-across-namespaces")
            .watch(
                "w",
                "/api/v1/watch/configmaps?timeoutSeconds=1&resourceVersion=${rv:one}&labelSelector=case%3D${id}",
            )
            .expect(200)
            .post(MAPS, labelled("two", &["case=${id}"]))
            .end("w", "ADDED two"),
        one("watch-by-the-old-path-even-with-watch-false")
            .watch("w", "/api/v1/watch/namespaces/${ns}/configmaps?watch=false&timeoutSeconds=1")
            .expect(200)
            .end("w", "ADDED one"),
        case("watch-by-the-old-path-refuses-writes")
            .post("/api/v1/watch/namespaces/${ns}/configmaps", map("one"))
            .expect(405),
        one("watch-pretty-is-still-a-line-an-event")
            .watch("w", maps("?watch=true&pretty=true&timeoutSeconds=1"))
            .expect(200),
        case("watch-of-a-kind-that-does-not-exist").get("/api/v1/namespaces/${ns}/unknowns?watch=true").expect(404),
        case("watch-timeout-that-is-no-number").watch("w", maps("?watch=true&timeoutSeconds=soon")).expect(400),
        one("watch-accepts-stream-json")
            .watch("w", maps("?watch=true"))
            .header("accept", "application/json;stream=watch")
            .expect(200)
            .events("w", "ADDED one"),
        case("watch-as-something-unknown").watch("w", maps("?watch=true")).header("accept", "text/html").expect(406),
    ]
}
