//! Creates, updates and patches.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_wire::protobuf;

use super::bounded::{REFUSED, Sent};
use super::{DEFAULT, DEFINITIONS, FIXED, STEPS_MAX, THINGS, definition, many, members, steps};

/// The cost of each byte of the request, and of the object and the schema that it concerns.
const PER_BYTE: u64 = 12;

/// With this many items, the square of a request is far beyond its bound.
const LARGE: usize = 2_500;

/// An object of a built-in kind: its path, its type, and the object with this number of items.
type BuiltIn = (&'static str, &'static str, &'static str, fn(usize) -> Value);

const BUILT_IN: [BuiltIn; 24] = [
    ("pods", "v1", "Pod", |n| pod(&json!({"containers": many(n, |at| container(at, &json!({})))}))),
    ("pods", "v1", "Pod", |n| pod(&json!({"containers": vec![json!({}); n]}))),
    ("pods", "v1", "Pod", |n| {
        let ports = many(
            n,
            |at| json!({"name": format!("p{at}"), "containerPort": 1 + at % 60_000, "hostPort": 1 + at % 60_000}),
        );
        pod(&json!({"hostNetwork": true, "containers": [container(0, &json!({"ports": ports}))]}))
    }),
    ("pods", "v1", "Pod", |n| {
        let env =
            many(n, |at| json!({"name": format!("E{at}"), "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}));
        pod(&json!({"containers": [container(0, &json!({"env": env}))]}))
    }),
    ("pods", "v1", "Pod", |n| {
        let mounts = many(n, |at| json!({"name": "v", "mountPath": format!("/m/{at}")}));
        pod(&json!({"containers": [container(0, &json!({"volumeMounts": mounts}))]}))
    }),
    ("pods", "v1", "Pod", |n| {
        let volumes = many(n, |at| json!({"name": format!("v{at}"), "configMap": {"name": "c"}}));
        pod(&json!({"containers": [container(0, &json!({}))], "volumes": volumes}))
    }),
    ("pods", "v1", "Pod", |n| {
        let tolerations = many(n, |at| json!({"key": format!("k{at}"), "operator": "Exists"}));
        pod(&json!({"containers": [container(0, &json!({}))], "tolerations": tolerations}))
    }),
    ("pods", "v1", "Pod", |n| {
        let gates = many(n, |at| json!({"name": format!("example.com/g{at}")}));
        pod(&json!({"containers": [container(0, &json!({}))], "schedulingGates": gates}))
    }),
    ("services", "v1", "Service", |n| {
        let port = |at: usize| json!({"name": format!("p{at}"), "port": 1 + at, "protocol": "TCP"});
        json!({"metadata": {"name": "a"}, "spec": {"ports": many(n, port)}})
    }),
    ("services", "v1", "Service", |n| {
        let port = |at: usize| json!({"name": format!("p{at}"), "port": 1 + at, "protocol": "TCP"});
        json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": many(n, port)}})
    }),
    (
        "services",
        "v1",
        "Service",
        |n| json!({"metadata": {"name": "a"}, "spec": {"ports": vec![json!({"port": 1}); n]}}),
    ),
    ("configmaps", "v1", "ConfigMap", |n| json!({"metadata": {"name": "a"}, "data": members(n, |_| json!("v"))})),
    (
        "configmaps",
        "v1",
        "ConfigMap",
        |n| json!({"metadata": {"name": "a", "labels": members(n, |_| json!("v")), "annotations": members(n, |_| json!("v"))}}),
    ),
    ("configmaps", "v1", "ConfigMap", |n| {
        let owner = |at: usize| json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": format!("u{at}"), "controller": true});
        json!({"metadata": {"name": "a", "ownerReferences": many(n, owner)}})
    }),
    (
        "configmaps",
        "v1",
        "ConfigMap",
        |n| json!({"metadata": {"name": "a", "finalizers": many(n, |at| json!(format!("example.com/f{at}")))}}),
    ),
    ("secrets", "v1", "Secret", |n| json!({"metadata": {"name": "a"}, "stringData": members(n, |_| json!("v"))})),
    ("nodes", "v1", "Node", |n| {
        let taint = |at: usize| json!({"key": format!("k{at}"), "effect": "NoSchedule"});
        json!({"metadata": {"name": "a"}, "spec": {"taints": many(n, taint)}})
    }),
    (
        "endpoints",
        "v1",
        "Endpoints",
        |n| json!({"metadata": {"name": "a"}, "subsets": many(n, |_| json!({"ports": [{"port": 1}]}))}),
    ),
    ("limitranges", "v1", "LimitRange", |n| {
        let limit = |_| json!({"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}});
        json!({"metadata": {"name": "a"}, "spec": {"limits": many(n, limit)}})
    }),
    ("deployments", "apps/v1", "Deployment", |n| {
        let labels = members(n, |_| json!("v"));
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container(0, &json!({}))]}});
        json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": labels}, "template": template}})
    }),
    ("ingresses", "networking.k8s.io/v1", "Ingress", |n| {
        let backend = json!({"service": {"name": "s", "port": {"number": 1}}});
        let path = |at: usize| json!({"path": format!("/{at}"), "pathType": "Prefix", "backend": backend});
        json!({"metadata": {"name": "a"}, "spec": {"rules": [{"host": "a.b", "http": {"paths": many(n, path)}}]}})
    }),
    ("networkpolicies", "networking.k8s.io/v1", "NetworkPolicy", |n| {
        let rule = |at: usize| json!({"ports": [{"port": 1 + at % 60_000}]});
        json!({"metadata": {"name": "a"}, "spec": {"podSelector": {}, "ingress": many(n, rule)}})
    }),
    ("roles", "rbac.authorization.k8s.io/v1", "Role", |n| {
        let rule = |_| json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        json!({"metadata": {"name": "a"}, "rules": many(n, rule)})
    }),
    ("rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding", |n| {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
        let subject = |at: usize| json!({"kind": "ServiceAccount", "name": format!("s{at}"), "namespace": "n"});
        json!({"metadata": {"name": "a"}, "roleRef": role, "subjects": many(n, subject)})
    }),
];

/// A schema of a custom resource and an object for it, both of that size.
type Custom = fn(usize) -> (Value, Value);

const CUSTOM: [Custom; 12] = [
    // Many items, with an identity each.
    |n| {
        let item = json!({"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}, "required": ["id"]});
        let list = json!({
            "type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
        });
        (list, many(n, |at| json!({"id": format!("i{at}"), "n": at})))
    },
    |n| {
        let list = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
        (list, many(n, |at| json!(format!("i{at}"))))
    },
    // Many errors.
    |n| (json!({"type": "array", "items": {"type": "string", "minLength": 5}}), many(n, |_| json!("x"))),
    |n| (json!({"type": "object", "additionalProperties": {"type": "integer"}}), members(n, |_| json!("x"))),
    // Many fields, known and unknown.
    |n| {
        let properties = members(n, |_| json!({"type": "string"}));
        (json!({"type": "object", "properties": properties}), members(n, |_| json!("x")))
    },
    |n| (json!({"type": "object", "properties": {"a": {"type": "string"}}}), members(n, |_| json!("x"))),
    // Required fields that are missing.
    |n| (json!({"type": "object", "required": many(n, |at| json!(format!("f{at}")))}), json!({})),
    // Deep nesting.
    |n| {
        let depth = n % 200;
        let deepest = (
            json!({"type": "object", "properties": members(n, |_| json!({"type": "string"}))}),
            members(n, |_| json!("x")),
        );
        (0..depth).fold(deepest, |(schema, value), _| {
            (json!({"type": "object", "properties": {"a": schema}}), json!({"a": value}))
        })
    },
    // Branches, of which only the last matches.
    |n| {
        let branch = |at: usize| json!({"minLength": 5, "maxLength": 5 + at});
        let branches = [many(n, branch).as_array().unwrap().clone(), vec![json!({})]].concat();
        (json!({"type": "string", "anyOf": branches}), json!("x"))
    },
    |n| (json!({"type": "string", "enum": many(n, |at| json!(format!("v{at}")))}), json!("x")),
    // Patterns and the texts for them.
    |n| {
        let pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
        (
            json!({"type": "array", "items": {"type": "string", "pattern": pattern}}),
            many(n, |at| json!(format!("a-{at}"))),
        )
    },
    |n| {
        (json!({"type": "string", "pattern": format!("^({})*$", "[a-z]|[0-9]|".repeat(n % 40))}), json!("a1".repeat(n)))
    },
];

/// The versions and the names of a definition, in proportion to a number.
type Definition = fn(usize) -> (Value, Value);

const DEFINED: [Definition; 5] = [
    |n| (many(n.max(1), |at| version(at, &json!({}))), json!({})),
    // Each has a warning, which names the best of the others.
    |n| (many(n.max(1), |at| version(at, &json!({"deprecated": at % 2 == 0}))), json!({})),
    |n| {
        let schema = |at: usize| json!({"openAPIV3Schema": {"type": "object", "description": format!("of v{at}")}});
        (many(n.max(1), |at| version(at, &json!({"schema": schema(at)}))), json!({}))
    },
    |n| {
        let names = |prefix: &str| many(n, |at| json!(format!("{prefix}{at}")));
        (json!([version(0, &json!({}))]), json!({"shortNames": names("s"), "categories": names("c")}))
    },
    // Both: what discovery makes of them is their product.
    |n| (many(n.max(1), |at| version(at, &json!({}))), json!({"shortNames": many(n, |at| json!(format!("s{at}")))})),
];

/// A version of a definition. The last of the members in `more` count.
fn version(at: usize, more: &Value) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let mut version = json!({"name": format!("v{}", at + 1), "served": true, "storage": at == 0, "schema": schema});
    version.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    version
}

/// A definition costs by its size, with what follows from it: it is read and served.
fn defined(defined: Definition, n: usize) {
    let server = ApiServer::new();
    let (versions, names) = defined(n);
    let mut definition = definition(&json!({}));
    definition["spec"]["versions"] = versions;
    definition["spec"]["names"].as_object_mut().unwrap().extend(names.as_object().unwrap().clone());
    let answers = [&REFUSED[..], &[200, 201]].concat();
    let mut size = 0;
    let stored = format!("{DEFINITIONS}/things.example.com");
    for (method, path) in [("POST", DEFINITIONS), ("PUT", stored.as_str())] {
        let body = definition.to_string();
        size += body.len();
        let mut sent = Sent::send(&server, method, path, "application/json", body.into());
        sent.cost.steps = steps(sent.cost);
        check(&format!("{method} of a definition of {n} versions or names"), &sent, size, &answers);
        if sent.status > 201 {
            return;
        }
        definition["metadata"] = Sent::accept(&server, &stored, "").body["metadata"].clone();
        definition["metadata"]["annotations"] = json!({"changed": "yes"});
    }
}

/// A patch of a ConfigMap with this number of members and finalizers.
type Patch = (&'static str, fn(usize) -> Value);

const PATCHES: [Patch; 7] = [
    ("json-patch", |n| many(n, |at| json!({"op": "add", "path": format!("/data/n{at}"), "value": "v"}))),
    ("json-patch", |n| many(n, |at| json!({"op": "test", "path": format!("/data/k{at}"), "value": "v"}))),
    ("json-patch", |n| many(n, |at| json!({"op": "remove", "path": format!("/data/k{at}")}))),
    ("merge-patch", |n| json!({"data": members(n, |_| json!("w"))})),
    // These touch the whole object each time.
    ("json-patch", |n| {
        many(n, |at| {
            let (from, path) = if at % 2 == 0 { ("/data", "/x") } else { ("/x", "/data") };
            json!({"op": "move", "from": from, "path": path})
        })
    }),
    ("json-patch", |n| many(n, |_| json!({"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/x"}))),
    ("json-patch", |n| many(n, |_| json!({"op": "copy", "from": "/data", "path": "/x"}))),
];

fn pod(spec: &Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": spec})
}

fn container(at: usize, more: &Value) -> Value {
    let mut container = json!({"name": format!("c{at}"), "image": "i"});
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    container
}

/// The highest cost for each byte of one request, and of another one that replaces its object.
fn check(what: &str, sent: &Sent, bytes: usize, expected: &[u16]) {
    assert!(expected.contains(&sent.status), "{what}: {} {}", sent.status, sent.body["message"]);
    let Sent { cost, status, .. } = sent;
    let bound = FIXED + PER_BYTE * bytes as u64;
    let refused = *status == 413 && cost.steps <= STEPS_MAX;
    assert!(refused || cost.steps <= bound, "{what}: {} steps for {bytes} bytes, {:.1} a byte", cost.steps, {
        cost.steps as f64 / bytes as f64
    });
}

/// The body in one of the supported encodings.
fn encoded(object: &Value, encoding: usize) -> (&'static str, Bytes) {
    let json = object.to_string();
    match encoding {
        1 => {
            if let Some(bytes) = protobuf::from_json(json.as_bytes()) {
                return (protobuf::MEDIA_TYPE, bytes.into());
            }
            ("application/json", json.into())
        }
        // Any JSON is YAML.
        2 => ("application/yaml", json.into()),
        _ => ("application/json", json.into()),
    }
}

fn path(plural: &str, version: &str) -> String {
    match (version, plural) {
        ("v1", "nodes") => "/api/v1/nodes".to_owned(),
        ("v1", plural) => format!("{DEFAULT}/{plural}"),
        (version, plural) => format!("/apis/{version}/namespaces/default/{plural}"),
    }
}

fn built_in((plural, version, kind, object): BuiltIn, n: usize, encoding: usize) {
    let server = ApiServer::new();
    let mut object = object(n);
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    let (media_type, body) = encoded(&object, encoding);
    // A protobuf message may be much shorter than its JSON, which is the measure.
    let bytes = object.to_string().len();
    let what = format!("{n} in {kind} as {media_type}");
    let path = path(plural, version);
    let created = Sent::send(&server, "POST", &path, media_type, body);
    let answers = [&REFUSED[..], &[201]].concat();
    check(&what, &created, bytes, &answers);
    if created.status == 201 {
        object["metadata"]["annotations"]["changed"] = "yes".into();
        let (media_type, body) = encoded(&object, encoding);
        let updated = Sent::send(&server, "PUT", &format!("{path}/a"), media_type, body);
        check(&format!("{what}, updated"), &updated, 2 * bytes, &[&answers[..], &[200]].concat());
    }
}

fn custom(custom: Custom, n: usize, yaml: bool) {
    let server = ApiServer::new();
    let (schema, value) = custom(n);
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    let definition = definition(&schema);
    let answers = [&REFUSED[..], &[200, 201]].concat();
    let (media_type, body) = encoded(&definition, if yaml { 2 } else { 0 });
    let of_schema = body.len();
    let created = Sent::send(&server, "POST", DEFINITIONS, media_type, body);
    check(&format!("a definition of {n}"), &created, of_schema, &answers);
    let mut object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": value});
    let (media_type, body) = encoded(&object, if yaml { 2 } else { 0 });
    let bytes = of_schema + body.len();
    let created = Sent::send(&server, "POST", THINGS, media_type, body);
    check(&format!("an object of {n}"), &created, bytes, &[&answers[..], &[404]].concat());
    if created.status == 201 {
        object["metadata"]["annotations"] = json!({"changed": "yes"});
        object["metadata"]["resourceVersion"] = created.body["metadata"]["resourceVersion"].clone();
        let (media_type, body) = encoded(&object, if yaml { 2 } else { 0 });
        let updated = Sent::send(&server, "PUT", &format!("{THINGS}/a"), media_type, body);
        check(&format!("an object of {n}, updated"), &updated, 2 * bytes, &answers);
    }
}

fn patch((kind, patch): Patch, n: usize) {
    let server = ApiServer::new();
    let finalizers = many(n, |at| json!(format!("example.com/f{at}")));
    let map =
        json!({"metadata": {"name": "a", "finalizers": finalizers}, "data": members(n, |_| json!("v"))}).to_string();
    let of_map = map.len();
    let maps = format!("{DEFAULT}/configmaps");
    assert_eq!(Sent::send(&server, "POST", &maps, "application/json", map.into()).status, 201);
    let patch = patch(n).to_string();
    let bytes = of_map + patch.len();
    let media_type = format!("application/{kind}+json");
    let sent = Sent::send(&server, "PATCH", &format!("{maps}/a"), &media_type, patch.into());
    // Operations that touch the whole object each cost the product of both sizes: only the limit
    // bounds them.
    let is_product = sent.cost.steps > FIXED + PER_BYTE * bytes as u64 && sent.cost.steps <= STEPS_MAX;
    if !is_product {
        check(&format!("{n} in a {kind}"), &sent, bytes, &[&REFUSED[..], &[200]].concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn built_in_kinds_cost_by_their_size(case in 0..BUILT_IN.len(), n in 0_usize..600, encoding in 0_usize..3) {
        built_in(BUILT_IN[case], n, encoding);
    }

    #[test]
    fn custom_resources_cost_by_their_size(case in 0..CUSTOM.len(), n in 0_usize..600, yaml: bool) {
        custom(CUSTOM[case], n, yaml);
    }

    #[test]
    fn definitions_cost_by_their_size(case in 0..DEFINED.len(), n in 0_usize..600) {
        defined(DEFINED[case], n);
    }

    #[test]
    fn patches_cost_no_more_than_the_limit(case in 0..PATCHES.len(), n in 0_usize..600) {
        patch(PATCHES[case], n);
    }
}

/// Each case once at a size at which a square of it would be far beyond the bound.
#[test]
fn large_requests_cost_by_their_size() {
    for (at, case) in BUILT_IN.into_iter().enumerate() {
        built_in(case, LARGE, at % 3);
    }
    for (at, case) in CUSTOM.into_iter().enumerate() {
        custom(case, LARGE, at % 2 == 0);
    }
    for case in DEFINED {
        defined(case, LARGE);
    }
    for case in PATCHES {
        patch(case, LARGE);
    }
}

/// A name is part of the path of each field below it.
#[test]
fn a_long_name_with_many_fields_is_bounded() {
    let long = "n".repeat(300_000);
    let spec = |value: Value| {
        let mut spec = json!({});
        spec[&long] = value;
        spec
    };
    let definition = |schema: Value| definition(&schema).to_string();
    let server = ApiServer::new();
    let properties = members(20_000, |_| json!({"type": "string"}));
    let schema = json!({"type": "object", "properties": spec(json!({"type": "object", "properties": properties}))});
    let sent = Sent::send(&server, "POST", DEFINITIONS, "application/json", definition(schema).into());
    assert_eq!(sent.status, 413, "{}", sent.cost.steps);
    assert!(sent.cost.steps <= STEPS_MAX, "{}", sent.cost.steps);

    let schema = json!({"type": "object", "additionalProperties": false, "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "additionalProperties": {"type": "object", "additionalProperties": schema},
    }}});
    assert_eq!(Sent::send(&server, "POST", DEFINITIONS, "application/json", definition(schema).into()).status, 201);
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec(members(20_000, |_| json!(1))),
    });
    let sent = Sent::send(&server, "POST", THINGS, "application/json", object.to_string().into());
    assert_eq!(sent.status, 413, "{}", sent.cost.steps);
    assert!(sent.cost.steps <= STEPS_MAX, "{}", sent.cost.steps);
}

/// The cost of compiling a pattern grows with the size of the result, which a repetition makes
/// large.
#[test]
fn large_patterns_are_bounded() {
    let schema = |count: usize, pattern: &str| {
        let properties = members(count, |at| json!({"type": "string", "pattern": format!("{pattern}{at}")}));
        definition(&json!({"type": "object", "properties": properties})).to_string()
    };
    let server = ApiServer::new();
    for (count, pattern, status) in
        [(100, "^[a-z]{1,63}", 201), (100, r"^(\pL{1,30}){1,4}", 413), (1, r"^(\pL{1,500}){1,500}", 422)]
    {
        let sent = Sent::send(&server, "POST", DEFINITIONS, "application/json", schema(count, pattern).into());
        assert_eq!(sent.status, status, "{pattern}: {} steps, {}", sent.cost.steps, sent.body["message"]);
        assert!(sent.cost.steps <= STEPS_MAX, "{pattern}: {}", sent.cost.steps);
        Sent::send(&server, "DELETE", &format!("{DEFINITIONS}/things.example.com"), "", Bytes::new());
    }
}
