//! Lists, of objects as they are stored and in other forms.

use proptest::prelude::*;

use super::bounded::within_memory;
use super::*;

/// The stored bytes that one step is allowed for.
const BYTES_PER_STEP: u64 = 2;
/// With this many objects, a square of their number is far beyond the bound.
const LARGE: usize = 1_000;

/// Creates objects, in proportion to a number, and returns the path of a list and what it accepts.
type Case = (&'static str, fn(&mut Stored, usize) -> (String, &'static str));

const YAML: &str = "application/yaml";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

const CASES: [Case; 13] = [
    ("a list", |stored, n| maps(stored, n, "")),
    ("a list with a selector", |stored, n| maps(stored, n, "?labelSelector=app%3Dx,k0%20notin%20(a,b)")),
    ("a list in YAML", |stored, n| (maps(stored, n, "").0, YAML)),
    ("an indented list", |stored, n| maps(stored, n, "?pretty=1")),
    ("a list of metadata", |stored, n| (maps(stored, n, "").0, METADATA)),
    ("a page", |stored, n| maps(stored, n, "?limit=1")),
    ("a list of the past", |stored, n| {
        maps(stored, n, "");
        for at in 0..n {
            stored.succeed("DELETE", &format!("{MAPS}/m{at}"), &Value::Null);
        }
        (format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion={}", 10 + n), "")
    }),
    ("a list after a change of the schema", |stored, n| things(stored, n, "")),
    ("a list after a change of the schema, with a selector", |stored, n| {
        things(stored, n, "?fieldSelector=metadata.name%3Dt0")
    }),
    ("a list after a change of the schema, in YAML", |stored, n| (things(stored, n, "").0, YAML)),
    ("a page after a change of the schema", |stored, n| things(stored, n, "?limit=1")),
    ("as many requirements as labels", |stored, n| {
        stored.create(MAPS, &json!({"metadata": {"name": "a", "labels": members(n, |_| json!("v"))}}));
        let labels: Vec<String> = (0..n).map(|at| format!("k{at}")).collect();
        (format!("{MAPS}?labelSelector={}", labels.join(",")), "")
    }),
    ("another version of a kind", |stored, n| {
        const SCALERS: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
        for at in 0..n {
            let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
            let spec = json!({"maxReplicas": 3, "scaleTargetRef": target});
            stored.create(SCALERS, &json!({"metadata": {"name": format!("h{at}")}, "spec": spec}));
        }
        (SCALERS.to_owned(), "")
    }),
];

fn maps(stored: &mut Stored, n: usize, query: &str) -> (String, &'static str) {
    for at in 0..n {
        let labels = json!({"app": "x", format!("k{at}"): "v"});
        stored.create(MAPS, &json!({"metadata": {"name": format!("m{at}"), "labels": labels}, "data": {"a": "b"}}));
    }
    (format!("{MAPS}{query}"), "")
}

/// A schema of a list, each item of which has this default.
fn items_with(default: Option<&str>) -> Value {
    let mut text = json!({"type": "string"});
    if let Some(default) = default {
        text["default"] = default.into();
    }
    let item = json!({"type": "object", "properties": {"text": text, "n": {"type": "integer"}}});
    json!({"type": "object", "properties": {"spec": {"type": "array", "items": item}}})
}

/// Things, and after them a schema with another default.
fn things(stored: &mut Stored, n: usize, query: &str) -> (String, &'static str) {
    stored.create(DEFINITIONS, &definition(&items_with(None)));
    (0..n).for_each(|at| stored.create_thing(&format!("t{at}"), &json!([{"n": 1}, {"n": 2}])));
    change_default(stored, "x");
    (format!("{THINGS}{query}"), "")
}

fn change_default(stored: &Stored, default: &str) {
    let path = format!("{DEFINITIONS}/things.example.com");
    stored.succeed("PATCH", &path, &json!({"spec": definition(&items_with(Some(default)))["spec"]}));
}

/// Returns what is wrong with the cost of a case.
fn fault((what, case): Case, n: usize) -> Option<String> {
    let mut stored = Stored::new();
    let (path, accept) = case(&mut stored, n);
    let sent = Sent::accept(&stored.server, &path, accept);
    let (status, steps, Stored { objects, bytes, .. }) = (sent.status, steps(sent.cost), stored);
    let is_fine = status == 200 && steps <= FIXED / 10 + bytes as u64 / BYTES_PER_STEP;
    (!is_fine).then(|| format!("{n} in {what}: {status}, {steps} steps for {objects} objects of {bytes} bytes"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn lists_of_any_size_cost_by_what_is_stored(case in 0..CASES.len(), n in 1_usize..40) {
        prop_assert_eq!(fault(CASES[case], n), None);
    }
}

#[test]
fn large_lists_cost_by_what_is_stored() {
    let faults: Vec<String> = CASES.into_iter().filter_map(|case| fault(case, LARGE)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn a_page_costs_by_its_own_objects() {
    let mut stored = Stored::new();
    let (path, _) = things(&mut stored, 200, "?limit=1");
    let page = stored.send("GET", &path, &Value::Null);
    let items = page.body["items"].as_array().unwrap();
    assert_eq!((items.len(), &page.body["metadata"]["remainingItemCount"]), (1, &json!(199)));
    let all = stored.send("GET", THINGS, &Value::Null);
    assert!(steps(page.cost) * 10 < steps(all.cost), "{:?} and {:?}", page.cost, all.cost);
}

/// Each object is compared with each requirement: both numbers multiply.
#[test]
fn many_requirements_and_many_objects_are_bounded() {
    let mut stored = Stored::new();
    maps(&mut stored, 2_100, "");
    let labels: Vec<String> = (0..10_000).map(|at| format!("!{at}")).collect();
    let sent = stored.send("GET", &format!("{MAPS}?labelSelector={}", labels.join(",")), &Value::Null);
    assert_eq!(sent.status, 413, "{:?}", sent.cost);
    assert!(sent.cost.steps <= STEPS_MAX, "{:?}", sent.cost);
}

/// Objects that were small when they were written.
#[test]
fn defaults_of_a_changed_schema_do_not_multiply_without_end() {
    const NAME: &str = "reads::defaults_of_a_changed_schema_do_not_multiply_without_end";
    within_memory(NAME, 900, || {
        let mut stored = Stored::new();
        stored.create(DEFINITIONS, &definition(&items_with(None)));
        stored.create_thing("large", &json!(vec![json!({}); 30_000]));
        stored.create_thing("small", &json!([{}]));
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": "held", "finalizers": ["example.com/held"]}, "spec": vec![json!({}); 30_000]});
        stored.create(THINGS, &thing);
        // With it, the large one takes 1.2 GB.
        change_default(&stored, &"x".repeat(40_000));
        let large = format!("{THINGS}/large");
        for (method, path, body) in [
            ("GET", &large[..], Value::Null),
            ("GET", THINGS, Value::Null),
            ("PATCH", &large, json!({"metadata": {"labels": {"a": "b"}}})),
        ] {
            let sent = stored.send(method, path, &body);
            assert_eq!(sent.status, 413, "{method} {path}: {}", sent.body);
            let message = sent.body["message"].as_str().unwrap();
            assert!(message.contains("was written before its schema changed"), "{message}");
        }
        let small = stored.succeed("GET", &format!("{THINGS}/small"), &Value::Null);
        assert_eq!(small["spec"][0]["text"].as_str().map(str::len), Some(40_000));
        let watch = format!("{THINGS}?watch=1&fieldSelector=metadata.name%3Dlarge");
        let watch = Sent::accept(&stored.server, &watch, "");
        assert_eq!((&watch.body["type"], &watch.body["object"]["code"]), (&json!("ERROR"), &json!(413)));
        // An object that cannot be returned can be deleted.
        stored.succeed("DELETE", &large, &Value::Null);
        stored.succeed("DELETE", &format!("{THINGS}/held"), &Value::Null);
        change_default(&stored, "x");
        let held = stored.succeed("GET", &format!("{THINGS}/held"), &Value::Null);
        assert!(held["metadata"]["deletionTimestamp"].is_string());
    });
}

/// A value of YAML or indented JSON is built from the whole response.
#[test]
fn lists_that_are_written_again_are_bounded() {
    within_memory("reads::lists_that_are_written_again_are_bounded", 500, || {
        let mut stored = Stored::new();
        let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        stored.create(DEFINITIONS, &definition(&free));
        // Small maps take the most memory for their bytes.
        (0..10).for_each(|at| stored.create_thing(&format!("t{at}"), &json!(vec![json!({"a": 1}); 90_000])));
        for (path, accept) in [(THINGS.to_owned(), YAML), (format!("{THINGS}?pretty=1"), "")] {
            let sent = Sent::accept(&stored.server, &path, accept);
            assert_eq!(sent.status, 413, "{path} as {accept}");
        }
        assert_eq!(Sent::accept(&stored.server, &format!("{THINGS}?limit=1&pretty=1"), "").status, 200);
    });
}
