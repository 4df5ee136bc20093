//! [`FabricSockets`]: the sockets of this agent that may connect to fabric brokers, and the brokers' addresses.
//!
//! Problem: a fabric broker admits connections by their source address, which an agent shares with the tenants of its
//! host. Approach: the egress program drops TCP to a broker's address and port unless the cookie of its socket is in a
//! map (`bpf/control.h`). The agent writes the cookie before the socket connects. A closed socket stays in the map for
//! some more connections, since the kernel still sends packets for it.
//!
//! The sessions' threads write while the agent's loop attaches, configures and loses the interface: one lock protects
//! the brokers, the cookies, and `fabric_ports` of the programs' configuration, which is derived from them.
//!
//! A session may leave by an interface of another agent of this host, of any version. A cookie is therefore written to
//! the maps of all agents of the network namespace; the addresses are written to the own interface's only.
//!
//! Worked example: a broker at 10.0.0.9:30567 gives two entries, of port 30567 and of port 0, and the bits 30567 mod 64
//! = 39 and 0 of `fabric_ports`: of other TCP packets, the one in 32 with such a port costs a lookup of its address.

use crate::loader::{InterfaceDatapath, LoaderError};
use crate::maps::{Entries, FABRIC_SOCKETS, FabricMaps, FabricSocketMaps};
use crate::netns;
use crate::pins::Pins;
use crate::settings::{address, cookie};
use aya::maps::MapError;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_datapath::Address;
use weir_datapath::abi::FabricEnd;

/// Closed sockets that may still send: two sessions, of which each has one connection at a time.
const CLOSED: usize = 8;

/// The sockets and brokers of an agent. It outlives the interfaces that it is [set](InterfaceDatapath::set_fabric) on.
#[derive(Debug, Default)]
pub struct FabricSockets {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By broker: its addresses.
    brokers: BTreeMap<String, Vec<SocketAddr>>,
    open: BTreeSet<u64>,
    /// In the order in which they were closed.
    closed: VecDeque<u64>,
    /// Of the interface that the agent has.
    maps: Option<FabricMaps>,
    /// Whether the maps have the brokers.
    is_written: bool,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { brokers, open, closed, maps: _, is_written: _ } = self;
        f.debug_struct("Inner").field("brokers", brokers).field("open", open).field("closed", closed).finish()
    }
}

impl FabricSockets {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the addresses of a broker, in place of its earlier ones.
    ///
    /// # Errors
    /// A map that takes no more addresses, or cannot be written. The addresses are kept for the next interface.
    pub fn set_broker(&self, name: &str, addresses: &[SocketAddr]) -> Result<(), LoaderError> {
        let mut inner = self.lock();
        if inner.is_written && inner.brokers.get(name).is_some_and(|known| known == addresses) {
            return Ok(());
        }
        inner.brokers.insert(name.to_owned(), addresses.to_vec());
        inner.write()
    }

    /// Lets a socket connect to the brokers, and returns its cookie. Call it on a thread in the agent's network
    /// namespace, before the socket connects.
    ///
    /// # Errors
    /// The cookie cannot be read, or not be written to the maps of an agent of this namespace.
    pub fn open(&self, socket: &impl AsRawFd) -> Result<u64, LoaderError> {
        let io = |what| move |error| LoaderError::Io { what, error };
        let cookie = cookie(socket).map_err(io("read the cookie of a socket"))?;
        let namespace = netns::current().and_then(|file| file.metadata()).map_err(LoaderError::Namespace)?.ino();
        let mut inner = self.lock();
        let own = inner.own();
        for mut maps in sockets_of(namespace)? {
            allow(&mut maps.sockets, cookie, &own)?;
        }
        inner.open.insert(cookie);
        Ok(cookie)
    }

    /// The socket with this cookie is closed. A packet that the kernel sends for it later still passes, until some more
    /// sockets are closed.
    pub fn close(&self, cookie: u64) {
        let mut inner = self.lock();
        inner.open.remove(&cookie);
        inner.closed.push_back(cookie);
        if inner.closed.len() <= CLOSED {
            return;
        }
        let oldest = inner.closed.pop_front();
        // An entry that stays lets no socket connect: the kernel does not use a cookie again.
        let Ok(namespace) = netns::current().and_then(|file| file.metadata()) else { return };
        for maps in &mut sockets_of(namespace.ino()).unwrap_or_default() {
            oldest.map(|cookie| maps.sockets.remove(cookie));
        }
    }
}

impl Inner {
    /// The sockets whose packets pass.
    fn own(&self) -> BTreeSet<u64> {
        self.open.iter().chain(&self.closed).copied().collect()
    }

    /// The word `fabric_ports` of the configuration.
    fn ports(&self) -> u64 {
        ends(&self.brokers).into_iter().fold(0, |ports, (_, port)| ports | 1 << (port & 63))
    }

    /// Writes the addresses of brokers to the own interface, if there is one.
    fn write(&mut self) -> Result<(), LoaderError> {
        self.is_written = false;
        self.write_to_maps()?;
        self.is_written = true;
        Ok(())
    }

    fn write_to_maps(&mut self) -> Result<(), LoaderError> {
        let (ports, wanted) = (self.ports(), ends(&self.brokers));
        let Some(maps) = &mut self.maps else { return Ok(()) };
        let end = |(address, port)| FabricEnd { address, port, reserved: 0 };
        for gone in maps.ends.keys()?.into_iter().filter(|end| !wanted.contains(&(end.address, end.port))) {
            maps.ends.remove(gone)?;
        }
        // What the map takes is in force although it does not take all.
        let inserted: Result<(), _> = wanted.into_iter().try_for_each(|wanted| maps.ends.insert(end(wanted), 1));
        let config = maps.config.get(0)?;
        maps.config.set(0, weir_datapath::abi::Config { fabric_ports: ports, ..config })?;
        Ok(inserted?)
    }
}

/// The ends of connections to brokers: each address with its port, and without ports.
fn ends(brokers: &BTreeMap<String, Vec<SocketAddr>>) -> BTreeSet<(Address, u32)> {
    let both = |at: &SocketAddr| [(address(at.ip()), u32::from(at.port())), (address(at.ip()), 0)];
    brokers.values().flatten().flat_map(both).collect()
}

/// The maps of sockets of all agents of a network namespace, given by its inode.
fn sockets_of(namespace: u64) -> Result<Vec<FabricSocketMaps>, LoaderError> {
    // Programs of versions without such a map let every socket connect.
    let with_map = |pins: &Pins| pins.path(FABRIC_SOCKETS).exists();
    Pins::of_namespace(namespace).iter().filter(|pins| with_map(pins)).map(FabricSocketMaps::open).collect()
}

/// Adds a cookie to a map. A map that is full of the sockets of agents that ended loses all but `own`; a session of
/// another agent among them connects again.
fn allow(sockets: &mut Entries<u64, u32>, cookie: u64, own: &BTreeSet<u64>) -> Result<(), LoaderError> {
    match sockets.insert(cookie, 1) {
        Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::E2BIG) => {
            for other in sockets.keys()?.into_iter().filter(|known| !own.contains(known)) {
                sockets.remove(other)?;
            }
            Ok(sockets.insert(cookie, 1)?)
        }
        inserted => Ok(inserted?),
    }
}

impl InterfaceDatapath {
    /// Drops TCP to these brokers at this interface, except that of these sockets, also when they change later. Those
    /// of an earlier agent are replaced.
    ///
    /// # Errors
    /// A map cannot be written.
    pub fn set_fabric(&mut self, fabric: &Arc<FabricSockets>) -> Result<(), LoaderError> {
        let mut maps = FabricSocketMaps::open(&self.pins)?;
        let namespace = netns::current().and_then(|file| file.metadata()).map_err(LoaderError::Namespace)?.ino();
        let mut inner = fabric.lock();
        let own = inner.own();
        // Sessions of other agents of this host may leave by this interface.
        let mut all = own.clone();
        for others in sockets_of(namespace).unwrap_or_default() {
            all.extend(others.sockets.keys().unwrap_or_default());
        }
        for cookie in &all {
            allow(&mut maps.sockets, *cookie, &own)?;
        }
        inner.maps = Some(FabricMaps::open(&self.pins)?);
        let written = inner.write();
        drop(inner);
        // Also in an error, so that a later change writes again.
        self.fabric = Some(Arc::clone(fabric));
        written
    }

    /// Writes the configuration of the programs.
    pub(crate) fn write_config(&mut self) -> Result<(), LoaderError> {
        let fabric = self.fabric.clone();
        // Held until the configuration is written, so that no older word replaces a newer one.
        let inner = fabric.as_deref().map(FabricSockets::lock);
        if let Some(inner) = &inner {
            self.config.fabric_ports = inner.ports();
        }
        Ok(self.maps.config.set(0, self.config)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_the_port_and_none() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let sockets = FabricSockets::default();
        let known = || ends(&sockets.lock().brokers);
        let both = |text: &str, port: u32| {
            let address = address(text.parse().expect("an address"));
            [(address, 0), (address, port)]
        };
        sockets.set_broker("a", &[at("10.0.0.9:30567"), at("[fd00::9]:30567")]).expect("no interface");
        assert_eq!(known(), [both("10.0.0.9", 30_567), both("fd00::9", 30_567)].concat().into_iter().collect());
        assert_eq!(sockets.lock().ports(), 1 << 39 | 1);
        sockets.set_broker("b", &[at("10.0.0.9:64")]).expect("no interface");
        sockets.set_broker("a", &[at("[::ffff:10.0.0.8]:30567")]).expect("no interface");
        assert_eq!(known(), [both("10.0.0.8", 30_567), both("10.0.0.9", 64)].concat().into_iter().collect());
        sockets.set_broker("a", &[]).expect("no interface");
        sockets.set_broker("b", &[]).expect("no interface");
        assert_eq!((known().len(), sockets.lock().ports()), (0, 0));
    }

    #[test]
    fn some_closed_sockets_are_kept_and_all_open_ones() {
        let sockets = FabricSockets::default();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let open = sockets.open(&socket).expect("a cookie");
        for cookie in 1..=20 {
            sockets.close(cookie);
        }
        let inner = sockets.lock();
        assert_eq!(inner.open, BTreeSet::from([open]));
        assert_eq!(Vec::from(inner.closed.clone()), (13..=20).collect::<Vec<u64>>());
    }
}
