//! What services get under random policies, beside their shares in `weir allocate`.
//!
//! Environment: `WEIR_POLICIES` is the number of policies (20), `WEIR_FIRST_POLICY` the first seed
//! (1). Each failed policy is printed with its seed.

use crate::support::scenarios::{refusable, run_with};
use std::collections::BTreeMap;
use weir_alloc::has_fabric_limits;
use weir_random_policies::{FAR, RandomPolicy, draw};
use weir_scenario::Scenario;
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, ServiceId};

/// The length of a run in seconds: six periods of the fabric broker.
const SECONDS: u64 = 60;
/// The seconds after which guarantees and maxima must hold in every second.
const SETTLED: usize = 2;
/// The same for guarantees where services share the fabric: a demand that the racks' limits hide shows
/// itself over some of its broker's allocations, which are a second apart at the least.
const SETTLED_AT_FABRIC: usize = 9;
/// Two packets: a service of less than some dozen packets a second has no steadier rate.
const LEAST_BITS: u64 = 24_000;

/// The scenario of a drawn policy.
fn scenario(drawn: &RandomPolicy, seconds: u64) -> Scenario {
    let text = format!(
        "scenario: 1\nname: drawn\npolicy: p.yaml\nseed: {}\nduration: {seconds}s\n\
         links: {{ delay: 10us, buffer: 256kB, mtu: 1500B, spines: 1 }}\n\
         traffic:\n{}measure: {{ rack: {FAR}, direction: {}, every: 1s }}\n",
        drawn.seed,
        drawn.traffic(),
        drawn.direction
    );
    refusable(&drawn.text, text).unwrap_or_else(|errors| panic!("seed {}: {errors}\n{}", drawn.seed, drawn.text))
}

/// Bits of each (machine, service) in the constrained direction, by second.
struct Received {
    rates: BTreeMap<(MachineId, ServiceId), Vec<u64>>,
    seconds: usize,
}

impl Received {
    fn of(drawn: &RandomPolicy, seconds: u64) -> Self {
        let outcome = run_with(&scenario(drawn, seconds), 1, false);
        let results = &outcome.results;
        let services: Vec<ServiceId> = results
            .services
            .iter()
            .map(|name| {
                let found = drawn.policy.services().iter().find(|(_, service)| service.path() == name);
                found.expect("the results name the policy's services").0
            })
            .collect();
        let mut rates: BTreeMap<_, Vec<u64>> = BTreeMap::new();
        for sample in &results.meter_samples {
            let second = (sample.at.picos() / 1_000_000_000_000) as usize - 1;
            let bytes = if drawn.direction == Direction::Tx { sample.sent } else { sample.received };
            let by_second = rates.entry((sample.host, services[sample.service as usize])).or_default();
            by_second.resize(second + 1, 0);
            by_second[second] += bytes * 8;
        }
        Self { rates, seconds: seconds as usize }
    }

    fn second(&self, machine: MachineId, service: ServiceId, second: usize) -> u64 {
        self.rates.get(&(machine, service)).and_then(|rates| rates.get(second)).copied().unwrap_or(0)
    }

    /// The mean rate in the last third of the run.
    fn settled(&self, machine: MachineId, service: ServiceId) -> u64 {
        let from = self.seconds * 2 / 3;
        (from..self.seconds).map(|second| self.second(machine, service, second)).sum::<u64>()
            / (self.seconds - from) as u64
    }
}

/// The verdict on one policy.
#[derive(Debug, Default)]
struct Verdict {
    instances: usize,
    /// Instances within 5 % of the due rate in the last third.
    met: usize,
    /// The largest ratio of a second to a maximum, with its place.
    above: (f64, String),
    /// The smallest ratio of a second to what is due of a guarantee, with its place.
    below: (f64, String),
    /// The seconds, of any guarantee, with less than 95 % of it.
    short: std::collections::BTreeSet<usize>,
    lines: Vec<String>,
}

fn judge(drawn: &RandomPolicy, seconds: u64) -> Verdict {
    let received = Received::of(drawn, seconds);
    let due = drawn.due(|machine, service| Bandwidth::from_bps(received.settled(machine, service)));
    let mut verdict = Verdict { instances: drawn.loads.len(), below: (1.0, String::new()), ..Verdict::default() };
    for (load, &due) in drawn.loads.iter().zip(&due) {
        let got = received.settled(load.machine, load.service);
        // An instance that is due nothing has the lowest limit: a packet from time to time.
        let least = 2 * weir_control::rack_broker::LOWEST_LIMIT.bps();
        let met = got.abs_diff(due.bps()) * 20 <= due.bps() || (due.bps() < least && got < least);
        verdict.met += usize::from(met);
        let services = drawn.policy.services();
        verdict.lines.push(format!(
            "  {:6} {:6} {:?} due {:6} got {:6} kb/s{}",
            drawn.policy.network().machine(load.machine).name(),
            services.get(load.service).path(),
            load.amount,
            due.bps() / 1000,
            got / 1000,
            if met { "" } else { "  <--" }
        ));
    }
    if std::env::var_os("WEIR_SECONDS").is_some() {
        for load in &drawn.loads {
            let by_second: Vec<u64> = (0..received.seconds)
                .map(|second| received.second(load.machine, load.service, second) / 1000)
                .collect();
            verdict.lines.push(format!("  {:?} {:?}: {by_second:?}", load.machine, load.service));
        }
    }
    let due: BTreeMap<(MachineId, ServiceId), u64> =
        drawn.loads.iter().zip(due).map(|(load, due)| ((load.machine, load.service), due.bps())).collect();
    for place in places(drawn) {
        check_bounds(drawn, &received, &due, &place, &mut verdict);
    }
    verdict
}

/// A place with guarantees and maxima, and its machines.
struct Place {
    point: ContentionPoint,
    name: String,
    machines: Vec<MachineId>,
}

fn places(drawn: &RandomPolicy) -> Vec<Place> {
    let network = drawn.policy.network();
    let all: Vec<MachineId> = (0..network.machines().len() as u32).map(MachineId).collect();
    let machine = |id: &MachineId| Place {
        point: ContentionPoint::Machine,
        name: network.machine(*id).name().to_owned(),
        machines: vec![*id],
    };
    let rack = |rack: &weir_network::Rack| Place {
        point: ContentionPoint::Rack,
        name: rack.name().to_owned(),
        machines: rack.machines().to_vec(),
    };
    let mut places: Vec<Place> = all.iter().map(machine).chain(network.racks().iter().map(rack)).collect();
    places.push(Place { point: ContentionPoint::Fabric, name: "fabric".to_owned(), machines: all });
    places
}

/// Every service with a guarantee or a maximum at the place, in every second. Of a guarantee as much
/// is due as `weir allocate` yields for the instances there: their demand may be less.
fn check_bounds(
    drawn: &RandomPolicy,
    received: &Received,
    due: &BTreeMap<(MachineId, ServiceId), u64>,
    place: &Place,
    verdict: &mut Verdict,
) {
    let services = drawn.policy.services();
    let settled = if has_fabric_limits(&drawn.policy) { SETTLED_AT_FABRIC } else { SETTLED };
    for (id, service) in services.iter() {
        let share = service.share(place.point, drawn.direction);
        let within =
            |leaf: ServiceId| std::iter::successors(Some(leaf), |at| services.get(*at).parent()).any(|at| at == id);
        let instances: Vec<(MachineId, ServiceId)> = (place.machines.iter())
            .flat_map(|machine| services.leaves().map(move |(leaf, _)| (*machine, leaf)))
            .filter(|(_, leaf)| within(*leaf))
            .collect();
        let all_due: u64 = instances.iter().filter_map(|instance| due.get(instance)).sum();
        let guaranteed = share.min.bps().min(all_due);
        for second in SETTLED..received.seconds {
            let sum: u64 = instances.iter().map(|(machine, leaf)| received.second(*machine, *leaf, second)).sum();
            let at = || format!("{} at {}, second {second}", service.path(), place.name);
            let ratio = sum as f64 / share.max.bps() as f64;
            if !share.max.is_unlimited() && ratio > verdict.above.0 {
                verdict.above = (ratio, at());
            }
            let ratio = (sum + LEAST_BITS) as f64 / guaranteed.max(1) as f64;
            if guaranteed > 0 && second >= settled && ratio < verdict.below.0 {
                verdict.below = (ratio, at());
            }
            if guaranteed > 0 && second >= settled && ratio < 0.95 {
                verdict.short.insert(second);
            }
        }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

/// The verdicts on the policies of some seeds, in their order.
fn judge_all(seeds: &[u64]) -> Vec<(RandomPolicy, Verdict)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut verdicts = Vec::new();
        while let Some(seed) = seeds.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            let drawn = draw(*seed);
            let verdict = judge(&drawn, SECONDS);
            verdicts.push((drawn, verdict));
        }
        verdicts
    };
    let mut verdicts: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no simulation panics")).collect()
    });
    verdicts.sort_unstable_by_key(|(drawn, _)| drawn.seed);
    verdicts
}

#[test]
fn random_policies_give_due_rates() {
    let first = number("WEIR_FIRST_POLICY", 1);
    let seeds: Vec<u64> = (first..first + number("WEIR_POLICIES", 20)).collect();
    let (mut instances, mut met) = (0, 0);
    let (mut deviating, mut exceeding, mut short) = (Vec::new(), Vec::new(), Vec::new());
    for (drawn, verdict) in judge_all(&seeds) {
        (instances, met) = (instances + verdict.instances, met + verdict.met);
        let seconds = std::env::var_os("WEIR_SECONDS").is_some();
        if seconds {
            println!("{}", drawn.text);
        }
        if verdict.met < verdict.instances {
            deviating.push(drawn.seed);
        }
        if verdict.met < verdict.instances || seconds {
            println!("seed {} ({}):\n{}", drawn.seed, drawn.direction, verdict.lines.join("\n"));
        }
        let (ratio, place) = &verdict.above;
        if *ratio > 1.1 {
            exceeding.push(drawn.seed);
            println!("seed {} ({}): {ratio:.2} times the maximum of {place}", drawn.seed, drawn.direction);
        }
        let (ratio, place) = &verdict.below;
        if *ratio < 0.95 {
            short.push(drawn.seed);
            let seconds = &verdict.short;
            println!(
                "seed {} ({}): {ratio:.2} of the guarantee of {place}; in all {seconds:?}",
                drawn.seed, drawn.direction
            );
        }
    }
    println!("{met} of {instances} instances within 5 %; others: {deviating:?}; maxima exceeded: {exceeding:?}");
    println!("guarantees missed in a second: {short:?}");
    assert!(met * 100 >= instances * 97, "{met} of {instances} instances are within 5 %: seeds {deviating:?}");
    // One of a hundred policies may; none of the twenty in the checks. Of the seeds 1 to 1,000 36 do, too many, 35 of
    // them in receiving: a meter's window is the time of forty frames, a second at 0.5 Mb/s. With four frames 18 do.
    assert!(exceeding.len() * 100 <= seeds.len(), "a maximum is exceeded in a second: seeds {exceeding:?}");
    // One of twenty policies may. Of the seeds 1 to 1,000 81 do, too many, 73 in receiving; with four frames 47 do.
    assert!(short.len() * 20 <= seeds.len().max(20), "a guarantee is missed in a second: seeds {short:?}");
}
