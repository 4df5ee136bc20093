//! [`Port`]: one port of a forwarder: its start, its rounds, its status.
//!
//! A start has two parts. [`Port::open`] has the kernel verify the programs, which takes seconds; the state in force
//! stays as it is. [`Opened::start`] then writes rules and keys and attaches the programs, in tens of milliseconds. So
//! a switch opens all of its ports before the first one changes.
//!
//! A port that is opened without the state of an earlier daemon cannot compute A: it is closed for the longest lifetime
//! of a grant, and data that arrives meanwhile is not dropped. A port that adopts its maps continues. So does one
//! whose policy or keys are replaced ([`Port::renew`]): flows, grants and counters stay.

use crate::plan::{Plan, PlanError, PortRules};
use std::collections::BTreeMap;
use weir_control::wire::Keys;
use weir_credits::port_shares::{FlowState, PortShares, Round, WEIGHT_SCALE, divided};
use weir_credits::wire::CreditKey;
use weir_credits::{Allocation, Period, Published};
use weir_datapath::{CreditFlow as CreditFlowState, CreditPort, SipKey, abi};
use weir_linux::forwarder::{FlowKey, FlowReading, ForwarderPort};
use weir_linux::interface::{Interface, InterfaceError};
use weir_linux::loader::LoaderError;
use weir_linux::settings::FeedbackKey;
use weir_status::{CreditFlow, PortCredits};
use weir_units::{Bandwidth, Bytes, Duration, Instant, Weight};

/// A port cannot be opened, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// There is no such interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The kernel's part.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// The policy's filters.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A longest period with another wheel of grants.
    #[error("the longest period is another one, by which this port's grants are recorded")]
    Period,
}

/// A port. See the module's documentation.
#[derive(Debug)]
pub struct Port {
    name: String,
    kernel: ForwarderPort,
    /// With the values of the last round.
    online: CreditPort,
    shares: PortShares<FlowKey>,
    published: Published,
    closed_until: Instant,
    /// The services with credits, by number.
    services: BTreeMap<u32, String>,
}

/// A port whose programs the kernel has verified, and which has not changed yet. A drop leaves the state of an earlier
/// daemon in force, adopted or not, and nothing else.
#[derive(Debug)]
pub struct Opened {
    name: String,
    kernel: ForwarderPort,
    rules: PortRules,
}

impl Opened {
    /// Puts the rules and keys in force, and attaches the programs. After an error adopted maps stay with their
    /// programs, perhaps with the new rules; maps that cannot be adopted stay too, but are removed if the error is of
    /// the attachment.
    pub fn start(self, keys: &Keys) -> Result<Port, PortError> {
        let Self { name, mut kernel, rules } = self;
        let mut online = rules.online;
        let now = ForwarderPort::now();
        let closed_until = if kernel.is_adopted() { kernel.closed_until()? } else { now + online.longest_lifetime() };
        online.close_until(closed_until);
        kernel.set_keys(&credit_keys(keys))?;
        kernel.set_rules(&rules.classifier, &rules.numbers)?;
        kernel.set_whole(rules.whole)?;
        let shares = PortShares::new(now, rules.offline, online.longest_lifetime());
        let longest = rules.offline.rule.least;
        let published = Published { per_weight: 0, rest: 0, period: longest, longest };
        let mut port = Port { name, kernel, online, shares, published, closed_until, services: rules.services };
        port.round()?;
        port.kernel.attach()?;
        Ok(port)
    }
}

impl Port {
    /// Loads the programs of the port of an interface. Several ports may be opened at a time, by threads.
    pub fn open(name: &str, rules: PortRules) -> Result<Opened, PortError> {
        let interface = Interface::named(name)?;
        let kernel = ForwarderPort::open(&interface, rules.online.rules().slot_bits)?;
        Ok(Opened { name: name.to_owned(), kernel, rules })
    }

    /// Opens and starts a port.
    pub fn start(name: &str, rules: PortRules, keys: &Keys) -> Result<Self, PortError> {
        Self::open(name, rules)?.start(keys)
    }

    /// Refuses rules that the port cannot take while it has grants.
    pub fn check(&self, rules: &PortRules) -> Result<(), PortError> {
        let is_same = rules.online.rules().slot_bits == self.online.rules().slot_bits;
        if is_same { Ok(()) } else { Err(PortError::Period) }
    }

    /// Replaces rules and keys without a gap; returns when the next round is due. After an error they may be in force
    /// in part: the caller renews the port by the old ones.
    pub fn renew(&mut self, rules: &PortRules, keys: &Keys) -> Result<Instant, PortError> {
        self.check(rules)?;
        self.kernel.set_keys(&credit_keys(keys))?;
        self.kernel.set_rules(&rules.classifier, &rules.numbers)?;
        self.kernel.set_whole(rules.whole)?;
        self.online = rules.online.clone();
        self.online.close_until(self.closed_until);
        self.shares.renew(ForwarderPort::now(), rules.offline);
        self.services.clone_from(&rules.services);
        self.round()
    }

    /// The interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the state of an earlier daemon was adopted.
    pub fn is_adopted(&self) -> bool {
        self.kernel.is_adopted()
    }

    /// Reads the flows and publishes their shares. Returns when the next round is due: a period of the port later.
    pub fn round(&mut self) -> Result<Instant, PortError> {
        let readings = self.kernel.flows()?;
        let flows: Vec<FlowState<FlowKey>> = readings.iter().map(state).collect();
        let now = ForwarderPort::now();
        let Round { published, pairs, forget } = self.shares.round(now, &flows);
        self.kernel.set_pairs(&pairs)?;
        self.online.publish(&published);
        self.kernel.publish(self.online.rules(), Plan::memory(published.longest))?;
        for key in &forget {
            self.kernel.forget(key)?;
        }
        self.published = published;
        Ok(now + published.period.duration())
    }

    /// Why the port does not work, if it does not.
    pub fn trouble(&self) -> Option<String> {
        match self.kernel.is_attached() {
            Ok(true) => None,
            Ok(false) => {
                Some("its programs are not attached: the interface is gone, or another program removed them".into())
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// The state of the port now.
    pub fn status(&self) -> Result<PortCredits, PortError> {
        let reading = self.kernel.read()?;
        let (credits, counts) = (reading.credits, reading.counts);
        let whole = u128::from(abi::CREDIT_WHOLE);
        let level =
            u128::from(self.published.per_weight) * u128::from(Weight::ONE.thousandths()) * u128::from(WEIGHT_SCALE);
        let billionths = |part: u128, whole: u128| u64::try_from((part * 1_000_000_000 / whole).min(1_000_000_000));
        Ok(PortCredits {
            rate_bps: self.online.rules().rate,
            lossless: self.online.rules().lossless != 0,
            closed: ForwarderPort::now() < self.closed_until,
            flows: self.shares.forwarder().flows() as u64,
            flows_expired: self.shares.forwarder().dropped(),
            period_us: self.published.period.micros().into(),
            longest_us: self.published.longest.micros().into(),
            level_billionths: billionths(level, whole).unwrap_or(u64::MAX),
            rest_billionths: billionths(self.published.rest.into(), 1 << 32).unwrap_or(u64::MAX),
            budget_bytes: self.shares.forwarder().budget(&self.published).get(),
            outstanding_bytes: reading.outstanding.get(),
            queued_bytes: reading.queued.get(),
            granted_bytes: credits.granted,
            arrived_bytes: credits.arrived,
            expired_bytes: credits.expired,
            released_bytes: credits.released,
            late_bytes: credits.late,
            late_packets: credits.late_packets,
            unaccounted_bytes: credits.unaccounted,
            rerouted_bytes: credits.rerouted,
            allocations: credits.allocations,
            allocations_duplicate: credits.duplicates,
            allocations_stale: credits.stale,
            allocations_astray: credits.astray,
            allocations_too_long: credits.too_long,
            allocations_ended: credits.ended,
            messages: counts.messages,
            messages_forged: counts.forged,
            messages_replayed: counts.replayed,
            messages_other_version: counts.other_version,
            messages_foreign: counts.foreign,
            messages_malformed: counts.malformed,
            messages_unknown_service: counts.unknown,
            flows_refused: counts.flows_full,
            dropped_packets: counts.dropped,
            rewrites_failed: counts.failed,
        })
    }

    /// The flows with shares now, those with the largest shares first; at most [`CreditFlow::MOST`].
    ///
    /// The kernel keeps allocations as they arrived. A copy of the port without grants reduces them by the values in
    /// force, as the kernel's program does while the port has room.
    pub fn flows(&self) -> Result<Vec<CreditFlow>, PortError> {
        let now = ForwarderPort::now();
        let readings = self.kernel.flows()?;
        let states = readings.iter().map(state);
        let live: Vec<(FlowState<FlowKey>, Allocation)> = states.filter_map(|flow| live(flow, now)).collect();
        let mut pairs: BTreeMap<u32, u32> = BTreeMap::new();
        live.iter().for_each(|(flow, _)| *pairs.entry(flow.service).or_default() += 1);
        let mut port = self.online.clone();
        let mut of = |(flow, arrived): &(FlowState<FlowKey>, Allocation)| {
            let weight = divided(arrived.weight, pairs[&flow.service]);
            let left = reduced(&mut port, &Allocation { weight, ..*arrived }, now);
            let service = self.services.get(&flow.service).cloned();
            let rate = |bytes, period: Period| Bandwidth::from_transfer(bytes, period.duration()).bps();
            CreditFlow {
                service: service.unwrap_or_else(|| format!("{:08x}", flow.service)),
                source: flow.key.source().to_string(),
                destination: flow.key.destination().to_string(),
                weight_thousandths: arrived.weight.thousandths().into(),
                share_bps: rate(left.allocation, left.period),
                demand_bps: rate(arrived.demand, arrived.period),
                held_by: if holds(arrived, &left) { "this port".to_owned() } else { "elsewhere".to_owned() },
            }
        };
        Ok(CreditFlow::largest(live.iter().map(&mut of).collect()))
    }

    /// Detaches the programs; packets pass without credits.
    pub fn remove(self) -> Result<(), PortError> {
        Ok(self.kernel.remove()?)
    }

    /// Removes what a daemon left at an interface; whether there was anything.
    pub fn remove_leftover(name: &str) -> Result<bool, PortError> {
        Ok(ForwarderPort::remove_leftover(&Interface::named(name)?)?)
    }
}

fn credit_keys(keys: &Keys) -> Vec<FeedbackKey> {
    let of = |key: CreditKey| FeedbackKey { id: key.number, key: SipKey::new(key.bytes) };
    keys.all().iter().map(|key| of(key.credits())).collect()
}

/// A flow with its newest allocation, unless it has ended or is silent for four of its periods.
fn live(flow: FlowState<FlowKey>, now: Instant) -> Option<(FlowState<FlowKey>, Allocation)> {
    let (at, arrived) = flow.arrived.filter(|_| !flow.ended)?;
    (now.saturating_since(at) <= arrived.longest.max(arrived.period).duration() * 4).then_some((flow, arrived))
}

/// An allocation after a port without grants.
fn reduced(port: &mut CreditPort, arrived: &Allocation, now: Instant) -> Allocation {
    let (mut flow, mut left) = (CreditFlowState::default(), *arrived);
    port.on_request(&mut flow, 0);
    port.allocate(&mut flow, &mut left, now, Bytes::ZERO, true);
    port.terminate(&mut flow, now);
    left
}

/// Whether a port holds a flow: it has reduced a, or d_p beyond the conversion to its own period.
fn holds(arrived: &Allocation, left: &Allocation) -> bool {
    let (from, to) = (u64::from(arrived.period.micros()), u64::from(left.period.micros()));
    let converted = u128::from(arrived.potential.get()) * u128::from(to) / u128::from(from.max(1));
    left.allocation < arrived.allocation || u128::from(left.potential.get()) < converted
}

fn state(reading: &FlowReading) -> FlowState<FlowKey> {
    let arrived = reading.arrived_at.zip(allocation(&reading.arrived));
    FlowState {
        key: reading.key,
        service: reading.key.service(),
        left_at: reading.left_at,
        arrived,
        ended: reading.ended,
    }
}

/// `None` for values that the kernel's program rejects, which a reading between two writes may mix.
fn allocation(raw: &abi::Allocation) -> Option<Allocation> {
    let bytes = |bytes: u32| Bytes::new(bytes.into());
    Some(Allocation {
        clock: raw.clock,
        period: Period::from_micros(Some(raw.period).filter(|period| *period != 0)?),
        longest: Period::from_micros(raw.longest),
        potential: bytes(raw.potential),
        demand: bytes(raw.demand),
        allocation: bytes(raw.allocation),
        weight: Weight::from_thousandths(raw.weight)?,
        queueing: Duration::from_micros(raw.queueing.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_datapath::CreditPortSettings;

    const PERIOD: Period = Period::from_micros(1_000);

    fn allocation(potential: u64, bytes: u64) -> Allocation {
        Allocation {
            clock: 7,
            period: PERIOD,
            longest: PERIOD,
            potential: Bytes::new(potential),
            demand: Bytes::new(bytes),
            allocation: Bytes::new(bytes),
            weight: Weight::ONE,
            queueing: Duration::ZERO,
        }
    }

    /// 100 Mb/s, 12,500 B in a period, of which a weight of 1 has a quarter and the rest is demanded.
    #[test]
    fn a_port_holds_flows_that_it_reduces() {
        let settings = CreditPortSettings { rate: Bandwidth::from_mbps(100), most: PERIOD, lossless: true };
        let mut port = CreditPort::new(&settings);
        let per_weight = abi::CREDIT_WHOLE / 4 / u64::from(Weight::ONE.thousandths());
        port.publish(&Published { per_weight, rest: 0, period: PERIOD, longest: PERIOD });
        let now = Instant::from_nanos(5_000_000);
        let mut of = |arrived: Allocation| {
            let left = reduced(&mut port, &arrived, now);
            (left.allocation.get(), holds(&arrived, &left))
        };
        // A share is rounded up to a byte.
        assert!((3_125..=3_126).contains(&of(allocation(12_500, 12_500)).0));
        assert_eq!(of(allocation(12_500, 3_000)), (3_000, true), "d_p of the next period is reduced");
        assert_eq!(of(allocation(3_000, 3_000)), (3_000, false), "another port holds it");
        // Grants of the copy are released: a thousand flows find the same room.
        assert!((0..1_000).all(|_| of(allocation(12_500, 3_000)) == (3_000, true)));
    }
}
