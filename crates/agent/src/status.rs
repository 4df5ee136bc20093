//! What the agent is doing, as a file.
//!
//! Once a period the agent replaces its status file in one step, so that a reader sees a whole status or the
//! one before. The file is for people, the lab and whatever watches; nothing reads it to decide.
//!
//! ```json
//! { "machine": "m1", "mode": "runtime", "backend": "htb", "heard": 9,
//!   "services": [ { "service": "dfs", "tx": { "usage_bps": 1, "limit_bps": null, "share_bps": 1, "decided_by": "demand" }, "rx": … } ],
//!   "counters": { "accepted": 1, "replayed": 0, … } }
//! ```

use crate::daemon::DatagramCounters;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use weir_control::{Mode, RackBroker};
use weir_linux::shaper::Backend;
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, MachineId};

/// The status of an agent. `usage` is by leaf, as measured in the last period.
pub(crate) fn of(
    policy: &Policy,
    machine: MachineId,
    broker: &RackBroker,
    backend: Backend,
    usage: &[[Bandwidth; 2]],
    datagrams: &DatagramCounters,
) -> Value {
    let allocator = broker.allocator();
    let place = allocator.machines().iter().position(|id| *id == machine).unwrap_or_default();
    let service = |leaf: usize| {
        let one = |direction: Direction| {
            let instance = broker.shares(direction).instances.get(allocator.instance(leaf, place));
            json!({
                "usage_bps": usage.get(leaf).map(|both| both[usize::from(direction == Direction::Rx)]),
                "limit_bps": broker.limit(direction, leaf),
                "share_bps": instance.map(|instance| instance.share),
                "decided_by": instance.map(|instance| instance.decided_by.display(policy).to_string()),
            })
        };
        let path = policy.services().get(allocator.leaves()[leaf]).path();
        json!({ "service": path, "tx": one(Direction::Tx), "rx": one(Direction::Rx) })
    };
    let counters = broker.counters();
    json!({
        "machine": policy.network().machine(machine).name(),
        "mode": match broker.mode() { Mode::Static => "static", Mode::Runtime => "runtime" },
        "backend": backend.to_string(),
        "peers_heard": broker.peers_heard(),
        "services": (0..allocator.leaves().len()).map(service).collect::<Vec<_>>(),
        "counters": {
            "reports_accepted": counters.accepted,
            "reports_replayed": counters.replayed,
            "reports_unknown_machine": counters.unknown_machine,
            "reports_other_policy": counters.other_policy,
            "reports_malformed": counters.malformed + datagrams.malformed,
            "datagrams_truncated": datagrams.truncated,
            "datagrams_foreign": datagrams.foreign,
            "datagrams_other_version": datagrams.version,
            "datagrams_forged": datagrams.forged,
            "datagrams_misdirected": datagrams.misdirected,
            "datagrams_unsent": datagrams.unsent,
            "fallbacks": counters.fallbacks,
        },
    })
}

/// Replaces the file.
pub(crate) fn write(path: &Path, status: &Value) -> io::Result<()> {
    weir_state::replace::write(path, format!("{status:#}\n").as_bytes())
}
