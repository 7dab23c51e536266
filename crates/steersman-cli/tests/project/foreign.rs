//! Rust types of a CRD of another project: they compile, and lose nothing of an object.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use steersman::client::PostParams;
use steersman::{Resource, ResourceExt};
use steersman_testing::Embedded;

use super::Workplace;

/// What the command makes of `data/machine.yaml`.
#[rustfmt::skip]
#[allow(unreachable_pub)]
#[path = "data/machine.rs"]
mod machine;

use machine::{IntOrString, Machine, MachineDisk, MachineMode, MachineSpec};

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/project/data").join(file)
}

fn create(place: &Workplace) {
    place.done(&format!("create api --from-crd {} --controller false", data("machine.yaml").display()));
}

#[test]
fn the_compiled_types_are_those_that_the_command_makes() {
    let place = Workplace::with_project();
    create(&place);
    let made = place.read("src/api/v1/machine.rs");
    let expected = fs::read_to_string(data("machine.rs")).unwrap();
    assert_eq!(made, expected, "if the change is right, write the left text to {}", data("machine.rs").display());
    assert_eq!(place.read("crds/machine.yaml"), fs::read_to_string(data("machine.yaml")).unwrap());
}

#[test]
fn an_external_kind_has_no_crd_and_no_sample_of_ours() {
    let place = Workplace::with_project();
    create(&place);
    let library = place.read("src/lib.rs");
    assert!(library.contains("\n        .external_crd(include_str!(\"../crds/machine.yaml\"))\n"), "{library}");
    assert!(!library.contains(".crd(") && !library.contains(".samples("), "{library}");
    assert!(!place.root().join("samples").exists() && !place.root().join("tests/rbac.rs").exists());
}

/// Every field, values that are newer than the schema, and fields that it permits without a name.
fn object() -> Value {
    json!({
        "apiVersion": "example.org/v1",
        "kind": "Machine",
        "metadata": {"name": "a", "namespace": "default"},
        "driver": "d",
        "parameters": {"p": "q"},
        "spec": {
            "type": "t",
            "self": "s",
            "clusterIP": "10.0.0.1",
            "x-flag": true,
            "$ref": "r",
            "nothing": null,
            "mode": "half-on",
            "port": "http",
            "memory": 68_719_476_736_i64,
            "count": 3,
            "bytes": 9_007_199_254_740_993_i64,
            "ratio": 0.5,
            "disk": {"name": "d", "size": 1},
            "disks": [{"kind": "ssd"}, {"kind": "tape"}],
            "zones": {"a": [{"weight": 1}, {}], "b": []},
            "template": {"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "n"}},
            "anything": [1, {"a": null}],
            "open": {"known": "k", "more": {"a": [1]}},
            "free": {"a": {"b": "c"}},
            "status": {"since": "2026-01-31T10:00:00.123456Z"},
        },
        "status": {"conditions": [{"type": "Ready", "status": "Maybe", "lastTransitionTime": "2026-01-31T10:00:00Z"}]},
    })
}

#[test]
fn an_object_that_is_read_and_written_loses_nothing() {
    let read: Machine = serde_json::from_value(object()).unwrap();
    assert_eq!(read.spec.mode, MachineMode::HalfOn);
    assert_eq!(read.spec.memory, Some(IntOrString::Int(68_719_476_736)));
    assert_eq!(serde_json::to_value(&read).unwrap(), object());
    // Only what has to be there.
    let least = json!({
        "apiVersion": "example.org/v1",
        "kind": "Machine",
        "metadata": {},
        "driver": "",
        "spec": {"type": "", "clusterIP": "", "nothing": null, "mode": "", "disk": {"name": ""}},
    });
    let read: Machine = serde_json::from_value(least.clone()).unwrap();
    assert_eq!((&read.spec.mode, &read.spec.nothing), (&MachineMode::Empty, &None));
    assert_eq!(serde_json::to_value(&read).unwrap(), least);
}

#[tokio::test]
async fn the_types_are_those_of_a_kind_of_the_server() -> Result<(), Box<dyn Error>> {
    let server = Embedded::start();
    let text = fs::read_to_string(data("machine.yaml"))?;
    let mut crd: Value = serde_saphyr::from_str(&text)?;
    // The server refuses the values that are newer than the schema.
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["disks"] =
        json!({"x-kubernetes-preserve-unknown-fields": true});
    server.install_crds([crd]).await?;
    let machines = server.client().namespaced::<Machine>("default");
    let spec = MachineSpec {
        r#type: "t".to_owned(),
        self_: None,
        cluster_ip: "10.0.0.1".to_owned(),
        x_flag: None,
        r#ref: None,
        nothing: Some("n".to_owned()),
        mode: MachineMode::On,
        port: None,
        memory: None,
        count: None,
        bytes: None,
        ratio: None,
        disk: MachineDisk { name: "d".to_owned(), ..MachineDisk::default() },
        disks: None,
        zones: None,
        template: None,
        anything: None,
        open: None,
        free: None,
        status: None,
    };
    let created = machines.create(&PostParams::default(), &Machine::new("a", "d".to_owned(), spec.clone())).await?;
    assert_eq!((created.name_any().as_str(), &created.spec), ("a", &spec));
    let listed = machines.list(&Default::default()).await?.items;
    assert_eq!(listed, [created]);
    assert_eq!((Machine::api_version(&()), Machine::plural(&())), ("example.org/v1".into(), "machines".into()));
    Ok(())
}
