//! Latency levels: senders, rates, and bounds at each kind of port.
//!
//! `check` and `plan` have the same content, which is [`weir_latency::levels`]'.

mod json;

pub use json::to_json;

use crate::text;
use weir_latency::calculus::{PortBound, PortClass, PortKind};
use weir_latency::levels::{Admitted, Premise, ServiceBound};
use weir_policy::LevelRates;

/// The levels of an admitted policy with their numbers.
pub fn numbered(admitted: &Admitted) -> impl Iterator<Item = (usize, &LevelRates)> {
    (1..).zip(admitted.policy.levels().map_or(&[][..], |levels| levels.all()))
}

/// The classes of ports that levels pass, with the bounds of each level.
pub fn ports(admitted: &Admitted) -> impl Iterator<Item = (&PortClass, &[Option<PortBound>])> {
    let classes = admitted.network.routes().map_or(&[][..], |routes| &routes.ports);
    classes.iter().zip(admitted.bounds.network.ports.iter().map(Vec::as_slice))
}

/// The sender by a class of ports.
pub fn kind(port: &PortClass) -> &'static str {
    match port.kind {
        PortKind::Interface => "host",
        PortKind::Fabric => "switch to switch",
        PortKind::Host => "switch to host",
    }
}

/// The reason why a level has no bound: its load at the first port that its senders can fill.
pub fn unbounded(admitted: &Admitted, level: usize) -> Option<String> {
    let at = admitted.bounds.levels[level - 1].unbounded_at?;
    let (port, _) = ports(admitted).nth(at)?;
    let name = admitted.network.graph().link_name(port.example);
    Some(format!("its senders can fill the port {name} of {}", text::rate(port.rate)))
}

/// Whether the target of a service is kept, or why not.
pub fn verdict(service: &ServiceBound) -> String {
    match (&service.target, &service.worst) {
        (None, _) => "no target".to_owned(),
        (Some(_), Some(Ok(_))) if service.is_kept() => "kept".to_owned(),
        (Some(_), Some(Ok(_))) => "not kept".to_owned(),
        (Some(_), Some(Err(Premise::Unbounded))) => "its level has no bound".to_owned(),
        (Some(_), Some(Err(Premise::Frame))) => "a frame carries no payload".to_owned(),
        (Some(_), Some(Err(Premise::Unknown(_)))) => "another service of its level states no messages".to_owned(),
        (Some(_), Some(Err(Premise::Rate { .. }))) => "its rate is above the level's".to_owned(),
        (Some(_), None) => String::new(),
    }
}

/// The services on unbounded levels that may send more than all guarantees leave: those without a maximum.
pub fn unlimited_services(admitted: &Admitted) -> Vec<&str> {
    let policy = &admitted.policy;
    let unbounded = |service: &&ServiceBound| admitted.bounds.levels[service.level.index()].path.is_none();
    let without = |service: &ServiceBound| {
        let ceiling = policy.machine_ceiling(service.service, weir_units::Direction::Tx);
        ceiling.is_unlimited().then(|| policy.services().get(service.service).path())
    };
    admitted.bounds.services.iter().filter(unbounded).filter_map(without).collect()
}
