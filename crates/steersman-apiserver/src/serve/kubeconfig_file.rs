//! The kubeconfig of a server as a file in a folder of its own.
//!
//! A killed process removes nothing. So the folder has a file that is locked as long as the process
//! lives; the system releases the lock with the process. The next process that writes such a file
//! removes the folders whose lock is free. Until then the credentials are worthless: the authority
//! that they belong to has ended with the server.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::Serving;

const PREFIX: &str = "steersman-apiserver-";
const LOCK: &str = "lock";

impl Serving {
    /// Writes [the kubeconfig with all rights](Self::kubeconfig) to a new file in the temporary
    /// folder, for programs.
    ///
    /// Only its owner can read the file: it has mode 0600, in a folder with mode 0700. Both are
    /// removed when the value is dropped. The next call of this function by the same user removes
    /// the files of killed processes.
    pub fn kubeconfig_file(&self) -> io::Result<KubeconfigFile> {
        KubeconfigFile::create(&std::env::temp_dir(), self.kubeconfig())
    }
}

/// A kubeconfig in a file, which exists as long as this value: the result of
/// [`Serving::kubeconfig_file`].
#[derive(Debug)]
pub struct KubeconfigFile {
    path: PathBuf,
    // Dropped in this order: another process never sees the folder unlocked.
    _folder: TempDir,
    _lock: File,
}

impl KubeconfigFile {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn create(parent: &Path, kubeconfig: &str) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        let folder = builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700)).tempdir_in(parent)?;
        // It gets its name when it is locked.
        let unnamed = folder.path().join("unlocked");
        let lock = create(&unnamed)?;
        lock.lock()?;
        fs::rename(&unnamed, folder.path().join(LOCK))?;
        let path = folder.path().join("kubeconfig");
        create(&path)?.write_all(kubeconfig.as_bytes())?;
        remove_abandoned(parent, fs::metadata(folder.path())?.uid());
        Ok(Self { path, _folder: folder, _lock: lock })
    }
}

/// A new file that only its owner can read.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Removes the folders in `parent` that killed processes of this user have left. One that cannot be
/// removed stays.
fn remove_abandoned(parent: &Path, user: u32) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        // Neither follows a symbolic link.
        let folder = ours && entry.metadata().is_ok_and(|folder| folder.is_dir() && folder.uid() == user);
        if folder && is_abandoned(&entry.path().join(LOCK)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(lock: &Path) -> bool {
    let regular = fs::symlink_metadata(lock).is_ok_and(|lock| lock.is_file());
    regular && File::open(lock).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_living_processes_and_foreign_ones_stay() {
        let parent = tempfile::tempdir().unwrap();
        let living = KubeconfigFile::create(parent.path(), "one").unwrap();
        let abandoned = KubeconfigFile::create(parent.path(), "two").unwrap();
        let left = abandoned.path().to_owned();
        // Like a killed process: the lock is released, and the folder stays.
        let KubeconfigFile { _folder: folder, _lock: lock, .. } = abandoned;
        let _ = folder.keep();
        drop(lock);
        for (name, lock) in [("steersman-apiserver-starting", None), ("another", Some(LOCK))] {
            fs::create_dir(parent.path().join(name)).unwrap();
            if let Some(lock) = lock {
                fs::write(parent.path().join(name).join(lock), "").unwrap();
            }
        }
        let next = KubeconfigFile::create(parent.path(), "three").unwrap();
        assert!(!left.parent().unwrap().exists());
        assert_eq!(fs::read_to_string(living.path()).unwrap(), "one");
        assert_eq!(fs::read_to_string(next.path()).unwrap(), "three");
        drop((living, next));
        let mut names: Vec<_> = fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["another", "steersman-apiserver-starting"]);
    }

    #[test]
    fn a_folder_of_another_user_stays() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("steersman-apiserver-other");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(LOCK), "").unwrap();
        let user = fs::metadata(&folder).unwrap().uid();
        remove_abandoned(parent.path(), user + 1);
        assert!(folder.exists());
        remove_abandoned(parent.path(), user);
        assert!(!folder.exists());
    }
}
