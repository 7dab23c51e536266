//! The rule for public names: each has one meaning in the whole workspace.
//!
//! The snapshots of the public API in `api/` have the names that our crates declare. Each `lib.rs`
//! has those that a crate re-exports from a dependency: a snapshot does not show whose they are.

use std::collections::{BTreeMap, BTreeSet};

use super::File;

/// Each crate has one, by Rust's convention.
const IN_EACH_CRATE: [&str; 1] = ["Error"];

/// A name that two items have.
pub(super) fn check(files: &[File]) -> Vec<String> {
    let mut meanings: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        if file.path.starts_with("api") && file.has_extension("txt") {
            for (path, name) in declared(&file.text) {
                meanings.entry(name).or_default().insert(path.to_owned());
            }
        } else if file.path.starts_with("crates") && file.path.ends_with("src/lib.rs") {
            for name in re_exported(&file.text) {
                let of_dependency = format!("what {} re-exports from a dependency", file.path.display());
                meanings.entry(name).or_default().insert(of_dependency);
            }
        }
    }
    let meanings = meanings.into_iter().filter(|(name, _)| !IN_EACH_CRATE.contains(name));
    let ambiguous = meanings.map(|(name, meanings)| (name, distinct(&meanings))).filter(|(_, found)| found.len() > 1);
    ambiguous.map(|(name, found)| format!("the public name {name} has two meanings: {}", found.join(", "))).collect()
}

/// One path for each item: the root of a crate re-exports what its modules declare, and the same
/// item of a dependency may be re-exported twice.
fn distinct(paths: &BTreeSet<String>) -> Vec<String> {
    let crate_of = |path: &str| path.split("::").next().unwrap_or_default().to_owned();
    let is_root = |path: &str| path.matches("::").count() == 1;
    let is_ours = |path: &str| path.contains("::");
    let mut found: Vec<String> = Vec::new();
    for path in paths {
        let below_root = |other: &String| other != path && crate_of(other) == crate_of(path);
        let repeats = if is_ours(path) {
            is_root(path) && paths.iter().any(below_root)
        } else {
            found.iter().any(|found| !is_ours(found))
        };
        if !repeats {
            found.push(path.clone());
        }
    }
    found
}

/// The types and traits of a snapshot, each with its path.
fn declared(snapshot: &str) -> impl Iterator<Item = (&str, &str)> {
    snapshot.lines().filter_map(|line| {
        let item = line.strip_prefix("#[non_exhaustive] ").unwrap_or(line).strip_prefix("pub ")?;
        let (kind, rest) = item.split_once(' ')?;
        if !matches!(kind, "struct" | "enum" | "union" | "trait" | "type") {
            return None;
        }
        let end = rest.find(|char: char| !(char.is_alphanumeric() || matches!(char, '_' | ':'))).unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches(':');
        let (module, name) = path.rsplit_once("::")?;
        // The associated type of a trait is not a name of its own.
        let in_module = module.split("::").all(|part| part.starts_with(|char: char| char.is_lowercase()));
        (in_module && path.starts_with("steersman")).then_some((path, name))
    })
}

/// The types and traits that the root of a crate re-exports from a crate outside of the workspace.
fn re_exported(lib: &str) -> impl Iterator<Item = &str> {
    let modules: Vec<&str> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    let statements = lib.split("\npub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let foreign = statements.filter(move |path| {
        let root = path.split([':', ' ', '{']).next().unwrap_or_default();
        !root.starts_with("steersman") && !matches!(root, "crate" | "self") && !modules.contains(&root)
    });
    let words = foreign.flat_map(|path| path.split(|char: char| !(char.is_alphanumeric() || char == '_')));
    words.filter(|word| word.starts_with(|char: char| char.is_uppercase()) && word.contains(char::is_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(name: &str, text: &str) -> File {
        File::new(&format!("api/steersman-{name}.txt"), text)
    }

    fn lib(name: &str, text: &str) -> File {
        File::new(&format!("crates/steersman-{name}/src/lib.rs"), text)
    }

    #[test]
    fn a_name_of_two_crates_or_of_two_modules_is_found() {
        let files = [
            api("x", "#[non_exhaustive] pub enum steersman_x::Look\n"),
            api("y", "pub trait steersman_y::Look: core::marker::Send\n"),
        ];
        assert_eq!(check(&files), ["the public name Look has two meanings: steersman_x::Look, steersman_y::Look"]);
        let modules = "pub struct steersman_x::a::Look<'a>\npub struct steersman_x::b::Look\n";
        assert_eq!(check(&[api("x", modules)]).len(), 1);
    }

    #[test]
    fn a_name_of_a_dependency_that_we_declare_too_is_found() {
        let declares = api("x", "pub struct steersman_x::Look\n");
        let foreign = lib("y", "//! Essay.\n\npub use other::eyes::{\n    LOOK_MAX, Look,\n};\n");
        assert_eq!(check(&[declares, foreign]).len(), 1);
        let declares = api("x", "pub struct steersman_x::Look\npub use steersman_y::Look\n");
        let ours = lib("y", "mod eyes;\npub use eyes::Look;\npub use steersman_x::Look;\n");
        assert_eq!(check(&[declares, ours]), [""; 0]);
    }

    #[test]
    fn one_item_on_two_paths_and_associated_types_have_one_meaning() {
        let snapshot = "pub struct steersman_x::Look\npub struct steersman_x::eyes::Look\n\
                        pub type steersman_x::Eye::Found = u8\npub type bool::Found = ()\n\
                        pub type steersman_x::Eye<'a>::Found = u8\npub enum steersman_x::Error\n";
        assert_eq!(check(&[api("x", snapshot), api("y", "pub enum steersman_y::Error\n")]), [""; 0]);
        let twice = [lib("x", "\npub use other::Look;\n"), lib("y", "\npub use other::Look;\n")];
        assert_eq!(check(&twice), [""; 0]);
    }
}
