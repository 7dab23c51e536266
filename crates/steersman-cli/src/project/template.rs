//! The template: the project `examples/website-operator`, compiled and tested in this repository.
//!
//! `steersman init` writes it without its kinds, and `steersman create api` writes the files of one
//! of its kinds. Names are replaced as whole words. A test of this crate makes the whole example
//! again with these commands, and compares every byte.
//!
//! The folder `template` has a link to each file, because a package of Cargo contains no file of
//! another package. `cargo package` follows the links.

use std::sync::LazyLock;

use anyhow::{Context, Result};
use toml_edit::DocumentMut;

use super::{Api, names};

/// The names of the template's project.
const PROJECT: &str = "website-operator";
const PROJECT_CRATE: &str = "website_operator";
const PROJECT_DEV: &str = "website-operator-dev";
/// The group of its own kinds.
const GROUP: &str = "web.example.com";

/// A kind of the template.
pub(crate) struct Kind {
    kind: &'static str,
    module: &'static str,
    plural: &'static str,
    version: &'static str,
    namespaced: bool,
    external: bool,
}

/// A namespaced kind: its controller writes a ConfigMap.
pub(crate) static NAMESPACED: Kind = Kind {
    kind: "Website",
    module: "website",
    plural: "websites",
    version: "v1alpha1",
    namespaced: true,
    external: false,
};
/// A cluster-scoped kind: its controller writes a Namespace.
pub(crate) static CLUSTER_SCOPED: Kind = Kind {
    kind: "Tenant",
    module: "tenant",
    plural: "tenants",
    version: "v1alpha1",
    namespaced: false,
    external: false,
};
/// A kind of another project: its controller writes nothing.
pub(crate) static EXTERNAL: Kind =
    Kind { kind: "Backup", module: "backup", plural: "backups", version: "v1", namespaced: true, external: true };

/// A file of the template: its path in the project, and its text.
macro_rules! files {
    ($($path:literal = $link:literal,)*) => {
        [$(($path, include_str!(concat!("../../template/", $link)))),*]
    };
}

/// The files that every project has.
static PROJECT_FILES: &[(&str, &str)] = &files! {
    ".dockerignore" = "dockerignore",
    ".github/workflows/ci.yml" = "ci.yml",
    ".gitignore" = "gitignore",
    "Cargo.toml" = "manifest.toml",
    "Dockerfile" = "Dockerfile",
    "README.md" = "README.md",
    "dev/Cargo.toml" = "dev/manifest.toml",
    "dev/src/main.rs" = "dev/main.rs",
    "rustfmt.toml" = "rustfmt.toml",
    "src/api/mod.rs" = "src/api/mod.rs",
    "src/controllers/mod.rs" = "src/controllers/mod.rs",
    "src/lib.rs" = "src/lib.rs",
    "src/main.rs" = "src/main.rs",
    "tests/manifests.rs" = "tests/manifests.rs",
};

/// The files that kinds have.
static KIND_FILES: &[(&str, &str)] = &files! {
    "samples/tenant.yaml" = "samples/tenant.yaml",
    "samples/website.yaml" = "samples/website.yaml",
    "src/api/v1alpha1/mod.rs" = "src/api/v1alpha1/mod.rs",
    "src/api/v1alpha1/tenant.rs" = "src/api/v1alpha1/tenant.rs",
    "src/api/v1alpha1/website.rs" = "src/api/v1alpha1/website.rs",
    "src/controllers/backup.rs" = "src/controllers/backup.rs",
    "src/controllers/tenant.rs" = "src/controllers/tenant.rs",
    "src/controllers/website.rs" = "src/controllers/website.rs",
    "tests/rbac.rs" = "tests/rbac.rs",
    "tests/tenant.rs" = "tests/tenant.rs",
    "tests/website.rs" = "tests/website.rs",
};

/// What the `Cargo.toml` of a project has beside that of the example, which is a member of our
/// workspace.
pub(crate) const WORKSPACE: &str = include_str!("../../template/workspace.toml");
pub(crate) const MANIFEST: &str = "Cargo.toml";
pub(crate) const DEV_MANIFEST: &str = "dev/Cargo.toml";
pub(crate) const RUSTFMT: &str = "rustfmt.toml";
/// The test of the roles. It exists while a controller of the template is there.
pub(crate) const RBAC_TEST: &str = "tests/rbac.rs";

/// A replacement of whole words.
type Words = Vec<(String, String)>;

/// The files of a new project, without kinds.
pub(crate) fn project(name: &str) -> Result<Vec<(&'static str, String)>> {
    let words = project_words(name);
    let file = |(path, text): &(&'static str, &str)| Ok((*path, replace(&without_kinds(path, text)?, &words)));
    PROJECT_FILES.iter().map(file).collect()
}

/// The files of a new API. The Rust types of an external kind, and its CRD, are not among them.
pub(crate) fn api(project: &str, api: &Api) -> Vec<(String, String)> {
    let mut words = project_words(project);
    words.extend(kind_words(api));
    let Kind { module, version, external, .. } = api.template();
    let mut paths = Vec::new();
    if !external {
        paths.extend([format!("src/api/{version}/{module}.rs"), format!("samples/{module}.yaml")]);
    }
    if api.controller {
        paths.push(format!("src/controllers/{module}.rs"));
        if !external {
            paths.push(format!("tests/{module}.rs"));
        }
    }
    let file = |path: String| (replace(&path, &words), replace(text(&path), &words));
    paths.into_iter().map(file).collect()
}

/// The list of kinds of a version, without kinds.
pub(crate) fn version_module(version: &str) -> Result<String> {
    let path = format!("src/api/{}/mod.rs", NAMESPACED.version);
    let text = without_kinds(&path, text(&path))?;
    Ok(replace(&text, &vec![(NAMESPACED.version.to_owned(), version.to_owned())]))
}

/// The test of the roles.
pub(crate) fn rbac_test(project: &str) -> String {
    replace(text(RBAC_TEST), &project_words(project))
}

fn text(path: &str) -> &'static str {
    let mut files = KIND_FILES.iter().chain(PROJECT_FILES);
    files.find(|(name, _)| *name == path).map(|(_, text)| *text).unwrap_or_default()
}

/// A file of the template without the lines of its kinds.
fn without_kinds(path: &str, text: &str) -> Result<String> {
    let mut text = text.to_owned();
    for api in [&NAMESPACED, &CLUSTER_SCOPED, &EXTERNAL].map(Kind::api) {
        for (_, edit) in api.edits().into_iter().filter(|(edited, _)| edited == path) {
            text =
                edit.remove(&text).map_err(|problem| anyhow::anyhow!("{path} of the template: {}", problem.reason))?;
        }
    }
    Ok(text)
}

impl Kind {
    fn api(&self) -> Api {
        Api {
            group: GROUP.to_owned(),
            version: self.version.to_owned(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
            namespaced: self.namespaced,
            controller: true,
            external: self.external,
        }
    }
}

fn project_words(name: &str) -> Words {
    let words =
        [(PROJECT, name.to_owned()), (PROJECT_CRATE, name.replace('-', "_")), (PROJECT_DEV, format!("{name}-dev"))];
    words.map(|(from, to)| (from.to_owned(), to)).into()
}

fn kind_words(api: &Api) -> Words {
    let template = api.template();
    let mut words: Words = type_names(template.kind).into_iter().zip(type_names(&api.kind)).collect();
    words.extend([
        (template.module.to_owned(), api.module()),
        (names::sample(template.kind), names::sample(&api.kind)),
        (template.plural.to_owned(), api.plural.clone()),
        (template.version.to_owned(), api.version.clone()),
        (GROUP.to_owned(), api.group.clone()),
    ]);
    words
}

/// The types that the code of a kind has.
pub(crate) fn type_names(kind: &str) -> [String; 4] {
    ["", "Spec", "Status", "Reconciler"].map(|end| format!("{kind}{end}"))
}

/// Whether the code of the template's kinds uses a type of this name that is not theirs.
pub(crate) fn imports(name: &str) -> bool {
    static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let own: Vec<String> =
            [&NAMESPACED, &CLUSTER_SCOPED, &EXTERNAL].iter().flat_map(|kind| type_names(kind.kind)).collect();
        let code = KIND_FILES.iter().filter(|(path, _)| path.ends_with(".rs"));
        let words = code.flat_map(|(_, text)| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
        words.filter(|word| !own.iter().any(|name| name == word)).collect()
    });
    NAMES.contains(&name)
}

/// The crates that a project depends on.
pub(crate) fn dependencies() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for path in [MANIFEST, DEV_MANIFEST] {
        let manifest: DocumentMut = text(path).parse().with_context(|| format!("{path} of the template"))?;
        let tables = ["dependencies", "dev-dependencies"].into_iter().filter_map(|name| manifest.get(name)?.as_table());
        names.extend(tables.flat_map(|table| table.iter().map(|(name, _)| name.to_owned())));
    }
    names.retain(|name| name != PROJECT);
    Ok(names)
}

/// A text with some of its words replaced. A dash is part of a word.
fn replace(text: &str, words: &Words) -> String {
    let is_in_word = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    let mut begins = true;
    while let Some(first) = rest.chars().next() {
        let found = words
            .iter()
            .filter(|_| begins)
            .find(|(from, _)| rest.strip_prefix(from.as_str()).is_some_and(|after| !after.starts_with(is_in_word)));
        match found {
            Some((from, to)) => {
                replaced.push_str(to);
                rest = &rest[from.len()..];
                begins = false;
            }
            None => {
                replaced.push(first);
                rest = &rest[first.len_utf8()..];
                begins = !is_in_word(first);
            }
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_whole_words_are_replaced() {
        let words = vec![("web".to_owned(), "shop".to_owned()), ("web-dev".to_owned(), "shop-dev".to_owned())];
        let cases = [
            ("web", "shop"),
            ("web web-dev web_dev webs", "shop shop-dev web_dev webs"),
            ("a-web a.web. (web)web::web", "a-web a.shop. (shop)shop::shop"),
            ("Web üweb web", "Web üshop shop"),
        ];
        for (text, expected) in cases {
            assert_eq!(replace(text, &words), expected);
        }
    }

    /// Each word with the name of a kind or of the project is one that is replaced. Another one
    /// would stay in every project.
    #[test]
    fn the_template_has_no_name_that_would_stay() {
        let mut known: BTreeSet<String> = project_words(PROJECT).into_iter().map(|(from, _)| from).collect();
        for kind in [&NAMESPACED, &CLUSTER_SCOPED, &EXTERNAL] {
            known.extend(kind_words(&kind.api()).into_iter().map(|(from, _)| from));
        }
        for (path, text) in PROJECT_FILES.iter().chain(KIND_FILES) {
            for word in text.split(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c)) {
                let lower = word.to_lowercase();
                let is_name = ["website", "tenant", "backup"].iter().any(|name| lower.contains(name));
                assert!(!is_name || known.contains(word), "{path}: {word} would stay in every project");
            }
        }
    }

    #[test]
    fn the_code_of_kinds_imports_types_that_no_kind_may_have_as_name() {
        for name in ["ConfigMap", "Manager", "Condition", "Reconciler"] {
            assert!(imports(name), "{name}");
        }
        for name in ["Website", "WebsiteSpec", "CronJob", "TenantReconciler"] {
            assert!(!imports(name), "{name}");
        }
    }
}
