//! Declares metrics: each is registered and noted for the catalogue in one step, so that neither can
//! have one that the other lacks.

use prometheus::{
    CounterVec, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

/// What every metric is called first.
const PREFIX: &str = "whippletree_";

/// What a metric is, for the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Whole name.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Label names.
    pub labels: &'static [&'static str],
    /// One sentence.
    pub help: &'static str,
}

/// Registers metrics and remembers what they are.
#[derive(Debug, Default)]
pub(super) struct Declare {
    pub(super) registry: Registry,
    pub(super) catalogue: Vec<Described>,
}

type Declared<T> = Result<T, prometheus::Error>;
type LabelNames = &'static [&'static str];

impl Declare {
    fn note(
        &mut self,
        name: &str,
        kind: &'static str,
        labels: LabelNames,
        help: &'static str,
    ) -> String {
        let name = format!("{PREFIX}{name}");
        self.catalogue.push(Described {
            name: name.clone(),
            kind,
            labels,
            help,
        });
        name
    }

    fn register<C: prometheus::core::Collector + Clone + 'static>(&self, metric: C) -> Declared<C> {
        self.registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    pub(super) fn int_counters(
        &mut self,
        name: &str,
        help: &'static str,
        labels: LabelNames,
    ) -> Declared<IntCounterVec> {
        let name = self.note(name, "counter", labels, help);
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn counters(
        &mut self,
        name: &str,
        help: &'static str,
        labels: LabelNames,
    ) -> Declared<CounterVec> {
        let name = self.note(name, "counter", labels, help);
        self.register(CounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn int_counter(&mut self, name: &str, help: &'static str) -> Declared<IntCounter> {
        let name = self.note(name, "counter", &[], help);
        self.register(IntCounter::with_opts(Opts::new(name, help))?)
    }

    pub(super) fn int_gauges(
        &mut self,
        name: &str,
        help: &'static str,
        labels: LabelNames,
    ) -> Declared<IntGaugeVec> {
        let name = self.note(name, "gauge", labels, help);
        self.register(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn int_gauge(&mut self, name: &str, help: &'static str) -> Declared<IntGauge> {
        let name = self.note(name, "gauge", &[], help);
        self.register(IntGauge::with_opts(Opts::new(name, help))?)
    }

    pub(super) fn gauge(&mut self, name: &str, help: &'static str) -> Declared<Gauge> {
        let name = self.note(name, "gauge", &[], help);
        self.register(Gauge::with_opts(Opts::new(name, help))?)
    }

    pub(super) fn histograms(
        &mut self,
        name: &str,
        help: &'static str,
        labels: LabelNames,
        buckets: &[f64],
    ) -> Declared<HistogramVec> {
        let name = self.note(name, "histogram", labels, help);
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register(HistogramVec::new(options, labels)?)
    }

    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &'static str,
        buckets: Vec<f64>,
    ) -> Declared<Histogram> {
        let name = self.note(name, "histogram", &[], help);
        self.register(Histogram::with_opts(
            HistogramOpts::new(name, help).buckets(buckets),
        )?)
    }
}
