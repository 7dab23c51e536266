//! The `Accept` header, parsed as the real server does.

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};

use crate::request::Query;
use crate::response::status::Status;

/// The supported types in refusals, with the real server's text. This server supports the first
/// two.
pub(crate) const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// How many clauses of an `Accept` header are parsed. Clients send about five.
const CLAUSES_MAX: usize = 256;

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
}

impl Encoding {
    const ALL: [Self; 2] = [Self::Json, Self::Yaml];

    /// The media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// A kind that a response is converted to: `as`, `g` and `v` of a media type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// The result of the negotiation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Negotiated {
    pub(crate) encoding: Encoding,
    pub(crate) conversion: Option<Conversion>,
    /// Whether the media type requests indented text.
    pretty: bool,
}

/// One media type of an `Accept` header.
#[derive(Clone, Debug, PartialEq)]
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim_matches(' ');
        let (media_type, parameters) = text.split_once(';').unwrap_or((text, ""));
        let (kind, subtype) = match media_type.split_once('/') {
            Some((_, subtype)) if subtype.is_empty() || subtype.contains('/') => return None,
            Some((kind, subtype)) => (kind.trim_matches(' '), subtype.trim_matches(' ')),
            None if media_type.trim_matches(' ') == "*" => ("*", "*"),
            None => return None,
        };
        let mut clause = Self { kind, subtype, quality: 1.0, parameters: Vec::new() };
        for parameter in parameters.split(';') {
            let Some((name, value)) = parameter.split_once('=') else { continue };
            if value.is_empty() || value.contains('=') {
                continue;
            }
            match name.trim_matches(' ') {
                "q" => clause.quality = value.parse().unwrap_or(0.0),
                name => clause.parameters.push((name, value.trim_matches(' '))),
            }
        }
        Some(clause)
    }

    /// Whether it is tried before another one.
    fn precedes(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.kind != "*" && other.kind == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }

    fn covers(&self, encoding: Encoding) -> bool {
        let (kind, subtype) = encoding.media_type().split_once('/').unwrap_or_default();
        match (self.kind, self.subtype) {
            ("*", "*") => true,
            (own, "*") => own == kind,
            own => own == (kind, subtype),
        }
    }

    fn conversion(&self) -> Option<Conversion> {
        let text = |name: &str| self.parameter(name).map(str::to_owned);
        let (kind, group, version) = (text("as"), text("g"), text("v"));
        if kind.is_none() && group.is_none() && version.is_none() {
            return None;
        }
        let (kind, group) = (kind.unwrap_or_default(), group.unwrap_or_default());
        Some(Conversion { kind, group, version: version.unwrap_or_default() })
    }

    fn parameter(&self, wanted: &str) -> Option<&str> {
        self.parameters.iter().rfind(|(name, _)| *name == wanted).map(|(_, value)| *value)
    }
}

/// The clauses of a header, the best first. Sorting takes quadratic time, so their number is
/// limited.
fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut sorted: Vec<Clause<'_>> = Vec::new();
    for clause in header.split(',').filter_map(Clause::parse).take(CLAUSES_MAX) {
        // The order is not total, so that the sorting algorithm is part of the rule.
        let place = sorted.iter().rposition(|other| !clause.precedes(other)).map_or(0, |last| last + 1);
        sorted.insert(place, clause);
    }
    sorted
}

/// The media types that the client accepts, the best first. `*` stands for any part.
pub(crate) fn media_types(header: &str) -> Vec<(&str, &str)> {
    clauses(header).into_iter().map(|clause| (clause.kind, clause.subtype)).collect()
}

/// The best type that the client accepts and `allows` permits. A client without a header gets JSON.
pub(crate) fn negotiate(header: Option<&str>, allows: impl Fn(Option<&Conversion>) -> bool) -> Option<Negotiated> {
    let Some(header) = header.filter(|header| !header.is_empty()) else {
        return Some(Negotiated { encoding: Encoding::Json, conversion: None, pretty: false });
    };
    for clause in clauses(header) {
        for encoding in Encoding::ALL.into_iter().filter(|encoding| clause.covers(*encoding)) {
            let stream = clause.parameter("stream");
            let streams = stream.is_none_or(|stream| stream == "watch" && encoding == Encoding::Json);
            let conversion = clause.conversion();
            if streams && clause.parameter("sv").is_none() && allows(conversion.as_ref()) {
                return Some(Negotiated { encoding, conversion, pretty: clause.parameter("pretty") == Some("1") });
            }
        }
    }
    None
}

/// Refuses a request whose `Accept` header names none of the media types that exist there, with any
/// parameters. `*/*` is any of them; other patterns are not supported here.
pub(crate) fn check_media_type(header: Option<&str>, made: &str) -> Result<(), Status> {
    let Some(header) = header.filter(|header| !header.is_empty()) else { return Ok(()) };
    let known = header.split(',').any(|clause| {
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        media_type == "*/*" || made.split(", ").any(|known| known == media_type)
    });
    if known { Ok(()) } else { Err(Status::not_available(made)) }
}

/// The `Accept` header of the client.
pub(crate) fn accept(headers: &HeaderMap) -> Option<&str> {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok())
}

/// Whether the text is for people: the request asks for it, or comes from a tool that displays it.
pub(crate) fn is_pretty(query: &Query, headers: &HeaderMap, negotiated: &Negotiated) -> bool {
    if negotiated.pretty {
        return true;
    }
    match query.get("pretty").filter(|value| !value.is_empty()) {
        Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => {
            let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
            ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(header: &str) -> Option<Encoding> {
        negotiate(Some(header), |conversion| conversion.is_none()).map(|negotiated| negotiated.encoding)
    }

    #[test]
    fn the_best_of_what_is_accepted_is_taken() {
        let cases = [
            ("", Some(Encoding::Json)),
            ("*/*", Some(Encoding::Json)),
            ("*", Some(Encoding::Json)),
            ("application/*", Some(Encoding::Json)),
            ("application/yaml", Some(Encoding::Yaml)),
            ("application/yaml;q=0.1,application/json;q=0.9", Some(Encoding::Json)),
            ("application/json;q=0.1, application/yaml;q=0.9", Some(Encoding::Yaml)),
            ("*/*,application/yaml", Some(Encoding::Yaml)),
            ("text/html, application/yaml", Some(Encoding::Yaml)),
            ("application/json;as=Table;g=meta.k8s.io;v=v1,application/yaml", Some(Encoding::Yaml)),
            ("application/json;as=Table;g=meta.k8s.io;v=v1", None),
            ("application/yaml;stream=watch", None),
            ("application/json/x", None),
            ("text/html", None),
        ];
        for (header, expected) in cases {
            assert_eq!(plain(header), expected, "{header}");
        }
    }

    #[test]
    fn a_conversion_is_read_from_its_parameters() {
        let header = "application/json,application/json;v=v2;g=a.b;as=C;x=y;pretty=1";
        let negotiated = negotiate(Some(header), |conversion| conversion.is_some()).unwrap();
        let wanted = Conversion { group: "a.b".to_owned(), version: "v2".to_owned(), kind: "C".to_owned() };
        assert_eq!((negotiated.conversion.as_ref(), negotiated.pretty), (Some(&wanted), true));
        assert!(is_pretty(&Query::default(), &HeaderMap::new(), &negotiated));
    }

    /// Each clause here goes before all others: without a limit, the time grows with the square of
    /// their number.
    #[test]
    fn a_header_with_many_clauses_is_read_in_part() {
        let header: Vec<String> = (0..10_000).map(|quality| format!("a/b;q=0.{quality:05}")).collect();
        assert_eq!(clauses(&header.join(",")).len(), CLAUSES_MAX);
        let last = format!("{},application/yaml", "a/b,".repeat(CLAUSES_MAX - 1));
        assert_eq!(plain(&last), Some(Encoding::Yaml));
        assert_eq!(plain(&format!("a/b,{last}")), None);
    }

    #[test]
    fn people_get_text_that_they_can_read() {
        let negotiated = negotiate(None, |_| true).unwrap();
        let mut headers = HeaderMap::new();
        assert!(is_pretty(&Query::parse("pretty=1"), &headers, &negotiated));
        assert!(!is_pretty(&Query::parse("pretty=yes"), &headers, &negotiated));
        headers.insert(USER_AGENT, "curl/8".parse().unwrap());
        assert!(is_pretty(&Query::parse("pretty="), &headers, &negotiated));
        assert!(!is_pretty(&Query::parse("pretty=false"), &headers, &negotiated));
    }
}
