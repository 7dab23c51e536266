//! One HTTP request and its response: connections, TLS, time limits, and the error messages of the
//! server.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;

/// More than any list of networks. A longer body is no response of OpenStack.
const BODY_BYTES_MAX: usize = 64 << 20;
/// Enough of an error page to identify the server.
const MESSAGE_CHARS_MAX: usize = 500;
/// Servers behind a proxy close idle connections after about a minute; the client closes them
/// first.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Sends requests. Connections are reused.
#[derive(Debug)]
pub(crate) struct Transport {
    plain: Client<HttpConnector, Full<Bytes>>,
    /// Created on first use, because reading the system's certificates takes time.
    tls: OnceLock<Client<HttpsConnector<HttpConnector>, Full<Bytes>>>,
    ca_file: Option<PathBuf>,
    timeout: Duration,
}

/// The response.
#[derive(Debug)]
pub(crate) struct Answer {
    request: String,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Bytes,
}

impl Transport {
    pub(crate) fn new(ca_file: Option<PathBuf>, timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { plain: client(connector), tls: OnceLock::new(), ca_file, timeout }
    }

    /// Sends one request. Every complete response is `Ok`, with any status.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Option<&Value>,
    ) -> Result<Answer, Error> {
        let description = format!("{method} {url}");
        let mut request = Request::new(Full::new(body.map(Value::to_string).unwrap_or_default().into()));
        *request.method_mut() = method;
        *request.uri_mut() = url.parse().map_err(|reason| Error::Config(format!("{url} is not a URL: {reason}")))?;
        *request.headers_mut() = headers;
        if body.is_some() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        tracing::debug!(request = description, "sent");
        match tokio::time::timeout(self.timeout, self.exchange(request, &description)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::TimedOut { request: description, after: self.timeout }),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>, description: &str) -> Result<Answer, Error> {
        let unreachable = |reason: String| Error::Unreachable { request: description.to_owned(), reason };
        let response = if request.uri().scheme_str() == Some("https") {
            self.tls()?.request(request).await
        } else {
            self.plain.request(request).await
        };
        let (parts, body) = response.map_err(|error| unreachable(with_causes(&error)))?.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let body = body.map_err(|error| unreachable(format!("the answer broke off: {}", with_causes(&*error))))?;
        Ok(Answer {
            request: description.to_owned(),
            status: parts.status,
            headers: parts.headers,
            body: body.to_bytes(),
        })
    }

    fn tls(&self) -> Result<&Client<HttpsConnector<HttpConnector>, Full<Bytes>>, Error> {
        if let Some(client) = self.tls.get() {
            return Ok(client);
        }
        let made = client(tls_connector(self.ca_file.as_deref())?);
        Ok(self.tls.get_or_init(|| made))
    }
}

fn client<C>(connector: C) -> Client<C, Full<Bytes>>
where
    C: hyper_util::client::legacy::connect::Connect + Clone,
{
    Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_MAX).pool_timer(TokioTimer::new()).build(connector)
}

fn tls_connector(ca_file: Option<&Path>) -> Result<HttpsConnector<HttpConnector>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = HttpsConnectorBuilder::new();
    let builder = match ca_file {
        Some(path) => {
            let tls = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|reason| Error::Config(reason.to_string()))?
                .with_root_certificates(read_certificates(path)?)
                .with_no_client_auth();
            builder.with_tls_config(tls)
        }
        None => builder
            .with_provider_and_native_roots(provider)
            .map_err(|reason| Error::Config(format!("the system's certificates: {reason}")))?,
    };
    Ok(builder.https_only().enable_http1().build())
}

fn read_certificates(path: &Path) -> Result<rustls::RootCertStore, Error> {
    let bad = |reason: String| Error::File { path: path.to_owned(), reason };
    let mut store = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|reason| bad(reason.to_string()))? {
        let certificate = certificate.map_err(|reason| bad(reason.to_string()))?;
        store.add(certificate).map_err(|reason| bad(reason.to_string()))?;
    }
    if store.is_empty() { Err(bad("no certificate in it".to_owned())) } else { Ok(store) }
}

impl Answer {
    /// The body of a successful response.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        if !self.status.is_success() {
            return Err(self.refusal());
        }
        serde_json::from_slice(&self.body).map_err(|reason| self.unreadable(&reason.to_string()))
    }

    /// The error for a response that cannot be parsed.
    pub(crate) fn unreadable(&self, reason: &str) -> Error {
        Error::Unreadable { request: self.request.clone(), reason: reason.to_owned() }
    }

    /// The error in a response: in Neutron's format, in Keystone's, or in that of a proxy.
    pub(crate) fn refusal(&self) -> Error {
        let (type_, message) =
            serde_json::from_slice(&self.body).ok().and_then(|body| json_error(&body)).unwrap_or_else(|| {
                let text = String::from_utf8_lossy(&self.body);
                (None, shortened(&without_tags(&text)))
            });
        Error::Refused {
            request: self.request.clone(),
            status: self.status.as_u16(),
            type_: type_.unwrap_or_else(|| self.status.canonical_reason().unwrap_or("error").to_owned()),
            message,
        }
    }
}

/// The type and the message of an error: `{"NeutronError": {type, message, detail}}`,
/// `{"error": {title, message}}`, either of them as plain text, or `{"message": …}` from the
/// middleware in front.
fn json_error(body: &Value) -> Option<(Option<String>, String)> {
    let said = body.get("NeutronError").or_else(|| body.get("error")).unwrap_or(body);
    let text = |name: &str| said.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let mut message = said.as_str().or_else(|| text("message"))?.trim().to_owned();
    if let Some(detail) = text("detail") {
        message = format!("{message} {detail}");
    }
    // Keystone's title is the reason phrase of the status.
    Some((text("type").or_else(|| text("title")).map(str::to_owned), shortened(&message)))
}

/// The visible text of an error page, on one line.
fn without_tags(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        shown += before;
        shown.push(' ');
        let Some((tag, after)) = tag.split_once('>') else { return shown };
        // The head is not visible, except for the title, which repeats the headline.
        rest = if tag.eq_ignore_ascii_case("head") { skip_past(after, "</head>") } else { after };
    }
    shown + rest
}

fn skip_past<'a>(text: &'a str, end: &str) -> &'a str {
    text.to_ascii_lowercase().find(end).map_or(text, |at| &text[at + end.len()..])
}

fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// An error with its causes: the message of hyper alone is short ("client error (Connect)").
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !said.ends_with(&more) {
            said = format!("{said}: {more}");
        }
        cause = error.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, body: &'static str) -> Error {
        let answer = Answer {
            request: "GET http://neutron/v2.0/networks".to_owned(),
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::from_static(body.as_bytes()),
        };
        answer.refusal()
    }

    #[test]
    fn every_form_of_error_body_gives_the_server_s_own_words() {
        let page = "<html>\n <head>\n  <title>503 Service Unavailable</title>\n </head>\n <body>\n  <h1>503 Service Unavailable</h1>\n  \
                    The server is currently unavailable. Please try again at a later time.<br /><br />\n\n\n </body>\n</html>";
        let cases = [
            (
                409,
                r#"{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['network'].", "detail": ""}}"#,
                "409 OverQuota: Quota exceeded for resources: ['network'].",
            ),
            (
                400,
                r#"{"NeutronError": {"type": "HTTPBadRequest", "message": "Bad.", "detail": "Very bad."}}"#,
                "400 HTTPBadRequest: Bad. Very bad.",
            ),
            (400, r#"{"NeutronError": "just words"}"#, "400 Bad Request: just words"),
            (
                401,
                r#"{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}"#,
                "401 Unauthorized: The request you have made requires authentication.",
            ),
            (
                404,
                r#"{"message": "The resource could not be found.", "code": "404"}"#,
                "404 Not Found: The resource could not be found.",
            ),
            (
                503,
                page,
                "503 Service Unavailable: 503 Service Unavailable The server is currently unavailable. Please try again at a later time.",
            ),
            (
                500,
                "Internal Server Error\n\nThe server generated an exception.",
                "500 Internal Server Error: Internal Server Error The server generated an exception.",
            ),
            (502, "", "502 Bad Gateway: "),
            (500, "<html", "500 Internal Server Error: "),
            (418, "[1, 2]", "418 I'm a teapot: [1, 2]"),
        ];
        for (status, body, shown) in cases {
            let error = refusal(status, body);
            assert_eq!(error.to_string(), format!("GET http://neutron/v2.0/networks: {shown}"), "for the body {body}");
        }
    }

    #[test]
    fn a_long_error_page_is_shortened() {
        let body: &'static str = Box::leak("é".repeat(10_000).into_boxed_str());
        let Error::Refused { message, .. } = refusal(500, body) else { panic!("not a refusal") };
        assert_eq!(message.chars().count(), MESSAGE_CHARS_MAX + 1);
        assert!(message.ends_with('…'));
    }
}
