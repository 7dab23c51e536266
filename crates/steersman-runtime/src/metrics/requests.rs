//! The requests of the manager's client.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
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
    counts: Counts,
    details: Option<Details>,
}

/// Counters by code, method and host.
#[derive(Debug, Default)]
struct Counts(Mutex<BTreeMap<(String, String, String), u64>>);

/// What has to be asked for.
#[derive(Debug)]
struct Details {
    duration: ByLabels<2>,
    request_size: ByLabels<2>,
    response_size: ByLabels<2>,
    rate_limiter: ByLabels<2>,
    lookup: ByLabels<1>,
    retries: Counts,
}

/// Histograms by the values of their labels: verb and host, or host alone.
#[derive(Debug)]
struct ByLabels<const N: usize> {
    buckets: &'static Buckets,
    histograms: Mutex<BTreeMap<[String; N], Histogram>>,
}

impl Counts {
    fn all(&self) -> MutexGuard<'_, BTreeMap<(String, String, String), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, code: Option<u16>, method: &Method, host: &str) {
        let code = code.map_or_else(|| NO_RESPONSE.to_owned(), |code| code.to_string());
        *self.all().entry((code, method.to_string(), host.to_owned())).or_default() += 1;
    }

    fn encode(&self, families: &mut Families<'_>, name: &str, help: &str, method_label: &str) -> fmt::Result {
        let all = self.all();
        let series = all.iter().map(|((code, method, host), count)| {
            ([("code", &**code), (method_label, &**method), ("host", &**host)], *count)
        });
        families.counter(name, help, series)
    }
}

impl<const N: usize> ByLabels<N> {
    fn new(buckets: &'static Buckets) -> Self {
        Self { buckets, histograms: Mutex::default() }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<[String; N], Histogram>> {
        self.histograms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observe(&self, labels: [&str; N], value: u64) {
        let labels = labels.map(str::to_owned);
        self.all().entry(labels).or_insert_with(|| Histogram::new(self.buckets)).observe_units(value);
    }

    fn observe_time(&self, labels: [&str; N], duration: Duration) {
        self.observe(labels, u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    fn encode(&self, families: &mut Families<'_>, names: [&str; N], name: &str, help: &str) -> fmt::Result {
        let all = self.all();
        let series = all.iter().map(|(values, histogram)| {
            let labels: [(&str, &str); N] = std::array::from_fn(|label| (names[label], &*values[label]));
            (labels, histogram)
        });
        families.histogram(name, help, series)
    }
}

impl Requests {
    pub(crate) fn new(detailed: bool) -> Self {
        let details = detailed.then(|| Details {
            duration: ByLabels::new(&REQUEST_TIME),
            request_size: ByLabels::new(&REQUEST_SIZE),
            response_size: ByLabels::new(&REQUEST_SIZE),
            rate_limiter: ByLabels::new(&REQUEST_TIME),
            lookup: ByLabels::new(&REQUEST_TIME),
            retries: Counts::default(),
        });
        Self { counts: Counts::default(), details }
    }
}

impl RequestMetrics for Requests {
    fn request(&self, sample: RequestSample<'_>) {
        let RequestSample { method, code, host, duration, request_size } = sample;
        self.counts.add(code, method, host);
        if let Some(details) = &self.details {
            let labels = [method.as_str(), host];
            details.duration.observe_time(labels, duration);
            if let Some(size) = request_size {
                details.request_size.observe(labels, size);
            }
        }
    }

    fn rate_limited(&self, method: &Method, host: &str, waited: Duration) {
        if let Some(details) = &self.details {
            details.rate_limiter.observe_time([method.as_str(), host], waited);
        }
    }

    fn retried(&self, code: Option<u16>, method: &Method, host: &str) {
        if let Some(details) = &self.details {
            details.retries.add(code, method, host);
        }
    }

    fn wants_response_bodies(&self) -> bool {
        self.details.is_some()
    }

    fn response_body(&self, method: &Method, host: &str, bytes: u64) {
        if let Some(details) = &self.details {
            details.response_size.observe([method.as_str(), host], bytes);
        }
    }

    fn resolved(&self, host: &str, duration: Duration) {
        if let Some(details) = &self.details {
            details.lookup.observe_time([host], duration);
        }
    }
}

impl Collector for Requests {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        let help = "Number of HTTP requests, partitioned by status code, method, and host.";
        self.counts.encode(&mut families, "rest_client_requests", help, "method")?;
        self.details.as_ref().map_or(Ok(()), |details| details.encode(&mut families))
    }
}

impl Details {
    fn encode(&self, families: &mut Families<'_>) -> fmt::Result {
        let by_verb = [
            (
                &self.duration,
                "rest_client_request_duration_seconds",
                "Request latency in seconds. Broken down by verb and host.",
            ),
            (
                &self.request_size,
                "rest_client_request_size_bytes",
                "Request size in bytes. Broken down by verb and host.",
            ),
            (
                &self.response_size,
                "rest_client_response_size_bytes",
                "Response size in bytes. Broken down by verb and host.",
            ),
            (
                &self.rate_limiter,
                "rest_client_rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds. Broken down by verb and host.",
            ),
        ];
        for (histograms, name, help) in by_verb {
            histograms.encode(families, ["verb", "host"], name, help)?;
        }
        let help = "DNS resolver latency in seconds. Broken down by host.";
        self.lookup.encode(families, ["host"], "rest_client_dns_resolution_duration_seconds", help)?;
        let help = "Number of request retries, partitioned by status code, verb, and host.";
        self.retries.encode(families, "rest_client_request_retries", help, "verb")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Metrics;
    use super::*;

    /// What is shown after one call of each kind, without help and buckets.
    fn shown(detailed: bool) -> Vec<String> {
        let (metrics, requests) = (Metrics::new(), Arc::new(Requests::new(detailed)));
        metrics.collect(Arc::clone(&requests));
        let (method, host, duration) = (&Method::GET, "api.test:6443", Duration::from_millis(1_500));
        requests.request(RequestSample { method, code: Some(429), host, duration, request_size: Some(300) });
        requests.rate_limited(method, host, Duration::ZERO);
        requests.rate_limited(method, host, Duration::from_secs(3));
        requests.retried(Some(429), method, host);
        requests.retried(None, method, host);
        assert_eq!(requests.wants_response_bodies(), detailed);
        requests.response_body(method, host, 70_000);
        requests.resolved("api.test", Duration::from_millis(7));
        let text = metrics.encode();
        let is_shown = |line: &&str| {
            let is_type = line.starts_with("# TYPE rest_client_");
            is_type || line.starts_with("rest_client_") && !line.contains("_bucket")
        };
        text.lines().filter(is_shown).map(ToOwned::to_owned).collect()
    }

    #[test]
    fn requests_are_shown_with_the_names_of_client_go() {
        const COUNT: [&str; 2] = [
            "# TYPE rest_client_requests_total counter",
            "rest_client_requests_total{code=\"429\",method=\"GET\",host=\"api.test:6443\"} 1",
        ];
        assert_eq!(shown(false), COUNT);
        let labels = "{verb=\"GET\",host=\"api.test:6443\"}";
        let mut wanted = COUNT.map(ToOwned::to_owned).to_vec();
        for (name, sum, count) in [
            ("request_duration_seconds", "1.5", 1),
            ("request_size_bytes", "300.0", 1),
            ("response_size_bytes", "70000.0", 1),
            ("rate_limiter_duration_seconds", "3.0", 2),
        ] {
            wanted.push(format!("# TYPE rest_client_{name} histogram"));
            wanted.push(format!("rest_client_{name}_sum{labels} {sum}"));
            wanted.push(format!("rest_client_{name}_count{labels} {count}"));
        }
        wanted.push("# TYPE rest_client_dns_resolution_duration_seconds histogram".to_owned());
        wanted.push("rest_client_dns_resolution_duration_seconds_sum{host=\"api.test\"} 0.007".to_owned());
        wanted.push("rest_client_dns_resolution_duration_seconds_count{host=\"api.test\"} 1".to_owned());
        wanted.push("# TYPE rest_client_request_retries_total counter".to_owned());
        for code in ["429", "<error>"] {
            let labels = format!("{{code=\"{code}\",verb=\"GET\",host=\"api.test:6443\"}}");
            wanted.push(format!("rest_client_request_retries_total{labels} 1"));
        }
        assert_eq!(shown(true), wanted);
    }
}
