//! Traces to an OpenTelemetry collector.

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HeaderInjector, HttpClient, HttpError};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use steersman::client::TraceContext;
use tokio::runtime::Handle;
use tracing::{Level, Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

const SERVICE: &str = "network-operator";
/// The crates whose spans are sent. The sender's own are not among them.
const TARGETS: [&str; 3] = ["steersman", "network_operator", "neutron"];
/// The limit of a response of the collector.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// Sends spans to an OpenTelemetry collector, in batches and in the background. The protocol is
/// OTLP with JSON over plain HTTP: a collector on the same host or in the same Pod forwards them
/// with TLS.
#[derive(Debug)]
pub struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Sends to this collector, for example `http://localhost:4318`. Needs a tokio runtime.
    pub fn new(collector: &str) -> Result<Self, ExporterBuildError> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{}/v1/traces", collector.trim_end_matches('/')))
            .with_http_client(Sender::new())
            .build()?;
        let resource = Resource::builder().with_service_name(SERVICE).build();
        Ok(Self(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build()))
    }

    /// Takes the spans of the operator: events, reconciles and requests.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer().with_tracer(self.0.tracer(SERVICE)).with_filter(filter_fn(sends))
    }

    /// Sends what is left. Without this call it is lost.
    pub async fn stop(self) {
        // The provider blocks its thread until the collector has answered.
        let sent = tokio::task::spawn_blocking(move || self.0.shutdown()).await;
        if let Ok(Err(error)) = sent {
            tracing::warn!(%error, "the last spans were not sent to the collector");
        }
    }
}

fn sends(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::DEBUG && TARGETS.iter().any(|target| metadata.target().starts_with(target))
}

/// Lets each request carry the span that it is sent in, as W3C header `traceparent`.
#[derive(Clone, Copy, Debug)]
pub struct CurrentSpan;

impl TraceContext for CurrentSpan {
    fn inject(&self, headers: &mut HeaderMap) {
        TraceContextPropagator::new().inject_context(&Span::current().context(), &mut HeaderInjector(headers));
    }
}

/// The exporter's HTTP client. The exporter has a thread without a runtime, so requests run on the
/// runtime of the program.
#[derive(Debug)]
struct Sender {
    client: Client<HttpConnector, Full<Bytes>>,
    runtime: Handle,
}

impl Sender {
    fn new() -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, runtime: Handle::current() }
    }
}

#[async_trait::async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.client.request(request.map(Full::new));
        let sending = self.runtime.spawn(async move {
            let (head, body) = response.await?.into_parts();
            let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        });
        sending.await?
    }
}
