//! Pairs of flows, closed loops, open loops.

use super::*;
use crate::Rng;
use crate::test_support::{Life, drive, hosts};
use crate::{Spec, Workload};
use proptest::prelude::{ProptestConfig, Strategy as _, prop, prop_assert, prop_assert_eq, proptest};

fn sizes() -> SizeDistribution {
    SizeDistribution::uniform(1000, 9000).expect("a range")
}

fn closed(outstanding: u32, think: Think) -> Requests {
    Requests::new(hosts(0..4), hosts(4..9), 100, sizes(), RequestLoop::Closed { outstanding, think }).expect("requests")
}

fn run(spec: &Requests, seed: u64, takes: impl FnMut(&FlowStart) -> SimTime) -> Vec<Life> {
    drive(&mut Workload::new(&Spec::Requests(spec.clone()), seed), usize::MAX, takes)
}

/// Request and response of each number.
fn pairs(lives: &[Life]) -> Vec<(Life, Life)> {
    let mut sorted = lives.to_vec();
    sorted.sort_unstable_by_key(|life| life.start.tag);
    assert!(sorted.iter().map(|life| life.start.tag).eq(0..lives.len() as u64));
    sorted.chunks(2).map(|pair| (pair[0], pair[1])).collect()
}

#[test]
fn responses_start_when_requests_arrive() {
    let spec = closed(2, Think::Constant(SimTime::from_micros(7))).at_most(100).expect("requests");
    let mut workload = Workload::new(&Spec::Requests(spec), 3);
    assert_eq!((workload.expected(), workload.is_finite()), (Some(200), true));
    let lives = drive(&mut workload, usize::MAX, |flow| SimTime::from_nanos(100 + flow.bytes));
    assert_eq!((lives.len(), workload.next(), workload.coflow(9).map(|coflow| coflow.id)), (200, None, Some(4)));
    let pairs = pairs(&lives);
    for (request, response) in &pairs {
        assert_eq!((request.start.from, request.start.to), (response.start.to, response.start.from));
        assert!(request.start.from.0 < 4 && (4..9).contains(&request.start.to.0));
        assert_eq!(response.start.at, request.end);
        assert!(request.start.bytes == 100 && (1000..=9000).contains(&response.start.bytes));
    }
    // Every request but the first two of each client starts 7 µs after a response to the same
    // client ended.
    for (request, _) in &pairs[8..] {
        let follows =
            |life: &Life| life.start.to == request.start.from && life.end + SimTime::from_micros(7) == request.start.at;
        assert!(pairs.iter().any(|(_, response)| follows(response)));
    }
    assert!(pairs[..8].iter().all(|(request, _)| request.start.at == SimTime::from_micros(7)));
}

#[test]
fn without_think_times_the_outstanding_stay_the_same() {
    let spec = closed(5, Think::Constant(SimTime::ZERO)).at_most(1000).expect("requests");
    let mut rng = Rng::stream(0, 7);
    let pairs = pairs(&run(&spec, 3, |_| SimTime::from_nanos(1 + rng.below(1000))));
    for (request, _) in &pairs[..900] {
        let now = request.start.at;
        let under_way = pairs.iter().filter(|(request, response)| request.start.at <= now && response.end > now);
        assert_eq!(under_way.count(), 20);
    }
}

#[test]
fn dormant_clients_pause_after_half_of_their_responses_and_a_quarter_of_the_longest_pause_on_average() {
    let most = SimTime::from_micros(1000);
    let spec = closed(1, Think::Dormant(most)).at_most(4000).expect("requests");
    let pairs = pairs(&run(&spec, 5, |_| SimTime::from_nanos(1)));
    let mut last: BTreeMap<MachineId, SimTime> = BTreeMap::new();
    let mut pauses = Vec::new();
    for (request, response) in &pairs {
        if let Some(before) = last.insert(request.start.from, response.end) {
            pauses.push(request.start.at - before);
        }
    }
    let active = pauses.iter().filter(|pause| **pause == SimTime::ZERO).count();
    // Binomial: the standard deviation of 3,996 pauses is 32.
    assert!((1998 - 130..1998 + 130).contains(&active), "{active} of {}", pauses.len());
    assert!(pauses.iter().all(|pause| *pause <= most));
    let mean = pauses.iter().map(|pause| pause.picos()).sum::<u64>() / pauses.len() as u64;
    // A quarter of `most`, whose mean has a standard deviation of 5 µs.
    assert!((230_000_000..270_000_000).contains(&mean), "{mean} ps");
}

/// QShare §VII-A2: of N independent pairs that are each active half of the time, none is with the probability (1/2)^N.
#[test]
fn independent_clients_are_all_dormant_for_a_part_of_the_time_that_halves_with_each() {
    let most = SimTime::from_micros(1000);
    // As long as the mean pause, so that a client is active half of the time.
    let takes = |flow: &FlowStart| if flow.bytes == 100 { SimTime::from_picos(1) } else { SimTime::from_micros(250) };
    for clients in 1..=4_u32 {
        let driven = RequestLoop::Closed { outstanding: 1, think: Think::Dormant(most) };
        let spec = Requests::new(hosts(0..clients), hosts(4..9), 100, sizes(), driven).expect("requests");
        let lives = run(&spec.at_most(20_000 * u64::from(clients)).expect("requests"), 11, takes);
        // All clients have about as many requests, so the end, where few are left, is cut off.
        let until = lives.iter().map(|life| life.end).max().expect("lives").picos() / 10 * 9;
        let mut edges: Vec<(u64, i32)> = lives
            .iter()
            .flat_map(|life| [(life.start.at.picos().min(until), 1), (life.end.picos().min(until), -1)])
            .collect();
        edges.sort_unstable();
        let (mut under_way, mut since, mut idle) = (0, 0, 0);
        for (at, change) in edges {
            if under_way == 0 {
                idle += at - since;
            }
            (under_way, since) = (under_way + change, at);
        }
        let (part, expected) = (idle as f64 / until as f64, 0.5_f64.powi(clients as i32));
        assert!((part / expected - 1.0).abs() < 0.05, "{clients}: {part} of {expected}");
    }
}

#[test]
fn a_client_is_independent_of_other_clients() {
    let spec = closed(1, Think::Exponential(SimTime::from_micros(50))).at_most(4000).expect("requests");
    let asked = |slow: u64| -> Vec<_> {
        let takes = |flow: &FlowStart| {
            let other = flow.from != MachineId(0) && flow.to != MachineId(0);
            SimTime::from_nanos(if other { slow } else { 500 })
        };
        let pairs = pairs(&run(&spec, 3, takes));
        let own = pairs.iter().filter(|(request, _)| request.start.from == MachineId(0));
        own.map(|(request, response)| (request.start.at, request.start.to, response.start.bytes)).collect()
    };
    let (fast, slow) = (asked(100), asked(10_000));
    let both = fast.len().min(slow.len());
    assert!(both > 500);
    assert_eq!(fast[..both], slow[..both]);
}

#[test]
fn think_times_have_their_mean() {
    let spec = closed(1, Think::Exponential(SimTime::from_micros(50))).at_most(40_000).expect("requests");
    let pairs = pairs(&run(&spec, 3, |_| SimTime::from_nanos(500)));
    // The only time besides 1 µs of flows is the think time: a client's requests start every 51 µs.
    let last = pairs.iter().map(|(request, _)| request.start.at).max().expect("requests");
    let rate = 40_000.0 / last.picos() as f64;
    let expected = 4.0 / 51e6;
    // 40,000 think times of a relative spread of one.
    assert!((rate / expected - 1.0).abs() < 4.0 / 200.0, "{rate} {expected}");
}

#[test]
fn open_requests_arrive_independently() {
    let gap = MeanGap::from_picos(1e6).expect("a gap");
    let driven = RequestLoop::Open { arrivals: Arrivals::Constant, gap };
    let spec = Requests::new(hosts(0..4), hosts(0..4), 100, sizes(), driven)
        .and_then(|spec| spec.times(SimTime::ZERO, SimTime::from_millis(10)))
        .expect("requests");
    let mut workload = Workload::new(&Spec::Requests(spec.clone()), 1);
    assert_eq!((workload.expected(), workload.is_finite()), (None, true));
    // Responses take longer than the whole run, and requests continue.
    let lives = drive(&mut workload, usize::MAX, |_| SimTime::from_millis(20));
    let pairs = pairs(&lives);
    assert_eq!(pairs.len(), 9_999);
    let mut seen = [0_u32; 4];
    for (i, (request, _)) in pairs.iter().enumerate() {
        assert_eq!(request.start.at, SimTime::from_micros(i as u64 + 1));
        seen[request.start.from.index()] += 1;
    }
    // A quarter each, standard error √(n·3/16) = 43.3.
    assert!(seen.iter().all(|count| count.abs_diff(2500) < 4 * 44), "{seen:?}");
}

#[test]
fn invalid_workloads_are_refused() {
    let think = Think::Constant(SimTime::ZERO);
    let new = |clients, servers, request, outstanding| {
        Requests::new(clients, servers, request, sizes(), RequestLoop::Closed { outstanding, think })
    };
    assert!(new(hosts(0..3), hosts(2..3), 1, 1).is_err());
    assert!(new(hosts(0..3), hosts(3..4), 0, 1).is_err());
    assert!(new(hosts(0..3), hosts(3..4), 1, 0).is_err());
    let spec = new(hosts(0..3), hosts(3..4), 1, 1).expect("requests");
    assert!(spec.clone().at_most(0).is_err() && spec.clone().at_most(u64::MAX).is_err());
    assert!(spec.times(SimTime::from_secs(1), SimTime::ZERO).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_client_never_has_more_under_way(
        outstanding in 1_u32..4,
        think in prop::sample::select(vec![Think::Constant, Think::Exponential])
            .prop_flat_map(|think| (0_u64..500).prop_map(move |nanos| think(SimTime::from_nanos(nanos)))),
        seed in 0_u64..,
    ) {
        let spec = closed(outstanding, think).at_most(200).expect("requests");
        let mut rng = Rng::stream(seed, 7);
        let lives = run(&spec, seed, |_| SimTime::from_nanos(rng.below(1000)));
        prop_assert_eq!(lives.len(), 400);
        let pairs = pairs(&lives);
        for (request, _) in &pairs {
            let (client, now) = (request.start.from, request.start.at);
            let under_way = pairs.iter().filter(|(request, response)| {
                request.start.from == client && request.start.at <= now && response.end > now
            });
            prop_assert!(under_way.count() <= outstanding as usize);
        }
    }
}
