//! [`Sent`]: the bytes of each service that have left an interface, of those that it offered.
//!
//! Problem: the programs count packets before the qdisc, so a service that floods shows the rate of
//! its processor and not that of the interface. The kernel counts drops in buffers, whose sizes
//! differ, so offered bytes less dropped ones cannot be computed from them. Approach:
//!
//! - `htb`: the kernel counts the bytes of a class when they leave it. A service has two classes
//!   that last as long as its slot: the inner one, through which all its leaves send, deleted ones
//!   included, and the leaf of the static policy.
//! - `edt`: the programs count the bytes that they drop; all others leave, within the time that a
//!   packet can wait ([`crate::class::QUEUE_TIME`]). Drops of fq itself cannot be attributed to a
//!   service and are counted for the interface ([`crate::shaper::Shaper::queues`]).
//! - services on a latency level share its class: the programs count the bytes that the level's
//!   regulator drops, and all others leave.
//!
//! Dropped are the bytes that were offered, have not left and do not wait. Where the counters of
//! the classes begin anew (another program has removed the tree, so that nothing was enforced), all
//! that was offered meanwhile counts as sent.
//!
//! Order of calls: read what is offered, then the queues, then [`Sent::read`], then
//! [`Sent::count_drops`]. A packet that moves on between two readings is then missing in the drops
//! until the next time, and no packet counts as dropped that was not.
//!
//! Worked example: 425 MB offered in a second to a 90 Mb/s interface. The inner class has sent
//! 11.2 MB more than a second ago and 0.2 MB wait: 11.2 MB sent, 413.6 MB dropped.
//!
//! Source: net/sched/sch_htb.c, htb_charge_class() and htb_dequeue_tree().

use crate::htb::{ClassStatus, FIRST_MINOR, STATIC_FIRST, classes};
use crate::interface::Interface;
use crate::netlink::{NetlinkError, Socket};
use crate::shaper::Backend;
use std::collections::HashMap;
use weir_units::{Bandwidth, Bytes, Duration};

/// The programs' counters of a service's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// The service's slot.
    pub slot: u32,
    /// Bytes offered to the interface.
    pub bytes: Bytes,
    /// Those of them that the programs dropped: by pacing (`edt`), or by the regulator of a level.
    pub dropped: Bytes,
    /// Whether it is on a latency level.
    pub on_level: bool,
}

/// The bytes of a service until a reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// Those that it offered to the interface.
    pub offered: Bytes,
    /// Those of them that have left it; they only grow.
    pub sent: Bytes,
    /// Those of them that its pacing or its queue dropped; they only grow.
    pub dropped: Bytes,
}

impl Left {
    /// The bytes that have left a time after this reading, when `offered` bytes are offered, if they
    /// leave at `rate`, that of the last readings, and not above it: what is offered may wait.
    pub fn go_on(&self, offered: Bytes, rate: Bandwidth, time: Duration) -> Bytes {
        self.sent + offered.saturating_sub(self.offered).min(rate.bytes_in(time))
    }
}

/// The bytes that have left an interface, by service.
#[derive(Debug)]
pub struct Sent {
    /// With `htb`: a socket for the classes, and the interface's index.
    tree: Option<(Socket, u32)>,
    /// By slot.
    services: HashMap<u32, Progress>,
}

impl Sent {
    /// Of an interface on which `backend` enforces rates.
    pub fn over(interface: &Interface, backend: Backend) -> Result<Self, NetlinkError> {
        let tree = match backend {
            Backend::Htb => Some((Socket::open()?, interface.index())),
            Backend::Edt => None,
        };
        Ok(Self { tree, services: HashMap::new() })
    }

    /// Reads the counters, with what was offered before that. Returns the bytes of each of the
    /// services, in their order: differences of two readings are meaningful, and never negative.
    pub fn read(&mut self, offered: &[Offered]) -> Result<Vec<Left>, NetlinkError> {
        let classes = match &mut self.tree {
            Some((socket, interface)) => Some(Classes::new(&classes(socket, *interface)?)),
            None => None,
        };
        let one = |offered: &Offered| {
            let begin = || Progress { offered: offered.bytes, by_programs: offered.dropped, ..Progress::default() };
            let progress = self.services.entry(offered.slot).or_insert_with(begin);
            progress.on_level = offered.on_level;
            match &classes {
                _ if offered.on_level => progress.by_level(offered.bytes, offered.dropped),
                Some(classes) => progress.by_classes(offered.bytes, classes.of(offered.slot)),
                None => progress.by_programs(offered.bytes, offered.dropped),
            }
            Left { offered: offered.bytes, sent: progress.sent, dropped: progress.dropped }
        };
        Ok(offered.iter().map(one).collect())
    }

    /// Counts the drops of a service until the last reading, if `waiting` bytes are queued; returns
    /// the bytes that were dropped.
    pub fn count_drops(&mut self, slot: u32, waiting: Bytes) -> Bytes {
        let Some(progress) = self.services.get_mut(&slot) else { return Bytes::ZERO };
        // With `edt` the programs count the dropped bytes, and waiting bytes count as sent.
        if self.tree.is_some() && !progress.on_level {
            progress.count_drops(waiting);
        }
        progress.dropped
    }
}

/// The counters of services' classes.
#[derive(Debug)]
enum Classes {
    /// The interface has no tree of Weir's.
    Absent,
    /// By slot: of the inner class and of the static policy's. The kernel may leave a class out of
    /// a list while another one is created or deleted.
    Present(HashMap<u32, [Option<Bytes>; 2]>),
}

/// A service's part of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counter {
    /// There is no tree.
    Absent,
    /// There is a tree, and this reading does not have the service's classes.
    Unread,
    /// Bytes that have left the service's classes.
    Sent(Bytes),
}

impl Classes {
    fn new(classes: &[ClassStatus]) -> Self {
        if classes.is_empty() {
            return Self::Absent;
        }
        let mut services: HashMap<u32, [Option<Bytes>; 2]> = HashMap::new();
        for class in classes {
            for (kind, first) in [FIRST_MINOR, STATIC_FIRST].into_iter().enumerate() {
                if (first..first + weir_datapath::abi::SERVICES_MAX as u16).contains(&class.minor) {
                    services.entry(u32::from(class.minor - first)).or_default()[kind] = Some(class.bytes);
                }
            }
        }
        Self::Present(services)
    }

    fn of(&self, slot: u32) -> Counter {
        match self {
            Self::Absent => Counter::Absent,
            Self::Present(services) => match services.get(&slot) {
                Some([Some(own), Some(of_policy)]) => Counter::Sent(*own + *of_policy),
                _ => Counter::Unread,
            },
        }
    }
}

/// The progress of one service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    /// Offered at the last reading.
    offered: Bytes,
    /// The classes' counter at the last reading; `None` where it was not known.
    counter: Option<Bytes>,
    sent: Bytes,
    dropped: Bytes,
    /// The programs' drops at the last reading.
    by_programs: Bytes,
    on_level: bool,
}

impl Progress {
    fn by_classes(&mut self, offered: Bytes, counter: Counter) {
        let counter = match counter {
            // The next reading has what this one misses.
            Counter::Unread => return,
            Counter::Absent => None,
            Counter::Sent(bytes) => Some(bytes),
        };
        self.sent += match (self.counter, counter) {
            (Some(before), Some(now)) if now >= before => now - before,
            // The tree is absent or new.
            _ => offered.saturating_sub(self.offered),
        };
        (self.offered, self.counter) = (offered, counter);
    }

    /// Counts by the programs of a level; the counts of the classes before stay.
    fn by_level(&mut self, offered: Bytes, dropped: Bytes) {
        let lost = dropped.saturating_sub(self.by_programs);
        self.sent += offered.saturating_sub(self.offered).saturating_sub(lost);
        self.dropped += lost;
        (self.offered, self.by_programs, self.counter) = (offered, dropped, None);
    }

    fn by_programs(&mut self, offered: Bytes, dropped: Bytes) {
        (self.offered, self.dropped) = (offered, dropped);
        // A packet may be dropped between the two readings.
        self.sent = self.sent.max(offered.saturating_sub(dropped));
    }

    fn count_drops(&mut self, waiting: Bytes) {
        self.dropped = self.dropped.max(self.offered.saturating_sub(self.sent + waiting));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kilobytes(n: u64) -> Bytes {
        Bytes::new(n * 1_000)
    }

    fn class(minor: u16, bytes: Bytes) -> ClassStatus {
        ClassStatus { minor, bytes, packets: 0, backlog: Bytes::ZERO, waiting: 0, drops: 0 }
    }

    #[test]
    fn worked_example() {
        let mut progress = Progress::default();
        progress.by_classes(Bytes::ZERO, Counter::Sent(kilobytes(7_000)));
        progress.by_classes(kilobytes(425_000), Counter::Sent(kilobytes(18_200)));
        assert_eq!(progress.sent, kilobytes(11_200));
        progress.count_drops(kilobytes(200));
        assert_eq!(progress.dropped, kilobytes(413_600));
        // All that waited has left, and nothing more is offered or dropped.
        progress.by_classes(kilobytes(425_000), Counter::Sent(kilobytes(18_400)));
        progress.count_drops(Bytes::ZERO);
        assert_eq!((progress.sent, progress.dropped), (kilobytes(11_400), kilobytes(413_600)));
    }

    #[test]
    fn late_reading_adds_the_last_rate() {
        let left = Left { offered: kilobytes(500), sent: kilobytes(200), dropped: kilobytes(290) };
        // 80 Mb/s are 1 MB in 100 ms.
        let go_on = |offered| left.go_on(kilobytes(offered), Bandwidth::from_mbps(80), Duration::from_millis(100));
        assert_eq!(go_on(500), kilobytes(200));
        assert_eq!(go_on(800), kilobytes(500));
        assert_eq!(go_on(9_000), kilobytes(1_200));
    }

    #[test]
    fn classes_of_a_service_are_its_inner_one_and_that_of_the_static_policy() {
        let [unclassified, other] = [class(2, kilobytes(90)), class(0x11, kilobytes(50))];
        let [inner, leaf, of_policy, destination] =
            [0x12, 0x1002, 0x2002, 0x3007].map(|minor| class(minor, kilobytes(minor.into())));
        let classes = Classes::new(&[unclassified, other, inner, leaf, of_policy, destination]);
        assert_eq!(classes.of(2), Counter::Sent(kilobytes(0x12 + 0x2002)));
        assert_eq!(classes.of(1), Counter::Unread, "without its second class");
        assert_eq!(classes.of(3), Counter::Unread);
        assert_eq!(Classes::new(&[]).of(2), Counter::Absent);
    }

    #[test]
    fn all_that_is_offered_counts_as_sent_while_there_is_no_tree() {
        let mut progress = Progress::default();
        let mut read = |offered, counter| {
            progress.by_classes(kilobytes(offered), counter);
            progress.count_drops(Bytes::ZERO);
            (progress.sent, progress.dropped)
        };
        let sent = |n| Counter::Sent(kilobytes(n));
        read(100, sent(5_000));
        assert_eq!(read(400, sent(5_100)), (kilobytes(200), kilobytes(200)));
        assert_eq!(read(450, Counter::Absent), (kilobytes(250), kilobytes(200)));
        assert_eq!(read(500, Counter::Absent), (kilobytes(300), kilobytes(200)));
        // A new tree, whose first counter is of an unknown time.
        assert_eq!(read(600, sent(20)), (kilobytes(400), kilobytes(200)));
        assert_eq!(read(700, sent(50)), (kilobytes(430), kilobytes(270)));
        // Another one, between two readings.
        assert_eq!(read(710, sent(10)), (kilobytes(440), kilobytes(270)));
        // A list without the service's classes.
        assert_eq!(read(800, Counter::Unread), (kilobytes(440), kilobytes(270)));
        assert_eq!(read(800, sent(100)), (kilobytes(530), kilobytes(270)));
    }

    #[test]
    fn counts_of_a_level_continue_those_of_classes() {
        let mut progress = Progress::default();
        progress.by_classes(kilobytes(100), Counter::Sent(kilobytes(5_000)));
        progress.by_classes(kilobytes(200), Counter::Sent(kilobytes(5_060)));
        progress.count_drops(Bytes::ZERO);
        // Of 300 kB on the level 10 were dropped.
        progress.by_level(kilobytes(500), kilobytes(10));
        assert_eq!((progress.sent, progress.dropped), (kilobytes(450), kilobytes(50)));
        progress.by_level(kilobytes(600), kilobytes(10));
        assert_eq!((progress.sent, progress.dropped), (kilobytes(550), kilobytes(50)));
        // Without a level again: the counter of the classes starts anew.
        progress.by_classes(kilobytes(700), Counter::Sent(kilobytes(5_060)));
        progress.by_classes(kilobytes(800), Counter::Sent(kilobytes(5_100)));
        progress.count_drops(Bytes::ZERO);
        assert_eq!((progress.sent, progress.dropped), (kilobytes(690), kilobytes(110)));
    }

    #[test]
    fn drops_of_the_programs_are_not_sent() {
        let mut progress = Progress::default();
        progress.by_programs(kilobytes(500), kilobytes(300));
        assert_eq!((progress.sent, progress.dropped), (kilobytes(200), kilobytes(300)));
        // Dropped after the offered bytes were read.
        progress.by_programs(kilobytes(500), kilobytes(310));
        assert_eq!(progress.sent, kilobytes(200));
        progress.by_programs(kilobytes(600), kilobytes(350));
        assert_eq!((progress.sent, progress.dropped), (kilobytes(250), kilobytes(350)));
    }
}
