//! The routes of built-in kinds, which follow from the table of kinds.

use super::route::{DELETE_OPTIONS, PATCH, PLAIN, RequestBody, Route, STATUS};
use super::table::{Parameter, table};
use crate::rules::kinds::{Kind, Subresource, builtin};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const STREAMS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
const ANY: &[&str] = &["*/*"];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// The subresources that connect to something else.
const CONNECTED: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// A part of the server, with the routes of one document.
pub(super) struct Part {
    /// The name of its document: `apis/batch/v1`.
    pub(super) document: String,
    pub(super) routes: Vec<Route>,
}

/// The part with this document, unless it is one of custom resources.
pub(super) fn part(document: &str) -> Option<Part> {
    let path: Vec<&str> = document.split('/').collect();
    let root = format!("/{document}/");
    let routes = match path.as_slice() {
        [".well-known", "openid-configuration"] => vec![openid(
            &root,
            "getServiceAccountIssuerOpenIDConfiguration",
            "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
            "application/json",
        )],
        ["openid", "v1", "jwks"] => vec![openid(
            &root,
            "getServiceAccountIssuerOpenIDKeyset",
            "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
            "application/jwk-set+json",
        )],
        ["version"] => vec![Route {
            consumes: &MEDIA_TYPES[..1],
            produces: vec![MEDIA_TYPES[0]],
            model: "io.k8s.apimachinery.pkg.version.Info".into(),
            ..discovery(&root, "getCodeVersion", "get the version information for this server", "")
        }],
        ["api"] => vec![discovery(&root, "getAPIVersions", "get available API versions", "APIVersions")],
        ["apis"] => vec![discovery(&root, "getAPIVersions", "get available API versions", "APIGroupList")],
        ["apis", group] => {
            builtin().group(group)?;
            vec![discovery(&root, "getAPIGroup", "get information of a group", "APIGroup")]
        }
        ["api", version] => of_version(&root, "", version)?,
        ["apis", group, version] => of_version(&root, group, version)?,
        _ => return None,
    };
    Some(Part { document: document.to_owned(), routes })
}

/// All parts of a server without custom resources.
pub(super) fn parts() -> impl Iterator<Item = Part> {
    table().documents().filter_map(|(document, _)| part(document))
}

fn of_version(root: &str, group: &str, version: &str) -> Option<Vec<Route>> {
    let version = builtin().group(group)?.versions.iter().find(|one| one.version == version)?;
    let mut routes = vec![discovery(root, "getAPIResources", "get available resources", "APIResourceList")];
    for kind in &version.kinds {
        of_kind(root, kind, &mut routes);
    }
    Some(routes)
}

/// A route without parameters.
fn discovery(path: &str, operation: &str, description: &str, model: &str) -> Route {
    Route {
        path: path.to_owned(),
        method: "get",
        action: None,
        operation: operation.to_owned(),
        description: description.to_owned(),
        kind: None,
        codes: &[200],
        model: format!("{META}.{model}").into(),
        body: None,
        parameters: Vec::new(),
        name: None,
        consumes: &MEDIA_TYPES,
        produces: MEDIA_TYPES.to_vec(),
    }
}

fn openid(path: &str, operation: &str, description: &str, media_type: &'static str) -> Route {
    Route {
        consumes: &[],
        produces: vec![media_type],
        model: PLAIN.into(),
        ..discovery(path, operation, description, "")
    }
}

/// A kind or a part of it, and where its routes are.
struct Endpoint<'a> {
    root: &'a str,
    kind: &'a Kind,
    sub: Option<&'a Subresource>,
}

fn of_kind(root: &str, kind: &Kind, routes: &mut Vec<Route>) {
    Endpoint { root, kind, sub: None }.add(routes);
    for sub in &kind.subresources {
        Endpoint { root, kind, sub: Some(sub) }.add(routes);
    }
}

impl Endpoint<'_> {
    fn add(&self, routes: &mut Vec<Route>) {
        if let Some(sub) = self.sub
            && CONNECTED.contains(&sub.name.as_str())
        {
            return self.connect(sub, routes);
        }
        let verbs = self.sub.map_or(&self.kind.verbs, |sub| &sub.verbs);
        let has = |verb: &str| verbs.iter().any(|known| known == verb);
        let is_watched = has("watch");
        let (collection, item) = (self.path(false), self.path(true));
        let created_at = if self.sub.is_some() { &item } else { &collection };
        if has("list") {
            routes.push(self.list(&collection, is_watched, true));
            if self.kind.namespaced {
                routes.push(self.list(&self.kind.plural, is_watched, false));
            }
        }
        if has("create") {
            routes.push(self.create(created_at));
        }
        if has("deletecollection") {
            routes.push(self.delete_collection(&collection));
        }
        if is_watched && has("list") {
            routes.push(self.watch(&collection, true, true));
            if self.kind.namespaced {
                routes.push(self.watch(&self.kind.plural, true, false));
            }
            routes.push(self.watch(&item, false, true));
        }
        if has("get") {
            routes.push(self.get(&item));
        }
        if has("update") {
            routes.push(self.update(&item));
        }
        if has("patch") {
            routes.push(self.patch(&item));
        }
        if has("delete") {
            routes.push(self.delete(&item));
        }
    }

    /// The path below the root.
    fn path(&self, item: bool) -> String {
        let namespace = if self.kind.namespaced { "namespaces/{namespace}/" } else { "" };
        let sub = self.sub.map(|sub| format!("/{}", sub.name)).unwrap_or_default();
        match item {
            true => format!("{namespace}{}/{{name}}{sub}", self.kind.plural),
            false => format!("{namespace}{}", self.kind.plural),
        }
    }

    /// The type of its objects.
    fn model(&self, suffix: &str) -> &'static str {
        let Kind { group, version, kind, .. } = self.kind;
        let (group, version) = match self.sub.and_then(|sub| sub.of.as_ref()) {
            Some((group, version)) => (group, version),
            None => (group, version),
        };
        let kind = self.sub.map_or(kind, |sub| &sub.kind);
        table().type_of(group, version, &format!("{kind}{suffix}")).unwrap_or(PLAIN)
    }

    /// What the real server puts into ids and descriptions: the kind of the resource.
    fn named(&self, verb: &str, suffix: &str, in_namespace: bool) -> String {
        let namespaced = if self.kind.namespaced && in_namespace { "Namespaced" } else { "" };
        let everywhere = if self.kind.namespaced && !in_namespace { "ForAllNamespaces" } else { "" };
        let mut sub = self.sub.map(|sub| sub.name.clone()).unwrap_or_default();
        if let Some(first) = sub.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        format!("{verb}{namespaced}{}{sub}{suffix}{everywhere}", self.kind.kind)
    }

    /// `status of `, if this is a subresource.
    fn of(&self) -> String {
        self.sub.map(|sub| format!("{} of ", sub.name)).unwrap_or_default()
    }

    fn route(&self, path: &str, action: &'static str, sets: &[&str]) -> Route {
        let Kind { group, version, kind, .. } = self.kind;
        let (group, version) = match self.sub.and_then(|sub| sub.of.as_ref()) {
            Some((group, version)) => (group, version),
            None => (group, version),
        };
        let of_kind = self.sub.map_or(kind, |sub| &sub.kind);
        let in_path = ["namespace", "path"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
        Route {
            path: format!("{}{path}", self.root),
            method: "get",
            action: Some(action),
            operation: String::new(),
            description: String::new(),
            kind: Some([group.clone().into(), version.clone().into(), of_kind.clone().into()]),
            codes: &[200],
            model: self.model("").into(),
            body: None,
            parameters: in_path.chain(sets.iter().copied()).flat_map(|set| table().parameters(set)).collect(),
            name: path.contains("{name}").then(|| format!("name of the {of_kind}")),
            consumes: ANY,
            produces: MEDIA_TYPES.to_vec(),
        }
    }

    fn list(&self, path: &str, is_watched: bool, in_namespace: bool) -> Route {
        let verb = if is_watched { "list or watch" } else { "list" };
        Route {
            operation: self.named("list", "", in_namespace),
            description: format!("{verb} objects of kind {}", self.kind.kind),
            model: self.model("List").into(),
            produces: MEDIA_TYPES.into_iter().chain(STREAMS).collect(),
            ..self.route(path, "list", &["list", "pretty"])
        }
    }

    fn watch(&self, path: &str, is_list: bool, in_namespace: bool) -> Route {
        let kind = &self.kind.kind;
        let (action, description, suffix) = if is_list {
            (
                "watchlist",
                format!(
                    "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter with a list \
                 operation instead."
                ),
                "List",
            )
        } else {
            (
                "watch",
                format!(
                    "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter with a list \
                 operation instead, filtered to a single item with the 'fieldSelector' parameter."
                ),
                "",
            )
        };
        Route {
            operation: self.named("watch", suffix, in_namespace),
            description,
            model: format!("{META}.WatchEvent").into(),
            produces: MEDIA_TYPES.into_iter().chain(STREAMS).collect(),
            ..self.route(&format!("watch/{path}"), action, &["list", "pretty"])
        }
    }

    fn create(&self, path: &str) -> Route {
        Route {
            method: "post",
            operation: self.named("create", "", true),
            description: format!("create {}{}", self.of(), with_article(&self.kind.kind)),
            codes: &[200, 201, 202],
            body: Some(RequestBody { model: self.model("").into(), required: true }),
            ..self.route(path, "post", &["create", "pretty"])
        }
    }

    fn delete_collection(&self, path: &str) -> Route {
        let mut route = Route {
            method: "delete",
            operation: self.named("deletecollection", "", true),
            description: format!("delete collection of {}", self.kind.kind),
            model: STATUS.into(),
            body: Some(RequestBody { model: DELETE_OPTIONS.into(), required: false }),
            ..self.route(path, "deletecollection", &["delete", "list", "pretty"])
        };
        route.parameters.retain(|Parameter { name, .. }| !["watch", "allowWatchBookmarks"].contains(name));
        route
    }

    fn get(&self, path: &str) -> Route {
        let mut route = Route {
            operation: self.named("read", "", true),
            description: format!("read {}the specified {}", self.of(), self.kind.kind),
            ..self.route(path, "get", &["pretty"])
        };
        if self.sub.is_some_and(|sub| sub.name == "log") {
            route.model = PLAIN.into();
            route.produces.insert(0, "text/plain");
            route.parameters.extend(table().parameters("PodLogOptions"));
        }
        route
    }

    fn update(&self, path: &str) -> Route {
        Route {
            method: "put",
            operation: self.named("replace", "", true),
            description: format!("replace {}the specified {}", self.of(), self.kind.kind),
            codes: &[200, 201],
            body: Some(RequestBody { model: self.model("").into(), required: true }),
            ..self.route(path, "put", &["update", "pretty"])
        }
    }

    fn patch(&self, path: &str) -> Route {
        Route {
            method: "patch",
            operation: self.named("patch", "", true),
            description: format!("partially update {}the specified {}", self.of(), self.kind.kind),
            codes: &[200, 201],
            body: Some(RequestBody { model: PATCH.into(), required: true }),
            consumes: PATCHES,
            ..self.route(path, "patch", &["patch", "pretty"])
        }
    }

    fn delete(&self, path: &str) -> Route {
        let is_returned = table().returns_deleted(&format!("{}{}", self.root, self.kind.plural));
        Route {
            method: "delete",
            operation: self.named("delete", "", true),
            description: format!("delete {}{}", self.of(), with_article(&self.kind.kind)),
            codes: &[200, 202],
            model: if is_returned { self.model("").into() } else { STATUS.into() },
            body: Some(RequestBody { model: DELETE_OPTIONS.into(), required: false }),
            ..self.route(path, "delete", &["delete", "pretty"])
        }
    }

    /// A subresource that forwards requests to something else.
    fn connect(&self, sub: &Subresource, routes: &mut Vec<Route>) {
        let (methods, paths): (&[&'static str], &[&str]) = if sub.name == "proxy" {
            (&["get", "put", "post", "delete", "options", "head", "patch"], &["", "/{path}"])
        } else {
            (&["get", "post"], &[""])
        };
        for below in paths {
            let suffix = if below.is_empty() { "" } else { "WithPath" };
            for method in methods {
                let mut title = (*method).to_owned();
                title[..1].make_ascii_uppercase();
                routes.push(Route {
                    method,
                    operation: self.named(&format!("connect{title}"), suffix, true),
                    description: format!(
                        "connect {} requests to {}{}",
                        method.to_uppercase(),
                        self.of(),
                        self.kind.kind
                    ),
                    model: PLAIN.into(),
                    produces: ANY.to_vec(),
                    ..self.route(&format!("{}{below}", self.path(true)), "connect", &[&sub.kind])
                });
            }
        }
    }
}

/// The noun with its article, if it has one.
pub(super) fn with_article(noun: &str) -> String {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        // The real server leaves one space here.
        return noun.to_owned();
    }
    let is_vowel = noun.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']);
    format!("{} {noun}", if is_vowel { "an" } else { "a" })
}
