//! [`CreditPlan`]: what services with credits have of each port, and whether they lose nothing there.
//!
//! Problem: ports that grant credits never drop data only if each of them grants, has the buffer for what it granted,
//! and serves these services by a queue of their own. An operator needs to know before which of these is missing.
//! Approach: the ports of the network in classes of equal rate and buffer, with their requirements beside what the
//! policy states.
//!
//! R is the rate of a port beside latency levels, times the share of the queue of credits. A port queues and has
//! granted at most 2 · R · p, p being its period; packets without credits (acknowledgements, allocations) come on top.
//! A period has two frames of each of n flows of equal weight if p ≥ 2 · P · n / R, P being the frame: so the buffer
//! limits p, and p the number of flows.
//!
//! Where other traffic has a part of the ports, data with credits has a queue of its own there that gives it R at least
//! ([`CreditQueue`]): a weighted one, or beside tenants, whose weights change all the time, a strict one.
//!
//! Worked example: 1 Gb/s without levels, all services with credits, 256 kB: R = 1 Gb/s, p up to 0.9 ms, in which 37
//! flows send two frames of 1514 B.
//!
//! Source: PACE §III.E, and the invariant A + Q ≤ 2 · R · p of `weir-credits`.

use crate::admission::beside_levels;
use crate::language::MIN_CREDIT_PERIOD;
use crate::model::Policy;
use std::collections::BTreeMap;
use weir_network::graph::{Graph, LinkRef};
use weir_network::{PortBuffers, Wiring, layers};
use weir_units::{Bandwidth, Bytes, Duration, Load};

/// `credits:` of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credits {
    /// The part of what levels leave that the queue of credits has; `None` for all of it.
    pub(crate) share: Option<Load>,
    /// Whether services without credits and levels, or tenants, use the ports too.
    pub(crate) has_others: bool,
    pub(crate) period_max: Option<Duration>,
}

impl Credits {
    /// The share where none is written: that of one of two queues of equal weight.
    pub(crate) fn half() -> Load {
        Load::from_billionths(500_000_000).expect("a half is a load")
    }
    /// The part of what levels leave of every port that the queue of credits has; `None` for all of it.
    pub fn share(&self) -> Option<Load> {
        self.share
    }
    /// p-max, as far as it is written.
    pub fn period_max(&self) -> Option<Duration> {
        self.period_max
    }
    /// R of a port of this rate beside levels, rounded down.
    pub fn rate(&self, beside_levels: Bandwidth) -> Bandwidth {
        let Some(share) = self.share else { return beside_levels };
        let rate = u128::from(beside_levels.bps()) * u128::from(share.billionths()) / 1_000_000_000;
        Bandwidth::from_bps(rate as u64)
    }
}

/// The queue of data with credits at every port of a switch, beside that of all other traffic. The data takes R at
/// most of either kind, since ports grant no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreditQueue {
    /// By weight.
    Weighted {
        /// The weight of the queue.
        own: u16,
        /// The weight of the queue of all other traffic.
        others: u16,
    },
    /// Above weighted queues, and below network control.
    Strict,
}

/// The most that a queue weighs: what Linux and SONiC have.
const WEIGHT_MAX: u16 = 100;

/// The weights of a queue with this share of a port, rounded up, and of a queue with the rest: the smallest of which
/// the first has at most a tenth more than its share, or else the closest. `None` for a share that no weights give.
///
/// Weights are small, since a round of a scheduler serves each queue its weight in segments. A queue of data with
/// credits does not use what its weight gives beyond R, so the rest has its part all the same.
fn weights(share: Load) -> Option<(u16, u16)> {
    let share = u64::from(share.billionths());
    let of_total = |total: u16| {
        let own = u16::try_from((share * u64::from(total)).div_ceil(1_000_000_000)).ok()?.max(1);
        let rest = total.checked_sub(own).filter(|rest| *rest > 0)?;
        (own <= WEIGHT_MAX && rest <= WEIGHT_MAX).then_some((own, rest))
    };
    let all = || (2..=WEIGHT_MAX + 1).filter_map(of_total);
    let part = |(own, rest): (u16, u16)| u64::from(own) * 1_000_000_000 / u64::from(own + rest);
    let close = all().find(|weights| part(*weights) * 10 <= share * 11);
    close.or_else(|| all().min_by_key(|weights| part(*weights)))
}

/// 2 · R · p, rounded up: what a port that grants of R, with periods up to p, has granted or queues at most.
pub fn credit_budget(granted: Bandwidth, period: Duration) -> Bytes {
    let bits = 2 * u128::from(granted.bps()) * u128::from(period.nanos());
    Bytes::new(u64::try_from(bits.div_ceil(8_000_000_000)).unwrap_or(u64::MAX))
}

/// The part of 2 · R · p for which a port has room beside that: acknowledgements, of up to 86 B for each frame of
/// 1,514 B in the other direction, and messages, of up to 134 B for each two frames, are a tenth of the data.
const BESIDE_BUDGET: u64 = 8;

/// The bytes that a port which grants of R, with periods up to p, has to queue for services with credits:
/// [`credit_budget`] and an eighth, for packets without credits.
pub fn credit_room(granted: Bandwidth, period: Duration) -> Bytes {
    let budget = credit_budget(granted, period).get();
    Bytes::new(budget.saturating_add(budget / BESIDE_BUDGET))
}

/// Ports alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditPort {
    /// One of them.
    pub example: LinkRef,
    /// Their number.
    pub count: usize,
    /// Whether switches have them; the others are hosts' interfaces, whose queue is in the host.
    pub is_of_switch: bool,
    /// The rate of the link.
    pub rate: Bandwidth,
    /// R: the part of it that credits are granted of.
    pub granted: Bandwidth,
    /// The bytes that the port can queue; `None` where they are not stated, and at hosts.
    pub buffer: Option<Bytes>,
}

impl CreditPort {
    /// [`credit_room`] of the port.
    pub fn needed(&self, period: Duration) -> Bytes {
        credit_room(self.granted, period)
    }

    /// The longest period that the buffer allows, in steps of 20 µs; at least one step. `None` without a known buffer.
    pub fn longest(&self) -> Option<Duration> {
        let budget = u128::from(self.buffer?.get()) * u128::from(BESIDE_BUDGET) / u128::from(BESIDE_BUDGET + 1);
        let nanos = budget * 4_000_000_000 / u128::from(self.granted.bps().max(1));
        let step = MIN_CREDIT_PERIOD.nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Some(Duration::from_nanos((nanos / step).max(1) * step))
    }

    /// The flows of equal weight that can send two frames in a period.
    pub fn flows(&self, period: Duration, frame: Bytes) -> u64 {
        let bits = u128::from(self.granted.bps()) * u128::from(period.nanos()) / 1_000_000_000;
        u64::try_from(bits / (16 * u128::from(frame.get().max(1)))).unwrap_or(u64::MAX)
    }
}

/// A reason why services with credits may lose packets. Ports are indices into [`CreditPlan::ports`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// Switches grant no credits: only the sending hosts' interfaces and the receivers do.
    NoForwarders,
    /// Routing is symmetric, and not all shortest paths go up and then down: both directions may differ.
    Paths,
    /// The buffer of a port is not stated.
    UnknownBuffer(usize),
    /// The buffer of a port is smaller than [`credit_room`] of p-max.
    SmallBuffer(usize),
    /// Other traffic has a part of every port, and the switches have no queue for credits ([`Policy::credit_queue`]).
    NoQueue,
}

/// The ports of services with credits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditPlan {
    /// All ports, in classes.
    pub ports: Vec<CreditPort>,
    /// p-max: as written, or the longest that all known buffers allow; `None` if neither is known.
    pub period_max: Option<Duration>,
    /// P: the largest frame.
    pub frame: Bytes,
    /// The reasons why they may lose packets; empty if they lose none.
    pub obstacles: Vec<Obstacle>,
}

impl Policy {
    /// The ports of services with credits, and what is missing for no loss; `None` if no service has credits.
    pub fn credit_plan(&self) -> Option<CreditPlan> {
        let credits = self.credits()?;
        let graph = self.graph();
        let ports = self.credit_ports(credits, &graph);
        let longest = || ports.iter().filter_map(CreditPort::longest).min();
        let period_max = credits.period_max.or_else(longest);
        let mut obstacles = Vec::new();
        if !self.network().forwarders() {
            obstacles.push(Obstacle::NoForwarders);
        }
        if !layers::has_one_path(&graph) && !layers::is_layered(&graph) {
            obstacles.push(Obstacle::Paths);
        }
        for (at, port) in ports.iter().enumerate().filter(|(_, port)| port.is_of_switch) {
            match (port.buffer, period_max) {
                (None, _) => obstacles.push(Obstacle::UnknownBuffer(at)),
                (Some(buffer), Some(period)) if port.needed(period) > buffer => {
                    obstacles.push(Obstacle::SmallBuffer(at));
                }
                _ => {}
            }
        }
        if credits.has_others && self.credit_queue().is_none() {
            obstacles.push(Obstacle::NoQueue);
        }
        Some(CreditPlan { ports, period_max, frame: Bytes::new(graph.packets.frame()), obstacles })
    }

    /// The queue of data with credits. `None` where it needs none of its own, without other traffic; and where switches
    /// have none: no weighted queue beside the shared one, or only such as tenants have, or none of a weight that gives
    /// the share; and no strict queue beside those of levels and of network control.
    pub fn credit_queue(&self) -> Option<CreditQueue> {
        let credits = self.credits().filter(|credits| credits.has_others)?;
        let (strict, weighted) = self.network().offer()?.available();
        let weights = credits.share.filter(|_| weighted > 0 && self.tenants().is_empty()).and_then(weights);
        let levels = self.levels().map_or(0, |levels| levels.all().len() + 1);
        let is_left = levels < strict;
        weights.map(|(own, others)| CreditQueue::Weighted { own, others }).or(is_left.then_some(CreditQueue::Strict))
    }

    /// R of a port whose link has this rate: what levels leave of it, times the share of the queue of credits. `None`
    /// if no service has credits.
    pub fn credit_rate(&self, link: Bandwidth) -> Option<Bandwidth> {
        let reserved = self.levels().and_then(|levels| levels.reserved());
        Some(self.credits()?.rate(beside_levels(link, reserved)))
    }

    /// The buffers that a network of racks states for its switches' ports, whose links are the simulator's; `None` over
    /// a topology, whose links have buffers of their own ([`Graph::port_buffer`]).
    pub fn stated_buffers(&self) -> Option<PortBuffers> {
        matches!(self.wiring(), Wiring::Racks(_)).then(|| self.network().port_buffers())
    }

    fn credit_ports(&self, credits: &Credits, graph: &Graph) -> Vec<CreditPort> {
        let reserved = self.levels().and_then(|levels| levels.reserved());
        let stated = self.stated_buffers();
        let mut known: BTreeMap<(u8, u64, Option<Bytes>), usize> = BTreeMap::new();
        let mut ports: Vec<CreditPort> = Vec::new();
        for example in graph.links() {
            let link = graph.link(example);
            let (kind, buffer) = match example {
                LinkRef::Up(_) => (0, None),
                LinkRef::Down(_) => (1, graph.port_buffer(example, stated)),
                LinkRef::Forward(_) | LinkRef::Backward(_) => (2, graph.port_buffer(example, stated)),
            };
            let at = *known.entry((kind, link.rate.bps(), buffer)).or_insert_with(|| {
                let granted = credits.rate(beside_levels(link.rate, reserved));
                ports.push(CreditPort { example, count: 0, is_of_switch: kind > 0, rate: link.rate, granted, buffer });
                ports.len() - 1
            });
            ports[at].count += 1;
        }
        ports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(network: &str, more: &str) -> CreditPlan {
        let text = format!("weir: 1\nnetwork: {network}\n{more}");
        let (policy, _) = Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        policy.credit_plan().expect("a service has credits")
    }

    const ALONE: &str = "services: { a: { match: [ { port: 1 } ], credits: {} } }\n";
    const TWO: &str = "services: { a: { match: [ { port: 1 } ], credits: { weight: 2 } }, \
                       b: { match: [ { port: 2 } ] } }\n";

    fn racks(switches: &str) -> String {
        format!("{{ nic: 1Gb/s, racks: {{ r: {{ uplink: 10Gb/s, machines: [m1, m2] }} }}{switches} }}")
    }

    #[test]
    fn the_worked_example() {
        let plan = plan(&racks(", switches: { forwarders: true, buffer: { machine: 256kB, rack: 4MB } }"), ALONE);
        assert_eq!(plan.obstacles, []);
        assert_eq!(plan.period_max, Some(Duration::from_micros(900)));
        let rates: Vec<_> = plan.ports.iter().map(|port| (port.is_of_switch, port.count, port.granted)).collect();
        let gbps = Bandwidth::from_gbps;
        assert_eq!(rates, [(false, 2, gbps(1)), (true, 2, gbps(1)), (true, 2, gbps(10))]);
        let period = Duration::from_micros(900);
        assert_eq!(plan.ports[1].needed(period), Bytes::new(253_125));
        assert_eq!(plan.ports[1].flows(period, plan.frame), 37);
        assert_eq!(plan.ports[2].needed(period), Bytes::new(2_531_250));
        // The paper's clamp holds 212 flows of 1500 B at 1 Gb/s (PACE §III.E).
        assert_eq!(plan.ports[1].flows(Duration::from_micros(5_100), Bytes::new(1_500)), 212);
    }

    #[test]
    fn a_written_period_may_need_more_than_buffers_have() {
        let network = racks(", switches: { forwarders: true, buffer: { machine: 256kB } }");
        let plan = plan(&network, &format!("credits: {{ period-max: 2ms }}\n{ALONE}"));
        assert_eq!(plan.period_max, Some(Duration::from_millis(2)));
        assert_eq!(plan.obstacles, [Obstacle::SmallBuffer(1), Obstacle::UnknownBuffer(2)]);
    }

    #[test]
    fn other_services_and_levels_have_their_part() {
        let others = plan(&racks(""), TWO);
        assert_eq!(others.ports[0].granted, Bandwidth::from_mbps(500));
        assert_eq!(others.period_max, None);
        let reasons =
            [Obstacle::NoForwarders, Obstacle::UnknownBuffer(1), Obstacle::UnknownBuffer(2), Obstacle::NoQueue];
        assert_eq!(others.obstacles, reasons);
        let level = "levels: { factors: [1], load: 20% }\ncredits: { share: 75% }\nservices: {\n  \
                     a: { match: [ { port: 1 } ], credits: {} }, l: { match: [ { port: 3 } ], level: 1 } }\n";
        // 75 % of 80 %.
        assert_eq!(plan(&racks(""), level).ports[0].granted, Bandwidth::from_mbps(600));
    }

    #[test]
    fn weights_are_the_smallest_that_give_the_share() {
        let of = |billionths| weights(Load::from_billionths(billionths).expect("a load"));
        // 3 of 5 are 60 %; 3 of 8 are 37.5 %, less than a tenth above 36 %; 1 of 101 is the least there is.
        let cases = [
            (500_000_000, (1, 1)),
            (600_000_000, (3, 2)),
            (800_000_000, (4, 1)),
            (360_000_000, (3, 5)),
            (1_000_000, (1, 100)),
            (990_000_000, (99, 1)),
        ];
        for (share, expected) in cases {
            assert_eq!(of(share), Some(expected), "{share}");
        }
        assert_eq!(of(995_000_000), None);
        for share in (1..=990).map(|share| share * 1_000_000) {
            let (own, rest) = of(share).expect("weights");
            assert!(u64::from(own) * 1_000_000_000 >= u64::from(share) * u64::from(own + rest), "{share}");
        }
    }

    #[test]
    fn data_with_credits_has_a_queue_beside_other_traffic() {
        let of = |scheduler: &str, more: &str| {
            let switches = format!(", switches: {{ forwarders: true, buffer: 9MB, scheduler: {scheduler} }}");
            let text = format!("weir: 1\nnetwork: {}\n{more}", racks(&switches).replace(" }}", " }, slots: 2 }"));
            let (policy, _) = Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}"));
            let is_missing = policy.credit_plan().expect("credits").obstacles.contains(&Obstacle::NoQueue);
            assert_eq!(is_missing, policy.credit_queue().is_none() && more != ALONE);
            policy.credit_queue()
        };
        let by_weight = |own, others| Some(CreditQueue::Weighted { own, others });
        assert_eq!(of("weighted", ALONE), None);
        assert_eq!(of("weighted", TWO), by_weight(1, 1));
        assert_eq!(of("weighted", &format!("credits: {{ share: 60% }}\n{TWO}")), by_weight(3, 2));
        let nearly_all = format!("credits: {{ share: 99.5% }}\n{TWO}");
        assert_eq!(of("weighted", &nearly_all), None);
        assert_eq!(of("{ strict: 1, weighted: 7 }", &nearly_all), Some(CreditQueue::Strict));
        let tenants = format!("{TWO}tenants: {{ t: {{ vms: 1, bandwidth: 1Mb/s, match: [ {{ vni: 5 }} ] }} }}\n");
        assert_eq!(of("weighted", &tenants), None);
        assert_eq!(of("{ strict: 1, weighted: 7 }", &tenants), Some(CreditQueue::Strict));
        // Beside a level and network control.
        let level = tenants.replace("b: {", "l: { match: [ { port: 3 } ], level: 1 }, b: {");
        let level = format!("levels: {{ factors: [1] }}\n{level}");
        assert_eq!(of("{ strict: 2, weighted: 6 }", &level), None);
        assert_eq!(of("{ strict: 3, weighted: 5 }", &level), Some(CreditQueue::Strict));
        assert_eq!(of("strict", TWO), Some(CreditQueue::Strict));
        assert_eq!(of("plain", TWO), None);
    }

    #[test]
    fn a_topology_has_the_buffers_of_its_queues() {
        let network = "{ topology: leaf-spine, racks: 2, hosts: 2, spines: 2, host-link: { rate: 10Gb/s }, \
                       fabric-link: { rate: 10Gb/s }, routing: symmetric, queue: { buffer: 2MB }, \
                       switches: { forwarders: true } }";
        let plan = plan(network, ALONE);
        assert_eq!((plan.obstacles.len(), plan.period_max), (0, Some(Duration::from_micros(700))));
        assert_eq!(plan.ports.iter().map(|port| port.count).collect::<Vec<_>>(), [4, 4, 8]);
    }
}
