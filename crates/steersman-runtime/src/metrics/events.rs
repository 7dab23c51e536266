//! The figures of the event recorder.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::families::Families;
use crate::EventMetrics;
use crate::events::Events;

pub(crate) struct EventFigures(pub(crate) Events);

impl fmt::Debug for EventFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventFigures")
    }
}

impl Collector for EventFigures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode(self.0.metrics(), Families(encoder))
    }
}

fn encode(figures: EventMetrics, mut families: Families<'_>) -> fmt::Result {
    const NO_LABELS: [(&str, &str); 0] = [];
    let counters = [
        ("event_recorder_recorded", "Number of Events that were recorded.", figures.recorded_total),
        ("event_recorder_created", "Number of Events created on the server.", figures.created_total),
        ("event_recorder_patched", "Number of times that the count of an Event was written.", figures.patched_total),
        ("event_recorder_retries", "Number of requests that were sent again after an error.", figures.retries_total),
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

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    #[derive(Debug)]
    struct Fixed(EventMetrics);

    impl Collector for Fixed {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            encode(self.0, Families(encoder))
        }
    }

    #[test]
    fn every_figure_is_shown_under_its_own_name() {
        let figures = EventMetrics {
            recorded_total: 1,
            created_total: 2,
            patched_total: 3,
            retries_total: 4,
            truncated_total: 5,
            pending: 6,
            rate_limited_total: 7,
            evicted_total: 8,
            failed_total: 9,
            refused_total: 10,
            discarded_total: 11,
        };
        let metrics = Metrics::new();
        metrics.collect(Fixed(figures));
        let text = metrics.encode();
        let shown: Vec<_> = text.lines().filter(|line| line.starts_with("event_recorder_")).collect();
        let expected = [
            "event_recorder_recorded_total{} 1",
            "event_recorder_created_total{} 2",
            "event_recorder_patched_total{} 3",
            "event_recorder_retries_total{} 4",
            "event_recorder_truncated_total{} 5",
            "event_recorder_dropped_total{reason=\"rate_limited\"} 7",
            "event_recorder_dropped_total{reason=\"evicted\"} 8",
            "event_recorder_dropped_total{reason=\"failed\"} 9",
            "event_recorder_dropped_total{reason=\"refused\"} 10",
            "event_recorder_dropped_total{reason=\"discarded\"} 11",
            "event_recorder_pending{} 6",
        ];
        assert_eq!(shown, expected);
    }
}
