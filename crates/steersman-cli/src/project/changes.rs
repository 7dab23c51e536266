//! Changes of files: collected in memory, checked, and applied all or not at all.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Whether files of the user may be overwritten or deleted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    Yes,
    No,
}

impl Force {
    pub(crate) fn from_flag(flag: bool) -> Self {
        if flag { Self::Yes } else { Self::No }
    }
}

/// The changes of one command, in the order in which they are listed.
pub(crate) struct Changes {
    root: PathBuf,
    list: Vec<Change>,
}

/// One changed file.
struct Change {
    /// Relative to the root, with `/`.
    path: String,
    before: Option<Vec<u8>>,
    after: Option<String>,
}

impl Change {
    fn verb(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "created",
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "deleted",
        }
    }

    /// Whether applying it changes a byte.
    fn is_needed(&self) -> bool {
        self.before.as_deref() != self.after.as_ref().map(String::as_bytes)
    }
}

impl Changes {
    /// No changes below `root` yet.
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), list: Vec::new() }
    }

    /// The text of a file as it will be: after the changes that are collected already. `None` if
    /// there is no such file.
    pub(crate) fn read(&self, path: &str) -> Result<Option<String>> {
        if let Some(change) = self.list.iter().find(|change| change.path == path) {
            return Ok(change.after.clone());
        }
        let Some(bytes) = self.on_disk(path)? else { return Ok(None) };
        let text = String::from_utf8(bytes).with_context(|| format!("{path} is not UTF-8 text"))?;
        Ok(Some(text))
    }

    /// Writes a file.
    pub(crate) fn write(&mut self, path: &str, text: String) -> Result<()> {
        self.set(path, Some(text))
    }

    /// Deletes a file.
    pub(crate) fn delete(&mut self, path: &str) -> Result<()> {
        self.set(path, None)
    }

    fn set(&mut self, path: &str, after: Option<String>) -> Result<()> {
        if let Some(change) = self.list.iter_mut().find(|change| change.path == path) {
            change.after = after;
            return Ok(());
        }
        let before = self.on_disk(path)?;
        self.list.push(Change { path: path.to_owned(), before, after });
        Ok(())
    }

    fn on_disk(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let full = self.root.join(path);
        match fs::read(&full) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", full.display())),
        }
    }

    /// The paths that exist and would be replaced.
    pub(crate) fn replaced(&self) -> Vec<&str> {
        let replaced = self.list.iter().filter(|change| change.before.is_some() && change.is_needed());
        replaced.map(|change| change.path.as_str()).collect()
    }

    /// Applies all changes, and returns a line for each. If one fails, those before it are undone.
    pub(crate) fn apply(self) -> Result<Vec<String>> {
        let mut undo = Undo { root: &self.root, done: Vec::new(), folders: Vec::new() };
        let mut lines = Vec::new();
        for change in self.list.iter().filter(|change| change.is_needed()) {
            if let Err(error) = undo.apply(change) {
                let problem = explain(&self.root.join(&change.path), &error);
                return match undo.all() {
                    Ok(()) => Err(error).context(problem),
                    Err(second) => bail!("{problem}: {error}. Undoing the other changes failed, too: {second:#}"),
                };
            }
            lines.push(format!("{} {}", change.verb(), change.path));
        }
        Ok(lines)
    }
}

/// What failed, and what to do.
fn explain(path: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => "no permission: give yourself the right to write to its folder",
        io::ErrorKind::ReadOnlyFilesystem => "choose a folder that can be written to",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => "a file is where a folder is needed: rename it",
        _ => "nothing was changed",
    };
    format!("cannot write {}, {advice}", path.display())
}

/// What was done so far, so that it can be undone.
struct Undo<'a> {
    root: &'a Path,
    done: Vec<&'a Change>,
    /// The folders that were created, outer ones first.
    folders: Vec<PathBuf>,
}

impl<'a> Undo<'a> {
    fn apply(&mut self, change: &'a Change) -> io::Result<()> {
        let path = self.root.join(&change.path);
        match &change.after {
            Some(text) => {
                self.create_folders(&path)?;
                replace(&path, text.as_bytes())?;
            }
            None => {
                fs::remove_file(&path)?;
                remove_empty_folders(&path, self.root);
            }
        }
        self.done.push(change);
        Ok(())
    }

    fn create_folders(&mut self, path: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder)?;
            self.folders.push(folder.to_owned());
        }
        Ok(())
    }

    fn all(self) -> Result<()> {
        for change in self.done.iter().rev() {
            let path = self.root.join(&change.path);
            let restored = match &change.before {
                Some(bytes) => {
                    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
                    folder.and_then(|()| replace(&path, bytes))
                }
                None => fs::remove_file(&path),
            };
            restored.with_context(|| format!("cannot restore {}", path.display()))?;
        }
        for folder in self.folders.iter().rev() {
            // It is empty, unless another program has put something there.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }
}

/// Replaces a file as a whole, with the permissions that it has. A link stays a link.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let existing = fs::metadata(&target).ok().map(|metadata| metadata.permissions());
    let folder = target.parent().ok_or(io::ErrorKind::NotFound)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".steersman-").permissions(permissions());
    let mut file = builder.tempfile_in(folder).map_err(without_path)?;
    file.write_all(bytes)?;
    if let Some(permissions) = existing {
        file.as_file().set_permissions(permissions)?;
    }
    file.persist(&target)?;
    Ok(())
}

/// The name of a temporary file is of no use in an error.
fn without_path(error: io::Error) -> io::Error {
    error.raw_os_error().map_or(error, io::Error::from_raw_os_error)
}

/// Those of a new file, less what the user's mask removes.
#[cfg(unix)]
fn permissions() -> Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

/// Removes the folders above a deleted file that are empty now, up to the root.
fn remove_empty_folders(path: &Path, root: &Path) {
    for folder in path.ancestors().skip(1).take_while(|folder| *folder != root) {
        // One that is not empty stays, with those above it.
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files below a folder, with their texts.
    fn tree(root: &Path) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().display().to_string();
                if path.is_dir() {
                    found.push((name, String::new()));
                    folders.push(path);
                } else {
                    found.push((name, fs::read_to_string(path).unwrap()));
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn a_change_that_fails_undoes_those_before_it() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("src")).unwrap();
        for (path, text) in [("src/lib.rs", "old"), ("old", "old"), ("blocked", "a file")] {
            fs::write(root.path().join(path), text).unwrap();
        }
        let before = tree(root.path());
        let mut changes = Changes::new(root.path());
        changes.write("src/lib.rs", "new".to_owned()).unwrap();
        changes.write("a/b/c", "new".to_owned()).unwrap();
        changes.delete("old").unwrap();
        // `on_disk` cannot read it either, so the change is made by hand.
        changes.list.push(Change { path: "blocked/d".to_owned(), before: None, after: Some("new".to_owned()) });
        let error = changes.apply().unwrap_err();
        assert!(format!("{error:#}").contains("a file is where a folder is needed"), "{error:#}");
        assert_eq!(tree(root.path()), before);
    }

    #[test]
    fn folders_that_become_empty_are_deleted() {
        let root = tempfile::tempdir().unwrap();
        let mut changes = Changes::new(root.path());
        changes.write("a/b/c", "c".to_owned()).unwrap();
        changes.write("a/d", "d".to_owned()).unwrap();
        assert_eq!(changes.apply().unwrap(), ["created a/b/c", "created a/d"]);
        let mut changes = Changes::new(root.path());
        changes.delete("a/b/c").unwrap();
        assert_eq!(changes.apply().unwrap(), ["deleted a/b/c"]);
        assert_eq!(tree(root.path()), [("a".to_owned(), String::new()), ("a/d".to_owned(), "d".to_owned())]);
    }

    #[cfg(unix)]
    #[test]
    fn a_changed_file_keeps_its_permissions_and_a_link_stays_a_link() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("script"), "old").unwrap();
        fs::set_permissions(root.path().join("script"), Permissions::from_mode(0o750)).unwrap();
        symlink("script", root.path().join("link")).unwrap();
        let mut changes = Changes::new(root.path());
        changes.write("link", "new".to_owned()).unwrap();
        changes.apply().unwrap();
        assert!(fs::symlink_metadata(root.path().join("link")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(root.path().join("script")).unwrap(), "new");
        assert_eq!(fs::metadata(root.path().join("script")).unwrap().permissions().mode() & 0o777, 0o750);
    }
}
