//! The table of OpenAPI documents of the embedded API server, recorded from a real one.
//!
//! Operations follow from the table of kinds by rules. The rest is here, one type or one field a
//! line, so that a new Kubernetes release is a readable diff: schemas with their descriptions, the
//! query parameters of each verb, and the hash of each document. The embedded server makes the
//! documents from the table, and a test of it compares their hashes with the recorded ones.
//!
//! ```text
//! batch.v1.JobStatus object required=… gvk=… | Description of the type
//!  active integer/int32 | Description of the field
//!  conditions []io.k8s.api.batch.v1.JobCondition={} list=atomic patch=merge patchKey=type | …
//! ```
//!
//! `[]` stands before the items of a list, `{}` before the values of a map, and `=JSON` after the
//! type that has a default.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use sha2::{Digest, Sha512};

/// Fields of most kinds. A line with only their name has the text of this type.
const SHARED: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.TypeMeta";
/// Where the query parameters of each set are found: its name, path and method.
const PARAMETERS: [(&str, &str, &str); 15] = [
    ("list", "/api/v1/namespaces", "get"),
    ("create", "/api/v1/namespaces", "post"),
    ("update", "/api/v1/namespaces/{name}", "put"),
    ("patch", "/api/v1/namespaces/{name}", "patch"),
    ("delete", "/api/v1/namespaces/{name}", "delete"),
    ("pretty", "/api/v1/namespaces/{name}", ""),
    ("namespace", "/api/v1/namespaces/{namespace}/pods", ""),
    ("path", "/api/v1/nodes/{name}/proxy/{path}", ""),
    ("PodLogOptions", "/api/v1/namespaces/{namespace}/pods/{name}/log", ""),
    ("PodAttachOptions", "/api/v1/namespaces/{namespace}/pods/{name}/attach", ""),
    ("PodExecOptions", "/api/v1/namespaces/{namespace}/pods/{name}/exec", ""),
    ("PodPortForwardOptions", "/api/v1/namespaces/{namespace}/pods/{name}/portforward", ""),
    ("PodProxyOptions", "/api/v1/namespaces/{namespace}/pods/{name}/proxy", ""),
    ("ServiceProxyOptions", "/api/v1/namespaces/{namespace}/services/{name}/proxy", ""),
    ("NodeProxyOptions", "/api/v1/nodes/{name}/proxy", ""),
];

/// Reads the documents of a real server, and returns the table.
pub(crate) fn record(release: &str, get: &impl Fn(&str) -> Result<String>) -> Result<String> {
    let v2 = get("/openapi/v2")?;
    let mut hashes = BTreeMap::from([("v2".to_owned(), hash(&v2))]);
    let index: Value = serde_json::from_str(&get("/openapi/v3")?).context("reading /openapi/v3")?;
    let v2: Value = serde_json::from_str(&v2).context("reading /openapi/v2")?;
    let (mut types, mut paths) = (BTreeMap::new(), BTreeMap::new());
    for path in index["paths"].as_object().context("no paths in /openapi/v3")?.keys() {
        let text = get(&format!("/openapi/v3/{path}"))?;
        hashes.insert(path.clone(), hash(&text));
        let document: Value = serde_json::from_str(&text).with_context(|| format!("reading {path}"))?;
        let of = |part: &Value| part.as_object().cloned().unwrap_or_default();
        types.extend(of(&document["components"]["schemas"]));
        paths.extend(of(&document["paths"]));
    }
    // Each document lists the groups of a common type that it serves itself; the other list is
    // complete.
    for (name, of_v2) in v2["definitions"].as_object().context("no definitions in /openapi/v2")? {
        let Some(schema) = types.get_mut(name).and_then(Value::as_object_mut) else { bail!("only v2 has {name}") };
        if let Some(kinds) = of_v2.get(KINDS) {
            schema.insert(KINDS.to_owned(), kinds.clone());
        }
        if of_v2["type"] != *schema.get("type").unwrap_or(&Value::Null) {
            schema.insert("v2".to_owned(), of_v2.clone());
        }
    }
    let mut text = format!("Kubernetes {release}\n\n");
    for (document, hash) in &hashes {
        writeln!(text, "{document} {hash}")?;
    }
    text.push_str("\nThe kinds whose deletion returns the object:\n");
    for (path, item) in paths.iter().filter(|(path, _)| !path.ends_with("/proxy") && !path.ends_with("/{path}")) {
        let returned = &item["delete"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
        let Some(returned) = returned.as_str().filter(|returned| !returned.ends_with(".Status")) else { continue };
        let item = path.trim_end_matches("/{name}").replace("namespaces/{namespace}/", "");
        let returned = returned.rsplit('.').next().unwrap_or_default();
        writeln!(text, "{item} {returned}")?;
    }
    text.push('\n');
    for (set, path, method) in PARAMETERS {
        write_parameters(&mut text, set, &paths[path], method).with_context(|| path.to_owned())?;
    }
    text.push('\n');
    let shared = shared(&types)?;
    writeln!(text, "{SHARED}")?;
    for (name, schema) in &shared {
        writeln!(text, " {name} {}", field(schema)?)?;
    }
    for (name, schema) in &types {
        write_type(&mut text, name, schema, &shared).with_context(|| format!("the type {name}"))?;
    }
    Ok(text)
}

const KINDS: &str = "x-kubernetes-group-version-kind";

fn hash(text: &str) -> String {
    Sha512::digest(text).iter().fold(String::new(), |mut hash, byte| {
        write!(hash, "{byte:02X}").expect("text has no errors");
        hash
    })
}

/// The query parameters of an operation, and those that all operations of its path share.
fn write_parameters(text: &mut String, set: &str, path: &Value, method: &str) -> Result<()> {
    writeln!(text, "?{set}")?;
    let lists = [&path["parameters"], &path[method]["parameters"]];
    for parameter in lists.into_iter().filter_map(Value::as_array).flatten() {
        let (name, at) = (parameter["name"].as_str().unwrap_or_default(), parameter["in"].as_str().unwrap_or_default());
        // Parameters of many verbs have a set of their own. The name has the kind in its text.
        let is_alone = at == "path" || name == "pretty";
        if name == "name" || is_alone != (set == name) {
            continue;
        }
        let description = escaped(parameter["description"].as_str().unwrap_or_default());
        let kind = parameter["schema"]["type"].as_str().context("a parameter without a type")?;
        writeln!(text, " {name} {kind} | {description}")?;
    }
    Ok(())
}

/// The fields that each kind has.
fn shared(types: &BTreeMap<String, Value>) -> Result<BTreeMap<String, Value>> {
    let pod = types.get("io.k8s.api.core.v1.Pod").context("no Pods")?;
    let of = |name: &str| (name.to_owned(), pod["properties"][name].clone());
    Ok(BTreeMap::from([of("apiVersion"), of("kind")]))
}

fn write_type(text: &mut String, name: &str, schema: &Value, shared: &BTreeMap<String, Value>) -> Result<()> {
    write!(text, "{name} {}", basic(schema))?;
    for (key, value) in schema.as_object().context("a schema is a map")? {
        match (key.as_str(), value) {
            ("description" | "type" | "format" | "oneOf" | "properties" | "x-kubernetes-unions", _) => {}
            ("required", Value::Array(fields)) => write!(text, " required={}", joined(fields)?)?,
            ("v2", of_v2) => write!(text, " v2={}", basic(of_v2))?,
            ("x-kubernetes-map-type", Value::String(kind)) => write!(text, " map={kind}")?,
            (KINDS, Value::Array(kinds)) => {
                for kind in kinds {
                    let part = |part: &str| kind[part].as_str().unwrap_or_default();
                    write!(text, " gvk={}/{}/{}", part("group"), part("version"), part("kind"))?;
                }
            }
            (other, value) => bail!("unknown in a type: {other}: {value}"),
        }
    }
    if let Some(unions) = schema.get("x-kubernetes-unions") {
        write!(text, " unions={unions}")?;
    }
    if let Some(description) = schema["description"].as_str() {
        write!(text, " | {}", escaped(description))?;
    }
    text.push('\n');
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if shared.get(name) == Some(property) {
            writeln!(text, " {name}")?;
        } else {
            writeln!(text, " {name} {}", field(property).with_context(|| format!("the field {name}"))?)?;
        }
    }
    Ok(())
}

/// The type of a schema that contains no other one.
fn basic(schema: &Value) -> String {
    let kind = match (&schema["type"], &schema["oneOf"]) {
        (Value::String(kind), _) => kind.clone(),
        (_, Value::Array(kinds)) => kinds.iter().filter_map(|kind| kind["type"].as_str()).collect::<Vec<_>>().join("|"),
        _ => "any".to_owned(),
    };
    match schema["format"].as_str() {
        Some(format) => format!("{kind}/{format}"),
        None => kind,
    }
}

/// The line of a field after its name.
fn field(property: &Value) -> Result<String> {
    let mut line = String::new();
    // The type with its containers.
    let mut inner = property;
    loop {
        if let Some(items) = inner.get("items") {
            line.push_str("[]");
            inner = items;
        } else if let Some(values) = inner.get("additionalProperties") {
            line.push_str("{}");
            inner = values;
        } else {
            break;
        }
    }
    let reference = inner["$ref"].as_str().or_else(|| inner["allOf"][0]["$ref"].as_str());
    match reference {
        Some(reference) => line.push_str(reference.rsplit('/').next().unwrap_or_default()),
        None => line.push_str(&basic(inner)),
    }
    if let Some(default) = inner.get("default") {
        write!(line, "={default}")?;
    }
    for (key, value) in property.as_object().context("a schema is a map")? {
        let word = match key.as_str() {
            "description"
            | "type"
            | "format"
            | "$ref"
            | "allOf"
            | "items"
            | "additionalProperties"
            | "default"
            | "enum" => continue,
            "x-kubernetes-list-type" => "list",
            "x-kubernetes-list-map-keys" => "keys",
            "x-kubernetes-map-type" => "map",
            "x-kubernetes-patch-strategy" => "patch",
            "x-kubernetes-patch-merge-key" => "patchKey",
            other => bail!("unknown in a field: {other}"),
        };
        match value {
            Value::Array(values) => write!(line, " {word}={}", joined(values)?)?,
            Value::String(value) => write!(line, " {word}={value}")?,
            other => bail!("unknown in a field: {key}: {other}"),
        }
    }
    if let Some(values) = inner.get("enum") {
        write!(line, " enum={values}")?;
    }
    if let Some(description) = property["description"].as_str() {
        write!(line, " | {}", escaped(description))?;
    }
    Ok(line)
}

fn joined(names: &[Value]) -> Result<String> {
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    ensure!(names.iter().all(|name| !name.contains([',', ' '])), "names with spaces: {names:?}");
    Ok(names.join(","))
}

/// The text on one line.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_one_line() {
        let reference = json!({"$ref": "#/components/schemas/a.v1.B"});
        for (property, expected) in [
            (json!({"type": "integer", "format": "int32", "default": 0}), "integer/int32=0"),
            (json!({"description": "a\nb \\ c", "allOf": [reference], "default": {}}), "a.v1.B={} | a\\nb \\\\ c"),
            (
                json!({"type": "array", "items": {"type": "string", "default": "", "enum": ["", "a b"]},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["x", "y"]}),
                r#"[]string="" keys=x,y list=map enum=["","a b"]"#,
            ),
            (json!({"type": "object", "additionalProperties": {"type": "array", "items": reference}}), "{}[]a.v1.B"),
        ] {
            assert_eq!(field(&property).unwrap(), expected);
        }
        assert!(field(&json!({"type": "string", "pattern": "a"})).is_err());
    }

    #[test]
    fn a_type_has_its_fields_below() {
        let schema = json!({"type": "object", "description": "One.", "required": ["b", "a"],
            KINDS: [{"group": "g", "version": "v1", "kind": "K"}],
            "properties": {"a": {"type": "string"}, "kind": {"type": "string", "description": "K"}}});
        let shared = BTreeMap::from([("kind".to_owned(), json!({"type": "string", "description": "K"}))]);
        let mut text = String::new();
        write_type(&mut text, "g.v1.K", &schema, &shared).unwrap();
        assert_eq!(text, "g.v1.K object required=b,a gvk=g/v1/K | One.\n a string\n kind\n");
        assert!(write_type(&mut text, "g.v1.K", &json!({"pattern": "a"}), &shared).is_err());
    }
}
