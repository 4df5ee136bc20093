//! The network that a plan is checked against: the buffers of ports and the retransmission timers.
//!
//! Approach: the policy states buffers; timers are those of Linux unless the caller gives
//! another. A scenario under the same policy replaces both by those of its links and transports, so
//! that a plan and a simulated run are about the same network.

use crate::error::AnswerError;
use weir_latency::retransmission::LINUX_MIN_RTO;
use weir_network::PortBuffers;
use weir_policy::Policy;
use weir_scenario::Scenario;
use weir_units::{Duration, ServiceId};

/// Buffers and timers, with their origins.
pub struct PlannedNetwork {
    /// The buffers of ports.
    pub(super) buffers: PortBuffers,
    /// The timer that was given.
    timer: Option<Duration>,
    scenario: Option<Scenario>,
}

/// The shortest retransmission timeout of a service, and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timer {
    /// `None` if the service's transports repair no loss.
    pub shortest: Option<Duration>,
    /// The origin of the timer.
    pub from: String,
}

impl PlannedNetwork {
    /// The network of a policy; `timer` is the shortest retransmission timeout, if it is not Linux's default.
    pub fn of_policy(policy: &Policy, timer: Option<Duration>) -> Self {
        Self { buffers: policy.network().port_buffers(), timer, scenario: None }
    }

    /// The network of a scenario under the policy. `timer` replaces the timers of its transports; `name` is the
    /// scenario's file in messages.
    ///
    /// # Errors
    /// A scenario without a policy, or with another one.
    pub fn of_scenario(
        policy: &Policy,
        timer: Option<Duration>,
        (name, scenario): (&str, Scenario),
    ) -> Result<Self, AnswerError> {
        let refused = |cause: &str| {
            AnswerError::refused(cause).at(name, None).hint("name a scenario whose `policy:` is the planned policy")
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
    pub(super) fn timer(&self, policy: &Policy, service: ServiceId) -> Timer {
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
