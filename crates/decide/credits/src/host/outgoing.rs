//! The sending end of a flow: its [`Sender`], its readings and its gate.

use super::HostSettings;
use super::aggregate::{Gate, Reading};
use super::passage::Passage;
use crate::message::{Allocation, Request, Return};
use crate::sender::{Sender, SenderSettings};
use weir_units::{Bytes, Duration, Instant};

/// The difference between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// Bytes that have left.
    pub(super) sent: Bytes,
    /// Those of them that no credits covered.
    pub(super) overspent: Bytes,
}

/// The backlog of a flow whose application waits for the gate: more than any allocation.
const THROTTLED: Bytes = Bytes::new(u32::MAX as u64);

#[derive(Debug)]
pub(super) struct Outgoing {
    sender: Sender,
    frame: u64,
    reading: Reading,
    /// Bytes that have left since the gate was set, and those beyond the credits, which later allocations pay.
    spent: u64,
    allotted: u64,
    debt: u64,
    /// The end of the period for which the gate is open.
    closes_at: Option<Instant>,
    /// When data last waited or left.
    active: Instant,
    /// When the newest allocation arrived, or the flow began.
    allocated: Instant,
    /// Whether the flow is over, and only its clock is kept.
    has_ended: bool,
    /// The newest allocation.
    passage: Option<Passage>,
}

impl Outgoing {
    /// A flow that begins at `now`, of which `sent` bytes have left before.
    pub(super) fn new(now: Instant, settings: SenderSettings, sent: u64) -> Self {
        Self {
            sender: Sender::new(now, settings),
            frame: settings.frame.get(),
            reading: Reading { sent, waiting: Bytes::ZERO },
            spent: 0,
            allotted: 0,
            debt: 0,
            closes_at: None,
            active: now,
            allocated: now,
            has_ended: false,
            passage: None,
        }
    }

    /// The flow begins again, of which `sent` bytes have left before; one that is not over goes on.
    pub(super) fn begin(mut self, now: Instant, sent: u64) -> Self {
        if std::mem::take(&mut self.has_ended) {
            self.reading = Reading { sent, waiting: Bytes::ZERO };
            (self.active, self.allocated) = (now, now);
            (self.spent, self.allotted, self.debt) = (0, 0, 0);
            self.sender.on_write(now, Bytes::ZERO);
        }
        self
    }

    /// The flow is over.
    pub(super) fn end(&mut self) {
        (self.has_ended, self.closes_at, self.passage) = (true, None, None);
        self.sender.terminate();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn on_reading(&mut self, now: Instant, reading: Reading) -> Progress {
        let sent = reading.sent.saturating_sub(self.reading.sent);
        let added = (reading.waiting.get() + sent).saturating_sub(self.reading.waiting.get());
        // A flow that began by an event has had nothing to wait yet, and still requests.
        let is_emptied = reading.waiting == Bytes::ZERO && (sent > 0 || self.reading.waiting > Bytes::ZERO);
        self.reading = Reading { sent: reading.sent.max(self.reading.sent), waiting: reading.waiting };
        if sent > 0 || reading.waiting > Bytes::ZERO {
            self.active = now;
        }
        let before = self.spent.saturating_sub(self.allotted);
        self.spent += sent;
        let overspent = self.spent.saturating_sub(self.allotted) - before;
        if sent > 0 {
            self.sender.spend(Bytes::new(sent));
        }
        if added > 0 {
            self.sender.on_write(now, Bytes::new(added));
        }
        if is_emptied {
            self.sender.on_empty();
        }
        Progress { sent: Bytes::new(sent), overspent: Bytes::new(overspent) }
    }

    /// Whether data waits and the gate has let through nine tenths of its bytes, or all but a part of a frame.
    fn is_throttled(&self) -> bool {
        let is_used = self.spent + self.frame > self.allotted || self.spent * 10 >= self.allotted * 9;
        is_used && self.reading.waiting > Bytes::ZERO
    }

    /// The gate that the allocation opens and the values to return; `None` if it is not later than the newest.
    /// `hides`: applications keep data back while some waits.
    pub(super) fn on_allocation(
        &mut self,
        now: Instant,
        allocation: &Allocation,
        hides: bool,
    ) -> Option<(Gate, Return)> {
        let backlog = if hides && self.is_throttled() { THROTTLED } else { self.reading.waiting };
        if !self.sender.on_allocation(now, allocation, backlog) {
            return None;
        }
        self.allocated = now;
        let returned = self.sender.take_return()?;
        self.debt += self.spent.saturating_sub(self.allotted);
        let credit = self.sender.credit(now).get();
        let paid = self.debt.min(credit);
        self.debt -= paid;
        (self.spent, self.allotted) = (0, credit - paid);
        if paid > 0 {
            // The sender counts what is paid as spent, else it would carry it over.
            self.sender.spend(Bytes::new(paid));
        }
        self.closes_at = Some(now + allocation.period.duration());
        Some((Gate { bytes: Bytes::new(self.allotted), period: allocation.period }, returned))
    }

    /// An allocation has opened the gate.
    pub(super) fn passed(&mut self, passage: Passage) {
        self.passage = Some(passage);
    }

    pub(super) fn passage(&self) -> Option<Passage> {
        self.passage
    }

    /// Whether the period of the gate is over at `now`; once for each gate.
    pub(super) fn closes(&mut self, now: Instant) -> bool {
        self.closes_at.take_if(|at| *at <= now).is_some()
    }

    /// The request that is due.
    pub(super) fn request(&mut self, now: Instant) -> Option<Request> {
        self.sender.request(now)
    }

    pub(super) fn is_over(&self, now: Instant, linger: Duration) -> bool {
        self.reading.waiting == Bytes::ZERO && now >= self.active + linger
    }

    /// When the flow began, unless an allocation has come.
    pub(super) fn unallocated_since(&self) -> Option<Instant> {
        self.passage.is_none().then_some(self.allocated)
    }

    /// Whether no allocation has come for so long.
    pub(super) fn is_abandoned(&self, now: Instant, after: Option<Duration>) -> bool {
        after.is_some_and(|after| now >= self.allocated + after)
    }

    /// The time of the next event before the end.
    pub(super) fn timer(&self, settings: &HostSettings) -> Instant {
        let over = (self.reading.waiting == Bytes::ZERO).then(|| self.active + settings.linger);
        let abandoned = settings.abandon_after.map(|after| self.allocated + after);
        let events = [self.sender.timer(), self.closes_at, over, abandoned];
        // A flow with data that waits has a timer of its sender, which requests or has an allocation.
        events.into_iter().flatten().min().unwrap_or(self.active + settings.linger)
    }
}
