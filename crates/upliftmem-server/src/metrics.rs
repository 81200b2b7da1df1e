//! Numbers for Prometheus. Labels are routes and codes, never contents or names of tenants.

use axum::http::{Method, StatusCode};
use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    TextEncoder, core::Collector,
};

/// Upper ends of the bins of durations, in seconds.
const SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];

/// All numbers of a server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Option<IntCounterVec>,
    seconds: Option<HistogramVec>,
    searches: Option<IntCounterVec>,
    sets_scored: Option<Histogram>,
    memories: Option<IntCounterVec>,
    outcomes: Option<IntCounterVec>,
    scopes: Option<IntGauge>,
    connections: Option<IntGauge>,
    connections_refused: Option<IntCounter>,
    waiting: Option<IntGauge>,
    spans_dropped: Option<IntGauge>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| {
            registered(&registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        Self {
            requests: counters(
                "upliftmem_requests_total",
                "Requests that were answered.",
                &["method", "route", "status"],
            ),
            seconds: registered(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new("upliftmem_request_seconds", "Time to answer a request.")
                        .buckets(SECONDS.to_vec()),
                    &["route"],
                ),
            ),
            searches: counters(
                "upliftmem_searches_total",
                "Searches by what they answered.",
                &["answer"],
            ),
            sets_scored: registered(
                &registry,
                Histogram::with_opts(
                    HistogramOpts::new("upliftmem_sets_scored", "Sets that a search scored.")
                        .buckets(vec![0.0, 10.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1_600.0]),
                ),
            ),
            memories: counters(
                "upliftmem_memories_total",
                "Memories that were written, by what became of them.",
                &["status"],
            ),
            outcomes: counters(
                "upliftmem_outcomes_total",
                "Outcomes that were reported, by what they became.",
                &["became"],
            ),
            scopes: registered(
                &registry,
                IntGauge::new("upliftmem_scopes_kept", "Scopes whose scorers are in memory."),
            ),
            connections: registered(
                &registry,
                IntGauge::new("upliftmem_connections", "Connections that are open."),
            ),
            connections_refused: registered(
                &registry,
                IntCounter::new(
                    "upliftmem_connections_refused_total",
                    "Connections that were closed because there were too many.",
                ),
            ),
            waiting: registered(
                &registry,
                IntGauge::new(
                    "upliftmem_tickets_waiting",
                    "Executions of all scopes that nobody works on: how much there is for workers.",
                ),
            ),
            spans_dropped: registered(
                &registry,
                IntGauge::new(
                    "upliftmem_spans_dropped",
                    "Spans that the collector of traces did not take.",
                ),
            ),
            registry,
        }
    }

    pub(crate) fn request(&self, method: &Method, route: &str, status: StatusCode, seconds: f64) {
        if let Some(requests) = &self.requests {
            let method = known_method(method);
            requests
                .with_label_values(&[method, route, status.as_str()])
                .inc();
        }
        if let Some(histogram) = &self.seconds {
            histogram.with_label_values(&[route]).observe(seconds);
        }
    }

    pub(crate) fn search(&self, abstained: bool, sets_scored: usize) {
        if let Some(searches) = &self.searches {
            let answer = if abstained { "abstained" } else { "memories" };
            searches.with_label_values(&[answer]).inc();
        }
        if let Some(histogram) = &self.sets_scored {
            histogram.observe(sets_scored as f64);
        }
    }

    pub(crate) fn memory(&self, status: &str) {
        if let Some(memories) = &self.memories {
            memories.with_label_values(&[status]).inc();
        }
    }

    pub(crate) fn outcome(&self, became: &str) {
        if let Some(outcomes) = &self.outcomes {
            outcomes.with_label_values(&[became]).inc();
        }
    }

    pub(crate) fn connected(&self, by: i64) {
        if let Some(connections) = &self.connections {
            connections.add(by);
        }
    }

    pub(crate) fn refused_connection(&self) {
        if let Some(refused) = &self.connections_refused {
            refused.inc();
        }
    }

    /// All numbers as Prometheus reads them.
    pub(crate) fn text(&self, scopes: usize, waiting: u64, spans_dropped: u64) -> String {
        let set = |gauge: &Option<IntGauge>, value: u64| {
            if let Some(gauge) = gauge {
                gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            }
        };
        set(&self.scopes, scopes as u64);
        set(&self.waiting, waiting);
        set(&self.spans_dropped, spans_dropped);
        let mut bytes = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut bytes) {
            tracing::warn!(%error, "metrics were not written");
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Registers a collector; one that is refused is left out rather than keeping a server from starting.
fn registered<T: Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<T>) -> Option<T> {
    let registered = made.and_then(|collector| {
        registry.register(Box::new(collector.clone()))?;
        Ok(collector)
    });
    registered
        .inspect_err(|error| tracing::warn!(%error, "a metric is missing"))
        .ok()
}

/// Callers choose methods freely; labels they may not.
fn known_method(method: &Method) -> &str {
    match method.as_str() {
        known @ ("GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS") => known,
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_can_be_read() {
        let metrics = Metrics::new();
        metrics.request(&Method::GET, "/v1/memories", StatusCode::OK, 0.002);
        metrics.search(true, 12);
        metrics.memory("stored");
        metrics.outcome("label");
        metrics.connected(1);
        metrics.refused_connection();
        let text = metrics.text(3, 5, 0);
        for line in [
            r#"upliftmem_requests_total{method="GET",route="/v1/memories",status="200"} 1"#,
            r#"upliftmem_searches_total{answer="abstained"} 1"#,
            r#"upliftmem_memories_total{status="stored"} 1"#,
            "upliftmem_scopes_kept 3",
            "upliftmem_connections 1",
            "upliftmem_tickets_waiting 5",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
