//! One program in the cache: complete or absent.
//!
//! A program is built in a folder beside its place, its checksum is written, and the folder is
//! renamed. So an entry that exists is complete; one whose checksum does not match is built again.
//! A lock file serializes two runs, and its holder removes the remains of a killed run.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The place of one program in the cache.
pub(crate) struct Entry {
    folder: PathBuf,
    file_name: &'static str,
}

impl Entry {
    /// The entry of the program `file_name` in `folder`, which need not exist.
    pub(crate) fn new(folder: PathBuf, file_name: &'static str) -> Self {
        Self { folder, file_name }
    }

    /// The program's path. `build` creates it if it is missing or damaged.
    pub(crate) fn provide(&self, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let program = self.folder.join(self.file_name);
        let parent = self.folder.parent().expect("an entry lies in a folder");
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;

        let _lock = self.lock()?;
        if self.is_whole() {
            return Ok(program);
        }
        if self.folder.exists() {
            eprintln!("{} is damaged and is built again", program.display());
            fs::remove_dir_all(&self.folder).with_context(|| format!("cannot remove {}", self.folder.display()))?;
        }
        let staging = Staging::create(self.beside("building"))?;
        let made = staging.0.join(self.file_name);
        build(&made)?;
        let sum = checksum(&made).with_context(|| format!("the build left no {}", made.display()))?;
        fs::write(staging.0.join("sha256"), sum)?;
        fs::rename(&staging.0, &self.folder)
            .with_context(|| format!("cannot move the finished program to {}", self.folder.display()))?;
        Ok(program)
    }

    /// Whether the program exists and has its recorded checksum.
    fn is_whole(&self) -> bool {
        let expected = fs::read_to_string(self.folder.join("sha256"));
        let found = checksum(&self.folder.join(self.file_name));
        matches!((expected, found), (Ok(expected), Ok(found)) if expected == found)
    }

    /// Waits until no other run works on this entry. The lock ends with the file handle, and so
    /// with the process.
    fn lock(&self) -> Result<File> {
        let path = self.beside("lock");
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        if file.try_lock().is_err() {
            eprintln!("waiting for another run that provides {}", self.file_name);
            file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Ok(file)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = self.folder.clone().into_os_string();
        path.push(".");
        path.push(ending);
        path.into()
    }
}

/// A folder that is removed with this value, unless it was renamed before.
struct Staging(PathBuf);

impl Staging {
    fn create(path: PathBuf) -> Result<Self> {
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn checksum(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn entry(root: &tempfile::TempDir) -> Entry {
        Entry::new(root.path().join("servers").join("etcd-1"), "etcd")
    }

    fn names_left(root: &tempfile::TempDir) -> Vec<String> {
        let folder = fs::read_dir(root.path().join("servers")).unwrap();
        let mut names: Vec<_> = folder.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn built_once_and_then_found() {
        let root = tempfile::tempdir().unwrap();
        let path = entry(&root).provide(|path| Ok(fs::write(path, "one")?)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(entry(&root).provide(|_| panic!("built twice")).unwrap(), path);
    }

    #[test]
    fn a_failed_build_leaves_nothing_half_made() {
        let root = tempfile::tempdir().unwrap();
        let failed = entry(&root).provide(|path| {
            fs::write(path, "half")?;
            anyhow::bail!("out of disk")
        });
        assert_eq!(failed.unwrap_err().to_string(), "out of disk");
        assert_eq!(names_left(&root), ["etcd-1.lock"]);
    }

    #[test]
    fn what_a_killed_run_left_is_not_taken_for_a_program() {
        let root = tempfile::tempdir().unwrap();
        let left = root.path().join("servers").join("etcd-1.building");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("etcd"), "half").unwrap();
        let path = entry(&root).provide(|path| Ok(fs::write(path, "whole")?)).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "whole");
        assert_eq!(names_left(&root), ["etcd-1", "etcd-1.lock"]);
    }

    #[test]
    fn a_damaged_program_is_built_again() {
        let root = tempfile::tempdir().unwrap();
        let path = entry(&root).provide(|path| Ok(fs::write(path, "good")?)).unwrap();
        for damage in ["bad!", "go"] {
            fs::write(&path, damage).unwrap();
            entry(&root).provide(|path| Ok(fs::write(path, "good")?)).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "good", "after it held {damage:?}");
        }
        fs::remove_file(&path).unwrap();
        entry(&root).provide(|path| Ok(fs::write(path, "good")?)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "good");
    }

    #[test]
    fn two_runs_at_once_build_once() {
        let root = tempfile::tempdir().unwrap();
        let builds = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let path = entry(&root)
                        .provide(|path| {
                            builds.fetch_add(1, Ordering::Relaxed);
                            Ok(fs::write(path, "one")?)
                        })
                        .unwrap();
                    assert_eq!(fs::read_to_string(path).unwrap(), "one");
                });
            }
        });
        assert_eq!(builds.into_inner(), 1);
    }
}
