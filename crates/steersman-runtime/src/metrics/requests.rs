//! The requests of the manager's client.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use steersman_client::{RequestMetrics, RequestSample};

use super::families::Families;
use super::histogram::{Buckets, Histogram, REQUEST_SIZE, REQUEST_TIME};

/// The code of an attempt without a response, as client-go has it.
const NO_RESPONSE: &str = "<error>";

/// Counts requests.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// By code, method and host.
    counts: Mutex<BTreeMap<(String, String, String), u64>>,
    details: Option<Details>,
}

/// The histograms that have to be asked for.
#[derive(Debug, Default)]
struct Details {
    duration: ByVerb,
    request_size: ByVerb,
}

/// Histograms by verb and host.
#[derive(Debug, Default)]
struct ByVerb(Mutex<BTreeMap<(String, String), Histogram>>);

impl ByVerb {
    fn all(&self) -> MutexGuard<'_, BTreeMap<(String, String), Histogram>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observe(&self, sample: &RequestSample<'_>, buckets: &'static Buckets, value: u64) {
        let labels = (sample.method.to_string(), sample.host.to_owned());
        self.all().entry(labels).or_insert_with(|| Histogram::new(buckets)).observe_units(value);
    }

    fn encode(&self, families: &mut Families<'_>, name: &str, help: &str) -> fmt::Result {
        let all = self.all();
        let series = all.iter().map(|((verb, host), histogram)| ([("verb", &**verb), ("host", &**host)], histogram));
        families.histogram(name, help, series)
    }
}

impl Requests {
    pub(crate) fn new(detailed: bool) -> Self {
        Self { counts: Mutex::default(), details: detailed.then(Details::default) }
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<(String, String, String), u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestMetrics for Requests {
    fn request(&self, sample: RequestSample<'_>) {
        let code = sample.code.map_or_else(|| NO_RESPONSE.to_owned(), |code| code.to_string());
        let labels = (code, sample.method.to_string(), sample.host.to_owned());
        *self.counts().entry(labels).or_default() += 1;
        if let Some(details) = &self.details {
            let nanoseconds = u64::try_from(sample.duration.as_nanos()).unwrap_or(u64::MAX);
            details.duration.observe(&sample, &REQUEST_TIME, nanoseconds);
            if let Some(size) = sample.request_size {
                details.request_size.observe(&sample, &REQUEST_SIZE, size);
            }
        }
    }
}

impl Collector for Requests {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        let counts = self.counts();
        families.counter(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            counts.iter().map(|((code, method, host), count)| {
                ([("code", &**code), ("method", &**method), ("host", &**host)], *count)
            }),
        )?;
        let Some(details) = &self.details else { return Ok(()) };
        details.duration.encode(
            &mut families,
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb and host.",
        )?;
        details.request_size.encode(
            &mut families,
            "rest_client_request_size_bytes",
            "Request size in bytes. Broken down by verb and host.",
        )
    }
}
