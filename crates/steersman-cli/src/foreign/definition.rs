//! The CustomResourceDefinition in a file.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use serde_json::Value;

use super::Wanted;

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "CustomResourceDefinition";

/// One version of a CRD.
pub(super) struct Definition {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) namespaced: bool,
    pub(super) schema: JSONSchemaProps,
    /// The CRD alone, as YAML or JSON.
    pub(super) text: String,
}

impl Definition {
    /// The CRD of a file that may contain other objects, too.
    pub(super) fn read(text: &str, wanted: &Wanted<'_>) -> Result<Self> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("it is neither YAML nor JSON")?;
        let objects: Vec<&Value> = documents.iter().filter(|document| !document.is_null()).collect();
        let value = select(&objects, wanted.kind)?;
        let own_text = if let [_] = objects.as_slice() {
            text.to_owned()
        } else {
            serde_saphyr::to_string(value).context("cannot write the CRD alone")?
        };
        let crd: CustomResourceDefinition =
            serde_json::from_value(value.clone()).with_context(|| format!("it is no valid {KIND}"))?;
        let spec = crd.spec;
        let version = match wanted.version {
            Some(name) => spec.versions.iter().find(|version| version.name == name).with_context(|| {
                let names: Vec<&str> = spec.versions.iter().map(|version| version.name.as_str()).collect();
                format!("the CRD has no version {name}: use --version with one of {}", names.join(", "))
            })?,
            // Every object can be read in it, and it is the one to stay.
            None => spec.versions.iter().find(|version| version.storage).context("the CRD has no storage version")?,
        };
        ensure!(version.served, "the version {} is not served: use --version with another one", version.name);
        let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.clone());
        let definition = Self {
            namespaced: spec.scope == "Namespaced",
            schema: schema.with_context(|| format!("the version {} has no schema", version.name))?,
            version: version.name.clone(),
            group: spec.group,
            kind: spec.names.kind,
            plural: spec.names.plural,
            text: own_text,
        };
        definition.check(wanted)?;
        Ok(definition)
    }

    /// The answers of the user and the file agree.
    fn check(&self, wanted: &Wanted<'_>) -> Result<()> {
        let given = [
            ("--group", wanted.group.map(str::to_owned), self.group.clone()),
            ("--plural", wanted.plural.map(str::to_owned), self.plural.clone()),
            ("--namespaced", wanted.namespaced.map(|flag| flag.to_string()), self.namespaced.to_string()),
        ];
        for (flag, given, found) in given {
            if given.as_ref().is_some_and(|given| *given != found) {
                bail!("the CRD has {found:?} for {flag}: omit the flag, with --from-crd the file decides");
            }
        }
        Ok(())
    }
}

/// The CRD of a kind, or the only one.
fn select<'a>(objects: &[&'a Value], kind: Option<&str>) -> Result<&'a Value> {
    let name = |crd: &Value| crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    let (crds, old): (Vec<&Value>, Vec<&Value>) =
        objects.iter().filter(|object| object["kind"] == KIND).partition(|object| object["apiVersion"] == API_VERSION);
    if crds.is_empty() && !old.is_empty() {
        bail!(
            "its CRD has the apiVersion {}, which Kubernetes no longer has: use one with {API_VERSION}",
            old[0]["apiVersion"]
        );
    }
    ensure!(!crds.is_empty(), "it contains no {KIND}");
    let names = crds.iter().map(|crd| name(crd)).collect::<Vec<_>>().join(", ");
    match (kind, crds.as_slice()) {
        (None, [only]) => Ok(only),
        (None, _) => bail!("it has several CRDs: use --kind with one of {names}"),
        (Some(kind), _) => {
            let found = crds.iter().find(|crd| name(crd) == kind);
            found.copied().with_context(|| format!("it has no CRD of the kind {kind}: use --kind with one of {names}"))
        }
    }
}
