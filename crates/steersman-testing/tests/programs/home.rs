//! Where the program `go-clients` is: client-go and controller-runtime as programs use them.
//!
//! `cargo xtask servers` builds it where this module looks for it: it is compiled into both, and so
//! depends on nothing but the standard library.

use std::path::PathBuf;

/// The name of its file.
pub(crate) const FILE_NAME: &str = "go-clients";

/// Its sources. A program of other sources is another program.
const SOURCES: [&str; 6] = [
    include_str!("../../../../xtask/servers/clients/go.mod"),
    include_str!("../../../../xtask/servers/clients/go.sum"),
    include_str!("../../../../xtask/servers/clients/main.go"),
    include_str!("../../../../xtask/servers/clients/informer.go"),
    include_str!("../../../../xtask/servers/clients/definition.go"),
    include_str!("../../../../xtask/servers/clients/manager.go"),
];

/// The folder of the program. Below `XDG_CACHE_HOME`, or else below `.cache` in the home folder.
pub(crate) fn folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| Some(set("HOME")?.join(".cache")))?;
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    Some(base.join("steersman/servers").join(format!("{FILE_NAME}-{:016x}-{os}-{arch}", checksum())))
}

/// FNV-1a over all sources.
fn checksum() -> u64 {
    SOURCES
        .concat()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
