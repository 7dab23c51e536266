//! Custom resources: the routes and schemas of a version of a CustomResourceDefinition.

mod schema;

use std::collections::BTreeMap;

use serde_json::Value;

use self::schema::Definition;
use super::builtin::with_article;
use super::node::{Node, Text};
use super::route::{DELETE_OPTIONS, PATCH, RequestBody, Route, STATUS};
use super::schema::Version;
use super::table::{Parameter, table};

const MEDIA_TYPES: &[&str] = &["application/json", "application/yaml"];
const PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
/// The document of a custom kind has this type, also if its schema has no fields.
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// The routes and schemas of one version of a definition.
pub(super) struct CustomPart {
    pub(super) routes: Vec<Route>,
    pub(super) schemas: BTreeMap<Text, Node>,
}

/// The names that a version of a definition is served by.
struct Names<'a> {
    group: &'a str,
    version: &'a str,
    plural: &'a str,
    kind: &'a str,
    list_kind: &'a str,
    namespaced: bool,
}

impl Names<'_> {
    /// The name of the schema of a kind: `com.example.v1.Widget`.
    fn model(&self, kind: &str) -> String {
        let mut parts: Vec<&str> = self.group.split('.').collect();
        parts.reverse();
        format!("{}.{}.{kind}", parts.join("."), self.version)
    }
}

/// A version of a definition, as a part of a document of this version of OpenAPI.
pub(super) fn part(crd: &Value, version: &str, of_document: Version) -> Option<CustomPart> {
    let spec = &crd["spec"];
    let own = spec["versions"].as_array()?.iter().find(|one| one["name"] == version)?;
    let names = Names {
        group: spec["group"].as_str()?,
        version,
        plural: spec["names"]["plural"].as_str()?,
        kind: spec["names"]["kind"].as_str()?,
        list_kind: spec["names"]["listKind"].as_str()?,
        namespaced: spec["scope"] == "Namespaced",
    };
    let definition = Definition { names: &names, own, of_document };
    let schemas = BTreeMap::from([
        (names.model(names.kind).into(), definition.kind()),
        (names.model(names.list_kind).into(), definition.list()),
    ]);
    Some(CustomPart { routes: routes(&names, own), schemas })
}

fn routes(names: &Names<'_>, own: &Value) -> Vec<Route> {
    let root = format!("/apis/{}/{}", names.group, names.version);
    let everywhere = format!("{root}/{}", names.plural);
    let collection = match names.namespaced {
        true => format!("{root}/namespaces/{{namespace}}/{}", names.plural),
        false => everywhere.clone(),
    };
    let item = format!("{collection}/{{name}}");
    let (kind, own_model) = (names.kind, names.model(names.kind));
    let list = |path: &str| Route {
        description: format!("list objects of kind {kind}"),
        model: names.model(names.list_kind).into(),
        ..route(names, path, "list", &["list"])
    };
    let mut routes = Vec::new();
    if names.namespaced {
        routes.push(Route { operation: format!("list{kind}ForAllNamespaces"), ..list(&everywhere) });
    }
    routes.push(Route { operation: operation(names, "list", ""), ..list(&collection) });
    routes.push(Route {
        method: "post",
        operation: operation(names, "create", ""),
        description: format!("create {}", with_article(kind)),
        codes: &[200, 201, 202],
        body: body(own_model),
        ..route(names, &collection, "post", &["create"])
    });
    routes.push(Route {
        method: "delete",
        operation: operation(names, "deletecollection", ""),
        description: format!("delete collection of {kind}"),
        model: STATUS.into(),
        ..route(names, &collection, "deletecollection", &["list"])
    });
    routes.push(Route {
        method: "delete",
        operation: operation(names, "delete", ""),
        description: format!("delete {}", with_article(kind)),
        codes: &[200, 202],
        model: STATUS.into(),
        body: Some(RequestBody { model: DELETE_OPTIONS.into(), required: false }),
        ..route(names, &item, "delete", &["delete"])
    });
    add_item(names, &item, "", names.model(kind), &mut routes);
    let subresources = &own["subresources"];
    if !subresources["status"].is_null() {
        add_item(names, &item, "status", names.model(kind), &mut routes);
    }
    if !subresources["scale"].is_null() {
        add_item(names, &item, "scale", SCALE.to_owned(), &mut routes);
    }
    routes
}

/// The routes of an object, or of a subresource of it.
fn add_item(names: &Names<'_>, item: &str, sub: &str, model: String, routes: &mut Vec<Route>) {
    let (path, of) = match sub {
        "" => (item.to_owned(), String::new()),
        sub => (format!("{item}/{sub}"), format!("{sub} of ")),
    };
    let described = |verb: &str| format!("{verb} {of}the specified {}", names.kind);
    let mut get = Route {
        operation: operation(names, "read", sub),
        description: described("read"),
        model: model.clone().into(),
        ..route(names, &path, "get", &[])
    };
    get.parameters.extend(table().parameters("list").filter(|parameter| parameter.name == "resourceVersion"));
    routes.push(get);
    routes.push(Route {
        method: "put",
        operation: operation(names, "replace", sub),
        description: described("replace"),
        codes: &[200, 201],
        model: model.clone().into(),
        body: body(model.clone()),
        ..route(names, &path, "put", &["update"])
    });
    routes.push(Route {
        method: "patch",
        operation: operation(names, "patch", sub),
        description: described("partially update"),
        model: model.into(),
        body: body(PATCH.to_owned()),
        consumes: PATCHES,
        ..route(names, &path, "patch", &["patch"])
    });
}

fn operation(names: &Names<'_>, verb: &str, sub: &str) -> String {
    let mut sub = sub.to_owned();
    if let Some(first) = sub.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    format!("{verb}{}{}{sub}", if names.namespaced { "Namespaced" } else { "" }, names.kind)
}

fn body(model: String) -> Option<RequestBody> {
    Some(RequestBody { model: model.into(), required: true })
}

fn route(names: &Names<'_>, path: &str, action: &'static str, sets: &[&str]) -> Route {
    let in_path = path.contains("{namespace}").then_some("namespace");
    let sets = in_path.into_iter().chain(["pretty"]).chain(sets.iter().copied());
    let parameters: Vec<Parameter> = sets.flat_map(|set| table().parameters(set)).collect();
    let text = |text: &str| Text::from(text.to_owned());
    Route {
        path: path.to_owned(),
        method: "get",
        action: Some(action),
        operation: String::new(),
        description: String::new(),
        kind: Some([text(names.group), text(names.version), text(names.kind)]),
        codes: &[200],
        model: names.model(names.kind).into(),
        body: None,
        parameters,
        name: path.contains("{name}").then(|| format!("name of the {}", names.kind)),
        consumes: MEDIA_TYPES,
        produces: MEDIA_TYPES.to_vec(),
    }
}
