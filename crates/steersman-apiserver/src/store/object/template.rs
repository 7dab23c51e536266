//! An object that every server has with values of its own.
//!
//! A template is encoded once per process. Each server copies its bytes and fills in the uid, the
//! time and the version.

use std::ops::Range;

use serde_json::{Map, Value};

use super::Object;
use crate::rules::convert;
use crate::rules::kinds::Kind;
use crate::store::{Key, Revision};

/// Stands for the uid.
const UID: &str = "00000000-0000-0000-0000-000000000000";
/// Stands for the time of the start. Its first part alone stands for the day.
const TIME: &str = "1970-01-01T00:00:00Z";
const DAY: &str = "1970-01-01";

/// The values that differ between servers.
pub(crate) struct Fresh<'a> {
    pub(crate) uid: &'a str,
    /// The time in the form of objects.
    pub(crate) now: &'a str,
}

/// An object with gaps for the values of one server.
pub(crate) struct Template {
    object: Object,
    /// In the order of the body.
    gaps: Vec<Gap>,
}

struct Gap {
    place: Range<usize>,
    filled_with: Filling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filling {
    Uid,
    Time,
    Day,
    Version,
}

impl Template {
    /// Encodes an object without uid, version and creation timestamp. Each other time in it stands
    /// for the time of the start.
    pub(crate) fn new(kind: &Kind, mut value: Value) -> Self {
        let metadata = &mut value["metadata"];
        if !metadata.is_object() {
            *metadata = Map::new().into();
        }
        metadata["uid"] = UID.into();
        metadata["creationTimestamp"] = TIME.into();
        let fields = convert::selectable(kind, &value);
        let managed = Object::own_managed(&value);
        let object = Object::managed_by(&value, managed.as_bytes(), 0, fields);
        let (from, to) = object.version_at;
        let mut gaps = vec![Gap { place: from..to, filled_with: Filling::Version }];
        let text = std::str::from_utf8(&object.body).expect("a body is JSON");
        gaps.extend(text.match_indices(UID).map(|(at, _)| gap(at, UID, Filling::Uid)));
        for (at, _) in text.match_indices(DAY) {
            let is_time = text[at..].starts_with(TIME);
            gaps.push(if is_time { gap(at, TIME, Filling::Time) } else { gap(at, DAY, Filling::Day) });
        }
        gaps.sort_unstable_by_key(|gap| gap.place.start);
        Self { object, gaps }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.object.key
    }

    /// The object of one server.
    pub(crate) fn object(&self, revision: Revision, fresh: &Fresh<'_>) -> Object {
        let template = &self.object;
        let version = revision.to_string();
        let mut body = Vec::with_capacity(template.body.len() + version.len());
        let mut copied = 0;
        let (mut version_at, mut metadata_end) = (template.version_at, template.metadata_end);
        let mut managed_at = template.managed_at;
        for Gap { place, filled_with } in &self.gaps {
            body.extend_from_slice(&template.body[copied..place.start]);
            let text = match filled_with {
                Filling::Uid => fresh.uid,
                Filling::Time => fresh.now,
                Filling::Day => fresh.now.get(..DAY.len()).unwrap_or(fresh.now),
                Filling::Version => {
                    version_at = (body.len(), body.len() + version.len());
                    &version
                }
            };
            body.extend_from_slice(text.as_bytes());
            copied = place.end;
            let moved = |at: usize| (copied <= at).then(|| at + body.len() - copied);
            metadata_end = moved(template.metadata_end).unwrap_or(metadata_end);
            managed_at.0 = moved(template.managed_at.0).unwrap_or(managed_at.0);
            managed_at.1 = moved(template.managed_at.1).unwrap_or(managed_at.1);
        }
        body.extend_from_slice(&template.body[copied..]);
        body.shrink_to_fit();
        Object {
            revision,
            uid: fresh.uid.into(),
            body: body.into(),
            managed_at,
            version_at,
            metadata_end,
            ..template.without_body()
        }
    }
}

fn gap(at: usize, placeholder: &str, filled_with: Filling) -> Gap {
    Gap { place: at..at + placeholder.len(), filled_with }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::kinds::builtin;

    #[test]
    fn a_template_is_the_object_with_the_values_of_a_server() {
        let services = builtin().resource("", "v1", "services").unwrap();
        let template = Template::new(
            services,
            json!({
                "metadata": {"name": "a", "namespace": "b", "labels": {"x": "y"},
                    "managedFields": [{"time": TIME, "manager": "m"}]},
                "spec": {"type": "ClusterIP", "clusterIP": "None"},
                "status": {"since": DAY, "at": TIME},
            }),
        );
        let (uid, now) = ("11111111-2222-3333-4444-555555555555", "2026-03-02T08:14:21Z");
        for revision in [7, 123] {
            let object = template.object(revision, &Fresh { uid, now });
            let expected = json!({
                "metadata": {"name": "a", "namespace": "b", "labels": {"x": "y"}, "uid": uid, "creationTimestamp": now,
                    "resourceVersion": revision.to_string()},
                "spec": {"type": "ClusterIP", "clusterIP": "None"},
                "status": {"since": "2026-03-02", "at": now},
            });
            assert_eq!(object.value(), expected);
            let managed: Value = serde_json::from_slice(object.managed()).unwrap();
            assert_eq!(managed, json!([{"time": now, "manager": "m"}]));
            assert_eq!((object.revision(), object.uid(), object.label("x")), (revision, uid, Some("y")));
            assert_eq!(object.field("spec.clusterIP"), Some("None"));
            let metadata = [b"{", &object.metadata()[..], b"}"].concat();
            let metadata: Value = serde_json::from_slice(&metadata).unwrap();
            assert_eq!(metadata["metadata"]["uid"], uid);
            assert_eq!(metadata["metadata"]["managedFields"], managed);
            assert_eq!(object.at(1000).value()["metadata"]["resourceVersion"], "1000");
        }
    }
}
