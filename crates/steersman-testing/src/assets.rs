//! Which server programs are used, and where they are looked for.
//!
//! `cargo xtask servers` puts the programs where this module looks for them: it is compiled into
//! both, and so depends on nothing but the standard library.

use std::path::{Path, PathBuf};

/// The Kubernetes release that the tests run against.
pub const KUBERNETES_VERSION: &str = "1.36.3";

/// The etcd release that the tests run against.
pub const ETCD_VERSION: &str = "3.6.16";

/// The Helm release that renders charts in tests.
pub const HELM_VERSION: &str = "4.3.1";

/// A program that a real control plane, or a test of one, needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// The API server.
    KubeApiserver,
    /// The command-line client.
    Kubectl,
    /// The built-in controllers: garbage collection, namespaces, service accounts, workloads.
    KubeControllerManager,
    /// The API server's storage.
    Etcd,
    /// The command-line client that renders and installs charts.
    Helm,
}

impl Program {
    /// Every program.
    pub const ALL: [Self; 5] =
        [Self::KubeApiserver, Self::Kubectl, Self::KubeControllerManager, Self::Etcd, Self::Helm];

    /// The name of its file.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::Kubectl => "kubectl",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Etcd => "etcd",
            Self::Helm => "helm",
        }
    }

    /// The release that `cargo xtask servers` provides.
    pub fn version(self) -> &'static str {
        match self {
            Self::KubeApiserver | Self::Kubectl | Self::KubeControllerManager => KUBERNETES_VERSION,
            Self::Etcd => ETCD_VERSION,
            Self::Helm => HELM_VERSION,
        }
    }

    /// The program's name as a variable: `KUBE_APISERVER`.
    pub fn variable(self) -> String {
        self.file_name().to_uppercase().replace('-', "_")
    }

    /// Where this program is looked for, first place first: the variable
    /// `TEST_ASSET_KUBE_APISERVER` (and so on), the folder `KUBEBUILDER_ASSETS`, both as envtest
    /// has them, then the cache that `cargo xtask servers` fills.
    ///
    /// A place that the user named must hold the program; it is not passed over for the next one.
    /// Only kube-controller-manager and Helm may be missing from `KUBEBUILDER_ASSETS`: the archives
    /// made for envtest never had them.
    pub fn find(self) -> Result<PathBuf, Missing> {
        self.find_in(|name| std::env::var_os(name).map(PathBuf::from), cache_dir().as_deref())
    }

    fn find_in(self, variable: impl Fn(&str) -> Option<PathBuf>, cache: Option<&Path>) -> Result<PathBuf, Missing> {
        let missing = |place: Location, path: PathBuf| Missing { program: self, place, path };
        let name = format!("TEST_ASSET_{}", self.variable());
        if let Some(path) = variable(&name) {
            return if path.is_file() { Ok(path) } else { Err(missing(Location::Variable(name), path)) };
        }
        if let Some(folder) = variable("KUBEBUILDER_ASSETS") {
            let path = folder.join(self.file_name());
            if path.is_file() {
                return Ok(path);
            }
            if !matches!(self, Self::KubeControllerManager | Self::Helm) {
                return Err(missing(Location::Variable("KUBEBUILDER_ASSETS".to_owned()), path));
            }
        }
        let path = cache.map(|cache| self.cached(cache)).unwrap_or_default();
        if path.is_file() { Ok(path) } else { Err(missing(Location::Cache, path)) }
    }

    /// The folder of this program below the cache folder `cache`, one for each version and
    /// platform.
    pub fn cache_entry(self, cache: &Path) -> PathBuf {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        cache.join("servers").join(format!("{}-{}-{os}-{arch}", self.file_name(), self.version()))
    }

    /// The program's file in that folder.
    pub fn cached(self, cache: &Path) -> PathBuf {
        self.cache_entry(cache).join(self.file_name())
    }
}

/// Our part of the user's cache folder: below `XDG_CACHE_HOME`, or else below `.cache` in the home
/// folder. Safe to delete.
pub fn cache_dir() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("steersman"))
}

/// A program is not where it was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    program: Program,
    place: Location,
    path: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Location {
    Variable(String),
    Cache,
}

impl Missing {
    /// Whether the user named the place, so that providing the program elsewhere would not help.
    pub fn is_in_named_place(&self) -> bool {
        matches!(self.place, Location::Variable(_))
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (program, path) = (self.program.file_name(), self.path.display());
        match &self.place {
            Location::Variable(name) => {
                write!(f, "{name} is set, but there is no {program} at {path}: correct the variable or unset it")
            }
            Location::Cache => write!(
                f,
                "no {program} at {path}: run `cargo xtask servers` in a checkout of steersman, \
                 or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl in it"
            ),
        }
    }
}

impl std::error::Error for Missing {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own for one test, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn with(files: &[&str]) -> Self {
            use std::sync::atomic::{AtomicU32, Ordering};
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("steersman-assets-{}-{number}", std::process::id()));
            for file in files {
                let file = path.join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, "").unwrap();
            }
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn envtest_assets_come_before_the_cache() {
        let assets = Folder::with(&["etcd"]);
        let in_cache = Program::Etcd.cached(Path::new(""));
        let cache = Folder::with(&[in_cache.to_str().unwrap()]);
        let found =
            Program::Etcd.find_in(|name| (name == "KUBEBUILDER_ASSETS").then(|| assets.0.clone()), Some(&cache.0));
        assert_eq!(found, Ok(assets.0.join("etcd")));
        assert_eq!(Program::Etcd.find_in(|_| None, Some(&cache.0)), Ok(cache.0.join(in_cache)));
    }

    #[test]
    fn one_program_can_be_named_alone() {
        let folder = Folder::with(&["my-etcd", "etcd"]);
        let found = Program::Etcd.find_in(
            |name| match name {
                "TEST_ASSET_ETCD" => Some(folder.0.join("my-etcd")),
                _ => Some(folder.0.clone()),
            },
            None,
        );
        assert_eq!(found, Ok(folder.0.join("my-etcd")));
    }

    #[test]
    fn a_place_that_was_named_is_not_passed_over() {
        let assets = Folder::with(&["etcd"]);
        let named = |name: &str| (name == "KUBEBUILDER_ASSETS").then(|| assets.0.clone());
        let missing = Program::Kubectl.find_in(named, None).unwrap_err();
        assert!(missing.is_in_named_place());
        assert!(missing.to_string().contains("correct the variable or unset it"), "{missing}");

        for program in [Program::KubeControllerManager, Program::Helm] {
            let missing = program.find_in(named, None).unwrap_err();
            assert!(!missing.is_in_named_place());
            assert!(missing.to_string().contains("cargo xtask servers"), "{missing}");
        }
    }
}
