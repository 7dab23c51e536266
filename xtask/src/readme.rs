//! Builds the project in the README as a newcomer does: in a folder of its own, outside the
//! workspace. The tests of `docs/testing.md` are added to it, each block as a module.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{process, workspace};

/// Where the README's `Cargo.toml` expects the checkout.
const CHECKOUT: &str = "\"../steersman/";

/// Which tests of the project to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also those that need a real server (`cargo xtask servers`)
    #[arg(long)]
    real_servers: bool,
}

/// Builds the project and runs its tests.
pub(crate) fn run(args: &Args) -> Result<()> {
    let target_directory = workspace::metadata()?.target_directory;
    let real_servers = if args.real_servers { RealServers::Include } else { RealServers::LeaveOut };
    process::run(&mut Project::extract()?.test(&target_directory, real_servers))
}

/// Whether tests on real servers are run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RealServers {
    Include,
    LeaveOut,
}

/// The project's files in a temporary folder, which is removed with this value.
pub(crate) struct Project {
    folder: TempDir,
}

impl Project {
    /// Writes the files of the README. Only the paths of our own crates change, to those of this
    /// checkout.
    pub(crate) fn extract() -> Result<Self> {
        let readme = fs::read_to_string(workspace::root().join("README.md")).context("reading README.md")?;
        let manifest = manifest(&readme, workspace::root())?;
        let testing =
            fs::read_to_string(workspace::root().join("docs/testing.md")).context("reading docs/testing.md")?;
        let mut program = format!("{}\n{}", only_block(&readme, "```rust,no_run")?, only_block(&readme, "```rust")?);
        for (number, block) in blocks(&testing, "```rust").into_iter().enumerate() {
            write!(
                program,
                "\n#[cfg(test)]\nmod testing_page_{number} {{\n#[allow(unused_imports)]\nuse super::*;\n{block}}}\n"
            )?;
        }
        let folder = tempfile::Builder::new().prefix("steersman-readme-").tempdir().context("creating a folder")?;
        let lock = fs::read_to_string(workspace::root().join("Cargo.lock")).context("reading Cargo.lock")?;
        fs::create_dir(folder.path().join("src")).context("creating a folder")?;
        // With the versions of the workspace, so that nothing else is downloaded.
        for (path, text) in [("Cargo.toml", manifest), ("Cargo.lock", lock), ("src/main.rs", program)] {
            fs::write(folder.path().join(path), text).with_context(|| format!("writing {path}"))?;
        }
        Ok(Self { folder })
    }

    /// `cargo test` of the project.
    pub(crate) fn test(&self, target_directory: &Path, real_servers: RealServers) -> Command {
        let mut command = workspace::cargo_outside(self.folder.path(), target_directory);
        command.arg("test");
        if real_servers == RealServers::LeaveOut {
            command.args(["--", "--skip", "::real_"]);
        }
        command
    }
}

/// The README's `Cargo.toml`, with our crates from the checkout at `root`.
fn manifest(readme: &str, root: &Path) -> Result<String> {
    let manifest = only_block(readme, "```toml")?;
    ensure!(manifest.contains(CHECKOUT), "the Cargo.toml in README.md takes no crate from {CHECKOUT}…\"");
    Ok(manifest.replace(CHECKOUT, &format!("\"{}/", root.display())))
}

/// The only code block of the README that begins with this fence.
fn only_block(readme: &str, fence: &str) -> Result<String> {
    let mut blocks = blocks(readme, fence);
    ensure!(blocks.len() == 1, "README.md has {} code blocks that begin with {fence}, not one", blocks.len());
    Ok(blocks.remove(0))
}

/// The code blocks of a page that begin with this fence.
fn blocks(page: &str, fence: &str) -> Vec<String> {
    let fence_line = format!("\n{fence}\n");
    let rests = page.split(&fence_line).skip(1);
    rests.map(|rest| format!("{}\n", rest.split("\n```\n").next().unwrap_or_default())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_paths_of_our_crates_change() {
        let readme = "text\n```toml\na = { path = \"../steersman/crates/a\" }\nb = \"1\"\n```\ntext\n";
        let expected = "a = { path = \"/checkout/crates/a\" }\nb = \"1\"\n";
        assert_eq!(manifest(readme, Path::new("/checkout")).unwrap(), expected);
        assert!(manifest("\n```toml\nb = \"1\"\n```\n", Path::new("/checkout")).is_err());
        assert!(only_block(&readme.repeat(2), "```toml").is_err());
    }
}
