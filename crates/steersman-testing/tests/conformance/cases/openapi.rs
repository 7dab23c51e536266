use serde_json::{Value, json};

use super::{CRDS, definition};
use crate::conformance::case::{Case, case};

/// The headers that let a client keep a document.
const KEEPING: &[&str] = &["etag", "vary", "location", "cache-control"];
const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const PROTOBUF_V3: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
const OWN: &str = "/openapi/v3/apis/${id}.example.com/v1";
const WIDGET: &str = "com.example.${id}.v1.Widget";

/// The group versions that have a document.
const DOCUMENTS: [(&str, &str); 25] = [
    ("openapi-v3-core", "api/v1"),
    ("openapi-v3-admissionregistration", "apis/admissionregistration.k8s.io/v1"),
    ("openapi-v3-apiextensions", "apis/apiextensions.k8s.io/v1"),
    ("openapi-v3-apiregistration", "apis/apiregistration.k8s.io/v1"),
    ("openapi-v3-apps", "apis/apps/v1"),
    ("openapi-v3-authentication", "apis/authentication.k8s.io/v1"),
    ("openapi-v3-authorization", "apis/authorization.k8s.io/v1"),
    ("openapi-v3-autoscaling-v1", "apis/autoscaling/v1"),
    ("openapi-v3-autoscaling-v2", "apis/autoscaling/v2"),
    ("openapi-v3-batch", "apis/batch/v1"),
    ("openapi-v3-certificates", "apis/certificates.k8s.io/v1"),
    ("openapi-v3-coordination", "apis/coordination.k8s.io/v1"),
    ("openapi-v3-discovery", "apis/discovery.k8s.io/v1"),
    ("openapi-v3-events", "apis/events.k8s.io/v1"),
    ("openapi-v3-flowcontrol", "apis/flowcontrol.apiserver.k8s.io/v1"),
    ("openapi-v3-networking", "apis/networking.k8s.io/v1"),
    ("openapi-v3-node", "apis/node.k8s.io/v1"),
    ("openapi-v3-policy", "apis/policy/v1"),
    ("openapi-v3-rbac", "apis/rbac.authorization.k8s.io/v1"),
    ("openapi-v3-resource", "apis/resource.k8s.io/v1"),
    ("openapi-v3-scheduling", "apis/scheduling.k8s.io/v1"),
    ("openapi-v3-storage", "apis/storage.k8s.io/v1"),
    ("openapi-v3-version", "version"),
    ("openapi-v3-openid-configuration", ".well-known/openid-configuration"),
    ("openapi-v3-openid-keys", "openid/v1/jwks"),
];

pub(crate) fn cases() -> Vec<Case> {
    let documents = DOCUMENTS.map(|(name, document)| whole(case(name), document));
    [documents.into(), negotiation(), whole_documents(), custom()].into_iter().flatten().collect()
}

/// The whole document, in both forms.
fn whole(case: Case, document: &str) -> Case {
    let path = format!("/openapi/v3/{document}");
    case.get(path.clone())
        .comparing(KEEPING)
        .expect(200)
        .see("/openapi", "3.0.0")
        .get(path)
        .header("accept", PROTOBUF_V3)
        .comparing(KEEPING)
        .expect(200)
}

fn whole_documents() -> Vec<Case> {
    let groups = DOCUMENTS.iter().filter_map(|(_, document)| {
        let (group, _) = document.strip_prefix("apis/")?.split_once('/')?;
        Some(format!("apis/{group}"))
    });
    let groups: Vec<String> = ["api".to_owned(), "apis".to_owned()].into_iter().chain(groups).collect();
    vec![
        groups.iter().fold(case("openapi-v3-groups"), |case, group| whole(case, group)),
        case("openapi-v3-index").get("/openapi/v3").comparing(KEEPING).expect(200).only_builtin(),
        case("openapi-v2").get("/openapi/v2").comparing(&["vary"]).expect(200).only_builtin(),
    ]
}

/// What is asked for, and what a client has already.
fn negotiation() -> Vec<Case> {
    const BATCH: &str = "/openapi/v3/apis/batch/v1";
    let v2 = |name, accept| {
        case(name).get("/openapi/v2").header("accept", accept).comparing(&["vary"]).only("/info").only("/swagger")
    };
    let v3 = |name, accept| case(name).get(BATCH).header("accept", accept).comparing(KEEPING);
    vec![
        v2("openapi-v2-accept-anything", "*/*").expect(200),
        v2("openapi-v2-accept-what-does-not-exist", "text/html").expect(406),
        v2("openapi-v2-accept-json-rather-than-protobuf", &format!("{PROTOBUF_V2};q=0.1,application/json")).expect(200),
        v2("openapi-v2-accept-protobuf", PROTOBUF_V2).expect(200),
        v2("openapi-v2-accept-protobuf-by-its-new-name", &PROTOBUF_V2.replace('@', ".")).expect(200),
        case("openapi-v2-compressed")
            .get("/openapi/v2")
            .header("accept-encoding", "gzip")
            .comparing(&["vary", "content-encoding"])
            .only("/info")
            .expect(200),
        v3("openapi-v3-accept-any-application", "application/*").expect(200),
        v3("openapi-v3-accept-what-does-not-exist", "application/yaml").expect(406),
        v3("openapi-v3-accept-nothing", ",").expect(200),
        v3("openapi-v3-accept-protobuf-by-its-old-name", &PROTOBUF_V3.replacen("v3.", "v3@", 1)).expect(200),
        v3("openapi-v3-accept-protobuf-of-version-2", PROTOBUF_V2).expect(406),
        case("openapi-v3-accept-is-not-read-for-the-index")
            .get("/openapi/v3")
            .header("accept", "text/html")
            .expect(200)
            .only_builtin(),
        case("openapi-v3-with-another-hash").get(format!("{BATCH}?hash=0")).comparing(KEEPING).expect(301),
        case("openapi-v3-with-an-empty-hash").get(format!("{BATCH}?hash=")).comparing(KEEPING).expect(200),
        case("openapi-v3-with-its-hash")
            .get("/openapi/v3")
            .expect(200)
            .only_builtin()
            .named("index")
            .get("${index:/paths/apis~1batch~1v1/serverRelativeURL}")
            .comparing(KEEPING)
            .expect(200),
        case("openapi-v3-that-does-not-exist").get("/openapi/v3/apis/shoes/v1").comparing(KEEPING).expect(404),
        case("openapi-v3-with-a-slash-at-the-end").get(format!("{BATCH}/")).comparing(KEEPING).expect(404),
        case("openapi-v3-of-nothing").get("/openapi/v3/").comparing(KEEPING).expect(404),
        case("openapi-v2-with-a-slash-at-the-end").get("/openapi/v2/").expect(404),
        case("openapi-without-a-version").get("/openapi").expect(404),
        case("openapi-by-other-methods")
            .post("/openapi/v3/version", json!({}))
            .expect(200)
            .delete("/openapi/v3/version")
            .expect(200)
            .send("HEAD", "/openapi/v3/version")
            .comparing(KEEPING)
            .expect(200),
        case("openapi-v3-that-the-client-has")
            .get(BATCH)
            .header("if-none-match", "*")
            .comparing(KEEPING)
            .expect(304)
            .get(BATCH)
            .header("if-none-match", "\"0\"")
            .comparing(KEEPING)
            .expect(200),
        case("openapi-v2-that-the-client-has")
            .get("/openapi/v2")
            .header("if-none-match", "*")
            .comparing(&["vary"])
            .expect(304),
    ]
}

/// Waits until the document of the case's own group exists.
fn published(name: &'static str, definition: Value) -> Case {
    case(name).post(CRDS, definition).expect(201).ignore("").until(OWN).comparing(KEEPING).expect(200)
}

/// The schemas and the paths of Widgets in version 2, as soon as they exist.
fn then_v2(case: Case) -> Case {
    let path = "/paths/~1apis~1${id}.example.com~1v1~1namespaces~1{namespace}~1widgets";
    case.until("/openapi/v2")
        .expect(200)
        .see("/definitions/com.example.${id}.v1.WidgetList/type", "object")
        .only(format!("/definitions/{WIDGET}"))
        .only(format!("/definitions/{WIDGET}List"))
        .only(path)
        .only(format!("{path}~1{{name}}"))
        .only(format!("{path}~1{{name}}~1status"))
        .only(format!("{path}~1{{name}}~1scale"))
}

/// A definition whose Widgets have these fields in their spec.
fn with_fields(fields: Value) -> Value {
    definition(json!({"spec": {"type": "object", "properties": fields}}))
}

/// The kind Widget, changed.
fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut widgets = with_fields(json!({"size": {"type": "integer"}}));
    change(&mut widgets);
    widgets
}

fn custom() -> Vec<Case> {
    let of_fields = |name, fields| then_v2(published(name, with_fields(fields)));
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    vec![
        of_fields("openapi-custom", json!({"size": {"type": "integer", "format": "int32", "description": "a <size>"}})),
        of_fields(
            "openapi-custom-validations",
            json!({
                "size": {"type": "integer", "minimum": 1, "maximum": 10, "exclusiveMaximum": true, "multipleOf": 0.5},
                "name": {"type": "string", "pattern": "^[a-z&]+$", "minLength": 1, "maxLength": 63, "title": "Name"},
                "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                "list": {"type": "array", "minItems": 0, "maxItems": 3, "items": {"type": "string"}},
                "map": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string"}},
                "docs": {"type": "string", "externalDocs": {"url": "https://x.y", "description": "d"}, "example": "x"},
            }),
        ),
        of_fields(
            "openapi-custom-list-and-map-types",
            json!({
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
                "map": {"type": "object", "x-kubernetes-map-type": "granular", "additionalProperties": {"type": "string"}},
            }),
        ),
        of_fields(
            "openapi-custom-numbers-or-texts",
            json!({
                "plain": {"x-kubernetes-int-or-string": true},
                "either": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "both": {"x-kubernetes-int-or-string": true,
                    "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"maxLength": 3}]},
                "other": {"x-kubernetes-int-or-string": true, "anyOf": [{"maxLength": 3}, {"minimum": 2}]},
            }),
        ),
        of_fields(
            "openapi-custom-choices",
            json!({"choice": {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"minLength": 2}}}],
                "not": {"required": ["a", "b"]},
                "allOf": [{"properties": {"a": {"maxLength": 4}}}],
            }}),
        ),
        of_fields(
            "openapi-custom-unknown-fields",
            json!({
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"a": {"type": "string"}}},
                "any": {"x-kubernetes-preserve-unknown-fields": true},
                "items": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}},
            }),
        ),
        of_fields(
            "openapi-custom-embedded-objects",
            json!({
                "one": {"type": "object", "x-kubernetes-embedded-resource": true, "required": ["spec"],
                    "properties": {"spec": {"type": "object"}}},
                "free": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "x-kubernetes-preserve-unknown-fields": true},
            }),
        ),
        of_fields(
            "openapi-custom-nullable",
            json!({"outer": {"type": "object", "required": ["maybe", "sure"], "properties": {
                "maybe": {"type": "string", "nullable": true},
                "sure": {"type": "string"},
                "object": {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}},
                "map": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
            }}}),
        ),
        of_fields(
            "openapi-custom-rules",
            json!({"size": {"type": "integer", "x-kubernetes-validations": [
                {"rule": "self > 0", "message": "must be <positive>"},
                {"rule": "self < 9", "messageExpression": "'no'", "reason": "FieldValueInvalid"},
            ]}}),
        ),
        of_fields(
            "openapi-custom-defaults",
            json!({
                "number": {"type": "number", "default": 1.5},
                "flag": {"type": "boolean", "default": false},
                "empty": {"type": "string", "default": ""},
                "object": {"type": "object", "default": {"z": 1, "a": "x<y"}, "properties": {
                    "z": {"type": "integer"}, "a": {"type": "string"}}},
            }),
        ),
        then_v2(published(
            "openapi-custom-without-a-schema-for-fields",
            changed(|widgets| {
                widgets["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = free;
            }),
        )),
        then_v2(published(
            "openapi-custom-in-no-namespace",
            changed(|widgets| {
                widgets["spec"]["scope"] = "Cluster".into();
            }),
        )),
        then_v2(published(
            "openapi-custom-scale-and-selectable-fields",
            changed(|widgets| {
                let version = &mut widgets["spec"]["versions"][0];
                version["subresources"] = json!({"scale": {
                "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}});
                version["selectableFields"] = json!([{"jsonPath": ".spec.size"}]);
            }),
        )),
        published(
            "openapi-custom-with-an-own-list-kind",
            changed(|widgets| {
                widgets["spec"]["names"]["listKind"] = "WidgetBundle".into();
                widgets["spec"]["names"]["kind"] = "Elf".into();
            }),
        )
        .until("/openapi/v2")
        .see("/definitions/com.example.${id}.v1.WidgetBundle/type", "object")
        .only("/definitions/com.example.${id}.v1.WidgetBundle")
        .only("/definitions/com.example.${id}.v1.Elf"),
        published(
            "openapi-custom-two-versions",
            changed(|widgets| {
                let mut second = widgets["spec"]["versions"][0].clone();
                second["name"] = "v1beta1".into();
                second["storage"] = false.into();
                let mut third = second.clone();
                third["name"] = "v1alpha1".into();
                third["served"] = false.into();
                let versions = widgets["spec"]["versions"].as_array_mut();
                versions.expect("versions are a list").extend([second, third]);
            }),
        )
        .until("/openapi/v3/apis/${id}.example.com/v1beta1")
        .comparing(KEEPING)
        .expect(200)
        .get("/openapi/v3/apis/${id}.example.com/v1alpha1")
        .expect(404),
        two_kinds(),
        changing(),
        removed(),
    ]
}

/// Two kinds of one version have one document.
fn two_kinds() -> Case {
    let other = changed(|widgets| {
        widgets["metadata"]["name"] = "gadgets.${id}.example.com".into();
        widgets["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
    });
    published("openapi-custom-two-kinds", changed(|_| {}))
        .post(CRDS, other)
        .expect(201)
        .ignore("")
        .until(OWN)
        .comparing(KEEPING)
        .see("/components/schemas/com.example.${id}.v1.Gadget/type", "object")
}

/// A change of the definition is a change of its documents, and of their hashes.
fn changing() -> Case {
    let before = with_fields(json!({"size": {"type": "integer"}}));
    let change = json!({"spec": with_fields(json!({"weight": {"type": "string"}}))["spec"]});
    published("openapi-custom-that-changes", before)
        .get("/openapi/v3")
        .expect(200)
        .named("before")
        .only("/paths/apis~1${id}.example.com~1v1")
        .merge(format!("{CRDS}/widgets.${{id}}.example.com"), change)
        .expect(200)
        .ignore("")
        .until(OWN)
        .comparing(KEEPING)
        .see("/components/schemas/com.example.${id}.v1.Widget/properties/spec/properties/weight/type", "string")
        .get(format!("{OWN}?hash=0"))
        .comparing(KEEPING)
        .expect(301)
        .until("/openapi/v2")
        .see("/definitions/com.example.${id}.v1.Widget/properties/spec/properties/weight/type", "string")
        .only(format!("/definitions/{WIDGET}"))
}

/// Documents go with the definition.
fn removed() -> Case {
    published("openapi-custom-that-is-deleted", changed(|_| {}))
        .until("/openapi/v2")
        .see("/definitions/com.example.${id}.v1.Widget/type", "object")
        .only(format!("/definitions/{WIDGET}"))
        .delete(format!("{CRDS}/widgets.${{id}}.example.com"))
        .expect(200)
        .ignore("")
        .until(OWN)
        .expect(404)
        .until("/openapi/v2")
        .expect(200)
        .absent("/definitions/com.example.${id}.v1.Widget")
        .only(format!("/definitions/{WIDGET}"))
}
