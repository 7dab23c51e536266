//! The cells of storage.

use serde_json::Value;

use super::{NONE, Row, UNSET};

pub(super) fn cells(kind: &str, row: Row<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "PersistentVolume" => volume(row),
        "PersistentVolumeClaim" => claim(row),
        "StorageClass" => class(row),
        "VolumeAttributesClass" => vec![row.name(), row.text("/driverName").into(), row.age()],
        "VolumeAttachment" => attachment(row),
        "CSINode" => vec![row.name(), row.count("/spec/drivers").into(), row.age()],
        "CSIDriver" => driver(row),
        _ => return None,
    })
}

fn modes(row: Row<'_>, pointer: &str) -> String {
    let given = row.list(pointer);
    let all =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let short = all.iter().filter(|(mode, _)| given.iter().any(|given| given == mode)).map(|(_, short)| *short);
    short.collect::<Vec<_>>().join(",")
}

fn phase<'a>(row: Row<'a>) -> &'a str {
    if row.is_deleting() { "Terminating" } else { row.text("/status/phase") }
}

fn storage_class<'a>(row: Row<'a>) -> &'a str {
    let of_annotation = row.annotation("volume.beta.kubernetes.io/storage-class");
    of_annotation.unwrap_or_else(|| row.text("/spec/storageClassName"))
}

fn volume(row: Row<'_>) -> Vec<Value> {
    let claim = if row.at("/spec/claimRef").is_object() {
        format!("{}/{}", row.text("/spec/claimRef/namespace"), row.text("/spec/claimRef/name"))
    } else {
        String::new()
    };
    vec![
        row.name(),
        row.optional("/spec/capacity/storage", "0").into(),
        modes(row, "/spec/accessModes").into(),
        row.text("/spec/persistentVolumeReclaimPolicy").into(),
        phase(row).into(),
        claim.into(),
        storage_class(row).into(),
        row.optional("/spec/volumeAttributesClassName", UNSET).into(),
        row.text("/status/reason").into(),
        row.age(),
        row.optional("/spec/volumeMode", UNSET).into(),
    ]
}

fn claim(row: Row<'_>) -> Vec<Value> {
    let volume = row.text("/spec/volumeName");
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (row.optional("/status/capacity/storage", "0").to_owned(), modes(row, "/status/accessModes"))
    };
    vec![
        row.name(),
        phase(row).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        storage_class(row).into(),
        row.optional("/spec/volumeAttributesClassName", UNSET).into(),
        row.age(),
        row.optional("/spec/volumeMode", UNSET).into(),
    ]
}

fn class(row: Row<'_>) -> Vec<Value> {
    let marks = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let mut name = row.text("/metadata/name").to_owned();
    if marks.iter().any(|mark| row.annotation(mark) == Some("true")) {
        name.push_str(" (default)");
    }
    vec![
        name.into(),
        row.text("/provisioner").into(),
        row.optional("/reclaimPolicy", "Delete").into(),
        row.optional("/volumeBindingMode", "Immediate").into(),
        row.flag("/allowVolumeExpansion", false).into(),
        row.age(),
    ]
}

fn attachment(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("/spec/attacher").into(),
        row.text("/spec/source/persistentVolumeName").into(),
        row.text("/spec/nodeName").into(),
        row.flag("/status/attached", false).into(),
        row.age(),
    ]
}

fn driver(row: Row<'_>) -> Vec<Value> {
    let modes = row.joined("/spec/volumeLifecycleModes");
    let audiences = row.list("/spec/tokenRequests").iter();
    let audiences: Vec<&str> = audiences.map(|request| request["audience"].as_str().unwrap_or_default()).collect();
    let requests = if row.at("/spec/tokenRequests").is_array() { audiences.join(",") } else { UNSET.to_owned() };
    vec![
        row.name(),
        row.flag("/spec/attachRequired", true).into(),
        row.flag("/spec/podInfoOnMount", false).into(),
        row.flag("/spec/storageCapacity", false).into(),
        requests.into(),
        row.flag("/spec/requiresRepublish", false).into(),
        if modes.is_empty() { NONE.into() } else { modes.into() },
        row.age(),
    ]
}
