//! YAML for `kubectl apply --server-side`.

use super::files::{Files, FilesError};
use super::model::Operator;
use super::objects::{self, Manifest};
use super::yaml;

/// `install.yaml` with everything in the order in which it is applied, a file for each sample, and
/// the dashboard.
///
/// # Errors
///
/// The model contradicts itself, or an object cannot be written as YAML.
pub fn plain(operator: &Operator) -> Result<Files, FilesError> {
    operator.validate()?;
    let mut files = Files::default();
    let mut all = vec![objects::namespace(operator)];
    all.extend(objects::crds(operator)?);
    all.extend(objects::installed(operator));
    files.add("install.yaml", yaml::documents(&all)?);
    objects::add_shared(&mut files, operator)?;
    Ok(files)
}

/// A file for each object, below a folder.
pub(super) fn add_each(files: &mut Files, folder: &str, manifests: &[Manifest]) -> Result<Vec<String>, FilesError> {
    let mut paths = Vec::new();
    for manifest in manifests {
        let path = format!("{}.yaml", manifest.file);
        files.add(format!("{folder}{path}"), yaml::documents(std::slice::from_ref(manifest))?);
        paths.push(path);
    }
    Ok(paths)
}
