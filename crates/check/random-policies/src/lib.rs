//! Random policies with traffic, for tests that compare what services get with what they are due.
//!
//! Problem: the promise is that services get their shares in `weir allocate`. A test of hand-written
//! policies covers what its author thought of. Approach: draw networks, trees of services, shares
//! at all three points and traffic from a seed; the due rates are those of [`weir_alloc`]. A failed
//! test prints the seed, which draws the same again.
//!
//! A drawn policy constrains one direction: the one in which traffic leaves or reaches the drawn
//! machines. The other ends are machines of a rack of their own ([`FAR`]), with interfaces and an
//! uplink that nothing fills, so that each flow meets the drawn constraints and no others.
//!
//! Rates are drawn as parts of the capacities that they apply to. Guarantees that admission control
//! refuses are drawn again.
//!
//! Worked example: `draw(1)` is always the same policy of one to three racks with 3 to 12 machines
//! at 50 Mb/s.

mod services;
mod traffic;

pub use traffic::{Amount, Load};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use services::DrawnService;
use std::fmt::Write as _;
use std::sync::Arc;
use weir_policy::Policy;
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, ServiceId};

/// The rack of the traffic's other ends.
pub const FAR: &str = "far";

/// The machines of the far rack.
pub const FAR_MACHINES: usize = 2;

/// The rate of the drawn machines' interfaces in kb/s: fast enough for hundreds of packets in a
/// tenth of a second, slow enough to simulate a minute in seconds.
pub const NIC_KBPS: u64 = 50_000;

/// The most machines that are drawn beside the far ones.
pub(crate) const MOST_MACHINES: usize = 12;

/// The rate of the far machines' interfaces and uplink in kb/s, beyond all drawn uplinks together.
const FAR_KBPS: u64 = 10_000_000;

/// A drawn policy and its traffic.
#[derive(Debug, Clone)]
pub struct RandomPolicy {
    /// The seed that draws it.
    pub seed: u64,
    /// The constrained direction, as seen from the drawn machines.
    pub direction: Direction,
    /// The policy file.
    pub text: String,
    /// The same, read.
    pub policy: Arc<Policy>,
    /// The traffic: at most one load for each service and drawn machine.
    pub loads: Vec<Load>,
}

/// The drawn network.
struct Network {
    /// By rack: the uplink in kb/s and the number of machines.
    racks: Vec<(u64, usize)>,
}

impl Network {
    fn draw(rng: &mut StdRng) -> Self {
        let racks = rng.random_range(1..=3);
        let machines = rng.random_range(3.max(racks)..=MOST_MACHINES);
        let mut sizes = vec![1; racks];
        for _ in racks..machines {
            sizes[rng.random_range(0..racks)] += 1;
        }
        let uplink = |rng: &mut StdRng, machines: usize| machines as u64 * NIC_KBPS * rng.random_range(30..=100) / 100;
        Self { racks: sizes.into_iter().map(|machines| (uplink(rng, machines), machines)).collect() }
    }

    fn least_uplink(&self) -> u64 {
        self.racks.iter().map(|(uplink, _)| *uplink).min().unwrap_or(NIC_KBPS)
    }

    fn all_uplinks(&self) -> u64 {
        self.racks.iter().map(|(uplink, _)| *uplink).sum()
    }

    /// The capacity that a service's shares at a point are parts of, in kb/s.
    fn capacity(&self, point: ContentionPoint) -> u64 {
        match point {
            ContentionPoint::Machine => NIC_KBPS,
            ContentionPoint::Rack => self.least_uplink(),
            ContentionPoint::Fabric => self.all_uplinks(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("network:\n  nic: {NIC_KBPS}kb/s\n  racks:\n");
        for (r, (uplink, machines)) in self.racks.iter().enumerate() {
            let _ = writeln!(text, "    r{r}: {{ uplink: {uplink}kb/s, machines: [\"r{r}m[1-{machines}]\"] }}");
        }
        let _ = writeln!(text, "    {FAR}: {{ uplink: {FAR_KBPS}kb/s, machines: [\"{FAR}[1-{FAR_MACHINES}]\"] }}");
        text.push_str("  machines:\n");
        for m in 1..=FAR_MACHINES {
            let _ = writeln!(text, "    {FAR}{m}: {{ nic: {FAR_KBPS}kb/s }}");
        }
        text
    }
}

/// The policy and traffic of a seed.
pub fn draw(seed: u64) -> RandomPolicy {
    draw_at(seed, &ContentionPoint::ALL)
}

/// The same without shares and caps at the fabric, for networks without a fabric broker.
pub fn draw_without_fabric(seed: u64) -> RandomPolicy {
    draw_at(seed, &[ContentionPoint::Machine, ContentionPoint::Rack])
}

/// The same with shares and caps at machines alone.
pub fn draw_for_machines(seed: u64) -> RandomPolicy {
    draw_at(seed, &[ContentionPoint::Machine])
}

/// Draws shares and caps at all points, and writes those at `points`.
fn draw_at(seed: u64, points: &[ContentionPoint]) -> RandomPolicy {
    let mut rng = StdRng::seed_from_u64(seed);
    loop {
        let direction = if rng.random_bool(0.5) { Direction::Tx } else { Direction::Rx };
        let network = Network::draw(&mut rng);
        let services = DrawnService::draw_all(&mut rng, &network);
        let text = text(&mut rng, (direction, points), &network, &services);
        let Ok((policy, _)) = Policy::parse("drawn.yaml", &text) else { continue };
        let policy = Arc::new(policy);
        let loads = traffic::draw(&mut rng, &policy);
        return RandomPolicy { seed, direction, text, policy, loads };
    }
}

fn text(
    rng: &mut StdRng,
    (direction, points): (Direction, &[ContentionPoint]),
    network: &Network,
    services: &[DrawnService],
) -> String {
    let rule = if rng.random_bool(0.5) { "add" } else { "fill" };
    let mut text = format!("weir: 1\nsharing: {rule}\n{}services:\n", network.text());
    let mut port = 7000;
    for (i, service) in services.iter().enumerate() {
        service.write(&mut text, &format!("s{i}"), 1, (direction, points), &mut port);
    }
    // The paper's cap is three quarters of the uplink.
    let caps = [
        (ContentionPoint::Machine, 0.2, 50..=95, NIC_KBPS),
        (ContentionPoint::Rack, 0.7, 40..=90, network.least_uplink()),
        (ContentionPoint::Fabric, 0.3, 30..=90, network.all_uplinks()),
    ];
    let mut drawn = String::new();
    for (point, probability, percent, capacity) in caps {
        if rng.random_bool(probability) {
            let cap = capacity * rng.random_range(percent) / 100;
            if !points.contains(&point) {
                continue;
            }
            let _ = writeln!(drawn, "  {point}: {{ {direction}: {cap}kb/s }}");
        }
    }
    if !drawn.is_empty() {
        let _ = write!(text, "caps:\n{drawn}");
    }
    text
}

impl RandomPolicy {
    /// The due rates of the loads, in their order. `far` is the usage of the far machines' replies
    /// in the constrained direction, such as acknowledgements.
    pub fn due(&self, far: impl Fn(MachineId, ServiceId) -> Bandwidth) -> Vec<Bandwidth> {
        let demand = |machine: MachineId, service: ServiceId, direction: Direction| {
            let load = self.loads.iter().find(|load| (load.machine, load.service) == (machine, service));
            match load {
                _ if direction != self.direction => Bandwidth::ZERO,
                Some(load) => load.amount.demand(),
                None if self.is_far(machine) => far(machine, service),
                None => Bandwidth::ZERO,
            }
        };
        let shares = weir_alloc::allocate(&self.policy, demand);
        let due = |load: &Load| {
            let own = |a: &&weir_alloc::Allocation| {
                (a.machine, a.service, a.direction) == (load.machine, load.service, self.direction)
            };
            shares.allocations.iter().find(own).map_or(Bandwidth::ZERO, |a| a.allocation)
        };
        self.loads.iter().map(due).collect()
    }

    /// The loads as a scenario's `traffic`, one line each.
    pub fn traffic(&self) -> String {
        let mut text = String::new();
        for load in &self.loads {
            let own = self.policy.network().machine(load.machine).name();
            let (from, to) = match self.direction {
                Direction::Tx => (own, load.far.as_str()),
                Direction::Rx => (load.far.as_str(), own),
            };
            let service = self.policy.services().get(load.service).path();
            let amount = match load.amount {
                Amount::Backlogged { flows } => format!("flows: {flows}"),
                Amount::Constant(rate) => format!("transport: {{ protocol: udp, rate: {}b/s }}", rate.bps()),
            };
            let _ = writeln!(text, "  - {{ service: {service}, from: {from}, to: {to}, {amount} }}");
        }
        text
    }

    /// Whether a machine is one of the traffic's other ends.
    pub fn is_far(&self, machine: MachineId) -> bool {
        self.policy.network().machine(machine).name().starts_with(FAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_again() {
        let (a, b) = (draw(7), draw(7));
        assert_eq!((&a.text, &a.loads), (&b.text, &b.loads));
        assert_ne!(draw(8).text, b.text);
    }

    #[test]
    fn without_the_fabric_nothing_limits_it() {
        let limits_fabric = |drawn: &RandomPolicy| weir_alloc::has_fabric_limits(&drawn.policy);
        assert!((0..60).map(draw).filter(limits_fabric).count() > 30);
        assert!(!(0..60).map(draw_without_fabric).any(|drawn| limits_fabric(&drawn)));
    }

    #[test]
    fn draws_cover_directions_rules_points_nesting_and_both_kinds_of_traffic() {
        let drawn: Vec<RandomPolicy> = (0..60).map(draw).collect();
        for text in ["tx:", "rx:", "sharing: add", "sharing: fill", "machine:", "rack:", "fabric:", "services:\n   "] {
            assert!(drawn.iter().filter(|drawn| drawn.text.contains(text)).count() > 5, "{text}");
        }
        let loads = || drawn.iter().flat_map(|drawn| &drawn.loads);
        assert!(loads().any(|load| matches!(load.amount, Amount::Backlogged { .. })));
        assert!(loads().any(|load| matches!(load.amount, Amount::Constant(_))));
        // Most of the due rates are below their demands: the policies constrain something.
        let due: Vec<(Bandwidth, Bandwidth)> = drawn
            .iter()
            .flat_map(|drawn| {
                drawn.loads.iter().map(|load| load.amount.demand()).zip(drawn.due(|_, _| Bandwidth::ZERO))
            })
            .collect();
        assert!(due.iter().filter(|(demand, due)| due < demand).count() * 2 > due.len());
    }
}
