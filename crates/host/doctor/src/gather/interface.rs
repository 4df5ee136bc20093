//! Facts of the interface of the policy.

use super::pins;
use crate::facts::InterfaceFacts;
use std::io;
use std::path::Path;
use weir_linux::htb::MAJOR;
use weir_linux::interface::Interface;
use weir_linux::locks;
use weir_linux::netlink::Socket;
use weir_linux::tc::{self, Found};

pub(super) fn read(name: &str) -> Result<InterfaceFacts, String> {
    let interface = Interface::named(name).map_err(|error| error.to_string())?;
    Ok(InterfaceFacts {
        ethernet: interface.is_ethernet(),
        loopback: interface.is_loopback(),
        segments: interface.gso_segments().map_err(|error| error.to_string()),
        qdisc: qdisc(&interface),
        offloads: interface.offloads().map_err(|error| error.to_string()),
        agent: agent(name).map_err(|error| error.to_string()),
        detached: pins::detached(interface.index()),
    })
}

fn qdisc(interface: &Interface) -> Result<Found, String> {
    let mut socket = Socket::open().map_err(|error| error.to_string())?;
    let all = tc::qdiscs(&mut socket, interface.index()).map_err(|error| error.to_string())?;
    Ok(tc::found(&all, u32::from(MAJOR) << 16, "htb"))
}

/// The process that has the lock of the agent of an interface of this name.
fn agent(name: &str) -> io::Result<Option<u32>> {
    let path = locks::of_agent(Path::new(locks::DIRECTORY), name)?;
    let Some(file) = locks::held(&path)? else { return Ok(None) };
    // An agent that starts writes its number a moment after it has the lock.
    Ok(Some(io::read_to_string(file)?.trim().parse().unwrap_or(0)))
}
