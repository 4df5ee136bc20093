//! [`CreditSocket`]: datagrams of credits, each with both of its addresses.
//!
//! Problem: a flow is identified by the addresses of its hosts, and a host has several. A wildcard socket does not have
//! the address at which a datagram arrived. Approach: one socket for IPv6 and, by mapped addresses, for IPv4, with the
//! kernel's packet information in both directions, bound to the agent's interface. By its cookie the egress program
//! puts its datagrams before data, and drops those of other sockets (`bpf/control.h`).
//!
//! Source: RFC 3542, section 6 (packet information); RFC 4291, section 2.5.5.2 (mapped addresses).

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};
use weir_linux::interface::Interface;

/// Bytes of the longest datagram that is read: longer ones are of another protocol.
const DATAGRAM: usize = 256;
/// The most datagrams that are discarded at once. The kernel's buffer of 208 KiB (net.core.rmem_default) has room for
/// 277 of the smallest, each of which counts as at least 768 B.
const DISCARDED: usize = 1_024;
/// Bytes for the packet information of one datagram, with its header.
const CONTROL: usize = 64;

/// A received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The address that sent it.
    pub(super) from: IpAddr,
    /// The address of this host.
    pub(super) to: IpAddr,
    /// Its bytes in the buffer.
    pub(super) length: usize,
}

/// Control messages need the alignment of their header.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// The socket.
#[derive(Debug)]
pub(super) struct CreditSocket {
    socket: Socket,
    port: u16,
}

impl CreditSocket {
    /// Listens on `port` of all addresses of an interface; does not block.
    pub(super) fn open(interface: &Interface, port: u16) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        socket.set_only_v6(false)?;
        socket.bind_device(Some(interface.name().as_bytes()))?;
        let on: libc::c_int = 1;
        // SAFETY: the option is an int, and its size is given.
        let set = unsafe {
            let size = size_of::<libc::c_int>() as libc::socklen_t;
            let (level, option) = (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO);
            libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), size)
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        socket.bind(&SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0).into())?;
        Ok(Self { socket, port })
    }

    /// The same socket: also that of the kernel, with its cookie.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, port: self.port })
    }

    /// Discards the datagrams that wait, at most [`DISCARDED`].
    pub(super) fn discard(&self) {
        let mut buffer = [0; DATAGRAM];
        // An ICMP error of an earlier datagram counts as one.
        for _ in 0..DISCARDED {
            if matches!(self.receive(&mut buffer), Ok(None)) {
                break;
            }
        }
    }

    pub(super) fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The next datagram, cut to the buffer; `None` if none has arrived.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        let mut control = Control([0; CONTROL]);
        // SAFETY: zeros are valid in both structures.
        let (mut from, mut message): (libc::sockaddr_in6, libc::msghdr) = unsafe { std::mem::zeroed() };
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL as _;
        // SAFETY: all that the message names lives until the call returns.
        let received = unsafe { libc::recvmsg(self.as_raw_fd(), &raw mut message, 0) };
        let Ok(length) = usize::try_from(received) else {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        };
        // SAFETY: the kernel wrote a chain of whole control messages within the buffer.
        let to = unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            let is_info = !header.is_null()
                && (*header).cmsg_level == libc::IPPROTO_IPV6
                && (*header).cmsg_type == libc::IPV6_PKTINFO;
            is_info.then(|| libc::CMSG_DATA(header).cast::<libc::in6_pktinfo>().read_unaligned())
        };
        let to = to.ok_or_else(|| io::Error::other("a datagram without packet information"))?;
        let ip = |address: libc::in6_addr| Ipv6Addr::from(address.s6_addr).to_canonical();
        Ok(Some(Arrival { from: ip(from.sin6_addr), to: ip(to.ipi6_addr), length }))
    }

    /// Passes the datagrams that have arrived to `each`, at most `most`; returns how many.
    pub(super) fn receive_up_to(&self, most: usize, mut each: impl FnMut(&[u8], Arrival)) -> io::Result<usize> {
        let mut buffer = [0; DATAGRAM];
        for received in 0..most {
            let Some(arrival) = self.receive(&mut buffer)? else { return Ok(received) };
            each(&buffer[..arrival.length], arrival);
        }
        Ok(most)
    }

    /// The number by which the kernel, and so the programs, identify the socket.
    pub(super) fn cookie(&self) -> io::Result<u64> {
        weir_linux::settings::cookie(&self.socket)
    }

    /// Sends a datagram from an address of this host to the same port of another one.
    pub(super) fn send(&self, body: &[u8], source: IpAddr, destination: IpAddr) -> io::Result<()> {
        let mut control = Control([0; CONTROL]);
        // SAFETY: zeros are valid in both structures.
        let (mut to, mut message): (libc::sockaddr_in6, libc::msghdr) = unsafe { std::mem::zeroed() };
        to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        to.sin6_port = self.port.to_be();
        to.sin6_addr.s6_addr = octets(destination);
        let mut part = libc::iovec { iov_base: body.as_ptr().cast_mut().cast(), iov_len: body.len() };
        message.msg_name = (&raw mut to).cast();
        message.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.0.as_mut_ptr().cast();
        let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: octets(source) }, ipi6_ifindex: 0 };
        // SAFETY: the buffer has room for one control message of this size, and all that the message names lives until
        // the call returns.
        let sent = unsafe {
            let size = size_of::<libc::in6_pktinfo>() as u32;
            message.msg_controllen = libc::CMSG_SPACE(size) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::IPPROTO_IPV6;
            (*header).cmsg_type = libc::IPV6_PKTINFO;
            (*header).cmsg_len = libc::CMSG_LEN(size) as _;
            libc::CMSG_DATA(header).cast::<libc::in6_pktinfo>().write_unaligned(info);
            libc::sendmsg(self.as_raw_fd(), &raw const message, 0)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sockets are bound to an interface, which old kernels permit to root alone.
    fn is_skipped() -> bool {
        // SAFETY: plain system call without arguments.
        let skipped = unsafe { libc::geteuid() } != 0;
        assert!(!skipped || std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and this is not root");
        skipped
    }

    #[test]
    fn a_flood_is_received_in_parts() {
        if is_skipped() {
            return;
        }
        let lo = Interface::named("lo").expect("there");
        let socket = CreditSocket::open(&lo, 30_998).expect("a socket");
        for number in 0..10 {
            socket.send(&[number], [127, 0, 0, 1].into(), [127, 0, 0, 1].into()).expect("sent");
        }
        let mut parts = Vec::new();
        for _ in 0..4 {
            let mut part = Vec::new();
            let count = socket.receive_up_to(4, |body, _| part.extend_from_slice(body)).expect("received");
            assert_eq!(count, part.len());
            parts.push(part);
        }
        assert_eq!(parts, [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9], vec![]]);
    }

    #[test]
    fn a_clone_has_the_datagrams_that_were_not_discarded() {
        if is_skipped() {
            return;
        }
        let lo = Interface::named("lo").expect("there");
        let socket = CreditSocket::open(&lo, 30_997).expect("a socket");
        let send = |number| socket.send(&[number], [127, 0, 0, 1].into(), [127, 0, 0, 1].into()).expect("sent");
        (0..10).for_each(send);
        let next = socket.try_clone().expect("a file");
        assert_eq!(next.cookie().expect("a cookie"), socket.cookie().expect("a cookie"));
        next.discard();
        send(77);
        let mut left = Vec::new();
        assert_eq!(next.receive_up_to(4, |body, _| left.extend_from_slice(body)).expect("received"), 1);
        assert_eq!(left, [77]);
    }

    #[test]
    fn datagrams_have_both_addresses_in_both_families() {
        if is_skipped() {
            return;
        }
        let lo = Interface::named("lo").expect("there");
        let (port, mut buffer) = (30_999, [0; 16]);
        let socket = CreditSocket::open(&lo, port).expect("a socket");
        assert_eq!(socket.receive(&mut buffer).expect("received"), None);
        let addresses: [(IpAddr, IpAddr); 2] =
            [([127, 0, 0, 2].into(), [127, 0, 0, 3].into()), (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into())];
        for (source, destination) in addresses {
            match socket.send(b"credits", source, destination) {
                // The host has no IPv6 address.
                Err(error) if destination.is_ipv6() && error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => continue,
                sent => sent.expect("sent"),
            }
            let arrival = socket.receive(&mut buffer).expect("received").expect("there");
            assert_eq!(arrival, Arrival { from: source, to: destination, length: 7 });
            assert_eq!(&buffer[..7], b"credits");
        }
    }
}
