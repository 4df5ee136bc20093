//! Random worlds.

use crate::plan::{Application, Faults, Happening, Plan};
use crate::world::Nanos;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir_credits::Period;
use weir_units::{Bandwidth, Weight};

const MS: Nanos = 1_000_000;
/// Faults end.
pub(crate) const FAULTS: Nanos = 25 * MS;
/// After the faults and the exclusions: lost requests are repeated within 20 ms, and rates settle within periods.
pub(crate) const SETTLING: Nanos = 35 * MS;
/// The time over which rates are measured.
pub(crate) const MEASURED: Nanos = 15 * MS;

/// The faults of a world beside those of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Messages,
    Restart,
    Reroute,
    Rogue,
    Outage,
}

/// A plan, its case, and the time at which the last fault and exclusion is over.
pub(crate) struct Drawn {
    pub(crate) plan: Plan,
    pub(crate) case: Case,
    pub(crate) settled: Nanos,
}

fn network(random: &mut StdRng, case: Case) -> Plan {
    let trunks = random.random_range(if case == Case::Reroute { 1..=2 } else { 0..=2 });
    let senders: Vec<usize> = (0..random.random_range(1..=4)).map(|_| random.random_range(0..=trunks)).collect();
    // Every sender reaches the first receiver.
    let others = (0..random.random_range(0..=3)).map(|_| random.random_range(0..=trunks));
    let receivers: Vec<usize> = [trunks].into_iter().chain(others).collect();
    let mut plan = Plan::new(trunks, &senders, &receivers);
    plan.paths = if case == Case::Reroute { 2 } else { 1 };
    plan.rule.least = Period::from_micros(20 * random.random_range(10..=20));
    plan.rule.most = Period::from_micros(20 * random.random_range(50..=100));
    plan.delay = random.random_range(1_000..8_000);
    plan.whole_frames = random.random_bool(0.5);
    plan.periodic = random.random_bool(0.3);
    plan
}

fn flows(random: &mut StdRng, plan: &mut Plan) {
    for _ in 0..random.random_range(2..=16) {
        let from = random.random_range(0..plan.senders.len());
        let to = random.random_range(0..plan.receivers.len());
        let to = if plan.receivers[to] < plan.senders[from] { 0 } else { to };
        let application = match random.random_range(0..10) {
            0 | 1 => Application::Rate(Bandwidth::from_mbps(random.random_range(5..300))),
            2 | 3 => Application::Size(random.random_range(1_000..400_000)),
            _ => Application::Backlog,
        };
        let start = if random.random_bool(0.3) { 0 } else { random.random_range(0..FAULTS) };
        let flow = plan.flow(from, to, start, application);
        let weight = [1_000, 1_000, 1_000, 500, 2_000, 4_000][random.random_range(0..6)];
        plan.flows[flow as usize].weight = Weight::from_thousandths(weight).unwrap_or_default();
        if matches!(application, Application::Size(_)) {
            for _ in 0..random.random_range(0..3) {
                let bytes = random.random_range(1_000..100_000);
                plan.happenings.push((random.random_range(start..FAULTS + 1), Happening::Write { flow, bytes }));
            }
        }
        if application == Application::Backlog && random.random_bool(0.2) {
            let stop = random.random_range(start..FAULTS + 1);
            plan.happenings.push((stop, Happening::Stop(flow)));
        }
    }
}

/// The events that are excluded cases, and the time at which the last one is over.
fn exclusions(random: &mut StdRng, plan: &mut Plan, case: Case, lifetime: Nanos) -> Nanos {
    let mut over = 0;
    let times = if case == Case::Messages { 0 } else { random.random_range(1..=3) };
    for _ in 0..times {
        let at = random.random_range(0..FAULTS);
        let flow = random.random_range(0..plan.flows.len() as u32);
        let (happening, until) = match case {
            Case::Messages => return 0,
            Case::Restart => (Happening::Restart(random.random_range(plan.senders.len()..plan.ports())), at),
            Case::Reroute => (Happening::Reroute { flow, trunk: random.random_range(0..plan.trunks) }, at),
            Case::Rogue => {
                let until = at + random.random_range(MS..5 * MS);
                (Happening::Rogue { flow: rogue(plan, flow, at), until }, until)
            }
            Case::Outage => {
                let until = at + random.random_range(MS..50 * MS);
                (Happening::Outage { flow, until }, until)
            }
        };
        plan.happenings.push((at, happening));
        over = over.max(until + lifetime);
    }
    over
}

/// A flow that is alone at its host, since the host's interface is full of it.
fn rogue(plan: &mut Plan, flow: u32, at: Nanos) -> u32 {
    let host = plan.senders.len();
    let mut own = plan.flows[flow as usize];
    plan.senders.push(plan.senders[own.from]);
    (own.from, own.start, own.application) = (host, at / 2, Application::Backlog);
    plan.flows.push(own);
    plan.flows.len() as u32 - 1
}

impl Drawn {
    pub(crate) fn new(seed: u64, lifetime: impl Fn(&Plan) -> Nanos) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let case = [Case::Messages, Case::Messages, Case::Restart, Case::Reroute, Case::Rogue, Case::Outage];
        let case = case[random.random_range(0..case.len())];
        let mut plan = network(&mut random, case);
        flows(&mut random, &mut plan);
        plan.faults = Faults {
            until: FAULTS,
            lost_control: random.random_range(0..50),
            repeated: random.random_range(0..50),
            replayed: random.random_range(0..50),
            delayed: random.random_range(0..50),
            delay: plan.rule.least.duration().nanos() / 2,
            lost_data: random.random_range(0..10),
        };
        let lifetime = lifetime(&plan);
        let over = exclusions(&mut random, &mut plan, case, lifetime);
        Self { plan, case, settled: FAULTS.max(over) }
    }
}
