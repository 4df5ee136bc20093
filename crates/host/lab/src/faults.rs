//! [`Fault`]: a process of tenants' control that is killed during the traffic, or a switch that loses its queues.
//!
//! The process is started again after [`RESTART`], as a supervisor would. The time to recover is from the fault until
//! all machines and switches are subscribed to the controller and have confirmed its settings, as the controller's
//! status shows them.
//!
//! A fault of something that the scenario does not have, or at a time after the traffic, is refused before the start
//! ([`check`]). One that a slow recovery delays beyond the end is reported as not carried out.
//!
//! Worked example: `12s=agent:a1` kills the agent of `a1` with SIGKILL 12 s after the start of the traffic.

use crate::tenants::SPINE;
use std::fmt;
use std::str::FromStr;
use weir_document::{Suggester, quote};
use weir_scenario::{Enforcement, LabScenario};
use weir_units::Duration;

/// The pause before a killed process is started again: systemd's for the units in `packaging`.
pub(crate) const RESTART: Duration = Duration::from_secs(1);

/// The part that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultTarget {
    /// The agent of this machine is killed.
    Agent(String),
    /// The fabric broker is killed.
    Controller,
    /// The subscriber of this switch is killed.
    Switch(String),
    /// This switch loses the configuration of all of its ports.
    Ports(String),
}

/// A fault at a time after the start of the traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The time.
    pub at: Duration,
    /// The part.
    pub target: FaultTarget,
}

/// A fault, and the time until all was as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The fault.
    pub fault: Fault,
    /// `None` if the run ended before.
    pub took: Option<Duration>,
}

/// A fault that the scenario cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct FaultError {
    /// The cause.
    pub cause: String,
    /// A possible remedy.
    pub hint: String,
}

/// Refuses faults that would not be carried out.
///
/// # Errors
/// A scenario without tenants' control; a time at or after the end of the traffic; a machine or a switch that the
/// scenario does not have, and a machine without an agent.
pub fn check(faults: &[Fault], scenario: LabScenario<'_>) -> Result<(), FaultError> {
    let Some(first) = faults.first() else { return Ok(()) };
    if scenario.governed().tenants.is_none() || scenario.enforcement() != Enforcement::QShare {
        return Err(FaultError {
            cause: format!("{}, but the scenario has no control of tenants' queues", first.target),
            hint: "faults need `enforcement: qshare` and a policy with tenants".to_owned(),
        });
    }
    let network = scenario.policy().network();
    let switches = || network.racks().iter().map(|rack| rack.name()).chain([SPINE]);
    let agents: Vec<&str> = (0..)
        .map(weir_units::MachineId)
        .zip(network.machines())
        .filter(|(id, _)| scenario.has_agent(*id))
        .map(|(_, machine)| machine.name())
        .collect();
    faults.iter().try_for_each(|fault| fault.check(scenario.duration(), &agents, &switches().collect::<Vec<_>>()))
}

impl Fault {
    fn check(&self, duration: Duration, agents: &[&str], switches: &[&str]) -> Result<(), FaultError> {
        if self.at >= duration {
            return Err(FaultError {
                cause: format!("the fault at {} comes after the traffic, which ends at {duration}", self.at),
                hint: "name an earlier time, early enough before the end for the recovery".to_owned(),
            });
        }
        let (what, name, all) = match &self.target {
            FaultTarget::Controller => return Ok(()),
            FaultTarget::Agent(machine) => ("machine with an agent", machine, agents),
            FaultTarget::Switch(switch) | FaultTarget::Ports(switch) => ("switch", switch, switches),
        };
        if all.contains(&name.as_str()) {
            return Ok(());
        }
        let names = all.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
        let more = if all.len() > SHOWN { ", …" } else { "" };
        let hint = Suggester::default().hint_of_name(name, all.iter().copied(), &format!("it has {names}{more}"));
        Err(FaultError { cause: format!("the scenario has no {what} {}", quote(name)), hint })
    }
}

/// Names that a hint lists.
const SHOWN: usize = 8;

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write TIME=agent:MACHINE, TIME=switch:SWITCH, TIME=ports:SWITCH or TIME=controller".to_owned();
        let (at, what) = text.split_once('=').ok_or_else(wrong)?;
        let at = at.parse().map_err(|error: weir_units::QuantityError| error.to_string())?;
        let target = match what.split_once(':') {
            None if what == "controller" => FaultTarget::Controller,
            Some(("agent", machine)) => FaultTarget::Agent(machine.to_owned()),
            Some(("switch", switch)) => FaultTarget::Switch(switch.to_owned()),
            Some(("ports", switch)) => FaultTarget::Ports(switch.to_owned()),
            _ => return Err(wrong()),
        };
        Ok(Self { at, target })
    }
}

impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(machine) => write!(f, "the agent of {machine} is killed"),
            Self::Controller => f.write_str("the controller is killed"),
            Self::Switch(switch) => write!(f, "the subscriber of {switch} is killed"),
            Self::Ports(switch) => write!(f, "{switch} loses the configuration of its ports"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        let fault = |text: &str| text.parse::<Fault>();
        let at = Duration::from_secs(12);
        assert_eq!(fault("12s=agent:a1"), Ok(Fault { at, target: FaultTarget::Agent("a1".to_owned()) }));
        assert_eq!(fault("12s=controller"), Ok(Fault { at, target: FaultTarget::Controller }));
        assert_eq!(
            fault("12s=ports:left").map(|of| of.target.to_string()).ok().as_deref(),
            Some("left loses the configuration of its ports")
        );
        for wrong in ["12s", "12s=agent", "12=controller", "12s=controller:a", "agent:a1"] {
            fault(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn faults_that_would_not_be_carried_out_are_refused() {
        let (agents, switches) = (["a1", "a2"], ["left", "right", SPINE]);
        let duration = Duration::from_secs(60);
        let check = |text: &str| text.parse::<Fault>().expect("a fault").check(duration, &agents, &switches);
        for text in ["0s=controller", "59s=agent:a2", "1ms=switch:left", "13s=ports:spine0"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        let refused = |text: &str| check(text).map_err(|error| (error.cause, error.hint)).expect_err(text);
        let late = refused("60s=controller");
        assert_eq!(late.0, "the fault at 60 s comes after the traffic, which ends at 60 s");
        let hint = |hint: &str| hint.to_owned();
        assert_eq!(
            refused("1s=agent:a3"),
            ("the scenario has no machine with an agent `a3`".to_owned(), hint("did you mean one of `a[1-2]`?"))
        );
        assert_eq!(
            refused("1s=ports:lfet"),
            ("the scenario has no switch `lfet`".to_owned(), hint("did you mean `left`?"))
        );
        assert_eq!(refused("1s=switch:a1").1, "it has left, right, spine0");
    }
}
