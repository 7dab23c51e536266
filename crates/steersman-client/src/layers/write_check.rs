//! Refuses writes by what they do, before they are sent.

use std::fmt;
use std::sync::Arc;

use http::{Method, Request};
use percent_encoding::percent_decode_str;

/// A write in the words of RBAC: a verb on a resource. Fields that do not apply are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteAction {
    /// The verb of a rule: `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// The API group. Empty for the core group.
    pub group: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of the object. Empty for a create, and for a collection.
    pub name: String,
}

impl WriteAction {
    /// What a request does. `None` if it is no write of a resource.
    pub(crate) fn of<B>(request: &Request<B>) -> Option<Self> {
        let verb = match *request.method() {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => return None,
        };
        let segments: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
        let (group, rest) = match &segments[..] {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return None,
        };
        // Anything but these below a namespace is a resource in it.
        let (namespace, rest) = match rest {
            ["namespaces", namespace, "status" | "finalize", ..] | ["namespaces", namespace] => (*namespace, rest),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            _ => ("", rest),
        };
        let part = |at: usize| {
            let segment = rest.get(at).copied().unwrap_or_default();
            percent_decode_str(segment).decode_utf8_lossy().into_owned()
        };
        let (resource, name) = (part(0), part(1));
        let verb = if verb == "delete" && name.is_empty() { "deletecollection" } else { verb };
        let namespace = percent_decode_str(namespace).decode_utf8_lossy().into_owned();
        (!resource.is_empty()).then(|| Self {
            verb,
            group: group.to_owned(),
            resource,
            subresource: part(2),
            namespace,
            name,
        })
    }
}

type Check = dyn Fn(&WriteAction) -> Result<(), String> + Send + Sync;

/// Decides whether a write may be sent. The error is the reason, for its reader.
#[derive(Clone)]
pub(crate) struct WriteCheck(Arc<Check>);

impl WriteCheck {
    pub(crate) fn new(check: impl Fn(&WriteAction) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }

    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), String> {
        WriteAction::of(request).map_or(Ok(()), |action| (self.0)(&action))
    }
}

impl fmt::Debug for WriteCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteCheck").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(method: Method, path: &str) -> Option<String> {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        let WriteAction { verb, group, resource, subresource, namespace, name } = WriteAction::of(&request)?;
        Some(format!("{verb} {group}:{resource}/{subresource} {namespace}/{name}"))
    }

    #[test]
    fn a_write_is_read_from_method_and_path_as_the_server_does() {
        let (post, put, patch, delete) = (Method::POST, Method::PUT, Method::PATCH, Method::DELETE);
        for (method, path, expected) in [
            (&post, "/api/v1/namespaces/a/configmaps", "create :configmaps/ a/"),
            (&post, "/api/v1/namespaces/a/configmaps?dryRun=All", "create :configmaps/ a/"),
            (&put, "/apis/apps/v1/namespaces/a/deployments/x/scale", "update apps:deployments/scale a/x"),
            (&patch, "/apis/example.com/v1/networks/n%2Bm", "patch example.com:networks/ /n+m"),
            (&delete, "/apis/example.com/v1/networks/n", "delete example.com:networks/ /n"),
            (&delete, "/api/v1/namespaces/a/pods?labelSelector=x", "deletecollection :pods/ a/"),
            (&delete, "/api/v1/namespaces/a", "delete :namespaces/ a/a"),
            (&put, "/api/v1/namespaces/a/finalize", "update :namespaces/finalize a/a"),
            (&post, "/api/v1/namespaces", "create :namespaces/ /"),
            (&post, "/api/v1/namespaces/a/pods/p/eviction", "create :pods/eviction a/p"),
        ] {
            assert_eq!(words(method.clone(), path).as_deref(), Some(expected), "{method} {path}");
        }
        assert_eq!(words(Method::GET, "/api/v1/pods"), None);
        assert_eq!(words(post.clone(), "/healthz"), None);
        assert_eq!(words(post, "/api/v1"), None);
    }
}
