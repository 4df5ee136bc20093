//! The network that a plan is checked against: the buffers of ports and the retransmission timers.
//!
//! Approach: the policy states buffers; timers are those of Linux unless the command line gives
//! another. A scenario under the same policy replaces both by those of its links and transports, so
//! that a plan and a simulated run are about the same network.

use crate::error::CommandError;
use crate::input;
use crate::output::Ui;
use std::path::Path;
use weir_latency::retransmission::LINUX_MIN_RTO;
use weir_network::PortBuffers;
use weir_policy::Policy;
use weir_runs::memory;
use weir_scenario::{ReadOptions, Scenario};
use weir_units::{Duration, ServiceId};

/// Buffers and timers, with their origins.
pub(crate) struct PlannedNetwork {
    /// The buffers of ports.
    pub(crate) buffers: PortBuffers,
    /// The timer of the command line.
    timer: Option<Duration>,
    scenario: Option<Scenario>,
}

/// The shortest retransmission timeout of a service, and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timer {
    /// `None` if the service's transports repair no loss.
    pub(crate) shortest: Option<Duration>,
    pub(crate) from: String,
}

impl PlannedNetwork {
    /// The network of a policy, or that of a scenario under it.
    pub(crate) fn read(
        policy: &Policy,
        timer: Option<Duration>,
        scenario: Option<&Path>,
        ui: &mut Ui,
    ) -> Result<Self, CommandError> {
        let Some(path) = scenario else {
            return Ok(Self { buffers: policy.network().port_buffers(), timer, scenario: None });
        };
        let (scenario, notes) = input::scenario(path, &ReadOptions { set: Vec::new(), memory: memory::available() })??;
        input::print_notes(&notes, ui)?;
        let refused = |cause: &str| {
            CommandError::refused(format!("{}: {cause}", path.display()))
                .hint("name a scenario whose `policy:` is the planned policy")
        };
        let governed = scenario.governed().ok_or_else(|| refused("the scenario has no policy"))?;
        if governed.policy.digest() != policy.digest() {
            return Err(refused("the scenario's policy is another one than the planned policy"));
        }
        let buffers = match governed.links {
            Some(links) => PortBuffers { machine: Some(links.queue.buffer), rack: Some(links.queue.buffer) },
            None => scenario.graph().port_buffers(),
        };
        Ok(Self { buffers, timer, scenario: Some(scenario) })
    }

    /// The timer of a service, nested ones included: the longest of the scenario's flow groups.
    pub(crate) fn timer(&self, policy: &Policy, service: ServiceId) -> Timer {
        if let Some(shortest) = self.timer {
            return Timer { shortest: Some(shortest), from: "as given".to_owned() };
        }
        let is_within = |leaf: ServiceId| {
            std::iter::successors(Some(leaf), |&at| policy.services().get(at).parent()).any(|above| above == service)
        };
        let flow_groups = self.scenario.iter().flat_map(Scenario::flow_groups);
        let own: Vec<_> = flow_groups.filter(|group| group.services().any(is_within)).collect();
        match own.is_empty() {
            true => Timer { shortest: Some(LINUX_MIN_RTO), from: "Linux's default".to_owned() },
            false => Timer {
                shortest: own.iter().filter_map(|group| group.shortest_timeout()).max(),
                from: "the scenario's".to_owned(),
            },
        }
    }
}
