//! Judges facts: one finding of each check.

use crate::facts::{Facts, InterfaceFacts, StatusFacts};
use serde::Serialize;
use weir_linux::tc::Found;
use weir_status::{AgentStatus, SessionState, Status};

/// A check.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name.
    pub id: &'static str,
    /// The condition that it tests.
    pub what: &'static str,
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

/// A word of a shell command.
fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:=,@%+".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

const fn check(id: &'static str, what: &'static str, judge: fn(&Facts) -> Verdict) -> Check {
    Check { id, what, judge }
}

/// All checks, in the order of the findings.
pub const CHECKS: &[Check] = &[
    check("kernel.requirements", "the kernel has what an agent needs", requirements),
    check("clock.source", "the kernel reads the time from a processor, not from a slow device", clock_source),
    check("clock.synchronised", "the system clock is synchronised", clock_synchronised),
    check("interface.there", "the interface exists and has Ethernet frames", interface_there),
    check("interface.segments", "buffers of local sockets may have more than one segment", interface_segments),
    check("interface.qdisc", "the root qdisc is the kernel's or Weir's, and Weir's while an agent runs", qdisc),
    check("agent.status", "the agent's status can be read and is current", agent_status),
    check("agent.enforces", "qdisc and programs of the agent are in force", agent_enforces),
    check("agent.policy", "the agent has the policy of the file", agent_policy),
    check("agent.peers", "reports of all other machines of the rack arrive", agent_peers),
    check("agent.keys", "all datagrams have a valid tag", agent_keys),
    check("agent.versions", "all datagrams are of this version of the protocol", agent_versions),
    check("agent.filters", "all filters match something on this host", agent_filters),
    check("agent.fabric", "a leader has a stream to the fabric broker, and the certificate is valid", agent_fabric),
    check("rack.policies", "all statuses have the same policy", rack_policies),
];

/// The findings of all checks.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let finding = |check: &Check| {
        let Verdict { state, found, why, mend } = (check.judge)(facts);
        Finding { id: check.id, state, found, why: why.to_owned(), mend }
    };
    CHECKS.iter().map(finding).collect()
}

fn requirements(facts: &Facts) -> Verdict {
    let (capabilities, others): (Vec<_>, Vec<_>) =
        facts.missing.iter().partition(|missing| missing.what.starts_with("CAP_"));
    if !others.is_empty() {
        let all: Vec<String> = others.iter().map(ToString::to_string).collect();
        return wrong(all.join("; "), "the agent does not start");
    }
    if capabilities.is_empty() { fine("nothing is missing") } else { skipped("needs root") }
}

fn clock_source(facts: &Facts) -> Verdict {
    match &facts.clock_source {
        Err(error) => skipped(error),
        Ok(name) if ["hpet", "acpi_pm", "jiffies", "refined-jiffies"].contains(&name.as_str()) => doubtful(
            name,
            "the programs read the time for each packet, and this source takes a microsecond or is coarse",
        )
        .mend("cat /sys/devices/system/clocksource/clocksource0/available_clocksource"),
        Ok(name) => fine(name),
    }
}

fn clock_synchronised(facts: &Facts) -> Verdict {
    match &facts.clock_synchronised {
        Err(error) => skipped(error),
        Ok(true) => fine("synchronised"),
        Ok(false) => doubtful("not synchronised", "certificates are valid by the system clock").mend("timedatectl"),
    }
}

/// The interface, or why there is nothing to judge.
fn interface(facts: &Facts) -> Result<(&str, &InterfaceFacts), Verdict> {
    match &facts.interface {
        None => Err(skipped("no --interface")),
        Some((_, Err(error))) => Err(skipped(error)),
        Some((name, Ok(interface))) => Ok((name, interface)),
    }
}

fn interface_there(facts: &Facts) -> Verdict {
    match &facts.interface {
        None => skipped("no --interface"),
        Some((_, Err(error))) => wrong(error, "nothing is limited there").mend("ip link"),
        Some((_, Ok(interface))) if !interface.ethernet => {
            wrong("no Ethernet", "the programs read Ethernet headers").mend("ip link")
        }
        Some((name, Ok(interface))) if interface.loopback => {
            wrong(format!("{name} is the loopback"), "no packet of another machine passes it").mend("ip link")
        }
        Some((name, Ok(_))) => fine(name),
    }
}

fn interface_segments(facts: &Facts) -> Verdict {
    let (name, interface) = match interface(facts) {
        Ok(found) => found,
        Err(verdict) => return verdict,
    };
    let levels = agent(facts).is_some_and(|agent| !agent.levels.is_empty());
    match &interface.segments {
        Err(error) => skipped(error),
        Ok(1) if !levels => {
            doubtful("gso_max_segs 1", "each frame costs a pass through the stack, and no latency level needs it")
                .mend(format!("ip link set dev {name} gso_max_segs 65535"))
        }
        Ok(most) => fine(format!("gso_max_segs {most}")),
    }
}

fn qdisc(facts: &Facts) -> Verdict {
    let (name, interface) = match interface(facts) {
        Ok(found) => found,
        Err(verdict) => return verdict,
    };
    let runs = agent(facts).is_some_and(|agent| agent.interface == name && is_current(facts, agent));
    let restart = "systemctl restart weir-agent";
    match &interface.qdisc {
        Err(error) => skipped(error),
        Ok(Found::Foreign(qdisc)) if qdisc.is_root() => {
            wrong(format!("{qdisc}, of another program"), "the agent does not replace it, and limits nothing")
                .mend(format!("tc qdisc del dev {name} root"))
        }
        Ok(Found::Foreign(qdisc)) => wrong(
            format!("{qdisc} below the root, of another program"),
            "the agent does not replace it, and limits nothing",
        )
        .mend(format!("tc qdisc show dev {name}")),
        Ok(Found::Default(kind)) if runs => {
            wrong(format!("the kernel's {kind}"), "an agent runs and its qdisc is gone").mend(restart)
        }
        Ok(Found::Default(kind)) => fine(format!("the kernel's {kind}")),
        Ok(Found::Leftover | Found::OtherBackend) if runs || facts.statuses.is_empty() => fine("Weir's"),
        Ok(Found::Leftover | Found::OtherBackend) => {
            doubtful("Weir's, without a current status of an agent", "limits of an ended agent may be in force")
                .mend(format!("weir agent --remove --interface {name}"))
        }
    }
}

/// This host's agent: the first status.
fn agent(facts: &Facts) -> Option<&AgentStatus> {
    match &facts.statuses.first()?.status {
        Ok(Status::Agent(agent)) => Some(agent),
        _ => None,
    }
}

/// How long a status is current: three periods, of at least a second.
fn current_ms(agent: &AgentStatus) -> u64 {
    3 * agent.period_ms.max(1_000)
}

/// Whether a status is neither old nor dated in the future.
fn is_current(facts: &Facts, agent: &AgentStatus) -> bool {
    facts.now_ms.abs_diff(agent.written_ms) <= current_ms(agent)
}

/// Judges this host's agent.
fn of_agent(facts: &Facts, judge: impl FnOnce(&AgentStatus) -> Verdict) -> Verdict {
    agent(facts).map_or_else(|| skipped("no status of an agent (--status)"), judge)
}

fn agent_status(facts: &Facts) -> Verdict {
    let show = "systemctl status weir-agent";
    match facts.statuses.first() {
        None => skipped("no --status"),
        Some(StatusFacts { source, status: Err(error) }) => {
            wrong(format!("{source}: {error}"), "no agent writes its status there").mend(show)
        }
        Some(StatusFacts { source, status: Ok(Status::Agent(agent)) }) => {
            let ahead = agent.written_ms.saturating_sub(facts.now_ms);
            if ahead > current_ms(agent) {
                let found = format!("{source}: dated {ahead} ms in the future");
                return wrong(found, "a clock was set back, or it is another host's status").mend("timedatectl");
            }
            let age = facts.now_ms.saturating_sub(agent.written_ms);
            if is_current(facts, agent) {
                return fine(format!("{}, {age} ms old", agent.machine));
            }
            wrong(format!("{source}: {age} ms old"), "the agent has ended or does not progress").mend(show)
        }
        Some(StatusFacts { source, .. }) => {
            wrong(format!("{source}: not of an agent"), "the first --status is this host's")
        }
    }
}

fn agent_enforces(facts: &Facts) -> Verdict {
    of_agent(facts, |agent| match &agent.not_enforced {
        _ if agent.interface_absent => {
            wrong(format!("{} is gone", agent.interface), "nothing is limited until it is back").mend("ip link")
        }
        Some(reason) => wrong(reason, "limits are not in force").mend("systemctl restart weir-agent"),
        None => fine(format!("by {}", agent.backend)),
    })
}

fn agent_policy(facts: &Facts) -> Verdict {
    let reload = "systemctl reload weir-agent";
    of_agent(facts, |agent| match (&agent.policy_refused, &facts.policy) {
        (Some(reason), _) => wrong(reason, "the last reload was refused, and the old policy is in force").mend(reload),
        (None, Some(policy)) if policy.fingerprint != agent.policy => wrong(
            format!("{} is {}, the agent has {}", policy.file, policy.fingerprint, agent.policy),
            "machines with different policies do not use each other's reports",
        )
        .mend(reload),
        (None, None) => skipped("no policy file was given"),
        (None, Some(_)) => fine(&agent.policy),
    })
}

fn agent_peers(facts: &Facts) -> Verdict {
    of_agent(facts, |agent| {
        let found = format!("{} of {}", agent.peers_alive, agent.peers);
        if agent.peers_alive >= agent.peers {
            return fine(found);
        }
        let top = match &facts.policy {
            Some(policy) => format!("weir top --once --policy {}", quoted(&policy.file)),
            None => {
                let sources: Vec<String> = facts.statuses.iter().map(|status| quoted(&status.source)).collect();
                format!("weir top --once {}", sources.join(" "))
            }
        };
        let why = "without reports a machine counts as it last reported, and without any the static policy applies";
        if agent.peers_alive == 0 { wrong(found, why) } else { doubtful(found, why) }.mend(top)
    })
}

/// A counter of datagrams that do not count.
fn counter(count: u64, what: &str, why: &'static str) -> Verdict {
    if count == 0 { fine("none refused") } else { doubtful(format!("{count} datagrams {what}"), why) }
}

fn agent_keys(facts: &Facts) -> Verdict {
    let why = "since the agent's start: a machine has another key, or forged datagrams arrive";
    of_agent(facts, |agent| counter(agent.counters.datagrams_forged, "with an invalid tag", why))
}

fn agent_versions(facts: &Facts) -> Verdict {
    let why = "since the agent's start: a machine runs another version of Weir";
    of_agent(facts, |agent| counter(agent.counters.datagrams_other_version, "of another version", why))
}

fn agent_filters(facts: &Facts) -> Verdict {
    of_agent(facts, |agent| {
        let missed = agent.filters_unmatched.iter().chain(&agent.guests_missed).chain(&agent.cgroups_missed);
        let missed: Vec<&str> = missed.map(String::as_str).collect();
        if missed.is_empty() {
            return fine("all match");
        }
        doubtful(missed.join("; "), "packets of these services belong to no service, or to another one")
    })
}

fn agent_fabric(facts: &Facts) -> Verdict {
    const DAYS_LEFT: i64 = 30;
    of_agent(facts, |agent| {
        let Some((link, session)) = agent.fabric.as_ref().and_then(|link| Some((link, link.session.as_ref()?))) else {
            return skipped("no fabric broker is configured");
        };
        let now = i64::try_from(facts.now_ms / 1_000).unwrap_or(i64::MAX);
        let days = session.certificate_ends.map(|ends| (ends - now).div_euclid(86_400));
        match days {
            Some(days) if days < 0 => wrong("the certificate has ended", "the fabric broker refuses this machine"),
            _ if link.leads && session.state != SessionState::Up => {
                let reason = session.last_failure.as_deref().unwrap_or("no failure yet");
                wrong(
                    format!("{}: {reason}", session.state.name()),
                    "the rack does not report to the fabric, whose limits end",
                )
            }
            Some(days) if days < DAYS_LEFT => {
                doubtful(format!("the certificate ends in {days} days"), "the fabric broker then refuses this machine")
            }
            _ => fine(session.state.name()),
        }
    })
}

fn rack_policies(facts: &Facts) -> Verdict {
    let fingerprint = |facts: &StatusFacts| match facts.status.as_ref().ok()? {
        Status::Agent(agent) => Some((agent.machine.clone(), agent.policy.clone())),
        Status::Fabric(broker) => Some((broker.name.clone(), broker.policy.clone())),
        Status::Switch(_) => None,
    };
    let all: Vec<(String, String)> = facts.statuses.iter().filter_map(fingerprint).collect();
    let [(_, first), _, ..] = &all[..] else { return skipped("needs two statuses (--status)") };
    if all.iter().all(|(_, policy)| policy == first) {
        return fine(format!("{first} in {} statuses", all.len()));
    }
    let listed: Vec<String> = all.iter().map(|(name, policy)| format!("{name} has {policy}")).collect();
    wrong(listed.join(", "), "machines with different policies do not use each other's reports")
}

#[cfg(test)]
mod tests;
