//! The newest statuses and their history, by the policy's machines and services.
//!
//! Statuses name machines and services; the policy gives them places. A service that the policy does not have is not
//! shown, and a machine under another policy is told as such: the page would compare it with limits that it does not know.

use crate::history::{History, Ring, Sample};
use std::collections::HashMap;
use std::sync::Arc;
use weir_observe::Sighting;
use weir_observe::watcher::View;
use weir_policy::Policy;
use weir_status::{AgentStatus, DirectionStatus, FabricStatus, Status, fill};
use weir_units::{Bandwidth, Direction, Instant};

/// The most that may decide: policies have far fewer, and a source that makes words up gets no more.
const MOST_WORDS: usize = 10_000;

/// What decided, as numbers: 0 is that nothing is known.
#[derive(Debug, Clone, Default)]
struct Words {
    words: Vec<String>,
    numbers: HashMap<String, u16>,
}

impl Words {
    fn number(&mut self, word: &str) -> u16 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        if self.words.len() == MOST_WORDS {
            return 0;
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
    sightings: Vec<Sighting>,
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
            sightings: Vec::new(),
            at: Instant::ZERO,
            history: History::new(series),
            words: Words::default(),
        }
    }

    /// Takes what a watcher saw: the policy's machines in order, and then fabric brokers.
    pub fn take(&mut self, view: &View) {
        self.sightings.clone_from(&view.sightings);
        self.at = view.at;
        let (machines, services) = (self.policy.network().machines().len(), self.services.len());
        let mut samples = vec![Sample::UNKNOWN; machines * services * 2];
        for (machine, sighting) in view.sightings.iter().take(machines).enumerate() {
            let Some(agent) = agent(sighting) else { continue };
            if sighting.lost.is_some() {
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

    /// A machine's sighting; none before the first look.
    pub(crate) fn machine(&self, machine: usize) -> Option<&Sighting> {
        self.sightings.get(machine).filter(|_| machine < self.policy.network().machines().len())
    }
    /// What fabric brokers say.
    pub(crate) fn fabric(&self) -> impl Iterator<Item = (&Sighting, Option<&FabricStatus>)> {
        let machines = self.policy.network().machines().len();
        self.sightings.iter().skip(machines).map(|sighting| match sighting.status.as_deref() {
            Some(Status::Fabric(status)) => (sighting, Some(status)),
            _ => (sighting, None),
        })
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

/// The agent behind a sighting.
pub(crate) fn agent(sighting: &Sighting) -> Option<&AgentStatus> {
    match sighting.status.as_deref() {
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
