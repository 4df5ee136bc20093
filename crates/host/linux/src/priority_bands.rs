//! The qdiscs of departure times beside latency levels: bands that are served in order of priority.
//!
//! fq has no strict priority among flows. A prio at the root therefore serves each level's band before the next, and
//! fq in the last band. A band's HTB has one class, [`Class::of_level`], so that a level is regulated as in
//! [`crate::htb::HtbTree`], and super-packets are cut into frames; fq in its place would send each whole.
//!
//! ```text
//! 7765: prio root, seven bands
//!   7765:1   level 1: 7766: htb, its class 7766:4 with a tbf; 7765:2 level 2: 7767: htb ...
//!   7765:7   7764: fq: all other traffic
//! ```
//!
//! The programs set a packet's band (`bpf/levels.h`). The number of bands is fixed, so that fq and its packets stay
//! when a level is added. A level that this host does not send on has the kernel's own queue, or that of an earlier
//! policy, which stays empty.
//!
//! Source: net/sched/sch_prio.c (a priority that names a class of the qdisc selects its band).

use crate::class::{Class, Sending, is_level_there, queue_message};
use crate::fq::with_room;
use crate::htb::{HANDLE, LEVEL_FIRST, with_default};
use crate::netlink::Message;
use crate::tc::{Qdisc, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, tcmsg};
use std::collections::BTreeMap;
use weir_datapath::abi::LEVELS_MAX;
use weir_shaping::LevelLimits;

/// The minor number of the band of level 1; those of the other levels follow.
pub(crate) const BAND_FIRST: u16 = 1;
/// The bands: one for each possible level, and one for all other traffic.
const BANDS: u32 = LEVELS_MAX + 1;
/// struct tc_prio_qopt has the band of each of these priorities.
const PRIORITIES: usize = 16;
/// fq in the last band.
pub(crate) const FQ_HANDLE: u32 = 0x7764_0000;
/// The HTB of level 1's band; those of the other levels follow.
const LEVEL_HANDLE: u32 = 0x7766_0000;

/// A band's class.
fn band(index: u32) -> u32 {
    HANDLE | (u32::from(BAND_FIRST) + index)
}

/// The requests that put the bands at the root of an interface with these qdiscs, or bring existing bands to these
/// levels, of which there are at most [`LEVELS_MAX`].
pub(crate) fn messages(
    interface: u32,
    qdiscs: &[Qdisc],
    levels: &[Option<LevelLimits>],
    sending: Sending,
) -> Vec<Message> {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let fq = Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(interface, FQ_HANDLE, band(LEVELS_MAX)));
    let mut messages = vec![root(interface), with_room(fq.text(TCA_KIND, "fq"))];
    for (index, limits) in (0..).zip(levels) {
        let Some(limits) = limits else { continue };
        let handle = level_handle(index);
        let minor = LEVEL_FIRST + index as u16;
        if !qdiscs.iter().any(|qdisc| qdisc.handle == handle) {
            let htb = Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(interface, handle, band(index)));
            messages.push(with_default(htb.text(TCA_KIND, "htb"), minor));
        }
        let class = Class::of_level(limits, index as usize, sending);
        let number = handle | u32::from(minor);
        messages.push(class.message(libc::NLM_F_CREATE, interface, number, handle));
        messages.push(queue_message(flags, interface, number, class.queue, class.cut_above));
    }
    messages
}

/// Whether the bands of these levels are all there, with classes as they were made. `classes` are those of HTB.
pub(crate) fn are_complete(
    qdiscs: &[Qdisc],
    classes: &BTreeMap<u32, Class>,
    levels: &[Option<LevelLimits>],
    sending: Sending,
) -> bool {
    let there = |kind: &str, handle: u32, parent: u32| {
        qdiscs.iter().any(|qdisc| qdisc.kind == kind && qdisc.handle == handle && qdisc.parent == parent)
    };
    let used = (0..).zip(levels).filter_map(|(index, limits)| Some((index, limits.as_ref()?)));
    there("prio", HANDLE, TC_H_ROOT)
        && there("fq", FQ_HANDLE, band(LEVELS_MAX))
        && used.into_iter().all(|(index, limits)| {
            let (minor, handle) = (u32::from(LEVEL_FIRST) + index, level_handle(index));
            let wanted = Class::of_level(limits, index as usize, sending);
            there("htb", handle, band(index)) && is_level_there((classes, qdiscs), handle | minor, &wanted)
        })
}

fn level_handle(index: u32) -> u32 {
    LEVEL_HANDLE + (index << 16)
}

/// Appends the options of a prio whose packets without a band are in the last.
pub(crate) fn with_bands(message: Message) -> Message {
    let mut options = BANDS.to_ne_bytes().to_vec();
    options.extend([LEVELS_MAX as u8; PRIORITIES]);
    message.attribute(TCA_OPTIONS, &options)
}

fn root(interface: u32) -> Message {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let root = Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(interface, HANDLE, TC_H_ROOT));
    with_bands(root.text(TCA_KIND, "prio"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::{Bandwidth, Bytes};

    #[test]
    fn bands_are_complete_while_classes_and_queues_are_as_they_were_made() {
        let sending = Sending { frame: Bytes::new(1_514), segment: Bytes::new(1_514) };
        let limits = |mbps| LevelLimits {
            rate: Bandwidth::from_mbps(mbps),
            burst: Bytes::new(3_076),
            epoch: None,
            packet: Bytes::new(1_538),
            framing: Bytes::new(24),
            dscp: 46,
        };
        // Level 1 sends nothing here.
        let levels = [None, Some(limits(8))];
        let qdisc = |kind: &str, handle, parent| Qdisc { kind: kind.into(), handle, parent };
        let qdiscs = [
            qdisc("prio", HANDLE, TC_H_ROOT),
            qdisc("fq", FQ_HANDLE, band(LEVELS_MAX)),
            qdisc("htb", 0x7767_0000, band(1)),
            qdisc("tbf", 0x0005_0000, 0x7767_0005),
        ];
        let class = |mbps| BTreeMap::from([(0x7767_0005, Class::of_level(&limits(mbps), 1, sending))]);
        assert!(are_complete(&qdiscs, &class(8), &levels, sending));
        assert!(!are_complete(&qdiscs, &class(9), &levels, sending));
        assert!(!are_complete(&qdiscs, &BTreeMap::new(), &levels, sending));
        for missing in 0..qdiscs.len() {
            let mut qdiscs = qdiscs.to_vec();
            qdiscs.remove(missing);
            assert!(!are_complete(&qdiscs, &class(8), &levels, sending), "without {missing}");
        }
    }
}
