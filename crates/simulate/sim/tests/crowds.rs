//! Crowds of senders to two services that both fill one interface: the shares that the receiver's
//! shapers give them.
//!
//! Senders start within a packet's time of each other, and with less than two packets in flight,
//! the senders that meet a retransmission timeout of 200 ms are random. So each pair of crowds runs
//! with eight seeds (in `make test` with two), and is measured twice: in the second that begins 200
//! ms after the newcomers start, and in one that begins 1.4 s after they do, when no sender waits
//! for a timer any more.
//!
//! In the first of these seconds it is rare, but not impossible, that all senders of a service lose the
//! packets after their first timeout, too, and wait for another: `WEIR_SEEDS=150` finds such seeds.

use crate::support::shaped::{MARK, flow, parley, rates};
use crate::support::{SIZES, queued};
use weir_network::graph::{Discipline, QueueSpec};
use weir_policy::Share;
use weir_sim::checkers::Checkers;
use weir_sim::{FlowId, FlowSpec, HostId, ServiceIndex, SimTime, World};
use weir_transport::Parameters;
use weir_units::{Bandwidth, Bytes, Duration};

/// Two crowds of one service each.
#[derive(Clone, Copy)]
struct Crowds {
    guarantees: [u64; 2],
    senders: [u32; 2],
    flows: u32,
    /// Their shares of 9.5 Gb/s by the sharing rule.
    due: [f64; 2],
    /// Services that have nothing to send.
    idle: usize,
}

const fn crowds(guarantees: [u64; 2], senders: [u32; 2], flows: u32, due: [f64; 2]) -> Crowds {
    Crowds { guarantees, senders, flows, due, idle: 0 }
}

const fn beside_idle(idle: usize, crowds: Crowds) -> Crowds {
    Crowds { idle, ..crowds }
}

const HALVES: [f64; 2] = [4.75, 4.75];
const WITHOUT_GUARANTEES: [Crowds; 3] =
    [crowds([0, 0], [3, 3], 1, HALVES), crowds([0, 0], [1, 20], 1, HALVES), crowds([0, 0], [10, 20], 1, HALVES)];
const IDLE: [Crowds; 5] = [
    beside_idle(1, crowds([0, 0], [3, 3], 1, HALVES)),
    beside_idle(8, crowds([0, 0], [3, 3], 1, HALVES)),
    beside_idle(8, crowds([0, 0], [1, 20], 1, HALVES)),
    beside_idle(8, crowds([4, 0], [3, 3], 1, HALVES)),
    beside_idle(8, crowds([8, 1], [1, 20], 1, [8.0, 1.5])),
];
const EVEN: [Crowds; 4] = [
    crowds([4, 4], [3, 3], 1, HALVES),
    crowds([5, 5], [1, 20], 1, HALVES),
    crowds([5, 5], [1, 20], 3, HALVES),
    crowds([5, 5], [10, 20], 1, HALVES),
];
const UNEVEN: [Crowds; 5] = [
    crowds([5, 0], [3, 20], 1, [5.0, 4.5]),
    crowds([8, 0], [1, 20], 1, [8.0, 1.5]),
    crowds([8, 1], [1, 20], 1, [8.0, 1.5]),
    crowds([8, 1], [10, 1], 1, [8.0, 1.5]),
    crowds([8, 1], [10, 20], 1, [8.0, 1.5]),
];

/// The delivered rates of `a` and `b` at one interface between these times in ms, in Gb/s. `b`
/// sends from the start, `a` from 400 ms on; each of their senders has a machine of its own, and
/// `b`'s send `flows` flows each. `seed` makes starts differ by less than a packet.
fn beside<const N: usize>(crowds: Crowds, windows: [[u64; 2]; N], seed: u64) -> [[f64; 2]; N] {
    let Crowds { guarantees, senders, flows, idle, .. } = crowds;
    let mut world = World::new(2 + idle, SIZES, Checkers::default());
    let switch = world.add_switch();
    let queue = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(1_000_000), mark: Some(MARK) };
    let edge = queued(Bandwidth::from_gbps(10), Duration::from_micros(2), queue);
    let hosts: Vec<HostId> = (0..=senders[0] + senders[1]).map(|_| world.add_host(switch, edge, edge)).collect();
    world.compute_routes();
    world.set_jitter(SimTime::from_nanos(1212), seed);
    let shares = guarantees.map(|gbps| Share { min: Bandwidth::from_gbps(gbps), ..Share::default() });
    let shares = [&shares[..], &vec![Share::default(); idle]].concat();
    world.set_shapers(parley(hosts.len(), &shares));
    let cubic = Parameters::Cubic(Default::default());
    let mut of = [Vec::new(), Vec::new()];
    let mut from = hosts[1..].iter();
    for (service, count, start) in [(0, 1, SimTime::from_millis(400)), (1, flows, SimTime::ZERO)] {
        for &sender in from.by_ref().take(senders[service] as usize) {
            for number in 0..count {
                let spec = FlowSpec { service: ServiceIndex(service as u16), start, ..flow(sender, hosts[0], number) };
                of[service].push(world.add_flow(spec, &cubic));
            }
        }
    }
    let all: Vec<FlowId> = of.iter().flatten().copied().collect();
    windows.map(|[from, to]| {
        let rates = rates(&mut world, &all, SimTime::from_millis(from), SimTime::from_millis(to));
        let (a, b) = rates.split_at(of[0].len());
        [a, b].map(|rates| rates.iter().sum::<f64>() / 1000.0)
    })
}

/// Guarantees of 5 Gb/s each, one seed, in the 300 ms that begin 200 ms after the start of `a`.
fn share_an_interface(senders: [u32; 2], flows: u32) {
    let [[a, b]] = beside(crowds([5, 5], senders, flows, HALVES), [[600, 900]], 1);
    assert!(a > 4.0 && b > 3.5 && a + b > 8.0, "{senders:?} senders: {a:.2} and {b:.2}");
}

/// Two crowds at one interface: neither starves, and little is left unused (see
/// `datapath/interface_meter.h`).
#[test]
fn crowds_share_an_interface() {
    share_an_interface([1, 20], 1);
    share_an_interface([1, 20], 3);
    share_an_interface([10, 20], 1);
}

/// A service with a guarantee of 8 Gb/s gets it from a crowd with a guarantee of 1.
#[test]
fn a_guarantee_is_kept_beside_a_crowd() {
    for senders in [[10, 20], [1, 20], [10, 1]] {
        let [[a, b]] = beside(crowds([8, 1], senders, 1, [8.0, 1.5]), [[600, 900]], 1);
        assert!(a > 6.0 && b > 0.95, "{senders:?} senders: {a:.2} and {b:.2}");
    }
}

/// How many seeds a pair of crowds runs with: two in `make test`, else eight, or `WEIR_SEEDS`.
fn seeds() -> u64 {
    if std::env::var_os("WEIR_QUICK").is_some() {
        return 2;
    }
    std::env::var("WEIR_SEEDS").map_or(8, |seeds| seeds.parse().expect("a number of seeds"))
}

/// Prints the rates of some seeds of each pair of crowds in both seconds, and checks them against
/// the sharing rule.
fn table(cases: &[Crowds]) {
    for &crowds in cases {
        let Crowds { guarantees, senders, flows, due, idle } = crowds;
        let case = format!("guarantees {guarantees:?}, senders {senders:?}, flows {flows}, {idle} idle");
        let runs: Vec<_> = (1..=seeds()).map(|seed| beside(crowds, [[600, 1600], [1800, 2800]], seed)).collect();
        for (second, mean_part, least_part) in [(0, 0.98, 0.9), (1, 0.98, 0.95)] {
            let of = |service: usize| {
                let each: Vec<f64> = runs.iter().map(|run| run[second][service]).collect();
                let text: Vec<String> = each.iter().map(|rate| format!("{rate:.2}")).collect();
                let (mean, due) = (each.iter().sum::<f64>() / each.len() as f64, due[service]);
                let text = format!("{mean:.2} of {due:.2} Gb/s ({})", text.join(" "));
                println!("{case}, second {}, service {}: {text}", second + 1, ["a", "b"][service]);
                assert!(mean > mean_part * due, "{case}: {text}");
                assert!(each.iter().all(|&rate| rate > least_part * due), "{case}: {text}");
                mean
            };
            let (a, b) = (of(0), of(1));
            assert!(a + b > 0.93 * 9.5, "{case}: {a:.2} and {b:.2}");
        }
    }
}

#[test]
fn crowds_without_guarantees_share_evenly() {
    table(&WITHOUT_GUARANTEES);
}

#[test]
fn crowds_share_beside_idle_services() {
    table(&IDLE);
}

#[test]
fn crowds_with_guarantees_of_half_share_evenly() {
    table(&EVEN);
}

#[test]
fn crowds_get_their_guarantees() {
    table(&UNEVEN);
}
