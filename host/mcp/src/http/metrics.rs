//! What is counted, and how a scrape shows it: the OpenMetrics text format,
//! which Prometheus reads.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use skillhost::{CallEnd, Observer, Occupancy};

/// The media type of a scrape.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of the durations' buckets, in seconds: a small file takes a tenth of
/// a millisecond, and ten seconds is a call's default limit.
const SECONDS: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// Bounds of the memories' buckets: 1 MiB to 1 GiB.
const MEMORIES: [f64; 11] = {
    let mut bounds = [1_048_576.0; 11];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2.0;
        at += 1;
    }
    bounds
};

/// The label of calls of tools that there are not. No tool can have it as its
/// name.
const NO_TOOL: &str = "(none)";

/// Counts calls, if it is made a host's [observer](skillhost::HostBuilder::observer),
/// and requests. The series are few, whatever peers send: labels are the names
/// of loaded tools, and words of the program.
pub struct Metrics {
    registry: Registry,
    calls: Family<CallLabels, Counter>,
    durations: Family<ToolLabel, Histogram, fn() -> Histogram>,
    memory: Histogram,
    requests: Family<RequestLabels, Counter>,
    pub(super) connections: Gauge,
    pub(super) evicted: Counter,
    running: Gauge,
    waiting: Gauge,
    sandbox_memory: Gauge,
    refused_components: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    tool: String,
    outcome: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolLabel {
    tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    endpoint: &'static str,
    status: u16,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("skillhost");
        let calls = Family::default();
        let durations = Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> _);
        let memory = Histogram::new(MEMORIES);
        let requests = Family::default();
        let [
            connections,
            running,
            waiting,
            sandbox_memory,
            refused_components,
        ] = std::array::from_fn(|_| Gauge::default());
        registry.register(
            "calls",
            "Calls that ended, by tool and outcome",
            Family::clone(&calls),
        );
        registry.register_with_unit(
            "call_duration",
            "Time from a call's arrival to its end, waiting included",
            Unit::Seconds,
            Family::clone(&durations),
        );
        registry.register_with_unit(
            "call_memory",
            "Most linear memory that a call's guest had",
            Unit::Bytes,
            memory.clone(),
        );
        registry.register("calls_running", "Calls that run", running.clone());
        registry.register(
            "calls_waiting",
            "Calls that wait for a slot",
            waiting.clone(),
        );
        registry.register_with_unit(
            "sandbox_memory",
            "Linear memory of all sandboxes together",
            Unit::Bytes,
            sandbox_memory.clone(),
        );
        registry.register(
            "components_refused",
            "Component files that are not served as they lie on disk",
            refused_components.clone(),
        );
        registry.register(
            "http_requests",
            "Requests that were answered, by endpoint and status",
            Family::clone(&requests),
        );
        registry.register("http_connections", "Open connections", connections.clone());
        let evicted = Counter::default();
        registry.register(
            "http_connections_evicted",
            "Connections that were closed to make room for others",
            evicted.clone(),
        );
        Self {
            registry,
            calls,
            durations,
            memory,
            requests,
            connections,
            evicted,
            running,
            waiting,
            sandbox_memory,
            refused_components,
        }
    }
}

impl Metrics {
    /// Counts an answer.
    pub(super) fn answered(&self, endpoint: &'static str, status: u16) {
        let labels = RequestLabels { endpoint, status };
        self.requests.get_or_create(&labels).inc();
    }

    /// All figures as they are, with what a host has in hand now.
    pub(super) fn scrape(&self, now: Option<Occupancy>) -> Result<String, fmt::Error> {
        if let Some(now) = now {
            let shown = [
                (&self.running, now.running),
                (&self.waiting, now.waiting),
                (&self.sandbox_memory, now.memory),
                (&self.refused_components, now.refused_components),
            ];
            for (gauge, value) in shown {
                gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            }
        }
        let mut shown = String::new();
        text::encode(&mut shown, &self.registry)?;
        Ok(shown)
    }
}

impl Observer for Metrics {
    fn ended(&self, call: &CallEnd<'_>) {
        let tool = call.tool.unwrap_or(NO_TOOL).to_owned();
        let labels = CallLabels {
            tool: tool.clone(),
            outcome: call.outcome,
            reason: call.reason.unwrap_or_default(),
        };
        self.calls.get_or_create(&labels).inc();
        let durations = self.durations.get_or_create(&ToolLabel { tool });
        durations.observe(call.duration.as_secs_f64());
        if let Some(memory) = call.memory {
            self.memory.observe(memory as f64);
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
