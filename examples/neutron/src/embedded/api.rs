//! From a request to a response, without a network.

use serde_json::{Map, Value, json};

use super::attributes::{Kind, shown};
use super::refusal::Refusal;
use super::store::{Fields, Store, not_found, text};

const TAGS_MAX: usize = 50;
const TAG_CHARS_MAX: usize = 255;
/// Parameters of a list that are not filters.
const NOT_FILTERS: [&str; 6] = ["fields", "sort_key", "sort_dir", "limit", "marker", "page_reverse"];

const MALFORMED: &str =
    "The server could not comply with the request since it is either malformed or otherwise incorrect.";
/// Paths outside a version of the API have no error format of their own.
const NO_SUCH_PAGE: &str = "404 Not Found\n\nThe resource could not be found.\n\n   ";

/// The relevant parts of a request.
#[derive(Clone, Debug)]
pub(super) struct Question<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) if_match: Option<&'a str>,
    pub(super) body: &'a [u8],
    /// The address of this server, for links.
    pub(super) host: &'a str,
}

/// The status and the body. A deletion has no body.
pub(super) type Reply = (u16, Option<Value>);

/// Handles a request.
pub(super) fn answer(store: &mut Store, question: &Question<'_>) -> Reply {
    match route(store, question) {
        Ok(reply) => reply,
        Err(refusal) => (refusal.status, Some(refusal.body())),
    }
}

fn route(store: &mut Store, question: &Question<'_>) -> Result<Reply, Refusal> {
    let segments: Vec<String> = question.path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let ok = |body: Value| Ok((200, Some(body)));
    match (question.method, segments.as_slice()) {
        ("GET", []) => {
            let link = json!({"rel": "self", "href": format!("{}/v2.0/", question.host)});
            ok(json!({"versions": [{"id": "v2.0", "status": "CURRENT", "links": [link]}]}))
        }
        ("GET", ["healthcheck"]) => ok(Value::from("OK")),
        ("GET", ["v2.0", "quotas", project]) => ok(json!({"quota": store.quotas(project)})),
        ("PUT", ["v2.0", "quotas", project]) => {
            set_quotas(store, project, question.body)?;
            ok(json!({"quota": store.quotas(project)}))
        }
        ("DELETE", ["v2.0", "quotas", project]) => {
            store.reset_quotas(project);
            Ok((204, None))
        }
        (_, ["v2.0", collection, rest @ ..]) => {
            let kind = Kind::of_collection(collection).ok_or_else(Refusal::no_such_path)?;
            on_resource(store, kind, rest, question)
        }
        _ => Ok((404, Some(Value::from(NO_SUCH_PAGE)))),
    }
}

fn on_resource(store: &mut Store, kind: Kind, rest: &[&str], question: &Question<'_>) -> Result<Reply, Refusal> {
    let one = |value: Value| json!({ kind.name(): value });
    match (question.method, rest) {
        ("GET", []) => Ok((200, Some(list(store, kind, question)?))),
        ("POST", []) => {
            let mut given = body_of(kind, question.body)?;
            same_owner(&mut given)?;
            kind.check_create(&mut given)?;
            Ok((201, Some(one(store.create(kind, given)?))))
        }
        ("GET", [id]) => {
            let fields = store.find(kind, id)?;
            Ok((200, Some(one(store.view(kind, fields)))))
        }
        ("PUT", [id]) => {
            let mut given = body_of(kind, question.body)?;
            same_owner(&mut given)?;
            kind.check_update(&mut given)?;
            let revision = revision_wanted(question.if_match)?;
            Ok((200, Some(one(store.update(kind, id, given, revision)?))))
        }
        ("DELETE", [id]) => {
            store.delete(kind, id, revision_wanted(question.if_match)?)?;
            Ok((204, None))
        }
        (_, [id, "tags"]) if kind != Kind::Port => on_tags(store, kind, id, question),
        // The real one first looks up the resource to change or delete.
        ("PUT" | "DELETE", []) => Err(not_found(kind, "None")),
        (_, [] | [_]) => Err(Refusal::new(405, "HTTPMethodNotAllowed", MALFORMED)),
        _ => Err(Refusal::no_such_path()),
    }
}

fn on_tags(store: &mut Store, kind: Kind, id: &str, question: &Question<'_>) -> Result<Reply, Refusal> {
    match question.method {
        "GET" => Ok((200, Some(json!({"tags": store.find(kind, id)?["tags"]})))),
        "PUT" => {
            let tags = tags_of(question.body)?;
            store.find(kind, id)?;
            store.set_tags(kind, id, tags.clone())?;
            Ok((200, Some(json!({ "tags": tags }))))
        }
        "DELETE" => {
            store.find(kind, id)?;
            store.set_tags(kind, id, Vec::new())?;
            Ok((204, None))
        }
        _ => Err(Refusal::no_such_path()),
    }
}

fn tags_of(body: &[u8]) -> Result<Vec<String>, Refusal> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let tags = body.get("tags").ok_or_else(|| Refusal::invalid_input("Invalid tags body"))?;
    let no_list = || Refusal::invalid_input(format_args!("'{}' is not a list", shown(tags)));
    let tags = tags.as_array().ok_or_else(no_list)?;
    let mut read: Vec<String> = Vec::new();
    for tag in tags {
        let tag = tag.as_str().ok_or_else(|| Refusal::invalid_input(format_args!("'{tag}' is not a valid string")))?;
        if tag.chars().count() > TAG_CHARS_MAX {
            return Err(Refusal::invalid_input(format_args!("'{tag}' exceeds maximum length of {TAG_CHARS_MAX}")));
        }
        read.push(tag.to_owned());
    }
    if read.len() > TAGS_MAX {
        let message = format!("Bad networks request: The number of tags exceed the per-resource limit of {TAGS_MAX}.");
        return Err(Refusal::new(400, "BadRequest", message));
    }
    Ok(read)
}

/// The attributes in `{"network": {…}}`.
fn body_of(kind: Kind, body: &[u8]) -> Result<Fields, Refusal> {
    let name = kind.name();
    let missing = || Refusal::bad_request(format!("Unable to find '{name}' in request body"));
    if body.is_empty() {
        return Err(missing());
    }
    let mut body: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| Refusal::bad_request("Body contains invalid data"))?;
    match body.remove(name) {
        Some(Value::Object(fields)) => Ok(fields),
        Some(Value::Null) | None => Err(missing()),
        Some(_) => Err(Refusal::bad_request(format!("Object '{name}' contains invalid data"))),
    }
}

/// The owner has an old name and a new one. Setting one sets the other.
fn same_owner(given: &mut Fields) -> Result<(), Refusal> {
    let (old, new) = (given.get("tenant_id"), given.get("project_id"));
    match (old.cloned(), new.cloned()) {
        (Some(old), Some(new)) if old != new => Err(Refusal::bad_request("'project_id' and 'tenant_id' do not match")),
        (Some(owner), _) | (None, Some(owner)) => {
            given.insert("project_id".to_owned(), owner.clone());
            given.insert("tenant_id".to_owned(), owner);
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

/// `If-Match: revision_number=N`.
fn revision_wanted(if_match: Option<&str>) -> Result<Option<i64>, Refusal> {
    let tag = if_match.map(|tag| tag.trim().trim_matches('"'));
    let Some(number) = tag.and_then(|tag| tag.strip_prefix("revision_number=")) else { return Ok(None) };
    number.parse().map(Some).map_err(|_| {
        let message = "Bad if-match request: Revision number etag must be in the format of revision_number=<int>.";
        Refusal::new(400, "BadRequest", message)
    })
}

fn set_quotas(store: &mut Store, project: &str, body: &[u8]) -> Result<(), Refusal> {
    let body: Value = serde_json::from_slice(body).map_err(|_| Refusal::bad_request("Body contains invalid data"))?;
    let limits = body.get("quota").and_then(Value::as_object);
    let limits = limits.ok_or_else(|| Refusal::bad_request("Unable to find 'quota' in request body"))?;
    if let Some(unknown) = limits.keys().find(|name| !Kind::ALL.iter().any(|kind| kind.name() == name.as_str())) {
        return Err(Refusal::bad_request(format!("Unrecognized attribute(s) '{unknown}'")));
    }
    for (name, limit) in limits {
        let limit =
            limit.as_i64().ok_or_else(|| Refusal::invalid_input(format_args!("'{limit}' is not an integer")))?;
        if limit < -1 {
            return Err(Refusal::bad_request(format!(
                "Invalid input for {name}. Reason: '{limit}' is too small - must be at least '-1'."
            )));
        }
        store.set_quota(Some(project), name, limit);
    }
    Ok(())
}

/// The resources that match the query, or a page of them.
fn list(store: &Store, kind: Kind, question: &Question<'_>) -> Result<Value, Refusal> {
    let pairs: Vec<(String, String)> = form_urlencoded::parse(question.query.as_bytes()).into_owned().collect();
    let filters = read_filters(kind, &pairs)?;
    let mut found: Vec<&Fields> = store.all(kind).iter().filter(|fields| filters.match_all(fields)).collect();
    let parameter = |name: &str| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let limit = read_limit(parameter("limit"))?;
    let collection = format!("{}s", kind.name());
    let mut body = json!({});
    if let Some(limit) = limit {
        found.sort_by_key(|fields| text(fields, "id").to_owned());
        if let Some(marker) = parameter("marker") {
            store.find(kind, marker)?;
            found.retain(|fields| text(fields, "id") > marker);
        }
        found.truncate(limit);
        body[format!("{collection}_links")] = links(question, &pairs, &found, limit, &collection);
    }
    body[collection] = found.into_iter().map(|fields| store.view(kind, fields)).collect();
    Ok(body)
}

fn read_limit(limit: Option<&str>) -> Result<Option<usize>, Refusal> {
    let Some(text) = limit else { return Ok(None) };
    match text.parse() {
        Ok(0) => Ok(None),
        Ok(limit) => Ok(Some(limit)),
        Err(_) => {
            let message = format!("Bad limit request: Limit must be an integer 0 or greater and not '{text}'.");
            Err(Refusal::new(400, "BadRequest", message))
        }
    }
}

/// A full page has a next one; every page has a previous one.
fn links(
    question: &Question<'_>,
    pairs: &[(String, String)],
    page: &[&Fields],
    limit: usize,
    collection: &str,
) -> Value {
    let link = |rel: &str, marker: Option<&&Fields>| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in pairs.iter().filter(|(name, _)| name != "marker" && name != "page_reverse") {
            query.append_pair(name, value);
        }
        if let Some(marker) = marker {
            query.append_pair("marker", text(marker, "id"));
        }
        if rel == "previous" {
            query.append_pair("page_reverse", "True");
        }
        json!({"rel": rel, "href": format!("{}/v2.0/{collection}?{}", question.host, query.finish())})
    };
    let next = (page.len() >= limit).then(|| link("next", page.last()));
    next.into_iter().chain([link("previous", page.first())]).collect()
}

/// The filters of a list: a resource has to match all of them, each with one of its values.
struct Filters(Vec<(String, Vec<Value>)>);

fn read_filters(kind: Kind, pairs: &[(String, String)]) -> Result<Filters, Refusal> {
    let mut filters: Vec<(String, Vec<Value>)> = Vec::new();
    let mut unknown: Vec<&str> = Vec::new();
    for (name, value) in pairs.iter().filter(|(name, _)| !NOT_FILTERS.contains(&name.as_str())) {
        match kind.filter_value(name, value) {
            None if unknown.contains(&name.as_str()) => {}
            None => unknown.push(name),
            Some(value) => match filters.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) => values.push(value?),
                None => filters.push((name.clone(), vec![value?])),
            },
        }
    }
    if unknown.is_empty() {
        return Ok(Filters(filters));
    }
    let unknown: Vec<_> = unknown.iter().map(|name| format!("'{name}'")).collect();
    Err(Refusal::bad_request(format!("[{}] is invalid attribute for filtering", unknown.join(", "))))
}

impl Filters {
    fn match_all(&self, fields: &Fields) -> bool {
        self.0.iter().all(|(name, values)| match name.as_str() {
            "tags" => has_all_tags(fields, values),
            "not-tags" => !has_all_tags(fields, values),
            name => fields.get(name).is_some_and(|value| values.contains(value)),
        })
    }
}

/// Tags are separated by commas.
fn has_all_tags(fields: &Fields, values: &[Value]) -> bool {
    let tags = fields.get("tags").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let wanted = values.iter().filter_map(Value::as_str).flat_map(|value| value.split(','));
    wanted.into_iter().all(|wanted| tags.iter().any(|tag| tag == wanted))
}

/// A segment of a path with percent-encoding decoded.
fn decoded(segment: &str) -> String {
    // A plus sign is itself in a path; in a query it is a space.
    let segment = segment.replace('+', "%2B");
    form_urlencoded::parse(segment.replace('=', "%3D").replace('&', "%26").as_bytes())
        .map(|(name, _)| name.into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Stands for the id of an existing resource.
    const KNOWN: &str = "11111111-1111-4111-8111-111111111111";
    const NAMES: &[&str] = &[
        "name",
        "description",
        "mtu",
        "shared",
        "cidr",
        "ip_version",
        "gateway_ip",
        "allocation_pools",
        "dns_nameservers",
        "enable_dhcp",
        "project_id",
        "tags",
        "id",
    ];
    const CIDRS: &[&str] = &[
        "10.1.0.0/24",
        "10.1.0.0/31",
        "10.2.0.0/32",
        "0.0.0.0/0",
        "255.255.255.255/32",
        "::/0",
        "2001:db8::/64",
        "2001:db9::/128",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
    ];
    const ADDRESSES: &[&str] = &["", "10.1.0.0", "10.1.0.1", "10.1.0.255", "255.255.255.255", "::", "2001:db8::1"];

    /// Valid values and edge cases.
    fn value() -> impl Strategy<Value = Value> {
        let pools = json!([{"start": "10.1.0.9", "end": "10.1.0.2"}, {"start": "::", "end": "10.1.0.2"}]);
        prop_oneof![
            select(CIDRS).prop_map(Value::from),
            select(ADDRESSES).prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            ".{0,300}".prop_map(Value::from),
            Just(Value::Null),
            Just(json!(["10.1.0.2", 7, null])),
            Just(json!([{}, 7])),
            Just(pools),
        ]
    }

    /// A valid request, with a few fields changed, or random bytes.
    fn body(kind: &'static str) -> impl Strategy<Value = String> {
        let usual = (select(CIDRS), any::<bool>(), vec((select(NAMES), value()), 0..3));
        let usual = usual.prop_map(move |(cidr, enable_dhcp, changed)| {
            let mut fields = match kind {
                "subnet" => json!({
                    "network_id": KNOWN, "cidr": cidr, "enable_dhcp": enable_dhcp,
                    "ip_version": if cidr.contains(':') { 6 } else { 4 },
                }),
                "port" => json!({"network_id": KNOWN}),
                _ => json!({}),
            };
            for (name, value) in changed {
                fields[name] = value;
            }
            json!({ kind: fields }).to_string()
        });
        prop_oneof![9 => usual, 1 => ".{0,20}"]
    }

    fn request() -> impl Strategy<Value = (&'static str, String, &'static str, String)> {
        let kind = select(&["network", "subnet", "port", "quota"][..]);
        let parts = kind.prop_flat_map(|kind| {
            let path = prop_oneof![
                3 => Just("POST "),
                1 => select(&["PUT /1", "DELETE /1", "GET /1", "GET ", "PUT /1/tags", "GET /%41%", "PATCH /+=&"][..]),
            ];
            let query = select(&["", "limit=2&name=n", "limit=x", "a=b&&=", "%ff=%", "shared=x"][..]);
            (Just(kind), path, query, body(kind))
        });
        parts.prop_map(|(kind, path, query, body)| {
            let (method, rest) = path.split_once(' ').unwrap_or_default();
            (method, format!("/v2.0/{kind}s{}", rest.replace('1', KNOWN)), query, body)
        })
    }

    proptest! {
        #[test]
        fn every_request_has_an_answer(requests in vec(request(), 1..12)) {
            let mut store = Store::default();
            let mut known = String::new();
            let first = ("POST", "/v2.0/networks".to_owned(), "", r#"{"network": {}}"#.to_owned());
            for (method, path, query, body) in std::iter::once(first).chain(requests) {
                let (path, body) = (path.replace(KNOWN, &known), body.replace(KNOWN, &known));
                let if_match = Some("revision_number=1");
                let question = Question { method, path: &path, query, if_match, body: body.as_bytes(), host: "" };
                let (status, reply) = answer(&mut store, &question);
                prop_assert!((200..500).contains(&status), "{question:?}: {status}");
                if known.is_empty() {
                    known = reply.unwrap_or_default()["network"]["id"].as_str().unwrap_or_default().to_owned();
                }
            }
        }
    }
}
