//! Datagrams with a set TOS, and reception with the TOS.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use weir_linux::netns::Netns;

/// Sets a numeric option.
pub(crate) fn set(socket: &UdpSocket, level: i32, option: i32, value: i32) {
    let size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` is an int of that size and outlives the call.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size) };
    assert_eq!(set, 0, "option {option}: {}", io::Error::last_os_error());
}

/// The first byte of the next datagram, and its TOS or traffic class; `None` if none arrives.
pub(crate) fn receive(socket: &UdpSocket) -> Option<(u8, u8)> {
    let (mut data, mut control) = ([0u8; 2_000], [0u64; 16]);
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: all bytes zero is an empty message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the header names buffers that outlive the call.
    if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) } < 0 {
        return None;
    }
    // SAFETY: the kernel wrote the headers that are walked through.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    return Some((data[0], *libc::CMSG_DATA(header)));
                }
                _ => header = libc::CMSG_NXTHDR(&raw const message, header),
            }
        }
    }
    panic!("a datagram without its TOS");
}

/// Sets the TOS, or the traffic class, of later datagrams: DSCP and ECN.
pub(crate) fn set_tos(socket: &UdpSocket, tos: u8) {
    let own = socket.local_addr().expect("an address");
    let (level, option) = match own.is_ipv6() {
        true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        false => (libc::IPPROTO_IP, libc::IP_TOS),
    };
    set(socket, level, option, tos.into());
}

/// A socket in a namespace that reports the TOS of received datagrams.
pub(crate) fn bound(netns: &Netns, address: SocketAddr) -> UdpSocket {
    let socket = netns.run(|| UdpSocket::bind(address)).expect("enter").expect("a socket");
    set(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
    if address.is_ipv6() {
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
    }
    socket.set_read_timeout(Some(std::time::Duration::from_millis(1_500))).expect("a time limit");
    socket
}

/// The arguments of `tc class change` that close a switch port of Weir's: at this rate of the root class a packet of
/// 1,042 B takes a twelfth of a second.
pub(crate) const CLOSED: &str = "parent 7773: classid 7773:1 htb rate 100kbit ceil 100kbit burst 3028 cburst 3028";

/// A switch port behind which datagrams arrive.
pub(crate) struct Port<'a> {
    /// The datagrams' destination.
    pub(crate) to: SocketAddr,
    pub(crate) receiver: &'a UdpSocket,
    /// The datagrams of 1,042 B on the wire for which each queue has room.
    pub(crate) room: usize,
    /// Lowers the port's rate by [`CLOSED`].
    pub(crate) close: &'a dyn Fn(),
    /// Restores the port's configuration.
    pub(crate) open: &'a dyn Fn(),
}

impl Port<'_> {
    /// [`Port::departures_of`] senders of which the q-th has DSCP 8 q.
    pub(crate) fn departures(&self, senders: &[UdpSocket]) -> Vec<usize> {
        self.departures_of(&senders.iter().zip((0..8).map(|queue| 8 * queue)).collect::<Vec<_>>())
    }

    /// By sender, each with a queue of its own by its DSCP: the packets that the port sends while all queues hold
    /// packets.
    ///
    /// The queues are filled while the port is closed, so no sender has to keep pace with the port. The count begins
    /// when all packets are in their queues, and ends with the last packet of any queue.
    pub(crate) fn departures_of(&self, senders: &[(&UdpSocket, u8)]) -> Vec<usize> {
        const ROUNDS: usize = 4;
        let Self { to, receiver, room, .. } = *self;
        set(receiver, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 16_000_000);
        for (sender, dscp) in senders {
            set_tos(sender, dscp << 2);
            set(sender, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 4_000_000);
        }
        let sender_of = |tos: u8| senders.iter().position(|(_, dscp)| *dscp == tos >> 2).expect("of a sender");
        let send = |(sender, _): &(&UdpSocket, u8)| {
            sender.send_to(&[0; 1_000], to).expect("sent");
        };
        let mut packets = vec![0; senders.len()];
        // The first round does not count: a queue whose quantum was larger before has a credit of up to that quantum
        // left, which HTB keeps when a class changes.
        for round in 0..=ROUNDS {
            // A closed port delays address resolution as well.
            senders.iter().for_each(send);
            senders.iter().for_each(|_| assert!(receive(receiver).is_some(), "the port is open"));
            (self.close)();
            (0..room).for_each(|_| senders.iter().for_each(send));
            let mut waiting = vec![room; senders.len()];
            receiver.set_nonblocking(true).expect("a socket");
            while let Some((_, tos)) = receive(receiver) {
                waiting[sender_of(tos)] -= 1;
            }
            receiver.set_nonblocking(false).expect("a socket");
            assert!(
                waiting.iter().all(|waiting| *waiting > room / 2),
                "the port is closed: {waiting:?} of {room} wait"
            );
            (self.open)();
            while waiting.iter().any(|waiting| *waiting > 0) {
                let (_, tos) = receive(receiver).expect("the queues had room for all packets");
                let sender = sender_of(tos);
                packets[sender] += usize::from(round > 0 && waiting.iter().all(|waiting| *waiting > 0));
                waiting[sender] -= 1;
            }
        }
        println!("{packets:?} packets");
        packets
    }
}
