//! Where Prometheus' own parser is installed: the Python package `prometheus_client`.
//!
//! `cargo xtask servers` puts it where this module looks for it: it is compiled into both, and so
//! depends on nothing but the standard library.

use std::path::PathBuf;

/// The release of the package.
pub(crate) const VERSION: &str = "0.26.0";

/// The folder of its virtual environment. Below `XDG_CACHE_HOME`, or else below `.cache` in the
/// home folder.
pub(crate) fn folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| Some(set("HOME")?.join(".cache")))?;
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    Some(base.join("steersman/servers").join(format!("prometheus-client-{VERSION}-{os}-{arch}")))
}
