//! The newest statuses and their history, by the policy's machines and services.
//!
//! Statuses name machines and services; the policy gives them places. A service that the policy does not have is not
//! shown, and a machine under another policy is told as such: the page would compare it with limits that it does not know.

use crate::history::{History, Ring, Sample};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use weir_observe::Liveness;
use weir_observe::watcher::View;
use weir_policy::Policy;
use weir_status::{AgentStatus, DirectionStatus, FabricStatus, Status, fill};
use weir_units::{Bandwidth, Direction, Instant};

/// The most words that have a number.
const MOST_KEYWORDS: usize = 10_000;
/// What decided, where the policy cannot have: an agent under another one says it, or somebody who makes words up. It has a number
/// of its own, so that such a service is shown as held.
const FOREIGN: &str = "what this policy does not have";

/// What decided, as numbers in the order in which they were seen: 0 is that nothing is known. Only what the policy can decide
/// gets a number, so whoever answers fills nothing.
#[derive(Debug, Clone)]
struct Words {
    possible: HashSet<String>,
    words: Vec<String>,
    numbers: HashMap<String, u16>,
}

impl Words {
    fn of(policy: &Policy) -> Self {
        let possible = fill::constraints(policy).chain([FOREIGN.to_owned()]).collect();
        Self { possible, words: Vec::new(), numbers: HashMap::new() }
    }

    fn number(&mut self, word: &str) -> u16 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        // One number is left for what is foreign, so that this ends.
        let is_full = self.words.len() + usize::from(!self.numbers.contains_key(FOREIGN)) >= MOST_KEYWORDS;
        if word != FOREIGN && (is_full || !self.possible.contains(word)) {
            return self.number(FOREIGN);
        }
        self.words.push(word.to_owned());
        let number = self.words.len() as u16;
        self.numbers.insert(word.to_owned(), number);
        number
    }
}

/// What was seen of a network.
#[derive(Debug)]
pub struct Seen {
    pub(crate) policy: Arc<Policy>,
    /// Leaf services, in the policy's order.
    pub(crate) services: Vec<String>,
    service_places: HashMap<String, usize>,
    pub(crate) fingerprint: String,
    livenesses: Vec<Liveness>,
    at: Instant,
    history: History,
    words: Words,
}

impl Seen {
    /// Nothing yet, under a policy.
    pub fn new(policy: &Arc<Policy>) -> Self {
        let services: Vec<String> = policy.services().leaves().map(|(_, service)| service.path().to_owned()).collect();
        let series = policy.network().machines().len() * services.len() * 2;
        Self {
            policy: Arc::clone(policy),
            service_places: services.iter().enumerate().map(|(place, path)| (path.clone(), place)).collect(),
            services,
            fingerprint: fill::fingerprint(policy),
            livenesses: Vec::new(),
            at: Instant::ZERO,
            history: History::new(series),
            words: Words::of(policy),
        }
    }

    /// Takes what a watcher saw: the policy's machines in order, and then fabric brokers.
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
                let Some(place) = self.service_places.get(&service.service) else { continue };
                for direction in Direction::ALL {
                    let status = service.direction(direction);
                    let decided_by = status.decided_by.as_deref().map_or(0, |by| self.words.number(by));
                    samples[index(services, machine, *place, direction)] = sample(status, decided_by);
                }
            }
        }
        self.history.record(view.at.nanos() / 1_000_000_000, |place| samples[place]);
    }

    /// A machine's liveness; none before the first look.
    pub(crate) fn machine(&self, machine: usize) -> Option<&Liveness> {
        self.livenesses.get(machine).filter(|_| machine < self.policy.network().machines().len())
    }
    /// What fabric brokers say.
    pub(crate) fn fabric(&self) -> impl Iterator<Item = (&Liveness, Option<&FabricStatus>)> {
        let machines = self.policy.network().machines().len();
        self.livenesses.iter().skip(machines).map(|liveness| match liveness.status.as_deref() {
            Some(Status::Fabric(status)) => (liveness, Some(status)),
            _ => (liveness, None),
        })
    }
    /// Whether the policy has both.
    pub(crate) fn has(&self, rack: &str, service: &str) -> bool {
        self.policy.network().rack_named(rack).is_some() && self.service_places.contains_key(service)
    }
    pub(crate) fn service_place(&self, path: &str) -> Option<usize> {
        self.service_places.get(path).copied()
    }
    /// For how long a source has been lost, in seconds.
    pub(crate) fn lost_for(&self, since: Instant) -> f64 {
        self.at.saturating_since(since).nanos() as f64 / 1e9
    }
    /// Seconds since the first look.
    pub(crate) fn clock(&self) -> u64 {
        self.history.last().unwrap_or(0)
    }
    pub(crate) fn left_out(&self) -> usize {
        self.history.left_out()
    }
    pub(crate) fn word(&mut self, word: &str) -> u16 {
        self.words.number(word)
    }
    /// What decides, by number less one.
    pub(crate) fn words(&self) -> &[String] {
        &self.words.words
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
    Sample { usage: status.usage.map_or(f32::NAN, rate), limit: rate(status.held_at()), decided_by }
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

    /// An agent that makes up a word a second for an hour, or long ones, takes one number.
    #[test]
    fn only_what_the_policy_can_decide_gets_a_number() {
        let mut words = Words::of(&policy(2));
        assert_eq!([words.number("rack r1"), words.number("max of s1 at rack"), words.number("rack r1")], [1, 2, 1]);
        for made_up in 0..3_600 {
            assert_eq!(words.number(&format!("rack x{made_up}")), 3);
        }
        assert_eq!([words.number(&"x".repeat(1 << 20)), words.number(FOREIGN), words.number("demand")], [3, 3, 4]);
        assert_eq!(words.words, ["rack r1", "max of s1 at rack", FOREIGN, "demand"]);
    }

    #[test]
    fn numbers_have_an_end() {
        let mut words = Words::of(&policy(1));
        words.possible.extend((0..2 * MOST_KEYWORDS).map(|word| word.to_string()));
        let last = (0..2 * MOST_KEYWORDS).map(|word| words.number(&word.to_string())).last();
        assert_eq!((words.words.len(), last), (MOST_KEYWORDS, Some(MOST_KEYWORDS as u16)));
        assert_eq!(words.words[MOST_KEYWORDS - 1], FOREIGN);
    }
}
