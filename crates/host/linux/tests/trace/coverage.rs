//! What a trace has reached, by the kernel's side.

use crate::event::{Content, Event, Kind};
use crate::kernel::{Egress, Kernel};
use crate::setup::{LEVELLED, LIMITED, SERVICES, SLOTS};
use crate::side::{Outcome, Side, Snapshot, Verdict};
use std::collections::BTreeMap;
use weir_datapath::abi::{NO_DESTINATION, REST};

/// With both backends.
const ALWAYS: [&str; 29] = [
    "verdict next",
    "verdict drop",
    "policer: followed",
    "policer: passed",
    "policer: marked",
    "policer: dropped",
    "feedback sent",
    "feedback with acknowledgement sent",
    "feedback for a guest",
    "feedback suppressed as repeated",
    "feedback requests refused",
    "ECN capability messages sent",
    "feedback accepted",
    "feedback replayed",
    "feedback forged",
    "feedback of no service",
    "destinations full",
    "foreign control datagrams",
    "spoofed control datagrams",
    "ECN encapsulated",
    "feedback requested",
    "ECN restored",
    "DSCP of a level written",
    "DSCP of a level claimed",
    "level: dropped",
    "long buffers beside levels",
    "fallback entered",
    "fallback left",
    "R below the capacity",
];
const EDT: [&str; 9] = [
    "departure at once",
    "departure later",
    "left in a batch",
    "left by a lease",
    "lease returned with a rest",
    "batch of a reassigned destination",
    "excess bytes",
    "newcomers",
    "beyond the horizon",
];
const HTB: [&str; 5] = [
    "class of a service",
    "class of the static policy",
    "class of a destination",
    "gate of credits",
    "no gate is free",
];

#[derive(Default)]
pub(crate) struct Coverage {
    counts: BTreeMap<&'static str, u64>,
    falls_back: bool,
    before: Option<(u32, Egress)>,
}

impl Coverage {
    fn add(&mut self, what: &'static str, count: u64) {
        *self.counts.entry(what).or_default() += count;
    }

    fn reached(&mut self, what: &'static str, is_so: bool) {
        self.add(what, is_so.into());
    }

    /// Before an event.
    pub(crate) fn watch(&mut self, kernel: &Kernel, event: &Event) {
        self.before = match &event.kind {
            Kind::Leaves(frame) => match frame.content {
                Content::Data(LEVELLED) => None,
                Content::Data(service) => {
                    let slot = if service < SERVICES { service } else { REST };
                    Some((slot, kernel.egress(slot)))
                }
                _ => None,
            },
            _ => None,
        };
    }

    /// After it. Returns whether it is so rare that the whole state is to be compared: a wrong charge is repaid soon.
    pub(crate) fn count(&mut self, kernel: &Kernel, event: &Event, outcome: &Outcome, paces: bool) -> bool {
        let passed = outcome.verdict == Verdict::Next;
        match &event.kind {
            Kind::Leaves(frame) => {
                self.reached("verdict next", passed);
                self.reached("verdict drop", !passed);
                if passed && frame.content != Content::NotIp {
                    self.count_header(&frame.bytes[14..], &outcome.network);
                }
                if paces {
                    self.reached("departure at once", passed && outcome.departure == 0);
                    self.reached("departure later", outcome.departure > event.at);
                    self.count_departure(kernel, outcome);
                } else if passed {
                    self.count_class(frame.content, outcome.priority & 0xffff);
                }
            }
            Kind::Arrives(frame) => {
                if passed && frame.content != Content::NotIp {
                    let (before, after) = (ecn(&frame.bytes[14..]), ecn(&outcome.network));
                    self.reached("ECN restored", before != 0 && after == 0);
                }
                if let Some(sent) = outcome.sent {
                    self.reached("feedback for a guest", frame.bytes[5] != 1);
                    let acknowledges = sent.content.has & weir_datapath::abi::FEEDBACK_ECN_ACK != 0;
                    self.reached("ECN capability messages sent", sent.is_ecn_capability);
                    self.reached("feedback with acknowledgement sent", !sent.is_ecn_capability && acknowledges);
                }
                self.count_suppressed(kernel, event, outcome);
            }
            Kind::Tick => {
                let falls_back = kernel.is_in_fallback();
                self.reached("fallback entered", falls_back && !self.falls_back);
                self.reached("fallback left", !falls_back && self.falls_back);
                self.falls_back = falls_back;
            }
            Kind::Control(_) => {}
        }
        self.before.is_some_and(|(_, before)| before.is_reassigned)
    }

    fn count_header(&mut self, before: &[u8], after: &[u8]) {
        self.reached("ECN encapsulated", ecn(before) == 0 && ecn(after) == 2);
        self.reached("feedback requested", ecn(before) == 0 && ecn(after) == 1);
        let level = crate::setup::LEVEL_DSCP;
        self.reached("DSCP of a level written", dscp(before) != level && dscp(after) == level);
        self.reached("DSCP of a level claimed", dscp(before) == level && dscp(after) == 0);
    }

    fn count_departure(&mut self, kernel: &Kernel, outcome: &Outcome) {
        let Some((slot, before)) = self.before else { return };
        let after = kernel.egress(slot);
        let unchanged = after.sent == before.sent;
        let (left, was) = (after.lease.left, before.lease.left);
        let at_once = outcome.verdict == Verdict::Next && outcome.departure == 0;
        self.reached("left in a batch", at_once && unchanged && after.batch.unpaid > before.batch.unpaid);
        let same = left & u64::from(NO_DESTINATION) == was & u64::from(NO_DESTINATION);
        self.reached("left by a lease", unchanged && same && left < was && outcome.departure != 0);
        self.reached("lease returned with a rest", !same && was >> 32 > 0);
        self.reached("batch of a reassigned destination", before.is_reassigned && after.batch.unpaid == 0);
    }

    fn count_class(&mut self, content: Content, minor: u32) {
        let (name, known) = match minor {
            0x1000..0x2000 => ("class of a service", true),
            0x2000..0x3000 => ("class of the static policy", true),
            0x3000..0x4000 => ("class of a destination", true),
            0x4000.. => ("gate of credits", true),
            _ => ("", false),
        };
        if known {
            assert!(matches!(content, Content::Data(..SERVICES)), "{content:?} has the class {minor:#x}");
            self.add(name, 1);
        }
    }

    /// Feedback that was due by bytes, at this host, and did not leave.
    fn count_suppressed(&mut self, kernel: &Kernel, event: &Event, outcome: &Outcome) {
        let Kind::Arrives(frame) = &event.kind else { return };
        let Content::Data(service @ ..SERVICES) = frame.content else { return };
        if outcome.sent.is_some() || frame.bytes[5] != 1 {
            return;
        }
        self.reached("feedback suppressed as repeated", kernel.feedback_due_at(service) == event.at);
    }

    /// From the counters at the end.
    pub(crate) fn finish(&mut self, kernel: &Kernel) {
        let Snapshot { state, counting, interface_egress, counts, level, .. } = kernel.state();
        let limited = SLOTS.iter().position(|slot| *slot == LIMITED).expect("a slot");
        let policed = counting[limited].policed;
        let unmarked = policed.packets - policed.marked_packets;
        let machine = interface_egress.machine;
        for (what, count) in [
            ("policer: followed", policed.followed_bytes),
            ("policer: passed", unmarked),
            ("policer: marked", policed.marked_packets),
            ("policer: dropped", policed.dropped_packets),
            ("feedback sent", counting.iter().map(|counting| counting.feedback_sent).sum()),
            ("feedback requests refused", counts.requests_limited),
            ("feedback accepted", counts.feedback_accepted),
            ("feedback replayed", counts.feedback_replayed),
            ("feedback forged", counts.feedback_forged),
            ("feedback of no service", counts.feedback_unclassified),
            ("destinations full", counts.destinations_full),
            ("foreign control datagrams", counts.foreign),
            ("spoofed control datagrams", counts.spoofed),
            ("level: dropped", level.level.dropped),
            ("long buffers beside levels", counts.long_buffers),
            ("excess bytes", machine.sent - machine.committed),
            ("newcomers", machine.newcomers),
            ("beyond the horizon", counts.beyond_horizon),
            ("no gate is free", counts.credit_gates_full),
            ("ticks", state.ticks),
        ] {
            self.add(what, count);
        }
        assert_eq!(counts.feedback_failed, 0, "control messages that did not leave");
    }

    /// At a comparison of the state.
    pub(crate) fn sample(&mut self, snapshot: &Snapshot) {
        let receiving = snapshot.state.receiving;
        self.reached("R below the capacity", receiving.rate < receiving.capacity);
    }

    /// Prints the counts, and asserts that each branch was reached.
    pub(crate) fn assert_complete(&self, paces: bool) {
        for (what, count) in &self.counts {
            println!("  {what}: {count}");
        }
        let required = ALWAYS.iter().chain(if paces { EDT.as_slice() } else { &HTB });
        let missed: Vec<_> = required.filter(|what| self.counts.get(*what).is_none_or(|count| *count == 0)).collect();
        assert!(missed.is_empty(), "never reached: {missed:?}");
    }
}

/// Of an IP header.
fn ecn(header: &[u8]) -> u8 {
    if header[0] >> 4 == 6 { header[1] >> 4 & 3 } else { header[1] & 3 }
}

fn dscp(header: &[u8]) -> u8 {
    if header[0] >> 4 == 6 { (header[0] & 0xf) << 2 | header[1] >> 6 } else { header[1] >> 2 }
}
