//! [`FlowReading`]: the flows of a port, read from the kernel in batches.
//!
//! A daemon reads all flows each period. Two system calls for each flow would take 2 ms for a thousand of them; one
//! for a batch takes 0.1 ms.
//!
//! Source: bpf(2), BPF_MAP_LOOKUP_BATCH (Linux 5.6).

use crate::loader::LoaderError;
use crate::settings;
use aya::maps::MapData;
use bytemuck::Zeroable;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use weir_datapath::abi::{Allocation, CREDIT_OVER, ForwarderFlow, ForwarderKey};
use weir_units::Instant;

/// Flows of one system call. The buffers of more, which are filled with zeros for each reading, would cost a port with
/// few flows more than the call.
const BATCH: usize = 128;

/// A flow: a service's data between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowKey(pub(super) ForwarderKey);

impl FlowKey {
    /// A flow of the service with this number ([`crate::service_number`]).
    pub fn new(service: u32, source: IpAddr, destination: IpAddr) -> Self {
        let (source, destination) = (settings::address(source), settings::address(destination));
        Self(ForwarderKey { source, destination, service, reserved: 0 })
    }
    /// The service's number.
    pub fn service(&self) -> u32 {
        self.0.service
    }
    /// The host whose data it is.
    pub fn source(&self) -> IpAddr {
        address(self.0.source)
    }
    /// The host that receives it.
    pub fn destination(&self) -> IpAddr {
        address(self.0.destination)
    }
    fn order(&self) -> ([u64; 2], [u64; 2], u32) {
        (self.0.source, self.0.destination, self.0.service)
    }
}

impl PartialOrd for FlowKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FlowKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

fn address(words: [u64; 2]) -> IpAddr {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&words[0].to_ne_bytes());
    octets[8..].copy_from_slice(&words[1].to_ne_bytes());
    Ipv6Addr::from(octets).to_canonical()
}

/// A flow as the port has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowReading {
    /// The flow.
    pub key: FlowKey,
    /// When its last packet or message left by the port.
    pub left_at: Instant,
    /// When its last new allocation arrived; `None` before the first.
    pub arrived_at: Option<Instant>,
    /// That allocation as it arrived.
    pub arrived: Allocation,
    /// Whether the flow is over.
    pub ended: bool,
}

impl FlowReading {
    fn of(key: ForwarderKey, flow: &ForwarderFlow) -> Self {
        Self {
            key: FlowKey(key),
            left_at: Instant::from_nanos(flow.left_at),
            arrived_at: (flow.arrived_at != 0).then(|| Instant::from_nanos(flow.arrived_at)),
            arrived: flow.arrived,
            ended: flow.credit.stage == CREDIT_OVER,
        }
    }
}

/// Reads a map of flows of at most so many entries. An entry may be missing or twice if others are added or deleted
/// meanwhile.
pub(super) fn read(map: &MapData, most: u32) -> Result<Vec<FlowReading>, LoaderError> {
    const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
    #[repr(C)]
    struct Attributes {
        from: u64,
        to: u64,
        keys: u64,
        values: u64,
        count: u32,
        map: u32,
        element_flags: u64,
        flags: u64,
    }
    let mut keys = vec![ForwarderKey::zeroed(); BATCH];
    let mut values = vec![ForwarderFlow::zeroed(); BATCH];
    let mut found = Vec::new();
    let (mut position, mut next, mut first) = (0u32, 0u32, true);
    // Each batch has at least one bucket, of which there are at most twice as many as entries.
    for _ in 0..=2 * most {
        let mut attributes = Attributes {
            from: if first { 0 } else { (&raw const position) as u64 },
            to: (&raw mut next) as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: BATCH as u32,
            map: map.fd().as_fd().as_raw_fd() as u32,
            element_flags: 0,
            flags: 0,
        };
        let (pointer, size) = (&raw mut attributes, size_of::<Attributes>());
        // SAFETY: the kernel writes at most `count` keys and values, for which both vectors have room, a position of
        // four bytes, and the count.
        let done = unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_LOOKUP_BATCH, pointer, size) };
        let error = io::Error::last_os_error();
        let is_last = done != 0 && error.raw_os_error() == Some(libc::ENOENT);
        if done != 0 && !is_last {
            return Err(LoaderError::Io { what: "read the flows of a port", error });
        }
        let count = (attributes.count as usize).min(BATCH);
        found.extend(keys[..count].iter().zip(&values[..count]).map(|(key, flow)| FlowReading::of(*key, flow)));
        if is_last {
            break;
        }
        (position, first) = (next, false);
    }
    Ok(found)
}
