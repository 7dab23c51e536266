//! Impersonation: a request that acts as another user.
//!
//! There are five modes, each with permissions of its own. The first that applies and is permitted
//! decides on the groups of the user. The last is the original one, with the verb `impersonate`.
//! The others need two permissions: for the user, and for the action. If no mode is permitted, the
//! refusal is that of the mode with which the user last succeeded.
//!
//! Unlike the real server, this one neither prefers that mode nor remembers for ten seconds that
//! something was permitted, so that the effective user does not depend on the past.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use steersman_wire::{is_dns1123_subdomain, quote};

use super::action::{Action, Resource};
use crate::request::HttpRequest;
use crate::request::identity::{self, Extra, Identity, MASTERS};
use crate::response::status::{FieldError, Status};
use crate::server::Shared;

const NODES: &str = "system:nodes";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// The attribute of a service account that names its node.
pub(super) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// From this number of groups or attributes on, a permission for all of them is tried first.
const MANY: usize = 4;
/// How many users have a remembered mode. Then all of them are forgotten: only the text of a
/// refusal depends on it.
const USERS_MAX: usize = 1_000;

/// The mode with which each user last succeeded.
#[derive(Default)]
pub(super) struct Modes(Mutex<HashMap<String, Mode>>);

impl Modes {
    fn of(&self, user: &Identity) -> Option<Mode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(user.name()).copied()
    }

    fn note(&self, user: &Identity, mode: Mode) {
        let mut modes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if modes.get(user.name()) == Some(&mode) {
            return;
        }
        if modes.len() >= USERS_MAX {
            modes.clear();
        }
        modes.insert(user.name().to_owned(), mode);
    }
}

impl Shared {
    /// The effective user of a request: that of its credential, or the one that its headers name.
    pub(crate) fn impersonated(&self, user: Identity, request: &HttpRequest<'_>) -> Result<Identity, Status> {
        let Some(wanted) = identity::wanted(request.headers)? else { return Ok(user) };
        let action = Action::of_request(request);
        let check = |user: &Identity, action: &Action| self.decide_impersonation(user, action);
        impersonate(&user, &wanted, &action, &self.access.modes, check)
    }

    fn decide_impersonation(&self, user: &Identity, action: &Action) -> Result<(), Status> {
        let decision = self.decide(user, action);
        self.access.note(user, action, decision.is_ok());
        decision.map_err(|reason| action.forbidden(user, &reason))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A service account acts as the node that it runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Neither a node nor a service account.
    UserInfo,
    Original,
}

const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Original];

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Original => "",
        }
    }

    fn applies(self, user: &Identity, wanted: &Identity) -> bool {
        let is_only_name = wanted.uid().is_empty() && wanted.groups().is_empty() && wanted.extra().is_empty();
        let node = identity::node(wanted.name());
        let account = identity::service_account(wanted.name());
        match self {
            Self::AssociatedNode => {
                let own = user.extra().get(NODE_NAME).filter(|_| identity::service_account(user.name()).is_some());
                is_only_name && node.is_some_and(|node| own.is_some_and(|own| own.len() == 1 && own[0] == node))
            }
            Self::ArbitraryNode => is_only_name && node.is_some(),
            Self::ServiceAccount => is_only_name && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Original => true,
        }
    }

    fn is_original(self) -> bool {
        self == Self::Original
    }

    /// The verb of the permission for the user.
    fn verb(self) -> String {
        if self.is_original() { "impersonate".to_owned() } else { format!("impersonate:{}", self.word()) }
    }

    fn action(self, resource: &str, name: &str) -> Action {
        let is_of_user = matches!(resource, "uids" | "userextras") || !self.is_original();
        let group = if is_of_user { AUTHENTICATION } else { "" };
        let of = |resource: &str, name: &str| Resource {
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..Resource::default()
        };
        Action::on_resource(self.verb(), of(resource, name))
    }
}

/// The user that a request acts as, if `check` permits it. Otherwise the refusal of the remembered
/// mode, or of the first one.
fn impersonate(
    user: &Identity,
    wanted: &Identity,
    action: &Action,
    modes: &Modes,
    check: impl Fn(&Identity, &Action) -> Result<(), Status>,
) -> Result<Identity, Status> {
    let remembered = modes.of(user);
    let mut refusal = None;
    for mode in MODES.into_iter().filter(|mode| mode.applies(user, wanted)) {
        match (Attempt { mode, user, check: &check }).run(wanted, action) {
            Ok(identity) => {
                modes.note(user, mode);
                return Ok(identity);
            }
            Err(status) if remembered == Some(mode) => refusal = Some(status),
            Err(status) => drop(refusal.get_or_insert(status)),
        }
    }
    Err(refusal.expect("the original mode always applies"))
}

/// One mode for one request.
struct Attempt<'a, C> {
    mode: Mode,
    user: &'a Identity,
    check: &'a C,
}

impl<C: Fn(&Identity, &Action) -> Result<(), Status>> Attempt<'_, C> {
    fn run(&self, wanted: &Identity, action: &Action) -> Result<Identity, Status> {
        if !self.mode.is_original() {
            let on = format!("impersonate-on:{}:{}", self.mode.word(), action.verb);
            self.permit(&action.with_verb(on))?;
        }
        let mut identity = self.user_name(wanted)?;
        if !wanted.uid().is_empty() {
            self.permit(&self.mode.action("uids", wanted.uid()))?;
        }
        self.groups(wanted.groups())?;
        self.extra(wanted.extra())?;
        identity.settle_groups();
        Ok(identity)
    }

    fn permit(&self, action: &Action) -> Result<(), Status> {
        (self.check)(self.user, action)
    }

    fn refuse(&self, action: &Action, why: &str) -> Status {
        action.forbidden(self.user, why)
    }

    /// Permits the name, and gives the user the groups that follow from it.
    fn user_name(&self, wanted: &Identity) -> Result<Identity, Status> {
        let mut action = self.mode.action("users", wanted.name());
        let super::action::Target::Resource(target) = &mut action.target else { unreachable!("it has a resource") };
        let mut groups = wanted.groups().to_vec();
        if let Some(node) = identity::node(wanted.name()).filter(|_| !self.mode.is_original()) {
            target.resource = "nodes".to_owned();
            // The permission is for whichever node the account runs on.
            target.name = if self.mode == Mode::AssociatedNode { "*" } else { node }.to_owned();
            groups = vec![NODES.to_owned()];
        }
        if let Some((namespace, name)) = identity::service_account(wanted.name()) {
            target.resource = "serviceaccounts".to_owned();
            target.namespace = namespace.to_owned();
            target.name = name.to_owned();
            if groups.is_empty() {
                groups = identity::service_account_groups(namespace);
            }
        }
        self.permit(&action)?;
        Ok(wanted.clone().with_groups(groups))
    }

    fn groups(&self, groups: &[String]) -> Result<(), Status> {
        let action = |name: &str| self.mode.action("groups", name);
        if !self.mode.is_original() && !groups.is_empty() {
            if groups.iter().any(String::is_empty) {
                return Err(self.refuse(&action(""), "impersonating the empty string group is not allowed"));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(self.refuse(&action(MASTERS), why));
            }
            if groups.len() >= MANY && self.permit(&action("*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.permit(&action(group)))
    }

    fn extra(&self, extra: &Extra) -> Result<(), Status> {
        let action = |key: &str, value: &str| {
            let mut action = self.mode.action("userextras", value);
            if let super::action::Target::Resource(target) = &mut action.target {
                target.subresource = key.to_owned();
            }
            action
        };
        if !self.mode.is_original() && !extra.is_empty() {
            if let Some(why) = extra.iter().find_map(|(key, values)| fault(key, values)) {
                return Err(self.refuse(&action("", ""), &why));
            }
            if extra.values().map(Vec::len).sum::<usize>() >= MANY && self.permit(&action("*", "*")).is_ok() {
                return Ok(());
            }
        }
        let mut all = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        all.try_for_each(|(key, value)| self.permit(&action(key, value)))
    }
}

/// Why an attribute cannot be impersonated, except in the original mode.
fn fault(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let errors = key_faults(key);
    if !errors.is_empty() {
        let errors = super::authorize::aggregate(errors.iter().map(FieldError::to_string));
        return Some(format!("impersonating an invalid key in extra is not allowed: {errors}"));
    }
    if key.chars().any(char::is_uppercase) {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", quote(key)));
    }
    let is_empty = values.iter().any(String::is_empty);
    is_empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

fn key_faults(key: &str) -> Vec<FieldError> {
    const FIELD: &str = "extra.key";
    let Some((host, path)) = key.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty()) else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![FieldError::invalid(FIELD, key, detail)];
    };
    let mut errors: Vec<FieldError> =
        is_dns1123_subdomain(host).into_iter().map(|why| FieldError::invalid(FIELD, host, why)).collect();
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(character);
    if !path.chars().all(is_allowed) {
        let detail = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        errors.push(FieldError::invalid(FIELD, path, detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, Method};

    use super::super::action::Target;
    use super::*;
    use crate::request::Query;

    const ALL: &[&str] = &["*"];

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, http::HeaderValue::from_static(value));
        }
        headers
    }

    /// The user of a GET of `path` with these headers, by one who has the rights `permitted`, each
    /// as `verb resource[/subresource] [namespace/]name`.
    fn acts(
        user: &Identity,
        permitted: &[&str],
        pairs: &[(&'static str, &'static str)],
        path: &str,
    ) -> Result<Identity, String> {
        let (query, headers, body) = (Query::default(), headers(pairs), Bytes::new());
        let request = HttpRequest { method: &Method::GET, path, query: &query, headers: &headers, body: &body };
        let Some(wanted) = identity::wanted(&headers).map_err(|status| message(&status))? else {
            return Ok(user.clone());
        };
        let check = |user: &Identity, action: &Action| {
            let text = match &action.target {
                Target::Resource(resource) => {
                    let place = format!("{}/{}", resource.namespace, resource.name);
                    format!("{} {} {}", action.verb, resource.combined(), place.trim_start_matches('/'))
                }
                Target::Path(path) => format!("{} {path}", action.verb),
            };
            let is_permitted = permitted.iter().any(|permitted| *permitted == "*" || *permitted == text);
            if is_permitted { Ok(()) } else { Err(action.forbidden(user, "")) }
        };
        let action = Action::of_request(&request);
        impersonate(user, &wanted, &action, &Modes::default(), check).map_err(|status| message(&status))
    }

    fn message(status: &Status) -> String {
        status.object()["message"].as_str().unwrap_or_default().to_owned()
    }

    fn jane() -> Identity {
        Identity::new("jane", ["a"])
    }

    #[test]
    fn groups_are_settled_by_who_it_is() {
        let groups = |user: &'static str, group: Option<&'static str>| {
            let mut pairs = vec![("impersonate-user", user)];
            pairs.extend(group.map(|group| ("impersonate-group", group)));
            acts(&Identity::admin(), ALL, &pairs, "/").unwrap().groups().join(" ")
        };
        let account = "system:serviceaccount:a:b";
        assert_eq!(groups("jane", None), "system:authenticated");
        assert_eq!(groups("jane", Some("a")), "a system:authenticated");
        assert_eq!(groups("jane", Some("system:unauthenticated")), "system:unauthenticated");
        assert_eq!(groups("system:anonymous", None), "system:unauthenticated");
        assert_eq!(groups("system:node:n", None), "system:nodes system:authenticated");
        assert_eq!(groups("system:node:n", Some("a")), "a system:authenticated");
        assert_eq!(groups("system:node:N", None), "system:authenticated");
        assert_eq!(groups(account, None), "system:serviceaccounts system:serviceaccounts:a system:authenticated");
        assert_eq!(groups(account, Some("c")), "c system:authenticated");
        assert_eq!(groups("system:serviceaccount:a:b:c", None), "system:authenticated");
    }

    #[test]
    fn the_first_refusal_counts() {
        assert_eq!(acts(&jane(), &[], &[], "/api/v1/pods").unwrap(), jane());
        let refused = |user, path| acts(&jane(), &[], &[("impersonate-user", user)], path).unwrap_err();
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
            acts(&jane(), &[], &pairs, "/version").unwrap_err(),
            "serviceaccounts \"b\" is forbidden: User \"jane\" cannot impersonate resource \"serviceaccounts\" in API \
             group \"\" in the namespace \"a\""
        );
    }

    #[test]
    fn each_mode_has_permissions_of_its_own() {
        let user = |permitted: &[&str], pairs: &[(&'static str, &'static str)]| {
            acts(&jane(), permitted, pairs, "/version").is_ok()
        };
        let root = ("impersonate-user", "root");
        assert!(user(&["impersonate users root"], &[root]));
        assert!(!user(&["impersonate users root"], &[root, ("impersonate-group", "g")]));
        assert!(user(&["impersonate users root", "impersonate groups g"], &[root, ("impersonate-group", "g")]));
        let on = "impersonate-on:user-info:get /version";
        assert!(user(&[on, "impersonate:user-info users root"], &[root]));
        assert!(!user(&[on], &[root]) && !user(&["impersonate:user-info users root"], &[root]));
        let masters = ("impersonate-group", "system:masters");
        let of_mode = [on, "impersonate:user-info users root", "impersonate:user-info groups system:masters"];
        assert!(!user(&of_mode, &[root, masters]));
        assert!(user(&["impersonate users root", "impersonate groups system:masters"], &[root, masters]));
        let extra = ("impersonate-extra-acme.com%2fproject", "wings");
        let of_extra = "impersonate:user-info userextras/acme.com/project wings";
        assert!(user(&[on, "impersonate:user-info users root", of_extra], &[root, extra]));
        let account = ("impersonate-user", "system:serviceaccount:a:b");
        assert!(user(&["impersonate serviceaccounts a/b"], &[account]));
        let on = "impersonate-on:serviceaccount:get /version";
        assert!(user(&[on, "impersonate:serviceaccount serviceaccounts a/b"], &[account]));
        let many = [root, ("impersonate-group", "1"), ("impersonate-group", "2"), ("impersonate-group", "3")];
        let star = [
            "impersonate-on:user-info:get /version",
            "impersonate:user-info users root",
            "impersonate:user-info groups *",
        ];
        assert!(!user(&star, &many));
        assert!(user(&star, &[&many[..], &[("impersonate-group", "4")]].concat()));
    }

    #[test]
    fn the_refusal_is_that_of_the_mode_that_once_succeeded() {
        let modes = Modes::default();
        let named = |name: &str| Identity::exact(name.to_owned(), String::new(), Vec::new(), Extra::default());
        let action = Action::on_path("get", "/version");
        let check = |user: &Identity, action: &Action| match &action.target {
            Target::Resource(resource) if action.verb == "impersonate" && resource.name == "root" => Ok(()),
            _ => Err(action.forbidden(user, "")),
        };
        let act =
            |name: &str| impersonate(&jane(), &named(name), &action, &modes, check).map_err(|status| message(&status));
        assert!(act("other").unwrap_err().contains("cannot impersonate-on:user-info:get path"));
        assert!(act("root").is_ok());
        assert!(act("other").unwrap_err().contains("cannot impersonate resource \"users\""));
        for user in 0..2 * USERS_MAX {
            modes.note(&named(&user.to_string()), Mode::Original);
        }
        assert!(modes.0.lock().unwrap().len() <= USERS_MAX);
    }

    #[test]
    fn an_account_may_act_as_its_own_node() {
        let rights = ["impersonate-on:associated-node:get /version", "impersonate:associated-node nodes *"];
        let account =
            |node: &str| Identity::service_account("a", "agent", String::new()).with_extra(NODE_NAME, node.to_owned());
        let pairs = [("impersonate-user", "system:node:n")];
        assert_eq!(acts(&account("n"), &rights, &pairs, "/version").unwrap().groups()[0], "system:nodes");
        assert!(acts(&account("m"), &rights, &pairs, "/version").is_err());
    }

    #[test]
    fn some_attributes_are_for_the_original_mode_only() {
        let why = |key: &str, value: &str| fault(key, &[value.to_owned()]).unwrap_or_default();
        assert_eq!(why("acme.com/a", "b"), "");
        let invalid = "impersonating an invalid key in extra is not allowed: ";
        assert_eq!(
            why("scopes", "b"),
            format!(
                "{invalid}extra.key: Invalid value: \"scopes\": must be a domain-prefixed path (such as \"acme.io/foo\")"
            )
        );
        assert!(
            why("acme.com/{", "b").starts_with(&format!("{invalid}extra.key: Invalid value: \"{{\": Invalid path"))
        );
        assert_eq!(why("acme.com/a", ""), "impersonating the empty string value in extra is not allowed");
        assert!(why("acme.com/A", "b").contains("non-lowercase"));
    }

    #[test]
    fn extras_are_unescaped_when_they_can_be() {
        let pairs = [
            ("impersonate-user", "jane"),
            ("impersonate-extra-a%2fb", "1"),
            ("impersonate-extra-a%2Fb", "2"),
            ("impersonate-extra-bad%zz", "3"),
        ];
        let jane = acts(&Identity::admin(), ALL, &pairs, "/").unwrap();
        let extra: Vec<_> = jane.extra().iter().map(|(name, values)| (name.as_str(), values.join(","))).collect();
        assert_eq!(extra, [("a/b", "1,2".to_owned()), ("bad%zz", "3".to_owned())]);
    }
}
