//! All objects, in the order in which they are applied.

use serde_json::{Value, json};

use super::files::{Files, FilesError};
use super::model::Operator;
use super::plain::add_each;
use super::{dashboard, roles, workload};
use crate::crd::{self, manifest};

/// An object, the file it goes to, and what a reader has to know about it.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    /// Without the ending.
    pub(super) file: String,
    pub(super) comments: Vec<String>,
    pub(super) object: Value,
}

impl Manifest {
    pub(super) fn new(file: impl Into<String>, object: Value) -> Self {
        Self { file: file.into(), comments: Vec::new(), object }
    }
}

/// The CRDs.
pub(super) fn crds(operator: &Operator) -> Result<Vec<Manifest>, crd::Error> {
    let named = |crd| -> Result<Manifest, crd::Error> {
        let object = manifest(crd)?;
        Ok(Manifest::new(format!("crd/{}", object["metadata"]["name"].as_str().unwrap_or_default()), object))
    };
    operator.crds.iter().map(named).collect()
}

/// The namespace of the operator. It enforces what the Deployment keeps to.
pub(super) fn namespace(operator: &Operator) -> Manifest {
    let mut labels = operator.labels();
    labels["pod-security.kubernetes.io/enforce"] = "restricted".into();
    let object =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": operator.namespace, "labels": labels}});
    Manifest::new("namespace", object)
}

/// Everything but the CRDs, the namespace and the samples.
pub(super) fn installed(operator: &Operator) -> Vec<Manifest> {
    let mut manifests = roles::of_operator(operator);
    manifests.extend(roles::of_users(operator));
    manifests.extend(workload::manifests(operator));
    if operator.dashboard && operator.metrics.is_some() {
        manifests.push(dashboard::config_map(operator));
    }
    manifests
}

/// The files that are the same in all forms: the samples, and the dashboard.
pub(super) fn add_shared(files: &mut Files, operator: &Operator) -> Result<(), FilesError> {
    if operator.metrics.is_some() {
        let (path, text) = dashboard::file(operator);
        files.add(path, text);
    }
    add_each(files, "", &samples(operator))?;
    Ok(())
}

/// The samples, each in a file by its kind, namespace and name.
fn samples(operator: &Operator) -> Vec<Manifest> {
    let file = |object: &Value| {
        let metadata = &object["metadata"];
        let parts = [&object["kind"], &metadata["namespace"], &metadata["name"]];
        let parts: Vec<&str> = parts.into_iter().filter_map(Value::as_str).collect();
        let is_safe = |character: char| character.is_ascii_alphanumeric() || character == '-';
        let name = parts.join("-").to_lowercase().replace(|character| !is_safe(character), "-");
        format!("samples/{name}")
    };
    operator.samples.iter().map(|object| Manifest::new(file(object), object.clone())).collect()
}
