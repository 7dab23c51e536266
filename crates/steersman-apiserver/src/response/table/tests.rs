use serde_json::json;

use super::*;
use crate::rules::kinds::builtin;

/// The Table of an object.
fn table(kind: &Kind, value: &Value, form: TableForm) -> Value {
    let mut text = Vec::new();
    form.write_object(&mut text, kind, &Object::new(value, 7, Vec::new()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)))
}

fn kind(group: &str, plural: &str) -> Arc<Kind> {
    Arc::clone(builtin().resource(group, "v1", plural).unwrap())
}

#[test]
fn every_built_in_kind_has_a_cell_for_each_column() {
    let form = TableForm::new("meta.k8s.io/v1");
    let mut own = 0;
    for kind in builtin().kinds().filter(|kind| kind.has_verb("get")) {
        let table = table(kind, &json!({"metadata": {"name": "one"}}), form);
        let (columns, cells) =
            (table["columnDefinitions"].as_array().unwrap(), table["rows"][0]["cells"].as_array().unwrap());
        // The real server sends the age of an IPAddress without a column for it.
        let extra = usize::from(kind.kind == "IPAddress");
        assert_eq!(columns.len() + extra, cells.len(), "{}: {columns:?} {cells:?}", kind.kind);
        for (column, cell) in columns.iter().zip(cells) {
            let fits = match column["type"].as_str().unwrap() {
                "integer" => cell.is_i64(),
                // Go's printers put texts into some columns of flags, and any scalar into some of
                // texts.
                "boolean" => cell.is_boolean() || cell.is_string(),
                _ => cell.is_string() || cell.is_i64() || cell.is_boolean(),
            };
            assert!(fits, "{} {}: {cell}", kind.kind, column["name"]);
        }
        own += usize::from(columns::has_own(kind));
    }
    assert!(own >= 50, "{own} kinds with columns of their own");
}

#[test]
fn every_recorded_kind_is_known() {
    let known: Vec<&str> = builtin().kinds().map(|kind| kind.kind.as_str()).collect();
    for kind in columns::recorded().keys() {
        assert!(kind.is_empty() || kind == "Scale" || known.contains(&kind.as_str()), "{kind}");
    }
}

#[test]
fn a_row_has_what_was_asked_for() {
    let maps = kind("", "configmaps");
    let map = json!({"metadata": {"name": "one", "creationTimestamp": "1970-01-01T00:00:10Z"}, "data": {"a": "b"}});
    let form = TableForm { now: Now(70_500_000), ..TableForm::new("meta.k8s.io/v1beta1") };
    let whole = table(&maps, &map, TableForm { include: Include::Object, ..form });
    assert_eq!(whole["rows"][0]["cells"], json!(["one", 1, "60s"]));
    assert_eq!(whole["rows"][0]["object"]["data"], json!({"a": "b"}));
    assert_eq!((&whole["kind"], &whole["metadata"]), (&json!("Table"), &json!({"resourceVersion": "7"})));
    let metadata = &table(&maps, &map, form)["rows"][0]["object"];
    assert_eq!(metadata["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!((&metadata["metadata"]["name"], metadata.get("data")), (&json!("one"), None));
    let nothing = table(&maps, &map, TableForm { include: Include::Nothing, has_headers: false, ..form });
    assert_eq!((&nothing["rows"][0]["object"], &nothing["columnDefinitions"]), (&Value::Null, &Value::Null));
    assert!(Include::parse("all").is_err());
}

#[test]
fn flow_schemas_are_in_the_order_in_which_they_are_tried() {
    let schemas = kind("flowcontrol.apiserver.k8s.io", "flowschemas");
    let object = |name: &str, precedence: i64| {
        let value = json!({"metadata": {"name": name}, "spec": {"matchingPrecedence": precedence}});
        Arc::new(Object::new(&value, 1, Vec::new()))
    };
    let objects = vec![object("a", 9), object("c", 5), object("b", 5)];
    let text = TableForm::new("meta.k8s.io/v1").list(&schemas, &json!({}), objects).unwrap();
    let table: Value = serde_json::from_slice(&text).unwrap();
    let names: Vec<&Value> = table["rows"].as_array().unwrap().iter().map(|row| &row["cells"][0]).collect();
    assert_eq!(names, ["b", "c", "a"]);
}

#[test]
fn cells_that_no_case_compares() {
    let schema = json!({"metadata": {"name": "a"}, "spec": {"priorityLevelConfiguration": {"name": "p"},
        "matchingPrecedence": 7, "distinguisherMethod": {"type": "ByUser"}},
        "status": {"conditions": [{"type": "Dangling", "status": "False"}]}});
    let class = json!({"metadata": {"name": "c", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
        "spec": {"controller": "x", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}}});
    let balancer = json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "externalIPs": ["192.0.2.7"],
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "b"}, {"hostname": "a"}]}}});
    let driver = json!({"metadata": {"name": "d"}, "spec": {"tokenRequests": [{"audience": "a"}, {"audience": "b"}]}});
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": {"selector": {
        "matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}]}}}});
    let request = json!({"metadata": {"name": "r"}, "spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600},
        "status": {"certificate": "YQ==", "conditions": [{"type": "Approved"}]}});
    let claim = json!({"metadata": {"name": "c"}, "status": {"allocation": {}, "reservedFor": [{"uid": "u"}]}});
    let revision = json!({"metadata": {"name": "r", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": true}]}, "revision": 2});
    let selector = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{\
                    LabelSelectorRequirement{Key:k,Operator:In,Values:[v w],},},}";
    for (group, plural, object, cells) in [
        ("flowcontrol.apiserver.k8s.io", "flowschemas", schema, json!(["a", "p", 7, "ByUser", "<unknown>", "False"])),
        ("networking.k8s.io", "ingressclasses", class, json!(["c (default)", "x", "K.g/n", "<unknown>"])),
        (
            "",
            "services",
            balancer,
            json!(["s", "LoadBalancer", "<none>", "a,b,192.0.2.7", "80:30080/TCP", "<unknown>", "<none>"]),
        ),
        ("storage.k8s.io", "csidrivers", driver, json!(["d", true, false, false, "a,b", false, "<none>", "<unknown>"])),
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicybindings",
            binding,
            json!(["b", "p", selector, "<unknown>"]),
        ),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            request,
            json!(["r", "<unknown>", "s", "u", "60m", "Approved,Issued"]),
        ),
        ("resource.k8s.io", "resourceclaims", claim, json!(["c", "allocated,reserved", "<unknown>"])),
        ("apps", "controllerrevisions", revision, json!(["r", "statefulset.apps/s", 2, "<unknown>"])),
    ] {
        let found = table(&kind(group, plural), &object, TableForm::new("meta.k8s.io/v1"));
        assert_eq!(found["rows"][0]["cells"], cells, "{plural}");
    }
}

#[test]
fn pods_are_summed_up_by_their_containers() {
    let pods = kind("", "pods");
    for (object, cells) in [
        (json!({"status": {"phase": "Running", "reason": "NodeLost"}}), json!(["0/0", "NodeLost", "0"])),
        (
            json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running", "reason": "NodeLost"}}),
            json!(["0/0", "Unknown", "0"]),
        ),
        (
            json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Succeeded"}}),
            json!(["0/0", "Succeeded", "0"]),
        ),
        (
            json!({"status": {"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}}),
            json!(["0/0", "SchedulingGated", "0"]),
        ),
        (
            json!({"status": {"containerStatuses": [{"restartCount": 2,
                "lastState": {"terminated": {"finishedAt": "1970-01-01T00:00:10Z"}},
                "state": {"terminated": {"exitCode": 3}}}]}}),
            json!(["0/0", "ExitCode:3", "2 (60s ago)"]),
        ),
    ] {
        let form = TableForm { now: Now(70_000_000), ..TableForm::new("meta.k8s.io/v1") };
        let found = table(&pods, &object, form);
        assert_eq!(found["rows"][0]["cells"].as_array().unwrap()[1..4], *cells.as_array().unwrap(), "{object}");
    }
}
