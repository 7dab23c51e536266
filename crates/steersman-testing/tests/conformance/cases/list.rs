use serde_json::json;

use super::{MAPS, labelled, map, maps};
use crate::conformance::case::{Case, Needs, case};

pub(crate) fn cases() -> Vec<Case> {
    [versions(), pages(), label_selectors(), field_selectors(), scopes_and_options()].into_iter().flatten().collect()
}

/// Two ConfigMaps, `one` and `two`; the answers have these names. The list makes sure that a cache
/// has them, too: version 0 takes whatever is there.
fn two(name: &'static str) -> Case {
    case(name).post(MAPS, map("one")).named("one").expect(201).post(MAPS, map("two")).named("two").expect(201).get(MAPS)
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/${ns}/leases";

/// A case about old versions: a first page of two Leases, and changes since. The controllers put
/// ConfigMaps of their own into a namespace, but no Leases.
fn leases(name: &'static str) -> Case {
    let lease = |name: &str, holder: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": holder}});
    case(name)
        .needs(Needs::Compaction)
        .post(LEASES, lease("one", "me"))
        .named("one")
        .post(LEASES, lease("two", "me"))
        .get(format!("{LEASES}?limit=1"))
        .named("page")
        .expect(200)
        .merge(format!("{LEASES}/two"), lease("two", "you"))
        .expect(200)
        .merge(format!("{LEASES}/two"), lease("two", "them"))
        .expect(200)
}

/// Which state a list shows: `resourceVersion` and `resourceVersionMatch`.
fn versions() -> Vec<Case> {
    vec![
        case("list-of-nothing").get(MAPS).expect(200).see("/items", json!([])),
        two("list-is-current-without-a-version")
            .get(MAPS)
            .see("/items/1/metadata/resourceVersion", "${rv:two}")
            .absent("/items/0/kind")
            .get(maps("?resourceVersion="))
            .see("/items/1/metadata/name", "two"),
        two("list-version-0-takes-any-state").get(maps("?resourceVersion=0")).expect(200).see("/kind", "ConfigMapList"),
        two("list-not-older-than-by-default")
            .get(maps("?resourceVersion=${rv:one}"))
            .expect(200)
            .see("/items/1/metadata/name", "two"),
        two("list-not-older-than")
            .get(maps("?resourceVersion=${rv:one}&resourceVersionMatch=NotOlderThan"))
            .expect(200)
            .see("/items/1/metadata/name", "two"),
        two("list-not-older-than-version-0")
            .get(maps("?resourceVersion=0&resourceVersionMatch=NotOlderThan"))
            .expect(200),
        two("list-exact-version")
            .get(maps("?resourceVersion=${rv:one}&resourceVersionMatch=Exact"))
            .expect(200)
            .see("/metadata/resourceVersion", "${rv:one}")
            .absent("/items/1"),
        two("list-exact-version-shows-what-was-changed-and-deleted-since")
            .put(maps("/one"), json!({"metadata": {"name": "one"}, "data": {"k": "new"}}))
            .delete(maps("/two"))
            .expect(200)
            .get(maps("?resourceVersion=${rv:two}&resourceVersionMatch=Exact"))
            .see("/items/0/data/k", "v")
            .see("/items/1/metadata/name", "two"),
        case("list-exact-version-0-is-refused").get(maps("?resourceVersion=0&resourceVersionMatch=Exact")).expect(422),
        case("list-match-without-a-version-is-refused").get(maps("?resourceVersionMatch=Exact")).expect(422),
        case("list-unknown-match-is-refused")
            .get(maps("?resourceVersion=1&resourceVersionMatch=Sometimes"))
            .expect(422),
        case("list-version-that-is-no-number").get(maps("?resourceVersion=abc")).expect(400),
        case("list-version-that-is-negative").get(maps("?resourceVersion=-1")).expect(400),
        case("list-version-of-the-future")
            .get(maps("?resourceVersion=99999999999"))
            .expect(504)
            .see("/reason", "Timeout"),
        case("list-exact-version-of-the-future")
            .get(maps("?resourceVersion=99999999999&resourceVersionMatch=Exact"))
            .expect(504),
        case("list-version-beyond-64-bits").get(maps("?resourceVersion=99999999999999999999")).expect(400),
        case("get-ignores-the-version-it-has-reached")
            .post(MAPS, map("one"))
            .named("one")
            .get(MAPS)
            .get(maps("/one?resourceVersion=${rv:one}"))
            .expect(200)
            .get(maps("/one?resourceVersion=0"))
            .expect(200),
        case("get-version-of-the-future")
            .post(MAPS, map("one"))
            .get(maps("/one?resourceVersion=99999999999"))
            .expect(504),
        case("get-version-that-is-no-number").post(MAPS, map("one")).get(maps("/one?resourceVersion=abc")).expect(500),
        leases("list-exact-version-that-was-compacted")
            .until(format!("{LEASES}?resourceVersion=${{rv:one}}&resourceVersionMatch=Exact"))
            .expect(410),
    ]
}

/// `limit` and `continue`.
fn pages() -> Vec<Case> {
    let three = |name| two(name).post(MAPS, map("three")).named("three").expect(201).get(MAPS);
    vec![
        three("list-limit-gives-a-page-and-counts-the-rest")
            .get(maps("?limit=2"))
            .named("page")
            .see("/metadata/remainingItemCount", 1)
            .see("/items/1/metadata/name", "three")
            .get(maps("?limit=2&continue=${continue:page}"))
            .see("/items/0/metadata/name", "two")
            .absent("/metadata/continue"),
        three("list-pages-stay-on-one-version")
            .get(maps("?limit=1"))
            .named("page")
            .post(MAPS, map("later"))
            .delete(maps("/two"))
            .get(maps("?limit=5&continue=${continue:page}"))
            .see("/metadata/resourceVersion", "${rv:page}")
            .see("/items/1/metadata/name", "two")
            .see("/items/1/metadata/resourceVersion", "${rv:two}"),
        three("list-limit-that-fits-has-no-next-page").get(maps("?limit=3")).absent("/metadata/continue"),
        three("list-limit-0-is-no-limit").get(maps("?limit=0")).see("/items/2/metadata/name", "two"),
        three("list-limit-is-ignored-with-version-0")
            .get(maps("?limit=1&resourceVersion=0"))
            .see("/items/2/metadata/name", "two"),
        three("list-limit-with-a-version-is-exact")
            .get(maps("?limit=1&resourceVersion=${rv:two}"))
            .named("page")
            .see("/metadata/resourceVersion", "${rv:two}")
            .see("/metadata/remainingItemCount", 1)
            .get(maps("?continue=${continue:page}"))
            .see("/items/0/metadata/name", "two")
            .absent("/items/1"),
        three("list-limit-at-an-exact-version")
            .get(maps("?limit=1&resourceVersion=${rv:two}&resourceVersionMatch=Exact"))
            .named("page")
            .see("/metadata/resourceVersion", "${rv:two}")
            .get(maps("?continue=${continue:page}"))
            .see("/items/0/metadata/name", "two")
            .absent("/items/1"),
        three("list-limit-not-older-than")
            .get(maps("?limit=1&resourceVersion=${rv:one}&resourceVersionMatch=NotOlderThan"))
            .expect(200),
        three("list-remaining-is-not-counted-with-a-label-selector")
            .get(maps("?limit=1&labelSelector=!absent"))
            .expect(200)
            .absent("/metadata/remainingItemCount"),
        case("list-limit-that-is-negative").get(maps("?limit=-1")).expect(200),
        case("list-limit-that-is-no-number").get(maps("?limit=many")).expect(400),
        three("list-continue-with-a-version-is-refused")
            .get(maps("?limit=1"))
            .named("page")
            .get(maps("?continue=${continue:page}&resourceVersion=${rv:one}"))
            .expect(400),
        three("list-continue-with-version-0")
            .get(maps("?limit=1"))
            .named("page")
            .get(maps("?continue=${continue:page}&resourceVersion=0"))
            .see("/items/0/metadata/name", "three"),
        three("list-continue-with-a-match-is-refused")
            .get(maps("?limit=1"))
            .named("page")
            .get(maps("?continue=${continue:page}&resourceVersion=1&resourceVersionMatch=Exact"))
            .expect(422),
        case("list-continue-that-is-garbage").get(maps("?limit=1&continue=garbage")).expect(400),
        case("list-continue-that-is-not-base64").get(maps("?limit=1&continue=***")).expect(400),
        three("list-continue-keeps-the-selector-of-the-request")
            .get(maps("?limit=1"))
            .named("page")
            .get(maps("?continue=${continue:page}&fieldSelector=metadata.name%3Dtwo"))
            .see("/items/0/metadata/name", "two")
            .absent("/items/1"),
        leases("list-continue-after-compaction-offers-to-go-on")
            .until(format!("{LEASES}?limit=1&continue=${{continue:page}}"))
            .named("gone")
            .expect(410)
            .get(format!("{LEASES}?limit=1&continue=${{continue:gone}}"))
            .expect(200)
            .see("/items/0/metadata/name", "two"),
    ]
}

fn label_selectors() -> Vec<Case> {
    let coloured = |name| {
        case(name)
            .post(MAPS, labelled("blue", &["color=blue", "size=big"]))
            .post(MAPS, map("plain"))
            .post(MAPS, labelled("red", &["color=red"]))
    };
    let names = |case: Case, selector: &str, names: &[&str]| {
        let mut case = case.get(maps(&format!("?labelSelector={selector}"))).expect(200);
        for (index, name) in names.iter().enumerate() {
            let pointer = ["/items/0/metadata/name", "/items/1/metadata/name", "/items/2/metadata/name"][index];
            case = case.see(pointer, *name);
        }
        case.absent(["/items/0", "/items/1", "/items/2", "/items/3"][names.len()])
    };
    vec![
        names(coloured("list-label-equals"), "color%3Dred", &["red"]),
        names(coloured("list-label-equals-twice"), "color%3D%3Dred", &["red"]),
        names(coloured("list-label-differs-or-is-absent"), "color!%3Dred", &["blue", "plain"]),
        names(coloured("list-label-exists"), "color", &["blue", "red"]),
        names(coloured("list-label-does-not-exist"), "!color", &["plain"]),
        names(coloured("list-label-in"), "color%20in%20(red,%20green)", &["red"]),
        names(coloured("list-label-not-in"), "color%20notin%20(red)", &["blue", "plain"]),
        names(coloured("list-labels-are-all-required"), "color%3Dblue,size%3Dbig", &["blue"]),
        names(coloured("list-label-compares-numbers"), "size%3E1", &[]),
        names(coloured("list-label-selector-that-is-empty"), "", &["blue", "plain", "red"]),
        case("list-label-selector-with-a-bad-operator").get(maps("?labelSelector=color%20like%20red")).expect(400),
        case("list-label-selector-with-a-bad-key").get(maps("?labelSelector=-color%3Dred")).expect(400),
        case("list-label-selector-with-a-bad-value").get(maps("?labelSelector=color%3Dred%2F")).expect(400),
        case("list-label-selector-that-does-not-end").get(maps("?labelSelector=color%20in%20(red")).expect(400),
        case("list-label-greater-than-a-word").get(maps("?labelSelector=color%3Ered")).expect(400),
    ]
}

fn field_selectors() -> Vec<Case> {
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pods = |rest: &str| format!("/api/v1/namespaces/${{ns}}/pods{rest}");
    vec![
        two("list-field-name")
            .get(maps("?fieldSelector=metadata.name%3Done"))
            .see("/items/0/metadata/name", "one")
            .absent("/items/1"),
        two("list-field-name-differs")
            .get(maps("?fieldSelector=metadata.name!%3Done"))
            .see("/items/0/metadata/name", "two")
            .absent("/items/1"),
        two("list-field-namespace-across-namespaces")
            .get("/api/v1/configmaps?fieldSelector=metadata.namespace%3D${ns},metadata.name%3Done")
            .see("/items/0/metadata/name", "one")
            .absent("/items/1"),
        two("list-field-name-that-contradicts-itself")
            .get(maps("?fieldSelector=metadata.name%3Done,metadata.name%3Dtwo"))
            .expect(200)
            .see("/items", json!([])),
        case("list-field-that-is-not-supported").get(maps("?fieldSelector=data.k%3Dv")).expect(400),
        case("list-field-selector-that-is-no-selector").get(maps("?fieldSelector=metadata.name")).expect(400),
        case("list-field-selector-with-in").get(maps("?fieldSelector=metadata.name%20in%20(one)")).expect(400),
        case("list-field-of-pods")
            .post(pods(""), pod("here"))
            .expect(201)
            .post(pods(""), pod("there"))
            .get(pods("?fieldSelector=spec.nodeName%3D,metadata.name%3Dthere,status.phase!%3DRunning"))
            .expect(200)
            .see("/items/0/metadata/name", "there")
            .absent("/items/1"),
        case("list-field-of-pods-that-is-not-supported").get(pods("?fieldSelector=spec.hostname%3Dx")).expect(400),
        case("list-field-of-namespaces")
            .get("/api/v1/namespaces?fieldSelector=metadata.name%3D${ns},status.phase%3DActive")
            .see("/items/0/status/phase", "Active"),
        two("list-field-and-label")
            .get(maps("?fieldSelector=metadata.name%3Done&labelSelector=absent"))
            .see("/items", json!([])),
        two("list-one-name-with-a-field-that-contradicts-it")
            .get(maps("/one?fieldSelector=metadata.name%3Dtwo"))
            .expect(200),
    ]
}

fn scopes_and_options() -> Vec<Case> {
    vec![
        two("list-across-namespaces-is-sorted-by-path")
            .post("/api/v1/namespaces", json!({"metadata": {"name": "${ns}-b"}}))
            .post("/api/v1/namespaces/${ns}-b/configmaps", labelled("one", &["case=${id}"]))
            .post(MAPS, labelled("x", &["case=${id}"]))
            .get("/api/v1/configmaps?labelSelector=case%3D${id}")
            // A hyphen comes before the slash that ends a namespace.
            .see("/items/0/metadata/namespace", "${ns}-b")
            .see("/items/1/metadata/name", "x"),
        case("list-of-a-namespace-that-does-not-exist")
            .get("/api/v1/namespaces/${id}-none/configmaps")
            .expect(200)
            .see("/items", json!([])),
        two("list-pretty-is-indented").get(maps("?pretty=true")).expect(200),
        two("list-with-options-that-nobody-knows").get(maps("?shoe=laces")).expect(200),
        two("list-as-partial-metadata")
            .get(MAPS)
            .header("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
            .expect(200)
            .see("/kind", "PartialObjectMetadataList")
            .see("/items/0/kind", "PartialObjectMetadata")
            .absent("/items/0/data"),
        two("list-timeout-that-is-no-number").get(maps("?timeoutSeconds=soon")).expect(400),
        two("list-allow-bookmarks-is-ignored").get(maps("?allowWatchBookmarks=true")).expect(200),
        case("list-send-initial-events-is-refused").get(maps("?sendInitialEvents=true")).expect(422),
    ]
}
