//! Hosts that send to each other through a channel that loses, delays and repeats messages: the production machines of
//! senders, receivers and first ports, with gates as a driver enforces them.
//!
//! Observers: no gate lets through more than it was opened for; at each first port A stays within the budget; what
//! leaves a host in a second is within its link's rate and two budgets.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BinaryHeap};
use weir_credits::host::{Aggregate, FirstPort, Gate, Host, HostSettings, Output, Reading};
use weir_credits::{Coding, ForwarderSettings, Message, Period, PeriodRule};
use weir_datapath::{CreditPort, CreditPortSettings};
use weir_units::{Bandwidth, Bytes, Duration, Instant, ServiceId, Weight};

const RATE: Bandwidth = Bandwidth::from_mbps(100);
const LEAST: Period = Period::from_micros(1_000);
const MOST: Period = Period::from_micros(20_000);
const FRAME: u64 = 1_514;
const STEP: u64 = 50_000;
const DELAY: u64 = 150_000;

type Flow = Aggregate<u32>;

/// A flow at its sender: the bytes that wait, those that have left, and the gate.
#[derive(Debug, Default)]
struct Queue {
    waiting: u64,
    sent: u64,
    opened: u64,
    gate: Option<(u64, Gate, u64)>,
}

struct World {
    seed: u64,
    random: SmallRng,
    now: u64,
    hosts: Vec<Host<u32, CreditPort>>,
    queues: BTreeMap<Flow, Queue>,
    /// Messages by arrival, with the host.
    channel: BinaryHeap<std::cmp::Reverse<(u64, u64, u32)>>,
    messages: Vec<(Flow, Message)>,
    loss: f64,
    allocations: u64,
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn new_host(now: u64, weights: &[u32]) -> Host<u32, CreditPort> {
    let rule = PeriodRule { rate: RATE, least: LEAST, most: MOST, frame: Bytes::new(FRAME) };
    let online = CreditPort::new(&CreditPortSettings { rate: RATE, most: MOST, lossless: false });
    let online = online.with_whole_frames(Bytes::new(FRAME));
    let first = FirstPort::new(at(now), ForwarderSettings { rule, memory: 4 }, online);
    let settings = HostSettings {
        rate: RATE,
        least: LEAST,
        frame: Bytes::new(FRAME),
        whole_frames: true,
        timeout: [Duration::from_millis(5), Duration::from_millis(100)],
        silence: Duration::from_millis(100),
        linger: Duration::from_millis(50),
        abandon_after: None,
        memory: Duration::from_secs(1),
        coding: Coding::Wide,
    };
    let mut host = Host::new(settings, Some(first));
    let weight = |(index, weight): (usize, &u32)| {
        (ServiceId(index as u32), Weight::from_thousandths(*weight * 1_000).expect("in range"))
    };
    host.set_services(at(now), weights.iter().enumerate().map(weight).collect());
    host
}

impl World {
    fn new(seed: u64, hosts: u32, weights: &[u32], loss: f64) -> Self {
        Self {
            seed,
            random: SmallRng::seed_from_u64(seed),
            now: 0,
            hosts: (0..hosts).map(|_| new_host(0, weights)).collect(),
            queues: BTreeMap::new(),
            channel: BinaryHeap::new(),
            messages: Vec::new(),
            loss,
            allocations: 0,
        }
    }

    fn write(&mut self, flow: Flow, bytes: u64) {
        self.queues.entry(flow).or_default().waiting += bytes;
        self.read(flow);
    }

    fn read(&mut self, flow: Flow) {
        let queue = &self.queues[&flow];
        let reading = Reading { sent: queue.sent, waiting: Bytes::new(queue.waiting) };
        self.hosts[flow.source as usize].on_reading(at(self.now), flow, reading);
    }

    /// Frames leave through the gates.
    fn send(&mut self) {
        for queue in self.queues.values_mut() {
            let Some((opened, gate, spent)) = &mut queue.gate else { continue };
            let (allowed, period) = (gate.bytes.get(), gate.period.duration().nanos());
            loop {
                let frame = queue.waiting.min(FRAME);
                let due = *opened
                    + u64::try_from(u128::from(period) * u128::from(*spent) / u128::from(allowed.max(1)))
                        .expect("within the period");
                if frame == 0 || *spent + frame > allowed || due > self.now || self.now > *opened + period {
                    break;
                }
                *spent += frame;
                queue.waiting -= frame;
                queue.sent += frame;
            }
        }
    }

    fn post(&mut self, flow: Flow, message: Message) {
        let to = if matches!(message, Message::Allocation(_)) { flow.source } else { flow.destination };
        self.allocations += u64::from(matches!(message, Message::Allocation(_)));
        let copies = match self.random.random_range(0.0..1.0) {
            luck if luck < self.loss => 0,
            luck if luck < 2.0 * self.loss => 2,
            _ => 1,
        };
        for copy in 0..copies {
            let delay = if copy == 0 { DELAY } else { self.random.random_range(DELAY..5_000_000) };
            self.channel.push(std::cmp::Reverse((self.now + delay, self.messages.len() as u64, to)));
            self.messages.push((flow, message));
        }
    }

    fn outputs(&mut self, host: usize) {
        while let Some(output) = self.hosts[host].poll() {
            match output {
                Output::Send { flow, message } => self.post(flow, message),
                Output::Gate { flow, gate } => {
                    let queue = self.queues.get_mut(&flow).expect("a gate of a flow that sends");
                    queue.opened += gate.bytes.get();
                    queue.gate = Some((self.now, gate, 0));
                }
                Output::End { flow } => self.queues.get_mut(&flow).expect("it sends").gate = None,
                Output::Abandon { flow } => panic!("{flow:?} has had allocations"),
            }
        }
    }

    fn run(&mut self, millis: u64) {
        let end = self.now + millis * 1_000_000;
        while self.now < end {
            self.now += STEP;
            self.send();
            while let Some(&std::cmp::Reverse((due, index, to))) = self.channel.peek()
                && due <= self.now
            {
                self.channel.pop();
                let (flow, message) = self.messages[index as usize];
                if flow.source == to && self.queues.contains_key(&flow) {
                    self.read(flow);
                }
                self.hosts[to as usize].on_message(at(self.now), flow, &message);
                self.outputs(to as usize);
            }
            if self.now.is_multiple_of(1_000_000) {
                let flows: Vec<Flow> = self.queues.keys().copied().collect();
                flows.into_iter().for_each(|flow| self.read(flow));
            }
            for host in 0..self.hosts.len() {
                if self.hosts[host].timer().is_some_and(|due| due <= at(self.now)) {
                    self.hosts[host].on_timer(at(self.now));
                }
                self.outputs(host);
            }
            self.observe();
        }
    }

    fn observe(&self) {
        for (flow, queue) in &self.queues {
            assert!(queue.sent <= queue.opened, "seed {}: {flow:?} has sent more than its gates", self.seed);
        }
        for host in &self.hosts {
            let port = host.first_port().expect("with a first port");
            let budget = 2 * MOST.capacity(RATE).get();
            let outstanding = port.online().outstanding().get();
            assert!(outstanding <= budget, "seed {}: A is {outstanding} of {budget}", self.seed);
            assert_eq!(host.counters().overspent, 0, "seed {}", self.seed);
        }
    }

    /// What each flow sends in a time, as parts of the link.
    fn shares(&mut self, millis: u64) -> Vec<f64> {
        let before: Vec<u64> = self.queues.values().map(|queue| queue.sent).collect();
        self.run(millis);
        let whole = RATE.bytes_in(Duration::from_millis(millis)).get() as f64;
        self.queues.values().zip(before).map(|(queue, before)| (queue.sent - before) as f64 / whole).collect()
    }
}

fn flow(service: u32, source: u32, destination: u32) -> Flow {
    Aggregate { service: ServiceId(service), source, destination }
}

const MUCH: u64 = 1 << 40;

#[test]
fn one_flow_uses_the_link() {
    let mut world = World::new(1, 2, &[1], 0.0);
    world.write(flow(0, 0, 1), MUCH);
    world.run(20);
    let shares = world.shares(200);
    assert!(shares[0] > 0.97 && shares[0] <= 1.01, "{shares:?}");
}

#[test]
fn one_sender_to_four_receivers_uses_its_link_once() {
    let mut world = World::new(1, 5, &[1], 0.0);
    (1..5).for_each(|to| world.write(flow(0, 0, to), MUCH));
    world.run(50);
    let shares = world.shares(400);
    let sum: f64 = shares.iter().sum();
    assert!(sum > 0.95 && sum < 1.02, "{shares:?}");
    assert!(shares.iter().all(|share| (share - 0.25).abs() < 0.0125), "{shares:?}");
}

#[test]
fn a_service_of_many_pairs_has_the_share_of_its_weight() {
    // Weight 1 to three hosts, weight 2 to one.
    let mut world = World::new(1, 5, &[1, 2], 0.0);
    (1..4).for_each(|to| world.write(flow(0, 0, to), MUCH));
    world.write(flow(1, 0, 4), MUCH);
    world.run(50);
    let shares = world.shares(400);
    let services = [shares[..3].iter().sum::<f64>(), shares[3]];
    assert!((services[0] - 1.0 / 3.0).abs() < 0.02 && (services[1] - 2.0 / 3.0).abs() < 0.02, "{shares:?}");
}

#[test]
fn lost_and_repeated_messages_cost_little_and_grant_nothing() {
    for seed in 0..20 {
        let mut world = World::new(seed, 4, &[1, 1], 0.05);
        for (service, source, to) in [(0, 0, 1), (0, 0, 2), (1, 0, 1), (1, 3, 0)] {
            world.write(flow(service, source, to), MUCH);
        }
        world.run(50);
        let shares = world.shares(400);
        let sum: f64 = shares[..3].iter().sum();
        assert!(sum > 0.8 && sum < 1.02 && shares[3] > 0.8, "seed {seed}: {shares:?}");
    }
}

#[test]
fn an_idle_flow_ends_and_begins_again() {
    for seed in 0..20 {
        let mut world = World::new(seed, 2, &[1], 0.3);
        for _ in 0..3 {
            world.write(flow(0, 0, 1), 400_000);
            world.run(400);
            assert_eq!(world.queues[&flow(0, 0, 1)].waiting, 0, "seed {seed}");
            world.run(400);
            let ends = [world.hosts[0].sending().count(), world.hosts[1].receiving().count()];
            assert_eq!(ends, [0, 0], "seed {seed}");
            let before = world.allocations;
            world.run(100);
            assert_eq!(world.allocations, before, "seed {seed}");
        }
        let port = world.hosts[0].first_port().expect("with a first port");
        assert_eq!((port.flows(), port.online().outstanding()), (0, Bytes::ZERO), "seed {seed}");
    }
}

#[test]
fn a_restarted_host_resumes_its_flows() {
    for restarted in [0, 1] {
        let mut world = World::new(1, 2, &[1], 0.0);
        world.write(flow(0, 0, 1), MUCH);
        world.run(100);
        world.hosts[restarted] = new_host(world.now, &[1]);
        world.queues.get_mut(&flow(0, 0, 1)).expect("there").gate = None;
        world.run(300);
        let shares = world.shares(200);
        assert!(shares[0] > 0.95, "host {restarted}: {shares:?}");
    }
}
