//! The user of a request: from the connection or the call, or by impersonation.

use std::collections::BTreeMap;
use std::fmt::Write;

use http::HeaderMap;
use steersman_wire::{is_dns1123_label, is_dns1123_subdomain, quote};

use crate::request::{HttpRequest, Route};
use crate::response::status::{Named, Status};

const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
const NODES: &str = "system:nodes";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const IMPERSONATE_EXTRA: &str = "impersonate-extra-";

/// The user of a request: a name and its groups.
///
/// A request in process has its own among its extensions, or is made by a server that
/// [has one](crate::ApiServer::acting_as); without either it has [all rights](Self::admin). A
/// request on a socket is identified by its certificate or its token.
///
/// ```
/// use steersman_apiserver::Identity;
///
/// let jane = Identity::new("jane", ["developers"]);
/// assert_eq!((jane.name(), jane.groups()), ("jane", &["developers".to_owned(), "system:authenticated".to_owned()][..]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// An authenticated user: a member of `groups` and of `system:authenticated`.
    pub fn new<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        let mut identity = Self { name: name.into(), uid: String::new(), groups, extra: BTreeMap::new() };
        identity.settle_groups();
        identity
    }

    /// A user with all rights.
    pub fn admin() -> Self {
        Self::new("steersman-admin", [MASTERS])
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The groups.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Other attributes of the user, by name.
    pub fn extra(&self) -> &BTreeMap<String, Vec<String>> {
        &self.extra
    }

    /// The unique id of the user, which stays unique if the name is used again. Empty if it is not
    /// set.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The same, with another attribute.
    pub(crate) fn with_extra(mut self, name: &str, value: String) -> Self {
        self.extra.entry(name.to_owned()).or_default().push(value);
        self
    }

    fn is_member(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    fn settle_groups(&mut self) {
        let group = match self.name.as_str() {
            ANONYMOUS => UNAUTHENTICATED,
            _ if self.is_member(UNAUTHENTICATED) => return,
            _ => AUTHENTICATED,
        };
        if !self.is_member(group) {
            self.groups.push(group.to_owned());
        }
    }

    /// The effective user of a request: this identity, or the one that its headers impersonate.
    pub(crate) fn impersonating(self, request: &HttpRequest<'_>) -> Result<Self, Status> {
        let Some(mut wanted) = wanted(request.headers)? else { return Ok(self) };
        let mode = Mode::of(&wanted);
        // Members of this group may do anything, independent of rules. There are no rules yet that
        // would allow others.
        if !self.is_member(MASTERS) {
            return Err(self.may_not(mode, &wanted, request));
        }
        if let Mode::Node = mode {
            wanted.groups = vec![NODES.to_owned()];
        }
        if let Some((namespace, _)) = service_account(&wanted.name)
            && wanted.groups.is_empty()
        {
            wanted.groups = vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")];
        }
        wanted.settle_groups();
        Ok(wanted)
    }

    fn may_not(&self, mode: Mode, wanted: &Self, request: &HttpRequest<'_>) -> Status {
        let HttpRequest { method, path, query, .. } = *request;
        let user = quote(&self.name);
        let at = |namespace: &str| match namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quote(namespace)),
        };
        let Some(mode) = mode.word() else {
            let (resource, namespace, name) = match service_account(&wanted.name) {
                Some((namespace, name)) => ("serviceaccounts", namespace, name),
                None => ("users", "", wanted.name.as_str()),
            };
            let why = format!(
                "User {user} cannot impersonate resource {} in API group \"\" {}",
                quote(resource),
                at(namespace)
            );
            return Status::forbidden(Named { group: "", resource }, name, &why);
        };
        match Route::parse(method, path, query) {
            Ok(Route::Resource(asked)) => {
                let verb = asked.verb.name();
                let resource = match asked.subresource.as_str() {
                    "" => asked.plural.clone(),
                    subresource => format!("{}/{subresource}", asked.plural),
                };
                // The namespace of the check for a namespace is that namespace itself.
                let in_itself = asked.group.is_empty() && asked.plural == "namespaces";
                let namespace = if in_itself { &asked.name } else { &asked.namespace };
                let why = format!(
                    "User {user} cannot impersonate-on:{mode}:{verb} resource {} in API group {} {}",
                    quote(&resource),
                    quote(&asked.group),
                    at(namespace)
                );
                let named = Named { group: &asked.group, resource: &asked.plural };
                Status::forbidden(named, &asked.name, &why)
            }
            _ => {
                let verb = method.as_str().to_ascii_lowercase();
                Status::forbidden_path(&format!("User {user} cannot impersonate-on:{mode}:{verb} path {}", quote(path)))
            }
        }
    }
}

/// The kind of an impersonated identity, which decides on the required permission.
#[derive(Clone, Copy)]
enum Mode {
    /// A node by its name alone.
    Node,
    /// A service account by its name alone.
    ServiceAccount,
    /// Neither.
    User,
    /// A node or a service account with other attributes.
    Unconstrained,
}

impl Mode {
    fn of(wanted: &Identity) -> Self {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = wanted.name.strip_prefix("system:node:").is_some_and(|name| is_dns1123_subdomain(name).is_empty());
        match (node, service_account(&wanted.name).is_some(), only_name) {
            (false, false, _) => Self::User,
            (true, _, true) => Self::Node,
            (_, true, true) => Self::ServiceAccount,
            _ => Self::Unconstrained,
        }
    }

    fn word(self) -> Option<&'static str> {
        match self {
            Self::Node => Some("arbitrary-node"),
            Self::ServiceAccount => Some("serviceaccount"),
            Self::User => Some("user-info"),
            Self::Unconstrained => None,
        }
    }
}

/// Namespace and name of the service account that has this user name.
fn service_account(name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let valid = is_dns1123_label(namespace).is_empty() && is_dns1123_subdomain(name).is_empty();
    valid.then_some((namespace, name))
}

/// The identity in the impersonation headers.
fn wanted(headers: &HeaderMap) -> Result<Option<Identity>, Status> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut identity = Identity {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: headers.get_all("impersonate-group").iter().map(text).collect(),
        extra: BTreeMap::new(),
    };
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(IMPERSONATE_EXTRA) {
            identity.extra.entry(unescape(key)).or_default().push(text(value));
        }
    }
    if !identity.name.is_empty() {
        return Ok(Some(identity));
    }
    if identity.uid.is_empty() && identity.groups.is_empty() && identity.extra.is_empty() {
        return Ok(None);
    }
    let message = format!("requested {} without impersonating a user name", in_go(&identity));
    Err(Status::bad_request(message))
}

/// Decodes percent encoding if all of it is valid, else returns the text unchanged.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digit = |place: usize| rest.get(place).and_then(|digit| char::from(*digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else { return text.to_owned() };
        bytes.push((high << 4 | low) as u8);
        rest = &rest[2..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An identity as Go prints it for debugging, which the real server does in one refusal.
fn in_go(identity: &Identity) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| quote(item)).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = if identity.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&identity.groups) };
    let mut extra = "map[string][]string".to_owned();
    if identity.extra.is_empty() {
        extra.push_str("(nil)");
    } else {
        let pairs: Vec<String> =
            identity.extra.iter().map(|(name, values)| format!("{}:{}", quote(name), list(values))).collect();
        // Writing to a string does not fail.
        let _ = write!(extra, "{{{}}}", pairs.join(", "));
    }
    let (name, uid) = (quote(&identity.name), quote(&identity.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Method;

    use super::*;
    use crate::request::Query;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, http::HeaderValue::from_static(value));
        }
        headers
    }

    fn asks_as(identity: Identity, pairs: &[(&'static str, &'static str)], path: &str) -> Result<Identity, String> {
        let (query, headers, body) = (Query::default(), headers(pairs), Bytes::new());
        let request = HttpRequest { method: &Method::GET, path, query: &query, headers: &headers, body: &body };
        let result = identity.impersonating(&request);
        result.map_err(|status| status.object()["message"].as_str().unwrap_or_default().to_owned())
    }

    #[test]
    fn groups_are_settled_by_who_it_is() {
        let groups = |user: &'static str, group: Option<&'static str>| {
            let mut pairs = vec![("impersonate-user", user)];
            pairs.extend(group.map(|group| ("impersonate-group", group)));
            asks_as(Identity::admin(), &pairs, "/").unwrap().groups().join(" ")
        };
        let account = "system:serviceaccount:a:b";
        assert_eq!(groups("jane", None), "system:authenticated");
        assert_eq!(groups("jane", Some("a")), "a system:authenticated");
        assert_eq!(groups("jane", Some(UNAUTHENTICATED)), "system:unauthenticated");
        assert_eq!(groups("system:anonymous", None), "system:unauthenticated");
        assert_eq!(groups("system:node:n", None), "system:nodes system:authenticated");
        assert_eq!(groups("system:node:n", Some("a")), "a system:authenticated");
        assert_eq!(groups("system:node:N", None), "system:authenticated");
        assert_eq!(groups(account, None), "system:serviceaccounts system:serviceaccounts:a system:authenticated");
        assert_eq!(groups(account, Some("c")), "c system:authenticated");
        assert_eq!(groups("system:serviceaccount:a:b:c", None), "system:authenticated");
    }

    #[test]
    fn only_members_of_the_masters_act_as_others() {
        let jane = || Identity::new("jane", ["system:authenticated"]);
        assert_eq!(jane().groups(), ["system:authenticated"]);
        assert_eq!(asks_as(jane(), &[], "/api/v1/pods").unwrap(), jane());
        let refused = |user, path| asks_as(jane(), &[("impersonate-user", user)], path).unwrap_err();
        assert_eq!(
            refused("root", "/apis/apps/v1/namespaces/a/deployments/x/scale"),
            "deployments.apps \"x\" is forbidden: User \"jane\" cannot impersonate-on:user-info:get resource \
             \"deployments/scale\" in API group \"apps\" in the namespace \"a\""
        );
        assert_eq!(
            refused("system:node:n", "/version"),
            "forbidden: User \"jane\" cannot impersonate-on:arbitrary-node:get path \"/version\""
        );
        let pairs = [("impersonate-user", "system:serviceaccount:a:b"), ("impersonate-uid", "1")];
        assert_eq!(
            asks_as(jane(), &pairs, "/version").unwrap_err(),
            "serviceaccounts \"b\" is forbidden: User \"jane\" cannot impersonate resource \"serviceaccounts\" in API \
             group \"\" in the namespace \"a\""
        );
    }

    #[test]
    fn extras_are_unescaped_when_they_can_be() {
        let pairs = [
            ("impersonate-user", "jane"),
            ("impersonate-extra-a%2fb", "1"),
            ("impersonate-extra-a%2Fb", "2"),
            ("impersonate-extra-bad%zz", "3"),
        ];
        let jane = asks_as(Identity::admin(), &pairs, "/").unwrap();
        let extra: Vec<_> = jane.extra().iter().map(|(name, values)| (name.as_str(), values.join(","))).collect();
        assert_eq!(extra, [("a/b", "1,2".to_owned()), ("bad%zz", "3".to_owned())]);
    }
}
