//! ExpressPass's credits through a common port: receiving hosts, a port that limits credits, and senders that return
//! each credit with data. There are no queues of data, so the shares are those that the credits have.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_transport::agents::{Agent, ControlField, FlowKey, PacketKind, Passing, PortState, Verdict};
use weir_transport::expresspass::{Header, Parameters, Port};
use weir_units::{Bandwidth, SimTime};

const GIGABIT: Bandwidth = Bandwidth::from_gbps(1);
/// The most credits that a port passes in a second: one every 12.976 µs.
const MOST: f64 = 77_065.35;

/// The place of a credit on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// It reaches the common port.
    Port,
    /// Its data reaches the receiver.
    Receiver,
}

/// Receivers behind one port of 1 Gb/s. A flow's number is that of its slot.
struct Network {
    hosts: Vec<Port>,
    /// The host that receives each flow, and the time from a credit's departure to the arrival of its data.
    flows: Vec<(usize, SimTime)>,
    common: Port,
    /// Packets on their way, and their fields by number.
    events: BinaryHeap<Reverse<(SimTime, usize, Place, u32)>>,
    fields: Vec<Header>,
    delivered: Vec<u64>,
    now: SimTime,
}

impl Network {
    /// A network with so many hosts and these flows.
    fn new(hosts: u32, flows: &[(usize, SimTime)], parameters: &Parameters) -> Self {
        let host = |number| {
            let mut port = Port::new(number, GIGABIT, parameters);
            port.at_host();
            port
        };
        Self {
            hosts: (0..hosts).map(host).collect(),
            flows: flows.to_vec(),
            common: Port::new(hosts, GIGABIT, parameters),
            events: BinaryHeap::new(),
            fields: Vec::new(),
            delivered: vec![0; flows.len()],
            now: SimTime::ZERO,
        }
    }

    fn key(&self, flow: usize) -> FlowKey {
        FlowKey {
            slot: flow as u32,
            from: 99,
            to: self.flows[flow].0 as u32,
            hash: (flow as u32).wrapping_mul(0x9E37_79B9),
        }
    }

    /// A flow's request arrives now.
    fn request(&mut self, flow: usize) {
        self.arrive(flow, Header::Request);
    }

    /// A segment reaches its receiver.
    fn arrive(&mut self, flow: usize, header: Header) -> Verdict {
        let mut field = ControlField::from(header);
        let (kind, port) = (PacketKind::Data, IDLE);
        let flow_key = Some(self.key(flow));
        let mut packet =
            Passing { kind, size: 1514, flow: flow_key, credits: false, direct: true, port, control: Some(&mut field) };
        self.hosts[self.flows[flow].0].on_return(self.now, &mut packet)
    }

    fn schedule(&mut self, at: SimTime, flow: usize, place: Place, header: Header) {
        self.fields.push(header);
        self.events.push(Reverse((at, flow, place, self.fields.len() as u32 - 1)));
    }

    /// A credit has passed the common port: its data arrives after the rest of the round trip.
    fn pass(&mut self, flow: usize, header: Header) {
        let Header::Credit(credit) = header else { panic!("{header:?}") };
        let rest = SimTime::from_picos(self.flows[flow].1.picos() * 3 / 4);
        self.schedule(self.now + rest, flow, Place::Receiver, Header::Data(credit));
    }

    /// Runs until a time. Returns the flows' shares of the most in this time.
    fn run(&mut self, millis: u64) -> Vec<f64> {
        let (from, until) = (self.now, SimTime::from_millis(millis));
        let before = self.delivered.clone();
        loop {
            let timers = self.hosts.iter().chain([&self.common]).map(Agent::timer).min().expect("ports");
            let event = self.events.peek().map_or(SimTime::NEVER, |Reverse((at, ..))| *at);
            if timers.min(event) > until {
                break;
            }
            self.now = self.now.max(timers.min(event));
            if event <= timers {
                self.happen();
            } else {
                self.fire();
            }
        }
        self.now = until;
        let most = MOST * (until - from).picos() as f64 / 1e12;
        self.delivered.iter().zip(before).map(|(after, before)| (after - before) as f64 / most).collect()
    }

    fn happen(&mut self) {
        let Some(Reverse((_, flow, place, field))) = self.events.pop() else { return };
        let header = self.fields[field as usize];
        if place == Place::Receiver {
            assert_eq!(self.arrive(flow, header), Verdict::PassWithout);
            self.delivered[flow] += 1;
            return;
        }
        let mut field = ControlField::from(header);
        let (kind, port) = (PacketKind::Message, IDLE);
        let flow_key = Some(self.key(flow));
        let mut packet =
            Passing { kind, size: 84, flow: flow_key, credits: false, direct: true, port, control: Some(&mut field) };
        if self.common.on_enter(self.now, &mut packet) == Verdict::Pass {
            self.pass(flow, header);
        }
    }

    /// The timers that are due.
    fn fire(&mut self) {
        for host in 0..self.hosts.len() {
            if self.hosts[host].timer() <= self.now {
                self.hosts[host].on_timer(self.now, IDLE);
            }
            while let Some(message) = self.hosts[host].poll() {
                let flow = message.flow.slot as usize;
                let quarter = SimTime::from_picos(self.flows[flow].1.picos() / 4);
                let header = *message.control.get::<Header>().expect("a credit");
                self.schedule(self.now + quarter, flow, Place::Port, header);
            }
        }
        if self.common.timer() <= self.now {
            self.common.on_timer(self.now, IDLE);
        }
        while let Some(message) = self.common.poll() {
            let header = *message.control.get::<Header>().expect("a credit");
            self.pass(message.flow.slot as usize, header);
        }
    }
}

const IDLE: PortState = PortState { taken: 0, held: 0 };

fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    sum * sum / (squares * shares.len() as f64)
}

/// Flows with one request at time 0 each: their shares of the most in the last of `windows`, which are ends in
/// milliseconds.
fn shares(hosts: usize, flows: usize, parameters: &Parameters, windows: [u64; 2]) -> Vec<f64> {
    let round_trip = SimTime::from_micros(150);
    let flows: Vec<_> = (0..flows).map(|flow| (flow % hosts, round_trip)).collect();
    let mut network = Network::new(hosts as u32, &flows, parameters);
    for flow in 0..flows.len() {
        network.request(flow);
    }
    network.run(windows[0]);
    network.run(windows[1])
}

/// A flow joins one that has all credits, at the receiver's own port or at another: within 20 ms each has half.
#[test]
fn two_flows_have_equal_shares() {
    for hosts in [1, 2] {
        let flows = [(0, SimTime::from_micros(150)), (hosts as usize - 1, SimTime::from_micros(150))];
        let mut network = Network::new(hosts, &flows, &Parameters::default());
        network.request(0);
        let alone = network.run(10);
        assert!(alone[0] > 0.85 && alone[1] == 0.0, "{alone:?}");
        network.request(1);
        network.run(30);
        let shares = network.run(80);
        let total = shares[0] + shares[1];
        assert!((shares[0] / total - 0.5).abs() < 0.05 && total > 0.98, "{hosts} hosts: {shares:?}");
    }
}

/// With the same target loss for all rates (Algorithm 1), a flow that fills the link keeps more than its share for
/// long.
#[test]
fn one_target_for_all_rates_keeps_unequal_shares() {
    let paper = Parameters { simulator_law: false, target_loss: 0.1, ..Parameters::default() };
    let deviation = |parameters: &Parameters| {
        let flows = [(0, SimTime::from_micros(150)), (1, SimTime::from_micros(150))];
        let mut network = Network::new(2, &flows, parameters);
        network.request(0);
        network.run(10);
        network.request(1);
        network.run(30);
        let windows = (4..=13).map(|step| {
            let shares = network.run(10 * step);
            (shares[0] / (shares[0] + shares[1]) - 0.5).abs()
        });
        windows.sum::<f64>() / 10.0
    };
    let (simulator, paper) = (deviation(&Parameters::default()), deviation(&paper));
    assert!(simulator < 0.05 && paper > 2.0 * simulator, "{simulator:.3} {paper:.3}");
}

/// Ten flows have 1.2 credits per round trip each, 64 fewer than one: shares are even only over many round trips, and
/// the link is full.
#[test]
fn many_flows_fill_the_link() {
    for (flows, fairness) in [(10, 0.97), (64, 0.97), (250, 0.94)] {
        for hosts in [1, flows] {
            let shares = shares(hosts, flows, &Parameters::default(), [60, 160]);
            let total: f64 = shares.iter().sum();
            assert!(jain(&shares) > fairness && total > 0.97, "{flows}, {hosts}: {:.3} {total:.3}", jain(&shares));
            assert!(total < 1.003, "{flows}, {hosts}: {total:.4} of the credits");
        }
    }
}
