//! `weir agent --reload`: a reload that fails where the agent refuses it.
//!
//! Problem: a signal has no reply, so the sender of SIGHUP finds a refusal in a log only. Approach:
//! this command checks everything that can be checked without the agent, with the agent's own
//! options, and sends no signal if it finds an error. It then sends the signal to the process that
//! has the lock of the interface's agent, and to no other, and waits for the agent's status, which
//! counts reloads and names the reason of the last refusal.

use super::{Args, runtime_config};
use crate::error::{CommandError, Exit};
use crate::input;
use crate::output::Ui;
use std::path::Path;
use weir_agent::host::{self, RunningAgent};
use weir_status::{AgentStatus, Status};

/// The interval and number of the checks of the status: 20 s, which a large policy on a busy host
/// may take.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
const LOOKS: u32 = 400;

#[expect(clippy::disallowed_methods, reason = "waits for another process")]
pub(super) fn run(args: &Args, process: Option<u32>, ui: &mut Ui) -> Result<Exit, CommandError> {
    let Some(path) = &args.status else {
        return Err(CommandError::refused("--reload needs --status"));
    };
    let name = match &args.machine {
        Some(name) => name.clone(),
        None => super::host_name()?,
    };
    let (runtime_config, notes) = runtime_config(args, &name)?;
    input::print_notes(&notes, ui)?;
    host::check(&runtime_config.policy, args.interface()?).map_err(|error| CommandError::refused(error.to_string()))?;
    let before = last(path);
    let agent = agent(args.interface()?, process)?;
    agent.hang_up().map_err(|error| CommandError::failed(format!("process {}: {error}", agent.process())))?;
    for _ in 0..LOOKS {
        std::thread::sleep(LOOK);
        let Some(now) = last(path).filter(|now| is_after_reload(before.as_ref(), now)) else { continue };
        return match now.policy_refused {
            Some(reason) => {
                Err(CommandError::refused(format!("the agent refuses it, and the old policy and keys stay: {reason}")))
            }
            None => {
                ui.notice(&format!("policy {} is in force\n", now.policy))?;
                Ok(Exit::Done)
            }
        };
    }
    Err(CommandError::failed(format!("{}: the agent has not reported the reload", path.display()))
        .hint("is it the file that the agent writes (--status)? Its log has more"))
}

/// Whether a status was made after a reload that the earlier one does not count.
fn is_after_reload(before: Option<&AgentStatus>, now: &AgentStatus) -> bool {
    let known = before.filter(|before| before.uptime_ms <= now.uptime_ms).map_or(0, |before| before.counters.reloads);
    now.counters.reloads > known
}

/// The agent's last status; `None` before its first period has ended.
fn last(path: &Path) -> Option<AgentStatus> {
    match Status::read(&std::fs::read(path).ok()?) {
        Ok(Status::Agent(status)) => Some(status),
        _ => None,
    }
}

/// The agent of an interface, which must be this process if one is given.
fn agent(interface: &str, process: Option<u32>) -> Result<RunningAgent, CommandError> {
    let found = RunningAgent::of(interface).map_err(|error| CommandError::failed(error.to_string()))?;
    let Some(agent) = found else {
        let earlier = RunningAgent::is_of_an_earlier_version(interface);
        if earlier.map_err(|error| CommandError::failed(error.to_string()))? {
            return Err(CommandError::refused(format!("the agent on {interface} is of an earlier version"))
                .hint("restart it, as after each update: `systemctl restart weir-agent`"));
        }
        return Err(CommandError::refused(format!("no agent runs on {interface}"))
            .hint("it is found in the same network namespace and with the same /run as its own"));
    };
    match process {
        Some(process) if process != agent.process() => Err(CommandError::refused(format!(
            "process {process} is not the agent of {interface}; that is {}",
            agent.process()
        ))
        .hint("leave the number out")),
        _ => Ok(agent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_after_a_reload_is_distinguished_from_an_earlier_one() {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1] } } }\n\
                    services: { a: { match: [ { protocol: tcp, port: 1 } ] } }\n";
        let policy = weir_policy::Policy::parse("policy.yaml", text).expect("valid").0;
        let at = |uptime_ms: u64, reloads: u64| {
            let mut status = AgentStatus::outline(&policy, weir_units::MachineId(0));
            (status.uptime_ms, status.counters.reloads) = (uptime_ms, reloads);
            status
        };
        let before = at(10_000, 3);
        assert!(!is_after_reload(Some(&before), &at(11_000, 3)) && is_after_reload(Some(&before), &at(11_000, 4)));
        // The status of an agent that was killed, and of its successor.
        assert!(!is_after_reload(Some(&before), &at(500, 0)) && is_after_reload(Some(&before), &at(500, 1)));
        assert!(!is_after_reload(None, &at(500, 0)) && is_after_reload(None, &at(500, 1)));
    }
}
