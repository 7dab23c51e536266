//! The rules of a role, and what they permit.

use std::collections::HashSet;

use serde_json::{Map, Value};
use steersman_wire::quote;

use super::action::{Action, Target};
use crate::request::budget;

const ALL: &str = "*";

type Texts = Box<[Box<str>]>;

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    verbs: Texts,
    groups: Texts,
    resources: Texts,
    names: Texts,
    urls: Texts,
}

fn texts(value: &Value) -> Texts {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}

fn has(list: &[Box<str>], text: &str) -> bool {
    list.iter().any(|item| **item == *text)
}

fn has_or_all(list: &[Box<str>], text: &str) -> bool {
    list.iter().any(|item| **item == *ALL || **item == *text)
}

/// Whether a URL of a rule, which may end with a star, contains this one.
fn url_covers(own: &str, url: &str) -> bool {
    own == url || (own.ends_with('*') && url.starts_with(own.trim_end_matches('*')))
}

impl Rule {
    /// The rules of a stored role.
    pub(crate) fn all_of(role: &Value) -> Box<[Self]> {
        role["rules"].as_array().into_iter().flatten().map(Self::read).collect()
    }

    pub(crate) fn read(rule: &Value) -> Self {
        Self {
            verbs: texts(&rule["verbs"]),
            groups: texts(&rule["apiGroups"]),
            resources: texts(&rule["resources"]),
            names: texts(&rule["resourceNames"]),
            urls: texts(&rule["nonResourceURLs"]),
        }
    }

    /// A rule for all of these verbs on all resources, and one for all paths.
    pub(crate) fn everything() -> [Self; 2] {
        let all = || -> Texts { [ALL.into()].into() };
        [
            Self { verbs: all(), groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), urls: all(), ..Self::default() },
        ]
    }

    pub(crate) fn allows(&self, action: &Action) -> bool {
        if !has_or_all(&self.verbs, &action.verb) {
            return false;
        }
        match &action.target {
            Target::Resource(resource) => {
                let combined = resource.combined();
                has_or_all(&self.groups, &resource.group)
                    && self.resources.iter().any(|own| covers_resource(own, &combined, &resource.subresource))
                    && (self.names.is_empty() || has(&self.names, &resource.name))
            }
            Target::Path(path) => self.urls.iter().any(|own| **own == *ALL || url_covers(own, path)),
        }
    }

    /// The number of texts in it.
    pub(crate) fn size(&self) -> usize {
        [&self.verbs, &self.groups, &self.resources, &self.names, &self.urls].iter().map(|texts| texts.len()).sum()
    }

    /// The rule as one of a SelfSubjectRulesReview: of resources, and of paths.
    pub(crate) fn shown(&self) -> (Option<Value>, Option<Value>) {
        let list = |fields: &[(&str, &Texts)]| {
            let mut shown = Map::new();
            for (name, values) in fields.iter().filter(|(_, values)| !values.is_empty()) {
                let values: Vec<Value> = values.iter().map(|value| Value::from(&**value)).collect();
                shown.insert((*name).to_owned(), values.into());
            }
            Value::Object(shown)
        };
        let of_resources = list(&[
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
        ]);
        let of_paths = list(&[("verbs", &self.verbs), ("nonResourceURLs", &self.urls)]);
        ((!self.resources.is_empty()).then_some(of_resources), (!self.urls.is_empty()).then_some(of_paths))
    }
}

/// Whether a resource of a rule contains this one. `*/scale` contains that subresource of all.
fn covers_resource(own: &str, combined: &str, subresource: &str) -> bool {
    own == ALL || own == combined || (!subresource.is_empty() && own.strip_prefix("*/") == Some(subresource))
}

/// The smallest part of a rule: one verb on one resource or path.
#[derive(Clone, Copy)]
struct Atom<'a> {
    verb: &'a str,
    what: What<'a>,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str> },
    Url(&'a str),
}

impl Atom<'_> {
    fn is_in(&self, own: &Rule) -> bool {
        if !has_or_all(&own.verbs, self.verb) {
            return false;
        }
        match self.what {
            What::Resource { group, resource, name } => {
                let subresource = resource.split_once('/').map_or("", |(_, subresource)| subresource);
                has_or_all(&own.groups, group)
                    && own.resources.iter().any(|item| covers_resource(item, resource, subresource))
                    && (own.names.is_empty() || name.is_some_and(|name| has(&own.names, name)))
            }
            What::Url(url) => own.urls.iter().any(|item| url_covers(item, url)),
        }
    }
}

/// The parts of `wanted` that `own` does not contain, as the real server describes them: one text
/// for each resource, sorted. Empty if there are none.
///
/// The number of parts is the product of the lists of a rule, so each comparison is charged to the
/// request: it stops when the budget is spent, and the caller has to check that.
pub(crate) fn missing(own: &[&Rule], wanted: &[Rule]) -> Vec<String> {
    // Each part is compared with every text of the own rules.
    let own_size = own.iter().map(|rule| 1 + rule.size()).sum();
    let mut missing = Missing { own_size, ..Missing::default() };
    for rule in wanted {
        for group in &rule.groups {
            for resource in &rule.resources {
                for verb in &rule.verbs {
                    let mut examine = |name: Option<&str>| {
                        let what = What::Resource { group, resource, name };
                        missing.examine(own, Atom { verb, what })
                    };
                    let go_on = if rule.names.is_empty() {
                        examine(None)
                    } else {
                        rule.names.iter().all(|name| examine(Some(name)))
                    };
                    if !go_on {
                        return Vec::new();
                    }
                }
            }
        }
        for url in &rule.urls {
            for verb in &rule.verbs {
                if !missing.examine(own, Atom { verb, what: What::Url(url) }) {
                    return Vec::new();
                }
            }
        }
    }
    missing.texts()
}

/// A resource of one group, perhaps one object of it.
type OfResource = (String, String, Option<String>);

/// The missing parts. Those that differ only by their verb are one.
#[derive(Default)]
struct Missing {
    /// The steps of one comparison.
    own_size: usize,
    resources: std::collections::HashMap<OfResource, Vec<String>>,
    texts: HashSet<String>,
}

impl Missing {
    /// Compares one part with the rules. Returns whether the request may compare more.
    fn examine(&mut self, own: &[&Rule], atom: Atom<'_>) -> bool {
        if !budget::step(1 + self.own_size) {
            return false;
        }
        if own.iter().any(|rule| atom.is_in(rule)) {
            return true;
        }
        let verb = atom.verb.to_owned();
        if !budget::make(64 + verb.len()) {
            return false;
        }
        match atom.what {
            What::Resource { group, resource, name } => {
                let key = (group.to_owned(), resource.to_owned(), name.map(str::to_owned));
                self.resources.entry(key).or_default().push(verb);
            }
            What::Url(url) => {
                self.texts.insert(format!("{{NonResourceURLs:[{}], Verbs:[{}]}}", quote(url), quote(&verb)));
            }
        }
        true
    }

    fn texts(self) -> Vec<String> {
        let mut texts = self.texts;
        for ((group, resource, name), verbs) in self.resources {
            let mut text = format!("{{APIGroups:[{}], Resources:[{}]", quote(&group), quote(&resource));
            if let Some(name) = name {
                text.push_str(&format!(", ResourceNames:[{}]", quote(&name)));
            }
            let verbs: Vec<String> = verbs.iter().map(|verb| quote(verb)).collect();
            text.push_str(&format!(", Verbs:[{}]}}", verbs.join(" ")));
            budget::text(text.len());
            texts.insert(text);
        }
        let mut texts: Vec<String> = texts.into_iter().collect();
        texts.sort_unstable();
        texts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::action::Resource;
    use super::*;

    fn rule(rule: impl Into<Value>) -> Rule {
        Rule::read(&rule.into())
    }

    /// `verb group resource[/subresource] [name]`, or `verb /path`.
    fn action(text: &str) -> Action {
        let words: Vec<&str> = text.split(' ').collect();
        if words[1].starts_with('/') {
            return Action::on_path(words[0], words[1]);
        }
        let (resource, subresource) = words[2].split_once('/').unwrap_or((words[2], ""));
        let resource = Resource {
            group: words[1].replace("core", ""),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: String::new(),
            name: words.get(3).copied().unwrap_or_default().to_owned(),
        };
        Action::on_resource(words[0], resource)
    }

    #[test]
    fn a_rule_permits_what_it_names() {
        let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]});
        let named = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["things"], "resourceNames": ["x"]});
        let scales = json!({"verbs": ["update"], "apiGroups": ["apps"], "resources": ["*/scale"]});
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        let urls = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/apis/*", "/exact*"]});
        let cases = [
            (&pods, "get core pods x", true),
            (&pods, "get core pods/log x", true),
            (&pods, "get core pods/exec x", false),
            (&pods, "delete core pods x", false),
            (&pods, "get apps pods x", false),
            (&named, "patch any things x", true),
            (&named, "patch any things y", false),
            (&named, "create any things", false),
            (&named, "get any things/status x", false),
            (&scales, "update apps deployments/scale x", true),
            (&scales, "update apps deployments x", false),
            (&scales, "update apps deployments/status x", false),
            (&all, "anything any any/any any", true),
            (&all, "get /healthz", false),
            (&urls, "get /healthz", true),
            (&urls, "get /healthz/ping", false),
            (&urls, "get /apis/apps/v1", true),
            (&urls, "get /apis", false),
            (&urls, "get /exactly", true),
            (&urls, "post /healthz", false),
            (&urls, "get core pods", false),
        ];
        for (of, text, expected) in cases {
            assert_eq!(rule(of.clone()).allows(&action(text)), expected, "{of} and {text}");
        }
    }

    #[test]
    fn what_is_missing_is_listed_by_resource() {
        let own = [
            rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})),
            rule(json!({"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*/scale"], "resourceNames": ["x"]})),
            rule(json!({"verbs": ["get"], "nonResourceURLs": ["/a/*"]})),
        ];
        let all: Vec<&Rule> = own.iter().collect();
        let wanted = |value: Value| missing(&all, &[rule(value)]);
        let verbs =
            wanted(json!({"verbs": ["get", "watch", "list"], "apiGroups": [""], "resources": ["pods", "nodes"]}));
        assert_eq!(
            verbs,
            [
                r#"{APIGroups:[""], Resources:["nodes"], Verbs:["get" "watch" "list"]}"#,
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch" "list"]}"#,
            ]
        );
        let names =
            json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["a/scale"], "resourceNames": ["x", "y"]});
        assert_eq!(
            wanted(names),
            [r#"{APIGroups:["apps"], Resources:["a/scale"], ResourceNames:["y"], Verbs:["get"]}"#]
        );
        // A rule for some names does not contain one for all of them.
        assert_eq!(wanted(json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["a/scale"]})).len(), 1);
        let urls = wanted(json!({"verbs": ["get", "post"], "nonResourceURLs": ["/a/b", "/a/*", "*"]}));
        assert_eq!(
            urls,
            [
                r#"{NonResourceURLs:["*"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["*"], Verbs:["post"]}"#,
                r#"{NonResourceURLs:["/a/*"], Verbs:["post"]}"#,
                r#"{NonResourceURLs:["/a/b"], Verbs:["post"]}"#,
            ]
        );
        let everything = Rule::everything();
        assert!(missing(&everything.iter().collect::<Vec<_>>(), &own).is_empty());
        assert_eq!(missing(&[], &everything).len(), 2);
    }

    #[test]
    fn each_comparison_is_charged_for_all_texts_of_the_own_rules() {
        let texts = |prefix: &str, count: usize| (0..count).map(|at| format!("{prefix}{at}")).collect::<Vec<_>>();
        let own = rule(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": texts("v", 100_000)}));
        let wanted = rule(json!({"apiGroups": texts("g", 100), "resources": texts("r", 100), "verbs": ["v99999"]}));
        let (refused, _) = budget::metered(|| {
            missing(&[&own], std::slice::from_ref(&wanted));
            budget::check().is_err()
        });
        assert!(refused);
    }

    #[test]
    fn the_parts_of_a_rule_are_counted() {
        let many: Vec<String> = (0..10_000).map(|at| at.to_string()).collect();
        let huge = rule(json!({"verbs": many, "apiGroups": many, "resources": many}));
        let (found, _) =
            budget::metered(|| (missing(&[], std::slice::from_ref(&huge)).len(), budget::check().is_err()));
        assert_eq!(found, (0, true));
    }

    fn some_rule() -> impl Strategy<Value = Rule> {
        let of = |texts: &'static [&'static str]| prop::collection::vec(prop::sample::select(texts), 1..3);
        let names = prop::collection::vec(prop::sample::select(&["x", "y"][..]), 0..2);
        (of(&["get", "list", "*"]), of(&["", "apps", "*"]), of(&["a", "a/s", "*/s", "*"]), names).prop_map(
            |(verbs, groups, resources, names)| {
                rule(json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names}))
            },
        )
    }

    proptest! {
        /// If nothing is missing, every action that the wanted rules permit is permitted.
        #[test]
        fn rights_that_are_not_missing_are_held(
            own in prop::collection::vec(some_rule(), 0..3),
            wanted in some_rule(),
            verb in prop::sample::select(&["get", "list", "other"][..]),
            group in prop::sample::select(&["core", "apps", "more"][..]),
            resource in prop::sample::select(&["a", "b", "a/s", "b/s", "b/t"][..]),
            name in prop::sample::select(&["x", "y", "z"][..]),
        ) {
            let action = action(&format!("{verb} {group} {resource} {name}"));
            let all: Vec<&Rule> = own.iter().collect();
            if missing(&all, std::slice::from_ref(&wanted)).is_empty() && wanted.allows(&action) {
                prop_assert!(own.iter().any(|rule| rule.allows(&action)), "{own:?} and {wanted:?}");
            }
        }
    }
}
