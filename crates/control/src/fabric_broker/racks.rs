//! What the racks said, and who spoke for them.

use super::FabricBroker;
use crate::fabric_message::{RackReport, RateRow};
use crate::parts::well_formed;
use crate::rate::QuantisedRate;
use weir_units::{Direction, Duration, Instant, MachineId, PerDirection, RackId};

/// One rack as the broker knows it.
#[derive(Debug, Clone)]
pub(super) struct Rack {
    /// Machines that ever spoke for it: stamps must outlast their leading, or an old report could be replayed.
    speakers: Vec<Speaker>,
    /// Leaves that were reported in this period.
    reported: Marks,
    forgotten: bool,
}

/// A machine that spoke for its rack.
#[derive(Debug, Clone)]
struct Speaker {
    machine: MachineId,
    received: Instant,
    /// Whether it spoke in this period.
    lately: bool,
    stamp: (u64, u64),
    /// Leaves that it reported under this stamp.
    reported: Marks,
}

/// A set of leaves.
#[derive(Debug, Clone)]
struct Marks(Vec<u64>);

impl Marks {
    fn new(leaves: usize) -> Self {
        Self(vec![0; leaves.div_ceil(64)])
    }
    fn clear(&mut self) {
        self.0.fill(0);
    }
    /// Adds a leaf; whether it was new.
    fn add(&mut self, leaf: usize) -> bool {
        let (limits, bit) = (&mut self.0[leaf / 64], 1 << (leaf % 64));
        let new = *limits & bit == 0;
        *limits |= bit;
        new
    }
}

impl Rack {
    pub(super) fn new(leaves: usize) -> Self {
        Self { speakers: Vec::new(), reported: Marks::new(leaves), forgotten: false }
    }

    pub(super) fn is_heard(&self, now: Instant, timeout: Duration) -> bool {
        self.speakers.iter().any(|speaker| now.saturating_since(speaker.received) < timeout)
    }

    /// The machines that are answered: those that spoke for the rack in the period that ended, or, if none did, the
    /// one that spoke last, until the timeout.
    pub(super) fn to_answer(&self, now: Instant, timeout: Duration) -> Vec<MachineId> {
        let lately = self.speakers.iter().filter(|speaker| speaker.lately);
        let lately: Vec<MachineId> = lately.map(|speaker| speaker.machine).collect();
        if !lately.is_empty() {
            return lately;
        }
        let last = self.speakers.iter().max_by_key(|speaker| speaker.received);
        let received = last.filter(|speaker| now.saturating_since(speaker.received) < timeout);
        received.map(|speaker| speaker.machine).into_iter().collect()
    }

    /// A period ends: from now on what is said replaces what was.
    pub(super) fn next_period(&mut self) {
        self.reported.clear();
        self.speakers.iter_mut().for_each(|speaker| speaker.lately = false);
    }
}

impl FabricBroker {
    pub(super) fn take_report(&mut self, report: &RackReport) {
        let policy = self.allocator.policy();
        if report.policy != policy.digest() {
            self.counters.other_policy += 1;
            return;
        }
        let Some(machine) = policy.network().machines().get(report.machine.index()) else {
            self.counters.unknown_machine += 1;
            return;
        };
        let leaves = self.allocator.leaves();
        let fits = |row: &RateRow| {
            let finite = Direction::ALL.iter().all(|direction| !row.rates[*direction].is_unlimited());
            finite && leaves.binary_search(&row.service).is_ok()
        };
        if !well_formed(report.first, report.last, &report.rows) || !report.rows.iter().all(fits) {
            self.counters.malformed += 1;
            return;
        }
        let racks = self.racks.len();
        let place = machine.rack().index();
        let rack = &mut self.racks[place];
        let stamp = (report.epoch, report.round);
        let speaker = match rack.speakers.iter().position(|speaker| speaker.machine == report.machine) {
            Some(known) => &mut rack.speakers[known],
            None => {
                let reported = Marks::new(leaves.len());
                let machine = report.machine;
                rack.speakers.push(Speaker { machine, received: self.now, lately: false, stamp: (0, 0), reported });
                rack.speakers.last_mut().expect("one was just added")
            }
        };
        if stamp > speaker.stamp {
            speaker.stamp = stamp;
            speaker.reported.clear();
        }
        let from = leaves.partition_point(|leaf| *leaf < report.first);
        let to = leaves.partition_point(|leaf| *leaf <= report.last);
        let mut news = false;
        let mut rows = report.rows.iter().peekable();
        for (leaf, service) in leaves.iter().enumerate().take(to).skip(from) {
            let row = rows.next_if(|row| row.service == *service);
            if stamp < speaker.stamp || !speaker.reported.add(leaf) {
                continue;
            }
            news = true;
            let said = row.map_or(PerDirection::default(), |row| PerDirection {
                tx: QuantisedRate::of(row.rates.tx),
                rx: QuantisedRate::of(row.rates.rx),
            });
            let replaces = rack.reported.add(leaf);
            for direction in Direction::ALL {
                let demand = &mut self.demands[direction][leaf * racks + place];
                *demand = if replaces { said[direction] } else { said[direction].max(*demand) };
            }
        }
        if news {
            self.counters.accepted += 1;
            (speaker.received, speaker.lately) = (self.now, true);
            rack.forgotten = false;
        } else {
            self.counters.replayed += 1;
        }
    }

    pub(super) fn forget_stale(&mut self) {
        for (place, rack) in self.racks.iter_mut().enumerate() {
            if rack.forgotten || rack.speakers.is_empty() || rack.is_heard(self.now, self.config.timeout) {
                continue;
            }
            rack.forgotten = true;
            self.counters.forgotten += 1;
            for direction in Direction::ALL {
                let racks = self.allocator.racks();
                self.demands[direction].iter_mut().skip(place).step_by(racks).for_each(|d| *d = QuantisedRate::ZERO);
            }
        }
    }

    /// How many racks' last word was forgotten and not renewed.
    pub fn racks_forgotten(&self) -> usize {
        self.racks.iter().filter(|rack| rack.forgotten).count()
    }

    /// The machine that spoke last for a rack.
    pub fn leader(&self, rack: RackId) -> Option<MachineId> {
        let speakers = &self.racks[rack.index()].speakers;
        speakers.iter().max_by_key(|speaker| speaker.received).map(|speaker| speaker.machine)
    }
}
