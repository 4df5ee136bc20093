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
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
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
///
/// The directory may be one that others write to, so the file to rename must be new: a link that somebody planted
/// under its name would have root write to wherever it points.
pub(crate) fn write(path: &Path, status: &Value) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    };
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(hidden);
    // What an earlier process with our number left; removing a link leaves what it points to.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // O_CREAT with O_EXCL never follows a link, not even one that was planted since.
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    let replaced = file.write_all(format!("{status:#}\n").as_bytes()).and_then(|()| std::fs::rename(&temporary, path));
    if replaced.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_link_is_not_followed_and_nothing_is_left_beside() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("victim"), "whole").expect("written");
        let planted = [format!(".m1.json.{}.new", std::process::id()), "m1.new".into(), "m1.json".into()];
        for name in &planted {
            std::os::unix::fs::symlink(at("victim"), at(name)).expect("a link");
        }
        for _ in 0..2 {
            write(&at("m1.json"), &json!({ "machine": "m1" })).expect("written");
        }
        assert_eq!(std::fs::read_to_string(at("victim")).expect("there"), "whole");
        let status: Value = serde_json::from_slice(&std::fs::read(at("m1.json")).expect("there")).expect("JSON");
        assert_eq!(status["machine"], "m1");
        assert!(!at(&planted[0]).exists());
        write(&at("nowhere").join("m1.json"), &json!({})).expect_err("no directory");
    }
}
