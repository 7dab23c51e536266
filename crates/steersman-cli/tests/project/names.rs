//! Names that are valid, and those that are not.

use super::{CREATE, Workplace, fails, run, succeeds};

#[test]
fn a_wrong_name_of_a_project_is_an_error_that_shows_a_right_one() {
    let place = Workplace::empty();
    let cases = [
        ("Web", "use lower-case letters, digits and dashes, beginning with a letter, at most 63"),
        ("web_operator", "such as website-operator"),
        ("1web", "invalid project name \"1web\""),
        ("-web", ""),
        ("web-", "invalid project name \"web-\""),
        ("", "invalid project name \"\""),
        ("../web", "invalid project name \"../web\""),
        ("crate", "it is a Rust keyword"),
        ("gen", "it is a Rust keyword"),
        ("serde", "a crate that the project uses has this name"),
        ("steersman", "a crate that the project uses has this name"),
        ("std", "a crate that the project uses has this name"),
    ];
    for (name, message) in cases {
        let output = run(place.folder.path(), &["init", name]);
        if message.is_empty() {
            // clap takes it for a flag.
            assert!(!output.status.success());
        } else {
            fails(&output, message);
        }
    }
    let long = "a".repeat(64);
    fails(&run(place.folder.path(), &["init", &long]), "at most 63");
    fails(&run(place.folder.path(), &["init", "web", "--domain", "Example"]), "use a DNS name, such as example.com");
    assert!(place.tree().is_empty());
    for name in ["web", "a", "web-2-operator", &long[1..]] {
        succeeds(&run(place.folder.path(), &["init", name]));
    }
}

#[test]
fn a_wrong_name_of_an_api_is_an_error_that_shows_a_right_one() {
    let place = Workplace::with_project();
    let long = "A".repeat(64);
    let longest_group = format!("{}.{}.example.com", vec!["a".repeat(60); 3].join("."), "a".repeat(55));
    let cases = [
        ("Web", "v1", "Page", "invalid group \"Web\": use a DNS name in lower case"),
        ("web_a.example.com", "v1", "Page", "invalid group"),
        ("apps.k8s.io", "v1", "Page", "groups of k8s.io belong to Kubernetes"),
        (&longest_group, "v1", "Page", "is longer than 253 characters"),
        ("web", "1", "Page", "invalid version \"1\": use v1, v2, v1alpha1, v2beta3"),
        ("web", "v0", "Page", "invalid version"),
        ("web", "v1alpha", "Page", "invalid version"),
        ("web", "v1gamma1", "Page", "invalid version"),
        ("web", "v1alpha01", "Page", "invalid version"),
        ("web", "v1beta1alpha1", "Page", "invalid version"),
        ("web", "v1", "page", "in PascalCase, at most 63 letters and digits, such as CronJob"),
        ("web", "v1", "Cron-Job", "in PascalCase"),
        ("web", "v1", "Cron_Job", "in PascalCase"),
        ("web", "v1", "Seite\u{e4}", "in PascalCase"),
        ("web", "v1", &long, "at most 63"),
        ("web", "v1", "Type", "\"type\" is a Rust keyword"),
        ("web", "v1", "Self", "is a Rust keyword"),
        ("web", "v1", "Gen", "is a Rust keyword"),
        ("web", "v1", "Rbac", "the project has a test tests/rbac.rs"),
        ("web", "v1", "ConfigMap", "the generated code uses another type ConfigMap"),
        ("web", "v1", "Context", "the generated code uses another type Context"),
    ];
    for (group, version, kind, message) in cases {
        place.refused(&format!("create api --group {group} --version {version} --kind {kind}"), message);
    }
    place.refused(&format!("{CREATE} --plural Pages"), "invalid plural \"Pages\"");
}

#[test]
fn without_a_domain_the_whole_group_is_needed() {
    let place = Workplace { name: "web", ..Workplace::empty() };
    succeeds(&run(place.folder.path(), &["init", "web"]));
    place.refused(CREATE, "the project has no domain, so write the whole group: web.example.com");
    place.done("create api --group web.example.org --version v1 --kind Page");
    assert!(place.read("src/api/v1/page.rs").contains("group = \"web.example.org\""));
}

#[test]
fn names_are_derived_from_the_kind() {
    let place = Workplace::with_project();
    place.done("create api --group net --version v1beta2 --kind HTTPPolicy");
    let types = place.read("src/api/v1beta2/http_policy.rs");
    assert!(types.contains("kind = \"HTTPPolicy\"") && types.contains("plural = \"httppolicies\""), "{types}");
    let sample = place.read("samples/http_policy.yaml");
    assert!(sample.contains("net.example.com/v1beta2") && sample.contains("name: httppolicy-sample"), "{sample}");
    let test = place.read("tests/http_policy.rs");
    assert!(test.contains("web_operator::controllers::http_policy") && test.contains("HTTPPolicySpec"), "{test}");
    assert!(!place.tree().values().any(|text| text.to_lowercase().contains("website")), "a name of the template");
}

#[test]
fn two_apis_share_no_file_and_no_resource() {
    let place = Workplace::with_project();
    place.done("create api --group web --version v1 --kind HttpPage");
    let cases = [
        ("--group web --version v1 --kind HttpPage", "use --force to make it again"),
        ("--group web --version v2 --kind HttpPage", "CrdBuilder"),
        ("--group other --version v1 --kind HttpPage", "the same names, http_page.rs: choose another kind"),
        ("--group other --version v1 --kind HTTPPage", "the same names, http_page.rs"),
        ("--group web --version v1 --kind Sheet --plural httppages", "has the plural httppages, too"),
    ];
    for (arguments, message) in cases {
        place.refused(&format!("create api {arguments}"), message);
    }
    place.done("create api --group other --version v1 --kind Sheet --plural httppages");
}

#[test]
fn outside_a_project_the_error_names_init() {
    let place = Workplace::empty();
    place.refused(CREATE, "make one with `steersman init NAME`");
    place.refused("delete api --kind Page", "no steersman.toml in");
}
