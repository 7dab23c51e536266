//! Nothing of the user's is lost without `--force`.

use std::fs;

use super::{CREATE, Workplace, fails, run, succeeds};

#[test]
fn a_folder_that_is_not_empty_is_used_only_with_force() {
    let place = Workplace { name: "web", ..Workplace::empty() };
    fs::create_dir_all(place.root().join("src")).unwrap();
    place.write("README.md", "mine\n");
    place.write("src/mine.rs", "mine\n");
    let before = place.tree();
    let init = || run(place.folder.path(), &["init", "web"]);
    fails(&init(), "exists and is not empty: choose another name than web, or use --force");
    place.is_as(&before, "not as before");
    let listed = succeeds(&run(place.folder.path(), &["init", "web", "--force"]));
    assert!(listed.contains("changed web/README.md\n") && listed.contains("created web/src/lib.rs\n"), "{listed}");
    assert!(place.read("README.md").starts_with("# web\n"));
    assert_eq!(place.read("src/mine.rs"), "mine\n");
}

#[test]
fn an_empty_folder_and_an_empty_repository_are_used() {
    let place = Workplace { name: "web", ..Workplace::empty() };
    fs::create_dir(place.root()).unwrap();
    place.git(&["init", "--quiet"]);
    succeeds(&run(place.folder.path(), &["init", "web"]));
    place.read("src/lib.rs");
}

#[test]
fn a_file_in_place_of_the_folder_is_an_error() {
    let place = Workplace::empty();
    fs::write(place.folder.path().join("web"), "mine\n").unwrap();
    place.refused("init web", "");
    place.refused("init web --force", "");
}

#[test]
fn an_existing_file_is_overwritten_only_with_force() {
    let place = Workplace::with_project();
    fs::create_dir(place.root().join("samples")).unwrap();
    place.write("samples/page.yaml", "mine: true\n");
    place.refused(
        CREATE,
        "these files exist already: samples/page.yaml. Rename them, choose another kind, or use --force",
    );
    place.done(&format!("{CREATE} --force"));
    assert!(place.read("samples/page.yaml").contains("kind: Page"));
}

#[test]
fn with_force_an_api_is_made_again() {
    let place = Workplace::with_project();
    place.done(CREATE);
    let before = place.tree();
    place.write("src/controllers/page.rs", "mine\n");
    place.done(&format!("{CREATE} --force"));
    place.is_as(&before, "not as before");
}

#[test]
fn changes_that_are_not_committed_stop_a_command() {
    let place = Workplace::with_project();
    place.git(&["init", "--quiet"]);
    let error = place.refused(CREATE, "the project has changes that are not committed");
    assert!(error.contains("?? Cargo.toml\n") && error.contains("git add --all && git commit"), "{error}");
    assert!(error.contains("and ") && error.contains(" more\n"), "{error}");
    place.git(&["add", "--all"]);
    place.git(&["commit", "--quiet", "--message", "init"]);
    place.done(CREATE);
    place.refused("delete api --kind Page", " M src/lib.rs");
    place.git(&["add", "--all"]);
    place.git(&["commit", "--quiet", "--message", "create"]);
    place.write("src/mine.rs", "");
    place.refused("delete api --kind Page", "?? src/mine.rs");
    place.done("delete api --kind Page --force");
}

#[test]
fn changes_beside_the_project_are_not_looked_at() {
    let place = Workplace { name: "", ..Workplace::empty() };
    place.git(&["init", "--quiet"]);
    succeeds(&run(place.folder.path(), &["init", "web"]));
    place.git(&["add", "--all"]);
    place.git(&["commit", "--quiet", "--message", "init"]);
    place.write("other", "mine\n");
    let create = ["create", "api", "--group", "g.example.com", "--version", "v1", "--kind", "Page"];
    succeeds(&run(&place.root().join("web"), &create));
}

#[test]
fn a_generated_file_that_was_changed_is_deleted_only_with_force() {
    let place = Workplace::with_project();
    let before = place.tree();
    place.done(CREATE);
    place.replace("src/api/v1/page.rs", "pub text: String", "pub text: String, ");
    place.replace("tests/rbac.rs", "//!", "//! ");
    let error = place.refused("delete api --kind Page", "you have changed these files since they were generated");
    assert!(error.contains("src/api/v1/page.rs, tests/rbac.rs. Nothing was deleted"), "{error}");
    place.done("delete api --kind Page --force");
    place.is_as(&before, "not as before");
}

#[test]
fn code_that_uses_the_kind_stops_its_deletion() {
    let place = Workplace::with_project();
    place.done(CREATE);
    place.done("create api --group web --version v1 --kind Book");
    place.replace("src/main.rs", "fn main()", "use web_operator::api::v1::{book::Book, page};\n\nfn main()");
    place.replace(
        "dev/src/main.rs",
        "fn main()",
        "fn unused() {\n    web_operator::controllers::page::add;\n}\n\nfn main()",
    );
    let error = place.refused("delete api --kind Page", "other code of the project uses Page in web.example.com/v1");
    assert!(error.contains("  dev/src/main.rs:7: controllers::page\n  src/main.rs:5: v1::page\n"), "{error}");
    place.refused("delete api --kind Book", "src/main.rs:5: v1::book");
    place.done("delete api --kind Page --force");
}
