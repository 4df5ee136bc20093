//! Every reliable transport over networks that lose, reorder, double and mark: all data is
//! delivered once and in order, and the flow ends. The checks are in [`support::World`].

mod support;

use proptest::prelude::*;
use support::{Network, World};
use weir_transport::{Parameters, cubic, d3, dctcp, newreno, pfabric, tcp};
use weir_units::SimTime;

const PERFECT: Network = Network {
    seed: 1,
    delay: SimTime::from_micros(10),
    jitter: SimTime::ZERO,
    lost: 0,
    every: 0,
    doubled: 0,
    marked: 0,
};

fn reliable() -> Vec<Parameters> {
    // Short timeouts, so that lossy runs are about the window and not about waiting.
    let tcp = tcp::Parameters { min_rto: SimTime::from_millis(1), ..tcp::Parameters::default() };
    vec![
        Parameters::default(),
        Parameters::NewReno(newreno::Parameters { tcp: tcp.clone() }),
        Parameters::Cubic(cubic::Parameters { tcp: tcp.clone(), ..cubic::Parameters::default() }),
        Parameters::Dctcp(dctcp::Parameters { tcp, ..dctcp::Parameters::default() }),
        Parameters::D3(d3::Parameters::default()),
        Parameters::PFabric(pfabric::Parameters::default()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn everything_arrives_once_and_in_order(
        seed in any::<u64>(),
        bytes in prop_oneof![0u64..5_000, 0u64..300_000],
        jitter in prop_oneof![Just(0u64), 0u64..50],
        lost in prop_oneof![Just(0u64), 0u64..50, 0u64..300],
        doubled in prop_oneof![Just(0u64), 0u64..100],
        marked in prop_oneof![Just(0u64), 0u64..1000],
        delayed_ack in 1u32..5,
        dup_thresh in prop_oneof![Just(3u32), 1u32..10, Just(1 << 20)],
    ) {
        let network = Network { seed, jitter: SimTime::from_micros(jitter), lost, doubled, marked, ..PERFECT };
        for mut parameters in reliable() {
            if let Parameters::NewReno(newreno::Parameters { tcp })
            | Parameters::Dctcp(dctcp::Parameters { tcp, .. }) = &mut parameters
            {
                (tcp.delayed_ack, tcp.dup_thresh) = (delayed_ack, dup_thresh);
            }
            let outcome = World::new(&parameters, bytes, network).run();
            prop_assert!(outcome.packets >= bytes.div_ceil(1000));
        }
    }
}

/// On a perfect network nothing is repeated and no timeout occurs.
#[test]
fn a_perfect_network_repeats_nothing() {
    for parameters in reliable() {
        let outcome = World::new(&parameters, 1_000_000, PERFECT).run();
        assert_eq!((outcome.again, outcome.timeouts), (0, 0), "{}", parameters.protocol());
    }
}

/// The same seed gives the same run.
#[test]
fn runs_are_repeatable() {
    let network = Network { lost: 20, doubled: 20, marked: 100, jitter: SimTime::from_micros(5), ..PERFECT };
    for parameters in reliable() {
        let run = || World::new(&parameters, 1_000_000, network).run();
        assert_eq!(run(), run());
    }
}

/// A light loss is repaired without waiting for the timer, with few unneeded repetitions.
#[test]
fn selective_acknowledgements_repeat_only_losses() {
    let network = Network { lost: 5, ..PERFECT };
    let outcome = World::new(&Parameters::default(), 10_000_000, network).run();
    // Of 10,000 packets 0.5 % are lost: 50, give or take three standard deviations of 7.
    assert!((29..=71).contains(&outcome.again), "{outcome:?}");
}

/// Reordering by more than a few packets is taken for loss, unless the threshold is raised.
#[test]
fn reordering_looks_like_loss_to_a_low_threshold() {
    let network = Network { jitter: SimTime::from_micros(20), ..PERFECT };
    let again = |dup_thresh| {
        let tcp = tcp::Parameters { dup_thresh, ..tcp::Parameters::default() };
        World::new(&Parameters::NewReno(newreno::Parameters { tcp }), 1_000_000, network).run().again
    };
    assert!(again(3) > 10, "{}", again(3));
    assert_eq!(again(1 << 20), 0);
}

/// TCP acknowledges every second packet, pFabric each.
#[test]
fn delayed_acknowledgements_are_half_as_many() {
    let outcome = World::new(&Parameters::default(), 1_000_000, PERFECT).run();
    assert_eq!((outcome.packets, outcome.acknowledgements), (1000, 500));
    let each = World::new(&Parameters::PFabric(pfabric::Parameters::default()), 1_000_000, PERFECT).run();
    assert_eq!((each.packets, each.acknowledgements), (1000, 1000));
}
