//! One route, and how it looks in each version.

use std::collections::BTreeMap;

use super::node::{Members, Node, Text};
use super::schema::Version;
use super::table::Parameter;

pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
/// The group of the aggregator itself.
const AGGREGATOR: &str = "apiregistration.k8s.io";
/// The model of a body that is text.
pub(super) const PLAIN: &str = "string";

/// A method at a path.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) path: String,
    /// `get`
    pub(super) method: &'static str,
    /// `deletecollection`, as in `x-kubernetes-action`.
    pub(super) action: Option<&'static str>,
    /// The operation's id before group and version are put into it.
    pub(super) operation: String,
    pub(super) description: String,
    /// Group, version and kind.
    pub(super) kind: Option<[Text; 3]>,
    pub(super) codes: &'static [u16],
    /// The type of its responses.
    pub(super) model: Text,
    pub(super) body: Option<RequestBody>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) name: Option<String>,
    pub(super) consumes: &'static [&'static str],
    pub(super) produces: Vec<&'static str>,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(super) struct RequestBody {
    pub(super) model: Text,
    pub(super) required: bool,
}

/// The routes of one path, in both versions.
#[derive(Debug)]
pub(super) struct PathItem {
    routes: Vec<Route>,
    /// The parameters that all routes have.
    common: Vec<Parameter>,
}

/// The order of methods in a path.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// The routes by path.
pub(super) fn by_path(routes: impl IntoIterator<Item = Route>) -> BTreeMap<String, PathItem> {
    let mut paths: BTreeMap<String, Vec<Route>> = BTreeMap::new();
    for route in routes {
        paths.entry(route.path.clone()).or_default().push(route);
    }
    paths.into_iter().map(|(path, routes)| (path, PathItem::new(routes))).collect()
}

impl PathItem {
    fn new(mut routes: Vec<Route>) -> Self {
        for route in &mut routes {
            if let Some(name) = route.name.take() {
                route.parameters.push(Parameter { name: "name", at: "path", kind: "string", description: name.into() });
            }
            route.parameters.sort_by(|one, other| (one.name, one.at).cmp(&(other.name, other.at)));
        }
        routes.sort_by_key(|route| METHODS.iter().position(|method| *method == route.method));
        let is_common = |parameter: &&Parameter| {
            routes.iter().all(|route| route.parameters.iter().any(|other| is_same(other, parameter)))
        };
        // A parameter with two descriptions has that of the last route.
        let last = routes.last().map(|route| route.parameters.as_slice()).unwrap_or_default();
        let common: Vec<Parameter> = last.iter().filter(is_common).cloned().collect();
        for route in &mut routes {
            route.parameters.retain(|parameter| !common.iter().any(|other| is_same(other, parameter)));
        }
        Self { routes, common }
    }

    /// The types of its bodies.
    pub(super) fn models(&self) -> impl Iterator<Item = &str> {
        self.routes
            .iter()
            .flat_map(|route| std::iter::once(&*route.model).chain(route.body.as_ref().map(|body| &*body.model)))
    }

    /// The path item of version 3.
    pub(super) fn v3(&self) -> Node {
        let mut item = Members::default();
        for route in &self.routes {
            item.push(route.method, route.v3());
        }
        push_list("parameters", self.common.iter().map(parameter_v3), &mut item);
        item.build()
    }

    /// The path item of version 2. `share` may replace a parameter by a reference.
    pub(super) fn v2(&self, share: &mut impl FnMut(Node) -> Node) -> Node {
        let mut item = Members::default();
        for route in &self.routes {
            item.push(route.method, route.v2(share));
        }
        push_list("parameters", self.common.iter().map(|one| share(parameter_v2(one))), &mut item);
        item.build()
    }
}

fn is_same(one: &Parameter, other: &Parameter) -> bool {
    (one.name, one.at) == (other.name, other.at)
}

fn push_list(name: &'static str, items: impl Iterator<Item = Node>, to: &mut Members) {
    let items: Vec<Node> = items.collect();
    if !items.is_empty() {
        to.push(name, Node::List(items));
    }
}

impl Route {
    fn v3(&self) -> Node {
        let (id, tags) = id_and_tags(&self.operation, &self.path);
        let mut operation = Members::default()
            .with("tags", Node::texts(tags))
            .with_text("description", self.description.clone())
            .with_text("operationId", id);
        push_list("parameters", self.parameters.iter().map(parameter_v3), &mut operation);
        if let Some(body) = &self.body {
            let content = content(&body.model, self.consumes);
            let mut request = Members::default().with("content", content);
            if body.required {
                request.push("required", Node::Bool(true));
            }
            operation.push("requestBody", request.build());
        }
        let made = || content(&self.model, &self.produces);
        operation.push("responses", self.responses(|response| response.push("content", made())));
        self.push_extensions(["group", "version", "kind"], &mut operation);
        operation.build()
    }

    fn v2(&self, share: &mut impl FnMut(Node) -> Node) -> Node {
        let (id, tags) = id_and_tags(&self.operation, &self.path);
        let mut operation = Members::default().with_text("description", self.description.clone());
        if !self.consumes.is_empty() {
            operation.push("consumes", Node::texts(self.consumes.iter().copied()));
        }
        operation.push("produces", Node::texts(self.produces.iter().copied()));
        operation.push("schemes", Node::texts(["https"]));
        operation.push("tags", Node::texts(tags));
        operation.push("operationId", Node::text(id));
        let body = self.body.as_ref().map(|body| {
            let mut parameter = Members::default().with_text("name", "body").with_text("in", "body");
            if body.required {
                parameter.push("required", Node::Bool(true));
            }
            ("body", parameter.with("schema", Version::V2.reference(&body.model)).build())
        });
        let others = self.parameters.iter().map(|parameter| (parameter.name, parameter_v2(parameter)));
        let mut parameters: Vec<(&str, Node)> = body.into_iter().chain(others).collect();
        parameters.sort_by_key(|(name, _)| *name);
        push_list("parameters", parameters.into_iter().map(|(_, parameter)| share(parameter)), &mut operation);
        let schema = || match &*self.model {
            PLAIN => Members::default().with_text("type", PLAIN).build(),
            model => Version::V2.reference(model),
        };
        operation.push("responses", self.responses(|response| response.push("schema", schema())));
        let order = match &self.kind {
            Some([group, ..]) if group == AGGREGATOR => ["group", "version", "kind"],
            _ => ["group", "kind", "version"],
        };
        self.push_extensions(order, &mut operation);
        operation.build()
    }

    fn responses(&self, describe: impl Fn(&mut Members)) -> Node {
        let mut responses = Members::default();
        for code in self.codes {
            let text = match code {
                201 => "Created",
                202 => "Accepted",
                _ => "OK",
            };
            let mut response = Members::default().with_text("description", text);
            describe(&mut response);
            responses.push(code.to_string(), response.build());
        }
        responses.with("401", Members::default().with_text("description", "Unauthorized").build()).build()
    }

    /// The aggregator reads the version 2 documents of the other parts and writes them again, which
    /// sorts the names.
    fn push_extensions(&self, order: [&'static str; 3], operation: &mut Members) {
        if let Some(action) = self.action {
            operation.push("x-kubernetes-action", Node::text(action));
        }
        if let Some([group, version, kind]) = &self.kind {
            let mut ordered = Members::default();
            for name in order {
                let value = match name {
                    "group" => group,
                    "version" => version,
                    _ => kind,
                };
                ordered.push(name, Node::Text(value.clone()));
            }
            operation.push("x-kubernetes-group-version-kind", ordered.build());
        }
    }
}

fn content(model: &str, media_types: &[&'static str]) -> Node {
    let schema = match model {
        PLAIN => Members::default().with_text("type", PLAIN).build(),
        model => Version::V3.reference(model),
    };
    let mut media_types = media_types.to_vec();
    media_types.sort_unstable();
    let mut content = Members::default();
    for media_type in media_types {
        content.push(media_type, Members::default().with("schema", schema.clone()).build());
    }
    content.build()
}

fn parameter_v3(parameter: &Parameter) -> Node {
    let mut node = Members::default()
        .with_text("name", parameter.name)
        .with_text("in", parameter.at)
        .with_text("description", parameter.description.clone());
    if parameter.at == "path" {
        node.push("required", Node::Bool(true));
    }
    let schema = Members::default().with_text("type", parameter.kind).with("uniqueItems", Node::Bool(true));
    node.with("schema", schema.build()).build()
}

fn parameter_v2(parameter: &Parameter) -> Node {
    let mut node = Members::default()
        .with("uniqueItems", Node::Bool(true))
        .with_text("type", parameter.kind)
        .with_text("description", parameter.description.clone())
        .with_text("name", parameter.name)
        .with_text("in", parameter.at);
    if parameter.at == "path" {
        node.push("required", Node::Bool(true));
    }
    node.build()
}

/// The verbs that operations begin with.
const VERBS: [&str; 11] =
    ["get", "log", "read", "replace", "patch", "delete", "watch", "connect", "proxy", "list", "create"];

/// The id of an operation, with group and version behind its verb, and its tags.
fn id_and_tags(operation: &str, path: &str) -> (String, Vec<String>) {
    let verb = VERBS.iter().find(|verb| operation.starts_with(**verb)).copied().unwrap_or_default();
    let mut id = verb.to_owned();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let parts = match parts.as_slice() {
        ["api", rest @ ..] => [&["apis", "core"], rest].concat(),
        _ => parts,
    };
    let tag = match parts.as_slice() {
        ["apis", group, rest @ ..] => {
            let group = group.strip_suffix(".k8s.io").unwrap_or(group);
            id.push_str(&identifier(group, true));
            let mut tag = identifier(group, false);
            if let Some(version) = rest.first() {
                id.push_str(&identifier(version, true));
                tag = format!("{tag}_{}", identifier(version, false));
            }
            tag
        }
        [first, ..] => identifier(first, false),
        [] => String::new(),
    };
    id.push_str(&identifier(&operation[verb.len()..], true));
    (id, vec![tag])
}

/// The text without what an identifier cannot have. The letter behind it becomes a capital one.
fn identifier(text: &str, capital: bool) -> String {
    let mut capital = capital;
    let mut identifier = String::with_capacity(text.len());
    for (place, character) in text.char_indices() {
        if !(character.is_alphabetic() || character == '_' || (place != 0 && character.is_numeric())) {
            capital = true;
        } else if std::mem::take(&mut capital) {
            identifier.extend(character.to_uppercase());
        } else {
            identifier.push(character);
        }
    }
    identifier
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_group_and_version_behind_the_verb() {
        for (operation, path, id, tag) in [
            ("listNamespacedPod", "/api/v1/namespaces/{namespace}/pods", "listCoreV1NamespacedPod", "core_v1"),
            ("deletecollectionNode", "/api/v1/nodes", "deleteCoreV1CollectionNode", "core_v1"),
            ("getAPIGroup", "/apis/rbac.authorization.k8s.io/", "getRbacAuthorizationAPIGroup", "rbacAuthorization"),
            ("getAPIVersions", "/apis/", "getAPIVersions", "apis"),
            ("readThing", "/apis/1-a.example.com/v1beta1/things", "readAExampleComV1beta1Thing", "AExampleCom_v1beta1"),
        ] {
            assert_eq!(id_and_tags(operation, path), (id.to_owned(), vec![tag.to_owned()]), "{path}");
        }
    }
}
