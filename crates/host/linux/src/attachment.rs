//! [`Attachment`]: the attachment of a program to an interface, and the replacement of an earlier agent's.
//!
//! Problem: kernels since 6.6 attach programs by tcx links, earlier ones by filters of the qdisc
//! clsact. With both, a newer program must replace an older one without a gap in which packets pass
//! without either, and foreign programs must stay attached. Approach: a link is pinned, and the
//! next agent updates it; a filter has a handle that is unlikely to be chosen by accident, and the
//! next agent replaces the filter of that handle. A kernel without tcx refuses the link. Links and
//! filters are ordered before foreign programs, which may accept a packet without running later
//! programs; Weir's programs always continue with the next one.
//!
//! Worked example: an agent is killed on Linux 6.1. `tc filter show dev eth0 ingress` still has
//! `weir_ingress` at priority 10, handle 0x7765; the next agent replaces its program.
//!
//! Source: aya's documentation; kernel Documentation/bpf/ (tcx); net/sched/cls_bpf.c.

use crate::interface::Interface;
use crate::loader::{LoaderError, program};
use crate::netlink::{NetlinkError, Socket};
use crate::pins::Pins;
use crate::tc::{self, Filter};
use aya::Ebpf;
use aya::programs::links::FdLink;
use aya::programs::tc::{NlOptions, SchedClassifierLink, SchedClassifierLinkId, TcAttachOptions, TcHandle};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};

/// The priorities of our clsact filters; the first free one is used. Low: a packet that an earlier
/// filter accepts for good does not reach ours. Not the lowest: the kernel puts a filter without a
/// priority before the lowest existing one, and needs a free priority there.
const FILTER_PRIORITIES: std::ops::Range<u16> = 10..18;
/// Their handle, unlikely to be chosen by accident, by which a later agent finds them.
const FILTER_HANDLE: u16 = 0x7765;
/// The priority of filters of earlier versions, after foreign filters.
const EARLIER_PRIORITY: u16 = 0x7765;

/// The kind of attachment of programs to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// Links (kernel 6.6 and later).
    Tcx,
    /// Filters of the clsact qdisc.
    Clsact,
}

/// Adds clsact to an interface for an attachment that needs it; returns whether it was added, and is to be removed with
/// the programs.
pub(crate) fn add_clsact(attachment: Attachment, interface: &Interface) -> Result<bool, LoaderError> {
    if attachment == Attachment::Tcx {
        return Ok(false);
    }
    let mut socket = Socket::open()?;
    let is_added = tc::add_clsact(&mut socket, interface.index())?;
    if !is_added && tc::has_ingress(&mut socket, interface.index())? {
        return Err(LoaderError::Ingress(interface.name().into()));
    }
    Ok(is_added)
}

/// Attaches loaded programs to an interface, in place of those of an earlier daemon. clsact is there if it is needed
/// ([`add_clsact`]).
pub(crate) fn attach_all(
    object: &mut Ebpf,
    programs: &[(&'static str, TcAttachType)],
    attachment: Attachment,
    (pins, interface): (&Pins, &Interface),
) -> Result<(), LoaderError> {
    let (name, index) = (interface.name(), interface.index());
    programs.iter().try_for_each(|&(program_name, direction)| {
        let program = program(object, program_name)?;
        match attachment {
            Attachment::Tcx => attach_link(program, pins, program_name, name, direction),
            Attachment::Clsact => attach_filter(program, program_name, (name, index), direction),
        }
    })
}

/// Puts a program into the link that an earlier agent pinned, or attaches it and pins its link.
fn attach_link(
    program: &mut SchedClassifier,
    pins: &Pins,
    name: &'static str,
    interface: &str,
    direction: TcAttachType,
) -> Result<(), LoaderError> {
    let earlier = || std::iter::once(pins.clone()).chain(pins.of_other_versions()).find_map(|pins| pins.link(name));
    if let Some(link) = earlier() {
        match program.attach_to_link(SchedClassifierLink::try_from(link)?) {
            Ok(link) => return pin(program, link, pins, name),
            // The link's interface was deleted, and another interface has its index now.
            Err(ProgramError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::ENOLINK) => {
                pins.unpin(name)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let running = match SchedClassifier::query_tcx(interface, direction) {
        Ok((_, running)) => running,
        // Without CAP_SYS_ADMIN a process cannot query foreign programs; the lock of the pins
        // already excludes another agent.
        Err(ProgramError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::EPERM) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if running.iter().any(|info| info.name_as_str() == Some(name)) {
        return Err(LoaderError::AlreadyAttached(interface.into()));
    }
    let options = TcAttachOptions::TcxOrder(LinkOrder::first());
    let link = program.attach_with_options(interface, direction, options)?;
    pin(program, link, pins, name)
}

/// Puts a program into the link that an earlier agent pinned under a name of its own, or attaches it to arriving
/// packets and pins its link. Other agents may have attached the same program.
pub(crate) fn attach_beside(
    program: &mut SchedClassifier,
    pins: &Pins,
    pinned: &str,
    interface: &str,
) -> Result<(), LoaderError> {
    if let Some(link) = pins.link(pinned) {
        match program.attach_to_link(SchedClassifierLink::try_from(link)?) {
            Ok(link) => return pin(program, link, pins, pinned),
            // The link's interface was deleted.
            Err(ProgramError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::ENOLINK) => {
                pins.unpin(pinned)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let options = TcAttachOptions::TcxOrder(LinkOrder::first());
    let link = program.attach_with_options(interface, TcAttachType::Ingress, options)?;
    pin(program, link, pins, pinned)
}

/// Pins a link, unless it is pinned here already. Its file is closed then.
fn pin(program: &mut SchedClassifier, link: SchedClassifierLinkId, pins: &Pins, name: &str) -> Result<(), LoaderError> {
    let link = FdLink::try_from(program.take_link(link)?)?;
    if !pins.path(name).exists() {
        link.pin(pins.path(name))?;
    }
    Ok(())
}

/// Replaces the filter that an earlier agent left, or adds one before foreign filters. Deletes the
/// filter that an earlier version left after them.
pub(crate) fn attach_filter(
    program: &mut SchedClassifier,
    name: &'static str,
    (interface, index): (&str, u32),
    direction: TcAttachType,
) -> Result<(), LoaderError> {
    let mut socket = Socket::open()?;
    let (earlier, own): (Vec<Filter>, Vec<Filter>) = ours(&mut socket, index, name, direction)?
        .into_iter()
        .partition(|filter| filter.priority() == EARLIER_PRIORITY);
    let handle = TcHandle::new(0, FILTER_HANDLE);
    let link = match own.first() {
        Some(own) => {
            let there = SchedClassifierLink::attached(interface, direction, own.priority(), handle, None);
            let there = there.map_err(|error| LoaderError::Io { what: name, error })?;
            program.attach_to_link(there)
        }
        None => {
            let mut add = |priority| {
                let options = NlOptions { priority, handle, ..NlOptions::default() };
                program.attach_with_options(interface, direction, TcAttachOptions::Netlink(options))
            };
            // A priority that has filters of another kind accepts no BPF filter.
            let last = FILTER_PRIORITIES.end - 1;
            (FILTER_PRIORITIES.start..last).find_map(|priority| add(priority).ok()).map_or_else(|| add(last), Ok)
        }
    };
    // Dropping the link would delete the filter.
    std::mem::forget(program.take_link(link?)?);
    for filter in earlier {
        tc::delete_filter(&mut socket, index, parent(direction), filter)?;
    }
    Ok(())
}

/// The filters of a program that agents of any version attached to an interface. Selected by handle
/// or priority as well as by name, since a foreign filter may have an attribute that resembles the name.
fn ours(socket: &mut Socket, index: u32, name: &str, direction: TcAttachType) -> Result<Vec<Filter>, NetlinkError> {
    let mut filters = tc::filters_named(socket, index, parent(direction), name)?;
    filters.retain(|filter| filter.handle == u32::from(FILTER_HANDLE) || filter.priority() == EARLIER_PRIORITY);
    Ok(filters)
}

/// Attaches a program that no later agent takes over: by a tcx link, or a clsact filter where the
/// kernel has no tcx. The attachment ends with the program.
pub(crate) fn attach_anyhow(
    program: &mut SchedClassifier,
    name: &str,
    index: u32,
    direction: TcAttachType,
) -> Result<Attachment, LoaderError> {
    let tcx = TcAttachOptions::TcxOrder(LinkOrder::default());
    match program.attach_with_options(name, direction, tcx) {
        Ok(_) => return Ok(Attachment::Tcx),
        Err(error) if lacks_tcx(&error) => {}
        Err(error) => return Err(error.into()),
    }
    tc::add_clsact(&mut Socket::open()?, index)?;
    program.attach_with_options(name, direction, TcAttachOptions::Netlink(NlOptions::default()))?;
    Ok(Attachment::Clsact)
}

/// Removes the filters that agents left on an interface, and returns whether there was one. Without
/// clsact or without the interface there are none. An error of one does not keep the others from being removed.
pub(crate) fn remove_filters(index: u32, programs: &[(&str, TcAttachType)]) -> Result<bool, NetlinkError> {
    let mut socket = Socket::open()?;
    let mut removed = Vec::new();
    for (name, direction) in programs {
        match ours(&mut socket, index, name, *direction) {
            Ok(filters) => removed.extend(
                filters.into_iter().map(|filter| tc::delete_filter(&mut socket, index, parent(*direction), filter)),
            ),
            Err(error) => removed.push(Err(error)),
        }
    }
    removed.into_iter().try_fold(false, |any, removed| Ok(any | removed?))
}

/// The id of the program that Weir attached to an interface under this name, if there is one.
pub(crate) fn program_of(
    socket: &mut Socket,
    index: u32,
    (name, direction): (&str, TcAttachType),
) -> Result<Option<u32>, NetlinkError> {
    tc::program_of_filter(socket, index, parent(direction), (name, u32::from(FILTER_HANDLE)))
}

/// Whether the filters of all these programs are attached to an interface.
pub(crate) fn has_filters(index: u32, programs: &[(&str, TcAttachType)]) -> Result<bool, NetlinkError> {
    let mut socket = Socket::open()?;
    programs
        .iter()
        .try_fold(true, |all, (name, direction)| Ok(all && !ours(&mut socket, index, name, *direction)?.is_empty()))
}

fn parent(direction: TcAttachType) -> u32 {
    if direction == TcAttachType::Ingress { tc::TC_H_INGRESS } else { tc::TC_H_EGRESS }
}

/// Whether the error is the reply of kernels before 6.6 to a tcx link.
#[doc(hidden)]
pub fn lacks_tcx(error: &ProgramError) -> bool {
    match error {
        ProgramError::SyscallError(error) => error.io_error.raw_os_error() == Some(libc::EINVAL),
        _ => false,
    }
}
