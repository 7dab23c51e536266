//! The table of built-in kinds of the embedded API server, recorded from a real one.
//!
//! There are three sources. The discovery documents have the kinds that are served. The OpenAPI
//! documents have the required fields, the keys of lists and the merge strategies of patches. Go's
//! types (`xtask/servers/kubernetes/gotypes`) have what only Go knows: whether a field is a
//! pointer, and whether it is left out when empty. The output has one kind or one type a line, in a
//! fixed order and without prose, so that a new Kubernetes release is a readable diff.
//!
//! Go's types also have the protobuf messages of their objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::openapi;
use crate::process;
use crate::real_server::RealServer;
use crate::servers::{self, Program};
use crate::step::Progress;
use crate::workspace;

/// The path of the table.
const FILE: &str = "crates/steersman-apiserver/data/kinds.json";
/// The path of the table of OpenAPI documents.
const OPENAPI: &str = "crates/steersman-apiserver/data/openapi.txt";
/// The path of the messages of kinds, and of objects that Go has encoded in both encodings, as test
/// data.
const MESSAGES: &str = "crates/steersman-wire/data/protobuf.txt";
const SAMPLES: &str = "crates/steersman-wire/tests/protobuf.jsonl";
/// Types that are part of requests or responses without being the type of a resource.
const ROOTS: [&str; 3] = ["meta.v1.DeleteOptions", "meta.v1.ListMeta", "meta.v1.Status"];

/// Reads a real server, and writes the table.
pub(crate) fn run() -> Result<()> {
    let kubectl = servers::provide(Program::Kubectl)?;
    let server = RealServer::start()?;
    let get = |path: &str| {
        let mut command = Command::new(&kubectl);
        command.arg("--kubeconfig").arg(server.kubeconfig()).args(["get", "--raw", path]);
        process::output(&mut command).with_context(|| format!("asking the server for {path}"))
    };
    let progress = Progress::start("reading discovery and OpenAPI", None);
    let mut groups = read_groups(&get)?;
    let mut schemas = Schemas::default();
    for group in &groups {
        for version in &group.versions {
            let path = format!("/openapi/v3{}", path_of(&group.name, &version.version));
            schemas.add(&serde_json::from_str(&get(&path)?).with_context(|| format!("reading {path}"))?)?;
        }
    }
    let release: Value = serde_json::from_str(&get("/version")?).context("reading /version")?;
    let release = release["gitVersion"].as_str().unwrap_or_default().trim_start_matches('v');
    let openapi = openapi::record(release, &get)?;
    progress.finish();
    schemas.name_types(&mut groups);
    let of_go: GoTypes = serde_json::from_str(&go_types("")?).context("reading what gotypes printed")?;
    write(FILE, release, &document(release, &groups, &types(&groups, &schemas, &of_go)?)?)?;
    write(OPENAPI, release, &openapi)?;
    write(MESSAGES, release, &format!("Kubernetes {release}\n\n{}", go_types("protobuf")?))?;
    write(SAMPLES, release, &go_types("samples")?)
}

fn write(file: &str, release: &str, text: &str) -> Result<()> {
    let path = workspace::root().join(file);
    fs::create_dir_all(path.parent().expect("the file is in a folder"))?;
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    eprintln!("{file}: {} KB, Kubernetes {release}", text.len() / 1024);
    Ok(())
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// One API group in the table.
struct Group {
    name: String,
    preferred: String,
    versions: Vec<Version>,
}

/// One version of a group.
struct Version {
    version: String,
    resources: Vec<Resource>,
}

/// One resource and the kind of its objects.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    plural: String,
    singular: String,
    kind: String,
    namespaced: bool,
    verbs: Vec<String>,
    /// The name of the kind's type below `types`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<Subresource>,
}

/// One subresource and the kind of its body.
#[derive(Serialize)]
struct Subresource {
    name: String,
    /// Group and version of the kind if they differ from the resource's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    kind: String,
    verbs: Vec<String>,
    /// Absent if there is no body but only query parameters, as for `exec`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_name: Option<String>,
}

/// An APIGroupList.
#[derive(Deserialize)]
struct ApiGroupList {
    groups: Vec<ApiGroup>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup {
    name: String,
    versions: Vec<ApiGroupVersion>,
    preferred_version: ApiGroupVersion,
}

#[derive(Deserialize)]
struct ApiGroupVersion {
    version: String,
}

/// An APIResourceList.
#[derive(Deserialize)]
struct ApiResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    group: Option<String>,
    version: Option<String>,
    kind: String,
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    storage_version_hash: Option<String>,
}

/// The groups in the server's own order, the core group first.
fn read_groups(get: &impl Fn(&str) -> Result<String>) -> Result<Vec<Group>> {
    let core = ApiGroup {
        name: String::new(),
        versions: vec![ApiGroupVersion { version: "v1".to_owned() }],
        preferred_version: ApiGroupVersion { version: "v1".to_owned() },
    };
    let named: ApiGroupList = serde_json::from_str(&get("/apis")?).context("reading /apis")?;
    std::iter::once(core)
        .chain(named.groups)
        .map(|group| {
            let version = |version: ApiGroupVersion| {
                let path = path_of(&group.name, &version.version);
                let list = serde_json::from_str(&get(&path)?).with_context(|| format!("reading {path}"))?;
                Ok(Version { version: version.version, resources: with_subresources(list)? })
            };
            let versions = group.versions.into_iter().map(version).collect::<Result<_>>()?;
            Ok(Group { name: group.name, preferred: group.preferred_version.version, versions })
        })
        .collect()
}

/// Moves each `pods/status` below its `pods`.
fn with_subresources(list: ApiResourceList) -> Result<Vec<Resource>> {
    let mut resources: Vec<Resource> = Vec::new();
    for found in list.resources {
        let Some((plural, name)) = found.name.split_once('/') else {
            resources.push(Resource {
                plural: found.name,
                singular: found.singular_name,
                kind: found.kind,
                namespaced: found.namespaced,
                verbs: found.verbs,
                type_name: None,
                short_names: found.short_names,
                categories: found.categories,
                storage_version_hash: found.storage_version_hash,
                subresources: Vec::new(),
            });
            continue;
        };
        let resource = resources
            .iter_mut()
            .find(|resource| resource.plural == plural)
            .with_context(|| format!("{} comes before {plural}", found.name))?;
        resource.subresources.push(Subresource {
            name: name.to_owned(),
            group: found.group,
            version: found.version,
            kind: found.kind,
            verbs: found.verbs,
            type_name: None,
        });
    }
    Ok(resources)
}

/// The types of the OpenAPI documents.
#[derive(Default)]
struct Schemas {
    /// By the short name.
    by_name: BTreeMap<String, Value>,
    /// The short name of the type of a kind, by group, version and kind.
    by_kind: BTreeMap<(String, String, String), String>,
}

impl Schemas {
    fn add(&mut self, document: &Value) -> Result<()> {
        let schemas = document["components"]["schemas"].as_object().context("no schemas in an OpenAPI document")?;
        for (full_name, schema) in schemas {
            let name = short_name(full_name);
            for kind in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                let part = |part: &str| kind[part].as_str().unwrap_or_default().to_owned();
                self.by_kind.insert((part("group"), part("version"), part("kind")), name.clone());
            }
            self.by_name.insert(name, schema.clone());
        }
        Ok(())
    }

    /// Records the type of each kind beside it.
    fn name_types(&self, groups: &mut [Group]) {
        for group in groups {
            let Group { name: group, versions, .. } = group;
            for Version { version: own, resources } in versions {
                let name = |group: &str, version: &str, kind: &str| {
                    self.by_kind.get(&(group.to_owned(), version.to_owned(), kind.to_owned())).cloned()
                };
                for resource in resources {
                    resource.type_name = name(group, own, &resource.kind);
                    for sub in &mut resource.subresources {
                        let (group, version) = (sub.group.as_ref().unwrap_or(group), sub.version.as_ref());
                        sub.type_name = name(group, version.unwrap_or(own), &sub.kind);
                    }
                }
            }
        }
    }
}

/// The last three parts of a definition's name: `apps.v1.Deployment`.
fn short_name(full: &str) -> String {
    let parts: Vec<&str> = full.split('.').collect();
    parts[parts.len().saturating_sub(3)..].join(".")
}

/// By type and field, the Go type and the field's tag.
type GoTypes = BTreeMap<String, BTreeMap<String, String>>;

/// Go's types: their fields, or the requested output.
fn go_types(what: &str) -> Result<String> {
    let progress = Progress::start("reading Go's types", None);
    let mut go = Command::new("go");
    go.args(["run", "-trimpath", "./gotypes"])
        .args(Some(what).filter(|what| !what.is_empty()))
        .env("CGO_ENABLED", "0")
        .current_dir(workspace::root().join(Path::new("xtask/servers/kubernetes")));
    let printed = process::output(&mut go).context("Go 1.26 or newer is needed to record the kinds")?;
    progress.finish();
    Ok(printed)
}

/// One type in the table: its fields by name, each as `TYPE WORD…`.
///
/// The type is written as in Go: `*` before an optional value, `[]` before the items of a list,
/// `map[string]` before the values of a map, and `v1.Protocol(string)` where Go has a name for it,
/// which its error messages contain. The words are `omitempty` and `omitzero` (left out when
/// empty), `in=NAME` (the struct that Go embeds it by), `required`, `list=atomic|set|map`,
/// `keys=NAME,…`, `map=atomic`, `patch=merge,retainKeys`, `patchKey=NAME`, and at last
/// `default=JSON`.
#[derive(Debug, PartialEq, Serialize)]
struct Type {
    /// `atomic` if apply treats it as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    map: Option<String>,
    fields: BTreeMap<String, String>,
}

/// The types that can be reached from the kinds.
fn types(groups: &[Group], schemas: &Schemas, go: &GoTypes) -> Result<BTreeMap<String, Type>> {
    let resources = groups.iter().flat_map(|group| &group.versions).flat_map(|version| &version.resources);
    let of_kinds = resources.flat_map(|resource| {
        std::iter::once(&resource.type_name).chain(resource.subresources.iter().map(|sub| &sub.type_name)).flatten()
    });
    let mut waiting: Vec<String> = of_kinds.cloned().chain(ROOTS.map(str::to_owned)).collect();
    let mut types = BTreeMap::new();
    while let Some(name) = waiting.pop() {
        if types.contains_key(&name) {
            continue;
        }
        let of_go = go.get(&name).with_context(|| format!("Go has no type {name}: is gotypes complete?"))?;
        let schema = schemas.by_name.get(&name).with_context(|| format!("OpenAPI has no type {name}"))?;
        let type_ = merge(of_go, schema).with_context(|| format!("the type {name}"))?;
        waiting.extend(type_.fields.values().filter_map(|field| struct_of(field)).map(str::to_owned));
        types.insert(name, type_);
    }
    Ok(types)
}

/// The struct that a field is made of: `core.v1.Container` of `[]core.v1.Container omitempty`.
fn struct_of(field: &str) -> Option<&str> {
    let expression = field.split(' ').next()?;
    // The innermost one: behind the names that Go has for it, and behind its containers.
    let innermost = expression.rsplit('(').next()?.trim_end_matches(')');
    let innermost = innermost.rsplit(['*', ']']).next()?;
    (innermost.matches('.').count() == 2).then_some(innermost)
}

/// One type, from Go and OpenAPI.
fn merge(of_go: &BTreeMap<String, String>, schema: &Value) -> Result<Type> {
    let no_properties = serde_json::Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&no_properties);
    if !properties.keys().eq(of_go.keys()) {
        let (of_go, of_openapi): (BTreeSet<_>, BTreeSet<_>) = (of_go.keys().collect(), properties.keys().collect());
        let differing: Vec<_> = of_go.symmetric_difference(&of_openapi).collect();
        bail!("fields that only Go or only OpenAPI has: {differing:?}");
    }
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let field = |(name, go): (&String, &String)| {
        let property = &properties[name];
        let mut words = vec![go.clone()];
        if required.contains(&name.as_str()) {
            words.push("required".to_owned());
        }
        for (word, extension) in [
            ("list", "x-kubernetes-list-type"),
            ("keys", "x-kubernetes-list-map-keys"),
            ("map", "x-kubernetes-map-type"),
            ("patch", "x-kubernetes-patch-strategy"),
            ("patchKey", "x-kubernetes-patch-merge-key"),
        ] {
            match &property[extension] {
                Value::String(value) => words.push(format!("{word}={value}")),
                Value::Array(values) => {
                    let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
                    words.push(format!("{word}={}", values.join(",")));
                }
                _ => {}
            }
        }
        // Only where Go leaves out the value is an empty default more than what the field has
        // anyway.
        let is_omitted = go.split(' ').any(|word| word == "omitempty");
        let shows_nothing = |default: &Value| is_empty(default) && !(is_omitted && is_scalar(default));
        if let Some(default) = property.get("default").filter(|default| !shows_nothing(default)) {
            words.push(format!("default={default}"));
        }
        (name.clone(), words.join(" "))
    };
    let map = schema["x-kubernetes-map-type"].as_str().map(str::to_owned);
    Ok(Type { map, fields: of_go.iter().map(field).collect() })
}

fn is_scalar(value: &Value) -> bool {
    value.is_string() || value.is_number() || value.is_boolean()
}

/// Whether a default is the empty value of its type.
fn is_empty(default: &Value) -> bool {
    match default {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The table as text.
fn document(release: &str, groups: &[Group], types: &BTreeMap<String, Type>) -> Result<String> {
    let mut text = format!("{{\n\"kubernetes\":{},\n\"groups\":[\n", serde_json::to_string(release)?);
    let mut separate = "";
    for group in groups {
        let (name, preferred) = (serde_json::to_string(&group.name)?, serde_json::to_string(&group.preferred)?);
        writeln!(text, "{separate}{{\"name\":{name},\"preferred\":{preferred},\"versions\":[")?;
        separate = "";
        for version in &group.versions {
            let resources: Vec<String> =
                version.resources.iter().map(serde_json::to_string).collect::<serde_json::Result<_>>()?;
            let name = serde_json::to_string(&version.version)?;
            write!(text, "{separate}{{\"version\":{name},\"resources\":[\n{}\n]}}", resources.join(",\n"))?;
            separate = ",\n";
        }
        text.push_str("\n]}");
        separate = ",\n";
    }
    text.push_str("\n],\n\"types\":{\n");
    let line = |(name, type_)| Ok(format!("{}:{}", serde_json::to_string(name)?, serde_json::to_string(type_)?));
    let lines: Vec<String> = types.iter().map(line).collect::<serde_json::Result<_>>()?;
    text.push_str(&lines.join(",\n"));
    text.push_str("\n}\n}\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn strings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn what_go_and_openapi_say_is_one_line_a_field() {
        let go = strings(&[("ports", "[]core.v1.ContainerPort omitempty"), ("protocol", "v1.Protocol(string)")]);
        let schema = json!({"required": ["protocol"], "x-kubernetes-map-type": "atomic", "properties": {
            "ports": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "containerPort"},
            "protocol": {"default": "TCP"},
        }});
        let merged = merge(&go, &schema).unwrap();
        let ports =
            "[]core.v1.ContainerPort omitempty list=map keys=containerPort,protocol patch=merge patchKey=containerPort";
        let protocol = "v1.Protocol(string) required default=\"TCP\"";
        let fields = strings(&[("ports", ports), ("protocol", protocol)]);
        assert_eq!(merged, Type { map: Some("atomic".to_owned()), fields });
    }

    #[test]
    fn a_field_that_only_one_of_them_knows_is_an_error() {
        let error = merge(&strings(&[("a", "string")]), &json!({"properties": {"b": {}}})).unwrap_err().to_string();
        assert_eq!(error, r#"fields that only Go or only OpenAPI has: ["a", "b"]"#);
    }

    #[test]
    fn the_struct_of_a_field_is_found_behind_what_contains_it() {
        for (field, expected) in [
            ("core.v1.PodSpec omitempty", Some("core.v1.PodSpec")),
            ("[]core.v1.Container", Some("core.v1.Container")),
            ("*map[string]apiextensions.v1.JSONSchemaProps", Some("apiextensions.v1.JSONSchemaProps")),
            (
                "v1.ValidationRules([]apiextensions.v1.ValidationRule) omitempty",
                Some("apiextensions.v1.ValidationRule"),
            ),
            ("[]v1.PersistentVolumeAccessMode(string)", None),
            ("v1.ResourceList(map[string]quantity)", None),
            ("string default=\"a.b.c\"", None),
        ] {
            assert_eq!(struct_of(field), expected, "{field}");
        }
    }

    #[test]
    fn subresources_come_below_their_resource() {
        let resource = |name: &str| ApiResource {
            name: name.to_owned(),
            singular_name: String::new(),
            namespaced: true,
            group: None,
            version: None,
            kind: "Pod".to_owned(),
            verbs: Vec::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            storage_version_hash: None,
        };
        let list = ApiResourceList { resources: vec![resource("pods"), resource("pods/status")] };
        let found = with_subresources(list).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].subresources[0].name, "status");
        assert!(with_subresources(ApiResourceList { resources: vec![resource("pods/status")] }).is_err());
    }

    #[test]
    fn the_document_is_json_with_one_thing_a_line() {
        let group = |name: &str| Group {
            name: name.to_owned(),
            preferred: "v1".to_owned(),
            versions: ["v1", "v2"].map(|version| Version { version: version.to_owned(), resources: Vec::new() }).into(),
        };
        let type_ = || Type { map: None, fields: strings(&[("a", "string")]) };
        let types = ["x.v1.A", "x.v1.B"].map(|name| (name.to_owned(), type_())).into();
        let text = document("1.2.3", &[group(""), group("apps")], &types).unwrap();
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed["groups"][1]["versions"][1]["version"], "v2");
        assert_eq!(parsed["types"]["x.v1.B"], json!({"fields": {"a": "string"}}));
        assert_eq!(text.lines().filter(|line| line.contains("x.v1.")).count(), 2);
    }

    /// The fields of a message by name, and whether they are optional. The fields of a message
    /// without a name belong to the one around it.
    fn fields_of<'a>(messages: &BTreeMap<&str, &'a str>, message: &str, fields: &mut BTreeMap<&'a str, bool>) {
        for field in messages[message].split(' ') {
            let (name, kind) = field.split_once(',').and_then(|(_, field)| field.split_once(':')).expect(field);
            match name.trim_matches('"') {
                "" => fields_of(messages, kind, fields),
                name => drop(fields.insert(name, kind.starts_with('*'))),
            }
        }
    }

    #[test]
    fn the_tables_of_messages_and_of_schemas_agree() {
        let read = |file: &str| fs::read_to_string(workspace::root().join(file)).expect(file);
        let (kinds, messages) = (read(FILE), read(MESSAGES));
        let kinds: Value = serde_json::from_str(&kinds).expect("the table is JSON");
        let parts: Vec<&str> = messages.trim_end().splitn(3, "\n\n").collect();
        assert_eq!(parts[0].strip_prefix("Kubernetes "), kinds["kubernetes"].as_str());
        let messages = parts[2].lines().filter_map(|line| line.split_once(' ')).collect::<BTreeMap<_, _>>();
        let mut compared = 0;
        for (name, schema) in kinds["types"].as_object().expect("types are a map") {
            if !messages.contains_key(name.as_str()) {
                continue;
            }
            let mut of_message = BTreeMap::new();
            fields_of(&messages, name, &mut of_message);
            let fields = schema["fields"].as_object().expect("fields are a map");
            let is_optional = |field: &Value| field.as_str().is_some_and(|field| field.starts_with('*'));
            let mut of_schema: BTreeMap<&str, bool> =
                fields.iter().map(|(name, field)| (name.as_str(), is_optional(field))).collect();
            // The type of an object is not part of its message.
            for name in ["apiVersion", "kind"] {
                of_message.remove(name);
                of_schema.remove(name);
            }
            assert_eq!(of_message, of_schema, "{name}");
            compared += 1;
        }
        assert!(compared > 400, "only {compared} types are in both tables");
    }
}
