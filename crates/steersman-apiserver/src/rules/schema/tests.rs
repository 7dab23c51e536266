//! Compared with the results of a real server of Kubernetes 1.36.

use serde_json::json;

use super::*;
use crate::rules::kinds::{Kind, builtin};

fn kind(name: &str) -> &'static Kind {
    builtin().kinds().find(|kind| kind.kind == name).unwrap_or_else(|| panic!("no kind {name}"))
}

fn read(name: &str, body: &str, validation: FieldValidation) -> Result<Decoded, DecodeError> {
    RequestBody::parse(body.as_bytes())?.decode(kind(name).fields.unwrap(), validation)
}

/// The stored form of a body.
fn stored(name: &str, body: &str) -> Value {
    read(name, body, FieldValidation::Ignore).unwrap_or_else(|error| panic!("{body}: {error}")).value
}

/// The message of the Status for a refused body.
fn refused(name: &str, body: &str, validation: FieldValidation) -> String {
    let error = read(name, body, validation).expect_err(body);
    error.message(name, name, &kind(name).version, body.as_bytes())
}

/// A Deployment whose Pods have this spec.
fn with_pod_spec(spec: &str) -> String {
    format!(r#"{{"spec":{{"template":{{"spec":{spec}}}}}}}"#)
}

#[test]
fn what_is_empty_is_left_out_as_go_leaves_it_out() {
    let pod = r#"{"metadata":{"name":"p","labels":{},"finalizers":[],"creationTimestamp":null},
        "spec":{"hostNetwork":false,"enableServiceLinks":false,"terminationGracePeriodSeconds":0,"nodeName":"",
        "nodeSelector":{},"tolerations":[],"affinity":{},"securityContext":null,"imagePullSecrets":[{}],
        "volumes":[{"name":"v","emptyDir":{}}],
        "containers":[{"name":"c","args":[null,"x"],"env":[{"name":"E","value":""}],"stdin":false,"securityContext":{},
            "resources":{"requests":{}}}]}}"#;
    let expected = json!({"metadata": {"name": "p"}, "spec": {
        "enableServiceLinks": false, "terminationGracePeriodSeconds": 0, "affinity": {}, "imagePullSecrets": [{}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{"name": "c", "args": ["", "x"], "env": [{"name": "E"}], "securityContext": {}, "resources": {}}],
    }, "status": {}});
    assert_eq!(stored("Pod", pod), expected);
}

#[test]
fn what_is_missing_is_written_when_go_writes_it() {
    for (name, body, expected) in [
        ("ClusterRole", r#"{"rules":[]}"#, json!({"metadata": {}, "rules": null})),
        ("ClusterRole", "{}", json!({"metadata": {}, "rules": null})),
        ("ClusterRole", "null", json!({"metadata": {}, "rules": null})),
        (
            "ClusterRole",
            r#"{"rules":[{"verbs":["get"],"resourceNames":[]}]}"#,
            json!({"metadata": {}, "rules": [{"verbs": ["get"]}]}),
        ),
        ("ConfigMap", r#"{"data":{}}"#, json!({"metadata": {}})),
        ("EndpointSlice", "{}", json!({"metadata": {}, "addressType": "", "endpoints": null, "ports": null})),
        ("Lease", r#"{"spec":{"acquireTime":null}}"#, json!({"metadata": {}, "spec": {}})),
        // Go's zero time behind a pointer is not absent.
        (
            "Lease",
            r#"{"spec":{"renewTime":"0001-01-01T00:00:00.000000Z"}}"#,
            json!({"metadata": {}, "spec": {"renewTime": null}}),
        ),
        (
            "Deployment",
            "{}",
            json!({"metadata": {}, "spec": {"selector": null, "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": null}}}, "status": {}}),
        ),
        (
            "Deployment",
            r#"{"spec":{"replicas":0,"paused":false,"selector":{},"template":{"metadata":{"creationTimestamp":null}}}}"#,
            json!({"metadata": {}, "spec": {"replicas": 0, "selector": {}, "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": null}}}, "status": {}}),
        ),
        (
            "Service",
            r#"{"spec":{"ports":[{"port":80,"targetPort":null}],"selector":null}}"#,
            json!({"metadata": {}, "spec": {"ports": [{"port": 80, "targetPort": 0}]}, "status": {"loadBalancer": {}}}),
        ),
        (
            "Secret",
            r#"{"data":{"a":null,"b":"","c":"aGk=","d":[104,105],"e":"aG\nk="}}"#,
            json!({"metadata": {}, "data": {"a": "", "b": "", "c": "aGk=", "d": "aGk=", "e": "aGk="}}),
        ),
        (
            "TokenReview",
            r#"{"status":{"user":{"extra":{"a":[]}}}}"#,
            json!({"metadata": {}, "spec": {}, "status": {"user": {"extra": {"a": []}}}}),
        ),
    ] {
        assert_eq!(stored(name, body), expected, "{name} {body}");
    }
}

#[test]
fn values_are_written_in_their_canonical_form() {
    let body = r#"{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c",
        "resources":{"limits":{"cpu":"1000m","memory":1073741824,"x":null}},
        "livenessProbe":{"httpGet":{"port":"http"},"tcpSocket":{"port":80}}}]},
        "status":{"startTime":"2020-01-01T00:00:00.999+02:00"}}"#;
    let expected = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "c",
        "resources": {"limits": {"cpu": "1", "memory": "1073741824", "x": "0"}},
        "livenessProbe": {"httpGet": {"port": "http"}, "tcpSocket": {"port": 80}}}]},
        "status": {"startTime": "2019-12-31T22:00:00Z"}});
    assert_eq!(stored("Pod", body), expected);
    let lease = stored("Lease", r#"{"spec":{"renewTime":"2020-01-01T00:00:00.123456+02:00"}}"#);
    assert_eq!(lease["spec"]["renewTime"], "2019-12-31T22:00:00.123456Z");
    let revision = stored("ControllerRevision", r#"{"data":{"a":{"b":null},"c":[],"d":1.5}}"#);
    assert_eq!(revision, json!({"metadata": {}, "data": {"a": {"b": null}, "c": [], "d": 1.5}, "revision": 0}));
}

#[test]
fn objects_inside_of_objects_have_no_type_of_their_own() {
    let body = r#"{"spec":{"volumeClaimTemplates":[{"apiVersion":"x","kind":"y","metadata":{"name":"z"}}]}}"#;
    let expected = json!([{"metadata": {"name": "z"}, "spec": {"resources": {}}, "status": {}}]);
    assert_eq!(stored("StatefulSet", body)["spec"]["volumeClaimTemplates"], expected);
}

#[test]
fn schemas_of_custom_resources_are_read_like_the_rest() {
    let body = |schema: &str| format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#);
    let schema = r#"{"type":"object","required":[],"properties":{
        "a":{"type":"array","items":{"type":"string","bar":1,"nullable":false,"enum":[null,"a",1.0]}},
        "b":{"additionalProperties":true},
        "c":{"additionalProperties":{"type":"string"},"minimum":1.0,"default":1.50,"maximum":1e3},
        "d":{"items":[{"type":"string"}]},
        "e":{"items":5}}}"#;
    let stored = stored("CustomResourceDefinition", &body(schema));
    let expected = json!({"type": "object", "properties": {
        "a": {"type": "array", "items": {"type": "string", "enum": [null, "a", 1]}},
        "b": {"additionalProperties": true},
        "c": {"additionalProperties": {"type": "string"}, "minimum": 1, "default": 1.5, "maximum": 1000},
        "d": {"items": [{"type": "string"}]},
        "e": {"items": null}}});
    assert_eq!(stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"], expected);
    let refused = |schema: &str| {
        let message = refused("CustomResourceDefinition", &body(schema), FieldValidation::Strict);
        message.rsplit_once("as a CustomResourceDefinition: ").unwrap().1.to_owned()
    };
    // Go does not check for unknown and duplicate fields below `items` and the like.
    let schema = r#"{"foo":1,"properties":{"a":{"items":{"type":"string","bar":1,"type":"x"}},"a":{}}}"#;
    let at = "spec.versions[0].schema.openAPIV3Schema";
    assert_eq!(
        refused(schema),
        format!(r#"strict decoding error: unknown field "{at}.foo", duplicate field "{at}.properties.a""#)
    );
    assert_eq!(refused(r#"{"additionalProperties":5}"#), "boolean or JSON schema expected");
    let field = "Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties";
    for (schema, expected) in [
        (
            r#"{"properties":{"a":{"items":{"type":5}}}}"#,
            format!("json: cannot unmarshal number into {field}.items.type of type string"),
        ),
        (
            r#"{"properties":{"a":{"minimum":"x"}}}"#,
            format!("json: cannot unmarshal string into {field}.minimum of type float64"),
        ),
        (
            r#"{"properties":{"a":{"minimum":1e400}}}"#,
            format!("json: cannot unmarshal number 1e400 into {field}.minimum of type float64"),
        ),
    ] {
        assert_eq!(refused(schema), expected);
    }
}

#[test]
fn unknown_and_duplicate_fields_are_listed_in_their_order() {
    let body = r#"{"metadata":{"name":"c"},"data":{"a":"1","a":"2"},"foo":1,"foo":2,
        "metadata":{"labels":{"x":"y"},"bar":2},"Data":{}}"#;
    let expected = [
        r#"duplicate field "data.a""#,
        r#"unknown field "foo""#,
        r#"duplicate field "metadata""#,
        r#"unknown field "metadata.bar""#,
        r#"unknown field "Data""#,
    ];
    let value = json!({"metadata": {"name": "c", "labels": {"x": "y"}}, "data": {"a": "2"}});
    let read = |validation| read("ConfigMap", body, validation);
    let warnings = expected.map(str::to_owned).to_vec();
    assert_eq!(read(FieldValidation::Warn), Ok(Decoded { value: value.clone(), warnings: warnings.clone() }));
    assert_eq!(read(FieldValidation::Ignore), Ok(Decoded { value, warnings: Vec::new() }));
    assert_eq!(read(FieldValidation::Strict), Err(DecodeError::Strict(warnings)));
    assert_eq!(
        refused("ConfigMap", r#"{"data":{"a":"1","a":"2"},"foo":1}"#, FieldValidation::Strict),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         duplicate field \"data.a\", unknown field \"foo\"",
    );
    let body = r#"{"spec":{"foo":1,"template":{"spec":{"containers":[{"name":"a"},{"zip":5,"name":"b"}]}}}}"#;
    assert_eq!(
        refused("Deployment", body, FieldValidation::Strict),
        "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: \
         unknown field \"spec.foo\", unknown field \"spec.template.spec.containers[1].zip\"",
    );
}

#[test]
fn no_more_than_a_hundred_are_reported() {
    let fields: Vec<String> = (0..1_000).map(|number| format!(r#""unknown{number}":1"#)).collect();
    let body = format!("{{{}}}", fields.join(","));
    assert_eq!(read("ConfigMap", &body, FieldValidation::Warn).unwrap().warnings.len(), 100);
}

#[test]
fn a_field_that_comes_twice_is_read_twice_into_one_place() {
    let body = r#"{"metadata":{"name":"a","name":null,"labels":{"x":"1"},"labels":{"y":"2"},
        "ownerReferences":[{"apiVersion":"v1","kind":"A","name":"n","uid":"u","controller":true}],
        "ownerReferences":[{"name":"m"}]},"data":{"k":"v"},"data":null}"#;
    let expected = json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "2"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "m", "uid": "u", "controller": true}]}});
    assert_eq!(stored("ConfigMap", body), expected);
}

#[test]
fn wrong_types_are_refused_in_the_words_of_the_real_server() {
    let cases = [
        (
            r#"{"spec":{"replicas":"3"}}"#.to_owned(),
            "string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            r#"{"spec":{"replicas":3000000000}}"#.to_owned(),
            "number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (r#"{"spec":5}"#.to_owned(), "number into Go struct field Deployment.spec of type v1.DeploymentSpec"),
        (r#"{"spec":[]}"#.to_owned(), "array into Go struct field Deployment.spec of type v1.DeploymentSpec"),
        // The first one is reported.
        (
            r#"{"spec":{"selector":"x","template":7,"replicas":"x"}}"#.to_owned(),
            "string into Go struct field DeploymentSpec.spec.selector of type v1.LabelSelector",
        ),
        (
            r#"{"metadata":{"name":5}}"#.to_owned(),
            "number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            r#"{"metadata":{"labels":{"a":5}}}"#.to_owned(),
            "number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            r#"{"metadata":{"creationTimestamp":5}}"#.to_owned(),
            "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            with_pod_spec(r#"{"containers":"x"}"#),
            "string into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            with_pod_spec(r#"{"containers":[5]}"#),
            "number into Go struct field PodSpec.spec.template.spec.containers of type v1.Container",
        ),
        (
            with_pod_spec(r#"{"containers":[{"image":7}]}"#),
            "number into Go struct field Container.spec.template.spec.containers.image of type string",
        ),
        (
            with_pod_spec(r#"{"containers":[{"ports":[{"containerPort":80.5}]}]}"#),
            "number 80.5 into Go struct field ContainerPort.spec.template.spec.containers.ports.containerPort of type int32",
        ),
        (
            with_pod_spec(r#"{"containers":[{"ports":[{"protocol":5}]}]}"#),
            "number into Go struct field ContainerPort.spec.template.spec.containers.ports.protocol of type v1.Protocol",
        ),
        (
            with_pod_spec(r#"{"containers":[{"resources":{"limits":"abc"}}]}"#),
            "string into Go struct field ResourceRequirements.spec.template.spec.containers.resources.limits of type v1.ResourceList",
        ),
        (
            with_pod_spec(r#"{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}"#),
            "bool into Go struct field HTTPGetAction.spec.template.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
        (
            with_pod_spec(r#"{"nodeSelector":[]}"#),
            "array into Go struct field PodSpec.spec.template.spec.nodeSelector of type map[string]string",
        ),
        (
            with_pod_spec(r#"{"volumes":[{"configMap":5}]}"#),
            "number into Go struct field Volume.spec.template.spec.volumes.VolumeSource.configMap of type v1.ConfigMapVolumeSource",
        ),
    ];
    for (body, expected) in cases {
        let expected = format!(
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal {expected}"
        );
        assert_eq!(refused("Deployment", &body, FieldValidation::Strict), expected);
    }
    for (name, body, expected) in [
        (
            "Secret",
            r#"{"data":{"a":5}}"#,
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
        ("Secret", r#"{"data":{"a":"%%%"}}"#, "illegal base64 data at input byte 0"),
        (
            "PersistentVolumeClaim",
            r#"{"status":{"allocatedResourceStatuses":[]}}"#,
            "json: cannot unmarshal array into Go struct field PersistentVolumeClaimStatus.status.allocatedResourceStatuses \
             of type map[v1.ResourceName]v1.ClaimResourceStatus",
        ),
    ] {
        let expected = format!("{name} in version \"v1\" cannot be handled as a {name}: {expected}");
        assert_eq!(refused(name, body, FieldValidation::Ignore), expected);
    }
}

#[test]
fn times_and_quantities_are_reported_before_wrong_types() {
    let body = r#"{"spec":{"overhead":{"cpu":"abc"},"nodeName":5}}"#;
    let quantity = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for body in [body, r#"{"spec":{"nodeName":5,"overhead":{"cpu":true}}}"#, r#"{"spec":{"overhead":{"cpu":{"a":1}}}}"#]
    {
        assert_eq!(read("Pod", body, FieldValidation::Warn), Err(DecodeError::Type(quantity.to_owned())), "{body}");
    }
    let time = r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#;
    let body = r#"{"spec":5,"metadata":{"creationTimestamp":"x"}}"#;
    assert_eq!(read("Pod", body, FieldValidation::Warn), Err(DecodeError::Type(time.to_owned())));
}

#[test]
fn what_is_no_object_is_unrecognized() {
    let fields =
        r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    for (body, expected) in [
        ("", "unexpected end of JSON input (<empty>)".to_owned()),
        (r#"{"a":}"#, r#"invalid character '}' looking for beginning of value ({"a":})"#.to_owned()),
        (
            r#"{"kind":5}"#,
            r#"json: cannot unmarshal number into Go struct field .kind of type string ({"kind":5})"#.to_owned(),
        ),
        ("[]", format!("json: cannot unmarshal array into Go value of type {fields} (5b5d)")),
        (r#""x""#, format!("json: cannot unmarshal string into Go value of type {fields} (227822)")),
        (
            r#"{"metadata":{"name":"cr"},"data":[1"#,
            r#"unexpected end of JSON input ({"metadata":{"name":"cr"},"dat ...)"#.to_owned(),
        ),
    ] {
        let expected = format!(
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: {expected}"
        );
        assert_eq!(refused("ConfigMap", body, FieldValidation::Warn), expected);
    }
}

#[test]
fn the_kind_of_a_body_is_read() {
    let body = RequestBody::parse(br#"{"kind":"Deployment","apiVersion":"apps/v1","spec":{"kind":"x"}}"#).unwrap();
    assert_eq!((body.api_version.as_str(), body.kind.as_str()), ("apps/v1", "Deployment"));
    let body = RequestBody::parse(br#"{"kind":null}"#).unwrap();
    assert_eq!((body.api_version.as_str(), body.kind.as_str()), ("", ""));
}

#[test]
fn custom_resources_are_taken_as_they_are() {
    let body = br#"{"spec":{"a":[{"b":1,"b":2.0}],"c":null},"spec":{"d":{}}}"#;
    let read = RequestBody::parse(body).unwrap().into_value(FieldValidation::Warn).unwrap();
    assert_eq!(read.value, json!({"spec": {"d": {}}}));
    assert_eq!(read.warnings, [r#"duplicate field "spec.a[0].b""#, r#"duplicate field "spec""#]);
    let huge = RequestBody::parse(br#"{"a":1e400}"#).unwrap().into_value(FieldValidation::Warn).unwrap_err();
    assert_eq!(huge.to_string(), "json: cannot unmarshal number 1e400 into Go value of type float64");
}

#[test]
fn the_parameter_is_read() {
    assert_eq!(FieldValidation::parse(""), Some(FieldValidation::Warn));
    assert_eq!(FieldValidation::parse("Ignore"), Some(FieldValidation::Ignore));
    assert_eq!(FieldValidation::parse("Strict"), Some(FieldValidation::Strict));
    assert_eq!(FieldValidation::parse("strict"), None);
}

/// A rich body for the two tests below.
const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"},"finalizers":["x/y"],
    "creationTimestamp":"2020-01-01T00:00:00Z"},"spec":{"containers":[{"name":"c","image":"i","args":["\u00e9","\ud83d\ude00"],
    "ports":[{"containerPort":80,"protocol":"TCP"}],"resources":{"limits":{"cpu":"1500m","memory":"1.5Gi"}},
    "livenessProbe":{"httpGet":{"port":"http"}}}],"volumes":[{"name":"v","secret":{"items":[{"key":"k","path":"p","mode":-1}]}}],
    "terminationGracePeriodSeconds":30,"overhead":{"cpu":0.5e-3}},"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;

#[test]
fn what_was_read_reads_as_itself() {
    let fields = kind("Pod").fields.unwrap();
    let once = stored("Pod", POD);
    let twice = decode_value(once.clone(), fields, FieldValidation::Strict).unwrap();
    assert_eq!(twice, Decoded { value: once, warnings: Vec::new() });
}

#[test]
fn broken_bodies_are_refused_or_read_and_never_panic() {
    // A fixed generator: every run breaks the same bytes.
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let pieces: [&[u8]; 16] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"",
        b"\\",
        b"\\u",
        b",",
        b":",
        b"null",
        b"1e999",
        b"-",
        b"\xff",
        b"\xe2\x82",
        b"99999999999999999999",
        b"\0",
    ];
    let (mut read, mut refused) = (0, 0);
    for _ in 0..5_000 {
        let mut body = POD.as_bytes().to_vec();
        for _ in 0..=random(3) {
            let (at, piece) = (random(body.len()), pieces[random(pieces.len())]);
            let until = (at + random(4)).min(body.len());
            body.splice(at..until, piece.iter().copied());
        }
        match RequestBody::parse(&body).and_then(|body| body.decode(kind("Pod").fields.unwrap(), FieldValidation::Warn))
        {
            Ok(_) => read += 1,
            Err(error) => {
                assert!(!error.message("Pod", "Pod", "v1", &body).is_empty());
                refused += 1;
            }
        }
    }
    assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
}

#[test]
fn every_kind_reads_nothing_and_what_came_of_it() {
    for kind in builtin().kinds() {
        let fields = kind.fields.unwrap();
        let nothing = decode_value(json!({}), fields, FieldValidation::Strict).unwrap();
        let again = decode_value(nothing.value.clone(), fields, FieldValidation::Strict).unwrap();
        assert_eq!(nothing.value, again.value, "{}", kind.kind);
        assert_eq!(nothing.value["metadata"], json!({}), "{}", kind.kind);
    }
}
