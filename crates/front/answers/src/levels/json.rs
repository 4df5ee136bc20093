//! Latency levels as JSON.

use super::{kind, numbered, ports, unbounded, unlimited_services, verdict};
use serde_json::{Value, json};
use weir_latency::levels::Admitted;
use weir_policy::EpochForm;

/// The levels of an admitted policy; its keys are those of `weir check --help`.
pub fn to_json(admitted: &Admitted) -> Value {
    let Some(levels) = admitted.policy.levels() else { return Value::Null };
    let settings = levels.settings();
    let level = |(number, level): (usize, &weir_policy::LevelRates)| {
        let bound = &admitted.bounds.levels[number - 1];
        json!({
            "level": number,
            "senders": level.sender_count,
            "factor": level.factor,
            "burst_bytes": level.burst.get(),
            "rate_bps": level.rate.bps(),
            "dscp": level.dscp,
            "worst_ns": bound.path.map(|path| path.nanos()),
            "backlog_bytes": bound.backlog.map(|(bytes, _)| bytes.get()),
            "unbounded": unbounded(admitted, number),
        })
    };
    let port = |(port, bounds): (&weir_latency::calculus::PortClass, &[Option<weir_latency::calculus::PortBound>])| {
        json!({
            "port": admitted.network.graph().link_name(port.example),
            "alike": port.count,
            "kind": kind(port),
            "rate_bps": port.rate.bps(),
            "buffer_bytes": port.buffer.map(|buffer| buffer.get()),
            "levels": bounds.iter().map(|bound| json!({
                "delay_ns": bound.map(|bound| bound.delay.nanos()),
                "backlog_bytes": bound.map(|bound| bound.backlog.get()),
            })).collect::<Value>(),
        })
    };
    let service = |service: &weir_latency::levels::ServiceBound| {
        json!({
            "service": admitted.policy.services().get(service.service).path(),
            "level": service.level.index() + 1,
            "message_bytes": service.target.map(|target| target.message.get()),
            "round_trip": service.target.map(|target| target.round_trip),
            "needed_bps": service.needed.bps(),
            "wait_ns": service.wait.nanos(),
            "worst_ns": service.worst.and_then(Result::ok).map(|worst| worst.nanos()),
            "target_ns": service.target.map(|target| target.worst.nanos()),
            "verdict": verdict(service),
        })
    };
    json!({
        "packet_bytes": settings.packet.get(),
        "framing_bytes": settings.framing.get(),
        "load": settings.load.as_f64(),
        "reserved": levels.reserved().map(|load| load.as_f64()),
        "epoch": match settings.epoch { EpochForm::Regulated => "regulated", EpochForm::Windowed => "windowed" },
        "epoch_ns": levels.epoch().nanos(),
        "slowest_bps": settings.slowest.bps(),
        "segments": settings.segments,
        "chosen": admitted.chosen.is_some(),
        "levels": numbered(admitted).map(level).collect::<Value>(),
        "ports": ports(admitted).map(port).collect::<Value>(),
        "services": admitted.bounds.services.iter().map(service).collect::<Value>(),
        "unlimited": unlimited_services(admitted),
    })
}
