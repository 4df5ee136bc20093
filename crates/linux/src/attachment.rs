//! [`Attachment`]: how a program hangs on an interface, and comes into the place of an earlier agent's.
//!
//! Problem: kernels since 6.6 hold programs by tcx links, earlier ones by filters of the qdisc clsact; in both a newer program has to take an
//! older one's place without a packet that passes unseen, and what others hung beside must stay. Approach: a link is pinned, and
//! the next agent updates it; a filter stands at a number that nobody picks by accident, and adding one there replaces it. The kernel
//! says that it has no tcx by refusing the link.
//!
//! Worked example: an agent is killed on Linux 6.1. `tc filter show dev eth0 ingress` still has `weir_ingress` at priority 30565; the next
//! agent's program is put there.
//!
//! Source: aya's documentation; kernel Documentation/bpf/ (tcx); net/sched/cls_bpf.c.

use crate::loader::LoaderError;
use crate::netlink::{NetlinkError, Socket};
use crate::pins::Pins;
use crate::tc;
use aya::programs::links::FdLink;
use aya::programs::tc::{NlOptions, SchedClassifierLink, SchedClassifierLinkId, TcAttachOptions, TcHandle};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};

/// Where our clsact filters stand: a number that nobody picks by accident, so that they are found again.
const FILTER_PRIORITY: u16 = 0x7765;

/// How programs are held on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// Links (kernel 6.6 and later).
    Tcx,
    /// Filters of the clsact qdisc.
    Clsact,
}

/// Puts a program into the link that an earlier agent pinned, or attaches it and pins its link.
pub(crate) fn attach_link(
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
            // It leads to an interface that is gone: another one has its number now.
            Err(ProgramError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::ENOLINK) => {
                pins.unpin(name)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let running = match SchedClassifier::query_tcx(interface, direction) {
        Ok((_, running)) => running,
        // Without CAP_SYS_ADMIN nobody may look at others' programs; that no agent of ours runs, the lock of the pins tells.
        Err(ProgramError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::EPERM) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if running.iter().any(|info| info.name_as_str() == Some(name)) {
        return Err(LoaderError::AlreadyAttached(interface.into()));
    }
    let options = TcAttachOptions::TcxOrder(LinkOrder::default());
    let link = program.attach_with_options(interface, direction, options)?;
    pin(program, link, pins, name)
}

/// Pins a link, unless it is pinned here already. Its file is closed then.
fn pin(program: &mut SchedClassifier, link: SchedClassifierLinkId, pins: &Pins, name: &str) -> Result<(), LoaderError> {
    let link = FdLink::try_from(program.take_link(link)?)?;
    if !pins.path(name).exists() {
        link.pin(pins.path(name))?;
    }
    Ok(())
}

/// Replaces the filter that an earlier agent left, or adds one.
pub(crate) fn attach_filter(
    program: &mut SchedClassifier,
    name: &'static str,
    interface: &str,
    direction: TcAttachType,
) -> Result<(), LoaderError> {
    let handle = TcHandle::new(0, 1);
    let options = NlOptions { priority: FILTER_PRIORITY, handle, ..NlOptions::default() };
    let link = match program.attach_with_options(interface, direction, TcAttachOptions::Netlink(options)) {
        Ok(link) => link,
        Err(_) => {
            let there = SchedClassifierLink::attached(interface, direction, FILTER_PRIORITY, handle, None);
            let there = there.map_err(|error| LoaderError::Io { what: name, error })?;
            program.attach_to_link(there)?
        }
    };
    // Dropped, it would take the filter away.
    std::mem::forget(program.take_link(link)?);
    Ok(())
}

/// Attaches a program that nobody takes over: by a tcx link, or a clsact filter where the kernel has no tcx. It ends with the program.
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

/// Removes the filters that agents left on an interface; whether there was one. No clsact is no filter, and so is no interface. Whatever
/// becomes of one, the others are tried.
pub(crate) fn remove_filters(index: u32, programs: &[(&str, TcAttachType)]) -> Result<bool, NetlinkError> {
    let mut socket = Socket::open()?;
    let mut remove = |name, direction| tc::delete_filter(&mut socket, index, parent(direction), FILTER_PRIORITY, name);
    let removed: Vec<_> = programs.iter().map(|(name, direction)| remove(name, *direction)).collect();
    removed.into_iter().try_fold(false, |any, removed| Ok(any | removed?))
}

/// Whether the filters of all these programs stand on an interface.
pub(crate) fn has_filters(index: u32, programs: &[(&str, TcAttachType)]) -> Result<bool, NetlinkError> {
    let mut socket = Socket::open()?;
    programs.iter().try_fold(true, |all, (name, direction)| {
        Ok(all && tc::has_filter(&mut socket, index, parent(*direction), FILTER_PRIORITY, name)?)
    })
}

fn parent(direction: TcAttachType) -> u32 {
    if direction == TcAttachType::Ingress { tc::TC_H_INGRESS } else { tc::TC_H_EGRESS }
}

/// Whether the error is how kernels before 6.6 answer to a tcx link.
#[doc(hidden)]
pub fn lacks_tcx(error: &ProgramError) -> bool {
    match error {
        ProgramError::SyscallError(error) => error.io_error.raw_os_error() == Some(libc::EINVAL),
        _ => false,
    }
}
