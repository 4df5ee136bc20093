//! What a scenario has because it runs under a policy: what enforces it, how fast, and what happens to it.

use crate::model::{Application, Links, Measure, ServiceTransfers};
use std::path::PathBuf;
use std::sync::Arc;
use weir_policy::Policy;
use weir_units::{Bytes, Duration, MachineId};

/// What a scenario has because it runs under a policy.
#[derive(Debug, Clone)]
pub struct Governed {
    /// The policy, already valid.
    pub policy: Arc<Policy>,
    /// The file that the policy came from.
    pub policy_path: PathBuf,
    /// What enforces the policy.
    pub enforcement: Enforcement,
    /// What machine shapers do where the policy does not say.
    pub shaper: ShaperSettings,
    /// How brokers are timed.
    pub brokers: BrokerSettings,
    /// What happens to the policy and to what enforces it, by time; in file order where times are equal.
    pub events: Vec<ControlEvent>,
    /// The links that the policy does not speak about.
    pub links: Links,
    /// The services' long-lived transfers, in file order.
    pub transfers: Vec<ServiceTransfers>,
    /// What real servers and clients do, in file order; the lab alone has them.
    pub applications: Vec<Application>,
    /// The measured rack.
    pub measure: Measure,
}

/// From when on switches' queues mark where a scenario does not say and machine shapers hear of it (Parley, Table 1).
pub const MARK: Bytes = Bytes::new(80_000);

/// What enforces the policy during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// Nothing: the transport shares the links as it would without Weir.
    None,
    /// Machine shapers alone: what the policy says about machines.
    Shaper,
    /// Machine shapers as EyeQ has them, with its constants; no brokers.
    EyeQ,
    /// Machine shapers with rack brokers, and with the fabric broker where the policy speaks of the fabric (the default).
    #[default]
    Parley,
}

impl Enforcement {
    /// Its word in scenarios and results.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shaper => "shaper",
            Self::EyeQ => "eyeq",
            Self::Parley => "parley",
        }
    }
}

/// What machine shapers do for services whose own `shaper` in the policy does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShaperSettings {
    /// The interval over which receive meters measure, more than zero; `None` for that of the enforcement.
    pub interval: Option<Duration>,
    /// What a limiter lets through at once after a pause; `None` for that of the enforcement.
    pub burst: Option<Bytes>,
}

/// How brokers are timed, and where the fabric broker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerSettings {
    /// T_rack: how often usage is measured, told and allocated in a rack; at least a millisecond.
    pub period: Duration,
    /// How long without a word from anyone before a machine returns to the static policy; not shorter than the period.
    pub timeout: Duration,
    /// How often racks and the fabric broker talk; not shorter than the period.
    pub fabric_period: Duration,
    /// How long without a word from the fabric broker before a rack forgets its limits; not shorter than the fabric's
    /// period.
    pub fabric_timeout: Duration,
    /// What becomes of the last word of a machine that fell silent.
    pub stale: Stale,
    /// The machine that the fabric broker runs on.
    pub fabric: MachineId,
}

impl Default for BrokerSettings {
    /// Parley, Table 1 and section 5.2: 1 s and 5 s in a rack, 10 s and 50 s for the fabric. On the first machine.
    fn default() -> Self {
        Self {
            period: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            fabric_period: Duration::from_secs(10),
            fabric_timeout: Duration::from_secs(50),
            stale: Stale::Keep,
            fabric: MachineId(0),
        }
    }
}

/// What becomes of the last word of a machine that fell silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stale {
    /// It stays (the default).
    #[default]
    Keep,
    /// It is forgotten after the timeout.
    Forget,
}

/// Something that happens to the policy or to what enforces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlEvent {
    /// When, since the start; not after the end.
    pub at: Duration,
    /// What happens.
    pub change: ControlChange,
}

/// What happens to the policy or to what enforces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlChange {
    /// All receive meters measure over this interval from then on; more than zero.
    ShaperInterval(Duration),
    /// This is the policy from then on: the same network and services as before, and valid.
    Policy(PolicyChange),
    /// These brokers end and forget everything.
    Crash(BrokerSet),
    /// These brokers begin again and know nothing but the limits in force, if those have not ended, whether they had crashed or not.
    Restart(BrokerSet),
}

/// A policy that replaces the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyChange {
    /// What was set: a path in the policy's file, `=` and a value.
    pub setting: String,
    /// The policy with all changes until then.
    pub policy: Arc<Policy>,
}

/// Brokers that something happens to, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerSet {
    /// The machines whose rack brokers are meant, ascending.
    pub machines: Vec<MachineId>,
    /// Whether the fabric broker is meant.
    pub fabric: bool,
}
