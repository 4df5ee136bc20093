//! The same seed gives the same flows: on one platform (compared), and on all of them and for ever
//! (a snapshot).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use weir_units::{MachineId, SimTime};
use weir_workload::{
    Arrivals, Builtin, Deadlines, FlowList, FlowStart, Hosts, Incasts, MeanGap, NextRound, Order, Pattern, Random,
    RequestLoop, Requests, Rounds, Shuffle, Spec, SpecError, Think, Transfers, Workload,
};

fn specs() -> Result<Vec<(&'static str, Spec)>, SpecError> {
    let (hosts, clients) = (Hosts::first(8)?, Hosts::first(3)?);
    let servers = Hosts::new((8..12).map(MachineId).collect(), "servers")?;
    let (micro, milli) = (SimTime::from_micros(1), SimTime::from_millis(1));
    let gap = MeanGap::from_time(micro)?;
    let random = |arrivals| Random::new(hosts.clone(), hosts.clone(), arrivals, gap, Builtin::DataMining.sizes());
    let deadlines = Deadlines::Exponential { mean: milli, floor: SimTime::from_micros(100) };
    let list = FlowList::read(&b"start_s,src,dst,bytes\n2e-6,1,2,30\n1e-6,4,5,60\n"[..], 1460, FlowList::numbered(9));
    let closed = RequestLoop::Closed { outstanding: 2, think: Think::Exponential(micro) };
    let open = RequestLoop::Open { arrivals: Arrivals::Poisson, gap };
    let ask = |driven| Requests::new(clients.clone(), servers.clone(), 100, Builtin::Enterprise.sizes(), driven);
    let transfers = Transfers::mesh(&clients, &servers)?.bytes(1000)?.times(micro, milli, SimTime::from_secs(1))?;
    let incast =
        Rounds::incast(hosts.clone(), MachineId(9), 20_000, NextRound::WhenDone(micro))?.jitter(micro)?.at_most(2)?;
    let incasts = Incasts::new(hosts.clone(), hosts.clone(), 3, 20_000, Arrivals::Poisson, gap)?;
    let barrier = Rounds::barrier(hosts.clone(), Pattern::AllToAll, 5_000, micro)?.at_most(2)?;
    let list = list.map_err(|error| SpecError { cause: error.to_string(), hint: String::new() })?;
    Ok(vec![
        ("transfers", Spec::Transfers(transfers)),
        ("random poisson", Spec::Random(random(Arrivals::Poisson)?.at_most(50)?.deadlines(deadlines)?)),
        ("random uniform", Spec::Random(random(Arrivals::Uniform)?.at_most(50)?)),
        ("random constant", Spec::Random(random(Arrivals::Constant)?.times(micro, SimTime::from_micros(50))?)),
        ("list", Spec::List(list)),
        ("incast", Spec::Rounds(incast)),
        ("incasts", Spec::Incasts(incasts.jitter(SimTime::from_micros(2))?.at_most(9)?)),
        ("shuffle", Spec::Shuffle(Shuffle::new(hosts.clone(), 777, 2, Order::Random, micro)?)),
        ("barrier", Spec::Rounds(barrier)),
        ("requests closed", Spec::Requests(ask(closed)?.at_most(40)?)),
        ("requests open", Spec::Requests(ask(open)?.at_most(40)?)),
    ])
}

/// All flows on a network in which a flow takes a nanosecond per byte, but at most a millisecond.
fn run(spec: &Spec, seed: u64) -> Vec<FlowStart> {
    let mut workload = Workload::new(spec, seed);
    let (mut flows, mut ends): (Vec<FlowStart>, BTreeSet<(SimTime, u64)>) = Default::default();
    loop {
        let end = ends.first().copied();
        match (workload.next(), end) {
            (Some(at), end) if end.is_none_or(|(ends, _)| at <= ends) => {
                while let Some(flow) = workload.poll(at) {
                    ends.insert((at + SimTime::from_nanos(flow.bytes.min(1_000_000)), flow.tag));
                    flows.push(flow);
                }
            }
            (_, Some((at, tag))) => {
                ends.remove(&(at, tag));
                workload.on_finished(at, tag);
            }
            (_, None) => break,
        }
    }
    assert!(workload.is_finite());
    assert!(workload.expected().is_none_or(|expected| expected == flows.len() as u64));
    flows
}

#[test]
fn the_same_seed_gives_the_same_flows_for_ever() {
    let mut report = String::new();
    for (name, spec) in specs().expect("valid workloads") {
        let flows = run(&spec, 42);
        assert_eq!(run(&spec, 42), flows, "{name}");
        // Lists, and rounds without jitter, draw nothing.
        let drawn = !["list", "barrier"].contains(&name);
        assert_eq!(run(&spec, 43) != flows, drawn, "{name}");
        let tags: BTreeSet<u64> = flows.iter().map(|flow| flow.tag).collect();
        assert_eq!(tags.len(), flows.len(), "{name}: tags are unique");
        writeln!(report, "{name}: {} flows", flows.len()).expect("text");
        for flow in flows.iter().take(5).chain(flows.last()) {
            let deadline = flow.deadline.map(|at| format!(" by {at}")).unwrap_or_default();
            let FlowStart { at, from, to, bytes, tag, .. } = flow;
            writeln!(report, "  {at} #{tag} {} -> {} {bytes} B{deadline}", from.0, to.0).expect("text");
        }
    }
    insta::assert_snapshot!(report);
}
