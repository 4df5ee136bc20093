//! Datagrams with a set TOS, and reception with the TOS.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// [`shares_of`] senders of which the q-th has DSCP 8 q.
pub(crate) fn shares(senders: &[UdpSocket], receiver: &UdpSocket, to: SocketAddr, count: usize) -> Vec<usize> {
    let senders: Vec<_> = senders.iter().zip((0..8).map(|queue| 8 * queue)).collect();
    shares_of(&senders, receiver, to, count)
}

/// The packets of each sender among `count` that arrive while all send as fast as they can with their DSCP. A socket's
/// send buffer, 180 packets, waits in the network: a queue with room for these is not empty while its sender waits for
/// a processor for less than their time, 75 ms at 20 Mb/s.
pub(crate) fn shares_of(
    senders: &[(&UdpSocket, u8)],
    receiver: &UdpSocket,
    to: SocketAddr,
    count: usize,
) -> Vec<usize> {
    // The first packets find queues that are still empty.
    const FIRST: usize = 400;
    set(receiver, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 16_000_000);
    let ended = AtomicBool::new(false);
    let mut packets = vec![0; senders.len()];
    std::thread::scope(|scope| {
        for (sender, dscp) in senders {
            set_tos(sender, dscp << 2);
            // The kernel doubles it, to twice its default.
            set(sender, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 212_992);
            let ended = &ended;
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let _ = sender.send_to(&[0; 1_000], to);
                }
            });
        }
        for number in 0..count + FIRST {
            let Some((_, tos)) = receive(receiver) else { break };
            if number >= FIRST {
                packets[senders.iter().position(|(_, dscp)| *dscp == tos >> 2).expect("of a sender")] += 1;
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    packets
}
