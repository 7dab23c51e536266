//! What a request does, in the words of authorization: a verb on a resource or on a path.

use std::borrow::Cow;

use http::Method;
use steersman_wire::{FieldSelector, LabelSelector, SelectorOperator, is_path_segment_name, quote};

use crate::request::identity::Identity;
use crate::request::{HttpRequest, Query, decode_path};
use crate::response::status::{Named, Status};
use crate::response::without_tags;

/// The subresources of Namespaces. Anything else below a namespace is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// A verb and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) verb: String,
    pub(crate) target: Target,
}

/// The target of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Resource(Resource),
    /// A path without a resource: `/healthz`.
    Path(String),
}

/// A resource, or one object of it. Fields that do not apply are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Resource {
    /// The resource with its subresource, as rules name it: `pods/log`.
    pub(crate) fn combined(&self) -> Cow<'_, str> {
        if self.subresource.is_empty() {
            Cow::Borrowed(&self.resource)
        } else {
            Cow::Owned(format!("{}/{}", self.resource, self.subresource))
        }
    }
}

impl Action {
    pub(crate) fn on_resource(verb: impl Into<String>, resource: Resource) -> Self {
        Self { verb: verb.into(), target: Target::Resource(resource) }
    }

    pub(crate) fn on_path(verb: impl Into<String>, path: impl Into<String>) -> Self {
        Self { verb: verb.into(), target: Target::Path(path.into()) }
    }

    /// The action of a request. It depends on the path alone, and not on whether that is served: a
    /// user without rights cannot find out what is.
    pub(crate) fn of_request(request: &HttpRequest<'_>) -> Self {
        let HttpRequest { method, path, query, .. } = *request;
        let path = decode_path(path);
        match resource(method, &path, query) {
            Some(action) => action,
            None => Self::on_path(method.as_str().to_ascii_lowercase(), path),
        }
    }

    /// The namespace of the action. Empty for all of them, and for paths.
    pub(crate) fn namespace(&self) -> &str {
        match &self.target {
            Target::Resource(resource) => &resource.namespace,
            Target::Path(_) => "",
        }
    }

    /// The same action with another verb.
    pub(crate) fn with_verb(&self, verb: String) -> Self {
        Self { verb, target: self.target.clone() }
    }

    /// The refusal of this action. The reason may be empty.
    pub(crate) fn forbidden(&self, user: &Identity, reason: &str) -> Status {
        let what = self.refusal(user.name());
        let why = if reason.is_empty() { what } else { format!("{what}: {reason}") };
        match &self.target {
            // An action on no resource, which no path leads to, reads as one on a path.
            Target::Resource(resource) if !(resource.resource.is_empty() && resource.group.is_empty()) => {
                let named = Named { group: &resource.group, resource: &resource.resource };
                Status::forbidden(named, &resource.name, &why)
            }
            _ => Status::forbidden_path(&why),
        }
    }

    fn refusal(&self, user: &str) -> String {
        let (user, verb) = (quote(user), &self.verb);
        let text = match &self.target {
            Target::Path(path) => format!("User {user} cannot {verb} path {}", quote(path)),
            Target::Resource(resource) => {
                let at = match resource.namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", quote(namespace)),
                };
                let (group, resource) = (quote(&resource.group), quote(&resource.combined()));
                format!("User {user} cannot {verb} resource {resource} in API group {group} {at}")
            }
        };
        without_tags(&text)
    }
}

/// Whether a path begins as that of a watch or a proxy, and then names nothing. The real server
/// refuses such a request before it looks at the user.
pub(crate) fn names_nothing(path: &str) -> bool {
    let end = path.trim_end_matches('/');
    // Almost every request ends here.
    if !["watch", "proxy"].iter().any(|word| end.ends_with(word)) && !end.contains('%') {
        return false;
    }
    let path = decode_path(path);
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    matches!(segments[..], ["api", _, "watch" | "proxy"] | ["apis", _, _, "watch" | "proxy"])
}

/// The action on a resource, if the path is one of a resource.
fn resource(method: &Method, path: &str, query: &Query) -> Option<Action> {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, rest) = match segments[..] {
        ["api", ref rest @ ..] if rest.len() >= 2 => ("", &rest[1..]),
        ["apis", group, ref rest @ ..] if rest.len() >= 2 => (group, &rest[1..]),
        _ => return None,
    };
    let (mut verb, rest) = match rest {
        [special @ ("watch" | "proxy"), rest @ ..] if !rest.is_empty() => (*special, rest),
        _ => (by_method(method), rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, next, ..] if !NAMESPACE_SUBRESOURCES.contains(next) => (*namespace, &rest[2..]),
        ["namespaces", namespace, ..] => (*namespace, rest),
        _ => ("", rest),
    };
    let part = |at: usize| rest.get(at).copied().unwrap_or_default();
    let subresource = if verb == "proxy" { "" } else { part(2) };
    let mut name = part(1).to_owned();
    if name.is_empty() && verb == "get" {
        verb = if query.is_on("watch") { "watch" } else { "list" };
        name = selected_name(query).unwrap_or_default();
    }
    if name.is_empty() && verb == "delete" {
        verb = "deletecollection";
    }
    let resource = Resource {
        group: group.to_owned(),
        resource: part(0).to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name,
    };
    Some(Action::on_resource(verb, resource))
}

fn by_method(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// The one object that a list selects by its name. None if any parameter of the list is invalid.
fn selected_name(query: &Query) -> Option<String> {
    let fields = query.get("fieldSelector").filter(|text| !text.is_empty())?;
    let fields = FieldSelector::parse(fields).ok()?;
    LabelSelector::parse(query.get("labelSelector").unwrap_or_default()).ok()?;
    query.number("limit").ok()?;
    query.number("timeoutSeconds").ok()?;
    let is_exact =
        |operator: SelectorOperator| matches!(operator, SelectorOperator::Equals | SelectorOperator::DoubleEquals);
    let mut required = fields.requirements().iter();
    let found = required.find(|required| required.field == "metadata.name" && is_exact(required.operator))?;
    is_path_segment_name(&found.value).is_empty().then(|| found.value.clone())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    fn action(method: &Method, path: &str) -> Action {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (query, headers, body) = (Query::parse(query), HeaderMap::new(), Bytes::new());
        Action::of_request(&HttpRequest { method, path, query: &query, headers: &headers, body: &body })
    }

    fn words(action: &Action) -> String {
        match &action.target {
            Target::Path(path) => format!("{} {path}", action.verb),
            Target::Resource(Resource { group, namespace, name, .. }) => {
                let Target::Resource(resource) = &action.target else { unreachable!() };
                format!("{} {group}:{} {namespace}/{name}", action.verb, resource.combined())
            }
        }
    }

    #[test]
    fn a_path_is_read_as_the_real_server_does() {
        let (get, post, put, delete) = (Method::GET, Method::POST, Method::PUT, Method::DELETE);
        let cases = [
            (&get, "/api/v1/pods", "list :pods /"),
            (&get, "/api/v1/pods?watch=1", "watch :pods /"),
            (&get, "/api/v1/pods?watch=false", "list :pods /"),
            (&get, "/api/v1/namespaces/a/pods/x", "get :pods a/x"),
            (&Method::HEAD, "/api/v1/namespaces/a/pods/x", "get :pods a/x"),
            (&Method::OPTIONS, "/api/v1/namespaces/a/pods/x", " :pods a/x"),
            (&get, "/api/v1/watch/namespaces/a/pods/x", "watch :pods a/x"),
            (&get, "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx", "list :pods a/x"),
            (&get, "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx&watch=true", "watch :pods a/x"),
            (&get, "/api/v1/namespaces/a/pods?fieldSelector=metadata.name!%3Dx", "list :pods a/"),
            (&get, "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx&limit=y", "list :pods a/"),
            (&get, "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx%2Fy", "list :pods a/"),
            (&delete, "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx", "deletecollection :pods a/"),
            (&get, "/api/v1/namespaces/a", "get :namespaces a/a"),
            (&put, "/api/v1/namespaces/a/finalize", "update :namespaces/finalize a/a"),
            (&post, "/api/v1/namespaces", "create :namespaces /"),
            (&put, "/apis/apps/v1/namespaces/a/deployments/x/scale", "update apps:deployments/scale a/x"),
            (&delete, "/apis/apps/v1/namespaces/a/deployments", "deletecollection apps:deployments a/"),
            (&get, "/apis/apps/v1/namespaces/a/deployments/x/y/z", "get apps:deployments/y a/x"),
            (&get, "/apis/nowhere/v1/things", "list nowhere:things /"),
            (&get, "/api/v1/nodes/n%2Bm+o", "get :nodes /n+m+o"),
            (&get, "/api", "get /api"),
            (&get, "/api/v1/", "get /api/v1/"),
            (&get, "/apis/apps/v1", "get /apis/apps/v1"),
            (&post, "/healthz", "post /healthz"),
            (&get, "/", "get /"),
        ];
        for (method, path, expected) in cases {
            assert_eq!(words(&action(method, path)), expected, "{method} {path}");
        }
    }

    #[test]
    fn a_refusal_names_the_user_and_the_action() {
        let jane = Identity::new("jane", ["a"]);
        let message = |method: &Method, path: &str, reason: &str| {
            let status = action(method, path).forbidden(&jane, reason).object();
            (status["message"].as_str().unwrap_or_default().to_owned(), status["details"].to_string())
        };
        let (text, details) = message(&Method::GET, "/api/v1/namespaces/default/configmaps", "");
        assert_eq!(
            text,
            "configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the \
             namespace \"default\""
        );
        assert_eq!(details, r#"{"kind":"configmaps"}"#);
        let (text, details) = message(&Method::GET, "/apis/apps/v1/namespaces/a/deployments/x/scale", "RBAC: why");
        assert_eq!(
            text,
            "deployments.apps \"x\" is forbidden: User \"jane\" cannot get resource \"deployments/scale\" in API group \
             \"apps\" in the namespace \"a\": RBAC: why"
        );
        assert_eq!(details, r#"{"group":"apps","kind":"deployments","name":"x"}"#);
        let (text, details) = message(&Method::GET, "/a<b>&c", "");
        assert_eq!(text, "forbidden: User \"jane\" cannot get path \"/a&lt;b&gt;&amp;c\"");
        assert_eq!(details, "{}");
    }
}
