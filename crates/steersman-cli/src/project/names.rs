//! The names that a user chooses: which are valid, and what is derived from them.

use anyhow::{Result, bail, ensure};
use heck::ToSnakeCase;
use steersman_wire::{is_dns1035_label, is_dns1123_subdomain};

use super::template;

/// Keywords that `syn` accepts as identifiers.
const MORE_KEYWORDS: [&str; 1] = ["gen"];
/// Names of crates that come with Rust, and names that Cargo needs in its target folder.
const RESERVED_PACKAGES: [&str; 9] =
    ["alloc", "build", "core", "deps", "examples", "incremental", "proc-macro", "std", "test"];
/// Files in `tests/` that are not about one kind.
const RESERVED_TESTS: [&str; 2] = ["manifests", "rbac"];
/// Kubernetes serves a CRD in these groups only with the approval of its maintainers.
const RESERVED_GROUPS: [&str; 2] = ["k8s.io", "kubernetes.io"];
/// The parts of the name of a version, in the order in which they occur.
const STAGES: [&str; 2] = ["alpha", "beta"];
/// The name of a CRD, which is `<plural>.<group>`, is at most this long.
const CRD_NAME_LENGTH_MAX: usize = 253;

/// Checks the name of a project. It is the name of a package, of a Deployment and of an image.
pub(crate) fn check_project(name: &str) -> Result<()> {
    if !is_dns1035_label(name).is_empty() {
        bail!(
            "invalid project name {name:?}: use lower-case letters, digits and dashes, beginning with a letter, at \
             most 63, such as website-operator"
        );
    }
    let identifier = name.replace('-', "_");
    ensure!(!is_keyword(&identifier), "invalid project name {name:?}: it is a Rust keyword: choose another name");
    let dependencies = template::dependencies()?;
    if RESERVED_PACKAGES.contains(&name) || dependencies.iter().any(|dependency| dependency == name) {
        bail!("invalid project name {name:?}: a crate that the project uses has this name: choose another name");
    }
    Ok(())
}

/// Checks the domain of a project.
pub(crate) fn check_domain(domain: &str) -> Result<()> {
    if !is_dns1123_subdomain(domain).is_empty() {
        bail!("invalid domain {domain:?}: use a DNS name, such as example.com");
    }
    Ok(())
}

/// The whole group: a group without a dot is a subdomain of the project's domain.
pub(crate) fn full_group(group: &str, domain: Option<&str>) -> Result<String> {
    if !is_dns1123_subdomain(group).is_empty() {
        bail!("invalid group {group:?}: use a DNS name in lower case, such as web or web.example.com");
    }
    match domain {
        _ if group.contains('.') => Ok(group.to_owned()),
        Some(domain) => Ok(format!("{group}.{domain}")),
        None => {
            bail!("invalid group {group:?}: the project has no domain, so write the whole group: {group}.example.com")
        }
    }
}

/// Checks a whole group of a kind of one's own.
pub(crate) fn check_own_group(group: &str) -> Result<()> {
    let within = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if let Some(domain) = RESERVED_GROUPS.iter().find(|domain| within(domain)) {
        bail!("invalid group {group:?}: groups of {domain} belong to Kubernetes: use a domain of your own");
    }
    Ok(())
}

/// Checks a version.
pub(crate) fn check_version(version: &str) -> Result<()> {
    if !is_version(version) {
        bail!("invalid version {version:?}: use v1, v2, v1alpha1, v2beta3 and so on");
    }
    Ok(())
}

fn is_version(version: &str) -> bool {
    let is_number = |text: &str| !text.starts_with('0') && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let Some(rest) = version.strip_prefix('v') else { return false };
    is_number(rest)
        || STAGES
            .iter()
            .any(|stage| rest.split_once(stage).is_some_and(|(major, minor)| is_number(major) && is_number(minor)))
}

/// Checks a kind: whether a server accepts it, and whether Rust does.
pub(crate) fn check_kind(kind: &str) -> Result<()> {
    let is_pascal_case = kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_pascal_case || kind.len() > 63 {
        bail!(
            "invalid kind {kind:?}: use a singular noun in PascalCase, at most 63 letters and digits, such as CronJob"
        );
    }
    let module = module(kind);
    if is_keyword(kind) || is_keyword(&module) {
        bail!(
            "invalid kind {kind:?}: {module:?} is a Rust keyword, and would be the name of a module: choose another kind"
        );
    }
    if RESERVED_TESTS.contains(&module.as_str()) {
        bail!("invalid kind {kind:?}: the project has a test tests/{module}.rs: choose another kind");
    }
    if let Some(name) = template::type_names(kind).into_iter().find(|name| template::imports(name)) {
        bail!("invalid kind {kind:?}: the generated code uses another type {name}: choose another kind");
    }
    Ok(())
}

/// Checks the plural of a kind, and the name of the CRD.
pub(crate) fn check_plural(plural: &str, group: &str) -> Result<()> {
    if !is_dns1035_label(plural).is_empty() {
        bail!("invalid plural {plural:?}: use lower-case letters, digits and dashes, such as cronjobs");
    }
    let name = format!("{plural}.{group}");
    ensure!(
        name.len() <= CRD_NAME_LENGTH_MAX,
        "the name of the CRD, {name}, is longer than {CRD_NAME_LENGTH_MAX} characters: use a shorter group"
    );
    Ok(())
}

/// The plural of a kind in English, in lower case.
pub(crate) fn plural(kind: &str) -> String {
    let word = kind.to_lowercase();
    if ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end)) {
        return format!("{word}es");
    }
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{word}s"),
    }
}

/// The module of a kind, which is also the stem of its files.
pub(crate) fn module(kind: &str) -> String {
    kind.to_snake_case()
}

/// The name of the sample of a kind.
pub(crate) fn sample(kind: &str) -> String {
    format!("{}-sample", kind.to_lowercase())
}

/// Whether a word cannot be an identifier of Rust.
pub(crate) fn is_keyword(word: &str) -> bool {
    syn::parse_str::<syn::Ident>(word).is_err() || MORE_KEYWORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_a_dot_is_completed_by_the_domain() {
        assert_eq!(full_group("web", Some("example.com")).unwrap(), "web.example.com");
        assert_eq!(full_group("web.other.org", Some("example.com")).unwrap(), "web.other.org");
        assert_eq!(full_group("web.other.org", None).unwrap(), "web.other.org");
        assert!(full_group("web", None).unwrap_err().to_string().contains("web.example.com"));
    }

    #[test]
    fn plurals_are_those_of_kube() {
        let cases = [
            ("CronJob", "cronjobs"),
            ("Policy", "policies"),
            ("Gateway", "gateways"),
            ("Ingress", "ingresses"),
            ("Box", "boxes"),
            ("Batch", "batches"),
            ("Y", "ies"),
        ];
        for (kind, expected) in cases {
            assert_eq!(plural(kind), expected);
        }
    }

    #[test]
    fn acronyms_are_one_word_of_a_module() {
        for (kind, expected) in [("HTTPRoute", "http_route"), ("CronJob", "cron_job"), ("V2Ray", "v2_ray"), ("A", "a")]
        {
            assert_eq!(module(kind), expected);
        }
    }
}
