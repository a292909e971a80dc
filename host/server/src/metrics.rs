//! The metrics of a server, in the OpenMetrics text format, which Prometheus reads. Only
//! [`Metrics::default`] has the name, type, labels, unit and help of each metric; a test compares
//! the table of docs/reference/mcp.md with them.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

use skillhost::{CallEnd, Observer, Occupancy, RequestRecord};

use skillhost_mcp::FolderCounts;

/// The media type of `/metrics`.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The bucket bounds for durations, in seconds. Reading a small file takes a tenth of a
/// millisecond, and ten seconds is the default limit of a call.
const DURATION_BUCKETS: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// The bucket bounds for memory: 1 MiB to 1 GiB.
const MEMORY_BUCKETS: [f64; 11] = {
    let mut bounds = [1_048_576.0; 11];
    let mut index = 1;
    while index < bounds.len() {
        bounds[index] = bounds[index - 1] * 2.0;
        index += 1;
    }
    bounds
};

/// The label for calls of unknown tools. No tool can have this name.
const NO_TOOL: &str = "(none)";

/// The metrics of a server: its requests, and the calls of a host whose
/// [observer](skillhost::HostBuilder::observer) this is. Peers cannot add series: labels are the
/// names of loaded tools, and fixed words.
pub struct Metrics {
    registry: Registry,
    calls: Labelled<3, Counter>,
    call_duration: Labelled<1, Histogram>,
    call_memory: Histogram,
    egress_requests: Labelled<2, Counter>,
    egress_bytes: Labelled<2, Counter>,
    egress_duration: Labelled<1, Histogram>,
    calls_running: Gauge,
    calls_waiting: Gauge,
    sandbox_memory: Gauge,
    components_refused: Gauge,
    folders: Labelled<1, Gauge>,
    http_requests: Labelled<2, Counter>,
    pub(crate) connections: Gauge,
    pub(crate) evicted: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut table = MetricTable(Registry::with_prefix("skillhost"));
        let metrics = Self {
            calls: table.labelled(
                ("calls", None),
                ["tool", "outcome", "reason"],
                "Calls that ended, with the audit log's outcomes and reasons",
                Counter::default,
            ),
            call_duration: table.labelled(
                ("call_duration", Some(Unit::Seconds)),
                ["tool"],
                "Time from a call's arrival to its end, waiting included",
                || Histogram::new(DURATION_BUCKETS),
            ),
            call_memory: table.single(
                ("call_memory", Some(Unit::Bytes)),
                "Most linear memory of a call's guest",
                Histogram::new(MEMORY_BUCKETS),
            ),
            egress_requests: table.labelled(
                ("egress_requests", None),
                ["tool", "result"],
                "HTTP requests of tools, by the class of the status or the kind of failure",
                Counter::default,
            ),
            egress_bytes: table.labelled(
                ("egress", Some(Unit::Bytes)),
                ["tool", "direction"],
                "Bytes of the bodies of these requests and of their responses",
                Counter::default,
            ),
            egress_duration: table.labelled(
                ("egress_duration", Some(Unit::Seconds)),
                ["tool"],
                "Time from such a request to the head of its response",
                || Histogram::new(DURATION_BUCKETS),
            ),
            calls_running: table.gauge("calls_running", "Calls that run"),
            calls_waiting: table.gauge("calls_waiting", "Calls that wait for a slot"),
            sandbox_memory: table.single(
                ("sandbox_memory", Some(Unit::Bytes)),
                "Linear memory of all sandboxes together",
                Gauge::default(),
            ),
            components_refused: table.single(
                ("components_refused", None),
                "Component files whose present bytes are not served",
                Gauge::default(),
            ),
            folders: table.labelled(
                ("folders", None),
                ["noticed_by"],
                "Folders in which changes are noticed, by events of the kernel or by polling",
                Gauge::default,
            ),
            http_requests: table.labelled(
                ("http_requests", None),
                ["endpoint", "status"],
                "Requests that were answered",
                Counter::default,
            ),
            connections: table.gauge("http_connections", "Open connections"),
            evicted: table.single(
                ("http_connections_evicted", None),
                "Connections that were closed to admit others",
                Counter::default(),
            ),
            registry: table.0,
        };
        metrics.set_folders(FolderCounts::default());
        metrics
    }
}

/// A registry that is being filled.
struct MetricTable(Registry);

impl MetricTable {
    /// Adds a number that rises and falls and has no unit.
    fn gauge(&mut self, name: &str, help: &str) -> Gauge {
        self.single((name, None), help, Gauge::default())
    }

    /// Adds a metric without labels.
    fn single<M: Metric + Clone>(
        &mut self,
        (name, unit): (&str, Option<Unit>),
        help: &str,
        metric: M,
    ) -> M {
        match unit {
            Some(unit) => self.0.register_with_unit(name, help, unit, metric.clone()),
            None => self.0.register(name, help, metric.clone()),
        }
        metric
    }

    /// Adds a metric with labels.
    fn labelled<const N: usize, M>(
        &mut self,
        name: (&str, Option<Unit>),
        labels: [&'static str; N],
        help: &str,
        new: fn() -> M,
    ) -> Labelled<N, M>
    where
        Family<LabelSet<N>, M, fn() -> M>: Metric,
    {
        let family = self.single(name, help, Family::new_with_constructor(new));
        Labelled { labels, family }
    }
}

type LabelSet<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// A metric with labels.
struct Labelled<const N: usize, M> {
    labels: [&'static str; N],
    family: Family<LabelSet<N>, M, fn() -> M>,
}

impl<const N: usize, M: Clone> Labelled<N, M> {
    /// Returns the metric with these label values.
    fn get(&self, values: [Cow<'static, str>; N]) -> M {
        let mut values = values.into_iter();
        let set = self
            .labels
            .map(|label| (label, values.next().unwrap_or_default()));
        self.family.get_or_create_owned(&set)
    }
}

impl Metrics {
    /// Sets the numbers of folders in which changes are noticed.
    pub fn set_folders(&self, counts: FolderCounts) {
        for (method, count) in [("events", counts.watched), ("polling", counts.polled)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.folders.get([method.into()]).set(count);
        }
    }

    /// Counts a response.
    pub(crate) fn count_response(&self, endpoint: &'static str, status: u16) {
        let labels = [endpoint.into(), status.to_string().into()];
        self.http_requests.get(labels).inc();
    }

    /// Counts a request of a tool.
    fn count_request(&self, tool: &str, request: &RequestRecord) {
        let tool = || Cow::Owned(tool.to_owned());
        let result = match (request.failure(), request.status.map(|status| status / 100)) {
            (Some(failure), _) => failure,
            (None, Some(1)) => "1xx",
            (None, Some(2)) => "2xx",
            (None, Some(3)) => "3xx",
            (None, Some(4)) => "4xx",
            (None, Some(5)) => "5xx",
            (None, _) => "other",
        };
        self.egress_requests.get([tool(), result.into()]).inc();
        for (direction, bytes) in [
            ("sent", request.sent_bytes),
            ("received", request.received_bytes),
        ] {
            let labels = [tool(), direction.into()];
            self.egress_bytes.get(labels).inc_by(bytes);
        }
        if let Some(duration) = request.duration {
            let seconds = duration.as_secs_f64();
            self.egress_duration.get([tool()]).observe(seconds);
        }
    }

    /// Returns all metrics as text, with the current occupancy of the host.
    pub(crate) fn scrape(&self, occupancy: Option<Occupancy>) -> Result<String, fmt::Error> {
        if let Some(occupancy) = occupancy {
            let gauges = [
                (&self.calls_running, occupancy.running),
                (&self.calls_waiting, occupancy.waiting),
                (&self.sandbox_memory, occupancy.memory),
                (&self.components_refused, occupancy.refused_components),
            ];
            for (gauge, value) in gauges {
                gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            }
        }
        let mut metrics = String::new();
        text::encode(&mut metrics, &self.registry)?;
        Ok(metrics)
    }
}

impl Observer for Metrics {
    fn ended(&self, call: &CallEnd<'_>) {
        let tool: Cow<'static, str> = match call.tool {
            Some(tool) => tool.to_owned().into(),
            None => NO_TOOL.into(),
        };
        let reason = call.outcome.reason().unwrap_or_default();
        let labels = [tool.clone(), call.outcome.name().into(), reason.into()];
        self.calls.get(labels).inc();
        let seconds = call.duration.as_secs_f64();
        self.call_duration.get([tool.clone()]).observe(seconds);
        if let Some(memory) = call.memory {
            self.call_memory.observe(memory as f64);
        }
        for request in &call.requests {
            self.count_request(&tool, request);
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
