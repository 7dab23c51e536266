//! Deletes, and what follows from them: dependents, the contents of namespaces, claims and custom
//! resources.

use proptest::prelude::*;

use super::*;

/// The stored bytes that one step is allowed for: an object of 300 bytes may cost 150 steps.
const BYTES_PER_STEP: u64 = 2;
/// With this many objects, a square of their number is far beyond the bound.
const LARGE: usize = 1_000;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const HELD: &str = "example.com/held";

/// Creates objects, in proportion to a number, and returns the path and the body of a delete.
type Case = (&'static str, fn(&mut Stored, usize) -> (String, Value));

const CASES: [Case; 16] = [
    ("dependents, background", |stored, n| dependents(stored, n, "Background", |_| false)),
    ("dependents, foreground", |stored, n| dependents(stored, n, "Foreground", |_| false)),
    ("dependents, orphaned", |stored, n| dependents(stored, n, "Orphan", |_| false)),
    ("dependents, half of them held", |stored, n| dependents(stored, n, "Foreground", |at| at % 2 == 0)),
    ("a chain, foreground", |stored, n| chain(stored, n, false)),
    ("a chain, and its head waits for each link", |stored, n| chain(stored, n, true)),
    ("a chain with a survivor that names each link", |stored, n| survivor(stored, n, false)),
    ("a chain of links with two references each, and a survivor", |stored, n| survivor(stored, n, true)),
    ("a collection", |stored, n| {
        maps(stored, MAPS, n, |_| json!({}));
        (MAPS.to_owned(), Value::Null)
    }),
    ("a collection that is held", |stored, n| {
        maps(stored, MAPS, n, |_| json!({"finalizers": [HELD]}));
        (MAPS.to_owned(), Value::Null)
    }),
    ("a namespace", |stored, n| {
        stored.create("/api/v1/namespaces", &json!({"metadata": {"name": "n"}}));
        maps(stored, "/api/v1/namespaces/n/configmaps", n / 2, |_| json!({"finalizers": [HELD]}));
        maps(stored, "/api/v1/namespaces/n/configmaps", n / 2, |at| json!({"name": format!("plain{at}")}));
        (0..n).for_each(|at| pod(stored, "/api/v1/namespaces/n/pods", at, &[]));
        ("/api/v1/namespaces/n".to_owned(), Value::Null)
    }),
    ("claims beside Pods", |stored, n| {
        (0..n).for_each(|at| claim(stored, at));
        (0..n).for_each(|at| pod(stored, PODS, at, &[]));
        (CLAIMS.to_owned(), Value::Null)
    }),
    ("claims that one Pod uses", |stored, n| {
        (0..n).for_each(|at| claim(stored, at));
        let names: Vec<String> = (0..n).map(|at| format!("c{at}")).collect();
        pod(stored, PODS, 0, &names);
        (1..n).for_each(|at| pod(stored, PODS, at, &[]));
        stored.succeed("DELETE", CLAIMS, &Value::Null);
        (format!("{PODS}/p0"), Value::Null)
    }),
    ("Pods that use one claim", |stored, n| {
        claim(stored, 0);
        (0..n).for_each(|at| pod(stored, PODS, at, &["c0".to_owned()]));
        stored.succeed("DELETE", CLAIMS, &Value::Null);
        (PODS.to_owned(), Value::Null)
    }),
    ("a definition with objects", |stored, n| {
        stored.create(DEFINITIONS, &definition(&json!({"type": "object"})));
        (0..n).for_each(|at| stored.create_thing(&format!("t{at}"), &Value::Null));
        (format!("{DEFINITIONS}/things.example.com"), Value::Null)
    }),
    ("definitions, half of which lack their names", |stored, n| {
        // Each is served, and costs many times what a ConfigMap does.
        for at in 0..n / 5 {
            let plural = format!("plural{at}");
            let kind = format!("Kind{}", at / 2);
            stored.create(
                DEFINITIONS,
                &json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
                    "group": "example.com", "scope": "Cluster", "names": {"plural": plural, "kind": kind},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema":
                        {"openAPIV3Schema": {"type": "object", "properties": members(20, |_| json!({"type": "string"}))}},
                    }],
                }}),
            );
        }
        (DEFINITIONS.to_owned(), Value::Null)
    }),
];

/// Creates ConfigMaps with this metadata.
fn maps(stored: &mut Stored, path: &str, n: usize, metadata: impl Fn(usize) -> Value) {
    for at in 0..n {
        let mut metadata = metadata(at);
        if metadata["name"].is_null() {
            metadata["name"] = format!("m{at}").into();
        }
        stored.create(path, &json!({ "metadata": metadata }));
    }
}

fn claim(stored: &mut Stored, at: usize) {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    stored.create(CLAIMS, &json!({"metadata": {"name": format!("c{at}")}, "spec": spec}));
}

/// Creates a Pod on a node that uses these claims.
fn pod(stored: &mut Stored, path: &str, at: usize, claims: &[String]) {
    let volume = |claim: &String| json!({"name": format!("v-{claim}"), "persistentVolumeClaim": {"claimName": claim}});
    let spec = json!({
        "nodeName": "n", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}],
        "volumes": claims.iter().map(volume).collect::<Value>(),
    });
    stored.create(path, &json!({"metadata": {"name": format!("p{at}")}, "spec": spec}));
}

/// A reference to an owner that waits for the object.
fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true})
}

fn dependents(stored: &mut Stored, n: usize, policy: &str, is_held: impl Fn(usize) -> bool) -> (String, Value) {
    let uid = stored.create(MAPS, &json!({"metadata": {"name": "owner"}}));
    maps(stored, MAPS, n, |at| {
        let finalizers = if is_held(at) { json!([HELD]) } else { json!([]) };
        json!({"ownerReferences": [owner("owner", &uid)], "finalizers": finalizers})
    });
    (format!("{MAPS}/owner"), json!({ "propagationPolicy": policy }))
}

/// ConfigMaps each of which belongs to the one before and, `to_head`, to the first one. The names
/// are in the order of the chain.
fn chain(stored: &mut Stored, n: usize, to_head: bool) -> (String, Value) {
    let head = stored.create(MAPS, &json!({"metadata": {"name": "c00000"}}));
    let mut last = ("c00000".to_owned(), head.clone());
    for at in 1..n {
        let name = format!("c{at:05}");
        let mut owners = vec![owner(&last.0, &last.1)];
        if to_head && at > 1 {
            owners.push(owner("c00000", &head));
        }
        let uid = stored.create(MAPS, &json!({"metadata": {"name": name, "ownerReferences": owners}}));
        last = (name, uid);
    }
    (format!("{MAPS}/c00000"), json!({"propagationPolicy": "Foreground"}))
}

/// A chain, and an object that belongs to each of its links and to another object, which stays.
fn survivor(stored: &mut Stored, n: usize, has_two_references: bool) -> (String, Value) {
    let solid = stored.create(MAPS, &json!({"metadata": {"name": "solid"}}));
    let mut owners = vec![owner("solid", &solid)];
    let mut last: Option<(String, String)> = None;
    // The first link is what the test deletes.
    for at in 0..n.max(1) {
        let name = format!("c{at:05}");
        let references = if has_two_references { 2 } else { 1 };
        let before: Vec<Value> =
            last.iter().flat_map(|(name, uid)| (0..references).map(move |_| owner(name, uid))).collect();
        let uid = stored.create(MAPS, &json!({"metadata": {"name": name, "ownerReferences": before}}));
        owners.push(owner(&name, &uid));
        last = Some((name, uid));
    }
    stored.create(MAPS, &json!({"metadata": {"name": "a-survivor", "ownerReferences": owners}}));
    (format!("{MAPS}/c00000"), json!({"propagationPolicy": "Background"}))
}

/// Returns what is wrong with the cost of a case.
fn fault((what, case): Case, n: usize) -> Option<String> {
    let mut stored = Stored::new();
    let (path, body) = case(&mut stored, n);
    let sent = stored.send("DELETE", &path, &body);
    let (status, steps, Stored { objects, bytes, .. }) = (sent.status, steps(sent.cost), stored);
    let is_fine = status < 300 && steps <= FIXED + bytes as u64 / BYTES_PER_STEP;
    (!is_fine).then(|| format!("{n} in {what}: {status}, {steps} steps for {objects} objects of {bytes} bytes"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn cascades_of_any_size_cost_by_the_objects_that_they_concern(case in 0..CASES.len(), n in 0_usize..40) {
        prop_assert_eq!(fault(CASES[case], n), None);
    }
}

#[test]
fn large_cascades_cost_by_the_objects_that_they_concern() {
    let faults: Vec<String> = CASES.into_iter().filter_map(|case| fault(case, LARGE)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}
