//! Which files have changed.
//!
//! The files are compared every fifth of a second. A project has few of them, so that this costs
//! next to nothing, and it works on every file system: file events do not arrive from network
//! mounts and from the host of a container. The maintained crate for such events has a licence
//! that this project does not take (`notify`, CC0-1.0), and others are for one system only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the files are compared. A change is reported when the files have not changed since the
/// last time: editors and `git` write several files in a row.
const INTERVAL: Duration = Duration::from_millis(200);
/// The content of a larger file is not compared.
const BYTES_MAX: u64 = 16 << 20;
/// What is watched in a project, beside the files that the build has read.
const SOURCES: [&str; 7] =
    ["src", "build.rs", "Cargo.toml", "Cargo.lock", ".cargo/config.toml", "rust-toolchain.toml", "rust-toolchain"];
/// The folder of the samples.
pub(super) const SAMPLES: &str = "samples";

/// Files that have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    /// Relative to the project where they are in it.
    pub(super) files: Vec<PathBuf>,
    pub(super) sources: bool,
    pub(super) samples: bool,
}

/// The files that a build has read, also outside of the project.
#[derive(Debug, Clone, Default)]
pub(super) struct FilesRead(Arc<Mutex<BTreeSet<PathBuf>>>);

impl FilesRead {
    pub(super) fn set(&self, files: BTreeSet<PathBuf>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }

    fn get(&self) -> BTreeSet<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// When and how a file was written last.
type Stamp = (u64, u64, i64, i64, i64, i64);
type Files = BTreeMap<PathBuf, (Stamp, u64)>;

/// Compares the files of a project.
#[derive(Debug)]
pub(super) struct Watcher {
    project: PathBuf,
    files_read: FilesRead,
    /// The files that were read by a build at the last look.
    read_before: BTreeSet<PathBuf>,
    /// The files at the last look.
    last: Files,
    /// The contents that were reported last.
    reported: BTreeMap<PathBuf, u64>,
}

impl Watcher {
    /// Changes from now on are found.
    pub(super) fn new(project: &Path, files_read: FilesRead) -> Self {
        let (project, read_before) = (project.to_owned(), BTreeSet::new());
        let mut watcher = Self { project, files_read, read_before, last: Files::new(), reported: BTreeMap::new() };
        watcher.last = watcher.look();
        watcher.reported = contents(&watcher.last);
        watcher
    }

    /// Calls `report` with each change, in a thread of its own, until it returns `false`.
    pub(super) fn spawn(mut self, report: impl Fn(Changed) -> bool + Send + 'static) -> io::Result<()> {
        let watch = move || {
            loop {
                std::thread::sleep(INTERVAL);
                if self.poll().is_some_and(|changed| !report(changed)) {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("watch".to_owned()).spawn(watch).map(drop)
    }

    /// The change since the last report, once it has settled.
    fn poll(&mut self) -> Option<Changed> {
        let files = self.look();
        let has_settled = files == self.last;
        self.last = files;
        if !has_settled {
            return None;
        }
        let contents = contents(&self.last);
        let is_other = |path: &&PathBuf| contents.get(*path) != self.reported.get(*path);
        let changed: BTreeSet<&PathBuf> = contents.keys().chain(self.reported.keys()).filter(is_other).collect();
        if changed.is_empty() {
            return None;
        }
        let relative = |path: &PathBuf| path.strip_prefix(&self.project).unwrap_or(path).to_owned();
        let files: Vec<PathBuf> = changed.into_iter().map(relative).collect();
        let is_sample = |file: &PathBuf| file.starts_with(SAMPLES);
        let (samples, sources) = (files.iter().any(is_sample), !files.iter().all(is_sample));
        self.reported = contents;
        Some(Changed { files, sources, samples })
    }

    /// All files as they are now.
    fn look(&mut self) -> Files {
        let mut files = Files::new();
        let add = |files: &mut Files, path: PathBuf, metadata: &Metadata| {
            let stamp = stamp(metadata);
            let content = match self.last.get(&path) {
                Some((last, content)) if *last == stamp => *content,
                _ => content(&path, metadata),
            };
            files.insert(path, (stamp, content));
        };
        for source in SOURCES.into_iter().chain([SAMPLES]) {
            walk(&self.project.join(source), &mut |path, metadata| add(&mut files, path, metadata));
        }
        let samples = self.project.join(SAMPLES);
        let read: BTreeSet<PathBuf> =
            self.files_read.get().into_iter().filter(|path| !path.starts_with(&samples)).collect();
        for path in &read {
            if !files.contains_key(path)
                && let Ok(metadata) = fs::metadata(path)
            {
                add(&mut files, path.clone(), &metadata);
            }
        }
        // The files of a new build have been read by it, and those of an old one do not matter.
        for path in read.difference(&self.read_before) {
            if let Some((_, content)) = files.get(path) {
                self.reported.entry(path.clone()).or_insert(*content);
            }
        }
        for path in self.read_before.difference(&read).filter(|path| !files.contains_key(*path)) {
            self.reported.remove(path);
        }
        self.read_before = read;
        files
    }
}

fn contents(files: &Files) -> BTreeMap<PathBuf, u64> {
    files.iter().map(|(path, (_, content))| (path.clone(), *content)).collect()
}

/// Calls `found` with each file below `path`, or with the file that it is. Links to folders are not
/// followed: they may form a cycle. Files of editors and hidden ones in folders are left out.
fn walk(path: &Path, found: &mut dyn FnMut(PathBuf, &Metadata)) {
    let Ok(metadata) = fs::metadata(path) else { return };
    if metadata.is_file() {
        return found(path.to_owned(), &metadata);
    }
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let is_left_out = name.starts_with(['.', '#']) || name.ends_with('~') || is_link && entry.path().is_dir();
        if !is_left_out {
            walk(&entry.path(), found);
        }
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    let (changed, changed_nanos) = (metadata.ctime(), metadata.ctime_nsec());
    (metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec(), changed, changed_nanos)
}

/// A digest: a file that is written with the same content has not changed. A file that cannot be
/// read, or is too large, has changed with its stamp.
fn content(path: &Path, metadata: &Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut bytes = Vec::new();
    let read = || File::open(path)?.take(BYTES_MAX).read_to_end(&mut bytes);
    if metadata.size() < BYTES_MAX && { read }().is_ok() {
        hasher.write(&bytes);
    } else {
        hasher.write(format!("{:?}", stamp(metadata)).as_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder {
        folder: tempfile::TempDir,
        files_read: FilesRead,
        watcher: Watcher,
    }

    impl Folder {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for file in ["src/lib.rs", "samples/guestbook.yaml", "Cargo.toml", "target/debug/guestbook"] {
                write(&folder.path().join(file), file);
            }
            let files_read = FilesRead::default();
            let watcher = Watcher::new(folder.path(), files_read.clone());
            Self { folder, files_read, watcher }
        }

        fn write(&self, file: &str, text: &str) {
            write(&self.folder.path().join(file), text);
        }

        /// Looks until everything has settled.
        fn poll(&mut self) -> Option<Changed> {
            self.watcher.poll().or_else(|| self.watcher.poll())
        }
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn changed(files: &[&str], sources: bool, samples: bool) -> Option<Changed> {
        Some(Changed { files: files.iter().map(PathBuf::from).collect(), sources, samples })
    }

    #[test]
    fn changed_new_and_removed_files_are_found_once() {
        let mut project = Folder::new();
        assert_eq!(project.poll(), None);
        project.write("src/lib.rs", "changed");
        project.write("src/controllers/guestbook.rs", "new");
        let expected = changed(&["src/controllers/guestbook.rs", "src/lib.rs"], true, false);
        assert_eq!(project.poll(), expected);
        assert_eq!(project.poll(), None);
        fs::remove_dir_all(project.folder.path().join("src/controllers")).unwrap();
        assert_eq!(project.poll(), changed(&["src/controllers/guestbook.rs"], true, false));
        project.write("Cargo.lock", "new");
        assert_eq!(project.poll(), changed(&["Cargo.lock"], true, false));
        project.write("samples/guestbook.yaml", "changed");
        assert_eq!(project.poll(), changed(&["samples/guestbook.yaml"], false, true));
        project.write("samples/other.yaml", "new");
        project.write("src/main.rs", "new");
        assert_eq!(project.poll(), changed(&["samples/other.yaml", "src/main.rs"], true, true));
    }

    #[test]
    fn a_change_is_reported_after_it_has_settled() {
        let mut project = Folder::new();
        for text in ["one", "two ", "three"] {
            project.write("src/lib.rs", text);
            assert_eq!(project.watcher.poll(), None, "{text}");
        }
        assert_eq!(project.watcher.poll(), changed(&["src/lib.rs"], true, false));
    }

    #[test]
    fn the_same_content_files_of_editors_and_the_target_folder_are_no_change() {
        let mut project = Folder::new();
        project.write("src/lib.rs", "src/lib.rs");
        for file in ["src/.lib.rs.swp", "src/lib.rs~", "src/#lib.rs#", "target/debug/guestbook", "README.md"] {
            project.write(file, "new");
        }
        std::os::unix::fs::symlink(project.folder.path(), project.folder.path().join("src/cycle")).unwrap();
        assert_eq!(project.poll(), None);
    }

    #[test]
    fn files_that_a_build_has_read_are_watched_wherever_they_are() {
        let mut project = Folder::new();
        let other = tempfile::tempdir().unwrap();
        let (one, two) = (other.path().join("one.rs"), other.path().join("two.rs"));
        write(&one, "one");
        write(&two, "two");
        let sample = project.folder.path().join("samples/guestbook.yaml");
        project.files_read.set([one.clone(), sample].into());
        assert_eq!(project.poll(), None, "they are as the build has read them");
        write(&one, "changed");
        write(&two, "changed");
        assert_eq!(project.poll(), changed(&[one.to_str().unwrap()], true, false));
        project.write("samples/guestbook.yaml", "changed");
        assert_eq!(project.poll(), changed(&["samples/guestbook.yaml"], false, true));
        project.files_read.set([two].into());
        assert_eq!(project.poll(), None);
        fs::remove_file(one).unwrap();
        assert_eq!(project.poll(), None, "it is not read any more");
    }
}
