//! A base for Kustomize.

use serde_json::{Value, json};

use super::files::{Files, FilesError};
use super::model::Operator;
use super::objects::{self, Manifest};
use super::plain::add_each;
use super::yaml;

/// A file for each object, and a `kustomization.yaml` that lists them. Samples and the
/// dashboard are not listed.
///
/// Changes go into an overlay that refers to the folder, so that the base can be written again.
///
/// # Errors
///
/// The model contradicts itself, or an object cannot be written as YAML.
pub fn kustomize(operator: &Operator) -> Result<Files, FilesError> {
    operator.validate()?;
    let mut files = Files::default();
    let mut all = vec![objects::namespace(operator)];
    all.extend(objects::crds(operator)?);
    all.extend(objects::installed(operator));
    let paths = add_each(&mut files, "", &all)?;
    objects::add_shared(&mut files, operator)?;
    let mut kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": paths,
    });
    kustomization["images"] = image(&operator.image);
    let kustomization = Manifest::new("kustomization", kustomization);
    files.add("kustomization.yaml", yaml::documents(&[kustomization])?);
    Ok(files)
}

/// The image as an overlay overrides it.
fn image(image: &str) -> Value {
    if let Some((name, digest)) = image.split_once('@') {
        return json!([{"name": name, "digest": digest}]);
    }
    // A colon before the last slash belongs to a port.
    match image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
        Some((name, tag)) => json!([{"name": name, "newTag": tag}]),
        None => json!([{"name": image}]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_split_as_an_overlay_names_them() {
        for (text, expected) in [
            ("demo", json!([{"name": "demo"}])),
            ("demo:1", json!([{"name": "demo", "newTag": "1"}])),
            ("registry:5000/demo", json!([{"name": "registry:5000/demo"}])),
            ("registry:5000/demo:1", json!([{"name": "registry:5000/demo", "newTag": "1"}])),
            ("demo@sha256:ab", json!([{"name": "demo", "digest": "sha256:ab"}])),
        ] {
            assert_eq!(image(text), expected, "{text}");
        }
    }
}
