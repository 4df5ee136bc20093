//! [`Interface`]: a network interface of the namespace that the calling thread is in.
//!
//! The properties that other modules use: its index, its kind of hardware (programs read Ethernet
//! headers), the largest frame, and the largest buffer that local sockets hand over at once.
//!
//! TCP builds buffers of many segments whatever the interface offloads (since Linux 4.17): without offload the
//! kernel cuts them behind the qdisc. `gso_max_segs` and `gso_max_size` limit them.
//!
//! Worked example, MTU 1500: 65,536 B of at least 1,400 B each are up to 47 segments, 47 × 1,514 = 71,158 B on the
//! wire; with `gso_max_segs` 1 it is one frame.
//!
//! Source: linux/ethtool.h, linux/if_arp.h, linux/if_link.h; net/core/sock.c sk_setup_caps().

use crate::netlink::{Message, NetlinkError, Socket, attribute, read_u32};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use weir_units::Bytes;

const ETHERNET_HEADER: u64 = 14;
const IFINFOMSG: usize = 16;
/// The headers that a segment has at most: IPv6 and TCP with options, rounded up. The rest is payload.
const HEADERS_MAX: u32 = 100;
/// The most that any host hands over at once: 64 KiB in segments for an MTU of 1500, with their headers.
pub const SEGMENT_MAX: Bytes = Bytes::new(71_158);
/// if_link.h
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
/// netdevice.h: GSO_MAX_SEGS, the default.
const GSO_MAX_SEGS: u32 = 65_535;
/// if_arp.h
const ARPHRD_ETHER: libc::c_ushort = 1;
const ARPHRD_LOOPBACK: libc::c_ushort = 772;
/// ethtool.h: set segmentation (TCP, generic) and of merging on receive.
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_SGRO: u32 = 0x2c;
/// ethtool.h: get them, and the flags of which one is merging by the device.
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {what}: {error}")]
pub struct InterfaceError {
    /// The interface.
    pub name: String,
    /// The attempted operation.
    pub what: &'static str,
    /// The kernel's error.
    #[source]
    pub error: io::Error,
}

impl InterfaceError {
    /// Whether the error means that the interface does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self.error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO))
    }
}

/// A network interface by name and index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    name: String,
    index: u32,
    mtu: u32,
    ethernet: bool,
    loopback: bool,
    hardware: [u8; 6],
}

/// The offloads of an interface that cut and merge buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offloads {
    /// TCP segmentation by the device.
    pub tso: bool,
    /// Generic segmentation by the kernel, behind the qdisc.
    pub gso: bool,
    /// Generic merging on receive by the kernel.
    pub gro: bool,
    /// Merging on receive by the device.
    pub lro: bool,
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
        let mut interface =
            Self { name: name.into(), index, mtu: 0, ethernet: false, loopback: false, hardware: [0; 6] };
        let request = interface.ioctl(libc::SIOCGIFMTU, |_| {}).map_err(|e| fail("read the MTU", e))?;
        // SAFETY: SIOCGIFMTU fills this member of the union.
        interface.mtu = unsafe { request.ifr_ifru.ifru_mtu }.unsigned_abs();
        let request = interface.ioctl(libc::SIOCGIFHWADDR, |_| {}).map_err(|e| fail("read the hardware kind", e))?;
        // SAFETY: SIOCGIFHWADDR fills this member of the union.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        interface.loopback = address.sa_family == ARPHRD_LOOPBACK;
        interface.ethernet = address.sa_family == ARPHRD_ETHER || interface.loopback;
        interface.hardware = std::array::from_fn(|i| address.sa_data[i] as u8);
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
    /// The hardware address, of Ethernet.
    pub fn hardware(&self) -> [u8; 6] {
        self.hardware
    }
    /// Whether frames start with an Ethernet header, which the BPF programs read.
    pub fn is_ethernet(&self) -> bool {
        self.ethernet
    }
    /// Whether frames return to this host; they have Ethernet headers, and no other machine receives them.
    pub fn is_loopback(&self) -> bool {
        self.loopback
    }
    /// The largest frame on the wire.
    pub fn frame_max(&self) -> Bytes {
        Bytes::new(u64::from(self.mtu) + ETHERNET_HEADER)
    }

    /// The largest buffer that local sockets hand over at once, in bytes on the wire.
    pub fn largest_segment(&self) -> Result<Bytes, InterfaceError> {
        let (size, most) = self.segment_limits()?;
        let segments = size.div_ceil(self.mtu.saturating_sub(HEADERS_MAX).max(1)).min(most).max(1);
        Ok(Bytes::new(u64::from(segments) * self.frame_max().get()))
    }

    /// The most segments of such a buffer (`gso_max_segs`).
    pub fn gso_segments(&self) -> Result<u32, InterfaceError> {
        Ok(self.segment_limits()?.1)
    }

    /// The most bytes of such a buffer, of either family (`gso_max_size`, `gso_ipv4_max_size`).
    pub fn gso_size(&self) -> Result<Bytes, InterfaceError> {
        Ok(Bytes::new(self.segment_limits()?.0.into()))
    }

    /// Sets the most segments. The kernel applies it to buffers of local sockets, not to forwarded ones.
    pub fn set_gso_segments(&self, most: u32) -> Result<(), InterfaceError> {
        self.netlink("limit segments", |socket| {
            // ifinfomsg: family and type, index, flags, change.
            let fixed = [[0; 4], self.index.to_ne_bytes(), [0; 4], [0; 4]].concat();
            let request = Message::new(libc::RTM_NEWLINK, 0, &fixed);
            socket.request("limit segments", vec![request.attribute(IFLA_GSO_MAX_SEGS, &most.to_ne_bytes())])
        })
    }

    /// Sets it to the value before a lower one was set. Another program's value, which is not lower, stays.
    pub fn restore_gso_segments(&self, before: u32) -> Result<(), InterfaceError> {
        match self.gso_segments()? < before {
            true => self.set_gso_segments(before),
            false => Ok(()),
        }
    }

    /// The most bytes and segments of a buffer.
    fn segment_limits(&self) -> Result<(u32, u32), InterfaceError> {
        let limits = self.netlink("read the segment limits", |socket| {
            let replies = socket.dump("list links", Message::new(libc::RTM_GETLINK, 0, &[0; IFINFOMSG]))?;
            let own = replies.into_iter().find(|reply| read_u32(&reply.payload, 4) == self.index);
            Ok(own.map(|reply| {
                let limit = |kind| {
                    attribute(reply.payload.get(IFINFOMSG..).unwrap_or_default(), kind).map(|value| read_u32(value, 0))
                };
                // Kernels before 6.3 have one size for both families.
                let size = limit(IFLA_GSO_MAX_SIZE).max(limit(IFLA_GSO_IPV4_MAX_SIZE));
                (size.unwrap_or(65_536), limit(IFLA_GSO_MAX_SEGS).unwrap_or(GSO_MAX_SEGS))
            }))
        })?;
        limits.ok_or_else(|| self.error("read the segment limits", libc::ENODEV))
    }

    /// Turns segmentation and merging on receive on or off, for experiments that count every packet: off,
    /// every buffer is one frame.
    pub fn set_offloads(&self, on: bool) -> Result<(), InterfaceError> {
        for command in [ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO] {
            self.ethtool(command, u32::from(on))?;
        }
        self.set_gso_segments(if on { GSO_MAX_SEGS } else { 1 })
    }

    /// The offloads that are on.
    ///
    /// # Errors
    /// The interface is gone, or its driver has no offloads.
    pub fn offloads(&self) -> Result<Offloads, InterfaceError> {
        let is_on = |command| self.ethtool(command, 0).map(|value| value != 0);
        Ok(Offloads {
            tso: is_on(ETHTOOL_GTSO)?,
            gso: is_on(ETHTOOL_GGSO)?,
            gro: is_on(ETHTOOL_GGRO)?,
            lro: self.ethtool(ETHTOOL_GFLAGS, 0)? & ETH_FLAG_LRO != 0,
        })
    }

    /// Turns merging on receive (GRO) on or off by itself: behind the last link it changes nothing that a
    /// link carries, and saves the receiving host work.
    pub fn set_receive_merging(&self, on: bool) -> Result<(), InterfaceError> {
        self.ethtool(ETHTOOL_SGRO, u32::from(on)).map(drop)
    }

    fn netlink<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&mut Socket) -> Result<T, NetlinkError>,
    ) -> Result<T, InterfaceError> {
        let result = Socket::open().and_then(|mut socket| work(&mut socket));
        result.map_err(|error| InterfaceError { name: self.name.clone(), what, error: error.error })
    }

    fn error(&self, what: &'static str, errno: i32) -> InterfaceError {
        InterfaceError { name: self.name.clone(), what, error: io::Error::from_raw_os_error(errno) }
    }

    /// The value after a command, which a command that reads fills.
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
