//! Packets that are offered to a host, and those that have left it.

use std::time::Duration;
use weir_policy::Policy;
use weir_units::Bandwidth;

/// Every packet: a full frame.
pub(crate) const FRAME: u64 = 1514;
/// Bytes of a class's queue, and of those that wait behind a limiter beyond the horizon: 128 frames.
pub(crate) const QUEUE: u64 = 128 * FRAME;
/// Bytes that leave at once after a pause: ten frames.
pub(crate) const BURST: u64 = 10 * FRAME;
/// The longest wait beside [`QUEUE`].
pub(crate) const HORIZON: Duration = Duration::from_millis(20);
/// The port of service 0; the others follow.
pub(crate) const FIRST_PORT: u16 = 7000;
/// The last octet of the address of destination 0; the others follow.
pub(crate) const FIRST_ADDRESS: u8 = 2;

/// A packet of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) at: Duration,
    pub(crate) service: u32,
    pub(crate) destination: u8,
}

/// A change of the host's configuration or rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The agent sets a service's limit.
    Limit(u32, Bandwidth),
    /// Feedback about a service arrives from a destination.
    Feedback(u8, u32, Bandwidth),
}

/// Packets and changes, the same for each backend.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// The rate of the interface.
    pub(crate) nic: Bandwidth,
    /// The keys of each service in the policy, beside `match`.
    pub(crate) services: Vec<&'static str>,
    /// Whether an agent runs: it sends heartbeats and sets the classes of destinations.
    pub(crate) agent: bool,
    pub(crate) offers: Vec<Offer>,
    pub(crate) changes: Vec<(Duration, Change)>,
    /// Time after the last offer in which packets may still leave.
    pub(crate) tail: Duration,
}

/// Something to be done at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// The index of an offer.
    Offer(usize),
    Change(Change),
}

impl Scenario {
    /// One service of an interface that limits nothing.
    pub(crate) fn of_one() -> Self {
        Self {
            nic: Bandwidth::from_gbps(1),
            services: vec![""],
            agent: true,
            offers: Vec::new(),
            changes: Vec::new(),
            tail: Duration::from_millis(500),
        }
    }

    /// Packets of a service to the first of `destinations`, then to the next one, at this rate for a time.
    pub(crate) fn offer(mut self, service: u32, rate: Bandwidth, destinations: u8, time: Duration) -> Self {
        let gap = time_of(FRAME, rate);
        let count = u32::try_from(time.as_nanos() / gap.as_nanos()).expect("few packets");
        let one = |i: u32| Offer { at: gap * i, service, destination: (i % u32::from(destinations)) as u8 };
        self.offers.extend((0..count).map(one));
        self.offers.sort_by_key(|offer| offer.at);
        self
    }

    pub(crate) fn change(mut self, at: Duration, change: Change) -> Self {
        self.changes.push((at, change));
        self
    }

    /// In order of time, changes before packets.
    pub(crate) fn steps(&self) -> Vec<(Duration, Step)> {
        let changes = self.changes.iter().map(|&(at, change)| (at, Step::Change(change)));
        let offers = self.offers.iter().enumerate().map(|(i, offer)| (offer.at, Step::Offer(i)));
        let mut steps: Vec<(Duration, Step)> = changes.chain(offers).collect();
        steps.sort_by_key(|(at, _)| *at);
        steps
    }

    /// Service `i` is `si`, of the port `FIRST_PORT` + i.
    pub(crate) fn policy(&self) -> Policy {
        let nic = self.nic.bps();
        let of = |(i, keys): (usize, &&str)| {
            format!("  s{i}: {{ match: [ {{ port: {} }} ]{keys} }}\n", usize::from(FIRST_PORT) + i)
        };
        let services: String = self.services.iter().enumerate().map(of).collect();
        let text = format!(
            "weir: 1
network:
  nic: {nic}b/s
  racks: {{ r: {{ uplink: {nic}b/s, machines: [a, b] }} }}
services:
{services}"
        );
        match Policy::parse("policy.yaml", &text) {
            Ok((policy, _)) => policy,
            Err(errors) => panic!("{errors}"),
        }
    }
}

/// The time that bytes take at a rate.
pub(crate) fn time_of(bytes: u64, rate: Bandwidth) -> Duration {
    Duration::from_nanos(u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(rate.bps())).expect("short"))
}

/// The bytes that a rate carries in a time.
pub(crate) fn bytes_in(time: Duration, rate: Bandwidth) -> u64 {
    rate.bytes_in(weir_units::Duration::from_nanos(time.as_nanos() as u64)).get()
}

/// A packet that has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Duration,
    /// Its index in [`Scenario::offers`].
    pub(crate) offer: usize,
}

/// The packets of a scenario by one backend. Times are since its start.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// When each packet was handed over.
    pub(crate) offered: Vec<Duration>,
    /// When each change was complete.
    pub(crate) changed: Vec<Duration>,
    /// In the order of leaving.
    pub(crate) arrivals: Vec<Arrival>,
}

impl Run {
    /// When the last change was complete.
    pub(crate) fn change(&self) -> Duration {
        *self.changed.last().expect("a change")
    }

    /// When the last packet was handed over.
    pub(crate) fn end(&self) -> Duration {
        *self.offered.last().expect("a packet")
    }

    /// Packets that left within a time after another.
    pub(crate) fn left(&self, since: Duration, time: Duration) -> impl Iterator<Item = &Arrival> {
        self.arrivals.iter().filter(move |arrival| (since..since + time).contains(&arrival.at))
    }

    /// Their bytes.
    pub(crate) fn bytes(&self, since: Duration, time: Duration) -> u64 {
        self.left(since, time).count() as u64 * FRAME
    }

    /// The longest time that a packet waited which left later than `since`.
    pub(crate) fn longest_wait(&self, since: Duration) -> Duration {
        let late = self.arrivals.iter().filter(|arrival| arrival.at >= since);
        late.map(|arrival| arrival.at.saturating_sub(self.offered[arrival.offer])).max().unwrap_or_default()
    }

    /// When the last of the packets left that were handed over at such times.
    pub(crate) fn last_of(&self, when: impl Fn(Duration) -> bool) -> Duration {
        let those = self.arrivals.iter().filter(|arrival| when(self.offered[arrival.offer]));
        those.map(|arrival| arrival.at).max().expect("a packet")
    }

    /// Packets that left before one which was offered earlier.
    pub(crate) fn overtakers(&self) -> usize {
        let mut first = usize::MAX;
        let mut count = 0;
        for arrival in self.arrivals.iter().rev() {
            count += usize::from(arrival.offer > first);
            first = first.min(arrival.offer);
        }
        count
    }

    /// The longest time between two packets that leave in a time after another.
    pub(crate) fn longest_gap(&self, since: Duration, time: Duration) -> Duration {
        let times: Vec<Duration> = self.left(since, time).map(|arrival| arrival.at).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(time)
    }

    /// Bytes of a service that left within a time after another.
    pub(crate) fn bytes_of(&self, scenario: &Scenario, service: u32, since: Duration, time: Duration) -> u64 {
        let own = |arrival: &&Arrival| scenario.offers[arrival.offer].service == service;
        self.left(since, time).filter(own).count() as u64 * FRAME
    }

    /// The time from the last change to the first window of which on all are `is_there` by their bytes.
    pub(crate) fn time_until(&self, is_there: impl Fn(u64, Duration) -> bool) -> Option<Duration> {
        const WINDOW: Duration = Duration::from_millis(20);
        const STEP: Duration = Duration::from_millis(1);
        let mut from = self.end().saturating_sub(WINDOW);
        let mut settled = None;
        while from >= self.change() && is_there(self.bytes(from, WINDOW), WINDOW) {
            settled = Some(from - self.change());
            from = from.saturating_sub(STEP);
        }
        settled
    }
}
