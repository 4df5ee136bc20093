//! [`Port`]: one port of a forwarder: its start, its rounds, its status.
//!
//! A port that is opened without the state of an earlier daemon cannot compute A: it is closed for the longest lifetime
//! of a grant, and data that arrives meanwhile is not dropped. A port that adopts its maps continues.

use crate::plan::{Plan, PlanError};
use weir_control::wire::Keys;
use weir_credits::port_shares::{FlowState, PortShares, Round, WEIGHT_SCALE};
use weir_credits::{Allocation, Period, Published};
use weir_datapath::{CreditPort, SipKey, abi};
use weir_linux::forwarder::{FlowKey, FlowReading, ForwarderPort};
use weir_linux::interface::{Interface, InterfaceError};
use weir_linux::loader::LoaderError;
use weir_linux::settings::FeedbackKey;
use weir_status::PortCredits;
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
}

/// A port. See the module's documentation.
#[derive(Debug)]
pub struct Port {
    name: String,
    kernel: ForwarderPort,
    online: CreditPort,
    shares: PortShares<FlowKey>,
    published: Published,
    closed_until: Instant,
    lossless: bool,
}

impl Port {
    /// Opens the port of an interface whose link has this rate, and attaches its programs. After an error nothing is
    /// attached that was not before.
    pub fn start(plan: &Plan, keys: &Keys, name: &str, link: Bandwidth) -> Result<Self, PortError> {
        let interface = Interface::named(name)?;
        let classifier = plan.classifier(name)?;
        let rate = plan.rate(link);
        let mut online = plan.online(rate);
        let mut kernel = ForwarderPort::open(&interface, online.rules().slot_bits)?;
        let now = ForwarderPort::now();
        let closed_until = if kernel.is_adopted() { kernel.closed_until()? } else { now + online.longest_lifetime() };
        online.close_until(closed_until);
        let own: Vec<FeedbackKey> = keys
            .all()
            .iter()
            .map(|key| {
                let credits = key.credits();
                FeedbackKey { id: credits.number, key: SipKey::new(credits.bytes) }
            })
            .collect();
        kernel.set_keys(&own)?;
        kernel.set_rules(&classifier, &plan.numbers)?;
        let shares = PortShares::new(now, plan.offline(rate), online.longest_lifetime());
        let longest = plan.least;
        let published = Published { per_weight: 0, rest: 0, period: longest, longest };
        let lossless = plan.obstacles().is_empty();
        let mut port = Self { name: name.to_owned(), kernel, online, shares, published, closed_until, lossless };
        port.round()?;
        port.kernel.attach()?;
        Ok(port)
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
            lossless: self.lossless,
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

    /// Detaches the programs; packets pass without credits.
    pub fn remove(self) -> Result<(), PortError> {
        Ok(self.kernel.remove()?)
    }

    /// Removes what a daemon left at an interface; whether there was anything.
    pub fn remove_leftover(name: &str) -> Result<bool, PortError> {
        Ok(ForwarderPort::remove_leftover(&Interface::named(name)?)?)
    }
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
