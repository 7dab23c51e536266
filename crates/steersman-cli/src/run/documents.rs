//! Kubernetes objects in YAML files.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use steersman_client::GroupVersionKind;

use super::watch::SAMPLES;

/// One object, as it is written in a file. The server reads the YAML, so that it means what it
/// means to kubectl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    /// Where it stands.
    pub(super) place: String,
    pub(super) text: String,
    pub(super) kind: GroupVersionKind,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
}

impl Document {
    /// Kind and key, for messages.
    pub(super) fn object(&self) -> String {
        let (kind, name) = (&self.kind.kind, &self.name);
        match &self.namespace {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        }
    }

    fn read(place: String, text: &str) -> Result<Option<Self>, String> {
        let invalid = |problem: &str| format!("{place}: {problem}");
        let head: Option<Head> = serde_saphyr::from_str(text).map_err(|error| invalid(&error.to_string()))?;
        // Comments alone.
        let Some(head) = head else { return Ok(None) };
        let missing = |field: &str| invalid(&format!("the object has no {field}"));
        let api_version = head.api_version.filter(|text| !text.is_empty()).ok_or_else(|| missing("apiVersion"))?;
        let kind = head.kind.filter(|text| !text.is_empty()).ok_or_else(|| missing("kind"))?;
        let (name, namespace) = head.metadata.map(|metadata| (metadata.name, metadata.namespace)).unwrap_or_default();
        let name = name.filter(|text| !text.is_empty()).ok_or_else(|| missing("metadata.name"))?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kind = GroupVersionKind::gvk(group, version, &kind);
        Ok(Some(Self { text: text.to_owned(), kind, namespace, name, place }))
    }
}

/// The objects of a text, in its order. A document that is no object is an error, and the others
/// are read.
pub(super) fn documents(place: &str, text: &str) -> Vec<Result<Document, String>> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        // As kubectl separates them.
        match line.strip_prefix("---") {
            Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => parts.push(String::new()),
            _ => {
                if let Some(part) = parts.last_mut() {
                    part.extend([line, "\n"]);
                }
            }
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    let is_single = parts.len() == 1;
    let place = |index: usize| match is_single {
        true => place.to_owned(),
        false => format!("{place}, document {}", index + 1),
    };
    parts.iter().enumerate().filter_map(|(index, part)| Document::read(place(index), part).transpose()).collect()
}

/// The objects of all samples of a project, by the names of their files.
pub(super) fn samples(project: &Path) -> Vec<Result<Document, String>> {
    let Ok(entries) = fs::read_dir(project.join(SAMPLES)) else { return Vec::new() };
    let is_yaml = |name: &String| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end));
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_yaml(name) && !name.starts_with('.')).collect();
    names.sort();
    let read = |name: String| {
        let place = format!("{SAMPLES}/{name}");
        match fs::read_to_string(project.join(&place)) {
            Ok(text) => documents(&place, &text),
            Err(error) => vec![Err(format!("{place}: {error}"))],
        }
    };
    names.into_iter().flat_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_separated_and_read() {
        let text = "# A comment.\n---\napiVersion: example.com/v1\nkind: Guestbook\nmetadata:\n  name: a\n  namespace: \
                    b\nspec: {on: yes}\n--- # Next.\n# Nothing.\n---\n{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \
                    \"metadata\": {\"name\": \"b\"}}\n";
        let found: Vec<Document> = documents("samples/a.yaml", text).into_iter().map(Result::unwrap).collect();
        let objects: Vec<String> = found.iter().map(Document::object).collect();
        assert_eq!(objects, ["Guestbook b/a", "Namespace b"]);
        assert_eq!(found[0].kind, GroupVersionKind::gvk("example.com", "v1", "Guestbook"));
        assert_eq!(found[1].kind, GroupVersionKind::gvk("", "v1", "Namespace"));
        assert!(found[0].text.ends_with("spec: {on: yes}\n"), "{:?}", found[0].text);
        assert_eq!(documents("a", "\n# Nothing.\n"), []);
    }

    #[test]
    fn a_document_that_is_no_object_is_named_and_the_others_are_read() {
        let text =
            "kind: A\n---\napiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n---\na: [\n";
        let found = documents("a.yaml", text);
        let problem = |index: usize| found[index].as_ref().unwrap_err().as_str();
        assert_eq!(problem(0), "a.yaml, document 1: the object has no apiVersion");
        assert_eq!(problem(1), "a.yaml, document 2: the object has no metadata.name");
        assert_eq!(found[2].as_ref().unwrap().object(), "A a");
        assert!(problem(3).starts_with("a.yaml, document 4: "), "{}", problem(3));
    }

    #[test]
    fn samples_are_read_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(samples(folder.path()), []);
        fs::create_dir(folder.path().join("samples")).unwrap();
        for (file, name) in [("b.yaml", "b"), ("a.yml", "a"), ("c.json", "c"), ("README.md", "d"), (".e.yaml", "e")] {
            let text = format!("{{\"apiVersion\": \"v1\", \"kind\": \"A\", \"metadata\": {{\"name\": \"{name}\"}}}}");
            fs::write(folder.path().join("samples").join(file), text).unwrap();
        }
        let names: Vec<String> = samples(folder.path()).into_iter().map(|found| found.unwrap().name).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
