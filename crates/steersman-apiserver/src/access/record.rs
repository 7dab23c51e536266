//! The record of requests: who did what, and whether it was permitted.

use std::collections::HashMap;

use super::action::{Action, Target};
use crate::request::identity::Identity;

/// How many different requests are recorded.
const REQUESTS_MAX: usize = 10_000;
/// How many bytes the texts of all recorded requests may have.
const BYTES_MAX: usize = 16 << 20;

/// The requests of a server by user and action, each once: see
/// [`ApiServer::requests`](crate::ApiServer::requests).
///
/// A record has at most 10,000 different requests, and at most 16 MiB of their texts. Requests that
/// were first made after that are only counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestRecord {
    /// The requests, in the order in which they were first made.
    pub requests: Vec<RecordedRequest>,
    /// How many requests are not among them because the record was full.
    pub unrecorded: u64,
}

/// A request as authorization sees it.
///
/// The fields are those of a rule of a role. Those of the resource are empty for a request of a
/// path, and the path is empty for a request of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// The user, after impersonation.
    pub user: String,
    /// The verb, such as `get` or `deletecollection`. For a path the method in lower case.
    pub verb: String,
    /// The API group. Empty for the core group.
    pub group: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: String,
    /// The namespace. Empty for all namespaces, and for cluster-scoped resources. For a request of
    /// a Namespace it is its name.
    pub namespace: String,
    /// The name of the object. Empty for a collection, and for a create by POST.
    pub name: String,
    /// The path, for a request that is for no resource.
    pub path: String,
    /// Whether the user was permitted to make the request.
    pub allowed: bool,
    /// Whether an admission plugin asked for it because of another request: see
    /// [`ApiServerBuilder::owner_references_permission_enforcement`](crate::ApiServerBuilder::owner_references_permission_enforcement).
    pub admission: bool,
    /// How many such requests there were.
    pub count: u64,
}

/// The record of one server.
#[derive(Default)]
pub(super) struct Record {
    /// The index of each request in `requests`. Its count is not part of the key.
    places: HashMap<RecordedRequest, usize>,
    requests: Vec<u64>,
    bytes: usize,
    unrecorded: u64,
}

impl Record {
    pub(super) fn note(&mut self, user: &Identity, action: &Action, allowed: bool, admission: bool) {
        let (user, verb) = (user.name().to_owned(), action.verb.clone());
        let mut request = RecordedRequest { user, verb, allowed, admission, ..Default::default() };
        match &action.target {
            Target::Resource(resource) => {
                request.group.clone_from(&resource.group);
                request.resource.clone_from(&resource.resource);
                request.subresource.clone_from(&resource.subresource);
                request.namespace.clone_from(&resource.namespace);
                request.name.clone_from(&resource.name);
            }
            Target::Path(path) => request.path.clone_from(path),
        }
        if let Some(place) = self.places.get(&request) {
            self.requests[*place] += 1;
            return;
        }
        let bytes = request.bytes();
        if self.requests.len() == REQUESTS_MAX || self.bytes + bytes > BYTES_MAX {
            self.unrecorded += 1;
            return;
        }
        self.bytes += bytes;
        self.places.insert(request, self.requests.len());
        self.requests.push(1);
    }

    pub(super) fn snapshot(&self) -> RequestRecord {
        let mut requests: Vec<(usize, &RecordedRequest)> =
            self.places.iter().map(|(request, place)| (*place, request)).collect();
        requests.sort_unstable_by_key(|(place, _)| *place);
        let counted = |(place, request): (usize, &RecordedRequest)| RecordedRequest {
            count: self.requests[place],
            ..request.clone()
        };
        RequestRecord { requests: requests.into_iter().map(counted).collect(), unrecorded: self.unrecorded }
    }
}

impl RecordedRequest {
    fn bytes(&self) -> usize {
        let Self { user, verb, group, resource, subresource, namespace, name, path, .. } = self;
        [user, verb, group, resource, subresource, namespace, name, path].iter().map(|text| text.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::action::Resource;
    use super::*;

    fn get(name: &str) -> Action {
        Action::on_resource(
            "get",
            Resource { resource: "pods".to_owned(), name: name.to_owned(), ..Resource::default() },
        )
    }

    #[test]
    fn a_request_is_recorded_once_and_counted() {
        let jane = Identity::new("jane", ["g"]);
        let mut record = Record::default();
        record.note(&jane, &get("b"), true, false);
        record.note(&jane, &Action::on_path("get", "/healthz"), true, false);
        record.note(&jane, &get("a"), false, false);
        record.note(&jane, &get("b"), true, false);
        record.note(&jane, &get("b"), false, false);
        let record = record.snapshot();
        let seen: Vec<_> = record
            .requests
            .iter()
            .map(|request| (format!("{}{}", request.name, request.path), request.allowed, request.count))
            .collect();
        let expected = [("b", true, 2), ("/healthz", true, 1), ("a", false, 1), ("b", false, 1)];
        assert_eq!(seen, expected.map(|(what, allowed, count)| (what.to_owned(), allowed, count)));
        assert_eq!((record.requests[0].user.as_str(), record.unrecorded), ("jane", 0));
    }

    #[test]
    fn the_record_is_bounded_by_number_and_by_bytes() {
        let jane = Identity::new("jane", ["g"]);
        let mut record = Record::default();
        for at in 0..REQUESTS_MAX + 5 {
            record.note(&jane, &get(&at.to_string()), true, false);
        }
        record.note(&jane, &get("0"), true, false);
        let shown = record.snapshot();
        assert_eq!((shown.requests.len(), shown.unrecorded, shown.requests[0].count), (REQUESTS_MAX, 5, 2));
        let mut record = Record::default();
        let long = "x".repeat(BYTES_MAX / 4);
        for at in 0..8 {
            record.note(&jane, &get(&format!("{at}{long}")), true, false);
        }
        assert_eq!((record.snapshot().requests.len(), record.unrecorded), (3, 5));
    }
}
