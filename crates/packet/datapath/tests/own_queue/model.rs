//! A receive meter, the interface meter, and their ticks, in plain numbers.

use crate::common::{CAPACITY, Counted, Receiver, T};
use weir_datapath::abi::QUEUE_TIME_PART;
use weir_units::Instant;

/// What the rules did in a run, so that one that never reaches them fails.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) full: u32,
    pub(super) fell: u32,
    pub(super) peak: u32,
    pub(super) held: u32,
    pub(super) settling: u32,
    pub(super) crowd: u32,
    pub(super) queued: u32,
    pub(super) drained: u32,
    pub(super) halved: u32,
    pub(super) bound: u32,
    pub(super) waited: u32,
    pub(super) stepped: u32,
    /// Windows of services that closed before their interval was over, and ticks with several services.
    pub(super) early: u32,
    pub(super) several: u32,
}

/// The interval of the receive meters, ns.
pub(super) const INTERVAL: u64 = 200_000;

/// Intervals of a window after which its marks are stale (WEIR_PAUSE).
const PAUSE: u64 = 32;

/// R of a receive meter after a window of so many intervals: below C as if the law had been run in
/// each (`datapath/receive_meter.h`, Pauses).
fn law(rate: f64, usage: f64, marked: f64, intervals: u64) -> f64 {
    let unused = 1.0 - usage / CAPACITY;
    let next = (rate * (1.0 + 0.5 * unused - 0.5 * marked).max(0.0)).clamp(CAPACITY / 1000.0, CAPACITY);
    let more = (intervals - 1) as f64;
    let stale = intervals > PAUSE;
    if unused <= 0.0 || more == 0.0 || (marked > 0.0 && !stale) {
        return next;
    }
    let raise = unused / 2.0;
    let growth = 1.0 + more * raise + more * (more - 1.0) / 2.0 * raise * raise;
    let fill = (rate * CAPACITY / usage.max(rate)).min(CAPACITY);
    (next * growth).min(fill).max(next)
}

/// A receive meter of C beside others, in plain numbers.
struct Metered {
    shared: bool,
    rate: f64,
    drained: f64,
    unqueued: Option<f64>,
    /// The highest R of two periods in which a packet waits in the own queue, and when the second began.
    highest: [f64; 2],
    highest_at: u64,
    opened: u64,
    /// What the interface had received when the window opened, and what of it was the service's since.
    beside: u64,
    bytes: u64,
    packets: u32,
    marked: u32,
}

impl Metered {
    fn new(shared: bool) -> Self {
        let rate = CAPACITY / 512.0;
        Self {
            shared,
            rate,
            drained: rate,
            unqueued: None,
            highest: [0.0; 2],
            highest_at: 0,
            opened: 0,
            beside: 0,
            bytes: 0,
            packets: 0,
            marked: 0,
        }
    }

    /// Counts what a tick has of the service.
    fn count(&mut self, counted: &Counted) {
        self.bytes += counted.bytes;
        self.packets += counted.packets;
        self.marked += counted.marked;
    }

    /// Whether the window that ends at `now` lies so close to one of the table's bounds that rounding
    /// decides on which side it counts.
    fn is_tie(&self, now: u64, received: u64) -> bool {
        let all = (received - self.beside) as f64;
        let usage = all * 8e9 / (now - self.opened) as f64;
        let near = |value: f64, bound: f64| (value / bound - 1.0).abs() < 1e-5;
        let bounds = [7.0 / 8.0, 1.0, 16.0 / 15.0, 9.0 / 8.0].map(|part| part * CAPACITY);
        bounds.iter().any(|&bound| near(usage, bound)) || near(self.bytes as f64, all * 5.0 / 8.0)
    }

    /// Closes the window at `now`, with the interface's bytes until then. What came in it, where it
    /// met the own queue and marks that count. The law counts whole intervals, at least one.
    fn close(&mut self, now: u64, received: u64, full: bool, search: &mut Search, seen: &mut Seen) -> f64 {
        let elapsed = now - self.opened;
        let bps = |bytes: u64| bytes as f64 * 8e9 / elapsed as f64;
        let (own, all, intervals) = (bps(self.bytes), bps(received - self.beside), (elapsed / INTERVAL).max(1));
        seen.early += u32::from(elapsed < INTERVAL);
        let off = if full { (7.0 / 8.0, 9.0 / 8.0) } else { (1.0, 16.0 / 15.0) };
        let queued = off.0 * CAPACITY < all && all <= off.1 * CAPACITY && intervals <= PAUSE;
        if queued && self.marked > 0 {
            search.mark();
        }
        let censored = search.unmarked;
        let crowd = queued && own >= all * 5.0 / 8.0;
        let marked = if crowd { 0.0 } else { f64::from(self.marked) / f64::from(self.packets.max(1)) };
        seen.crowd += u32::from(crowd && self.marked > 0);
        seen.queued += u32::from(queued && marked > 0.0);
        (self.opened, self.beside, self.bytes, self.packets, self.marked) = (now, received, 0, 0, 0);
        self.highest[1] = self.highest[1].max(self.rate);
        if now - self.highest_at >= T / u64::from(QUEUE_TIME_PART) {
            (self.highest, self.highest_at) = ([self.highest[1], self.rate], now);
        }
        if !queued {
            seen.drained += u32::from(self.drained > self.rate);
            self.rate = law(self.drained, own, marked, intervals);
            (self.drained, self.unqueued) = (self.rate, None);
            return 0.0;
        }
        let used = if self.shared { own.min(CAPACITY * 16.0 / 15.0) } else { own };
        let most = self.unqueued.unwrap_or(0.0).max(self.drained);
        self.unqueued = Some(most);
        let half = most / 2.0;
        self.rate = law(self.rate, used, marked, intervals);
        let lowered = law(self.drained, used, marked, intervals);
        seen.halved += u32::from(lowered < half && half < self.drained);
        self.drained = lowered.max(law(self.drained, used, 0.0, intervals).min(half));
        if used < own && censored {
            let bound = (self.highest[0].max(self.highest[1]) * CAPACITY / own).max(CAPACITY / 1000.0);
            seen.bound += u32::from(bound < self.rate);
            (self.rate, self.drained) = (self.rate.min(bound), self.drained.min(bound));
        }
        if marked > 0.0 { all.min(CAPACITY * 16.0 / 15.0) } else { 0.0 }
    }
}

/// The search for R on a saturated link: it acts in phase 1 and waits in phase 2.
#[derive(Debug, Default)]
struct Search {
    phase: u32,
    steps: i32,
    /// Windows until the port counts as one that does not mark.
    marking: u32,
    /// Whether the link was saturated through a step, and no mark since.
    unmarked: bool,
}

impl Search {
    fn mark(&mut self) {
        (self.marking, self.unmarked) = (100, false);
    }

    /// After a window with this usage, under R `was`.
    fn window(&mut self, usage: f64, was: f64) {
        let marked = self.marking > 0;
        self.marking = self.marking.saturating_sub(1);
        let saturated = (CAPACITY * 1.04..=CAPACITY * 16.0 / 15.0).contains(&usage);
        let ends = if saturated { was <= CAPACITY / 3.0 } else { was >= CAPACITY || usage >= CAPACITY * 0.96 };
        self.unmarked |= self.phase == 2 && saturated && !ends && !marked;
        let (phase, steps) = match self.phase {
            _ if ends || marked => (0, self.steps),
            1 => (2, self.steps),
            2 => (1, (self.steps + 1).min(5)),
            _ if saturated => (1, 0),
            _ => (0, 0),
        };
        (self.phase, self.steps) = (phase, if saturated { steps } else { 0 });
    }

    /// R, where it does not follow from the law alone.
    fn rate(&self, usage: f64, was: f64) -> Option<f64> {
        match (self.phase, self.steps) {
            (2, _) => Some(was),
            (1, 1..) => {
                let factor = 1.0 - 0.5 * 2f64.powi(self.steps) * (usage / CAPACITY - 1.0);
                Some((was * factor.max(0.5)).max(CAPACITY / 3.0))
            }
            _ => None,
        }
    }
}

/// The interface meter, in plain numbers.
#[derive(Debug, Default)]
struct AllMetered {
    full: bool,
    settling: bool,
    peak: f64,
    /// Packets of services below their committed rates, and those marked.
    short: [u32; 2],
    search: Search,
    opened: u64,
    bytes: u64,
}

impl AllMetered {
    /// Whether the window is over at `now`, up to `slack` early. In a search it lasts a fifth of T.
    fn is_over(&self, now: u64, slack: u64) -> bool {
        now - self.opened + slack >= if self.search.phase == 0 { T } else { T / 5 }
    }

    /// Checks the usage of a window that ends at `now`, and R before and after it.
    fn close(&mut self, now: u64, usage: f64, [was, is]: [f64; 2], seen: &mut Seen) {
        let bps = self.bytes as f64 * 8e9 / (now - self.opened) as f64;
        assert!((usage - bps).abs() <= 1.0, "{usage}, not {bps}");
        (self.opened, self.bytes) = (now, 0);
        let (peak, short) = (self.peak, self.short);
        let idle = usage < 5.0 / 8.0 * CAPACITY;
        let y = if idle { usage.max(peak.min(CAPACITY)) } else { usage.max(peak) } / CAPACITY;
        self.search.window(usage, was);
        if short[1] > 0 && short[1] * 8 >= short[0] * 5 {
            assert!(is <= CAPACITY / 3.0 + 1.0, "{is}");
            seen.fell += u32::from(is < 0.9 * was);
        } else {
            let law = (was * (1.0 - if y < 1.0 { 1.0 } else { 0.5 } * (y - 1.0))).min(CAPACITY);
            let law = if self.settling || peak > 0.0 { law.min(was) } else { law };
            let law = self.search.rate(usage, was).unwrap_or(law);
            assert!((is / law - 1.0).abs() < 1e-3, "{is}, not {law}, from {was} at {y}");
            seen.waited += u32::from(self.search.phase == 2);
            seen.stepped += u32::from(self.search.phase == 1 && self.search.steps > 0);
            seen.settling += u32::from(self.settling && y < 1.0);
            seen.peak += u32::from(peak > usage && !idle);
            seen.held += u32::from(peak > usage && idle);
        }
        self.full = CAPACITY < usage && usage <= CAPACITY * 16.0 / 15.0;
        seen.full += u32::from(self.full);
        (self.short, self.settling, self.peak) = ([0; 2], peak > 0.0, 0.0);
    }

    /// Counts what a tick has of a service: of a crowd, of one below its committed rate.
    fn count(&mut self, counted: &Counted, crowd: bool, below: bool) {
        self.bytes += counted.bytes;
        if self.full && counted.marked > 0 {
            self.search.mark();
        }
        if self.full && !crowd && counted.marked > 0 {
            self.peak = self.peak.max(CAPACITY);
        }
        if self.full && !crowd && below {
            self.short = [self.short[0] + counted.packets, self.short[1] + counted.marked];
        }
    }
}

/// Both meters and their ticks, in plain numbers.
pub(super) struct Models {
    all: AllMetered,
    services: [Metered; 3],
    committed: [f64; 3],
    received: u64,
    slack: u64,
}

impl Models {
    /// For services with these committed rates, of which the last has a share of the interface as its capacity, and
    /// windows that close up to `slack` ns early.
    pub(super) fn new(committed: [u64; 3], slack: u64) -> Self {
        Self {
            all: AllMetered::default(),
            services: [false, false, true].map(Metered::new),
            committed: committed.map(|committed| committed as f64),
            received: 0,
            slack,
        }
    }

    /// Follows the receiver through a tick at `now`. Returns false, without a check of what follows, if rounding
    /// decides on which side of a bound a window is.
    pub(super) fn tick(&mut self, receiver: &mut Receiver, now: u64, seen: &mut Seen) -> bool {
        let before = receiver.clone();
        let counted: Vec<(usize, Counted)> =
            (0..).zip(&before.services).filter_map(|(index, service)| Some((index, service.counted?))).collect();
        let stepped = receiver.tick(Instant::from_nanos(now));
        seen.several += u32::from(counted.len() > 1);
        let all = before.interface.usage().bps();
        for (index, counted) in &counted {
            let usage = before.services[*index].meter.usage().bps();
            let below = (usage as f64) < self.committed[*index];
            self.all.count(counted, usage >= all / 8 * 5, below);
            self.services[*index].count(counted);
            self.received += counted.bytes;
        }
        assert_eq!(stepped, !counted.is_empty() && self.all.is_over(now, self.slack));
        let rates = [&before, &*receiver].map(|receiver| receiver.interface.rate().bps() as f64);
        if stepped {
            self.all.close(now, receiver.interface.usage().bps() as f64, rates, seen);
        } else {
            assert_eq!(rates[0], rates[1]);
        }
        for (index, _) in &counted {
            let (model, meter) = (&mut self.services[*index], &receiver.services[*index].meter);
            if now - model.opened + self.slack >= INTERVAL {
                if model.is_tie(now, self.received) {
                    return false;
                }
                let usage = model.bytes as f64 * 8e9 / (now - model.opened) as f64;
                assert!((meter.usage().bps() as f64 - usage).abs() <= 1.0, "{}, not {usage}", meter.usage());
                let AllMetered { full, peak, search, .. } = &mut self.all;
                *peak = peak.max(model.close(now, self.received, *full, search, seen));
            } else {
                assert_eq!(meter.usage(), before.services[*index].meter.usage());
            }
            let is = meter.rate().bps() as f64;
            assert!((is / model.rate - 1.0).abs() < 1e-3, "{is}, not {}", model.rate);
        }
        true
    }
}
