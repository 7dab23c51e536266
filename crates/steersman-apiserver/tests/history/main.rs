//! Random histories with concurrent writers: every watch shows exactly the changes after its
//! beginning, every list is a state that existed, and no update is lost.

mod alone;
#[path = "../common/mod.rs"]
mod common;
mod together;

use proptest::prelude::*;
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

use common::{KINDS, NAMES, NAMESPACES, ObjectPath, SELECTORS, Selection, call, get, version};

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const FINALIZER: &str = "example.com/hold";

/// A write. Its effect depends on the present state.
#[derive(Clone, Debug)]
enum Write {
    Create {
        label: Option<&'static str>,
    },
    /// With the present version, or with an earlier one.
    Update {
        label: Option<&'static str>,
        stale: bool,
    },
    /// Without a version.
    Overwrite {
        label: Option<&'static str>,
    },
    Merge {
        label: Option<&'static str>,
    },
    /// Only if the label has this value.
    Test {
        label: &'static str,
    },
    Finalizer {
        on: bool,
    },
    Delete {
        stale: bool,
    },
    /// Changes nothing.
    Touch,
}

fn label() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![Just(None), Just(Some("web")), Just(Some("db"))]
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        4 => label().prop_map(|label| Write::Create { label }),
        3 => (label(), prop::bool::weighted(0.2)).prop_map(|(label, stale)| Write::Update { label, stale }),
        1 => label().prop_map(|label| Write::Overwrite { label }),
        3 => label().prop_map(|label| Write::Merge { label }),
        1 => Just(Write::Test { label: "web" }),
        1 => any::<bool>().prop_map(|on| Write::Finalizer { on }),
        2 => prop::bool::weighted(0.2).prop_map(|stale| Write::Delete { stale }),
        1 => Just(Write::Touch),
    ]
}

fn place() -> impl Strategy<Value = ObjectPath> {
    (0..KINDS.len(), 0..NAMESPACES.len(), 0..NAMES.len()).prop_map(|(kind, ns, name)| ObjectPath::new(kind, ns, name))
}

fn selection() -> impl Strategy<Value = Selection> {
    (0..KINDS.len(), prop::option::of(0..NAMESPACES.len()), 0..SELECTORS.len())
        .prop_map(|(kind, namespace, selector)| Selection { kind, namespace, selector })
}

fn object(place: &ObjectPath, label: Option<&str>, value: usize) -> Value {
    let mut object = json!({"metadata": {"name": place.name, "annotations": {"value": value.to_string()}}});
    if let Some(label) = label {
        object["metadata"]["labels"] = json!({ "app": label });
    }
    object
}

/// The result of a write.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: Value,
    /// The version that the writer required.
    insisted: Option<u64>,
}

/// Makes a write with `value`, which is unique.
async fn make(server: &ApiServer, place: &ObjectPath, write: &Write, value: usize) -> Answer {
    let path = place.path();
    let mut insisted = None;
    let put = async |object: Value| call(server, "PUT", &path, "application/json", &object).await;
    let patch = async |kind, patch: Value| call(server, "PATCH", &path, kind, &patch).await;
    let (status, body) = match write {
        Write::Create { label } => {
            call(server, "POST", &place.collection(), "application/json", &object(place, *label, value)).await
        }
        Write::Update { label, stale } => {
            let (status, mut current) = get(server, &path).await;
            if status != 200 {
                return Answer { status, body: current, insisted };
            }
            let at = version(&current) - u64::from(*stale);
            insisted = Some(at);
            let finalizers = current["metadata"]["finalizers"].clone();
            current["metadata"] = object(place, *label, value)["metadata"].clone();
            current["metadata"]["finalizers"] = finalizers;
            current["metadata"]["resourceVersion"] = at.to_string().into();
            put(current).await
        }
        Write::Overwrite { label } => put(object(place, *label, value)).await,
        Write::Merge { label } => {
            let metadata = json!({"annotations": {"value": value.to_string()}, "labels": {"app": label}});
            patch(MERGE, json!({ "metadata": metadata })).await
        }
        Write::Test { label } => {
            let operations = json!([
                {"op": "test", "path": "/metadata/labels/app", "value": label},
                {"op": "replace", "path": "/metadata/annotations/value", "value": value.to_string()},
                {"op": "remove", "path": "/metadata/labels/app"},
            ]);
            patch(JSON_PATCH, operations).await
        }
        Write::Finalizer { on } => {
            let finalizers = if *on { json!([FINALIZER]) } else { Value::Null };
            patch(MERGE, json!({"metadata": {"finalizers": finalizers}})).await
        }
        Write::Delete { stale } => {
            let mut options = Value::Null;
            if *stale {
                let (_, current) = get(server, &path).await;
                let at = current["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
                insisted = at.map(|at| at - 1);
                options = json!({"preconditions": {"resourceVersion": insisted.unwrap_or(1).to_string()}});
            }
            call(server, "DELETE", &path, "application/json", &options).await
        }
        Write::Touch => patch(MERGE, json!({"metadata": {}})).await,
    };
    assert!(matches!(status, 200 | 201 | 404 | 409 | 422), "{write:?}: {status} {body}");
    Answer { status, body, insisted }
}

fn cases(few: u32, many: u32) -> ProptestConfig {
    let soak = std::env::var_os("STEERSMAN_SOAK").is_some();
    ProptestConfig { cases: if soak { many } else { few }, failure_persistence: None, ..ProptestConfig::default() }
}
