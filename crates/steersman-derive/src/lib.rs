//! kube's derive macros, with the paths of a program that depends on `steersman` and not on `kube`.
//!
//! The code that `kube-derive` generates names the crates `::kube`, `::k8s_openapi` and
//! `::serde_json`. Without this crate, a program depends on each of them, or writes their paths
//! into every custom resource: `#[kube(crates(kube_core = "steersman::kube::core", …))]`.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use steersman::{CustomResource, Resource};
//!
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Network", namespaced)]
//! pub struct NetworkSpec {
//!     pub cidr: String,
//! }
//!
//! let network = Network::new("blue", NetworkSpec { cidr: "10.0.0.0/24".to_owned() });
//! assert_eq!(network.metadata.name.as_deref(), Some("blue"));
//! assert_eq!(Network::api_version(&()), "example.com/v1");
//! ```
//!
//! A derive macro cannot call another one, but it can emit an item that does. Each macro here emits
//! a copy of its item with kube's derive, with the attribute for the paths, and with
//! [`discard`](macro@discard). The compiler expands the attributes of an item in the order in which
//! they stand: kube's derive reads the copy, and then `discard` removes it. All tokens keep their
//! spans, so the errors of `kube-derive` point at the user's code.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// The crates that the generated code uses, and where a program that depends on `steersman` has
/// them. `serde` and `schemars` are not here: such a program names both in its own derives.
const CRATES: [(&str, &str); 4] = [
    ("kube", "::steersman::kube"),
    ("k8s_openapi", "::steersman::k8s_openapi"),
    ("kube_core", "::steersman::__private::kube_core"),
    ("serde_json", "::steersman::__private::serde_json"),
];

/// Makes a custom resource of the struct of its `spec`: [`kube::CustomResource`], with the crates
/// that `steersman` re-exports.
///
/// A program needs `serde` and `schemars` beside `steersman`. Paths in `#[kube(crates(…))]` replace
/// the default ones: if the program renames its dependency on `steersman`, for instance.
///
/// [`kube::CustomResource`]: https://docs.rs/kube/latest/kube/derive.CustomResource.html
#[proc_macro_derive(CustomResource, attributes(kube))]
pub fn custom_resource(item: TokenStream) -> TokenStream {
    delegate("CustomResource", "kube", &CRATES, item)
}

/// Derives a schema with validation rules: [`kube::KubeSchema`], with the crates that `steersman`
/// re-exports.
///
/// Paths in `#[x_kube(crates(…))]` replace the default ones.
///
/// [`kube::KubeSchema`]: https://docs.rs/kube/latest/kube/derive.KubeSchema.html
#[proc_macro_derive(KubeSchema, attributes(x_kube, schemars, validate))]
pub fn kube_schema(item: TokenStream) -> TokenStream {
    delegate("KubeSchema", "x_kube", &CRATES[2..], item)
}

/// Removes the item. It is for the items that the derive macros of this crate emit.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn discard(_arguments: TokenStream, _item: TokenStream) -> TokenStream {
    TokenStream::new()
}

/// The item with kube's derive macro of this name, to be discarded after it.
fn delegate(derive: &str, attribute: &str, crates: &[(&str, &str)], item: TokenStream) -> TokenStream {
    let mut paths = Paths { crates, is_merged: false };
    let item = paths.merge_into_attributes(attribute, item);
    let attributes = if paths.is_merged { String::new() } else { format!("#[{attribute}(crates({}))]", paths.all()) };
    let mut output =
        parse(&format!("#[derive(::steersman::kube::{derive})] {attributes} #[::steersman::__private::discard]"));
    output.extend(item);
    output
}

/// The paths, and whether the item has an attribute that they were added to.
struct Paths<'a> {
    crates: &'a [(&'a str, &'a str)],
    is_merged: bool,
}

impl Paths<'_> {
    fn all(&self) -> String {
        self.missing_in(&[])
    }

    fn missing_in(&self, named: &[String]) -> String {
        let missing = self.crates.iter().filter(|(name, _)| !named.iter().any(|named| named == name));
        missing.map(|(name, path)| format!("{name} = \"{path}\",")).collect()
    }

    /// Adds the paths to the `crates(…)` of the item's own attribute: a second one would be an
    /// error.
    fn merge_into_attributes(&mut self, attribute: &str, item: TokenStream) -> TokenStream {
        let mut is_attribute = false;
        let tokens = item.into_iter().map(|token| match token {
            TokenTree::Group(group) if is_attribute && group.delimiter() == Delimiter::Bracket => {
                is_attribute = false;
                TokenTree::Group(self.merge_below(&[attribute, "crates"], &group))
            }
            token => {
                is_attribute = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
                token
            }
        });
        tokens.collect()
    }

    /// Adds the paths to the group that follows these names, each within the group of the one
    /// before.
    fn merge_below(&mut self, names: &[&str], group: &Group) -> Group {
        let mut tokens = group.stream();
        match names {
            [] => {
                let named: Vec<_> = tokens.clone().into_iter().map(|token| token.to_string()).collect();
                let separator = if named.last().is_some_and(|last| last != ",") { "," } else { "" };
                let missing = self.missing_in(&named);
                tokens.extend(parse(&format!("{separator}{missing}")));
                self.is_merged = true;
            }
            [name, below @ ..] => {
                let mut is_next = false;
                let merged = tokens.into_iter().map(|token| match token {
                    TokenTree::Group(inner) if is_next && inner.delimiter() == Delimiter::Parenthesis => {
                        is_next = false;
                        TokenTree::Group(self.merge_below(below, &inner))
                    }
                    token => {
                        is_next = matches!(&token, TokenTree::Ident(ident) if ident.to_string() == *name);
                        token
                    }
                });
                tokens = merged.collect();
            }
        }
        let mut merged = Group::new(group.delimiter(), tokens);
        merged.set_span(group.span());
        merged
    }
}

fn parse(code: &str) -> TokenStream {
    code.parse().expect("the code of this crate has valid tokens")
}
