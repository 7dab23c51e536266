//! The figures of the event recorder.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::families::Families;
use crate::events::Events;

pub(crate) struct EventFigures(pub(crate) Events);

impl fmt::Debug for EventFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventFigures")
    }
}

impl Collector for EventFigures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        const NO_LABELS: [(&str, &str); 0] = [];
        let (mut families, figures) = (Families(encoder), self.0.metrics());
        let counters = [
            ("event_recorder_recorded", "Number of Events that were recorded.", figures.recorded_total),
            ("event_recorder_created", "Number of Events created on the server.", figures.created_total),
            (
                "event_recorder_patched",
                "Number of times that the count of an Event was written.",
                figures.patched_total,
            ),
            (
                "event_recorder_retries",
                "Number of requests that were sent again after an error.",
                figures.retries_total,
            ),
            ("event_recorder_truncated", "Number of texts that were too long for the server.", figures.truncated_total),
        ];
        for (name, help, count) in counters {
            families.counter(name, help, [(NO_LABELS, count)])?;
        }
        let dropped = [
            ("rate_limited", figures.rate_limited_total),
            ("evicted", figures.evicted_total),
            ("failed", figures.failed_total),
            ("refused", figures.refused_total),
            ("discarded", figures.discarded_total),
        ];
        families.counter(
            "event_recorder_dropped",
            "Number of recorded Events that the server will not know, by reason.",
            dropped.map(|(reason, count)| ([("reason", reason)], count)),
        )?;
        families.gauge(
            "event_recorder_pending",
            "Number of recorded Events that the server does not know yet.",
            [(NO_LABELS, figures.pending)],
        )
    }
}
