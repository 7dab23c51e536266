//! The path and the query of a request.

use std::borrow::Cow;

use http::Method;

use crate::response::status::Status;

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// Its name in discovery and RBAC.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// A request for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceRequest {
    pub(crate) verb: Verb,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    /// Empty if the request is for all namespaces, or for a cluster-scoped resource.
    pub(crate) namespace: String,
    /// Empty if the request is for a collection.
    pub(crate) name: String,
    pub(crate) subresource: String,
}

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/`
    Root,
    /// `/api`
    Versions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    Resources { group: String, version: String },
    /// A path within a resource.
    Resource(ResourceRequest),
    /// Anything else: `/version`, `/healthz`, …
    Other(String),
}

/// The parameters of a request, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        // A part that cannot be decoded is ignored, as in Go.
        let right = |pair: &&str| !pair.is_empty() && !pair.contains(';') && is_escaped(pair);
        let pairs = query.split('&').filter(right).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name).into_owned(), decode(value).into_owned())
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(parameter, _)| parameter == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(parameter, _)| parameter == name).map(|(_, value)| value.as_str())
    }

    /// A boolean: true for any value but `0` and `false`, also for an empty one, as in Go's
    /// conversion of query parameters.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A number, if the parameter is given and not empty.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(value) = self.get(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| {
            let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
            let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let what = if number { "value out of range" } else { "invalid syntax" };
            Status::bad_request(format!("strconv.ParseInt: parsing {}: {what}", crate::response::status::quote(value)))
        })
    }
}

/// Decodes percent encoding, and `+` as a space. Bytes that are not UTF-8 become the replacement
/// character.
fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut ahead = rest.clone();
                let digits = (ahead.next().and_then(hex), ahead.next().and_then(hex));
                if let (Some(high), Some(low)) = digits {
                    bytes.push(high << 4 | low);
                    rest = ahead;
                } else {
                    bytes.push(b'%');
                }
            }
            byte => bytes.push(byte),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether every percent sign begins an escape.
fn is_escaped(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| rest.len() > 1 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

impl Route {
    /// The target of the path, for a request with that method and query.
    pub(crate) fn parse(method: &Method, path: &str, query: &Query) -> Result<Self, Status> {
        let path = &*decode_path(path);
        let Some(from_root) = path.strip_prefix('/') else { return Ok(Self::Other(path.to_owned())) };
        let segments: Vec<&str> = from_root.trim_end_matches('/').split('/').collect();
        match segments[..] {
            // Repeated slashes match no route, except at the end.
            [""] if from_root.is_empty() => Ok(Self::Root),
            ["apis"] if from_root.ends_with("//") => Ok(Self::Other(path.to_owned())),
            ["" | "apis", "", ..] | [""] => Ok(Self::Other(path.to_owned())),
            ref all if all.contains(&"") && matches!(all[0], "api" | "apis") => Err(Status::no_such_path()),
            ["api"] => Ok(Self::Versions),
            ["apis"] => Ok(Self::Groups),
            ["apis", group] => Ok(Self::Group(group.to_owned())),
            ["api", version] => Ok(Self::Resources { group: String::new(), version: version.to_owned() }),
            ["apis", group, version] => Ok(Self::Resources { group: group.to_owned(), version: version.to_owned() }),
            ["api", version, ref rest @ ..] => resource(method, "", version, rest, query).map(Self::Resource),
            ["apis", group, version, ref rest @ ..] => {
                resource(method, group, version, rest, query).map(Self::Resource)
            }
            _ => Ok(Self::Other(path.to_owned())),
        }
    }
}

/// Decodes percent encoding in a path, where `+` is a plus.
pub(crate) fn decode_path(segment: &str) -> String {
    decode(&segment.replace('+', "%2B")).into_owned()
}

fn resource(
    method: &Method,
    group: &str,
    version: &str,
    segments: &[&str],
    query: &Query,
) -> Result<ResourceRequest, Status> {
    let (old_watch, segments) = match segments {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        all => (false, all),
    };
    let (namespace, rest) = match segments {
        // A namespace is an object and a scope; its own subresources are the exception.
        ["namespaces", _, "status" | "finalize"] | ["namespaces"] | ["namespaces", _] => ("", segments),
        ["namespaces", namespace, rest @ ..] => (*namespace, rest),
        all => ("", all),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, subresource] => (*plural, *name, *subresource),
        _ => return Err(Status::no_such_path()),
    };
    if old_watch && method != Method::GET {
        return Err(Status::no_such_method());
    }
    // One object is watched by the old path, or by a selector on its name; here the parameter is
    // ignored.
    let watch = old_watch || (name.is_empty() && query.is_on("watch"));
    let verb = match (method, name.is_empty()) {
        (&Method::GET, _) if watch => Verb::Watch,
        (&Method::GET, true) => Verb::List,
        (&Method::GET, false) => Verb::Get,
        (&Method::POST, true) => Verb::Create,
        (&Method::POST, false) if !subresource.is_empty() => Verb::Create,
        (&Method::PUT, false) => Verb::Update,
        (&Method::PATCH, false) => Verb::Patch,
        (&Method::DELETE, false) => Verb::Delete,
        (&Method::DELETE, true) => Verb::DeleteCollection,
        _ => return Err(Status::no_such_method()),
    };
    Ok(ResourceRequest {
        verb,
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &Method, path: &str) -> ResourceRequest {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match Route::parse(method, path, &Query::parse(query)) {
            Ok(Route::Resource(request)) => request,
            other => panic!("{path}: {other:?}"),
        }
    }

    /// verb group/version plural namespace/name/subresource
    fn words(request: &ResourceRequest) -> String {
        let ResourceRequest { verb, group, version, plural, namespace, name, subresource } = request;
        format!("{} {group}/{version} {plural} {namespace}/{name}/{subresource}", verb.name())
    }

    #[test]
    fn paths_and_methods_make_a_request() {
        let cases = [
            (Method::GET, "/api/v1/pods", "list /v1 pods //"),
            (Method::GET, "/api/v1/pods?watch=true", "watch /v1 pods //"),
            (Method::GET, "/api/v1/pods?watch", "watch /v1 pods //"),
            (Method::GET, "/api/v1/pods?watch=no", "watch /v1 pods //"),
            (Method::GET, "/api/v1/pods?watch=0", "list /v1 pods //"),
            (Method::GET, "/api/v1/pods?watch=False", "list /v1 pods //"),
            (Method::GET, "/api/v1/watch/namespaces/a/pods/x", "watch /v1 pods a/x/"),
            (Method::GET, "/api/v1/namespaces/a/pods/x", "get /v1 pods a/x/"),
            (Method::GET, "/api/v1/namespaces/a", "get /v1 namespaces /a/"),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "update /v1 namespaces /a/finalize"),
            (Method::POST, "/apis/apps/v1/namespaces/a/deployments", "create apps/v1 deployments a//"),
            (Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/x/scale", "patch apps/v1 deployments a/x/scale"),
            (Method::DELETE, "/apis/apps/v1/namespaces/a/deployments", "deletecollection apps/v1 deployments a//"),
            (Method::DELETE, "/api/v1/nodes/n%2Bm+o", "delete /v1 nodes /n+m+o/"),
        ];
        for (method, path, expected) in cases {
            assert_eq!(words(&parse(&method, path)), expected, "{path}");
        }
    }

    #[test]
    fn paths_without_a_route_are_refused() {
        let query = Query::default();
        let too_long = Route::parse(&Method::GET, "/api/v1/namespaces/a/pods/x/log/y", &query);
        assert_eq!(too_long, Err(Status::no_such_path()));
        let no_name = Route::parse(&Method::PUT, "/api/v1/namespaces/a/pods", &query);
        assert_eq!(no_name, Err(Status::no_such_method()));
        for path in ["/api//v1", "/api/v1//pods", "/apis/apps//v1", "/apis/apps/v1//deployments"] {
            assert_eq!(Route::parse(&Method::GET, path, &query), Err(Status::no_such_path()), "{path}");
        }
        for path in ["//api/v1", "/apis//apps/v1", "/apis//", "//", "/nowhere"] {
            assert_eq!(Route::parse(&Method::GET, path, &query), Ok(Route::Other(path.to_owned())));
        }
        assert_eq!(Route::parse(&Method::GET, "/", &query), Ok(Route::Root));
        assert_eq!(Route::parse(&Method::GET, "/apis/", &query), Ok(Route::Groups));
        assert_eq!(Route::parse(&Method::GET, "/healthz", &query), Ok(Route::Other("/healthz".to_owned())));
    }

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&limit=5&limit=6&bad=%zz&x");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert_eq!(query.number("limit"), Ok(Some(5)));
        assert_eq!((query.get("bad"), query.get("x"), query.get("none")), (None, Some(""), None));
        assert_eq!(query.all("limit").collect::<Vec<_>>(), ["5", "6"]);
        assert!(query.number("labelSelector").is_err());
    }
}
