//! The time of a controller for one message, in the largest network: 10,000 tenants on 3,072 ports.
//!
//! `cargo bench -p weir-binding --bench message`. Tenants pass 1 to 20 random ports; in each interval half of them use
//! their guarantees, anew. Machines and switches apply settings at once. The mean and the slowest time of a message
//! after the choice of an interval, among the first `MESSAGES`, and of the choice itself.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::sync::Arc;
use weir_binding::binder::{Binder, BinderConfig, BinderInput, BinderOutput};
use weir_binding::{Map, Port, PortId, Site, Sites, SwitchId};
use weir_units::{Bandwidth, Duration, Instant, MachineId, PerDirection};

const PORTS: u32 = 3_072;
const TENANTS: u32 = 10_000;
const INTERVALS: u64 = 3;
/// Messages of an interval that are measured.
const MESSAGES: usize = 3_000;

fn main() {
    let mut random = StdRng::seed_from_u64(1);
    let sites = Arc::new(sites(&mut random));
    let interval = Duration::from_secs(4);
    let config = BinderConfig {
        interval,
        retry: Duration::from_secs(3_600),
        poll: BinderConfig::POLL,
        map: Map::PerPort,
        most_weight: BinderConfig::MOST_WEIGHT,
        pool: (1..48).collect(),
        hops: 5,
        limit_shared: false,
        lease: BinderConfig::LEASE,
    };
    let began = std::time::Instant::now();
    let mut binder = Binder::new(&sites, config, 1, Vec::new(), Instant::ZERO);
    println!("start: {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    let mut messages = VecDeque::new();
    replies(&mut binder, &mut messages);
    for number in 1..=INTERVALS {
        let mut reports = 0.0f64;
        for (tenant, site) in sites.all() {
            let used = if random.random() { Bandwidth::UNLIMITED } else { Bandwidth::ZERO };
            for (machine, _) in &site.machines {
                let usage = BinderInput::Usage { machine: *machine, tenant, used: PerDirection::both(used) };
                reports = reports.max(time(&mut binder, number, usage));
            }
        }
        let now = Instant::ZERO + interval * number;
        let began = std::time::Instant::now();
        binder.handle_input(now, BinderInput::Timeout);
        let choice = began.elapsed().as_secs_f64() * 1e3;
        let (mut all, mut slowest, mut count) = (0.0, 0.0f64, 0);
        replies(&mut binder, &mut messages);
        while count < MESSAGES
            && let Some(message) = messages.pop_front()
        {
            let took = time(&mut binder, number, message);
            (all, slowest, count) = (all + took, slowest.max(took), count + 1);
            replies(&mut binder, &mut messages);
        }
        println!(
            "interval {number}: a report at most {:.3} ms, choice {choice:.1} ms, {count} replies of {:.3} ms, \
             at most {:.2} ms; {} moves begun, {} ended",
            reports * 1e3,
            all * 1e3 / count.max(1) as f64,
            slowest * 1e3,
            binder.counters().moves,
            binder.counters().moved
        );
        // The rest of the interval's messages, without a measurement, as far as the time suffices.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while std::time::Instant::now() < end
            && let Some(message) = messages.pop_front()
        {
            time(&mut binder, number, message);
            replies(&mut binder, &mut messages);
        }
    }
}

/// Seconds in which an input is handled.
fn time(binder: &mut Binder, number: u64, input: BinderInput) -> f64 {
    let now = Instant::ZERO + Duration::from_secs(4) * (number - 1) + Duration::from_secs(1);
    let began = std::time::Instant::now();
    binder.handle_input(now, input);
    began.elapsed().as_secs_f64()
}

/// Takes the outputs; machines and switches apply them, and queues are empty.
fn replies(binder: &mut Binder, messages: &mut VecDeque<BinderInput>) {
    while let Some(output) = binder.poll_output() {
        messages.extend(match output {
            BinderOutput::Machine { machine, version, .. } => Some(BinderInput::MachineApplied { machine, version }),
            BinderOutput::Switch { switch, version, .. } => Some(BinderInput::SwitchApplied { switch, version }),
            BinderOutput::Keep { .. } => None,
            BinderOutput::Read { queue, round } => Some(BinderInput::QueueRead { queue, round, sent: 0, backlog: 0 }),
        });
    }
}

fn sites(random: &mut StdRng) -> Sites {
    let port =
        |at| Port { switch: SwitchId(at / 16), rate: Bandwidth::from_gbps(40), queues: 7, others: Bandwidth::ZERO };
    let mut site = |_| {
        let mbps = Bandwidth::from_mbps([10, 50, 100, 200, 300][random.random_range(0..5)]);
        let mut ports: Vec<u32> = (0..random.random_range(1..=20)).map(|_| random.random_range(0..PORTS)).collect();
        ports.sort_unstable();
        ports.dedup();
        let machines = ports.iter().map(|port| (MachineId(*port), mbps)).collect();
        Site { payment: mbps, ports: ports.into_iter().map(|port| (PortId(port), mbps)).collect(), machines }
    };
    let tenants: Vec<Site> = (0..TENANTS).map(&mut site).collect();
    Sites { ports: (0..PORTS).map(port).collect(), tenants }
}
