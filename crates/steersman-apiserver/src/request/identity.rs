//! The user of a request: a name, groups and attributes. They come from the connection, from a
//! token, from the call, or from the headers of an impersonation.

use std::collections::BTreeMap;
use std::fmt::Write;

use http::HeaderMap;
use steersman_wire::{is_dns1123_label, is_dns1123_subdomain, quote};

use crate::response::status::Status;

/// The group whose members may do everything.
pub(crate) const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
const NODE_USER: &str = "system:node:";
const SERVICE_ACCOUNT_USER: &str = "system:serviceaccount:";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The attribute that names the credential of a user.
pub(crate) const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";
const IMPERSONATE_EXTRA: &str = "impersonate-extra-";

/// The attributes of a user besides name, uid and groups.
pub(crate) type Extra = BTreeMap<String, Vec<String>>;

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
    extra: Extra,
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

    /// Exactly this user, with no group added.
    pub(crate) fn exact(name: String, uid: String, groups: Vec<String>, extra: Extra) -> Self {
        Self { name, uid, groups, extra }
    }

    /// A service account: a member of the groups of all of them, and of those of its namespace.
    pub(crate) fn service_account(namespace: &str, name: &str, uid: String) -> Self {
        let mut account = Self::new(service_account_name(namespace, name), service_account_groups(namespace));
        account.uid = uid;
        account
    }

    /// The same user with other groups.
    pub(crate) fn with_groups(mut self, groups: Vec<String>) -> Self {
        self.groups = groups;
        self
    }

    /// Whether the user may do everything, independent of rules.
    pub(crate) fn is_master(&self) -> bool {
        self.is_member(MASTERS)
    }

    fn is_member(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Adds the group of all authenticated, or of all other users.
    pub(crate) fn settle_groups(&mut self) {
        let group = match self.name.as_str() {
            ANONYMOUS => UNAUTHENTICATED,
            _ if self.is_member(UNAUTHENTICATED) => return,
            _ => AUTHENTICATED,
        };
        if !self.is_member(group) {
            self.groups.push(group.to_owned());
        }
    }
}

/// The user name of a service account.
pub(crate) fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_USER}{namespace}:{name}")
}

/// The groups of the service accounts of a namespace.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// The node that has this user name.
pub(crate) fn node(name: &str) -> Option<&str> {
    name.strip_prefix(NODE_USER).filter(|name| is_dns1123_subdomain(name).is_empty())
}

/// Namespace and name of the service account that has this user name.
pub(crate) fn service_account(name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = name.strip_prefix(SERVICE_ACCOUNT_USER)?.split_once(':')?;
    let valid = is_dns1123_label(namespace).is_empty() && is_dns1123_subdomain(name).is_empty();
    valid.then_some((namespace, name))
}

/// The identity in the impersonation headers, as they name it.
pub(crate) fn wanted(headers: &HeaderMap) -> Result<Option<Identity>, Status> {
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
