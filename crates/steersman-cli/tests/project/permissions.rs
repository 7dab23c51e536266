//! Without the right to write, nothing is changed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{CREATE, Workplace, fails};

/// A user without rights. Root may write everywhere.
const NOBODY: u32 = 65534;

/// The command as a user for whom permissions count. `copy` is where that user can read it.
fn run(folder: &Path, copy: &Path, arguments: &str) -> Output {
    let is_root = nix::unistd::geteuid().is_root();
    let mut command = Command::new(if is_root { copy } else { Path::new(env!("CARGO_BIN_EXE_steersman")) });
    command.args(arguments.split_whitespace()).current_dir(folder);
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().unwrap()
}

/// A copy of the command in a folder that every user can read.
fn copied(place: &Workplace) -> PathBuf {
    fs::set_permissions(place.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let copy = place.folder.path().join("steersman");
    if nix::unistd::geteuid().is_root() {
        fs::copy(env!("CARGO_BIN_EXE_steersman"), &copy).unwrap();
    }
    copy
}

#[test]
fn a_project_is_not_begun_in_a_folder_that_cannot_be_written() {
    let place = Workplace::empty();
    let copy = copied(&place);
    let folder = place.folder.path().join("closed");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o555)).unwrap();
    let error = fails(&run(&folder, &copy, "init web"), "no permission: give yourself the right to write");
    assert!(error.contains("/closed/web/") && error.contains("Permission denied"), "{error}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn an_api_is_not_half_created() {
    let place = Workplace::with_project();
    let copy = copied(&place);
    // The last files that the command writes cannot be written, the first ones can.
    for (path, mode) in [("src/api", 0o777), ("src", 0o777), ("tests", 0o777), ("src/controllers", 0o555), ("", 0o777)]
    {
        fs::set_permissions(place.root().join(path), Permissions::from_mode(mode)).unwrap();
    }
    let before = place.tree();
    fails(&run(&place.root(), &copy, CREATE), "src/controllers/page.rs, no permission");
    place.is_as(&before, "not as before");
    fs::set_permissions(place.root().join("src/controllers"), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_folder_that_cannot_be_read_is_named() {
    let place = Workplace::with_project();
    let copy = copied(&place);
    fs::set_permissions(place.root().join("src"), Permissions::from_mode(0o000)).unwrap();
    let error = fails(&run(&place.root(), &copy, CREATE), "cannot read");
    fs::set_permissions(place.root().join("src"), Permissions::from_mode(0o755)).unwrap();
    assert!(error.contains("/web-operator/src/"), "{error}");
}
