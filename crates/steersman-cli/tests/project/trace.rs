//! `delete api` leaves no trace, and lists what it did.

use super::{CREATE, Workplace};

const CRD: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: disks.example.org}
spec:
  group: example.org
  names: {kind: Disk, plural: disks}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string}}}}}
";
/// Each sort of API.
const APIS: [(&str, &str); 5] = [
    ("Page", "create api --group web --version v1 --kind Page"),
    ("Book", "create api --group web --version v1 --kind Book --controller false"),
    (
        "CronJob",
        "create api --group batch.other.org --version v2beta3 --kind CronJob --namespaced false --plural crons",
    ),
    ("Zone", "create api --group dns --version v1alpha1 --kind Zone"),
    ("Disk", "create api --from-crd crd.yaml"),
];

#[test]
fn deleting_leaves_the_tree_as_it_was_before_creating() {
    let place = Workplace::with_project();
    place.write("crd.yaml", CRD);
    let mut before = Vec::new();
    for (_, create) in APIS {
        before.push(place.tree());
        place.done(create);
    }
    for ((kind, _), before) in APIS.iter().zip(before).rev() {
        place.done(&format!("delete api --kind {kind}"));
        place.is_as(&before, &format!("{kind} has left a trace"));
    }
}

#[test]
fn the_order_of_deleting_makes_no_difference() {
    let place = Workplace::with_project();
    place.write("crd.yaml", CRD);
    let before = place.tree();
    APIS.iter().for_each(|(_, create)| drop(place.done(create)));
    for (kind, _) in APIS {
        place.done(&format!("delete api --kind {kind}"));
    }
    place.is_as(&before, "not as before");
}

#[test]
fn each_command_lists_what_it_changes() {
    let place = Workplace::with_project();
    let created = place.done(CREATE);
    let listed = "\
created src/api/v1/page.rs
created samples/page.yaml
created src/controllers/page.rs
created tests/page.rs
created tests/rbac.rs
created src/api/v1/mod.rs
changed src/api/mod.rs
changed src/lib.rs
changed src/controllers/mod.rs
changed steersman.toml
Next:
";
    assert!(created.starts_with(listed), "{created}");
    let deleted = place.done("delete api --kind Page");
    let expected = "\
deleted samples/page.yaml
deleted src/api/v1/page.rs
deleted src/controllers/page.rs
deleted tests/page.rs
deleted tests/rbac.rs
deleted src/api/v1/mod.rs
changed src/lib.rs
changed src/controllers/mod.rs
changed src/api/mod.rs
changed steersman.toml
";
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&deleted), sorted(expected));
}

#[test]
fn a_version_with_other_kinds_or_with_code_of_the_user_stays() {
    let place = Workplace::with_project();
    place.done(CREATE);
    place.write("src/api/v1/mod.rs", "//! Mine.\n\npub mod page;\n\npub const ANSWER: u8 = 42;\n");
    place.done("delete api --kind Page");
    assert_eq!(place.read("src/api/v1/mod.rs"), "//! Mine.\n\npub const ANSWER: u8 = 42;\n");
    assert!(place.read("src/api/mod.rs").contains("pub mod v1;"));
}

#[test]
fn an_api_can_be_deleted_from_a_folder_below_and_with_its_whole_name() {
    let place = Workplace::with_project();
    place.done(CREATE);
    place.refused("delete api --kind Page --version v2", "it has Page in web.example.com/v1");
    place.refused("delete api --kind Page --group other", "no Page of this group and version");
    place.refused("delete api --kind Book", "no kind \"Book\": it has Page in web.example.com/v1");
    let folder = place.root().join("src/api");
    super::succeeds(&super::run(&folder, &["delete", "api", "--group", "web", "--version", "v1", "--kind", "Page"]));
    place.refused("delete api --kind Page", "the project has no API");
}

#[test]
fn files_that_the_user_has_deleted_are_not_missed() {
    let place = Workplace::with_project();
    let before = place.tree();
    place.done(CREATE);
    std::fs::remove_file(place.root().join("samples/page.yaml")).unwrap();
    std::fs::remove_dir(place.root().join("samples")).unwrap();
    place.replace("src/lib.rs", "\n        .samples(include_str!(\"../samples/page.yaml\"))", "");
    place.done("delete api --kind Page");
    let mut before = before;
    // The digest of src/lib.rs is that of the last text which the commands have made.
    before.insert("steersman.toml".into(), place.read("steersman.toml"));
    place.is_as(&before, "not as before");
}
