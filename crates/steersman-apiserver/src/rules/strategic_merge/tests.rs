use proptest::prelude::{Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Just;
use serde_json::json;

use super::*;
use crate::rules::kinds::builtin;

/// The result of a patch of a value of that type, and the patch as it is left.
fn merged(of: &str, original: &Value, patch: &Value) -> (Result<Value, MergeError>, Value) {
    let types = &builtin().types;
    let (Value::Object(original), Value::Object(mut patch)) = (original.clone(), patch.clone()) else {
        panic!("not two objects")
    };
    let result = merge(types, types.find(of).unwrap(), original, &mut patch);
    (result.map(Value::Object), Value::Object(patch))
}

#[allow(clippy::needless_pass_by_value, reason = "values are written in the calls")]
fn spec(original: Value, patch: Value) -> Result<Value, MergeError> {
    merged("core.v1.PodSpec", &original, &patch).0
}

fn other(text: &str) -> Result<Value, MergeError> {
    Err(MergeError::Other(text.to_owned()))
}

/// Items with these names.
fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

#[test]
fn lists_are_merged_by_their_key() {
    for (before, patch, after) in [
        (named(&["a", "b"]), named(&["b", "a"]), named(&["b", "a"])),
        (named(&["a", "b", "c"]), named(&["c", "a"]), named(&["b", "c", "a"])),
        (named(&["a", "b"]), named(&["x"]), named(&["x", "a", "b"])),
        (named(&["a"]), json!([{"name": "a", "image": "i"}]), json!([{"name": "a", "image": "i"}])),
        (named(&["a", "b"]), json!([{"name": "a", "$patch": "delete"}]), named(&["b"])),
        (named(&["a", "b"]), json!([{"$patch": "replace"}, {"name": "c"}]), named(&["c"])),
        (named(&["a", "b"]), json!([{"$patch": "replace"}]), json!([])),
        (named(&["a", "a"]), json!([{"name": "a", "tty": true}]), json!([{"name": "a", "tty": true}, {"name": "a"}])),
        (named(&["a"]), json!([]), named(&["a"])),
    ] {
        let result = spec(json!({"containers": before}), json!({"containers": patch}));
        assert_eq!(result, Ok(json!({"containers": after})), "{before} with {patch}");
    }
}

#[test]
fn an_order_comes_before_that_of_the_patch_and_of_the_object() {
    for (before, order, patch, after) in [
        (&["a", "b"][..], &["b", "a"][..], None, &["b", "a"][..]),
        (&["a", "b", "c"], &["c", "a"], None, &["b", "c", "a"]),
        (&["a", "b"], &["x", "a"], Some(named(&["x"])), &["x", "a", "b"]),
        (
            &["a", "s", "b"],
            &["b", "x"],
            Some(json!([{"name": "a", "$patch": "delete"}, {"name": "x"}])),
            &["s", "b", "x"],
        ),
        (&["a"], &[], Some(named(&["x", "y"])), &["a", "y", "x"]),
    ] {
        let mut patches = json!({"$setElementOrder/containers": named(order)});
        if let Some(patch) = &patch {
            patches["containers"] = patch.clone();
        }
        let result = spec(json!({"containers": named(before)}), patches);
        assert_eq!(result, Ok(json!({"containers": named(after)})), "{before:?} {order:?} {patch:?}");
    }
}

#[test]
fn scalars_are_merged_as_a_set() {
    let merge = |before: Value, patch: Value| merged("meta.v1.ObjectMeta", &json!({"finalizers": before}), &patch).0;
    for (patch, after) in [
        (json!({"finalizers": ["c", "a"]}), json!(["c", "a", "b"])),
        (json!({"finalizers": ["x", "x"]}), json!(["x", "a", "b"])),
        (json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]}), json!(["b"])),
        (json!({"$setElementOrder/finalizers": ["b", "a"]}), json!(["b", "a"])),
        (json!({"$deleteFromPrimitiveList/finalizers": "a"}), json!(["a", "b"])),
    ] {
        assert_eq!(merge(json!(["a", "b"]), patch.clone()), Ok(json!({"finalizers": after})), "{patch}");
    }
    assert_eq!(merge(json!(["a"]), json!({"$deleteFromPrimitiveList/finalizers": null})), Ok(json!({})));
}

#[test]
fn maps_are_merged_and_directives_change_that() {
    let before = json!({"nodeSelector": {"a": "1", "b": "2"}, "volumes": [{"name": "v", "emptyDir": {}}]});
    for (patch, pointer, after) in [
        (json!({"nodeSelector": {"a": null, "c": "3"}}), "/nodeSelector", json!({"b": "2", "c": "3"})),
        (json!({"nodeSelector": {"$patch": "replace", "c": "3"}}), "/nodeSelector", json!({"c": "3"})),
        (json!({"nodeSelector": {"$patch": "delete", "c": "3"}}), "/nodeSelector", json!({})),
        (json!({"nodeSelector": {"$retainKeys": ["b", "c"], "c": "3"}}), "/nodeSelector", json!({"b": "2", "c": "3"})),
        (
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}),
            "/volumes/0",
            json!({"name": "v", "secret": {"secretName": "s"}}),
        ),
        (
            json!({"affinity": {"a": {"$patch": "delete"}, "b": null, "c": [null, {"$patch": "x"}]}}),
            "/affinity/a",
            json!(null),
        ),
        (json!({"affinity": {"b": null, "c": [1, {"$patch": "x"}, {"d": null}]}}), "/affinity", json!({"c": [1, {}]})),
        // Atomic lists and new types of values are taken as they are.
        (json!({"volumes": {"x": "y"}}), "/volumes", json!({"x": "y"})),
    ] {
        let after_patch = spec(before.clone(), patch.clone()).unwrap();
        assert_eq!(*after_patch.pointer(pointer).unwrap_or(&Value::Null), after, "{patch}");
    }
    let replaced = merged(
        "core.v1.PersistentVolumeClaimSpec",
        &json!({"selector": {"matchLabels": {"a": "b"}}}),
        &json!({"selector": {"matchLabels": {"c": "d"}}}),
    );
    assert!(replaced.0.is_ok());
}

#[test]
fn errors_have_the_words_and_the_maps_of_the_real_server() {
    let before = json!({"containers": named(&["a"]), "nodeSelector": {"a": "b"}, "tolerations": [{"key": "a"}]});
    let spec = |patch: Value| spec(before.clone(), patch);
    for (patch, error) in [
        (json!({"containers": [{"image": "i"}]}), "map: map[image:i] does not contain declared merge key: name"),
        (json!({"containers": ["x"]}), "list element types are not identical: [[map[name:a]] [x]]"),
        (
            json!({"containers": [{"name": "a", "$patch": "swap"}]}),
            "unknown patch type: swap in map: map[$patch:swap name:a]",
        ),
        (json!({"nodeSelector": {"$patch": 5}}), "unknown patch type: %!s(int64=5) in map: map[$patch:5]"),
        (
            json!({"containers": [{"name": "a", "$patch": "merge"}]}),
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"$setElementOrder/containers": named(&["a"]), "containers": named(&["b"])}),
            "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
        ),
        (
            json!({"$setElementOrder/containers": named(&["a"]),
                "containers": [{"name": "a"}, {"name": "a", "$patch": "replace"}]}),
            "The order in patch list:\n[map[name:a] map[$patch:replace name:a]]\n doesn't match $setElementOrder \
             list:\n[map[name:a]]\n",
        ),
        (
            json!({"$setElementOrder/containers": {}}),
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (json!({"$setElementOrder/containers": null}), "expected a []interface {}, but received a %!s(<nil>)"),
        (json!({"$setElementOrder/containers": ["a"]}), "value for key 0 is not a map"),
        (
            json!({"$setElementOrder/shoes": []}),
            "unable to find api field in struct PodSpec for the json field \"shoes\"",
        ),
        (json!({"$setElementOrder/affinity": []}), "no error"),
        (json!({"$setElementOrder/hostname": []}), "expected slice or array type, but got: struct"),
        (
            json!({"$deleteFromPrimitiveList/containers": ["a"]}),
            "list element types are not identical: [[map[name:a]] [a]]",
        ),
        (
            json!({"$deleteFromPrimitiveList/tolerations": [{"key": "a"}]}),
            "cannot merge lists without merge key for struct",
        ),
    ] {
        let expected = if error == "no error" { Ok(before.clone()) } else { other(error) };
        assert_eq!(spec(patch.clone()), expected, "{patch}");
    }
    for (patch, error) in [
        (json!({"$setElementOrder": []}), BAD_ORDER),
        (json!({"$setElementOrderX/containers": []}), BAD_ORDER),
        (json!({"$deleteFromPrimitiveList": []}), BAD_PRIMITIVE_LIST),
        (json!({"$retainKeys": "containers"}), BAD_RETAIN_KEYS),
        (json!({"$retainKeys": ["tolerations"], "containers": []}), BAD_RETAIN_KEYS),
        (json!({"$retainKeys": [{}]}), MergeError::Incomparable),
        (json!({"containers": [{"name": {}}]}), MergeError::Incomparable),
    ] {
        assert_eq!(spec(patch.clone()), Err(error), "{patch}");
    }
    let lists = merged("meta.v1.ObjectMeta", &json!({"finalizers": [["a"]]}), &json!({"finalizers": ["a"]}));
    assert_eq!(lists.0, Err(MergeError::ListOfLists));
    let inside = merged("apps.v1.ControllerRevision", &json!({"data": {"a": {}}}), &json!({"data": {"a": {}}}));
    assert_eq!(inside.0, other("unable to find api field in struct RawExtension for the json field \"a\""));
}

#[test]
fn directives_that_were_carried_out_leave_the_patch() {
    let patch = json!({
        "nodeSelector": {"$patch": "replace", "a": "b"},
        "affinity": {"a": null, "b": {"$patch": "delete"}, "c": 1},
        "$retainKeys": ["nodeSelector", "affinity", "containers"],
        "$setElementOrder/containers": [],
    });
    let (_, left) = merged("core.v1.PodSpec", &json!({"nodeSelector": {"c": "d"}}), &patch);
    assert_eq!(left, json!({"nodeSelector": {"a": "b"}, "affinity": {"c": 1}}));
}

/// A list of containers with different names, and images.
fn containers() -> impl Strategy<Value = Value> {
    let item = ("[a-f]", any::<u8>()).prop_map(|(name, image)| (name, json!(image.to_string())));
    prop::collection::btree_map("[a-f]", item.prop_map(|(_, image)| image), 0..6)
        .prop_map(|items| items.into_iter().map(|(name, image)| json!({"name": name, "image": image})).collect())
        .prop_map(|items: Vec<Value>| items)
        .prop_shuffle()
        .prop_map(Value::Array)
}

/// Any JSON with directives at any place.
fn hostile() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(|number| json!(number)),
        prop_oneof![Just("replace"), Just("delete"), Just("merge"), Just("a"), Just("name")]
            .prop_map(|text| json!(text)),
    ];
    let key = prop_oneof![
        Just("$patch"),
        Just("$retainKeys"),
        Just("$setElementOrder/containers"),
        Just("$setElementOrder/env"),
        Just("$deleteFromPrimitiveList/args"),
        Just("containers"),
        Just("env"),
        Just("args"),
        Just("name"),
        Just("nodeSelector"),
        Just("volumes"),
        Just("x"),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_patch_brings_every_item_and_takes_none(before in containers(), patch in containers()) {
        let after = spec(json!({"containers": before}), json!({"containers": patch})).unwrap();
        let find = |list: &Value, name: &Value| {
            list.as_array().unwrap().iter().find(|item| item["name"] == *name).map(|item| item["image"].clone())
        };
        let names = |list: &Value| -> Vec<Value> {
            list.as_array().unwrap().iter().map(|item| item["name"].clone()).collect()
        };
        let after = &after["containers"];
        for name in names(after) {
            prop_assert_eq!(find(after, &name), find(&patch, &name).or(find(&before, &name)));
        }
        let mut expected: Vec<Value> = names(&before).into_iter().chain(names(&patch)).collect();
        expected.sort_by_key(Value::to_string);
        expected.dedup();
        let mut found = names(after);
        let order: Vec<Value> = found.iter().filter(|name| find(&patch, name).is_some()).cloned().collect();
        prop_assert_eq!(order, names(&patch), "the items of the patch keep its order");
        found.sort_by_key(Value::to_string);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_same_patch_again_changes_nothing(before in containers(), patch in containers()) {
        let patch = json!({"containers": patch});
        let once = spec(json!({"containers": before}), patch.clone()).unwrap();
        prop_assert_eq!(spec(once.clone(), patch), Ok(once));
    }

    #[test]
    fn no_patch_panics(before in hostile(), patch in hostile()) {
        if before.is_object() && patch.is_object() {
            let _ = spec(before, patch);
        }
    }
}
