//! The receiving side: counters, ticks, meters, the policer and the feedback that is due.

use super::BURST_FRAMES;
use crate::parameters::limit;
use crate::{InterfaceMeter, PoliceVerdict, ReceiveMeter, abi};
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, Bytes, Direction, Duration, Instant, MachineId};

/// The sender of a packet, for the policer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Of no interest: nothing is policed here.
    Any,
    /// It applies feedback.
    Follower,
    /// It does not.
    Stranger,
}

/// A packet that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes of its frame.
    pub bytes: u32,
    /// Switches may mark it.
    pub capable: bool,
    /// A switch marked it.
    pub marked: bool,
    /// Its sender requests feedback.
    pub requests_feedback: bool,
    /// Its sender's transport reacts to marks.
    pub reacts: bool,
    /// Its sender.
    pub peer: Peer,
}

/// The verdict on a packet that has arrived, and the feedback to its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reception {
    /// The policer's decision.
    pub verdict: PoliceVerdict,
    /// The rate to advertise.
    pub feedback: Option<Bandwidth>,
}

/// An interface.
#[derive(Debug)]
struct Ingress {
    /// When its next tick is due.
    due: Instant,
    meter: InterfaceMeter,
}

/// A service at an interface.
#[derive(Debug)]
struct Receiver {
    /// Since the last tick.
    taken: abi::Taken,
    meter: ReceiveMeter,
    /// The brokers' limit.
    limit: Bandwidth,
    policer: abi::Policer,
}

/// The receiving sides of all hosts.
#[derive(Debug)]
pub(super) struct Receiving {
    services: usize,
    config: ShaperConfig,
    tick: Duration,
    /// Bytes that a window contains at least, unless it would be longer than its interval many times over.
    grain: Bytes,
    ingress: Vec<Ingress>,
    /// By host and service.
    receivers: Vec<Receiver>,
    /// By host: words with a bit for each service that received packets since the last tick.
    active: Vec<u64>,
    words: usize,
}

/// The interval of ticks: half of the shortest interval of a meter. With ticks as long as the interval T, which packets
/// run, a window would last from T to two T; with halves it closes at most half a tick, a quarter of T, early or late.
///
/// EyeQ runs its law at least T apart, each service by itself. Ticks run the laws of all services at once, in step with
/// EyeQ's meter of sending, which has the same T: services then raise R together, and the marks that follow cost the
/// lighter one a fifth of its share. Two ticks of 3/5 T are 6/5 T, which is not in step with it.
pub(super) fn tick(config: &ShaperConfig) -> Duration {
    let intervals = config.services.iter().map(|service| service.interval);
    let shortest = intervals.fold(config.parameters.interface.interval, Duration::min);
    let (part, whole) = if config.transmit.is_some() { (3, 5) } else { (1, 2) };
    Duration::from_nanos((shortest.nanos() * part / whole).max(1))
}

impl Receiving {
    pub(super) fn new(services: usize, frame: Bytes) -> Self {
        Self {
            services,
            config: ShaperConfig::default(),
            tick: Duration::from_nanos(1),
            grain: Bytes::new(frame.get() * BURST_FRAMES * u64::from(abi::GRAIN_BURSTS)),
            ingress: Vec::new(),
            receivers: Vec::new(),
            active: Vec::new(),
            words: services.div_ceil(64),
        }
    }

    pub(super) fn set_shapers(&mut self, now: Instant, config: &ShaperConfig) {
        let hosts = config.machines.len();
        self.config = config.clone();
        self.tick = tick(config);
        let meter = |machine| {
            InterfaceMeter::of_machine(config, MachineId(machine), Direction::Rx, now)
                .expect("every shaper has an interface meter for receiving")
        };
        self.ingress = (0..hosts as u32).map(|host| Ingress { due: now, meter: meter(host) }).collect();
        for index in self.receivers.len()..hosts * self.services {
            let service = config.services.get(index % self.services);
            let parameters = service.map_or(config.parameters, |service| config.of(service));
            let meter = ReceiveMeter::new(now, &parameters, Bandwidth::UNLIMITED, index as u32);
            let (taken, policer) = (abi::Taken::default(), abi::Policer::default());
            self.receivers.push(Receiver { taken, meter, limit: Bandwidth::UNLIMITED, policer });
        }
        self.active.resize(hosts * self.words, 0);
        (0..hosts).for_each(|host| self.share(host));
    }

    pub(super) fn set_interval(&mut self, interval: Duration) {
        self.config.services.iter_mut().for_each(|service| service.interval = interval);
        self.tick = tick(&self.config);
        self.receivers.iter_mut().for_each(|receiver| receiver.meter.set_interval(interval));
    }

    pub(super) fn set_limit(&mut self, host: usize, service: usize, limit: Bandwidth) {
        self.receivers[host * self.services + service].limit = limit;
        self.share(host);
    }

    pub(super) fn limit(&self, host: usize, service: usize) -> Bandwidth {
        self.receivers[host * self.services + service].own_limit(&self.config, service, MachineId(host as u32))
    }

    pub(super) fn capacity(&self, host: usize, service: usize) -> Option<Bandwidth> {
        let interface = &self.ingress.get(host)?.meter;
        let share = interface.share_of(&self.config, service, MachineId(host as u32), Direction::Rx);
        Some(share.min(self.limit(host, service)))
    }

    pub(super) fn meter(&self, host: usize, service: usize) -> Option<&ReceiveMeter> {
        Some(&self.receivers.get(host * self.services + service)?.meter)
    }

    /// Divides the capacity of a host's interface among its services.
    fn share(&mut self, host: usize) {
        for service in 0..self.config.services.len() {
            let receiver = &mut self.receivers[host * self.services + service];
            receiver.set_capacity(&self.ingress[host].meter, &self.config, service, host);
        }
    }

    #[inline]
    pub(super) fn receive(&mut self, host: usize, service: usize, now: Instant, arrival: Arrival) -> Reception {
        let receiver = &mut self.receivers[host * self.services + service];
        let verdict = receiver.count(now, arrival);
        self.active[host * self.words + service / 64] |= 1 << (service % 64);
        if now >= self.ingress[host].due {
            self.run_tick(host, now);
        }
        let meter = &mut self.receivers[host * self.services + service].meter;
        let rate = meter.rate();
        if rate.is_unlimited() {
            return Reception { verdict, feedback: None };
        }
        let due = abi::feedback_due(&mut meter.raw_mut().sampler, now.nanos(), arrival.bytes.into()) != 0;
        Reception { verdict, feedback: (due || arrival.requests_feedback).then_some(rate) }
    }

    /// A tick, in the order of `datapath/receive_tick.h`.
    #[inline(never)]
    fn run_tick(&mut self, host: usize, now: Instant) {
        let Ingress { due, meter: interface } = &mut self.ingress[host];
        let next = *due + self.tick;
        *due = if next > now { next } else { now + self.tick };
        let slack = Duration::from_nanos(self.tick.nanos() / 2);
        let (config, machine) = (&self.config, MachineId(host as u32));
        let receivers = &mut self.receivers[host * self.services..][..self.services];
        let active = &mut self.active[host * self.words..][..self.words];
        let mut sum = 0;
        for service in bits(active) {
            let Receiver { taken, meter, limit, .. } = &receivers[service];
            let leaf = config.leaf_share(service, machine, Direction::Rx);
            let bytes = taken.bytes + taken.stranger_bytes;
            // What the policer dropped has crossed the interface, too.
            sum += bytes + taken.dropped_bytes;
            interface.reach(meter, now, Bytes::new(bytes), &leaf.enforced(), *limit, config.sharing);
            interface.tick_marks(meter, taken.packets, taken.marked, leaf.committed.min(*limit));
        }
        interface.tick(now, Bytes::new(sum), slack);
        for service in bits(active) {
            let receiver = &mut receivers[service];
            receiver.set_capacity(interface, config, service, host);
            let own = receiver.own_limit(config, service, machine);
            receiver.run_tick(interface, now, own, (config.services[service].interval, self.grain), slack);
        }
        active.fill(0);
    }
}

/// The numbers of the bits that are set, in order.
fn bits(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(index, &word)| {
        let rest = |word: &u64| Some(word & (word - 1)).filter(|rest| *rest != 0);
        let first = Some(word).filter(|word| *word != 0);
        std::iter::successors(first, rest).map(move |word| index * 64 + word.trailing_zeros() as usize)
    })
}

impl Receiver {
    /// Polices and counts a packet.
    #[inline]
    fn count(&mut self, now: Instant, arrival: Arrival) -> PoliceVerdict {
        let bytes = u64::from(arrival.bytes);
        // A service without a receive limit has a policer without one.
        let verdict = if arrival.peer == Peer::Any || self.policer.limit == 0 {
            self.taken.bytes += bytes;
            PoliceVerdict::Pass
        } else if arrival.peer == Peer::Follower {
            self.taken.bytes += bytes;
            self.taken.followed_bytes += bytes;
            PoliceVerdict::Pass
        } else {
            self.police(now, arrival)
        };
        if arrival.capable && verdict != PoliceVerdict::Drop {
            self.taken.packets += 1;
            self.taken.marked += u32::from(arrival.marked);
        }
        verdict
    }

    fn police(&mut self, now: Instant, arrival: Arrival) -> PoliceVerdict {
        let bytes = u64::from(arrival.bytes);
        let raw = abi::police(&mut self.policer, now.nanos(), arrival.bytes, 1, arrival.reacts.into());
        let verdict = PoliceVerdict::of(raw);
        match verdict {
            PoliceVerdict::Drop => self.taken.dropped_bytes += bytes,
            PoliceVerdict::Pass | PoliceVerdict::Mark => self.taken.stranger_bytes += bytes,
        }
        verdict
    }

    /// Sets the capacity of the service's meter by its current share of the interface and its limits.
    fn set_capacity(&mut self, interface: &InterfaceMeter, config: &ShaperConfig, service: usize, host: usize) {
        let machine = MachineId(host as u32);
        let share = interface.share_of(config, service, machine, Direction::Rx);
        let own = self.own_limit(config, service, machine);
        if share < own {
            self.meter.set_share(share);
        } else {
            self.meter.set_capacity(own);
        }
    }

    /// The lower of the brokers' limit and the plan's.
    fn own_limit(&self, config: &ShaperConfig, service: usize, machine: MachineId) -> Bandwidth {
        self.limit.min(config.leaf_share(service, machine, Direction::Rx).share.max)
    }

    /// Runs the policer and the meter on what was counted since the last tick.
    fn run_tick(
        &mut self,
        interface: &mut InterfaceMeter,
        now: Instant,
        own: Bandwidth,
        (interval, grain): (Duration, Bytes),
        slack: Duration,
    ) {
        let taken = std::mem::take(&mut self.taken);
        self.meter.set_tick_interval(interval, grain);
        let (length, slack_ns) = (self.meter.interval().nanos(), slack.nanos());
        let counted = abi::tick_policer(&mut self.policer, now.nanos(), limit(own), length, slack_ns, &taken);
        interface.tick_meter(&mut self.meter, now, Bytes::new(counted), taken.packets, taken.marked, slack);
    }
}
