//! [`PortEvents`]: the kernel's notifications that ports of a switch have changed.
//!
//! A program that takes a port's queues away leaves all tenants of the port in one queue without limits, so the time
//! until the restoration counts. rtnetlink notifies of qdiscs, classes, filters and interfaces; changes of a BPF
//! program's settings have no notification, so a periodic reading remains necessary.

use crate::netlink::{NetlinkError, Notifications, Reply, read_u32};
use std::ffi::CString;
use std::os::fd::{AsRawFd, RawFd};

/// linux/rtnetlink.h: interfaces, and qdiscs, classes and filters.
const GROUPS: u32 = 0x1 | 0x8;

/// Changes of links and of traffic control in a network namespace.
#[derive(Debug)]
pub struct PortEvents(Notifications);

impl PortEvents {
    /// Those of the calling thread's namespace, from now on.
    ///
    /// # Errors
    ///
    /// The kernel refuses the subscription.
    pub fn subscribe() -> Result<Self, NetlinkError> {
        Notifications::subscribe(GROUPS).map(Self)
    }

    /// Takes all events that wait; returns whether one concerns these interfaces, or some were lost.
    ///
    /// # Errors
    ///
    /// The socket failed.
    pub fn take<'a>(&mut self, interfaces: impl Iterator<Item = &'a str>) -> Result<bool, NetlinkError> {
        let (messages, are_lost) = self.0.read()?;
        if are_lost || messages.is_empty() {
            return Ok(are_lost);
        }
        let ports: Vec<u32> = interfaces.filter_map(index).collect();
        Ok(messages.iter().filter_map(subject).any(|interface| ports.contains(&interface)))
    }
}

impl AsRawFd for PortEvents {
    /// Readable while events wait.
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The interface of a message: `ifi_index` and `tcm_ifindex` are both the second word.
fn subject(message: &Reply) -> Option<u32> {
    (message.payload.len() >= 8).then(|| read_u32(&message.payload, 4))
}

/// The index of an interface in the calling thread's namespace; none if it is gone.
fn index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a zero and outlives the call.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|index| *index > 0)
}
