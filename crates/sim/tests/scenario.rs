//! Whole scenarios with brokers, from their files.

use std::ops::ControlFlow;
use weir_scenario::Scenario;
use weir_sim::{Options, RunOutcome, simulate};
use weir_units::{Bandwidth, Duration, ServiceId};

const CHECKED: fn() -> Options = || Options { check: true, ..Options::default() };

fn scenario(name: &str) -> Scenario {
    let path = format!("{}/../../scenarios/{name}.scenario.yaml", env!("CARGO_MANIFEST_DIR"));
    Scenario::read(path).expect("the scenario is valid").0
}

fn run(scenario: &Scenario, seed: u64, options: Options) -> RunOutcome {
    simulate(scenario, seed, &options, &mut |_| ControlFlow::Continue(())).expect("the scenario runs")
}

fn mean(outcome: &RunOutcome, service: ServiceId, from: u64, to: u64) -> Bandwidth {
    let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
    outcome.result.mean(service, from, to).expect("there are samples")
}

/// Parley Fig 14: A has its maximum alone, both share the cap evenly, B has the cap alone.
#[test]
fn parley_fig_14() {
    let scenario = scenario("parley-fig14");
    let service = |name| scenario.policy().services().named(name).expect("a service");
    let (a, b) = (service("a"), service("b"));
    for seed in [1, 2] {
        let outcome = run(&scenario, seed, CHECKED());
        assert_eq!(outcome.result.samples.len(), 60);
        // The first seconds of a phase are the brokers' reaction: usage is told, then limits are set.
        for (what, service, from, to, expected) in [
            ("a alone", a, 4, 20, 300),
            ("a with b", a, 26, 40, 300),
            ("b with a", b, 26, 40, 300),
            ("b alone", b, 46, 60, 600),
        ] {
            let got = mean(&outcome, service, from, to).bps() as f64 / 1e6;
            let error = (got / f64::from(expected) - 1.0).abs();
            assert!(error < 0.05, "seed {seed}, {what}: {got:.1} Mb/s instead of {expected}");
        }
        let exchange = outcome.statistics.brokers;
        assert!(exchange.received > 60 * 20 * 9 * 9 / 10 && exchange.refused == 0, "{exchange:?}");
    }
}

#[test]
fn the_seed_decides_everything() {
    let scenario = scenario("parley-fig14");
    let ten_seconds = |seed| {
        let stop = Duration::from_secs(3);
        let progress = &mut |progress: weir_sim::Progress<'_>| {
            if progress.at >= stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        format!("{:?}", simulate(&scenario, seed, &CHECKED(), progress).expect("the scenario runs"))
    };
    let first = ten_seconds(7);
    assert!(first.contains("interrupted: true"));
    assert_eq!(first, ten_seconds(7));
    assert_ne!(first, ten_seconds(8));
}
