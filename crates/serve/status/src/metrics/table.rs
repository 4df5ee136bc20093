//! A metric: its name, its help, and how its series follow from a status.

use crate::model::{AgentStatus, DirectionStatus, FabricStatus, Latency, LevelStatus, Status};
use crate::switch::SwitchStatus;
use prometheus_client::metrics::MetricType;
use weir_units::Direction;

/// A kind of metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It goes up and down.
    Gauge,
    /// It only goes up, until the program starts anew.
    Counter,
    /// Texts in labels; the value is always 1.
    Info,
}

impl Kind {
    /// `gauge`, `counter` or `info`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Info => "info",
        }
    }
    pub(super) fn open_metrics(self) -> MetricType {
        match self {
            Self::Gauge => MetricType::Gauge,
            Self::Counter => MetricType::Counter,
            Self::Info => MetricType::Info,
        }
    }
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// A measure.
    Number(f64),
}

/// The subject of a metric, and how its value follows from a status.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// An agent; a series for each of the labels' values that are given.
    Agent(fn(&AgentStatus, &mut Give<'_>)),
    /// Each service of an agent in each direction.
    Service(fn(&DirectionStatus) -> Option<Value>),
    /// Each service of an agent with a latency target.
    Latency(fn(&Latency) -> Option<Value>),
    /// Each latency level of an agent.
    Level(fn(&LevelStatus) -> Option<Value>),
    /// A fabric broker.
    Fabric(fn(&FabricStatus, &mut Give<'_>)),
    /// A switch.
    Switch(fn(&SwitchStatus, &mut Give<'_>)),
}

pub(super) type Give<'a> = dyn FnMut(Vec<String>, Value) + 'a;

/// A metric.
#[derive(Clone, Copy)]
pub struct Metric {
    /// The name without its unit and without `_total` or `_info`.
    pub name: &'static str,
    /// The unit, which ends the name.
    pub unit: Option<&'static str>,
    /// The kind.
    pub kind: Kind,
    /// The labels.
    pub labels: &'static [&'static str],
    /// The help text, in one line without its full stop.
    pub help: &'static str,
    pub(super) of: Of,
}

impl Metric {
    /// The name of its series.
    pub fn full_name(&self) -> String {
        let unit = self.unit.map(|unit| format!("_{unit}")).unwrap_or_default();
        let suffix = match self.kind {
            Kind::Gauge => "",
            Kind::Counter => "_total",
            Kind::Info => "_info",
        };
        format!("{}{unit}{suffix}", self.name)
    }

    /// Gives every series: the labels' values in their order, and the value.
    pub(super) fn series(&self, status: &Status, give: &mut Give<'_>) {
        match (status, self.of) {
            (Status::Agent(status), Of::Agent(of)) => of(status, give),
            (Status::Agent(status), Of::Service(of)) => {
                for service in &status.services {
                    for direction in Direction::ALL {
                        let here = service.direction(direction);
                        let mut labels = vec![service.service.clone(), direction.name().to_owned()];
                        if self.labels.len() > labels.len() {
                            labels.extend(here.decided_by.clone());
                        }
                        if let Some(value) = of(here) {
                            give(labels, value);
                        }
                    }
                }
            }
            (Status::Agent(status), Of::Latency(of)) => {
                for service in &status.services {
                    if let Some(value) = service.latency.as_ref().and_then(of) {
                        give(vec![service.service.clone()], value);
                    }
                }
            }
            (Status::Agent(status), Of::Level(of)) => {
                for level in &status.levels {
                    if let Some(value) = of(level) {
                        give(vec![level.level.to_string()], value);
                    }
                }
            }
            (Status::Fabric(status), Of::Fabric(of)) => of(status, give),
            (Status::Switch(status), Of::Switch(of)) => of(status, give),
            _ => {}
        }
    }
}
