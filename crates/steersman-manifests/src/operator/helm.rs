//! A chart for Helm.

use serde_json::{Value, json};

use super::files::{Files, FilesError};
use super::model::Operator;
use super::objects::{self, Manifest};
use super::{workload, yaml};

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

/// Lists and maps that a chart takes from its values: the token, and the value.
const BLOCKS: [(&str, &str); 2] = [("ARGS", "args"), ("RESOURCES", "resources")];

/// Fields of the Pod that a chart sets if the value is not empty.
const POD_FIELDS: [(&str, &str); 4] = [
    ("AFFINITY", "affinity"),
    ("IMAGE_PULL_SECRETS", "imagePullSecrets"),
    ("NODE_SELECTOR", "nodeSelector"),
    ("TOLERATIONS", "tolerations"),
];

/// A chart: its templates, and `values.yaml`, which belongs to the user once it exists.
///
/// A chart installs into the namespace of its release, so it has no Namespace. With default values,
/// and a release in the namespace of the operator, it yields the objects of
/// [`plain`](super::plain()). Its CRDs have one more annotation, by which Helm leaves them when the
/// release is uninstalled.
///
/// # Errors
///
/// The model contradicts itself, or an object cannot be written as YAML.
pub fn helm(operator: &Operator) -> Result<Files, FilesError> {
    operator.validate()?;
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
    files.add_initial("values.yaml", yaml::document(&Manifest::new("values", values(operator)))?);

    for mut manifest in objects::crds(operator)? {
        manifest.object["metadata"]["annotations"]["helm.sh/resource-policy"] = token("KEEP").into();
        add(&mut files, &manifest, Some(".Values.crd.enabled"))?;
    }
    for mut manifest in objects::installed(&templated(operator)) {
        let condition = match manifest.file.as_str() {
            "network-policy" => Some(".Values.networkPolicy.enabled"),
            "service-monitor" => Some(".Values.serviceMonitor.enabled"),
            "dashboard" => Some("(.Values.dashboard).enabled"),
            "pod-disruption-budget" => Some("gt (int .Values.replicas) 1"),
            _ => None,
        };
        if manifest.file == "deployment" {
            parametrize(&mut manifest.object["spec"], operator);
        }
        add(&mut files, &manifest, condition)?;
    }
    objects::add_shared(&mut files, operator)?;
    Ok(files)
}

/// The default values.
fn values(operator: &Operator) -> Value {
    let mut values = json!({
        "image": operator.image,
        "args": workload::args(operator),
        "resources": operator.resources,
        "affinity": {},
        "imagePullSecrets": [],
        "nodeSelector": {},
        "tolerations": [],
        "crd": {"enabled": true, "keep": true},
        "networkPolicy": {"enabled": operator.network_policy},
    });
    if operator.lease.is_some() {
        values["replicas"] = operator.replicas.into();
    }
    if operator.metrics.is_some() {
        values["serviceMonitor"] = json!({"enabled": operator.service_monitor});
        values["dashboard"] = json!({"enabled": operator.dashboard});
    }
    values
}

/// The operator with everything that a value can switch on.
fn templated(operator: &Operator) -> Operator {
    let mut templated = operator.clone();
    templated.namespace = token("NAMESPACE");
    templated.image = token("IMAGE");
    templated.network_policy = true;
    templated.service_monitor = true;
    templated.dashboard = true;
    if operator.lease.is_some() {
        templated.replicas = templated.replicas.max(2);
    }
    templated
}

/// Puts tokens into the spec of the Deployment.
fn parametrize(spec: &mut Value, operator: &Operator) {
    // Without a lease, a second replica would act beside the first.
    if operator.lease.is_some() {
        spec["replicas"] = token("REPLICAS").into();
    }
    let pod = &mut spec["template"]["spec"];
    for (name, field) in POD_FIELDS {
        pod[field] = token(name).into();
    }
    for (name, field) in BLOCKS {
        pod["containers"][0][field] = token(name).into();
    }
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
    files.add(format!("templates/{}.yaml", manifest.file), format!("{}{text}", yaml::header()));
    Ok(())
}

/// Puts the expressions in place of the tokens. Braces that are in the objects stay braces.
fn template(document: &str) -> String {
    let mut text = String::with_capacity(document.len());
    for line in document.lines() {
        text.push_str(&templated_line(line));
        text.push('\n');
    }
    text
}

fn templated_line(line: &str) -> String {
    let ends_with = |name: &str| line.strip_suffix(&token(name)).map(str::trim_end);
    for (name, value) in BLOCKS {
        if let Some(key) = ends_with(name) {
            return format!("{key} {{{{- toYaml .Values.{value} | nindent {} }}}}", indent(key) + 2);
        }
    }
    for (name, value) in POD_FIELDS {
        if let Some(key) = ends_with(name) {
            let space = " ".repeat(indent(key));
            return format!(
                "{space}{{{{- with .Values.{value} }}}}\n{key} {{{{- toYaml . | nindent {} }}}}\n{space}{{{{- end }}}}",
                indent(key) + 2,
            );
        }
    }
    let mut line = line.replace("{{", "{{ \"{{\" }}");
    for (name, expression, is_text) in EXPRESSIONS {
        let token = token(name);
        let is_whole = line.strip_suffix(&token).is_some_and(|key| key.ends_with(": "));
        let quoted = if is_text && is_whole { " | quote" } else { "" };
        line = line.replace(&token, &format!("{{{{ {expression}{quoted} }}}}"));
    }
    line
}

/// The column of a key, in a list too.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '-']).len()
}
