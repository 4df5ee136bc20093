//! [`Fault`]: a process of tenants' control that is killed during the traffic, or a switch that loses its queues.
//!
//! The process is started again after [`RESTART`], as a supervisor would. The time to recover is from the fault until
//! all machines and switches are subscribed to the controller and have confirmed its settings, as the controller's
//! status shows them.
//!
//! Worked example: `12s=agent:a1` kills the agent of `a1` with SIGKILL 12 s after the start of the traffic.

use std::fmt;
use std::str::FromStr;
use weir_units::Duration;

/// The pause before a killed process is started again: systemd's for the units in `packaging`.
pub(crate) const RESTART: Duration = Duration::from_secs(1);

/// The part that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failing {
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
    pub failing: Failing,
}

/// A fault, and the time until all was as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The fault.
    pub fault: Fault,
    /// `None` if the run ended before.
    pub took: Option<Duration>,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write TIME=agent:MACHINE, TIME=switch:SWITCH, TIME=ports:SWITCH or TIME=controller".to_owned();
        let (at, what) = text.split_once('=').ok_or_else(wrong)?;
        let at = at.parse().map_err(|error: weir_units::QuantityError| error.to_string())?;
        let failing = match what.split_once(':') {
            None if what == "controller" => Failing::Controller,
            Some(("agent", machine)) => Failing::Agent(machine.to_owned()),
            Some(("switch", switch)) => Failing::Switch(switch.to_owned()),
            Some(("ports", switch)) => Failing::Ports(switch.to_owned()),
            _ => return Err(wrong()),
        };
        Ok(Self { at, failing })
    }
}

impl fmt::Display for Failing {
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
        assert_eq!(fault("12s=agent:a1"), Ok(Fault { at, failing: Failing::Agent("a1".to_owned()) }));
        assert_eq!(fault("12s=controller"), Ok(Fault { at, failing: Failing::Controller }));
        assert_eq!(
            fault("12s=ports:left").map(|of| of.failing.to_string()).ok().as_deref(),
            Some("left loses the configuration of its ports")
        );
        for wrong in ["12s", "12s=agent", "12=controller", "12s=controller:a", "agent:a1"] {
            fault(wrong).expect_err(wrong);
        }
    }
}
