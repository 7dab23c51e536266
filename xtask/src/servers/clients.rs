//! The program with Go clients in the cache.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::build::{Build, require_go};
use super::cache::Entry;

/// Where the tests look for it: the very file that the tests use.
#[path = "../../../crates/steersman-testing/tests/programs/home.rs"]
mod home;

/// The program's path. It is built if it is not there.
pub(crate) fn provide() -> Result<PathBuf> {
    let folder = home::folder().context("neither XDG_CACHE_HOME nor HOME is set: no place for the servers")?;
    Entry::new(folder, home::FILE_NAME).provide(build)
}

fn build(to: &Path) -> Result<()> {
    require_go(home::FILE_NAME, "with the Go clients")?;
    Build { label: home::FILE_NAME, module: "clients", package: ".", flags: "-s -w" }.run(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_are_kept_with_the_servers() {
        let cache = super::super::cache_dir().unwrap().join("servers");
        assert_eq!(home::folder().unwrap().parent(), Some(cache.as_path()));
    }
}
