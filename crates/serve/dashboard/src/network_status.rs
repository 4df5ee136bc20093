//! The newest statuses and their history, by the policy's machines and services.
//!
//! Statuses name machines and services; the policy gives them indices. A service that the policy
//! does not have is not shown, and a machine under another policy is reported as such: the page
//! would compare it with limits of this one.

use crate::history::{History, Ring, Sample};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use weir_observe::Liveness;
use weir_observe::bounds;
use weir_observe::watcher::View;
use weir_policy::Policy;
use weir_status::{AgentStatus, DirectionStatus, FabricStatus, Status, fill};
use weir_units::{Bandwidth, Direction, Instant};

/// The most constraints that have a number.
const MOST_CONSTRAINTS: usize = 10_000;
/// The text for constraints that the policy does not have: of an agent under another policy, or of
/// a forged status. It has a number of its own, so that such a service is shown as limited.
const FOREIGN: &str = "a constraint of another policy";

/// Constraints, numbered in the order of their appearance; 0 is unknown. Only constraints of the
/// policy get a number, so that statuses cannot fill the memory.
#[derive(Debug, Clone)]
struct Constraints {
    possible: HashSet<String>,
    texts: Vec<String>,
    numbers: HashMap<String, u16>,
}

impl Constraints {
    fn of(policy: &Policy) -> Self {
        let possible = fill::constraints(policy).chain([FOREIGN.to_owned()]).collect();
        Self { possible, texts: Vec::new(), numbers: HashMap::new() }
    }

    fn number(&mut self, text: &str) -> u16 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        // One number is reserved for foreign constraints, so that the recursion ends.
        let is_full = self.texts.len() + usize::from(!self.numbers.contains_key(FOREIGN)) >= MOST_CONSTRAINTS;
        if text != FOREIGN && (is_full || !self.possible.contains(text)) {
            return self.number(FOREIGN);
        }
        self.texts.push(text.to_owned());
        let number = self.texts.len() as u16;
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// The watched statuses of a network.
#[derive(Debug)]
pub struct NetworkStatus {
    pub(crate) policy: Arc<Policy>,
    /// Leaf services, in the policy's order.
    pub(crate) services: Vec<String>,
    service_indices: HashMap<String, usize>,
    pub(crate) fingerprint: String,
    livenesses: Vec<Liveness>,
    at: Instant,
    history: History,
    constraints: Constraints,
}

impl NetworkStatus {
    /// No statuses yet, under a policy.
    pub fn new(policy: &Arc<Policy>) -> Self {
        let services: Vec<String> = policy.services().leaves().map(|(_, service)| service.path().to_owned()).collect();
        let series = policy.network().machines().len() * services.len() * 2;
        Self {
            policy: Arc::clone(policy),
            service_indices: services.iter().enumerate().map(|(index, path)| (path.clone(), index)).collect(),
            services,
            fingerprint: fill::fingerprint(policy),
            livenesses: Vec::new(),
            at: Instant::ZERO,
            history: History::new(series),
            constraints: Constraints::of(policy),
        }
    }

    /// Takes the view of a watcher: the policy's machines in order, and then fabric brokers and switches.
    pub fn take(&mut self, view: &View) {
        self.livenesses.clone_from(&view.livenesses);
        self.at = view.at;
        let (machines, services) = (self.policy.network().machines().len(), self.services.len());
        let mut samples = vec![Sample::UNKNOWN; machines * services * 2];
        for (machine, liveness) in view.livenesses.iter().take(machines).enumerate() {
            let Some(agent) = agent(liveness) else { continue };
            if liveness.lost.is_some() {
                continue;
            }
            for service in &agent.services {
                let Some(position) = self.service_indices.get(&service.service) else { continue };
                for direction in Direction::ALL {
                    let status = service.direction(direction);
                    let decided_by = status.decided_by.as_deref().map_or(0, |by| self.constraints.number(by));
                    samples[index(services, machine, *position, direction)] = sample(status, decided_by);
                }
            }
        }
        self.history.record(view.at.nanos() / 1_000_000_000, |index| samples[index]);
    }

    /// A machine's liveness; `None` before the first view.
    pub(crate) fn machine(&self, machine: usize) -> Option<&Liveness> {
        self.livenesses.get(machine).filter(|_| machine < self.policy.network().machines().len())
    }
    /// The fabric brokers with their statuses.
    pub(crate) fn fabric(&self) -> impl Iterator<Item = (&Liveness, Option<&FabricStatus>)> {
        let machines = self.policy.network().machines().len();
        let brokers = self.livenesses.iter().skip(machines).filter(|liveness| !liveness.is_switch());
        brokers.map(|liveness| match liveness.status.as_deref() {
            Some(Status::Fabric(status)) => (liveness, Some(status)),
            _ => (liveness, None),
        })
    }
    /// The switches.
    pub(crate) fn switches(&self) -> impl Iterator<Item = &Liveness> {
        let machines = self.policy.network().machines().len();
        self.livenesses.iter().skip(machines).filter(|liveness| liveness.is_switch())
    }
    /// The causes for which the bounds of latency levels are not in force.
    pub(crate) fn obstacles_to_bounds(&self) -> Vec<String> {
        bounds::obstacles_to_bounds(&self.livenesses)
    }
    /// Whether the policy has both.
    pub(crate) fn has(&self, rack: &str, service: &str) -> bool {
        self.policy.network().rack_named(rack).is_some() && self.service_indices.contains_key(service)
    }
    pub(crate) fn service_index(&self, path: &str) -> Option<usize> {
        self.service_indices.get(path).copied()
    }
    /// For how long a source has been lost, in seconds.
    pub(crate) fn lost_for(&self, since: Instant) -> f64 {
        self.at.saturating_since(since).nanos() as f64 / 1e9
    }
    /// Seconds since the first view.
    pub(crate) fn clock(&self) -> u64 {
        self.history.last().unwrap_or(0)
    }
    pub(crate) fn left_out(&self) -> usize {
        self.history.left_out()
    }
    pub(crate) fn constraint(&mut self, text: &str) -> u16 {
        self.constraints.number(text)
    }
    /// The constraints, by number less one.
    pub(crate) fn constraints(&self) -> &[String] {
        &self.constraints.texts
    }
    /// The history of one service on one machine in one direction.
    pub(crate) fn samples(&self, machine: usize, service: usize, direction: Direction, ring: Ring) -> Vec<Sample> {
        self.history.samples(index(self.services.len(), machine, service, direction), ring)
    }
}

/// The agent behind a liveness.
pub(crate) fn agent(liveness: &Liveness) -> Option<&AgentStatus> {
    match liveness.status.as_deref() {
        Some(Status::Agent(agent)) => Some(agent),
        _ => None,
    }
}

fn index(services: usize, machine: usize, service: usize, direction: Direction) -> usize {
    (machine * services + service) * 2 + usize::from(direction == Direction::Rx)
}

fn sample(status: &DirectionStatus, decided_by: u16) -> Sample {
    let rate = |rate: Bandwidth| if rate.is_unlimited() { f32::INFINITY } else { rate.bps() as f32 };
    Sample { usage: status.usage.map_or(f32::NAN, rate), limit: rate(status.effective_limit()), decided_by }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(services: usize) -> Policy {
        let mut text =
            "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [m1] } } }\nservices:\n"
                .to_owned();
        for service in 0..services {
            text += &format!("  s{service}: {{ match: [ {{ port: {} }} ] }}\n", service + 1);
        }
        Policy::parse("policy.yaml", &text).expect("sound").0
    }

    /// An agent that reports another constraint each second for an hour, or a long one, takes one
    /// number.
    #[test]
    fn only_constraints_of_the_policy_get_a_number() {
        let mut constraints = Constraints::of(&policy(2));
        assert_eq!(
            [constraints.number("rack r1"), constraints.number("max of s1 at rack"), constraints.number("rack r1")],
            [1, 2, 1]
        );
        for made_up in 0..3_600 {
            assert_eq!(constraints.number(&format!("rack x{made_up}")), 3);
        }
        assert_eq!(
            [constraints.number(&"x".repeat(1 << 20)), constraints.number(FOREIGN), constraints.number("demand")],
            [3, 3, 4]
        );
        assert_eq!(constraints.texts, ["rack r1", "max of s1 at rack", FOREIGN, "demand"]);
    }

    #[test]
    fn numbers_are_bounded() {
        let mut constraints = Constraints::of(&policy(1));
        constraints.possible.extend((0..2 * MOST_CONSTRAINTS).map(|text| text.to_string()));
        let last = (0..2 * MOST_CONSTRAINTS).map(|text| constraints.number(&text.to_string())).last();
        assert_eq!((constraints.texts.len(), last), (MOST_CONSTRAINTS, Some(MOST_CONSTRAINTS as u16)));
        assert_eq!(constraints.texts[MOST_CONSTRAINTS - 1], FOREIGN);
    }
}
