//! Reads and simulates a trace; a [`Monitor`] observes the work and may end it.

use super::compute::full;
use super::model::{AsItIs, Estimate, Found, Method, TraceSummary, traffic};
use crate::error::AnswerError;
use crate::text;
use std::io::{self, BufRead};
use std::ops::ControlFlow;
use weir_document::Suggester;
use weir_latency::trace::{ReadError, Watch as WatchRows};
use weir_latency::{Tag, Trace, TraceError, TraceQueue};
use weir_policy::Policy;
use weir_units::{Bandwidth, Duration, Load, Quantile};

/// Loads of the curve, in per cent.
const CURVE: [u32; 20] = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 98];

/// Observes the work on a trace, and may end it: [`WatchRows::rows`] is called now and then. `()` observes nothing.
pub trait Monitor: WatchRows {
    /// A search begins; `what` describes it.
    fn begin(&mut self, what: String);
    /// A group of searches has ended.
    fn finish(&mut self);
}

impl Monitor for () {
    fn begin(&mut self, _: String) {}
    fn finish(&mut self) {}
}

/// A monitor for functions that take a type.
struct Observed<'a>(&'a mut dyn Monitor);

impl WatchRows for Observed<'_> {
    fn rows(&mut self, rows: u64, of: u64) -> ControlFlow<()> {
        self.0.rows(rows, of)
    }
}

/// A trace with its monitor.
pub struct TraceInput<'a> {
    name: String,
    trace: Trace,
    services: Vec<String>,
    /// The tags of the planned service.
    tags: Vec<Tag>,
    monitor: Observed<'a>,
}

impl<'a> TraceInput<'a> {
    /// Reads a trace; `name` is its file in messages. Its services are those of the policy.
    ///
    /// # Errors
    /// A row that is no message, with its line; fewer than two messages; an unreadable input; a monitor that ends it.
    pub fn read(
        name: String,
        input: impl BufRead,
        policy: &Policy,
        monitor: &'a mut dyn Monitor,
    ) -> Result<Self, AnswerError> {
        let services: Vec<String> = policy.services().leaves().map(|(_, service)| service.path().to_owned()).collect();
        let mut unknown = None;
        let tag = |wanted: &str| {
            let index = services.iter().position(|known| known == wanted);
            if index.is_none() {
                unknown = Some(wanted.to_owned());
            }
            index.and_then(|index| u32::try_from(index).ok()).map(Tag)
        };
        let mut monitor = Observed(monitor);
        let trace = Trace::read(input, tag, &mut monitor).map_err(|error| match error {
            ReadError::Line { line, cause, mut hint } => {
                if let Some(unknown) = &unknown {
                    hint = Suggester::default().hint(unknown, services.iter().map(String::as_str), &hint);
                }
                AnswerError::refused(cause).at(&name, Some(line)).hint(hint)
            }
            ReadError::Trace(TraceError::Stopped) => AnswerError::stopped(),
            ReadError::Trace(error) => AnswerError::refused(error.to_string())
                .at(&name, None)
                .hint("write a line for each message: its time in seconds and its size in bytes"),
            ReadError::Io(error) => cannot_read(&name, &error),
        })?;
        monitor.0.finish();
        Ok(Self { name, trace, services, tags: Vec::new(), monitor })
    }

    /// The whole of the trace.
    pub(super) fn summary(&self) -> TraceSummary {
        TraceSummary {
            name: self.name.clone(),
            messages: self.trace.len() as u64,
            bytes: self.trace.bytes(),
            span: self.trace.span(),
            longest_gap: self.trace.longest_gap(),
            offered: self.trace.offered(),
        }
    }

    /// The queue of a service's messages, nested services included.
    pub(super) fn of(&mut self, service: &str) -> Result<Queue<'_, 'a>, AnswerError> {
        let below =
            |path: &str| path.strip_prefix(service).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let services = (0..).zip(&self.services);
        self.tags = services.filter(|(_, path)| below(path)).map(|(index, _)| Tag(index)).collect();
        let queue = TraceQueue::new(&self.trace, Quantile::P99, &self.tags).map_err(|_| {
            AnswerError::refused(format!("{} has no message of service `{service}`", self.name))
                .hint("name the service in the column `service`, or leave the column out to plan for all messages")
        })?;
        Ok(Queue {
            queue,
            trace: &self.trace,
            name: &self.name,
            service: service.to_owned(),
            monitor: &mut self.monitor,
        })
    }
}

/// The messages of one service among all of a trace.
pub(super) struct Queue<'t, 'a> {
    queue: TraceQueue<'t>,
    trace: &'t Trace,
    name: &'t str,
    service: String,
    monitor: &'t mut Observed<'a>,
}

impl Queue<'_, '_> {
    fn begin(&mut self, what: &str) {
        self.monitor.0.begin(format!("trace, {}: {what}", self.service));
    }

    /// The trace as it is, at a capacity.
    pub(super) fn as_it_is(&mut self, capacity: Bandwidth) -> Result<AsItIs, AnswerError> {
        self.begin("as it is");
        let time = or_text(self.queue.completion_time(capacity, self.monitor))?;
        Ok(AsItIs { capacity, load: self.trace.load(capacity), time })
    }

    /// The trace as it is, at the lowest capacity that keeps the target.
    pub(super) fn smallest_as_it_is(&mut self, target: Duration) -> Result<Found<AsItIs>, AnswerError> {
        self.begin("the smallest capacity for it as it is");
        match or_text(self.queue.smallest_capacity(target, self.monitor))? {
            Ok(capacity) => Ok(Ok(self.as_it_is(capacity)?)),
            Err(why) => Ok(Err(why)),
        }
    }

    /// Completion times by load.
    pub(super) fn curve(&mut self, capacity: Bandwidth) -> Result<Vec<(Load, Duration)>, AnswerError> {
        self.begin("the curve");
        let mut curve = Vec::new();
        for load in CURVE {
            let Ok(load) = Load::from_billionths(load * 10_000_000) else { continue };
            if let Ok(time) = or_text(self.queue.completion_time_at(capacity, load, self.monitor))? {
                curve.push((load, time));
            }
        }
        self.monitor.0.finish();
        Ok(curve)
    }

    /// The estimate by this queue.
    pub(super) fn estimate(
        &mut self,
        capacity: Bandwidth,
        load: Option<Load>,
        target: Duration,
    ) -> Result<Estimate, AnswerError> {
        let (mut time, mut capacity_at_load, mut capacity_for_traffic) = (Err(full()), Err(full()), Err(full()));
        if let Some(load) = load {
            self.begin("at the planned load");
            time = or_text(self.queue.completion_time_at(capacity, load, self.monitor))?;
            self.begin("the smallest capacity at the planned load");
            capacity_at_load = or_text(self.queue.smallest_capacity_at(load, target, self.monitor))?;
            self.begin("the smallest capacity for the planned traffic");
            let traffic = traffic(capacity, Some(load));
            capacity_for_traffic = or_text(self.queue.smallest_capacity_for(traffic, target, self.monitor))?;
            // Less than the traffic would hold for as long as the trace lasts, and no longer.
            let too_short = |found: &Bandwidth| *found < traffic;
            if capacity_for_traffic.as_ref().is_ok_and(too_short) {
                capacity_for_traffic =
                    Err(format!("the trace ends before messages wait for {}: a longer one is needed", target));
            }
        }
        self.begin("the largest load");
        let largest_load = or_text(self.queue.largest_load(capacity, target, self.monitor))?;
        self.monitor.0.finish();
        let all = text::whole(self.trace.len() as u64);
        let whose = match self.queue.counted() {
            counted if counted == self.trace.len() as u64 => String::new(),
            counted => format!(", {} of them this service's,", text::whole(counted)),
        };
        let assumes = format!(
            "the {all} messages of {}{whose} arrive again, in one queue, first in, first out; for another load or \
             traffic with other gaps",
            self.name
        );
        Ok(Estimate { method: Method::Trace, time, largest_load, capacity_at_load, capacity_for_traffic, assumes })
    }
}

/// A result with its error as a text; an interruption ends the command.
fn or_text<T>(result: Result<T, TraceError>) -> Result<Found<T>, AnswerError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(TraceError::Stopped) => Err(AnswerError::stopped()),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// A trace that cannot be read.
pub fn cannot_read(name: &str, error: &io::Error) -> AnswerError {
    AnswerError::refused(format!("cannot read the trace `{name}`: {error}")).hint("check the path and its permissions")
}
