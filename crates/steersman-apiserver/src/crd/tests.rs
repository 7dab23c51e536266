//! Against what a real server answered to the same bodies.

use serde_json::{Value, json};

use super::*;

/// Errors as the message of a refusal has them. What is said twice is shown once.
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

/// A definition of one version, as it is sent.
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
    Definition::read(&crd).err().map(|errors| shown(&errors)).unwrap_or_default()
}

/// Whether two refusals are the same but for the order of their errors, which is random on the real server.
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
    assert_eq!(shown(&Definition::read(&next).unwrap_err()), wanted);
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
    assert_eq!(shown(&check(&new, Some(&old))), group);
    old["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
    let scope = r#"spec.scope: Invalid value: "Cluster": field is immutable"#;
    assert_eq!(shown(&check(&new, Some(&old))), format!("[{scope}, {group}]"));
}

#[test]
fn a_definition_says_what_is_served() {
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
    let definition = Definition::read(&crd).unwrap();
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
    let definition = Definition::read(&crd).unwrap();
    let warning = definition.served("v1").unwrap().deprecation_warning.as_deref();
    assert_eq!(warning, Some("example.com/v1 Widget is deprecated; use example.com/v2 Widget"));
}

#[test]
fn a_status_is_checked_on_its_own() {
    let schema = probe();
    let old = json!({"spec": {"i": "x"}});
    let cases = [
        (json!({"n": "x"}), r#"status.n: Invalid value: "string": n in body must be of type integer: "string""#),
        (
            json!({"l": ["x"]}),
            r#"status.l[0]: Invalid value: "string": l[0] in body must be of type integer: "string""#,
        ),
        (json!("x"), r#"status: Invalid value: "string":  in body must be of type object: "string""#),
        (json!({"n": 1}), ""),
    ];
    for (status, wanted) in cases {
        let object = json!({"spec": {"i": "x"}, "status": status});
        assert_eq!(shown(&schema.validate_status(&object, &old)), wanted, "{status}");
    }
}

#[test]
fn what_was_wrong_before_may_stay_while_it_does_not_change() {
    let schema = probe();
    let old = json!({"spec": {"i": "x", "one": {}, "set": ["a", "a"], "map1": [{"k": 1}], "l": ["x"]}});
    let mut new = old.clone();
    new["metadata"] = json!({"labels": {"a": "b"}});
    assert_eq!(shown(&schema.validate_update(&new, &old)), "");
    new["spec"]["b"] = true.into();
    new["spec"]["map1"] = json!([{"k": "a"}, {"k": 1}]);
    assert_eq!(shown(&schema.validate_update(&new, &old)), "");
    new["spec"]["i"] = "y".into();
    new["spec"]["l"] = json!(["x", 1]);
    let wanted = [
        r#"spec.i: Invalid value: "string": spec.i in body must be of type integer: "string""#,
        r#"spec.l[0]: Invalid value: "string": spec.l[0] in body must be of type integer: "string""#,
    ];
    assert_eq!(shown(&schema.validate_update(&new, &old)), format!("[{}]", wanted.join(", ")));
}

/// Every keyword once.
fn probe() -> Schema {
    let spec = json!({"type": "object", "properties": {
        "i": {"type": "integer"},
        "i32": {"type": "integer", "format": "int32"},
        "n": {"type": "number", "maximum": 10.5, "minimum": 1},
        "f": {"type": "number", "format": "float"},
        "max": {"type": "integer", "maximum": 10, "minimum": 1},
        "xmax": {"type": "integer", "maximum": 10, "exclusiveMaximum": true, "minimum": 1, "exclusiveMinimum": true},
        "mult": {"type": "integer", "multipleOf": 5},
        "multf": {"type": "number", "multipleOf": 0.5},
        "s": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a+$"},
        "e": {"type": "string", "enum": ["a", "b"]},
        "ei": {"type": "integer", "enum": [1, 2]},
        "en": {"type": "string", "nullable": true, "enum": ["a"]},
        "nul": {"type": "string", "nullable": true},
        "b": {"type": "boolean"},
        "d": {"type": "string", "format": "date-time"},
        "dd": {"type": "string", "format": "date"},
        "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2, "minProperties": 1},
        "none": {"type": "object", "additionalProperties": false},
        "req": {"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}},
        "ios": {"x-kubernetes-int-or-string": true},
        "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "anyo": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "all": {"type": "integer", "allOf": [{"minimum": 2}, {"maximum": 5}]},
        "nt": {"type": "integer", "not": {"enum": [1]}},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "map": {"type": "array", "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "p": {"type": "string", "default": "TCP"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"]},
        "map1": {"type": "array", "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }});
    let status = json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "l": {"type": "array", "items": {"type": "integer"}},
    }});
    Schema::compile(&json!({"type": "object", "properties": {"spec": spec, "status": status}}))
}

#[test]
fn objects_are_checked_in_the_words_of_the_real_server() {
    let schema = probe();
    let cases = [
        (json!({"i": "x"}), r#"spec.i: Invalid value: "string": spec.i in body must be of type integer: "string""#),
        (
            json!({"i": 1.5}),
            r#"[spec.i: Invalid value: "number": spec.i in body must be of type integer: "number", <nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.i]"#,
        ),
        (json!({"i": 1.0}), r#""#),
        (json!({"i": null}), r#""#),
        (json!({"i": true}), r#"spec.i: Invalid value: "boolean": spec.i in body must be of type integer: "boolean""#),
        (json!({"i": []}), r#"spec.i: Invalid value: "array": spec.i in body must be of type integer: "array""#),
        (json!({"i": {}}), r#"spec.i: Invalid value: "object": spec.i in body must be of type integer: "object""#),
        (
            json!({"i32": 3_000_000_000_i64}),
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.i32"#,
        ),
        (json!({"n": "x"}), r#"spec.n: Invalid value: "string": spec.n in body must be of type number: "string""#),
        (json!({"n": 11}), r#"spec.n: Invalid value: 11: spec.n in body should be less than or equal to 10"#),
        (json!({"n": 10.75}), r#"spec.n: Invalid value: 10.75: spec.n in body should be less than or equal to 10.5"#),
        (json!({"n": 0}), r#"spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1"#),
        (json!({"n": 0.25}), r#"spec.n: Invalid value: 0.25: spec.n in body should be greater than or equal to 1"#),
        (
            json!({"f": 1e+300}),
            r#"<nil>: Invalid value: "": Checked value must be of type number with format float in spec.f"#,
        ),
        (json!({"max": 11}), r#"spec.max: Invalid value: 11: spec.max in body should be less than or equal to 10"#),
        (json!({"max": 0}), r#"spec.max: Invalid value: 0: spec.max in body should be greater than or equal to 1"#),
        (json!({"max": 20.0}), r#"spec.max: Invalid value: 20: spec.max in body should be less than or equal to 10"#),
        (json!({"xmax": 10}), r#"spec.xmax: Invalid value: 10: spec.xmax in body should be less than 10"#),
        (json!({"xmax": 1}), r#"spec.xmax: Invalid value: 1: spec.xmax in body should be greater than 1"#),
        (json!({"mult": 7}), r#"spec.mult: Invalid value: 7: spec.mult in body should be a multiple of 5"#),
        (json!({"multf": 0.75}), r#"spec.multf: Invalid value: 0.75: spec.multf in body should be a multiple of 0.5"#),
        (json!({"s": "a"}), r#"spec.s: Invalid value: "a": spec.s in body should be at least 2 chars long"#),
        (json!({"s": "aaaaa"}), r#"spec.s: Too long: may not be more than 4 bytes"#),
        (json!({"s": "bb"}), r#"spec.s: Invalid value: "bb": spec.s in body should match '^a+$'"#),
        (json!({"s": 5}), r#"spec.s: Invalid value: "integer": spec.s in body must be of type string: "integer""#),
        (json!({"e": "c"}), r#"spec.e: Unsupported value: "c": supported values: "a", "b""#),
        (
            json!({"e": 1}),
            r#"[spec.e: Invalid value: "integer": spec.e in body must be of type string: "integer", spec.e: Unsupported value: 1: supported values: "a", "b"]"#,
        ),
        (json!({"ei": 3}), r#"spec.ei: Unsupported value: 3: supported values: "1", "2""#),
        (
            json!({"ei": "x"}),
            r#"[spec.ei: Invalid value: "string": spec.ei in body must be of type integer: "string", spec.ei: Unsupported value: "x": supported values: "1", "2"]"#,
        ),
        (json!({"en": null}), r#"spec.en: Unsupported value: null: supported values: "a""#),
        (json!({"nul": null}), r#""#),
        (json!({"b": "true"}), r#"spec.b: Invalid value: "string": spec.b in body must be of type boolean: "string""#),
        (json!({"d": "x"}), r#"spec.d: Invalid value: "x": spec.d in body must be of type date-time: "x""#),
        (json!({"d": 5}), r#"spec.d: Invalid value: "int64": spec.d in body must be of type date-time: "int64""#),
        (json!({"d": true}), r#"spec.d: Invalid value: "": spec.d in body must be of type date-time: """#),
        (json!({"d": []}), r#""#),
        (
            json!({"dd": "2024-13-01"}),
            r#"spec.dd: Invalid value: "2024-13-01": spec.dd in body must be of type date: "2024-13-01""#,
        ),
        (json!({"l": []}), r#"spec.l: Invalid value: 0: spec.l in body should have at least 1 items"#),
        (json!({"l": [1, 2, 3]}), r#"spec.l: Too many: 3: must have at most 2 items"#),
        (
            json!({"l": ["a", 1]}),
            r#"spec.l[0]: Invalid value: "string": spec.l[0] in body must be of type integer: "string""#,
        ),
        (
            json!({"l": [null]}),
            r#"spec.l[0]: Invalid value: "null": spec.l[0] in body must be of type integer: "null""#,
        ),
        (json!({"m": {}}), r#"spec.m: Invalid value: 0: spec.m in body should have at least 1 properties"#),
        (json!({"m": {"a": 1, "b": 2, "c": 3}}), r#"spec.m: Too many: 3: must have at most 2 items"#),
        (
            json!({"m": {"a": "x"}}),
            r#"spec.m.a: Invalid value: "string": spec.m.a in body must be of type integer: "string""#,
        ),
        (json!({"none": {"a": 1}}), r#"spec.none: Invalid value: "a": spec.none.a in body is a forbidden property"#),
        (json!({"req": {}}), r#"spec.req.x: Required value"#),
        (
            json!({"ios": 1.5}),
            r#"spec.ios: Invalid value: "number": spec.ios in body must be of type integer,string: "number""#,
        ),
        (json!({"ios": "a"}), r#""#),
        (
            json!({"ios": true}),
            r#"spec.ios: Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"one": {}}),
            r#"[<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid, spec.one.a: Required value]"#,
        ),
        (
            json!({"one": {"a": "x", "b": "y"}}),
            r#"<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ),
        (
            json!({"one": {"a": 1}}),
            r#"spec.one.a: Invalid value: "integer": spec.one.a in body must be of type string: "integer""#,
        ),
        (
            json!({"anyo": {}}),
            r#"[<nil>: Invalid value: "": "spec.anyo" must validate at least one schema (anyOf), spec.anyo.a: Required value]"#,
        ),
        (
            json!({"all": 1}),
            r#"[spec.all: Invalid value: 1: spec.all in body should be greater than or equal to 2, <nil>: Invalid value: "": "spec.all" must validate all the schemas (allOf)]"#,
        ),
        (
            json!({"all": 9}),
            r#"[spec.all: Invalid value: 9: spec.all in body should be less than or equal to 5, <nil>: Invalid value: "": "spec.all" must validate all the schemas (allOf)]"#,
        ),
        (json!({"nt": 1}), r#"<nil>: Invalid value: "": "spec.nt" must not validate the schema (not)"#),
        (json!({"set": ["a", "a", "a"]}), r#"spec.set[1]: Duplicate value: "a""#),
        (json!({"map": [{"k": "a"}, {"k": "a"}]}), r#"spec.map[1]: Duplicate value: {"k":"a","p":"TCP"}"#),
        (json!({"map1": [{"k": "a"}, {"k": "a"}]}), r#"spec.map1[1]: Duplicate value: {"k":"a"}"#),
        (
            json!({"map1": [{}, {}]}),
            r#"[spec.map1[0].k: Required value, spec.map1[1].k: Required value, spec.map1[1]: Duplicate value: {}]"#,
        ),
        (
            json!({"map1": ["x"]}),
            r#"[spec.map1[0]: Invalid value: "string": spec.map1[0] in body must be of type object: "string", spec.map1[0]: Invalid value: "x": must be an object for an array of list-type map]"#,
        ),
        (json!({"emb": {}}), r#"[spec.emb.apiVersion: Required value, spec.emb.kind: Required value]"#),
        (
            json!({"emb": {"apiVersion": "a/b/c", "kind": "A_b"}}),
            r#"[spec.emb.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c, spec.emb.kind: Invalid value: "A_b": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')]"#,
        ),
        (
            json!({"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b", "foo": 1, "labels": {"a b": "c d"}}}}),
            r#"[spec.emb.metadata.name: Invalid value: "a/b": may not contain '/', spec.emb.metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), spec.emb.metadata.labels: Invalid value: "c d": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]"#,
        ),
        (json!({"foo": 1, "map1": [{"k": "a", "z": 1}], "req": {"x": "a", "y": 1}}), r#""#),
    ];
    for (spec, wanted) in cases {
        let mut object =
            json!({"apiVersion": "example.com/v1", "kind": "Probe", "metadata": {"name": "a"}, "spec": spec});
        schema.default(&mut object);
        schema.prune(&mut object);
        assert_eq!(shown(&schema.validate(&object)), wanted, "{spec}");
    }
}
