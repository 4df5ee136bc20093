//! [`Interface`]: a network interface of the namespace that the calling thread is in.
//!
//! What the other modules need to know of it: its index, its kind of hardware (programs read Ethernet
//! headers), the largest frame, and whether segments are offloaded (a queue must hold at least some of the
//! largest). Worked example: `Interface::named("eth0")?.largest_segment()` is 65,550 B with offload on, 1,514 B off.
//!
//! Source: linux/ethtool.h, linux/if_arp.h.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use weir_units::Bytes;

const ETHERNET_HEADER: u64 = 14;
/// The largest IP packet; kernels that offload more say so in gso_max_size, which stays 65,536 by default.
const SEGMENT_MAX: u64 = 65_536;
/// if_arp.h
const ARPHRD_ETHER: libc::c_ushort = 1;
const ARPHRD_LOOPBACK: libc::c_ushort = 772;
/// ethtool.h: get and set of segmentation (TCP, generic) and of merging on receive.
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_SGRO: u32 = 0x2c;

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {what}: {error}")]
pub struct InterfaceError {
    /// The interface.
    pub name: String,
    /// What was attempted.
    pub what: &'static str,
    /// The kernel's answer.
    #[source]
    pub error: io::Error,
}

/// A network interface by name and index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    name: String,
    index: u32,
    mtu: u32,
    ethernet: bool,
}

#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

impl Interface {
    /// Looks one up in the namespace of the calling thread.
    pub fn named(name: &str) -> Result<Self, InterfaceError> {
        let fail = |what, error| InterfaceError { name: name.into(), what, error };
        let text = CString::new(name).map_err(|e| fail("look up", e.into()))?;
        // SAFETY: `text` ends with a zero and outlives the call.
        let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
        if index == 0 {
            return Err(fail("look up", io::Error::last_os_error()));
        }
        let mut interface = Self { name: name.into(), index, mtu: 0, ethernet: false };
        let request = interface.ioctl(libc::SIOCGIFMTU, |_| {}).map_err(|e| fail("read the MTU", e))?;
        // SAFETY: SIOCGIFMTU fills this member of the union.
        interface.mtu = unsafe { request.ifr_ifru.ifru_mtu }.unsigned_abs();
        let request = interface.ioctl(libc::SIOCGIFHWADDR, |_| {}).map_err(|e| fail("read the hardware kind", e))?;
        // SAFETY: SIOCGIFHWADDR fills this member of the union.
        let kind = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
        interface.ethernet = kind == ARPHRD_ETHER || kind == ARPHRD_LOOPBACK;
        Ok(interface)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The index in its namespace.
    pub fn index(&self) -> u32 {
        self.index
    }
    /// Whether frames start with an Ethernet header, which the BPF programs read.
    pub fn is_ethernet(&self) -> bool {
        self.ethernet
    }
    /// The largest frame on the wire.
    pub fn frame_max(&self) -> Bytes {
        Bytes::new(u64::from(self.mtu) + ETHERNET_HEADER)
    }

    /// The largest buffer that local sockets hand over at once: a frame, or 64 KiB with offload on.
    pub fn largest_segment(&self) -> Result<Bytes, InterfaceError> {
        let offloads = self.ethtool(ETHTOOL_GGSO, 0)? != 0 || self.ethtool(ETHTOOL_GTSO, 0)? != 0;
        Ok(if offloads { Bytes::new(SEGMENT_MAX + ETHERNET_HEADER) } else { self.frame_max() })
    }

    /// Turns segmentation and merging on receive on or off, for experiments that count every packet.
    pub fn set_offloads(&self, on: bool) -> Result<(), InterfaceError> {
        for command in [ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO] {
            self.ethtool(command, u32::from(on))?;
        }
        Ok(())
    }

    fn ethtool(&self, command: u32, data: u32) -> Result<u32, InterfaceError> {
        let mut value = EthtoolValue { command, data };
        self.ioctl(libc::SIOCETHTOOL, |request| request.ifr_ifru.ifru_data = (&raw mut value).cast())
            .map_err(|error| InterfaceError { name: self.name.clone(), what: "ethtool", error })?;
        Ok(value.data)
    }

    fn ioctl(&self, command: libc::Ioctl, fill: impl FnOnce(&mut libc::ifreq)) -> io::Result<libc::ifreq> {
        // SAFETY: all zeros is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // IFNAMSIZ includes the zero at the end, so a name that was found fits.
        for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        fill(&mut request);
        // SAFETY: plain system call; the result is checked before it is owned.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is a new descriptor that nothing else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all commands used here take an ifreq; what ifru_data points to outlives the call.
        if unsafe { libc::ioctl(socket.as_raw_fd(), command, &raw mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(request)
    }
}
