//! Objects in YAML documents.

use serde_json::Value;

use crate::Error;

/// The objects of the documents. A document without content is none.
pub(crate) fn objects(yaml: &str) -> Result<Vec<Value>, Error> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(yaml).map_err(|error| Error::Sample(format!("it is no YAML: {error}")))?;
    let mut objects = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        for field in ["/apiVersion", "/kind", "/metadata/name"] {
            if document.pointer(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                let field = field.trim_start_matches('/').replace('/', ".");
                return Err(Error::Sample(format!("{} has no {field}", described(&document))));
            }
        }
        objects.push(document);
    }
    Ok(objects)
}

/// Kind and key of an object, as far as it has them: `Network default/blue`.
pub(crate) fn described(object: &Value) -> String {
    let parts = ["/kind", "/metadata/name"].map(|part| object.pointer(part).and_then(Value::as_str));
    match (parts, object.pointer("/metadata/namespace").and_then(Value::as_str)) {
        ([Some(kind), Some(name)], Some(namespace)) => format!("{kind} {namespace}/{name}"),
        ([Some(kind), Some(name)], None) => format!("{kind} {name}"),
        ([Some(kind), None], _) => format!("a {kind}"),
        ([None, Some(name)], _) => format!("the object {name}"),
        ([None, None], _) => "a document".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_without_content_are_left_out_and_others_are_objects() {
        let yaml = "---\n# nothing\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\n";
        let found = objects(yaml).unwrap();
        assert_eq!(found.iter().map(described).collect::<Vec<_>>(), ["ConfigMap a"]);
        for (wrong, expected) in [
            ("a: [", "no YAML"),
            ("just text", "a document has no apiVersion"),
            ("apiVersion: v1\nmetadata: {name: a}", "the object a has no kind"),
            ("apiVersion: v1\nkind: ConfigMap", "a ConfigMap has no metadata.name"),
        ] {
            let error = objects(wrong).unwrap_err().to_string();
            assert!(error.contains(expected), "{wrong:?}: {error}");
        }
    }
}
