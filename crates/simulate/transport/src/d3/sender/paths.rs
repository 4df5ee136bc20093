//! Senders and ports when paths change.

use super::super::Router;
use super::*;
use crate::api::AckContent;
use proptest::prelude::*;

const ROUND_TRIP: SimTime = SimTime::from_micros(100);
/// A port's period in round trips: the shortest retransmission timeout of 10 ms.
const PERIOD: usize = 100;
/// The longest time of a flow without a grant for its path: half a period until a packet carries
/// its request, a timeout if that is lost, and a few round trips until all have sent another
/// request.
const LONGEST: usize = PERIOD / 2 + PERIOD + 5;

/// Flows over ports that are numbered by their index. All round trips are the same.
struct Network {
    now: SimTime,
    capacities: Vec<u64>,
    ports: Vec<Router>,
    flows: Vec<Flow>,
    /// By port, the round trips in a row in which its flows had grants above its capacity.
    over: Vec<usize>,
}

struct Flow {
    sender: Sender,
    /// The ports that it passes.
    path: Vec<usize>,
    /// How many ports its next request passes before it is lost.
    lost_after: Option<usize>,
    /// The ports that its last request passed, and when.
    asked: Vec<usize>,
    asked_at: SimTime,
}

impl Network {
    fn new(megabits: &[u64], flows: usize) -> Self {
        let connection = Connection {
            bytes: u64::MAX,
            payload: 1000,
            headers: 66,
            start: SimTime::ZERO,
            deadline: None,
            line_rate: Bandwidth::from_gbps(10),
            round_trip: Some(ROUND_TRIP),
            sprayed: false,
        };
        let sender = || Machine::new(&Parameters::default(), &connection);
        let flow =
            || Flow { sender: sender(), path: vec![0], lost_after: None, asked: vec![], asked_at: SimTime::ZERO };
        let rates = megabits.iter().map(|rate| Bandwidth::from_mbps(*rate));
        Self {
            now: SimTime::ZERO,
            capacities: megabits.iter().map(|rate| rate * 1_000_000).collect(),
            ports: (0..).zip(rates).map(|(port, rate)| Router::new(port, rate)).collect(),
            flows: std::iter::repeat_with(flow).take(flows).collect(),
            over: vec![0; megabits.len()],
        }
    }

    /// A round trip: each flow with a due request sends it.
    fn round(&mut self) {
        for flow in &mut self.flows {
            flow.sender.on_timer(self.now, false);
            let Some(segment) = flow.sender.poll(self.now).filter(|segment| segment.control) else { continue };
            let mut header: RateHeader = flow.sender.request(self.now);
            let lost_after = flow.lost_after.take();
            flow.asked = flow.path[..lost_after.unwrap_or(flow.path.len())].to_vec();
            flow.asked_at = self.now;
            for &port in &flow.asked {
                self.ports[port].on_request(self.now, &mut header);
            }
            if lost_after.is_some() {
                continue;
            }
            let next = segment.sequence + u64::from(segment.length);
            let content = AckContent { next, stamp: self.now, echo: false };
            flow.sender.on_control(self.now + ROUND_TRIP, &Box::new(header).into());
            flow.sender.on_ack(self.now + ROUND_TRIP, &Ack { content, sack: &[] });
        }
        for (port, router) in self.ports.iter().enumerate() {
            let lately = |flow: &&Flow| self.now <= flow.asked_at + Parameters::default().min_rto;
            let users = self.flows.iter().filter(lately).filter(|flow| flow.asked.contains(&port)).count() as u64;
            assert!(router.flows() >= users, "port {port} counts {} of {users} flows", router.flows());
        }
        self.now += ROUND_TRIP;
        for (port, (capacity, over)) in self.capacities.iter().zip(&mut self.over).enumerate() {
            let through = self.flows.iter().filter(|flow| flow.path.contains(&port));
            let granted: u64 = through.map(|flow| flow.sender.pacer.rate.bps()).sum();
            *over = if granted > *capacity { *over + 1 } else { 0 };
        }
    }

    /// Each flow's rate if each port divided its capacity evenly.
    fn fair(&self) -> Vec<u64> {
        let users = |port| self.flows.iter().filter(|flow| flow.path.contains(&port)).count() as u64;
        let share = |flow: &Flow| flow.path.iter().map(|&port| self.capacities[port] / users(port)).min();
        self.flows.iter().map(|flow| share(flow).expect("a path has ports")).collect()
    }

    fn granted(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.sender.pacer.rate.bps()).collect()
    }
}

/// The example of the documentation: four flows, two on each of two ports, then all on one, then as
/// before.
#[test]
fn two_ports_and_four_flows() {
    let mut network = Network::new(&[1000, 1000], 4);
    let mut go = |paths: [usize; 4], rounds| {
        for (flow, path) in network.flows.iter_mut().zip(paths) {
            flow.path = vec![path];
        }
        (0..rounds).for_each(|_| network.round());
        network.granted().iter().map(|rate| rate / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(go([0, 0, 1, 1], 3), [500; 4]);
    // The two that arrive get 0 and send another request.
    assert_eq!(go([1; 4], 1), [0, 0, 250, 250]);
    assert_eq!(go([1; 4], 1), [250; 4]);
    // Back at once: the first port still has them, the second one drops them.
    assert_eq!(go([0, 0, 1, 1], 1), [500, 500, 250, 250]);
    assert_eq!(go([0, 0, 1, 1], 2 * PERIOD + 2), [500; 4]);
}

/// A path of more ports than any topology has.
#[test]
fn every_port_of_a_long_path_grants() {
    let mut rates = vec![1000; 40];
    rates[39] = 300;
    let mut network = Network::new(&rates, 2);
    for flow in &mut network.flows {
        flow.path = (0..40).collect();
    }
    (0..3).for_each(|_| network.round());
    assert_eq!(network.granted(), [150_000_000; 2]);
}

/// The path of each flow, by the number of ports that its next request passes before it is lost, if
/// it is, and the number of round trips before the next change.
type Change = (usize, Vec<usize>, Option<usize>, usize);

const PORTS: usize = 5;

fn change() -> impl Strategy<Value = Change> {
    let ports: Vec<usize> = (0..PORTS).collect();
    let path = proptest::sample::subsequence(ports, 1..=PORTS).prop_shuffle();
    let rounds = prop_oneof![0usize..5, 0usize..60, 0usize..400];
    (0usize..8, path, proptest::option::weighted(0.2, 0usize..PORTS), rounds)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// For all changes of paths and losses of requests, each port counts all of its flows, and no
    /// port's grants exceed its capacity for longer than a round of requests takes; in the steady
    /// state each flow has exactly the least of its ports' equal shares.
    #[test]
    fn sums_belong_to_their_ports(
        rates in proptest::collection::vec(1u64..2000, PORTS),
        changes in proptest::collection::vec(change(), 1..20),
    ) {
        let mut network = Network::new(&rates, 8);
        for (number, path, lost_after, rounds) in changes {
            let flow = &mut network.flows[number];
            // Not the repetition of a lost one too: each waits twice as long as the one before.
            let decided = !matches!(flow.sender.pacer.requests, Requests::Sent(_));
            flow.lost_after = lost_after.filter(|_| decided).map(|ports| ports.min(path.len()));
            flow.path = path;
            network.over.fill(0);
            for _ in 0..rounds {
                network.round();
                prop_assert!(network.over.iter().all(|rounds| *rounds <= LONGEST), "{:?}", network.over);
            }
        }
        // After two periods the ports have dropped the old state; then all send another request.
        (0..LONGEST + 2 * PERIOD + LONGEST).for_each(|_| network.round());
        prop_assert_eq!(network.granted(), network.fair());
    }
}
