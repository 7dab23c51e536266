//! A chart for Helm.

use serde_json::json;

use super::files::{Files, FilesError};
use super::model::Operator;
use super::objects::{self, Manifest};
use super::plain::add_each;
use super::yaml;

/// Stands for an expression until the object is YAML. No name in Kubernetes has an underscore and
/// capitals.
const TOKEN: &str = "STEERSMAN_VALUE_";

/// What a chart takes from its values: the token, the expression, and whether the value is a text.
const EXPRESSIONS: [(&str, &str, bool); 4] = [
    ("NAMESPACE", ".Release.Namespace", true),
    ("IMAGE", ".Values.image", true),
    ("REPLICAS", ".Values.replicas", false),
    ("KEEP", "ternary \"keep\" \"delete\" .Values.crd.keep", true),
];

/// A chart: its templates, and `values.yaml`, which belongs to the user once it exists.
///
/// A chart installs into the namespace of its release, so it has no Namespace. With default values,
/// and a release in the namespace of the operator, it yields the objects of
/// [`plain`](super::plain()).
///
/// # Errors
///
/// An object cannot be written as YAML.
pub fn helm(operator: &Operator) -> Result<Files, FilesError> {
    let mut files = Files::default();
    let chart = json!({
        "apiVersion": "v2",
        "name": operator.name,
        "description": format!("The operator {}", operator.name),
        "type": "application",
        "version": operator.version,
        "appVersion": operator.version,
    });
    files.add("Chart.yaml", yaml::documents(&[Manifest::new("Chart", chart)])?);
    let values = json!({
        "image": operator.image,
        "replicas": operator.replicas,
        "resources": operator.resources,
        "crd": {"enabled": true, "keep": true},
        "networkPolicy": {"enabled": operator.network_policy},
        "serviceMonitor": {"enabled": operator.service_monitor},
    });
    files.add_initial("values.yaml", yaml::document(&Manifest::new("values", values))?);

    let mut templated = operator.clone();
    templated.namespace = token("NAMESPACE");
    templated.image = token("IMAGE");
    templated.network_policy = true;
    templated.service_monitor = true;
    for mut manifest in objects::crds(operator)? {
        manifest.object["metadata"]["annotations"]["helm.sh/resource-policy"] = token("KEEP").into();
        add(&mut files, &manifest, Some(".Values.crd.enabled"))?;
    }
    for mut manifest in objects::installed(&templated) {
        let condition = match manifest.file.as_str() {
            "network-policy" => Some(".Values.networkPolicy.enabled"),
            "service-monitor" => Some(".Values.serviceMonitor.enabled"),
            "pod-disruption-budget" => Some("gt (int .Values.replicas) 1"),
            _ => None,
        };
        if manifest.file == "deployment" {
            manifest.object["spec"]["replicas"] = token("REPLICAS").into();
            manifest.object["spec"]["template"]["spec"]["containers"][0]["resources"] = token("RESOURCES").into();
        }
        add(&mut files, &manifest, condition)?;
    }
    add_each(&mut files, "", &objects::samples(operator))?;
    Ok(files)
}

fn token(name: &str) -> String {
    format!("{TOKEN}{name}")
}

fn add(files: &mut Files, manifest: &Manifest, condition: Option<&str>) -> Result<(), FilesError> {
    let text = template(&yaml::document(manifest)?);
    let text = match condition {
        Some(condition) => format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"),
        None => text,
    };
    files.add(format!("templates/{}.yaml", manifest.file), format!("{}{text}", yaml::HEADER));
    Ok(())
}

/// Puts the expressions in place of the tokens. Braces that are in the objects stay braces.
fn template(document: &str) -> String {
    let mut text = String::with_capacity(document.len());
    for line in document.lines() {
        let mut line = line.replace("{{", "{{ \"{{\" }}");
        if let Some(key) = line.strip_suffix(&token("RESOURCES")) {
            let indent = key.len() - key.trim_start().len() + 2;
            line = format!("{} {{{{- toYaml .Values.resources | nindent {indent} }}}}", key.trim_end());
        }
        for (name, expression, is_text) in EXPRESSIONS {
            let token = token(name);
            let is_whole = line.strip_suffix(&token).is_some_and(|key| key.ends_with(": "));
            let quoted = if is_text && is_whole { " | quote" } else { "" };
            line = line.replace(&token, &format!("{{{{ {expression}{quoted} }}}}"));
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}
