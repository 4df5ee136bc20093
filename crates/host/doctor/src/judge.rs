//! Judges facts: one finding of each check.

mod agent;
mod files;
mod host;
mod interface;
mod network;

use crate::facts::Facts;
use serde::Serialize;

/// A check.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name.
    pub id: &'static str,
    /// The condition that it tests.
    pub what: &'static str,
    /// The option of `weir doctor` that it needs, or nothing.
    pub needs: &'static str,
    judge: fn(&Facts) -> Verdict,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The condition holds.
    Fine,
    /// The condition may not hold, or its violation affects only some services.
    Doubtful,
    /// The condition does not hold.
    Wrong,
    /// The fact cannot be read, or was not requested.
    Skipped,
}

impl State {
    /// `fine`, `doubtful`, `wrong` or `skipped`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Doubtful => "doubtful",
            Self::Wrong => "wrong",
            Self::Skipped => "skipped",
        }
    }
}

/// A check's result on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check.
    pub id: &'static str,
    /// Its result.
    pub state: State,
    /// The state that was found.
    pub found: String,
    /// The consequence; empty if the check is fine.
    pub why: String,
    /// A shell command that corrects it, if there is one.
    pub mend: Option<String>,
}

/// A finding without the name of its check.
struct Verdict {
    state: State,
    found: String,
    why: &'static str,
    mend: Option<String>,
}

fn fine(found: impl Into<String>) -> Verdict {
    Verdict { state: State::Fine, found: found.into(), why: "", mend: None }
}
fn skipped(found: impl Into<String>) -> Verdict {
    Verdict { state: State::Skipped, found: found.into(), why: "", mend: None }
}
fn wrong(found: impl Into<String>, why: &'static str) -> Verdict {
    Verdict { state: State::Wrong, found: found.into(), why, mend: None }
}
fn doubtful(found: impl Into<String>, why: &'static str) -> Verdict {
    Verdict { state: State::Doubtful, found: found.into(), why, mend: None }
}

impl Verdict {
    fn mend(self, command: impl Into<String>) -> Self {
        Self { mend: Some(command.into()), ..self }
    }
}

/// An argument of a shell command, in quotes where the shell would interpret it.
pub fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:=,@%+".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

const fn check(id: &'static str, what: &'static str, needs: &'static str, judge: fn(&Facts) -> Verdict) -> Check {
    Check { id, what, needs, judge }
}

const INTERFACE: &str = "`--interface`";
const STATUS: &str = "`--status`";
const POLICY: &str = "policy";

/// All checks, in the order of the findings.
#[rustfmt::skip]
pub const CHECKS: &[Check] = &[
    check("kernel.requirements", "the kernel has what an agent needs", "", host::requirements),
    check("clock.source", "the kernel reads the time from a processor", "", host::clock_source),
    check("clock.synchronised", "the system clock is synchronised", "", host::clock_synchronised),
    check("service.units", "enabled units are active, and active units are enabled", "", host::units),
    check("service.program", "the units' program is there, and running units run it", "", host::programs),
    check("host.leftovers", "interfaces that are gone have left no pins", "", host::leftovers),
    check("interface.there", "the interface exists and has Ethernet frames", INTERFACE, interface::there),
    check("interface.segments", "buffers have more than one segment, and at most those of the levels", INTERFACE,
        interface::segments),
    check("interface.offloads", "the kernel merges and cuts buffers, and the device merges none", INTERFACE,
        interface::offloads),
    check("interface.qdisc", "the root qdisc is the kernel's or Weir's, and Weir's while an agent runs", INTERFACE,
        interface::qdisc),
    check("interface.programs", "pinned programs are attached to the interface", INTERFACE, interface::programs),
    check("interface.agent", "an agent runs on the interface", INTERFACE, interface::agent),
    check("agent.status", "the agent's status can be read and is current", STATUS, agent::status),
    check("agent.enforces", "qdisc and programs of the agent are in force", STATUS, agent::enforces),
    check("agent.policy", "the agent has the policy of the file", "policy, `--status`", agent::policy),
    check("agent.peers", "reports of all other machines of the rack arrive", STATUS, agent::peers),
    check("agent.keys", "all datagrams have a valid tag", STATUS, agent::keys),
    check("agent.versions", "all datagrams are of this version of the protocol", STATUS, agent::versions),
    check("agent.filters", "all filters but those by pod match something on this host", STATUS, agent::filters),
    check("agent.levels", "the bounds of the latency levels hold beside this machine's packets", STATUS, agent::levels),
    check("agent.fabric", "a leader has a stream to the fabric broker, and the certificate is valid", STATUS,
        agent::fabric),
    check("rack.policies", "all statuses have the same policy", STATUS, agent::rack_policies),
    check("peers.route", "the kernel has a route to each machine of the rack", POLICY, network::route),
    check("peers.reply", "each machine of the rack replies on TCP port 30566", POLICY, network::reply),
    check("key.file", "the agent can use the key file, and others cannot read it", "`--key`", files::key),
    check("fabric.certificate", "the certificate is of the CA, lasts 30 days, and others cannot read its key",
        "`--certificate`", files::certificate),
    check("switch.ports", "the ports of this switch have what the policy needs", "policy, `--port` or `--bridge`",
        network::switch_ports),
];

/// The findings of all checks.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let finding = |check: &Check| {
        let Verdict { state, found, why, mend } = (check.judge)(facts);
        Finding { id: check.id, state, found, why: why.to_owned(), mend }
    };
    CHECKS.iter().map(finding).collect()
}

#[cfg(test)]
mod tests;
