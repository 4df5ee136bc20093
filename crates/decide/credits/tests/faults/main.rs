//! Credits in a network that fails: control messages are lost, repeated and delayed beyond others, data is lost, flows
//! take other paths, ports lose their state, and senders ignore their credits. Observers at each port ([`port`]) check
//! after each event that A is what was granted and is not gone, that A + Q keeps within 2 · C_0, and that data is late
//! in the excluded cases alone. When the faults end, flows get their max-min rates again.
//!
//! [`life`] has flows that end and go on. [`traps`] has a world for each error of the protocol that was measured before
//! its correction.
//!
//! `WEIR_CREDITS_SEEDS=100000 cargo test -p weir-credits --test faults --release` runs more worlds; a failure names its
//! seed, and `WEIR_CREDITS_SEEDS=7..8` runs that one.

mod draw;
mod flow;
mod life;
mod plan;
mod port;
mod shares;
mod traps;
mod world;

use draw::{Case, Drawn, FAULTS, MEASURED, SETTLING};
use flow::Flow;
use plan::{Application, FRAME, Plan};
use shares::{Demand, max_min};
use world::{Counts, Nanos, World};

/// The time by which the last flow of a size has ended.
const LATEST: Nanos = 2_000_000_000;

/// Worlds of a run, by seed.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("WEIR_CREDITS_SEEDS") else { return 0..400 };
    let number = |text: &str| text.parse().expect("WEIR_CREDITS_SEEDS is a number, or two with `..` between");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&text),
    }
}

/// The longest lifetime of a grant at the ports of a plan.
fn lifetime(plan: &Plan) -> Nanos {
    World::new(plan.clone(), 0).ports[0].longest_lifetime().nanos()
}

/// The max-min rates in bit/s of the flows that are not over; 0 for others. The application of `raised` has 1.2 times
/// its rate.
fn fair_rates(world: &World, raised: Option<usize>) -> Vec<f64> {
    let rate = world.plan.rule.rate.bps() as f64;
    let live: Vec<usize> = (0..world.flows.len()).filter(|&flow| !world.flows[flow].over).collect();
    let demand = |&flow: &usize| {
        let plan = &world.flows[flow].plan;
        let most = match plan.application {
            Application::Rate(rate) => rate.bps() as f64 * if raised == Some(flow) { 1.2 } else { 1.0 },
            Application::Backlog | Application::Size(_) => f64::INFINITY,
        };
        Demand { weight: f64::from(plan.weight.thousandths()), most, ports: world.path(flow as u32) }
    };
    let demands: Vec<Demand> = live.iter().map(demand).collect();
    let mut rates = vec![0.0; world.flows.len()];
    for (flow, share) in live.iter().zip(max_min(&vec![rate; world.ports.len()], &demands)) {
        rates[*flow] = share;
    }
    rates
}

/// Whether rates do not compare yet: a flow of a size has not ended, or one that its application limits has a backlog
/// from the time of faults, although its share is a fifth larger than its rate.
fn is_unsettled(world: &World) -> bool {
    let is_unsettled = |(number, flow): (usize, &Flow)| match flow.plan.application {
        Application::Backlog => false,
        Application::Size(_) => !flow.over,
        Application::Rate(rate) => {
            let has_backlog = !flow.over && flow.backlog > 20 * FRAME;
            has_backlog && fair_rates(world, Some(number))[number] > rate.bps() as f64 * 1.19
        }
    };
    world.flows.iter().enumerate().any(is_unsettled)
}

/// Runs a seed; returns its case and its counts.
fn run(seed: u64) -> Result<(Case, Counts), String> {
    let drawn = Drawn::new(seed, lifetime);
    let mut world = World::new(drawn.plan, seed);
    world.run(FAULTS)?;
    let mut settled = drawn.settled;
    world.run(settled)?;
    while is_unsettled(&world) {
        settled += MEASURED;
        if settled > LATEST {
            return Err("flows of a size do not end, or backlogs do not".to_owned());
        }
        world.run(settled)?;
    }
    let rates = world.rates(settled + SETTLING, settled + SETTLING + MEASURED)?;
    world.ports.iter_mut().for_each(port::Port::account);
    let fair = fair_rates(&world, None);
    // Demands of flows that their applications limit vary from period to period, and shares of others with them.
    let limited =
        world.flows.iter().zip(&fair).filter(|(flow, _)| matches!(flow.plan.application, Application::Rate(_)));
    // The least demand is a frame in a period, whatever the rate is.
    let frame = FRAME as f64 * 8e9 / world.plan.rule.least.duration().nanos() as f64;
    let vary = limited.map(|(_, fair)| 0.08 * fair + (frame - fair).max(0.0)).sum::<f64>();
    let tolerance = if world.plan.periodic { 0.2 } else { 0.1 };
    let differs = |(rate, fair): (&f64, &f64)| (rate - fair).abs() > tolerance * fair + vary + 2e6;
    if rates.iter().zip(&fair).any(differs) {
        let [rates, fair] = [rates, fair].map(|rates| rates.iter().map(|rate| rate / 1e6).collect::<Vec<f64>>());
        return Err(format!("rates of {rates:.1?} Mb/s, the shares are {fair:.1?}"));
    }
    Ok((drawn.case, world.counts))
}

#[test]
fn credits_hold_whatever_fails() {
    let (mut all, mut failures, mut worlds) = (Counts::default(), Vec::new(), 0);
    for seed in seeds() {
        match run(seed) {
            Ok((_, counts)) => all.add(&counts),
            Err(failure) => failures.push((seed, failure)),
        }
        worlds += 1;
    }
    println!("{worlds} worlds: {all:?}");
    for (seed, failure) in failures.iter().take(10) {
        println!("seed {seed}: {failure}\n{}", Drawn::new(*seed, lifetime).plan);
    }
    let seeds: Vec<&(u64, String)> = failures.iter().take(10).collect();
    assert!(failures.is_empty(), "{} of {worlds} worlds failed: {seeds:?}", failures.len());
    // The worlds are of use only if something happens in them.
    let faults = [all.lost, all.repeated, all.replayed, all.delayed, all.lost_data, all.dropped, all.rerouted];
    let cases = [all.restarts, all.reroutes, all.rogues, all.cut_off, all.writes];
    assert!(worlds < 100 || (faults.iter().all(|&count| count > 1_000) && cases.iter().all(|&count| count > 20)));
}
