//! The options that a seed draws: the policy, the faults and their frequency.

use crate::network::Marks;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::sync::Arc;
use weir_control::{LimitRule, RackBrokerConfig, Stale};
use weir_policy::Policy;

/// Machines of the rack.
pub(crate) const MACHINES: usize = 10;
/// Seconds during which faults happen; after that the world has none.
pub(crate) const FAULTY_SECONDS: u64 = 30;

/// The options of one run.
pub(crate) struct Drawn {
    pub(crate) policy_number: usize,
    pub(crate) stale: Stale,
    /// Probability that a datagram is lost.
    pub(crate) loss: f64,
    /// Probability that a datagram arrives twice.
    pub(crate) duplication: f64,
    /// Probability that a copy with a bit altered arrives as well.
    pub(crate) alteration: f64,
    /// Probability, for each datagram sent, that an old one is replayed to a machine.
    pub(crate) replay: f64,
    /// The longest delay of a datagram in milliseconds; delays are uniform, so datagrams are
    /// reordered.
    pub(crate) delay_ms: u64,
    /// Mean seconds between crashes in the rack; none when zero.
    pub(crate) crash_every_s: u64,
    /// Mean seconds between partitions; none when zero.
    pub(crate) partition_every_s: u64,
    /// The largest deviation of a clock's speed in parts per thousand.
    pub(crate) skew_per_mille: u64,
    /// Mean milliseconds between changes of an offered load.
    pub(crate) load_every_ms: u64,
    pub(crate) marks: Marks,
    pub(crate) rule: LimitRule,
    /// Probability that a restart finds a lower epoch than the last one.
    pub(crate) state_lost: f64,
}

impl Drawn {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let sometimes =
            |rng: &mut SmallRng, most: f64| if rng.random_bool(0.6) { rng.random_range(0.0..most) } else { 0.0 };
        Self {
            policy_number: rng.random_range(0..POLICIES.len()),
            stale: if rng.random_bool(0.5) { Stale::Keep } else { Stale::Forget },
            loss: sometimes(&mut rng, 0.5),
            duplication: sometimes(&mut rng, 0.3),
            alteration: sometimes(&mut rng, 0.2),
            replay: sometimes(&mut rng, 0.3),
            delay_ms: [1, 20, 400, 3_000][rng.random_range(0..4)],
            crash_every_s: [0, 2, 6][rng.random_range(0..3)],
            partition_every_s: [0, 4, 10][rng.random_range(0..3)],
            skew_per_mille: [0, 1, 20][rng.random_range(0..3)],
            load_every_ms: [100, 1_000, 10_000][rng.random_range(0..3)],
            marks: Marks::draw(&mut rng),
            // Not drawn: the worlds of even seeds are those from before there were two rules.
            rule: if seed.is_multiple_of(2) { LimitRule::Backlogged } else { LimitRule::Ceilings },
            state_lost: state_lost(seed),
        }
    }

    /// The rule of limits with its intervals: those of the paper, or those of this version's agent.
    pub(crate) fn config(&self) -> RackBrokerConfig {
        let config = match self.rule {
            LimitRule::Backlogged => RackBrokerConfig::published(),
            LimitRule::Ceilings => RackBrokerConfig::default(),
        };
        RackBrokerConfig { stale: self.stale, ..config }
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        let text = POLICIES[self.policy_number];
        Arc::new(Policy::parse("drawn.yaml", text).expect("the policies of the fault world are valid").0)
    }
}

/// In half of the worlds none. Drawn on its own, so that earlier seeds keep the rest of their worlds.
pub(crate) fn state_lost(seed: u64) -> f64 {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x10_5e);
    if rng.random_bool(0.5) { 0.0 } else { rng.random_range(0.2..1.0) }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "drawn: policy {}, stale {:?}, loss {:.2}, duplication {:.2}, alteration {:.2}, replay {:.2}, delay up to \
             {} ms, crash every {} s, partition every {} s, clocks ±{} ‰, load changes every {} ms, {}, {:?}, lower \
              epochs {:.2}",
            self.policy_number,
            self.stale,
            self.loss,
            self.duplication,
            self.alteration,
            self.replay,
            self.delay_ms,
            self.crash_every_s,
            self.partition_every_s,
            self.skew_per_mille,
            self.load_every_ms,
            self.marks,
            self.rule,
            self.state_lost,
        )
    }
}

/// Parley Fig 14, a nested policy, and one in which machines' interfaces limit as well.
const POLICIES: [&str; 3] = [
    r#"
weir: 1
sharing: fill
network: { nic: 10Gb/s, racks: { r: { uplink: 80Gb/s, machines: ["m[1-10]"] } } }
services:
  a: { match: [ { protocol: tcp, port: 1 } ], rack: { max: 30Gb/s } }
  b: { match: [ { protocol: tcp, port: 2 } ], rack: { min: 30Gb/s } }
caps: { rack: 60Gb/s }
"#,
    r#"
weir: 1
network: { nic: 10Gb/s, racks: { r: { uplink: 50Gb/s, machines: ["m[1-10]"] } } }
services:
  dfs: { match: [ { protocol: tcp, port: 1 } ], rack: { min: 30Gb/s, weight: 2 } }
  rest:
    rack: { max: 10Gb/s }
    services:
      vm: { match: [ { protocol: tcp, port: 2 } ], rack: { weight: 3 } }
      mr: { match: [ { protocol: tcp, port: 3 } ] }
"#,
    r#"
weir: 1
network: { nic: 4Gb/s, racks: { r: { uplink: {tx: 20Gb/s, rx: 30Gb/s}, machines: ["m[1-10]"] } } }
services:
  a: { match: [ { protocol: tcp, port: 1 } ], machine: { max: 1Gb/s }, rack: { min: 5Gb/s } }
  b: { match: [ { protocol: tcp, port: 2 } ], machine: { min: 1Gb/s, weight: 2 }, rack: { min: 5Gb/s, weight: 2 } }
  c: { match: [ { protocol: tcp, port: 3 } ], rack: { weight: 0.5 } }
"#,
];
