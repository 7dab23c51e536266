//! The annotations of a Service.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use steersman::wire::is_dns1123_subdomain;

/// The annotation that asks for an Ingress.
pub const HTTP: &str = "ingress/http";
/// The annotation that names the host.
pub const HOST: &str = "ingress/host";
/// The annotation that names the path.
pub const PATH: &str = "ingress/path";

/// The route of an Ingress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The host of the requests.
    pub host: String,
    /// The prefix of the path of the requests.
    pub path: String,
    /// The port of the Service.
    pub port: i32,
}

/// Why a Service does not get an Ingress. The message is for the owner of the Service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The annotation has no boolean value.
    #[error("the annotation {HTTP} is {value:?}: use \"true\" or \"false\"")]
    NotTrueOrFalse {
        /// The value of the annotation.
        value: String,
    },
    /// The host is invalid.
    #[error("invalid host {host:?}, {why}: correct the annotation {HOST}")]
    BadHost {
        /// The value of the annotation.
        host: String,
        /// Why it is invalid.
        why: String,
    },
    /// The path is invalid.
    #[error("invalid path {path:?}, {why}: correct the annotation {PATH}")]
    BadPath {
        /// The value of the annotation.
        path: String,
        /// Why it is invalid.
        why: String,
    },
    /// The Service has no port for an Ingress.
    #[error("the Service has no TCP port for an Ingress: add one, or remove the annotation {HTTP}")]
    NoPort,
    /// Another Ingress has the name.
    #[error(
        "the Ingress {name} exists and does not belong to this Service, so it is not changed: rename it or delete it"
    )]
    NameTaken {
        /// Its namespace and name.
        name: String,
    },
    /// The server refused the Ingress.
    #[error("the Ingress was refused: {words}")]
    Refused {
        /// The message of the server.
        words: String,
    },
}

impl Problem {
    /// The reason in one word, for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotTrueOrFalse { .. } | Self::BadHost { .. } | Self::BadPath { .. } => "InvalidAnnotation",
            Self::NoPort => "NoPort",
            Self::NameTaken { .. } => "IngressNameTaken",
            Self::Refused { .. } => "IngressRefused",
        }
    }
}

/// The Ingress that a Service declares; `None` if it declares none.
pub fn route(service: &Service, domain: &str) -> Result<Option<Route>, Problem> {
    let annotation = |key| service.metadata.annotations.as_ref()?.get(key).map(String::as_str);
    match annotation(HTTP) {
        None | Some("false") => return Ok(None),
        Some("true") => {}
        Some(value) => return Err(Problem::NotTrueOrFalse { value: value.to_owned() }),
    }
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let default_host = || format!("{}.{}.{domain}", part(&service.metadata.name), part(&service.metadata.namespace));
    let host = annotation(HOST).map_or_else(default_host, Into::into);
    if let Some(why) = why_no_host(&host) {
        return Err(Problem::BadHost { host, why });
    }
    let path = annotation(PATH).unwrap_or("/").to_owned();
    if let Some(why) = why_no_path(&path) {
        return Err(Problem::BadPath { path, why });
    }
    let port = port(service).ok_or(Problem::NoPort)?;
    Ok(Some(Route { host, path, port }))
}

/// The port named `http`, or else the first.
fn port(service: &Service) -> Option<i32> {
    let ports = service.spec.as_ref()?.ports.as_deref()?;
    let is_tcp = |port: &&ServicePort| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    let named = ports.iter().filter(is_tcp).find(|port| port.name.as_deref() == Some("http"));
    named.or_else(|| ports.iter().find(is_tcp)).map(|port| port.port)
}

/// Why the server would refuse a host.
fn why_no_host(host: &str) -> Option<String> {
    if host.parse::<IpAddr>().is_ok() {
        return Some("it is an IP address".to_owned());
    }
    // The first label may be a wildcard.
    is_dns1123_subdomain(host.strip_prefix("*.").unwrap_or(host)).into_iter().next()
}

/// Why the server would refuse a path.
fn why_no_path(path: &str) -> Option<String> {
    if !path.starts_with('/') {
        return Some("it does not begin with /".to_owned());
    }
    let within = ["//", "/./", "/../", "%2f", "%2F"].into_iter().find(|bad| path.contains(bad));
    let at_end = ["/..", "/."].into_iter().find(|bad| path.ends_with(bad));
    within.or(at_end).map(|bad| format!("it contains {bad:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(annotations: &[(&str, &str)], ports: &serde_json::Value) -> Service {
        let annotations: serde_json::Map<_, _> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
            "spec": {"ports": ports},
        }))
        .unwrap()
    }

    fn http() -> serde_json::Value {
        serde_json::json!([{"port": 80}])
    }

    #[test]
    fn host_and_path_have_defaults() {
        let asked = route(&service(&[(HTTP, "true")], &http()), "example.com").unwrap().unwrap();
        assert_eq!(asked, Route { host: "web.shop.example.com".into(), path: "/".into(), port: 80 });
        let named = [(HTTP, "true"), (HOST, "*.shop.test"), (PATH, "/a/b")];
        let asked = route(&service(&named, &http()), "example.com").unwrap().unwrap();
        assert_eq!(asked, Route { host: "*.shop.test".into(), path: "/a/b".into(), port: 80 });
    }

    #[test]
    fn nothing_is_asked_for_without_the_annotation() {
        for annotations in [&[][..], &[(HTTP, "false")], &[(HOST, "shop.test")]] {
            assert_eq!(route(&service(annotations, &http()), "example.com"), Ok(None), "{annotations:?}");
        }
    }

    #[test]
    fn the_port_named_http_is_taken_before_the_first_and_udp_never() {
        let ports = |ports: serde_json::Value| route(&service(&[(HTTP, "true")], &ports), "example.com");
        let udp = serde_json::json!({"port": 53, "protocol": "UDP", "name": "dns"});
        let named = serde_json::json!([udp, {"port": 9090, "name": "metrics"}, {"port": 8080, "name": "http"}]);
        assert_eq!(ports(named).unwrap().unwrap().port, 8080);
        let first = serde_json::json!([udp, {"port": 9090, "protocol": "TCP", "name": "metrics"}]);
        assert_eq!(ports(first).unwrap().unwrap().port, 9090);
        assert_eq!(ports(serde_json::json!([udp])), Err(Problem::NoPort));
        assert_eq!(ports(serde_json::Value::Null), Err(Problem::NoPort));
    }

    #[test]
    fn what_is_wrong_is_named_with_the_annotation_to_correct() {
        let cases = [
            (HTTP, "yes", r#"ingress/http is "yes": use "true" or "false""#),
            (HTTP, "True", r#"ingress/http is "True""#),
            (HTTP, "", r#"ingress/http is """#),
            (HOST, "no_host", r#"invalid host "no_host""#),
            (HOST, "", r#"invalid host """#),
            (HOST, "10.0.0.1", "it is an IP address: correct the annotation ingress/host"),
            (HOST, "a.*.test", r#"invalid host "a.*.test""#),
            (PATH, "shop", "it does not begin with /: correct the annotation ingress/path"),
            (PATH, "", "it does not begin with /"),
            (PATH, "/a//b", r#"it contains "//""#),
            (PATH, "/a/..", r#"it contains "/..""#),
        ];
        for (key, value, words) in cases {
            let annotations = if key == HTTP { vec![(key, value)] } else { vec![(HTTP, "true"), (key, value)] };
            let problem = route(&service(&annotations, &http()), "example.com").unwrap_err();
            assert!(problem.to_string().contains(words), "{problem}");
            assert_eq!(problem.reason(), "InvalidAnnotation");
        }
    }
}
