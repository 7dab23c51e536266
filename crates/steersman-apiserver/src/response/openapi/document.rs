//! Whole documents.

use std::collections::{BTreeMap, BTreeSet};

use super::builtin::{self, Part};
use super::custom::{CustomPart, OBJECT_META};
use super::node::{Escape, Members, Node, Text};
use super::route::{PathItem, by_path};
use super::schema::{Kinds, Version, definition, reachable};
use super::shared::SharedParameters;
use super::table::table;

/// The document of a part of the server, in version 3.
pub(super) fn builtin_v3(Part { document, routes }: Part) -> Node {
    let kinds = match document.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => Kinds::Of("", version),
        ["apis", group, version] => Kinds::Of(group, version),
        _ => Kinds::All,
    };
    let paths = by_path(routes);
    let schemas = schemas(paths.values(), &[], Version::V3, kinds);
    let security = bearer_token(Version::V3);
    v3(info("Kubernetes", &table().version), paths_v3(&paths), schemas, Some(security))
}

/// The document of a version of a group of custom resources, in version 3.
pub(super) fn custom_v3(parts: Vec<CustomPart>) -> Node {
    let mut routes = Vec::new();
    let mut own = BTreeMap::new();
    for CustomPart { routes: of_part, schemas } in parts {
        routes.extend(of_part);
        own.extend(schemas);
    }
    let paths = by_path(routes);
    let mut schemas = schemas(paths.values(), &[OBJECT_META], Version::V3, Kinds::Client);
    schemas.extend(own);
    v3(info("Kubernetes CRD Swagger", "v0.1.0"), paths_v3(&paths), schemas, None)
}

fn v3(info: Node, paths: Node, schemas: BTreeMap<Text, Node>, security: Option<Node>) -> Node {
    let mut components = Members::default();
    if !schemas.is_empty() {
        components.push("schemas", Node::Map(schemas.into_iter().collect()));
    }
    if let Some(security) = security {
        components.push("securitySchemes", security);
    }
    Members::default()
        .with_text("openapi", "3.0.0")
        .with("info", info)
        .with("paths", paths)
        .with("components", components.build())
        .build()
}

/// The document of all parts and of these custom resources, in version 2.
pub(super) fn v2(customs: Vec<CustomPart>) -> Node {
    let mut definitions: BTreeMap<Text, Node> = table()
        .type_names()
        .filter_map(|name| Some((name.into(), definition(name, Version::V2, Kinds::All)?)))
        .collect();
    let mut routes: Vec<_> = builtin::parts().flat_map(|part| part.routes).collect();
    for CustomPart { routes: of_part, schemas } in customs {
        routes.extend(of_part);
        definitions.extend(schemas);
    }
    let mut parameters = SharedParameters::default();
    let paths = by_path(routes);
    let paths = paths.into_iter().map(|(path, item)| (path.into(), item.v2(&mut |one| parameters.share(one))));
    let paths = Node::Map(paths.collect());
    let requirement = Members::default().with("BearerToken", Node::List(Vec::new())).build();
    Members::default()
        .with_text("swagger", "2.0")
        .with("info", info("Kubernetes", &table().version))
        .with("paths", paths)
        .with("definitions", Node::Map(definitions.into_iter().collect()))
        .with("parameters", parameters.build())
        .with("securityDefinitions", bearer_token(Version::V2))
        .with("security", Node::List(vec![requirement]))
        .build()
}

fn paths_v3(paths: &BTreeMap<String, PathItem>) -> Node {
    Node::Map(paths.iter().map(|(path, item)| (path.clone().into(), item.v3())).collect())
}

/// The built-in types that these paths refer to, and some more.
fn schemas<'a>(
    paths: impl Iterator<Item = &'a PathItem>,
    more: &[&'a str],
    version: Version,
    kinds: Kinds<'_>,
) -> BTreeMap<Text, Node> {
    let models: BTreeSet<&str> = paths.flat_map(PathItem::models).chain(more.iter().copied()).collect();
    let known = models.into_iter().filter_map(|model| Some(table().type_lines(model)?.0));
    let names = reachable(known);
    names.into_iter().filter_map(|name| Some((name.into(), definition(name, version, kinds)?))).collect()
}

fn info(title: &'static str, version: &str) -> Node {
    Members::default().with_text("title", title).with_text("version", version.to_owned()).build()
}

fn bearer_token(version: Version) -> Node {
    let text = |name: &'static str, text: &'static str| (Text::from(name), Node::text(text));
    let (kind, description) = (text("type", "apiKey"), text("description", "Bearer Token authentication"));
    let first = match version {
        Version::V2 => [description, kind],
        Version::V3 => [kind, description],
    };
    let token = first.into_iter().chain([text("name", "authorization"), text("in", "header")]).collect();
    Members::default().with("BearerToken", Node::Map(token)).build()
}

/// The text of a document.
pub(super) fn json(document: &Node, version: Version) -> Vec<u8> {
    let mut text = Vec::new();
    document.write(if version == Version::V2 { Escape::Json } else { Escape::Html }, &mut text);
    text
}
