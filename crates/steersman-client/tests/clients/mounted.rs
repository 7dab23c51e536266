//! A folder as the kubelet mounts it for a service account.

use std::os::unix::fs::symlink;
use std::path::Path;

/// The files are links into a folder that is itself a link, which the kubelet replaces.
pub(crate) struct ServiceAccount {
    folder: tempfile::TempDir,
    authority: String,
    namespace: String,
    rotations: u32,
}

impl ServiceAccount {
    pub(crate) fn new(token: &str, authority: &str, namespace: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["token", "ca.crt", "namespace"] {
            symlink(Path::new("..data").join(name), folder.path().join(name)).unwrap();
        }
        let mut account =
            Self { folder, authority: authority.to_owned(), namespace: namespace.to_owned(), rotations: 0 };
        account.rotate(token);
        account
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Replaces the token, in one step.
    pub(crate) fn rotate(&mut self, token: &str) {
        self.rotations += 1;
        let (data, next) = (format!("..data_{}", self.rotations), self.folder().join("..data_next"));
        let folder = self.folder().join(&data);
        std::fs::create_dir(&folder).unwrap();
        for (name, text) in [("token", token), ("ca.crt", &*self.authority), ("namespace", &*self.namespace)] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        symlink(data, &next).unwrap();
        std::fs::rename(next, self.folder().join("..data")).unwrap();
    }
}
