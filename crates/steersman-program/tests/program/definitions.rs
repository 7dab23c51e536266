//! `crd` and `crd diff`.

use std::fs;

use serde_json::{Value, json};
use steersman::manifests::crd::{crd, manifest};

use crate::guestbook::Guestbook;
use crate::process::ended;

#[test]
fn the_definitions_are_printed_as_yaml() {
    let printed = ended(&["crd"], &[]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let yaml = &printed.stdout[printed.stdout.find("apiVersion").unwrap()..];
    let found: Value = serde_saphyr::from_str(yaml).unwrap();
    assert_eq!(found, manifest(&crd::<Guestbook>().unwrap()).unwrap());
}

#[test]
fn breaking_changes_are_listed_and_decide_the_exit_code() {
    let now = manifest(&crd::<Guestbook>().unwrap()).unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut old = now.clone();
        change(old.pointer_mut(spec).unwrap());
        old
    };
    let optional = changed(&|spec| spec["required"] = json!([]));
    let longer = changed(&|spec| spec["properties"]["title"]["maxLength"] = json!(9));
    let mut other = now.clone();
    other["metadata"]["name"] = "others.example.com".into();

    let folder = tempfile::tempdir().unwrap();
    let diff = |name: &str, objects: &[&Value]| {
        let path = folder.path().join(name);
        let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
        fs::write(&path, documents.join("\n---\n")).unwrap();
        ended(&["crd", "diff", path.to_str().unwrap()], &[])
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});

    let same = diff("same.yaml", &[&namespace, &now]);
    assert_eq!((same.code, same.stderr.as_str()), (Some(0), ""));
    assert!(same.stdout.contains("no changes"), "{}", same.stdout);

    let compatible = diff("compatible.yaml", &[&longer]);
    assert_eq!((compatible.code, compatible.stderr.as_str()), (Some(0), ""));
    assert!(compatible.stdout.contains("guestbooks.example.com: compatible: v1.spec.title"), "{}", compatible.stdout);

    let breaking = diff("breaking.yaml", &[&optional]);
    assert_eq!(breaking.code, Some(1));
    assert!(breaking.stdout.contains("guestbooks.example.com: breaking: v1.spec"), "{}", breaking.stdout);
    assert!(breaking.stderr.contains("1 change is breaking"), "{}", breaking.stderr);

    let removed = diff("removed.yaml", &[&now, &other]);
    assert_eq!(removed.code, Some(1));
    assert!(removed.stdout.contains("others.example.com: breaking: it does not exist any more"), "{}", removed.stdout);

    let new = diff("new.yaml", &[&other]);
    assert!(new.stdout.contains("guestbooks.example.com: compatible: it is new"), "{}", new.stdout);

    // All files of a folder.
    let old = tempfile::tempdir().unwrap();
    fs::write(old.path().join("one.yaml"), now.to_string()).unwrap();
    fs::write(old.path().join("notes.txt"), "{{ not YAML").unwrap();
    assert_eq!(ended(&["crd", "diff", old.path().to_str().unwrap()], &[]).code, Some(0));

    // What cannot be compared is not a breaking change.
    fs::write(folder.path().join("chart.yaml"), "{{- if .Values.crd }}\na: b: c\n").unwrap();
    for (name, expected) in [("missing.yaml", "missing.yaml"), ("chart.yaml", "no YAML")] {
        let failed = ended(&["crd", "diff", folder.path().join(name).to_str().unwrap()], &[]);
        assert_eq!(failed.code, Some(2), "{name}");
        assert!(failed.stderr.contains(expected), "{}", failed.stderr);
    }
    let none = diff("none.yaml", &[&namespace]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("no CRD"), "{}", none.stderr);
}
