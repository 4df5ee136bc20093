//! Facts of the interface of the policy.

use super::pins;
use crate::facts::InterfaceFacts;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use weir_linux::htb::MAJOR;
use weir_linux::interface::Interface;
use weir_linux::netlink::Socket;
use weir_linux::tc::{self, Found};

/// The directory of the locks of agents.
const LOCKS: &str = "/run/weir";

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
    let namespace = pins::namespace()?;
    let path = Path::new(LOCKS).join(format!("weir-agent-{namespace}-of-{name}.lock"));
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match file.try_lock_shared() {
        // Left by a killed agent. The lock is released with the file.
        Ok(()) => Ok(None),
        // An agent that starts writes its number a moment after it has the lock.
        Err(TryLockError::WouldBlock) => Ok(Some(fs::read_to_string(&path)?.trim().parse().unwrap_or(0))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
