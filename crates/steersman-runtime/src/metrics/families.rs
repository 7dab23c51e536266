//! Writes metrics that were counted elsewhere.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeExemplarValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

use super::histogram::Histogram;

/// The labels of one series.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// Writes families of series. A family without series is left out.
pub(crate) struct Families<'a>(pub(crate) DescriptorEncoder<'a>);

impl Families<'_> {
    /// A counter. The format adds `_total` to its name.
    pub(crate) fn counter<'l, L, V>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result
    where
        L: AsRef<[(&'l str, &'l str)]>,
        V: EncodeCounterValue + EncodeExemplarValue,
    {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            let labels = LabelSet(labels.as_ref());
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, V, f64>(&value, None)?;
        }
        Ok(())
    }

    /// A gauge.
    pub(crate) fn gauge<'l, L, V>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result
    where
        L: AsRef<[(&'l str, &'l str)]>,
        V: EncodeGaugeValue,
    {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            let labels = LabelSet(labels.as_ref());
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// A histogram.
    pub(crate) fn histogram<'l, 'h, L>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, &'h Histogram)>,
    ) -> fmt::Result
    where
        L: AsRef<[(&'l str, &'l str)]>,
    {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, histogram) in series {
            let (sum, count, buckets) = histogram.read();
            let labels = LabelSet(labels.as_ref());
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

struct LabelSet<'a>(Labels<'a>);

impl EncodeLabelSet for LabelSet<'_> {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelSetEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }
}
