//! Latency levels for people: senders, rates, and bounds at each kind of port; and drawn.
//!
//! `weir check` and `weir plan` show the same tables; their content is that of [`weir_answers::levels`].

pub(crate) mod page;
pub(crate) mod print;

use crate::text;
use weir_latency::calculus::PortClass;
use weir_latency::levels::Admitted;
use weir_policy::Policy;
use weir_units::Duration;

/// A port of a class, and the number of those alike.
pub(crate) fn port_name(admitted: &Admitted, port: &PortClass) -> String {
    let name = admitted.network.graph().link_name(port.example);
    match port.count {
        1 => name,
        2 => format!("{name} and 1 alike"),
        count => format!("{name} and {} alike", count - 1),
    }
}

/// The part of an interface that bounded levels leave to guarantees, in words.
pub(crate) fn reserved(policy: &Policy) -> Option<String> {
    let load = policy.levels()?.reserved()?;
    Some(format!("guarantees of other services are of the rest, beside {load} of every port"))
}

/// A time that may be missing.
pub(crate) fn time(time: Option<Duration>) -> String {
    time.map_or_else(|| "unbounded".to_owned(), |time| text::time(time.as_secs_f64()))
}
