//! Edits of existing Rust files: text is inserted at, or removed from, a place that the syntax tree
//! shows. Every other byte stays.
//!
//! The one exception: an unused parameter `_manager` of the setup function loses its underscore
//! with the first controller, and gets it back with the last one.

mod chain;
mod modules;
mod references;
mod setup;
mod source;

use proc_macro2::TokenStream;

pub(crate) use references::references;
use source::Source;

/// A line of an existing Rust file that belongs to an API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// `pub mod NAME;`, in the order of the names.
    Module(String),
    /// A call in the chain that begins with `Program::new`, such as `.crd(api::v1::thing::crd)`.
    Call(String),
    /// A statement of the setup function that adds a controller: the path of the function to call,
    /// such as `controllers::thing::add`.
    Setup(String),
}

/// Why an edit was not made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoPlace {
    /// What was looked for, and is not there.
    pub(crate) reason: String,
}

impl NoPlace {
    fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl Edit {
    /// The text with the line. A text that has it already stays as it is.
    pub(crate) fn insert(&self, text: &str) -> Result<String, NoPlace> {
        let source = Source::parse(text)?;
        if self.is_in(&source) {
            return Ok(text.to_owned());
        }
        match self {
            Self::Module(name) => Ok(modules::insert(&source, name)),
            Self::Call(call) => chain::insert(&source, call),
            Self::Setup(function) => setup::insert(&source, function),
        }
    }

    /// The text without the line. A text without it stays as it is.
    pub(crate) fn remove(&self, text: &str) -> Result<String, NoPlace> {
        let source = Source::parse(text)?;
        let removed = match self {
            Self::Module(name) => modules::remove(&source, name),
            Self::Call(call) => chain::remove(&source, call),
            Self::Setup(function) => setup::remove(&source, function),
        };
        match removed {
            None if self.is_in(&source) => Err(NoPlace::new(format!("`{}` is at an unexpected place", self.line()))),
            None => Ok(text.to_owned()),
            Some(text) => Ok(text),
        }
    }

    /// The line, as a user would write it.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Module(name) => format!("pub mod {name};"),
            Self::Call(call) => call.clone(),
            Self::Setup(function) => format!("{function}(manager)?;"),
        }
    }

    /// Where the line belongs.
    pub(crate) fn place(&self) -> &'static str {
        match self {
            Self::Module(_) => "among the modules",
            Self::Call(_) => "in the chain of calls that begins with Program::new",
            Self::Setup(_) => "in the function that gets the manager, before its last expression",
        }
    }

    /// Whether the file has the line somewhere, in whatever form.
    fn is_in(&self, source: &Source<'_>) -> bool {
        match self {
            Self::Module(name) => modules::find(source, name).is_some(),
            Self::Call(call) => source.has(call),
            Self::Setup(function) => source.has(&format!("{function}(")),
        }
    }
}

/// The tokens of a text, separated as `proc_macro2` does it; without the last bracket if that is
/// open.
fn tokens(text: &str) -> String {
    let closed = text.strip_suffix('(').map(|text| format!("{text}()"));
    let tokens: TokenStream = closed.as_deref().unwrap_or(text).parse().unwrap_or_default();
    let tokens = tokens.to_string();
    if closed.is_some() { tokens.trim_end_matches(')').to_owned() } else { tokens }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str) -> Edit {
        Edit::Module(name.to_owned())
    }

    fn call(call: &str) -> Edit {
        Edit::Call(call.to_owned())
    }

    fn setup() -> Edit {
        Edit::Setup("controllers::thing::add".to_owned())
    }

    /// Inserting gives `after`, removing gives `before` again, and doing either twice is doing it
    /// once. Also with the line breaks of Windows, and after a byte order mark.
    #[track_caller]
    fn both_ways(edit: &Edit, before: &str, after: &str) {
        let windows = |text: &str| text.replace('\n', "\r\n");
        let marked = |text: &str| format!("\u{feff}{text}");
        for form in [str::to_owned as fn(&str) -> String, windows, marked] {
            // One line alone shows no line break to copy.
            if form("\n") == "\r\n" && !before.contains('\n') {
                continue;
            }
            let (before, after) = (form(before), form(after));
            assert_eq!(edit.insert(&before).unwrap(), after, "inserted");
            assert_eq!(edit.insert(&after).unwrap(), after, "inserted twice");
            assert_eq!(edit.remove(&after).unwrap(), before, "removed");
            assert_eq!(edit.remove(&before).unwrap(), before, "removed twice");
        }
    }

    #[test]
    fn a_module_is_inserted_in_the_order_of_the_names() {
        let cases = [
            ("pub mod a;\npub mod z;\n", "pub mod a;\npub mod m;\npub mod z;\n"),
            ("pub mod a;\nmod b;\n", "pub mod a;\nmod b;\npub mod m;\n"),
            ("mod z;\n", "pub mod m;\nmod z;\n"),
            ("mod a; // the first\n\nfn f() {}\n", "mod a; // the first\npub mod m;\n\nfn f() {}\n"),
            (
                "mod a;\n\n// About z.\n#[cfg(test)]\nmod z;\n",
                "mod a;\npub mod m;\n\n// About z.\n#[cfg(test)]\nmod z;\n",
            ),
            ("use x::y;\n\n// About z.\nmod z;\n", "use x::y;\n\npub mod m;\n// About z.\nmod z;\n"),
            ("// Licence.\nmod z;\n", "// Licence.\npub mod m;\nmod z;\n"),
            ("mod a;", "mod a;\npub mod m;"),
            ("mod tests {\n    mod q;\n}\nmod z;\n", "mod tests {\n    mod q;\n}\npub mod m;\nmod z;\n"),
            ("/* ü */ mod a;\nmod z; /* ü */\n", "/* ü */ mod a;\npub mod m;\nmod z; /* ü */\n"),
        ];
        for (before, after) in cases {
            both_ways(&module("m"), before, after);
        }
    }

    #[test]
    fn the_first_module_is_separated_by_blank_lines_if_they_are_there() {
        let cases = [
            ("//! About.\n", "//! About.\n\npub mod m;\n"),
            ("//! About.", "//! About.\n\npub mod m;"),
            (
                "//! About.\n\nuse a;\nuse b;\n\nfn f() {}\n",
                "//! About.\n\nuse a;\nuse b;\n\npub mod m;\n\nfn f() {}\n",
            ),
            ("use a;\nfn f() {}\n", "use a;\npub mod m;\nfn f() {}\n"),
            ("use a;\n\n\nfn f() {}\n", "use a;\n\npub mod m;\n\n\nfn f() {}\n"),
            ("fn f() {}\n", "pub mod m;\n\nfn f() {}\n"),
            ("#![allow(x)]\n\nfn f() {}\n", "#![allow(x)]\n\npub mod m;\n\nfn f() {}\n"),
        ];
        for (before, after) in cases {
            both_ways(&module("m"), before, after);
        }
        assert_eq!(module("m").insert("").unwrap(), "pub mod m;\n");
        assert_eq!(module("m").remove("pub mod m;\n").unwrap(), "");
    }

    #[test]
    fn a_module_is_removed_with_its_attributes_and_from_a_line_with_others() {
        let cases = [
            ("mod a;\n/// About.\n#[cfg(x)]\npub mod m;\nmod z;\n", "mod a;\nmod z;\n"),
            ("mod a; pub mod m; mod z;\n", "mod a; mod z;\n"),
            ("pub mod a;\npub(crate) mod m;\n", "pub mod a;\n"),
        ];
        for (before, after) in cases {
            assert_eq!(module("m").remove(before).unwrap(), after);
        }
    }

    const NEW: &str = "Program::new(NAME, VERSION, setup)";

    #[test]
    fn a_call_follows_the_last_one_of_its_sort() {
        let cases = [
            (format!("fn p() -> P {{\n    {NEW}\n}}\n"), format!("fn p() -> P {{\n    {NEW}\n        .crd(m)\n}}\n")),
            (
                format!(
                    "fn p() {{\n    {NEW}\n        .crd(a) // a\n        .samples(s)\n        .operator(|o| o)\n}}\n"
                ),
                format!(
                    "fn p() {{\n    {NEW}\n        .crd(a) // a\n        .samples(s)\n        .crd(m)\n        .operator(|o| o)\n}}\n"
                ),
            ),
            (
                format!("fn p() {{\n\t{NEW}\n\t\t.operator(|o| o)\n}}\n"),
                format!("fn p() {{\n\t{NEW}\n\t\t.crd(m)\n\t\t.operator(|o| o)\n}}\n"),
            ),
            (
                format!("fn p() {{\n    let p = s::{NEW};\n    p.main()\n}}\n"),
                format!("fn p() {{\n    let p = s::{NEW}\n        .crd(m);\n    p.main()\n}}\n"),
            ),
            (
                format!("fn p() {{ \"ü\"; {NEW}.crd(a).operator(b(c)) }}\n"),
                format!("fn p() {{ \"ü\"; {NEW}.crd(a)\n    .crd(m).operator(b(c)) }}\n"),
            ),
        ];
        for (before, after) in cases {
            both_ways(&call(".crd(m)"), &before, &after);
        }
    }

    #[test]
    fn a_comment_above_a_removed_call_stays() {
        let before = format!("fn p() {{\n    {NEW}\n        // About m.\n        .crd(m);\n}}\n");
        let after = format!("fn p() {{\n    {NEW}\n        // About m.\n        ;\n}}\n");
        assert_eq!(call(".crd(m)").remove(&before).unwrap(), after);
    }

    #[test]
    fn a_call_is_found_in_whatever_form() {
        let text = format!("fn p() {{ {NEW}.samples( include_str!(\"../samples/m.yaml\",) ).crd(\n  a::m\n) }}\n");
        assert_eq!(call(".crd(a::m)").insert(&text).unwrap(), text);
        let in_macro = format!("fn p() {{ all![{NEW}.crd(a::m)] }}\n");
        assert_eq!(call(".crd(a::m)").insert(&in_macro).unwrap(), in_macro);
        assert!(call(".crd(a::m)").remove(&in_macro).unwrap_err().reason.contains("unexpected place"));
    }

    #[test]
    fn a_file_without_one_chain_has_no_place_for_a_call() {
        let two = format!("fn a() {{ {NEW} }}\nfn b() {{ {NEW} }}\n");
        let in_macro = format!("fn p() {{ all![{NEW}] }}\n");
        let cases = [
            ("fn p() {}\n", "there is no call of Program::new"),
            (&two, "there are 2 calls"),
            (&in_macro, "there is no call"),
            ("fn p( {}\n", "it is not valid Rust, line 1"),
            ("#!/bin/sh\n", "as a script does"),
        ];
        for (text, reason) in cases {
            assert!(call(".crd(m)").insert(text).unwrap_err().reason.contains(reason), "{text}");
        }
    }

    #[test]
    fn a_controller_is_added_before_the_end_of_the_setup() {
        let cases = [
            (
                "fn setup(m: &M) -> R {\n    a(m)?;\n    Ok(())\n}\n",
                "fn setup(m: &M) -> R {\n    a(m)?;\n    ADD(m)?;\n    Ok(())\n}\n",
            ),
            ("fn setup(_m: &M) -> R {\n    Ok(())\n}\n", "fn setup(m: &M) -> R {\n    ADD(m)?;\n    Ok(())\n}\n"),
            ("fn setup(_m: &M) -> R { Ok(()) }\n", "fn setup(m: &M) -> R { ADD(m)?; Ok(()) }\n"),
            (
                "fn setup(m: &M) -> R {\n    a(m)?;\n\n    // Done.\n    return Ok(());\n}\n",
                "fn setup(m: &M) -> R {\n    a(m)?;\n\n    ADD(m)?;\n    // Done.\n    return Ok(());\n}\n",
            ),
            (
                "fn setup(m: &M) -> R {\n    // Only.\n    a(m)\n}\n",
                "fn setup(m: &M) -> R {\n    ADD(m)?;\n    // Only.\n    a(m)\n}\n",
            ),
        ];
        for (before, after) in cases {
            let program = format!("fn p() {{ {NEW} }}\n");
            let after = after.replace("ADD", "controllers::thing::add");
            both_ways(&setup(), &format!("{program}{before}"), &format!("{program}{after}"));
            both_ways(&setup(), &format!("{before}{program}"), &format!("{after}{program}"));
        }
    }

    #[test]
    fn the_setup_may_be_a_closure() {
        let before = "fn p() { Program::with_flags::<F>(N, V, |manager: &Manager, flags| {\n    a(manager)\n}) }\n";
        let after = "fn p() { Program::with_flags::<F>(N, V, |manager: &Manager, flags| {\n    controllers::thing::add(manager)?;\n    a(manager)\n}) }\n";
        both_ways(&setup(), before, after);
    }

    #[test]
    fn an_underscore_stays_if_the_name_without_it_has_another_meaning() {
        let text = format!("fn p() {{ {NEW} }}\nfn setup(_m: &M) -> R {{\n    let m = 1;\n    Ok(m)\n}}\n");
        let inserted = setup().insert(&text).unwrap();
        assert!(inserted.contains("(_m: &M)") && inserted.contains("controllers::thing::add(_m)?;"), "{inserted}");
        assert_eq!(setup().remove(&inserted).unwrap(), text);
    }

    #[test]
    fn a_setup_in_another_form_has_no_place() {
        let cases = [
            ("fn p() { Program::new(N, V) }", "is missing"),
            ("fn p() { Program::new(N, V, other::setup) }", "is not in this file"),
            ("fn p() { Program::new(N, V, setup) }", "setup, is not in this file"),
            ("fn p() { Program::new(N, V, |m| a(m)) }", "a closure without a block"),
            ("fn p() { Program::new(N, V, f()) }", "neither a function"),
            ("fn p() { Program::new(N, V, setup) } fn setup(_: &M) -> R { Ok(()) }", "has no name"),
            ("fn p() { Program::new(N, V, setup) } fn setup(m: &M) -> R { loop {}; }", "does not end with"),
        ];
        for (text, reason) in cases {
            let error = setup().insert(text).unwrap_err();
            assert!(error.reason.contains(reason), "{text}: {}", error.reason);
        }
    }

    #[test]
    fn a_call_with_other_arguments_is_removed_too() {
        let text = format!(
            "fn p() {{ {NEW} }}\nfn setup(m: &M) -> R {{\n    crate::controllers::thing::add(m, 7)?;\n    b(m)\n}}\n"
        );
        let removed = setup().remove(&text).unwrap();
        assert_eq!(removed, format!("fn p() {{ {NEW} }}\nfn setup(m: &M) -> R {{\n    b(m)\n}}\n"));
    }

    #[test]
    fn references_are_found_in_paths_imports_and_macros() {
        let text = "use a::v1::thing;\nuse a::{v1::{other, thing::T}, x};\nfn f() { m!(v1 :: thing) }\n// v1::thing\n";
        let lines: Vec<usize> = references(text, "v1", "thing").iter().map(|found| found.line).collect();
        assert_eq!(lines, [1, 2, 3]);
        assert_eq!(references("use a::v2::thing; use v1::things; fn thing() { v1; thing }", "v1", "thing"), []);
        assert_eq!(references("use v1::{a, thing};", "v1", "thing").len(), 1);
        assert_eq!(references("use v1::{a::thing};", "v1", "thing"), []);
    }
}
