//! The metrics of the rack's other machines, as an agent receives them.

use super::list::{alone, gauge};
use super::table::{Metric, Of, Value};

pub(super) const PEERS: &[Metric] = &[
    gauge(
        "weir_peers",
        None,
        &[],
        "Other machines of the rack",
        Of::Agent(|status, give| alone(give, Value::Count(status.peers))),
    ),
    gauge(
        "weir_peers_alive",
        None,
        &[],
        "Other machines of the rack whose reports arrived within the timeout",
        Of::Agent(|status, give| alone(give, Value::Count(status.peers_alive))),
    ),
    gauge(
        "weir_peers_unheard",
        None,
        &[],
        "Other machines whose reports do not count, since their epochs are older than known ones",
        Of::Agent(|status, give| alone(give, Value::Count(status.unheard.len() as u64))),
    ),
];
