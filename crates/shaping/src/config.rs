//! [`ShaperConfig`]: a policy's machine shapers, the same in the simulator and on a host:
//! machine-level shares of services, bursts, intervals, senders' weights.
//!
//! A leaf of the service tree is enforced with the least maximum of itself and its ancestors, its
//! own guarantee, and the product of the weights along its path, each relative to its siblings.
//! While all siblings are backlogged that is the tree's own sharing; the share of an idle service
//! goes to all services, not first to its siblings, until the rack brokers allocate by the tree a
//! second later.
//!
//! Intervals are the published ones, which suit interfaces of 10 Gb/s, or longer in proportion to a slower slowest
//! interface: at 100 Mb/s T defaults to 20 ms. A packet takes 120 µs there, so T = 200 µs would contain one or two.
//!
//! Worked example: `vm` of weight 1 and `dfs` of weight 2 with two children of weight 1: 1, 1 and 1.

use crate::leaf::leaf_share;
use crate::parameters::{InterfaceParameters, ShaperParameters};
use weir_alloc::fill::{Child, Filling};
use weir_policy::{MachineSet, Policy, Share, Sharing};
use weir_units::{Bandwidth, Bytes, Direction, Duration, MachineId, PerDirection, Weight};

/// The shapers of a policy's machines.
#[derive(Debug, Clone, PartialEq)]
pub struct ShaperConfig {
    /// The constants.
    pub parameters: ShaperParameters,
    /// Rule by which services share an interface.
    pub sharing: Sharing,
    /// By leaf service, in the policy's order.
    pub services: Vec<ServiceShaper>,
    /// By machine: the capacity of its interface.
    pub capacities: Vec<PerDirection<Bandwidth>>,
    /// The law of the sending side's interface meter, which only EyeQ has.
    pub transmit: Option<InterfaceParameters>,
}

impl Default for ShaperConfig {
    /// No services and no machines.
    fn default() -> Self {
        Self {
            parameters: ShaperParameters::PARLEY,
            sharing: Sharing::default(),
            services: Vec::new(),
            capacities: Vec::new(),
            transmit: None,
        }
    }
}

/// A service's shaper, at any machine.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceShaper {
    /// T of its receive meters.
    pub interval: Duration,
    /// The burst of its root limiters and destination limiters.
    pub burst: Bytes,
    /// Its shares at a machine on which it runs.
    pub shares: PerDirection<Share>,
    /// The machines on which it runs; `None` for every machine.
    pub machines: Option<MachineSet>,
    /// Machines whose weight at the service's receivers is not 1.
    pub senders: Vec<(MachineId, Weight)>,
}

impl Default for ServiceShaper {
    /// Parley's constants and no limits.
    fn default() -> Self {
        let parameters = ShaperParameters::PARLEY;
        Self {
            interval: parameters.interval,
            burst: parameters.destination.burst,
            shares: PerDirection::default(),
            machines: None,
            senders: Vec::new(),
        }
    }
}

impl ServiceShaper {
    /// Its share at a machine: without a guarantee where it does not run.
    pub fn share_at(&self, machine: MachineId, direction: Direction) -> Share {
        let share = self.shares[direction];
        match &self.machines {
            Some(machines) if !machines.contains(machine) => Share { min: Bandwidth::ZERO, ..share },
            _ => share,
        }
    }
}

impl ShaperConfig {
    /// Parley's shapers under a policy; `interval` and `burst` apply to services without their own
    /// in the policy, `None` is Parley's (200 µs at 10 Gb/s, 64 kB).
    pub fn parley(policy: &Policy, interval: Option<Duration>, burst: Option<Bytes>) -> Self {
        Self::new(policy, ShaperParameters::PARLEY, None, interval, burst)
    }

    /// EyeQ's shapers: guarantees per endpoint (a service at a machine), with EyeQ's constants.
    pub fn eyeq(policy: &Policy, interval: Option<Duration>, burst: Option<Bytes>) -> Self {
        // EyeQ has weights and clips them, which is the rule `fill`.
        let sharing = Sharing::Fill;
        Self {
            sharing,
            ..Self::new(policy, ShaperParameters::EYEQ, Some(InterfaceParameters::EYEQ_TRANSMIT), interval, burst)
        }
    }

    fn new(
        policy: &Policy,
        parameters: ShaperParameters,
        transmit: Option<InterfaceParameters>,
        interval: Option<Duration>,
        burst: Option<Bytes>,
    ) -> Self {
        let parameters = scaled(parameters, policy);
        let services = policy.services().leaves().map(|(id, service)| {
            let share = |direction: Direction| leaf_share(policy, id, direction);
            ServiceShaper {
                interval: service.shaper().interval.or(interval).unwrap_or(parameters.interval),
                burst: service.shaper().burst.or(burst).unwrap_or(parameters.destination.burst),
                shares: PerDirection { tx: share(Direction::Tx), rx: share(Direction::Rx) },
                machines: service.machines().cloned(),
                senders: service.senders().to_vec(),
            }
        });
        let of_link = |machine: MachineId, direction: Direction, percent: u32| {
            let link = policy.network().machine(machine).nic()[direction];
            let part = Bandwidth::from_bps(
                u64::try_from(u128::from(link.bps()) * u128::from(percent) / 100).unwrap_or(u64::MAX),
            );
            part.min(policy.machine_capacity(machine, direction))
        };
        let capacity = |machine: u32| PerDirection {
            tx: of_link(MachineId(machine), Direction::Tx, transmit.map_or(100, |law| law.percent_of_link)),
            rx: of_link(MachineId(machine), Direction::Rx, parameters.interface.percent_of_link),
        };
        Self {
            parameters,
            sharing: policy.sharing(),
            services: services.collect(),
            capacities: (0..policy.network().machines().len() as u32).map(capacity).collect(),
            transmit,
        }
    }

    /// The constants of one service's shaper.
    pub fn of(&self, service: &ServiceShaper) -> ShaperParameters {
        let mut parameters = with_interval(self.parameters, service.interval);
        parameters.destination.burst = service.burst;
        parameters
    }

    /// A service's share, by weight alone, of a sending interface's capacity.
    fn part_by_weight(&self, weight: Weight, capacity: Bandwidth) -> Bandwidth {
        let all: u128 = self.services.iter().map(|service| u128::from(service.shares.tx.weight.thousandths())).sum();
        let part = u128::from(capacity.bps()) * u128::from(weight.thousandths()) / all.max(1);
        Bandwidth::from_bps(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// The services' committed rates at a machine's receiving interface, in the order of
    /// [`Self::services`]: their shares while all are backlogged, or their maxima if the interface
    /// has no capacity.
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn committed_rates(&self, machine: MachineId) -> Vec<Bandwidth> {
        let child =
            |service: &ServiceShaper| Child::new(service.share_at(machine, Direction::Rx), Bandwidth::UNLIMITED);
        let children: Vec<Child> = self.services.iter().map(child).collect();
        let mut filling = Filling::default();
        filling.fill(self.sharing, self.capacities[machine.index()].rx, &children);
        filling.shares
    }

    /// The constants of the meter of a machine's interface; `None` if the shapers have none, as Parley's on the
    /// sending side.
    pub fn interface_parameters(&self, direction: Direction) -> Option<ShaperParameters> {
        let law = match direction {
            Direction::Rx => self.parameters.interface,
            Direction::Tx => self.transmit?,
        };
        Some(ShaperParameters { interface: law, ..self.parameters })
    }

    /// The share of the `service`-th service at a machine's interface that has this `capacity` now.
    pub fn share_of(&self, service: usize, machine: MachineId, direction: Direction, capacity: Bandwidth) -> Share {
        let share = self.services[service].share_at(machine, direction);
        match direction {
            Direction::Rx => share,
            // EyeQ's classes may always send their share by weight.
            Direction::Tx => {
                let min = share.min.max(self.part_by_weight(share.weight, capacity)).min(share.max);
                Share { min, ..share }
            }
        }
    }
}

/// The rate for which the published intervals are meant: Parley's and EyeQ's hosts have 10 Gb/s.
const PUBLISHED_RATE: Bandwidth = Bandwidth::from_gbps(10);

/// Constants for the slowest interface of a policy: an interval must contain as many packets as in
/// the published networks. Faster networks keep the published intervals.
fn scaled(mut parameters: ShaperParameters, policy: &Policy) -> ShaperParameters {
    let slowest = policy.network().machines().iter().map(|machine| machine.nic().rx).min().unwrap_or(PUBLISHED_RATE);
    let longer = |time: Duration| {
        let nanos = u128::from(time.nanos()) * u128::from(PUBLISHED_RATE.bps()) / u128::from(slowest.bps().max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).max(time)
    };
    parameters.interface.interval = longer(parameters.interface.interval);
    parameters.destination.hold = longer(parameters.destination.hold);
    with_interval(parameters, longer(parameters.interval))
}

/// The same constants with another T; the mean time between feedback packets and the time until a
/// feedback request scale with it.
fn with_interval(mut parameters: ShaperParameters, interval: Duration) -> ShaperParameters {
    let scaled = |time: Duration| {
        let nanos =
            u128::from(time.nanos()) * u128::from(interval.nanos()) / u128::from(parameters.interval.nanos().max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    parameters.feedback_interval = scaled(parameters.feedback_interval);
    parameters.destination.request_after = scaled(parameters.destination.request_after);
    parameters.interval = interval;
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(nic: &str, services: &str, caps: &str) -> Policy {
        let text = format!(
            "weir: 1\nnetwork:\n  nic: {nic}\n  racks:\n    r: {{ uplink: 40Gb/s, machines: [m1, m2, m3] }}\n\
             services:\n{services}{caps}"
        );
        match Policy::parse("p.yaml", &text) {
            Ok((policy, _)) => policy,
            Err(errors) => panic!("{errors}"),
        }
    }

    const SERVICES: &str =
        "  vm: { match: [ { port: 1 } ], machine: { max: 3Gb/s }, shaper: { interval: 1ms, burst: 9kB } }
  dfs:
    machine: { weight: 2, min: 1Gb/s, max: 8Gb/s }
    services:
      hbase: { match: [ { port: 2 } ], machine: { min: 1Gb/s }, senders: { m2: 2 } }
      other: { match: [ { port: 3 } ] }
";

    #[test]
    fn policy_yields_shares_of_leaves() {
        let policy = policy("10Gb/s", SERVICES, "caps: { machine: { rx: 9.5Gb/s } }\n");
        let config = ShaperConfig::parley(&policy, None, Some(Bytes::new(30_000)));
        let of = |path: &str| {
            let index = policy.services().leaves().position(|(_, service)| service.path() == path);
            &config.services[index.expect("a leaf")]
        };
        let (vm, hbase, other) = (of("vm"), of("dfs/hbase"), of("dfs/other"));
        for service in [vm, hbase, other] {
            assert_eq!(service.shares.rx.weight, Weight::ONE);
        }
        assert_eq!((vm.interval, vm.burst), (Duration::from_millis(1), Bytes::new(9_000)));
        assert_eq!((other.interval, other.burst), (Duration::from_micros(200), Bytes::new(30_000)));
        assert_eq!((hbase.shares.tx.min, hbase.shares.tx.max), (Bandwidth::from_gbps(1), Bandwidth::from_gbps(8)));
        assert_eq!(vm.shares.rx.max, Bandwidth::from_gbps(3));
        assert_eq!(hbase.senders, [(MachineId(1), "2".parse().expect("a weight"))]);
        // The machine's cap; EyeQ's share of the link where that is less.
        let eyeq = ShaperConfig::eyeq(&policy, None, None);
        let capacities = |config: &ShaperConfig| (config.capacities[2].tx.bps(), config.capacities[2].rx.bps());
        assert_eq!(capacities(&config), (10_000_000_000, 9_500_000_000));
        assert_eq!(capacities(&eyeq), (9_800_000_000, 9_000_000_000));
    }

    #[test]
    fn committed_rates_sum_to_the_capacity() {
        // dfs/hbase, dfs/other, vm share 9.5 Gb/s. One is guaranteed 1 Gb/s, 8.5 remain for three.
        let policy = policy("10Gb/s", SERVICES, "");
        let config = ShaperConfig::parley(&policy, None, None);
        let committed = |config: &ShaperConfig| -> Vec<u64> {
            config.committed_rates(MachineId(0)).iter().map(|rate| rate.bps() / 1_000_000).collect()
        };
        assert_eq!(committed(&config), [3833, 2833, 2833]);
        let mut unlimited = config;
        unlimited.capacities[0].rx = Bandwidth::UNLIMITED;
        assert_eq!(committed(&unlimited), [8000, 8000, 3000]);
    }

    #[test]
    fn receive_capacity_is_95_percent_of_the_link_or_the_cap() {
        for (caps, expected) in [("", 9_500_000_000), ("caps: { machine: { rx: 7Gb/s } }\n", 7_000_000_000)] {
            let policy = policy("10Gb/s", "  s: { match: [ { port: 1 } ] }\n", caps);
            assert_eq!(ShaperConfig::parley(&policy, None, None).capacities[0].rx.bps(), expected, "{caps}");
        }
    }

    #[test]
    fn intervals_are_longer_on_slow_interfaces() {
        let parameters = |nic: &str, interval: Option<Duration>| {
            let config = ShaperConfig::parley(&policy(nic, "  s: { match: [ { port: 1 } ] }\n", ""), interval, None);
            config.of(&config.services[0])
        };
        let (slow, fast) = (parameters("100Mb/s", None), parameters("40Gb/s", None));
        assert_eq!((slow.interval, slow.interface.interval), (Duration::from_millis(20), Duration::from_millis(100)));
        assert_eq!((slow.feedback_interval, slow.destination.request_after.nanos()), (slow.interval, 50_000_000));
        assert_eq!((fast.interval, fast.interface.interval), (Duration::from_micros(200), Duration::from_millis(1)));
        let explicit = parameters("100Mb/s", Some(Duration::from_millis(1)));
        assert_eq!(
            (explicit.interval, explicit.feedback_interval),
            (Duration::from_millis(1), Duration::from_millis(1))
        );
    }
}
