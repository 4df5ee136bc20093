//! Whether the other machines of the rack can be reached.
//!
//! Datagrams of agents carry tags, so they cannot be probed from outside. Two facts can: the kernel's route to the
//! machine's address, and the reply to a TCP connection to its status port. A refusal is a reply of the host.

use crate::facts::{PeerFacts, Reply};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use tokio::net::TcpStream;
use weir_network::Machine;
use weir_policy::Policy;

/// The longest wait for a reply.
const PATIENCE: Duration = Duration::from_secs(1);

/// The peers of this host, by its name in its status, or else by its host name.
pub(super) async fn read(policy: Option<&Policy>, machine: Option<String>) -> Result<Vec<PeerFacts>, String> {
    let network = policy.ok_or("no policy")?.network();
    let name = match machine {
        Some(name) => name,
        None => host_name().map_err(|error| error.to_string())?,
    };
    let own = network.machine_named(&name);
    let own = own.ok_or_else(|| format!("{name} is no machine of the policy, and there is no status of an agent"))?;
    let rack = network.rack(network.machine(own).rack());
    let machines = rack.machines().iter().filter(|id| **id != own).map(|id| network.machine(*id));
    let probes: Vec<_> = machines.filter_map(|machine| machine.address().map(|address| (machine, address))).collect();
    let replies: Vec<_> = probes.iter().map(|(_, address)| tokio::spawn(reply(*address))).collect();
    let mut peers = Vec::new();
    for ((machine, address), reply) in probes.into_iter().zip(replies) {
        let reply = reply.await.unwrap_or_else(|error| Reply::None(error.to_string()));
        peers.push(peer(machine, address, reply));
    }
    Ok(peers)
}

fn peer(machine: &Machine, address: IpAddr, reply: Reply) -> PeerFacts {
    let route = route(address).map_err(|error| error.to_string());
    PeerFacts { machine: machine.name().to_owned(), address, route, reply }
}

fn host_name() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned())
}

/// Whether the kernel has a route. A UDP socket that connects looks it up and sends nothing.
fn route(to: IpAddr) -> io::Result<()> {
    let any = if to.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    UdpSocket::bind((any, 0))?.connect((to, weir_status::DEFAULT_PORT))
}

async fn reply(address: IpAddr) -> Reply {
    let to = SocketAddr::new(address, weir_status::DEFAULT_PORT);
    match tokio::time::timeout(PATIENCE, TcpStream::connect(to)).await {
        Ok(Ok(_)) => Reply::Open,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Reply::Refused,
        Ok(Err(error)) => Reply::None(error.to_string()),
        Err(_) => Reply::None(format!("nothing within {} s", PATIENCE.as_secs())),
    }
}
