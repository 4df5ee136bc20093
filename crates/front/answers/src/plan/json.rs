//! A plan for programs.

use super::model::{AsItIs, Estimate, Found, NeededCap, Plan, ServicePlan, TraceSummary};
use crate::{levels, text};
use serde_json::{Value, json};
use weir_latency::levels::Admitted;
use weir_latency::plan::{Gap, Point, PortNeed};
use weir_units::{Bandwidth, Duration, Load};

/// The whole plan. Loads are parts of 1; `null` is 100 %, or no estimate if there is a `…_why`. The load of a trace as
/// it is may be above 1, and is never `null`. `admitted` is that of a policy with latency levels, `written` whether the
/// policy keeps every target with the cap that was written into it. The keys are those of `weir plan --help`.
pub fn to_json(plan: &Plan, admitted: Option<&Admitted>, written: Option<bool>) -> Value {
    let mut value = json!({
        "kept": plan.is_kept(),
        "largest_load": plan.most.as_ref().ok().copied().flatten().map(Load::as_f64),
        "caps": plan.caps.iter().map(cap).collect::<Value>(),
        "refused": plan.refused,
        "points": plan.points.iter().map(point).collect::<Value>(),
        "trace": plan.trace.as_ref().map(trace),
        "services": plan.services.iter().map(service).collect::<Value>(),
    });
    if let Some(admitted) = admitted {
        value["levels"] = levels::to_json(admitted);
    }
    if let Some(kept) = written {
        value["kept_as_written"] = kept.into();
    }
    value
}

/// The plan of a policy whose only targets are those of latency levels. Targets that are not kept have been refused.
pub fn levels_to_json(admitted: &Admitted) -> Value {
    json!({ "kept": true, "levels": levels::to_json(admitted) })
}

/// A cap with its point.
fn cap(needed: &NeededCap) -> Value {
    let bps = |cap: Option<Bandwidth>| cap.map(Bandwidth::bps);
    json!({"point": needed.point.name(), "tx_bps": bps(needed.cap.tx), "rx_bps": bps(needed.cap.rx)})
}

fn point(point: &Point) -> Value {
    json!({
        "point": point.point.name(),
        "direction": point.direction.name(),
        "capacity_bps": text::bps(point.capacity),
        "peak_load": point.load.map(Load::as_f64),
        "limited_by": super::words::limited_by(point),
    })
}

fn trace(trace: &TraceSummary) -> Value {
    json!({
        "file": trace.name,
        "messages": trace.messages,
        "bytes": u64::try_from(trace.bytes).unwrap_or(u64::MAX),
        "span_ns": trace.span.nanos(),
        "longest_gap_ns": trace.longest_gap.nanos(),
        "offered_bps": trace.offered.bps(),
    })
}

fn as_it_is(at: &AsItIs) -> Value {
    json!({"capacity_bps": text::bps(at.capacity), "load": at.load, "time_ns": nanos(&at.time)})
}

fn service(service: &ServicePlan) -> Value {
    let smallest = service.as_it_is_smallest.as_ref();
    let curve = service.trace_curve.iter().map(|(load, time)| json!([load.as_f64(), time.nanos()]));
    let mut value = json!({
        "service": service.path,
        "message_bytes": service.target.message.get(),
        "p99_ns": service.target.p99.nanos(),
        "kept": service.verdict() == weir_latency::plan::Verdict::Kept,
        "verdict": service.verdict().name(),
        "unproven": service.doubts(),
        "by": service.by.name(),
        "capacity_bps": text::bps(service.capacity),
        "capacity_from": service.capacity_from,
        "peak_load": service.load.map(Load::as_f64),
        "peak_load_from": service.load_from,
        "traffic_bps": text::bps(service.traffic()),
        "convergence_ns": service.burst.convergence.nanos(),
        "sigma_bytes": service.sigma.get(),
        "buffers": service.needs.iter().map(buffer).collect::<Value>(),
        "overloads": service.gaps.iter().filter_map(overload).collect::<Value>(),
        "retransmission": retransmission(service),
        "estimates": service.estimates.iter().map(estimate).collect::<Value>(),
        "trace_as_it_is": service.as_it_is.iter().map(as_it_is).collect::<Value>(),
        "trace_as_it_is_smallest": smallest.and_then(|found| found.as_ref().ok()).map(as_it_is),
        "trace_curve": curve.collect::<Value>(),
        "assumes": service.assumes,
    });
    if let Some(Err(why)) = smallest {
        value["trace_as_it_is_smallest_why"] = Value::from(why.as_str());
    }
    value
}

fn buffer(need: &PortNeed) -> Value {
    json!({
        "point": need.point.name(),
        "direction": need.direction.name(),
        "capacity_bps": need.capacity.bps(),
        "sigma_bytes": need.sigma.get(),
        "needed_bytes": need.needed.get(),
        "stated_bytes": need.stated.map(|stated| stated.get()),
        "enough": need.is_met(),
    })
}

fn overload(gap: &Gap) -> Option<Value> {
    let Gap::Overload(overload) = gap else { return None };
    Some(json!({
        "point": overload.point.name(),
        "direction": overload.direction.name(),
        "offered_bps": overload.offered.bps(),
        "capacity_bps": overload.capacity.bps(),
        "until_ns": overload.excess.map(|excess| excess.until.nanos()),
        "burst_bytes": overload.excess.map(|excess| excess.burst.get()),
        "services": overload.services,
    }))
}

fn retransmission(service: &ServicePlan) -> Value {
    let after = |timeouts| service.with_timeouts(timeouts).map(|time| time.nanos());
    json!({
        "shortest_ns": service.timer.shortest.map(|shortest| shortest.nanos()),
        "from": service.timer.from,
        "one_timeout_ns": after(1),
        "two_timeouts_ns": after(2),
    })
}

fn estimate(estimate: &Estimate) -> Value {
    let mut value = json!({
        "by": estimate.method.name(),
        "time_ns": nanos(&estimate.time),
        "largest_load": estimate.largest_load.as_ref().ok().copied().flatten().map(Load::as_f64),
        "smallest_capacity_bps": estimate.capacity_at_load.as_ref().ok().copied().map(Bandwidth::bps),
        "smallest_capacity_for_traffic_bps": estimate.capacity_for_traffic.as_ref().ok().copied().map(Bandwidth::bps),
        "assumes": estimate.assumes,
    });
    for (name, why) in [
        ("time_why", estimate.time.as_ref().err()),
        ("largest_load_why", estimate.largest_load.as_ref().err()),
        ("smallest_capacity_why", estimate.capacity_at_load.as_ref().err()),
        ("smallest_capacity_for_traffic_why", estimate.capacity_for_traffic.as_ref().err()),
    ] {
        if let Some(why) = why {
            value[name] = Value::from(why.as_str());
        }
    }
    value
}

fn nanos(time: &Found<Duration>) -> Option<u64> {
    time.as_ref().ok().map(|time| time.nanos())
}
