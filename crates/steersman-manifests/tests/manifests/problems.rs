//! What cannot be in a CRD is an error that names the Rust path and what to do.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman::{CustomResource, KubeSchema};
use steersman_manifests::crd::{Error, crd};

/// Every field is a problem of its own.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Faulty")]
#[serde(rename_all = "camelCase")]
struct FaultySpec {
    tree: Tree,
    ratio: f32,
    huge: u128,
    mixed: Mixed,
    untagged: Untagged,
    two_schemas: Differing,
    nothing: (),
    tuple: (i32, String),
    holes: BTreeSet<Option<String>>,
    #[schemars(regex(pattern = "(?=x)"))]
    pattern: String,
    #[schemars(range(min = 300))]
    bounds: u8,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "note"]))]
    keyed: Vec<Inner>,
    listed: Vec<Immutable>,
    one_of: OneOf,
    #[schemars(extend("x-steersman-immutable" = "often"))]
    often: String,
    #[schemars(extend("if" = {"type": "string"}))]
    conditional: String,
    variants: Rules,
    scattered: BTreeMap<String, Vec<Inner>>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct Tree {
    branches: Vec<Branch>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct Branch {
    tree: Box<Tree>,
}

/// A string or an object.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
enum Mixed {
    Plain,
    Fields { a: i32 },
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(untagged)]
enum Untagged {
    Number(i32),
    List(Vec<i32>),
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(tag = "type")]
enum Differing {
    One { value: String },
    Two { value: bool },
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct Inner {
    note: Option<String>,
    ratio: f32,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct Immutable {
    #[schemars(extend("x-steersman-immutable" = true))]
    name: String,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(extend("x-steersman-exactly-one-of" = [["a", "b"], ["a", "c"], ["a"]]))]
struct OneOf {
    a: Option<String>,
    b: String,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(untagged)]
enum Rules {
    One(Ruled),
    Two { b: i32 },
}

#[derive(Clone, Debug, Deserialize, KubeSchema, Serialize)]
#[x_kube(validation = "self.a > 1")]
struct Ruled {
    a: i32,
}

#[test]
fn each_problem_is_listed_with_its_rust_path() {
    let Err(Error::Schema { type_name, problems }) = crd::<Faulty>() else { panic!("the type is taken") };
    assert_eq!(type_name, "manifests::problems::Faulty");
    let expected = [
        ("Faulty.spec.tree.branches[].tree (Branch::tree)", "(Tree → Branch → Tree)"),
        ("Faulty.spec.ratio (FaultySpec::ratio)", "float"),
        ("Faulty.spec.huge (FaultySpec::huge)", "uint128"),
        ("Faulty.spec.mixed (FaultySpec::mixed)", "the types object, string"),
        ("Faulty.spec.untagged (FaultySpec::untagged)", "the types array, integer"),
        ("Faulty.spec.twoSchemas.value (Differing::value)", "the types boolean, string"),
        ("Faulty.spec.nothing (FaultySpec::nothing)", "no value but null"),
        ("Faulty.spec.tuple (FaultySpec::tuple)", "this tuple"),
        ("Faulty.spec.holes[] (FaultySpec::holes)", "cannot be null"),
        ("Faulty.spec.pattern (FaultySpec::pattern)", "look-around"),
        ("Faulty.spec.bounds (FaultySpec::bounds)", "at least 300 and at most 255"),
        ("Faulty.spec.keyed (FaultySpec::keyed)", "the key name of the list is no field"),
        ("Faulty.spec.keyed (FaultySpec::keyed)", "the key note of the list may be missing"),
        ("Faulty.spec.keyed[].ratio (Inner::ratio)", "float"),
        ("Faulty.spec.listed[].name", "\"self == oldSelf\""),
        ("Faulty.spec.oneOf (FaultySpec::oneOf)", "names the field b, which is always set"),
        ("Faulty.spec.oneOf (FaultySpec::oneOf)", "names the field c, which does not exist"),
        ("Faulty.spec.oneOf (FaultySpec::oneOf)", "fewer than two fields"),
        ("Faulty.spec.often (FaultySpec::often)", "invalid value \"often\""),
        ("Faulty.spec.conditional (FaultySpec::conditional)", "no keyword if"),
        ("Faulty.spec.variants (FaultySpec::variants)", "a variant without a tag has a CEL rule"),
        ("Faulty.spec.scattered{}[].ratio (Inner::ratio)", "float"),
    ];
    for (path, problem) in expected {
        let found = problems
            .iter()
            .any(|found| found.path == path && found.problem.contains(problem) && !found.advice.is_empty());
        assert!(found, "{path}: {problem}: {problems:#?}");
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
}

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Panicking", crates(kube_core = "steersman::kube::core"))]
struct PanickingSpec {
    #[serde(flatten)]
    differing: Tagged,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(tag = "type")]
enum Tagged {
    One { a: i32 },
    Two { a: i32 },
}

#[test]
fn a_panic_of_the_derive_macro_of_kube_is_an_error_that_names_the_cure() {
    let Err(error) = crd::<Panicking>() else { panic!("the type is taken") };
    assert!(matches!(error, Error::Derive { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("manifests::problems::Panicking") && text.contains("steersman::CustomResource"), "{text}");
}

#[test]
fn an_enum_at_the_root_is_refused_beside_a_status() {
    #[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
    #[kube(group = "example.com", version = "v1", kind = "Rooted", status = "OneOf", no_spec)]
    struct RootedSpec {
        #[serde(flatten)]
        external: External,
    }
    #[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
    enum External {
        One { a: i32 },
        Two { a: i32 },
    }
    let Err(Error::Schema { problems, .. }) = crd::<Rooted>() else { panic!("the type is taken") };
    assert!(problems.iter().any(|problem| problem.problem.contains("restrict its root")), "{problems:#?}");
}
