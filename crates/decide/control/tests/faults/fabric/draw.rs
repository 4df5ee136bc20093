//! The options that a seed draws.

use crate::network::Marks;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::sync::Arc;
use weir_control::Stale;
use weir_policy::Policy;

/// Racks of the fabric, and machines of each.
pub(crate) const RACKS: usize = 3;
pub(crate) const PER_RACK: usize = 3;
pub(crate) const MACHINES: usize = RACKS * PER_RACK;
/// Seconds during which faults happen: enough for the fabric's limits to expire and return.
pub(crate) const FAULTY_SECONDS: u64 = 100;

/// The options of one run.
pub(crate) struct Drawn {
    policy_number: usize,
    pub(crate) stale: Stale,
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
    /// Probability, for each datagram sent, that an old one is replayed to a node.
    pub(crate) replay: f64,
    /// The longest delay of a datagram in milliseconds.
    pub(crate) delay_ms: u64,
    /// Mean seconds between crashes of machines' brokers; none when zero.
    pub(crate) crash_every_s: u64,
    /// Mean seconds between crashes of the fabric broker; none when zero.
    pub(crate) fabric_crash_every_s: u64,
    /// Mean seconds of its absence.
    pub(crate) fabric_away_s: u64,
    pub(crate) partition_every_s: u64,
    pub(crate) skew_per_mille: u64,
    pub(crate) load_every_ms: u64,
    pub(crate) marks: Marks,
    /// Machines whose datagrams never reach the fabric broker, nor its own them; never all of a rack.
    pub(crate) shut_out: [bool; MACHINES],
    /// Whether those have no session, by machine.
    pub(crate) without_session: [bool; MACHINES],
    /// Mean seconds between times at which further machines cannot reach the fabric broker for a while; none when zero.
    pub(crate) shut_out_every_s: u64,
    /// Probability that a restart finds a lower epoch than the last one.
    pub(crate) state_lost: f64,
}

impl Drawn {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed ^ 0xfab);
        // On its own, so that earlier seeds keep the rest of their worlds.
        let mut reach_rng = SmallRng::seed_from_u64(seed ^ 0x4eac4);
        let sometimes =
            |rng: &mut SmallRng, most: f64| if rng.random_bool(0.6) { rng.random_range(0.0..most) } else { 0.0 };
        Self {
            policy_number: rng.random_range(0..POLICIES.len()),
            stale: if rng.random_bool(0.5) { Stale::Keep } else { Stale::Forget },
            loss: sometimes(&mut rng, 0.4),
            duplication: sometimes(&mut rng, 0.3),
            replay: sometimes(&mut rng, 0.2),
            delay_ms: [1, 20, 400, 3_000][rng.random_range(0..4)],
            crash_every_s: [0, 3, 10][rng.random_range(0..3)],
            fabric_crash_every_s: [0, 20, 60][rng.random_range(0..3)],
            fabric_away_s: [2, 15, 60][rng.random_range(0..3)],
            partition_every_s: [0, 8, 30][rng.random_range(0..3)],
            skew_per_mille: [0, 1, 20][rng.random_range(0..3)],
            load_every_ms: [300, 3_000, 30_000][rng.random_range(0..3)],
            marks: Marks::draw(&mut rng),
            shut_out: shut_out(seed),
            without_session: [false; MACHINES].map(|_| reach_rng.random_bool(0.3)),
            shut_out_every_s: [0, 15, 40][reach_rng.random_range(0..3)],
            state_lost: crate::draw::state_lost(seed ^ 0xfab),
        }
    }

    /// The most seconds for which elections of leaders are later than in a rack whose first machine reaches the fabric
    /// broker: three quarters of a period of 10 s by a clock that runs 2 % slow, and a rack's period, for each machine
    /// that leads before.
    pub(crate) fn later_by_s(&self) -> u64 {
        let before = |rack: &[bool]| rack.iter().take_while(|shut_out| **shut_out).count() as u64;
        self.shut_out.chunks(PER_RACK).map(before).max().unwrap_or(0) * 9
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        let text = POLICIES[self.policy_number];
        Arc::new(Policy::parse("drawn.yaml", text).expect("the policies of the fault world are valid").0)
    }
}

/// In half of the worlds none. Drawn on its own, so that earlier seeds keep the rest of their worlds.
fn shut_out(seed: u64) -> [bool; MACHINES] {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x5407);
    let often = if rng.random_bool(0.5) { 0.0 } else { 0.4 };
    let mut shut_out = [false; MACHINES].map(|_| rng.random_bool(often));
    for rack in shut_out.chunks_mut(PER_RACK) {
        rack[PER_RACK - 1] &= !rack.iter().all(|shut_out| *shut_out);
    }
    shut_out
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |is: fn(&Self, usize) -> bool| -> Vec<String> {
            (0..MACHINES).filter(|machine| is(self, *machine)).map(super::world::name).collect()
        };
        write!(
            f,
            "drawn: policy {}, stale {:?}, loss {:.2}, duplication {:.2}, replay {:.2}, delay up to {} ms, crash every \
             {} s, fabric broker's every {} s for {} s, partition every {} s, clocks ±{} ‰, load changes every \
             {} ms, {}, shut out {:?}, without a session {:?}, others every {} s, lower epochs {:.2}",
            self.policy_number,
            self.stale,
            self.loss,
            self.duplication,
            self.replay,
            self.delay_ms,
            self.crash_every_s,
            self.fabric_crash_every_s,
            self.fabric_away_s,
            self.partition_every_s,
            self.skew_per_mille,
            self.load_every_ms,
            self.marks,
            names(|drawn, machine| drawn.shut_out[machine]),
            names(|drawn, machine| drawn.shut_out[machine] && drawn.without_session[machine]),
            self.shut_out_every_s,
            self.state_lost,
        )
    }
}

/// A maximum at the fabric alone; guarantees, weights and a cap; racks and fabric that both limit.
const POLICIES: [&str; 3] = [
    r#"
weir: 1
network:
  nic: 10Gb/s
  racks:
    r1: { uplink: 20Gb/s, machines: [m1, m2, m3] }
    r2: { uplink: 20Gb/s, machines: [m4, m5, m6] }
    r3: { uplink: 20Gb/s, machines: [m7, m8, m9] }
services:
  a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 5Gb/s } }
  b: { match: [ { protocol: tcp, port: 2 } ] }
"#,
    r#"
weir: 1
network:
  nic: 10Gb/s
  racks:
    r1: { uplink: 20Gb/s, machines: [m1, m2, m3] }
    r2: { uplink: 20Gb/s, machines: [m4, m5, m6] }
    r3: { uplink: 20Gb/s, machines: [m7, m8, m9] }
services:
  a: { match: [ { protocol: tcp, port: 1 } ], fabric: { min: 8Gb/s } }
  b: { match: [ { protocol: tcp, port: 2 } ], fabric: { min: 4Gb/s, weight: 2 } }
  c: { match: [ { protocol: tcp, port: 3 } ], fabric: { weight: 0.5 } }
caps: { fabric: 20Gb/s }
"#,
    r#"
weir: 1
sharing: fill
network:
  nic: 10Gb/s
  racks:
    r1: { uplink: 20Gb/s, machines: [m1, m2, m3] }
    r2: { uplink: 15Gb/s, machines: [m4, m5, m6] }
    r3: { uplink: { tx: 10Gb/s, rx: 30Gb/s }, machines: [m7, m8, m9] }
services:
  a: { match: [ { protocol: tcp, port: 1 } ], rack: { min: 4Gb/s }, fabric: { min: 10Gb/s, max: 14Gb/s } }
  b: { match: [ { protocol: tcp, port: 2 } ], rack: { max: 8Gb/s }, fabric: { max: 10Gb/s, weight: 3 } }
caps: { rack: 9Gb/s }
"#,
];
