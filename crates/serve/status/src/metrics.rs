//! The facts as Prometheus metrics, in the OpenMetrics text format.
//!
//! Problem: a status changes as a whole once a period, and metrics must neither mix two periods nor
//! keep series of deleted objects. Approach: no metric is registered beforehand; a scrape encodes
//! one status. An absent fact has no series.
//!
//! Names follow Prometheus' conventions: `weir_`, base units (bytes and seconds; a policy's bit/s are divided by 8),
//! `_total` for counters. A rate without bound is ``inf``, so that usage over limit is 0 there. A metric is described
//! once, in [`METRICS`] or in [`counters`](crate::counters); the reference in `docs/reference/metrics.md` is checked
//! against [`reference`].
//!
//! Worked example: with a limit of 500 Mb/s for `dfs`:
//! `weir_service_limit_bytes_per_second{service="dfs",direction="tx"} 62500000.0`.
//!
//! Source: <https://prometheus.io/docs/practices/naming/> and the OpenMetrics 1.0 text format.

mod credits;
mod host_credits;
mod list;
mod peers;
mod queues;
mod table;
mod tenants;

use crate::counters::{AgentCounters, Counters, FabricCounters, KernelCounters, SessionCounters};
use crate::model::Status;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

pub use list::METRICS;
pub use table::{Kind, Metric, Value};

/// The content type of [`text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn all() -> impl Iterator<Item = &'static Metric> {
    let credits = credits::CREDITS.iter().chain(host_credits::HOST_CREDITS);
    METRICS.iter().chain(peers::PEERS).chain(queues::QUEUES).chain(credits).chain(tenants::TENANTS)
}

/// A status as the text of a scrape.
pub fn text(status: &Status) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot(status.clone())));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("writing to memory does not fail");
    text
}

/// All metrics as (name, kind, labels, help), in the order of the text: the reference.
pub fn reference() -> Vec<(String, &'static str, String, String)> {
    let mut rows: Vec<_> = all()
        .map(|metric| (metric.full_name(), metric.kind.name(), metric.labels.join(", "), metric.help.to_owned()))
        .collect();
    let mut counted = |prefix: &'static str, counters: &dyn Counters| {
        counters.each(&mut |name, help, _| {
            rows.push((
                format!("{}_total", counter_name(prefix, name)),
                Kind::Counter.name(),
                String::new(),
                sentence(help),
            ));
        });
    };
    counted(AGENT, &AgentCounters::default());
    counted(SESSION, &SessionCounters::default());
    counted(KERNEL, &KernelCounters::default());
    counted(FABRIC, &FabricCounters::default());
    rows
}

const AGENT: &str = "weir_";
const SESSION: &str = "weir_fabric_session_";
const KERNEL: &str = "weir_kernel_";
const FABRIC: &str = "weir_fabric_";

fn counter_name(prefix: &str, name: &str) -> String {
    format!("{prefix}{name}")
}

/// The registry ends a help with a full stop by itself.
fn sentence(help: &str) -> String {
    help.trim().trim_end_matches('.').to_owned()
}

fn sample(kind: Kind, value: Value, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Count(count)) => encoder.encode_counter::<NoLabelSet, _, u64>(&count, None),
        (_, Value::Count(count)) => encoder.encode_gauge(&(count as f64)),
        (_, Value::Number(number)) => encoder.encode_gauge(&number),
    }
}

#[derive(Debug)]
struct Snapshot(Status);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for metric in all() {
            let mut series = Vec::new();
            metric.series(&self.0, &mut |labels, value| series.push((labels, value)));
            if series.is_empty() {
                continue;
            }
            let unit = metric.unit.map(|unit| Unit::Other(unit.to_owned()));
            let mut encoder = encoder.encode_descriptor(
                metric.name,
                &format!("{}.", metric.help),
                unit.as_ref(),
                metric.kind.open_metrics(),
            )?;
            for (labels, value) in series {
                let labels: Vec<(&str, &str)> =
                    metric.labels.iter().copied().zip(labels.iter().map(String::as_str)).collect();
                match (metric.kind, labels.is_empty()) {
                    (Kind::Info, _) => encoder.encode_info(&labels)?,
                    (kind, true) => sample(kind, value, &mut encoder)?,
                    (kind, false) => sample(kind, value, &mut encoder.encode_family(&labels)?)?,
                }
            }
        }
        let mut counted = |prefix: &str, counters: &dyn Counters| {
            let mut result = Ok(());
            counters.each(&mut |name, help, value| {
                let mut one = || {
                    let (name, help) = (counter_name(prefix, name), format!("{}.", sentence(help)));
                    let mut encoder = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;
                    sample(Kind::Counter, Value::Count(value), &mut encoder)
                };
                if result.is_ok() {
                    result = one();
                }
            });
            result
        };
        match &self.0 {
            Status::Agent(status) => {
                counted(AGENT, &status.counters)?;
                if let Some(session) = status.fabric.as_ref().and_then(|link| link.session.as_ref()) {
                    counted(SESSION, &session.counters)?;
                }
                status.kernel.as_ref().map_or(Ok(()), |kernel| counted(KERNEL, kernel))
            }
            Status::Fabric(status) => counted(FABRIC, &status.counters),
            Status::Switch(_) => Ok(()),
        }
    }
}
