//! [`Marks`]: the program that numbers packets of guests whose packets the host routes (`bpf/guest.bpf.c`).
//!
//! Problem: a program on hundreds of interfaces must be attached once to each, outlive the agent, be adopted by the
//! next one and leave no trace. Approach: with tcx a link for each interface is pinned beside the uplink's; without it
//! a filter of clsact has the handle by which [`crate::attachment`] finds it, and `weir_guest_marks` records the
//! interfaces, and those to which clsact was added, before they are changed. The program needs no configuration, so one
//! is loaded for all interfaces, and two agents of one host may attach it to the same one.
//!
//! Worked example: `veth3`, index 31, is a port of `docker0`. `guest-31` is pinned; when the container ends, the kernel
//! deletes the interface with its program, and the agent unpins the link. If another interface has got the index 31
//! meanwhile, the agent attaches the program to it, since the kernel sent a message about the end of the first one.

use crate::attachment::{Attachment, attach_beside, attach_filter, has_filters, remove_filters};
use crate::loader::LoaderError;
use crate::maps::{Entries, GuestMarks};
use crate::netlink::Socket;
use crate::pins::Pins;
use crate::tc;
use aya::Ebpf;
use aya::programs::{SchedClassifier, TcAttachType};
use std::collections::{BTreeMap, BTreeSet};
use weir_datapath::abi::{GUEST_CLSACT, GUEST_MARKED};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/guest.bpf.o"));
const PROGRAM: (&str, TcAttachType) = ("weir_guest", TcAttachType::Ingress);
/// The start of the names of pinned links.
const LINK: &str = "guest-";

fn link(index: u32) -> String {
    format!("{LINK}{index}")
}

/// The interfaces with the program.
pub(super) struct Marks {
    pins: Pins,
    attachment: Attachment,
    /// Loaded for the first interface.
    object: Option<Ebpf>,
    marks: Entries<u32, u32>,
    /// Those to which this agent has attached it, or found it.
    attached: BTreeSet<u32>,
}

impl Marks {
    /// From the pins of an interface, whose programs are attached in this way.
    pub(super) fn open(pins: &Pins, attachment: Attachment) -> Result<Self, LoaderError> {
        let marks = GuestMarks::open(pins)?.marks;
        Ok(Self { pins: pins.clone(), attachment, object: None, marks, attached: BTreeSet::new() })
    }

    /// Attaches the program to these interfaces, by index, and removes it from all others. Returns why one has none.
    /// Call it in the namespace of the interfaces.
    pub(super) fn set(&mut self, wanted: &BTreeMap<u32, String>) -> Result<Option<String>, LoaderError> {
        let links = self.pins.names(LINK);
        let linked = links.iter().filter_map(|name| name.strip_prefix(LINK)?.parse().ok());
        let there: BTreeSet<u32> = self.marks.keys()?.into_iter().chain(linked).collect();
        for index in there.iter().filter(|index| !wanted.contains_key(index)) {
            self.remove(*index)?;
        }
        let mut failed = None;
        for (index, name) in wanted.iter().filter(|(index, _)| !self.attached.contains(index)).collect::<Vec<_>>() {
            match self.attach(*index, name) {
                Ok(true) => drop(self.attached.insert(*index)),
                // Renamed or deleted: the next list has it.
                Ok(false) => {}
                Err(error) => failed = failed.or(Some(format!("{name}: {error}"))),
            }
        }
        Ok(failed)
    }

    /// An interface has left the namespace, so the next [`Marks::set`] attaches the program to another one of its
    /// index. Call it in the namespace of the interfaces.
    pub(super) fn forget(&mut self, index: u32) -> Result<(), LoaderError> {
        // With tcx the pinned link has ended, and the next list replaces it. A list that was made in between may have
        // found the other interface already.
        let is_ours = self.attachment == Attachment::Tcx || has_filters(index, &[PROGRAM])?;
        if self.attached.remove(&index) && !is_ours {
            self.marks.remove(index)?;
        }
        Ok(())
    }

    /// Messages of the kernel are lost, so any interface may be another one of the same index.
    pub(super) fn forget_all(&mut self) -> Result<(), LoaderError> {
        self.attached.clone().into_iter().try_for_each(|index| self.forget(index))
    }

    /// Returns whether the program is attached to the interface of this index.
    fn attach(&mut self, index: u32, name: &str) -> Result<bool, LoaderError> {
        if self.object.is_none() {
            let mut object = Ebpf::load(OBJECT)?;
            program(&mut object)?.load()?;
            self.object = Some(object);
        }
        let Some(object) = &mut self.object else { return Ok(false) };
        let program = program(object)?;
        match self.attachment {
            Attachment::Tcx => {
                attach_beside(program, &self.pins, &link(index), name)?;
                let is_attached = self.pins.leads_to(&link(index), index);
                if !is_attached {
                    self.pins.unpin(&link(index))?;
                }
                Ok(is_attached)
            }
            Attachment::Clsact => {
                let before = self.marks.get(index).unwrap_or_default();
                // Recorded first, so that it can be removed after a crash between the two.
                self.marks.insert(index, before | GUEST_MARKED)?;
                if tc::add_clsact(&mut Socket::open()?, index)? {
                    self.marks.insert(index, GUEST_MARKED | GUEST_CLSACT)?;
                }
                attach_filter(program, PROGRAM.0, (name, index), PROGRAM.1)?;
                Ok(true)
            }
        }
    }

    fn remove(&mut self, index: u32) -> Result<(), LoaderError> {
        // The link ends with its pin.
        self.pins.unpin(&link(index))?;
        if let Ok(marks) = self.marks.get(index) {
            remove_filter(index, marks)?;
            self.marks.remove(index)?;
        }
        self.attached.remove(&index);
        Ok(())
    }
}

fn program(object: &mut Ebpf) -> Result<&mut SchedClassifier, LoaderError> {
    Ok(object.program_mut(PROGRAM.0).ok_or(LoaderError::Missing(PROGRAM.0))?.try_into()?)
}

/// Removes the filter from an interface, and clsact if an agent added it. The interface may be gone, and its index that
/// of another one: an interface without the filter is left alone.
fn remove_filter(index: u32, marks: u32) -> Result<(), LoaderError> {
    if remove_filters(index, &[PROGRAM])? && marks & GUEST_CLSACT != 0 {
        tc::delete_clsact(&mut Socket::open()?, index)?;
    }
    Ok(())
}

/// Removes the filters that an agent of any version attached to interfaces of guests. Links end with the pins. Call it
/// in the namespace of the interfaces.
pub(crate) fn remove_all(pins: &Pins) -> Result<(), LoaderError> {
    // An earlier version has no such map.
    let Ok(GuestMarks { marks }) = GuestMarks::open(pins) else { return Ok(()) };
    marks.keys()?.into_iter().try_for_each(|index| remove_filter(index, marks.get(index).unwrap_or_default()))
}

/// Takes over the filters of an agent of another version.
pub(crate) fn take_over(from: &Pins, to: &Pins) -> Result<(), LoaderError> {
    let Ok(GuestMarks { marks: earlier }) = GuestMarks::open(from) else { return Ok(()) };
    let mut marks = GuestMarks::open(to)?.marks;
    earlier.keys()?.into_iter().try_for_each(|index| Ok(marks.insert(index, earlier.get(index)?)?))
}
