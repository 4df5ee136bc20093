//! [`PortClasses`]: the HTB classes of a switch port.
//!
//! ```text
//! 7773: htb root, no default: unclassified packets are sent at once
//!   7773:1     rate = ceil = the port's rate
//!     7773:10    queue 0: least rate, ceil the port's rate, priority and quantum by its scheduler
//!     7773:11    queue 1 ...                                    each with a bfifo of the queue's buffer
//! ```
//!
//! HTB serves the classes of one parent that borrow by priority, lowest number first, and those of one priority in turn
//! by quantum. Strict queue q has priority 7 − q, so the highest queue is first; weighted queues have priority 7, and a
//! quantum of the weight in largest segments, without which a round would lose the weights.
//!
//! Deviation from strict priority: each class has a rate of its own of 2.5 kb/s, since HTB has no zero, within which it
//! precedes the classes that borrow: a frame of 1,514 B every 5 s.
//!
//! Worked example: queue 3 strict, queues 0 and 1 of weights 1 and 3, frames of 1,514 B: priorities 7, 7, 4, quanta
//! 1,514 B, 4,542 B and 1,514 B.
//!
//! Source: net/sched/sch_htb.c htb_dequeue_tree(), htb_classify(); linux-facts of `crate::class`.

use super::PortError;
use crate::class::{Class, PortClass, RATE_MIN, Sending, queue_message};
use crate::interface::Interface;
use crate::netlink::{Message, NetlinkError, Reply, Socket, attribute, read_u32, text};
use crate::tc::{self, Found, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, TCA_STATS2, TCMSG, tcmsg};
use std::collections::BTreeMap;
use weir_switch::{PortState, QueueConfig, QueueReading, Schedule};
use weir_units::{Bandwidth, Bytes, Duration};

/// The major number of a port's qdisc: `ws` in ASCII, unlikely to be chosen by accident, and not the agent's.
pub(super) const MAJOR: u16 = 0x7773;
const HANDLE: u32 = (MAJOR as u32) << 16;
const ROOT_MINOR: u16 = 1;
/// The minor number of queue 0.
pub(super) const FIRST_MINOR: u16 = 0x10;
/// The priority of weighted queues, HTB's last.
const LAST_PRIORITY: u32 = 7;
/// The burst of the port's rate, the lateness of a timer that it bridges; the ports of the simulator have none.
const BURST_TIME: Duration = Duration::from_millis(1);
/// The buffer of a queue where none is given: HTB's own would be 1,000 packets, whatever the rate.
pub(super) const BUFFER: Bytes = Bytes::new(256_000);
/// Inside TCA_OPTIONS of an HTB qdisc.
const TCA_HTB_INIT: u16 = 2;

/// The classes of a port, in the kernel's numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortClasses {
    root: Class,
    /// By queue.
    queues: BTreeMap<u8, Class>,
}

impl PortClasses {
    /// The classes of a port's state; `None` without a rate.
    pub(super) fn of(state: &PortState, sending: Sending) -> Option<Self> {
        let rate = state.rate?;
        let burst = rate.bytes_in(BURST_TIME).max(Bytes::new(2 * sending.frame.get()));
        let root = PortClass {
            rate,
            ceil: rate,
            bursts: [burst; 2],
            quantum: sending.segment,
            queue: Bytes::ZERO,
            priority: 0,
        };
        let of_queue = |(&number, queue): (&u8, &QueueConfig)| {
            let (priority, weight) = match queue.schedule {
                Schedule::Strict => (strict_priority(number), 1),
                Schedule::Weighted(weight) => (LAST_PRIORITY, u64::from(weight)),
            };
            let class = PortClass {
                rate: RATE_MIN.min(rate),
                ceil: rate,
                bursts: [Bytes::ZERO, burst],
                quantum: Bytes::new(weight * sending.segment.get()),
                queue: queue.buffer.unwrap_or(BUFFER),
                priority,
            };
            (number, class.into())
        };
        Some(Self { root: root.into(), queues: state.queues.iter().map(of_queue).collect() })
    }

    /// The classes in the kernel; `None` where the kernel's default or nothing is at the root. A qdisc of others is an
    /// error: it would be lost.
    pub(super) fn read(socket: &mut Socket, interface: &Interface) -> Result<Option<Self>, PortError> {
        match tc::found(&tc::qdiscs(socket, interface.index())?, HANDLE, "htb") {
            Found::Default(_) => return Ok(None),
            Found::Leftover => {}
            Found::Foreign(found) => return Err(PortError::Foreign { interface: interface.name().to_owned(), found }),
            // The handle is no agent's.
            Found::OtherBackend => return Err(PortError::Missing("htb")),
        }
        let limits = limits(socket, interface.index())?;
        let (mut root, mut queues) = (None, BTreeMap::new());
        for (minor, mut class, _) in listed(socket, interface.index())? {
            match minor.checked_sub(FIRST_MINOR).and_then(|queue| u8::try_from(queue).ok()) {
                Some(queue) => {
                    class.queue = limits.get(&minor).copied().unwrap_or_default();
                    queues.insert(queue, class);
                }
                None if minor == ROOT_MINOR => root = Some(class),
                None => {}
            }
        }
        // Without its root class a tree is one that was interrupted while it was installed.
        Ok(root.map(|root| Self { root, queues }))
    }

    /// The rate in force in bit/s, in whole bytes per second: the lowest of all classes'. The root class borrows from
    /// none, so that its own rate limits it, too.
    pub(super) fn rate(&self) -> u64 {
        let ceils = self.queues.values().map(Class::ceil);
        8 * ceils.fold(self.root.ceil().min(self.root.rate()), u64::min)
    }

    /// The schedule and buffer of each queue. `is_strict` decides about queue 0 with HTB's last priority, which is that
    /// of weighted queues, too. A class with a rate of its own, or with a priority that is neither of the two, is no
    /// queue: HTB serves it before or behind its turn. It reads as missing, and is made anew.
    pub(super) fn queues(
        &self,
        sending: Sending,
        is_strict: impl Fn(u8) -> bool,
    ) -> impl Iterator<Item = (u8, Schedule, Bytes)> {
        let least = self.queues.iter().filter(|(_, class)| class.rate() <= RATE_MIN.bps() / 8);
        least.filter_map(move |(&queue, class)| {
            let weight = u64::from(class.quantum()) / sending.segment.get().max(1);
            let schedule = match class.priority() {
                LAST_PRIORITY if queue > 0 || !is_strict(queue) => {
                    Schedule::Weighted(u16::try_from(weight).unwrap_or(u16::MAX))
                }
                priority if priority == strict_priority(queue) => Schedule::Strict,
                _ => return None,
            };
            Some((queue, schedule, Bytes::new(u64::from(class.queue))))
        })
    }

    /// Brings the kernel from `found` to these classes: the root qdisc first, then classes that differ, then those that
    /// go.
    pub(super) fn install(
        &self,
        socket: &mut Socket,
        interface: &Interface,
        found: Option<&Self>,
    ) -> Result<(), PortError> {
        let index = interface.index();
        let mut batch = Vec::new();
        if found.is_none() {
            batch.push(root_message(index));
        }
        if found.is_none_or(|found| found.root != self.root) {
            batch.push(self.root.message(libc::NLM_F_CREATE, index, HANDLE | u32::from(ROOT_MINOR), HANDLE));
        }
        for (&queue, class) in &self.queues {
            let old = found.and_then(|found| found.queues.get(&queue));
            let (handle, parent) = (handle(queue), HANDLE | u32::from(ROOT_MINOR));
            if old != Some(class) {
                batch.push(class.message(libc::NLM_F_CREATE, index, handle, parent));
            }
            if old.is_none_or(|old| old.queue != class.queue) {
                let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
                batch.push(queue_message(flags, index, handle, class.queue, None));
            }
        }
        let gone = found.into_iter().flat_map(|found| found.queues.keys());
        let gone = gone.filter(|queue| !self.queues.contains_key(queue));
        batch.extend(gone.map(|queue| Message::new(libc::RTM_DELTCLASS, 0, &tcmsg(index, handle(*queue), 0))));
        // The first message that fails ends the others' use, and the kernel reports only it.
        for message in batch {
            socket.request("set the classes of a port", vec![message])?;
        }
        Ok(())
    }
}

/// Deletes a port's qdisc, and the kernel puts its default back; whether it was there.
pub(super) fn remove(socket: &mut Socket, interface: &Interface) -> Result<bool, PortError> {
    let there = tc::is_at_root(socket, interface.index(), HANDLE, "htb")?;
    if there {
        tc::delete_root(socket, interface.index(), HANDLE)?;
    }
    Ok(there)
}

/// Bytes that wait in a queue; 0 where there is no such queue.
pub(super) fn backlog(socket: &mut Socket, interface: &Interface, queue: u8) -> Result<u32, PortError> {
    let all = listed(socket, interface.index())?;
    let own = all.iter().find(|(minor, _, _)| *minor == FIRST_MINOR + u16::from(queue));
    Ok(own.map_or(0, |(_, _, backlog)| *backlog))
}

/// The counters of the queues of a port, by number.
pub(super) fn readings(socket: &mut Socket, interface: &Interface) -> Result<BTreeMap<u8, QueueReading>, PortError> {
    let classes = crate::htb::statuses(socket, interface.index(), HANDLE)?;
    let of = |class: crate::htb::ClassStatus| {
        let queue = u8::try_from(class.minor.checked_sub(FIRST_MINOR)?).ok()?;
        let reading = QueueReading {
            sent: Some(class.bytes),
            backlog: Some(class.backlog),
            dropped: Some(class.drops.into()),
            // Packets are marked in front of the classes.
            marked: None,
        };
        Some((queue, reading))
    };
    Ok(classes.into_iter().filter_map(of).collect())
}

/// The higher the queue, the earlier HTB serves it.
fn strict_priority(queue: u8) -> u32 {
    LAST_PRIORITY.saturating_sub(u32::from(queue))
}

fn handle(queue: u8) -> u32 {
    HANDLE | u32::from(FIRST_MINOR + u16::from(queue))
}

fn root_message(interface: u32) -> Message {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let mut options = Vec::new();
    // tc_htb_glob: version, rate2quantum (unused: every quantum is set), default class (none), debug, direct packets.
    for word in [3u32, 10, 0, 0, 0] {
        options.extend(word.to_ne_bytes());
    }
    let root = Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(interface, HANDLE, TC_H_ROOT));
    root.text(TCA_KIND, "htb").nest(TCA_OPTIONS, |m| m.attribute(TCA_HTB_INIT, &options))
}

/// The classes of our qdisc: minor number, numbers, bytes that wait.
fn listed(socket: &mut Socket, interface: u32) -> Result<Vec<(u16, Class, u32)>, NetlinkError> {
    let request = Message::new(libc::RTM_GETTCLASS, 0, &tcmsg(interface, 0, 0));
    let replies = socket.dump("list the classes of a port", request)?;
    let own = |reply: &Reply| {
        let payload = Some(&reply.payload).filter(|payload| payload.len() >= TCMSG)?;
        let handle = Some(read_u32(payload, 8)).filter(|handle| handle & 0xffff_0000 == HANDLE)?;
        let attributes = &payload[TCMSG..];
        let class = Class::from_options(attribute(attributes, TCA_OPTIONS)?)?;
        let stats = attribute(attributes, TCA_STATS2).unwrap_or_default();
        let backlog = read_u32(attribute(stats, tc::TCA_STATS_QUEUE).unwrap_or_default(), 4);
        Some((handle as u16, class, backlog))
    };
    Ok(replies.iter().filter(|reply| reply.kind == libc::RTM_NEWTCLASS).filter_map(own).collect())
}

/// The limits of the bfifos below our classes, by the class's minor number.
fn limits(socket: &mut Socket, interface: u32) -> Result<BTreeMap<u16, u32>, NetlinkError> {
    let request = Message::new(libc::RTM_GETQDISC, 0, &tcmsg(interface, 0, 0));
    let replies = socket.dump("list the queues of a port", request)?;
    let own = |reply: &Reply| {
        let payload = Some(&reply.payload).filter(|payload| payload.len() >= TCMSG)?;
        // Kernels list the qdiscs of all interfaces.
        let parent = Some(read_u32(payload, 12)).filter(|parent| parent & 0xffff_0000 == HANDLE)?;
        let attributes = Some(&payload[TCMSG..]).filter(|_| read_u32(payload, 4) == interface)?;
        let is_bfifo = attribute(attributes, TCA_KIND).map(text).as_deref() == Some("bfifo");
        Some((parent as u16, read_u32(attribute(attributes, TCA_OPTIONS).filter(|_| is_bfifo)?, 0)))
    };
    Ok(replies.iter().filter(|reply| reply.kind == libc::RTM_NEWQDISC).filter_map(own).collect())
}

/// The nearest rate that HTB has: whole bytes per second.
pub(super) fn in_force(wanted: u64, read: u64) -> Bandwidth {
    Bandwidth::from_bps(if wanted / 8 * 8 == read { wanted } else { read })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Sending = Sending { frame: Bytes::new(1_514), segment: Bytes::new(1_514) };

    fn queue(schedule: Schedule) -> QueueConfig {
        QueueConfig { schedule, mark: None, buffer: Some(Bytes::new(100_000)) }
    }

    #[test]
    fn priorities_and_quanta_follow_from_schedulers() {
        let schedules = [Schedule::Weighted(1), Schedule::Weighted(3), Schedule::Strict, Schedule::Strict];
        let queues = (0..).zip(schedules.map(queue)).collect();
        let state = PortState { rate: Some(Bandwidth::from_mbps(100)), queues, ..PortState::default() };
        let classes = PortClasses::of(&state, PLAIN).expect("a rate");
        let numbers: Vec<_> = classes.queues.values().map(|class| (class.priority(), class.quantum())).collect();
        assert_eq!(numbers, [(7, 1_514), (7, 4_542), (5, 1_514), (4, 1_514)]);
        let read: Vec<_> = classes.queues(PLAIN, |_| false).collect();
        let expected: Vec<_> =
            (0..).zip(schedules).map(|(queue, schedule)| (queue, schedule, Bytes::new(100_000))).collect();
        assert_eq!(read, expected);
        assert_eq!(classes.rate(), 100_000_000);
        assert_eq!(PortClasses::of(&PortState { rate: None, ..state }, PLAIN), None);
    }

    #[test]
    fn the_least_strict_queue_is_distinguished_from_a_weighted_one() {
        let queues = (0..8).map(|number| (number, queue(Schedule::Strict))).collect();
        let state = PortState { rate: Some(Bandwidth::from_gbps(1)), queues, ..PortState::default() };
        let classes = PortClasses::of(&state, PLAIN).expect("a rate");
        assert!(classes.queues(PLAIN, |_| true).all(|(_, schedule, _)| schedule.is_strict()));
        let first = classes.queues(PLAIN, |_| false).next();
        assert_eq!(first, Some((0, Schedule::Weighted(1), Bytes::new(100_000))));
    }

    #[test]
    fn class_with_another_rate_or_priority_is_no_queue() {
        let schedules = [Schedule::Weighted(1), Schedule::Strict, Schedule::Strict];
        let queues = (0..).zip(schedules.map(queue)).collect();
        let state = PortState { rate: Some(Bandwidth::from_mbps(100)), queues, ..PortState::default() };
        let classes = PortClasses::of(&state, PLAIN).expect("a rate");
        let changed = |queue: u8, change: fn(&mut PortClass)| {
            let mut own = PortClass {
                rate: RATE_MIN,
                ceil: Bandwidth::from_mbps(100),
                bursts: [Bytes::ZERO; 2],
                quantum: PLAIN.segment,
                queue: Bytes::new(100_000),
                priority: strict_priority(queue),
            };
            change(&mut own);
            let mut classes = classes.clone();
            classes.queues.insert(queue, own.into());
            classes.queues(PLAIN, |_| false).map(|(queue, schedule, _)| (queue, schedule)).collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..).zip(schedules).collect();
        assert_eq!(changed(1, |_| {}), all);
        assert_eq!(changed(1, |own| own.rate = Bandwidth::from_mbps(50)), [all[0], all[2]]);
        // Before the more urgent queue 2.
        assert_eq!(changed(1, |own| own.priority = 4), [all[0], all[2]]);
        assert_eq!(changed(1, |own| own.priority = 7), [all[0], (1, Schedule::Weighted(1)), all[2]]);
    }

    #[test]
    fn rates_of_whole_bytes_are_those_that_were_wanted() {
        assert_eq!(in_force(33_333_333, 33_333_328), Bandwidth::from_bps(33_333_333));
        assert_eq!(in_force(33_333_333, 10_000_000), Bandwidth::from_bps(10_000_000));
    }
}
