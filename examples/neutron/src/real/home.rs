//! Where Neutron and Keystone are installed.
//!
//! `cargo xtask servers` installs them where this module looks for them. It is compiled into both,
//! so it uses only the standard library.

use std::path::PathBuf;

/// The release of Neutron that tests run against.
pub const NEUTRON_VERSION: &str = "29.0.0";
/// The release of Keystone that tests run against.
pub const KEYSTONE_VERSION: &str = "30.0.0";

/// The folder of this installation: one for each release, and for each change of the installation.
/// It is below `XDG_CACHE_HOME`, or else below `.cache` in the home folder.
pub(super) fn folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| Some(set("HOME")?.join(".cache")))?;
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let contents = concat!(
        include_str!("../../server/constraints.txt"),
        include_str!("../../server/prepare.py"),
        include_str!("../../server/keystone.conf"),
    );
    let name = format!("neutron-{NEUTRON_VERSION}-{:08x}-{os}-{arch}", checksum(contents));
    Some(base.join("steersman/servers").join(name))
}

/// FNV-1a.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
