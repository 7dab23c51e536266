//! Compared with the responses of a real server to the same bodies.

mod objects;

use serde_json::{Value, json};

use super::*;
use crate::response::status::FieldError;

/// Errors as in the message of a Status. Duplicates are listed once.
fn shown(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match &texts[..] {
        [one] => one.clone(),
        [] => String::new(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// A definition with one version, as a client sends it.
fn crd(spec: &Value) -> Value {
    let mut all = json!({
        "group": "example.com",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    });
    for (name, value) in spec.as_object().unwrap() {
        all[name] = value.clone();
    }
    json!({"metadata": {"name": "widgets.example.com"}, "spec": all})
}

/// A definition whose only version has this schema, and other fields.
fn with(schema: &Value, version: &Value) -> Value {
    let mut crd = crd(&json!({}));
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema.clone();
    for (name, value) in version.as_object().unwrap() {
        crd["spec"]["versions"][0][name] = value.clone();
    }
    crd
}

fn refusal(mut crd: Value) -> String {
    fill(&mut crd);
    prepare(&mut crd, None);
    shown(&check(&crd, None, &mut Patterns::new()))
}

/// Whether two messages are the same except for the order of their errors, which is random on the
/// real server.
fn same(one: &str, other: &str) -> bool {
    let sorted = |text: &str| {
        let text = text.trim_start_matches('[').trim_end_matches(']').replace(", spec.", "\nspec.");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    sorted(one) == sorted(other)
}

#[test]
fn definitions_are_checked_in_the_words_of_the_real_server() {
    let cases = [
        (
            crd(&json!({"group": "com"})),
            r#"[metadata.name: Invalid value: "widgets.example.com": must be spec.names.plural+"."+spec.group, spec.group: Invalid value: "com": should be a domain with at least one dot]"#,
        ),
        (
            crd(&json!({"scope": "Foo"})),
            r#"spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced""#,
        ),
        (crd(&json!({"scope": ""})), r#"spec.scope: Required value"#),
        (
            with(&json!({"type": "object"}), &json!({"schema": null})),
            r#"spec.versions[0].schema.openAPIV3Schema: Required value"#,
        ),
        (
            crd(&json!({"versions": []})),
            r#"[spec.versions: Invalid value: []: must have exactly one version marked as storage version, status.storedVersions: Invalid value: null: must have at least one stored version]"#,
        ),
        (
            crd(&json!({"names": {"plural": "widgets", "kind": "Wid_get", "shortNames": ["W"], "categories": ["-"]}})),
            r#"[spec.names.singular: Invalid value: "wid_get": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?'), spec.names.kind: Invalid value: "Wid_get": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?'), spec.names.listKind: Invalid value: "Wid_getList": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?'), spec.names.shortNames[0]: Invalid value: "W": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?'), spec.names.categories[0]: Invalid value: "-": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')]"#,
        ),
        (
            crd(&json!({"names": {"plural": "widgets", "kind": "Widget", "listKind": "Widget"}})),
            r#"spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same"#,
        ),
        (
            with(&json!({"type": "object", "properties": {"spec": {"properties": {"a": {}}}}}), &json!({})),
            r#"[spec.validation.openAPIV3Schema.properties[spec].properties[a].type: Required value: must not be empty for specified object fields, spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields]"#,
        ),
        (
            with(&json!({"type": "string"}), &json!({})),
            r#"spec.validation.openAPIV3Schema.type: Invalid value: "string": must be object at the root"#,
        ),
        (
            with(&json!({"properties": {}}), &json!({})),
            r#"spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "array", "items": {}}}}),
                &json!({}),
            ),
            r#"[spec.validation.openAPIV3Schema.properties[a].items: Required value: must be specified, spec.validation.openAPIV3Schema.properties[b].items.type: Required value: must not be empty for specified array items]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}}}}),
                &json!({}),
            ),
            r#"spec.validation.openAPIV3Schema.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"#,
        ),
        (
            with(&json!({"type": "object", "additionalProperties": {"type": "string"}}), &json!({})),
            r#"spec.validation.openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root"#,
        ),
        (
            with(&json!({"type": "object", "properties": {"a": {"type": "foo"}}}), &json!({})),
            r#"spec.validation.openAPIV3Schema.properties[a].type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ),
        (
            with(&json!({"type": "object", "properties": {"a": {"type": "null"}}}), &json!({})),
            r#"[spec.validation.openAPIV3Schema.properties[a].type: Unsupported value: "null": supported values: "array", "boolean", "integer", "number", "object", "string", spec.validation.openAPIV3Schema.properties[a].type: Forbidden: type cannot be set to null, use nullable as an alternative]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}}),
                &json!({}),
            ),
            r#"spec.validation.openAPIV3Schema.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"$ref": "#/x", "type": "object", "definitions": {"a": {"type": "string"}}, "patternProperties": {"a": {"type": "string"}}, "dependencies": {"a": ["b"]}, "id": "x"}}}),
                &json!({}),
            ),
            r#"[spec.validation.openAPIV3Schema.properties[a].id: Forbidden: id is not supported, spec.validation.openAPIV3Schema.properties[a].patternProperties: Forbidden: patternProperties is not supported, spec.validation.openAPIV3Schema.properties[a].definitions: Forbidden: definitions is not supported, spec.validation.openAPIV3Schema.properties[a].dependencies: Forbidden: dependencies is not supported, spec.validation.openAPIV3Schema.properties[a].$ref: Forbidden: $ref is not supported]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}, "b": {"type": "object", "properties": {"c": {"type": "string"}}, "default": {"d": 1}}}}),
                &json!({}),
            ),
            r#"[spec.validation.openAPIV3Schema.properties[a].default: Invalid value: "string":  in body must be of type integer: "string", spec.validation.openAPIV3Schema.properties[b].default: Invalid value: {"d":1}: must not have unknown fields]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
                &json!({}),
            ),
            r#"spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"metadata": {"type": "string"}, "kind": {"type": "integer"}, "apiVersion": {"type": "object"}}}),
                &json!({}),
            ),
            r#"[spec.validation.openAPIV3Schema.properties[apiVersion].type: Invalid value: "object": must be string, spec.validation.openAPIV3Schema.properties[kind].type: Invalid value: "integer": must be string, spec.validation.openAPIV3Schema.properties[metadata].type: Invalid value: "string": must be object]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}}}),
                &json!({}),
            ),
            r#"spec.validation.openAPIV3Schema.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-embedded-resource": true}}}),
                &json!({}),
            ),
            r#"[spec.validation.openAPIV3Schema.properties[a].type: Required value: must be object if x-kubernetes-embedded-resource is true, spec.validation.openAPIV3Schema.properties[a].x-kubernetes-embedded-resource: Invalid value: true: must be false if x-kubernetes-int-or-string is true, spec.validation.openAPIV3Schema.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": false}}}),
                &json!({}),
            ),
            r#"spec.validation.openAPIV3Schema.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-embedded-resource": true}}}),
                &json!({}),
            ),
            r#"spec.validation.openAPIV3Schema.properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}, "b": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "z"]}, "c": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}, "d": {"type": "string", "x-kubernetes-list-type": "x"}, "e": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-map-keys": ["k"]}}}),
                &json!({}),
            ),
            r#"[spec.validation.openAPIV3Schema.properties[c].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map, spec.validation.openAPIV3Schema.properties[c].items.type: Invalid value: "string": must be object if parent array's x-kubernetes-list-type is map, spec.validation.openAPIV3Schema.properties[d].type: Invalid value: "string": must be array if x-kubernetes-list-type is specified, spec.validation.openAPIV3Schema.properties[d].x-kubernetes-list-type: Unsupported value: "x": supported values: "atomic", "set", "map", spec.validation.openAPIV3Schema.properties[e].x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty, spec.validation.openAPIV3Schema.properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set, spec.validation.openAPIV3Schema.properties[b].x-kubernetes-list-map-keys: Invalid value: ["k","z"]: entries must all be names of item properties, spec.validation.openAPIV3Schema.properties[b].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "x-kubernetes-map-type": "foo"}}}),
                &json!({}),
            ),
            r#"[spec.validation.openAPIV3Schema.properties[a].type: Invalid value: "array": must be object if x-kubernetes-map-type is specified, spec.validation.openAPIV3Schema.properties[a].x-kubernetes-map-type: Unsupported value: "foo": supported values: "atomic", "granular"]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "integer", "anyOf": [{"type": "integer", "default": 1, "title": "x", "description": "d", "nullable": true}], "not": {"properties": {"z": {"minimum": 1}}}}}}),
                &json!({}),
            ),
            r#"[spec.validation.openAPIV3Schema.properties[a].anyOf[0].default: Forbidden: must be undefined to be structural, spec.validation.openAPIV3Schema.properties[a].anyOf[0].description: Forbidden: must be empty to be structural, spec.validation.openAPIV3Schema.properties[a].anyOf[0].nullable: Forbidden: must be false to be structural, spec.validation.openAPIV3Schema.properties[a].anyOf[0].title: Forbidden: must be empty to be structural, spec.validation.openAPIV3Schema.properties[a].anyOf[0].type: Forbidden: must be empty to be structural]"#,
        ),
        (
            with(
                &json!({"type": "object"}),
                &json!({"subresources": {"scale": {"specReplicasPath": "spec.r", "statusReplicasPath": ".spec.x", "labelSelectorPath": ".foo"}}}),
            ),
            r#"[spec.subresources.scale.specReplicasPath: Invalid value: "spec.r": must be a simple json path starting with ., spec.subresources.scale.statusReplicasPath: Invalid value: ".spec.x": should be a json path under .status, spec.subresources.scale.labelSelectorPath: Invalid value: ".foo": should be a json path under either .spec or .status]"#,
        ),
        (
            with(&json!({"type": "object"}), &json!({"subresources": {"scale": {}}})),
            r#"[spec.subresources.scale.specReplicasPath: Required value, spec.subresources.scale.statusReplicasPath: Required value]"#,
        ),
        (
            with(
                &json!({"type": "object"}),
                &json!({"additionalPrinterColumns": [{"name": "", "type": "x", "jsonPath": "a", "format": "z"}, {"name": "a", "type": "", "jsonPath": ""}]}),
            ),
            r#"[spec.additionalPrinterColumns[0].name: Required value, spec.additionalPrinterColumns[0].type: Invalid value: "x": must be one of boolean,date,integer,number,string, spec.additionalPrinterColumns[0].format: Invalid value: "z": must be one of byte,date,date-time,double,float,int32,int64,password, spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with ., spec.additionalPrinterColumns[1].type: Required value: must be one of boolean,date,integer,number,string, spec.additionalPrinterColumns[1].JSONPath: Required value]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}, "o": {"type": "object"}}}}}),
                &json!({"selectableFields": [{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}, {"jsonPath": ".spec.b"}, {"jsonPath": ".spec.o"}, {"jsonPath": ".metadata.name"}, {"jsonPath": "spec.a"}, {"jsonPath": ".spec.a[0]"}, {"jsonPath": ""}]}),
            ),
            r#"[spec.selectableFields[1].jsonPath: Duplicate value: ".spec.a", spec.selectableFields[2].jsonPath: Invalid value: ".spec.b": is an invalid path: does not refer to a valid field, spec.selectableFields[3].jsonPath: Invalid value: ".spec.o": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed., spec.selectableFields[4].jsonPath: Invalid value: ".metadata.name": is an invalid path: does not refer to a valid field, spec.selectableFields[5].jsonPath: Invalid value: "spec.a": is an invalid path: expected [ or . but got: spec, spec.selectableFields[6].jsonPath: Invalid value: ".spec.a[0]": is an invalid path: array notation is not allowed, spec.selectableFields[7].jsonPath: Required value]"#,
        ),
        (
            with(&json!({"type": "object"}), &json!({"deprecationWarning": "x"})),
            r#"spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions"#,
        ),
        (
            crd(&json!({"conversion": {"strategy": "Webhook"}})),
            r#"[spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook, spec.conversion.conversionReviewVersions: Required value]"#,
        ),
        (
            crd(&json!({"conversion": {"strategy": "Foo"}})),
            r#"spec.conversion.strategy: Unsupported value: "Foo": supported values: "None", "Webhook""#,
        ),
        (
            crd(&json!({"preserveUnknownFields": true})),
            r#"spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"#,
        ),
        (
            with(&json!({"type": "object", "nullable": true}), &json!({})),
            r#"spec.validation.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root"#,
        ),
        (
            crd(&json!({"names": {"plural": "Widgets", "kind": "Widget"}})),
            r#"[metadata.name: Invalid value: "widgets.example.com": must be spec.names.plural+"."+spec.group, spec.names.plural: Invalid value: "Widgets": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')]"#,
        ),
        (
            crd(&json!({"names": {}})),
            r#"[metadata.name: Invalid value: "widgets.example.com": must be spec.names.plural+"."+spec.group, spec.names.plural: Required value, spec.names.singular: Required value, spec.names.kind: Required value, spec.names.listKind: Required value]"#,
        ),
        (
            with(&json!({"type": "object"}), &json!({"name": "V1"})),
            r#"[spec.versions[0].name: Invalid value: "V1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?'), spec.version: Invalid value: "V1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')]"#,
        ),
        (with(&json!({"type": "object", "properties": {"a": {"type": "string", "format": "foo"}}}), &json!({})), r#""#),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["a", "b"], "default": "c"}}}),
                &json!({}),
            ),
            r#"spec.validation.openAPIV3Schema.properties[a].default: Unsupported value: "c": supported values: "a", "b""#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "default": 2}, "b": {"type": "string", "default": null}}}),
                &json!({}),
            ),
            r#"spec.validation.openAPIV3Schema.properties[a].default: Invalid value: 2:  in body should be greater than or equal to 3"#,
        ),
        (
            with(
                &json!({"type": "object", "anyOf": [{"properties": {"spec": {"properties": {"z": {"minimum": 1}}}}}, {"required": ["a"]}], "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}}),
                &json!({}),
            ),
            r#"spec.validation.openAPIV3Schema.properties[spec].properties[z]: Required value: because it is defined in spec.validation.openAPIV3Schema.anyOf[0].properties[spec].properties[z]"#,
        ),
        (
            crd(
                &json!({"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}}, {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"b": {}}}}}]}),
            ),
            r#"[spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields, spec.versions[1].schema.openAPIV3Schema.properties[b].type: Required value: must not be empty for specified object fields]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}}}),
                &json!({}),
            ),
            r#""#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "e": {"type": "string", "format": "date-time"}}}}}),
                &json!({"selectableFields": [{"jsonPath": ".spec.a"}], "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"}}}),
            ),
            r#""#,
        ),
        (
            with(&json!({"type": "string"}), &json!({"subresources": {"status": {}}})),
            r#"[spec.validation.openAPIV3Schema.type: Invalid value: "string": only "object" is allowed as the type at the root of the schema if the status subresource is enabled, spec.validation.openAPIV3Schema.type: Invalid value: "string": must be object at the root]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true, "default": {"kind": "Pod"}}}}),
                &json!({}),
            ),
            r#"spec.validation.openAPIV3Schema.properties[a].default.apiVersion: Required value"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "k"], "items": {"type": "object", "nullable": true, "required": ["k"], "properties": {"k": {"type": "object", "nullable": true}}}}}}),
                &json!({}),
            ),
            r#"[spec.validation.openAPIV3Schema.properties[a].items.properties[k].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map, spec.validation.openAPIV3Schema.properties[a].x-kubernetes-list-map-keys: Invalid value: ["k","k"]: must not contain duplicate entries, spec.validation.openAPIV3Schema.properties[a].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map, spec.validation.openAPIV3Schema.properties[a].items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable]"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"a": {"type": "integer", "allOf": [{"properties": {"metadata": {"minimum": 1}}}]}}}),
                &json!({}),
            ),
            r#"spec.validation.openAPIV3Schema.properties[a].allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context"#,
        ),
        (
            with(
                &json!({"type": "object", "properties": {"f0": {"type": "string"}, "f1": {"type": "string"}, "f2": {"type": "string"}, "f3": {"type": "string"}, "f4": {"type": "string"}, "f5": {"type": "string"}, "f6": {"type": "string"}, "f7": {"type": "string"}, "f8": {"type": "string"}}}),
                &json!({"selectableFields": [{"jsonPath": ".f0"}, {"jsonPath": ".f1"}, {"jsonPath": ".f2"}, {"jsonPath": ".f3"}, {"jsonPath": ".f4"}, {"jsonPath": ".f5"}, {"jsonPath": ".f6"}, {"jsonPath": ".f7"}, {"jsonPath": ".f8"}]}),
            ),
            r#"spec.selectableFields: Too many: 9: must have at most 8 items"#,
        ),
        (
            crd(
                &json!({"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v2", "v2"]}}}),
            ),
            r#"[spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required, spec.conversion.conversionReviewVersions[1]: Invalid value: "v2": duplicate version, spec.conversion.conversionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1]"#,
        ),
        (
            crd(
                &json!({"conversion": {"strategy": "None", "webhook": {"clientConfig": {"url": "https://a.b"}, "conversionReviewVersions": ["v1"]}}}),
            ),
            r#"[spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook, spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook]"#,
        ),
        (
            with(&json!({"type": "object"}), &json!({"deprecated": true, "deprecationWarning": ""})),
            r#"spec.versions[0].deprecationWarning: Invalid value: "": must not be an empty string"#,
        ),
    ];
    for (crd, wanted) in cases {
        let found = refusal(crd.clone());
        assert!(same(&found, wanted), "{crd}\nfound  {found}\nwanted {wanted}");
    }
}

#[test]
fn a_pattern_is_one_that_go_reads() {
    let found =
        refusal(with(&json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}), &json!({})));
    let wanted = "spec.validation.openAPIV3Schema.properties[a].pattern: Invalid value: \"(\": must be a valid regular \
                  expression, but isn't: error parsing regexp: missing closing ): `(`";
    assert_eq!(found, wanted);
}

#[test]
fn names_of_definitions_are_made_of_plural_and_group() {
    let mut other = crd(&json!({}));
    other["metadata"]["name"] = "foo.example.com".into();
    let wanted = r#"metadata.name: Invalid value: "foo.example.com": must be spec.names.plural+"."+spec.group"#;
    assert_eq!(refusal(other), wanted);
    let mut protected = crd(&json!({"group": "a.k8s.io"}));
    protected["metadata"]["name"] = "widgets.a.k8s.io".into();
    let wanted = "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval \
                  annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
    assert_eq!(refusal(protected.clone()), wanted);
    protected["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    assert_eq!(refusal(protected), "");
}

#[test]
fn a_definition_has_exactly_one_storage_version() {
    let none = refusal(with(&json!({"type": "object"}), &json!({"storage": false})));
    assert!(none.contains(": must have exactly one version marked as storage version"), "{none}");
    assert!(
        none.ends_with("status.storedVersions: Invalid value: null: must have at least one stored version]"),
        "{none}"
    );
}

#[test]
fn what_is_left_out_is_filled_in_and_the_status_begins_empty() {
    let mut crd = crd(&json!({"preserveUnknownFields": false}));
    fill(&mut crd);
    prepare(&mut crd, None);
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    assert_eq!(crd["spec"]["names"], names);
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["spec"].get("preserveUnknownFields"), None);
    let status = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]});
    assert_eq!(crd["status"], status);

    crd["status"] = establish(&crd, Taken { resources: &[], kinds: &[] }, "now");
    let status = json!({
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "lastTransitionTime": "now", "reason": "NoConflicts",
             "message": "no conflicts found"},
            {"type": "Established", "status": "True", "lastTransitionTime": "now", "reason": "InitialNamesAccepted",
             "message": "the initial names have been accepted"},
        ],
        "acceptedNames": names,
        "storedVersions": ["v1"],
    });
    assert_eq!(crd["status"], status);
    assert_eq!(establish(&crd, Taken { resources: &[], kinds: &[] }, "later"), status);

    let mut next = crd.clone();
    next["spec"]["versions"][0]["name"] = "v2".into();
    prepare(&mut next, Some(&crd));
    assert_eq!(next["status"]["storedVersions"], json!(["v1", "v2"]));
    let wanted = r#"status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"#;
    assert_eq!(shown(&check(&next, None, &mut Patterns::new())), wanted);
}

#[test]
fn names_that_others_have_are_not_accepted() {
    let names = json!({"plural": "others", "kind": "Probe", "shortNames": ["gadget", "zz"], "singular": "probe"});
    let mut crd = crd(&json!({"names": names}));
    fill(&mut crd);
    prepare(&mut crd, None);
    let resources = ["probes", "probe", "gadgets", "gadget"].map(str::to_owned);
    let kinds = ["Probe", "ProbeList"].map(str::to_owned);
    let status = establish(&crd, Taken { resources: &resources, kinds: &kinds }, "now");
    let wanted = json!({
        "conditions": [
            {"type": "NamesAccepted", "status": "False", "lastTransitionTime": "now", "reason": "ListKindConflict",
             "message": "\"ProbeList\" is already in use"},
            {"type": "Established", "status": "False", "lastTransitionTime": "now", "reason": "NotAccepted",
             "message": "not all names are accepted"},
        ],
        "acceptedNames": {"plural": "others", "kind": ""},
        "storedVersions": ["v1"],
    });
    assert_eq!(status, wanted);
}

#[test]
fn what_decides_where_objects_are_stored_cannot_change() {
    let mut old = crd(&json!({}));
    fill(&mut old);
    prepare(&mut old, None);
    let mut new = old.clone();
    new["spec"]["scope"] = "Cluster".into();
    new["spec"]["group"] = "b.com".into();
    let group = r#"spec.group: Invalid value: "b.com": field is immutable"#;
    assert_eq!(shown(&check(&new, Some(&old), &mut Patterns::new())), group);
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    let scope = r#"spec.scope: Invalid value: "Cluster": field is immutable"#;
    assert_eq!(shown(&check(&new, Some(&old), &mut Patterns::new())), format!("[{scope}, {group}]"));
}

#[test]
fn a_definition_decides_what_is_served() {
    let version = json!({
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"}},
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1}],
        "deprecated": true,
    });
    let color = json!({"type": "string", "format": "color"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"color": color}}}});
    let mut crd = with(&schema, &version);
    assert_eq!(warnings(&crd), ["unrecognized format \"color\""]);
    fill(&mut crd);
    prepare(&mut crd, None);
    let definition = Definition::read(&crd, Vec::new());
    assert_eq!((definition.group.as_str(), definition.namespaced), ("example.com", true));
    assert_eq!(definition.names.list_kind, "WidgetList");
    assert!(definition.served("v2").is_none());
    let version = definition.served("v1").unwrap();
    assert!(version.status);
    let scale = version.scale.as_ref().unwrap();
    assert_eq!((scale.spec_replicas_path.as_str(), &scale.label_selector_path), (".spec.r", &None));
    assert_eq!(version.selectable_fields, ["spec.color"]);
    assert_eq!(version.deprecation_warning.as_deref(), Some("example.com/v1 Widget is deprecated"));
    let next =
        json!({"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}});
    crd["spec"]["versions"].as_array_mut().unwrap().push(next);
    let definition = Definition::read(&crd, Vec::new());
    let warning = definition.served("v1").unwrap().deprecation_warning.as_deref();
    assert_eq!(warning, Some("example.com/v1 Widget is deprecated; use example.com/v2 Widget"));
}

/// Large schemas have hundreds of fields, many of them with the same few patterns.
#[test]
fn a_pattern_is_compiled_once_by_the_checks_and_not_again() {
    let schema = json!({
        "type": "object",
        "properties": {
            "plain": {"type": "string"},
            "quantity": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
            "name": {"type": "string", "pattern": "^[a-z]+$", "default": "x"},
            "same": {"type": "string", "pattern": "^[a-z]+$", "default": "y"},
        },
    });
    let mut crd = with(&schema, &json!({}));
    fill(&mut crd);
    prepare(&mut crd, None);
    let before = pattern::COMPILED.get();
    let mut patterns = Patterns::new();
    assert_eq!(shown(&check(&crd, None, &mut patterns)), "");
    let definition = Definition::read(&crd, vec![&patterns]);
    for (name, errors) in [("abc", 0), ("ABC", 1)] {
        let schema = &definition.versions[0].schema;
        assert_eq!(schema.validate(&json!({"name": name, "same": "a"})).len(), errors, "{name}");
    }
    assert_eq!(pattern::COMPILED.get() - before, 1);

    // Read again without a check, as after a change of its status: the patterns stay the same.
    let again = Definition::read(&crd, vec![&Patterns::new(), &definition.patterns]);
    assert_eq!(again.versions[0].schema.validate(&json!({"name": "ABC"})).len(), 1);
    assert_eq!(pattern::COMPILED.get() - before, 1);
    // Patterns that no schema has any more are dropped.
    let other = with(&json!({"type": "object"}), &json!({}));
    assert!(Definition::read(&other, vec![&definition.patterns]).patterns.is_empty());
}
