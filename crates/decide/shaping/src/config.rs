//! [`ShaperConfig`]: a policy's machine shapers, the same in the simulator and on a host:
//! shares of services at machines ([`MachinePlan`]), bursts, intervals, senders' weights.
//!
//! Intervals are the published ones, which suit interfaces of 10 Gb/s, or longer in proportion to a slower slowest
//! interface: at 100 Mb/s T defaults to 20 ms. A packet takes 120 µs there, so T = 200 µs would contain one or two.
//!
//! Worked example: a service of an interface of 1 Gb/s has T = 2 ms, or 1 ms with `shaper: { interval: 1ms }`.

use crate::machine::{LeafShare, MachinePlan, Shape};
use crate::parameters::{InterfaceParameters, Marks, ShaperParameters};
use std::collections::HashMap;
use std::sync::Arc;
use weir_policy::{MachineSet, Place, Policy, Share, Sharing};
use weir_units::{Bandwidth, Bytes, Direction, Duration, MachineId, PerDirection, ServiceId, Weight};

/// The properties of a machine that decide its plan: its capacities, and for each service that runs on some machines
/// only whether it runs there, with its guarantee and weight.
type PlanKey = (PerDirection<Bandwidth>, Vec<(bool, Bandwidth, Weight)>);

/// The shapers of a policy's machines.
#[derive(Debug, Clone, PartialEq)]
pub struct ShaperConfig {
    /// The constants.
    pub parameters: ShaperParameters,
    /// Rule by which services share an interface.
    pub sharing: Sharing,
    /// By leaf service, in the policy's order.
    pub services: Vec<ServiceShaper>,
    /// By machine: the capacity of its interface and the services' shares of it, in the order of `services`.
    pub machines: Vec<Arc<MachinePlan>>,
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
            machines: Vec::new(),
            transmit: None,
        }
    }
}

/// A service's shaper, at any machine.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceShaper {
    /// T of its receive meters.
    pub interval: Duration,
    /// The burst of its destination limiters. A root limiter has a millisecond at its rate, or some frames.
    pub burst: Bytes,
    /// Machines whose weight at the service's receivers is not 1.
    pub senders: Vec<(MachineId, Weight)>,
    /// The effect of marks on its receive meters, if it is not that of the constants.
    pub marks: Option<Marks>,
}

impl Default for ServiceShaper {
    /// Parley's constants and no limits.
    fn default() -> Self {
        let parameters = ShaperParameters::PARLEY;
        Self { interval: parameters.interval, burst: parameters.destination.burst, senders: Vec::new(), marks: None }
    }
}

impl ShaperConfig {
    /// Parley's shapers under a policy; `interval` and `burst` apply to services without their own
    /// in the policy, `None` is Parley's (200 µs at 10 Gb/s, 64 kB).
    pub fn parley(policy: &Policy, interval: Option<Duration>, burst: Option<Bytes>) -> Self {
        Self::new(policy, ShaperParameters::PARLEY, (policy.sharing(), Shape::Tree), None, interval, burst)
    }

    /// Parley's shapers beside the queues of a policy's tenants; without placed tenants those of [`Self::parley`].
    ///
    /// Parley's law takes marks as congestion for which all senders of a service are responsible, whatever its
    /// share is. A tenant with a reservation has a part of each link by the weight of its queue: one that fills a
    /// queue of its own marks all of its packets, and would be throttled below its part. The receive meters of placed
    /// tenants therefore ignore marks; in the shared queue [`SharedQueueLimit`](crate::SharedQueueLimit) heeds them,
    /// down to the reservation. All other services heed marks as always: they are in the shared queue, and nothing else
    /// makes them yield there. The interface meter lowers all services alike, so it ignores marks, which the queue of
    /// one tenant can cause.
    pub fn qshare(policy: &Policy, interval: Option<Duration>, burst: Option<Bytes>) -> Self {
        let mut config = Self::parley(policy, interval, burst);
        let placed = placed_tenants(policy);
        if placed.is_empty() {
            return config;
        }
        config.parameters.interface.marks = Marks::Ignored;
        for ((id, _), service) in policy.services().leaves().zip(&mut config.services) {
            if placed.contains(&id) {
                service.marks = Some(Marks::Ignored);
            }
        }
        config
    }

    /// EyeQ's shapers: guarantees per endpoint (a service at a machine), with EyeQ's constants.
    pub fn eyeq(policy: &Policy, interval: Option<Duration>, burst: Option<Bytes>) -> Self {
        // EyeQ has weights and clips them, which is the rule `fill`.
        let rule = (Sharing::Fill, Shape::List);
        Self::new(policy, ShaperParameters::EYEQ, rule, Some(InterfaceParameters::EYEQ_TRANSMIT), interval, burst)
    }

    fn new(
        policy: &Policy,
        parameters: ShaperParameters,
        (sharing, shape): (Sharing, Shape),
        transmit: Option<InterfaceParameters>,
        interval: Option<Duration>,
        burst: Option<Bytes>,
    ) -> Self {
        let parameters = scaled(parameters, policy);
        let services = policy.services().leaves().map(|(_, service)| ServiceShaper {
            interval: service.shaper().interval.or(interval).unwrap_or(parameters.interval),
            burst: service.shaper().burst.or(burst).unwrap_or(parameters.destination.burst),
            senders: service.senders().to_vec(),
            marks: None,
        });
        let of_link = |machine: MachineId, direction: Direction, percent: u32| {
            let link = policy.network().machine(machine).nic()[direction];
            let part = Bandwidth::from_bps(
                u64::try_from(u128::from(link.bps()) * u128::from(percent) / 100).unwrap_or(u64::MAX),
            );
            part.min(policy.machine_capacity(machine, direction))
        };
        let capacities = |machine: MachineId| PerDirection {
            tx: of_link(machine, Direction::Tx, transmit.map_or(100, |law| law.percent_of_link)),
            rx: of_link(machine, Direction::Rx, parameters.interface.percent_of_link),
        };
        // Machines with the same capacities and services have the same plan.
        let mut plans: HashMap<PlanKey, Arc<MachinePlan>> = HashMap::new();
        let placed: Vec<_> = policy.services().iter().filter(|(_, service)| service.machines().is_some()).collect();
        let plan = |machine: MachineId| {
            let capacities = capacities(machine);
            let place = Place::Machine(machine);
            let runs = placed.iter().map(|(id, _)| {
                let share = policy.share_at(*id, place, Direction::Tx);
                (policy.runs_at(*id, place), share.min, share.weight)
            });
            let new = || Arc::new(MachinePlan::with(policy, machine, capacities, sharing, shape));
            Arc::clone(plans.entry((capacities, runs.collect())).or_insert_with(new))
        };
        let machines = (0..policy.network().machines().len() as u32).map(MachineId).map(plan).collect();
        Self { parameters, sharing, services: services.collect(), machines, transmit }
    }

    /// The constants of one service's shaper.
    pub fn of(&self, service: &ServiceShaper) -> ShaperParameters {
        let mut parameters = with_interval(self.parameters, service.interval);
        parameters.destination.burst = service.burst;
        parameters.marks = service.marks.unwrap_or(parameters.marks);
        parameters
    }

    /// The capacity of a machine's interface.
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn capacity(&self, machine: MachineId, direction: Direction) -> Bandwidth {
        self.machines[machine.index()].capacities[direction]
    }

    /// The shares of a machine's interface, in the order of [`Self::services`].
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn shares(&self, machine: MachineId, direction: Direction) -> impl Iterator<Item = &LeafShare> + Clone {
        self.machines[machine.index()].leaves.iter().map(move |leaf| &leaf.shares[direction])
    }

    /// The share of the `service`-th service at a machine's interface.
    ///
    /// # Panics
    /// If there is no such machine or service.
    #[inline]
    pub fn leaf_share(&self, service: usize, machine: MachineId, direction: Direction) -> &LeafShare {
        &self.machines[machine.index()].leaves[service].shares[direction]
    }

    /// A service's share, by weight alone, of a machine's sending interface of this capacity.
    fn part_by_weight(&self, machine: MachineId, weight: Weight, capacity: Bandwidth) -> Bandwidth {
        let weights = self.shares(machine, Direction::Tx).map(|leaf| u128::from(leaf.share.weight.thousandths()));
        let part = u128::from(capacity.bps()) * u128::from(weight.thousandths()) / weights.sum::<u128>().max(1);
        Bandwidth::from_bps(u64::try_from(part).unwrap_or(u64::MAX))
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
        let share = self.leaf_share(service, machine, direction).enforced();
        match direction {
            Direction::Rx => share,
            // EyeQ's classes may always send their share by weight.
            Direction::Tx => {
                let min = share.min.max(self.part_by_weight(machine, share.weight, capacity)).min(share.max);
                Share { min, ..share }
            }
        }
    }
}

/// The services of tenants that have a reservation at some machine.
fn placed_tenants(policy: &Policy) -> Vec<ServiceId> {
    let reserves = |service: &ServiceId| {
        let ranges = policy.services().get(*service).machines().map_or(&[][..], MachineSet::ranges);
        let mut machines = ranges.iter().cloned().flatten().map(|id| Place::Machine(MachineId(id)));
        machines.any(|place| policy.share_at(*service, place, Direction::Rx).min > Bandwidth::ZERO)
    };
    policy.tenants().iter().map(|tenant| tenant.service).filter(reserves).collect()
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
             \x20 slots: 4\nservices:\n{services}{caps}"
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
        let share = |path: &str, direction: Direction| {
            let index = policy.services().leaves().position(|(_, service)| service.path() == path);
            config.leaf_share(index.expect("a leaf"), MachineId(0), direction).share
        };
        for path in ["vm", "dfs/hbase", "dfs/other"] {
            assert_eq!(share(path, Direction::Rx).weight, Weight::ONE);
        }
        assert_eq!((vm.interval, vm.burst), (Duration::from_millis(1), Bytes::new(9_000)));
        assert_eq!((other.interval, other.burst), (Duration::from_micros(200), Bytes::new(30_000)));
        let tx = share("dfs/hbase", Direction::Tx);
        assert_eq!((tx.min, tx.max), (Bandwidth::from_gbps(1), Bandwidth::from_gbps(8)));
        assert_eq!(share("vm", Direction::Rx).max, Bandwidth::from_gbps(3));
        assert_eq!(hbase.senders, [(MachineId(1), "2".parse().expect("a weight"))]);
        // The machine's cap; EyeQ's share of the link where that is less.
        let eyeq = ShaperConfig::eyeq(&policy, None, None);
        let capacity = |config: &ShaperConfig, direction| config.capacity(MachineId(2), direction).bps();
        let capacities = |config: &ShaperConfig| (capacity(config, Direction::Tx), capacity(config, Direction::Rx));
        assert_eq!(capacities(&config), (10_000_000_000, 9_500_000_000));
        assert_eq!(capacities(&eyeq), (9_800_000_000, 9_000_000_000));
    }

    #[test]
    fn committed_rates_sum_to_the_capacity() {
        // dfs/hbase, dfs/other, vm share 9.5 Gb/s. One is guaranteed 1 Gb/s, 8.5 remain for three.
        let policy = policy("10Gb/s", SERVICES, "");
        let config = ShaperConfig::parley(&policy, None, None);
        let committed = |config: &ShaperConfig| -> Vec<u64> {
            config.shares(MachineId(0), Direction::Rx).map(|leaf| leaf.committed.bps() / 1_000_000).collect()
        };
        assert_eq!(committed(&config), [3833, 2833, 2833]);
    }

    #[test]
    fn receive_capacity_is_95_percent_of_the_link_or_the_cap() {
        for (caps, expected) in [("", 9_500_000_000), ("caps: { machine: { rx: 7Gb/s } }\n", 7_000_000_000)] {
            let policy = policy("10Gb/s", "  s: { match: [ { port: 1 } ] }\n", caps);
            assert_eq!(
                ShaperConfig::parley(&policy, None, None).capacity(MachineId(0), Direction::Rx).bps(),
                expected,
                "{caps}"
            );
        }
    }

    #[test]
    fn placed_tenants_ignore_marks_and_all_other_services_heed_them() {
        let tenants = "tenants:\n  here: { vms: 2, bandwidth: 1Gb/s, match: [ { port: 8 } ] }\n  inside: { vms: 2, \
                       bandwidth: 1Gb/s, match: [ { port: 9 } ] }\n";
        let policy = policy("10Gb/s", "  s: { match: [ { port: 1 } ] }\n", tenants);
        // `inside` has all of its virtual machines on one machine, and reserves nothing of a link.
        let places = [vec![(MachineId(0), Bandwidth::from_gbps(1))], vec![(MachineId(0), Bandwidth::ZERO)]];
        let placed = policy.with_places(|tenant| &places[tenant.index()]);
        let marks = |policy: &Policy| {
            let config = ShaperConfig::qshare(policy, None, None);
            let leaves = policy.services().leaves().map(|(_, service)| service.path().to_owned());
            let of: Vec<(String, Marks)> =
                leaves.zip(config.services.iter().map(|service| config.of(service).marks)).collect();
            (of, config.parameters.interface.marks)
        };
        let of = |heeding: [Marks; 3]| -> Vec<(String, Marks)> {
            ["s", "here", "inside"].map(str::to_owned).into_iter().zip(heeding).collect()
        };
        let (heeded, ignored) = (Marks::Fraction, Marks::Ignored);
        assert_eq!(marks(&placed), (of([heeded, ignored, heeded]), ignored));
        assert_eq!(marks(&policy), (of([heeded; 3]), heeded));
        // Without queues of tenants, as under Parley alone, all marks count.
        let parley = ShaperConfig::parley(&placed, None, None);
        assert!(parley.services.iter().all(|service| parley.of(service).marks == heeded));
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
