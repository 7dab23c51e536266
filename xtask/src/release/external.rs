//! External types: which dependencies may appear in the public API of a library.
//!
//! A type of another crate in our API ties our versions to its versions: its next breaking release
//! is one of ours. So each is chosen, and listed here.

use std::collections::BTreeSet;

use super::api::crate_name;

/// Crates that come with the compiler.
const STANDARD: [&str; 4] = ["alloc", "core", "std", "proc_macro"];
/// Types without a crate, for which a library implements its traits.
const PRIMITIVE: [&str; 4] = ["bool", "str", "u64", "usize"];
/// Libraries, and the crates that their public types may name beside ours. `kube_core` is what
/// `kube` re-exports, and `serde_core` what `serde` does.
const ALLOWED: &[(&str, &[&str])] = &[
    ("steersman", &[]),
    // The server is a `tower::Service` of `http`'s requests and responses, so that any HTTP stack
    // can call it. Its body is the boxed one of hyper's family.
    ("steersman-apiserver", &["bytes", "http", "http_body", "http_body_util", "tower_service"]),
    // `ObjectKey::to_meta` and the bounds of typed objects: those that kube and k8s-openapi set.
    ("steersman-cache", &["k8s_openapi", "kube_core", "serde_core"]),
    // - kube's types are those that users know: the configuration, parameters, patches and kinds.
    // - `futures_core`: watches and logs are streams.
    // - `tower_service`, `http`, `http_body`, `hyper` and `hyper_util` are the bounds of the two
    //   functions that take a transport: `build_over` and `build_with_connector`.
    (
        "steersman-client",
        &[
            "bytes",
            "futures_core",
            "http",
            "http_body",
            "hyper",
            "hyper_util",
            "k8s_openapi",
            "kube_client",
            "kube_core",
            "serde_core",
            "serde_json",
            "tower_service",
        ],
    ),
    ("steersman-derive", &[]),
    // Handlers take requests and return responses of `http`, with the boxed body of hyper's family.
    // `tokio`: `stall_guard` wraps any stream of tokio.
    ("steersman-http", &["bytes", "http", "http_body", "http_body_util", "tokio"]),
    // Manifests of kinds: the derives of kube and schemars, CRDs of k8s-openapi.
    ("steersman-manifests", &["k8s_openapi", "kube_core", "schemars", "serde_json"]),
    // - `clap_builder`: programs have flags of their own, with clap's derive.
    // - `tracing` and `tracing_subscriber`: the log is a layer that a program combines with others.
    // - `k8s_openapi` and `serde_json`: CRDs and samples.
    ("steersman-program", &["clap_builder", "k8s_openapi", "serde_json", "tracing_core", "tracing_subscriber"]),
    // As the client, whose types `Objects` takes. `prometheus_client` is the registry in which
    // programs register metrics of their own.
    ("steersman-runtime", &["futures_core", "jiff", "k8s_openapi", "kube_core", "prometheus_client", "serde_core"]),
    // `kube_client`, for tests of controllers that use kube; `jiff` and `serde_json` in the events
    // of the audit log.
    ("steersman-testing", &["jiff", "kube_client", "serde_core", "serde_json"]),
    // Bodies are `Bytes`, so that objects share the buffer that they arrived in.
    ("steersman-wire", &["bytes", "serde_core", "serde_json"]),
    ("steersman-workqueue", &[]),
    // The wall clock is a `jiff::Timestamp`, as the timestamps of k8s-openapi are.
    ("steersman-world", &["jiff"]),
];

/// Complaints about external types in `api`, and about crates that are allowed and do not appear.
pub(super) fn check(package: &str, api: &[String]) -> Vec<String> {
    match ALLOWED.iter().find(|(library, _)| *library == package) {
        Some((_, allowed)) => check_against(package, api, allowed),
        None => vec![format!("{package}: not in ALLOWED of xtask/src/release/external.rs: add what its API may name")],
    }
}

fn check_against(package: &str, api: &[String], allowed: &[&str]) -> Vec<String> {
    let own = crate_name(package);
    let mut found = BTreeSet::new();
    let mut complaints = Vec::new();
    for item in api {
        for root in roots(item) {
            if root == own || STANDARD.contains(&root) || PRIMITIVE.contains(&root) || root.starts_with("steersman_") {
                continue;
            }
            if found.insert(root) && !allowed.contains(&root) {
                complaints.push(format!(
                    "{package}: a type of `{root}` is in the public API: hide it, or allow it in \
                     xtask/src/release/external.rs: {item}"
                ));
            }
        }
    }
    let unused = allowed.iter().filter(|name| !found.contains(*name));
    complaints.extend(unused.map(|name| format!("{package}: `{name}` is allowed in its public API and not there")));
    complaints
}

/// The first segment of each path in an item: the crate that defines it.
fn roots(item: &str) -> impl Iterator<Item = &str> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = item.as_bytes();
    item.match_indices("::").filter_map(move |(end, _)| {
        let length = bytes[..end].iter().rev().take_while(|byte| is_name(**byte)).count();
        let start = end - length;
        let name = &item[start..end];
        let is_first = !item[..start].ends_with("::");
        // `Self::Item` and `T::Output` are paths of no crate.
        (is_first && name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_of_each_path_is_found() {
        let roots = |item| roots(item).collect::<Vec<_>>();
        let item =
            "pub fn a::B::c<T: serde_core::de::Deserialize<'de>>(&self, core::option::Option<http::Uri>) -> T::Out";
        assert_eq!(roots(item), ["a", "serde_core", "core", "http"]);
        assert_eq!(roots("impl<K> a::B for a::C<K> where Self::D: <K as b::E>::F"), ["a", "a", "b"]);
    }

    #[test]
    fn a_type_of_a_crate_that_is_not_allowed_is_found() {
        let api = ["pub fn my_lib::a(tokio::time::Instant, http::Uri)".to_owned()];
        let complaints = check_against("my-lib", &api, &["http"]);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].contains("`tokio`"), "{complaints:?}");
        assert_eq!(check_against("my-lib", &api, &["http", "tokio"]), [""; 0]);
        let primitive = ["pub fn bool::found(self)".to_owned()];
        assert_eq!(check_against("my-lib", &primitive, &[]), [""; 0]);
    }

    #[test]
    fn an_allowed_crate_that_does_not_appear_is_found() {
        assert_eq!(check_against("my-lib", &[], &["http"]).len(), 1);
    }

    #[test]
    fn a_library_that_is_not_listed_is_found() {
        assert_eq!(check("steersman-new", &[]).len(), 1);
    }
}
