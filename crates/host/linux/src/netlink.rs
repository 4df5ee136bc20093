//! A small netlink encoder and socket: enough of rtnetlink for qdiscs, classes and links.
//!
//! Problem: rates change every few hundred microseconds, for many classes at once, and no library models HTB.
//! Approach: messages are built into one buffer and sent with one system call; only the last
//! requests an acknowledgement, since the kernel reports every failure anyway. The socket belongs
//! to the network namespace of the thread that opened it, for its whole life.
//!
//! Worked example: `Message::new(RTM_NEWTCLASS, 0, &tcmsg).text(TCA_KIND, "htb").nest(TCA_OPTIONS, |m| …)`.
//!
//! Source: RFC 3549; linux/netlink.h, linux/rtnetlink.h.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const HEADER: usize = 16;
/// The most bytes of one `sendmsg`: below the default socket buffer (208 KiB), above 500 classes.
const SEND_MAX: usize = 64 * 1024;
/// The most objects of one request: the kernel charges some 5 kB for each reply to a buffer of 208 KiB.
const GET_MAX: usize = 32;
/// The kernel never makes a dump message larger (NLMSG_GOODSIZE is 8 KiB, dumps grow to 32 KiB).
const RECEIVE: usize = 64 * 1024;

/// A request that the kernel refused, or a socket that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {}{}", .error, .explanation.as_ref().map(|e| format!(" ({e})")).unwrap_or_default())]
pub struct NetlinkError {
    /// The attempted operation.
    pub what: String,
    /// The kernel's error number.
    #[source]
    pub error: io::Error,
    /// The kernel's explanation in words, where it gives one.
    pub explanation: Option<String>,
}

impl NetlinkError {
    fn new(what: &str, error: io::Error) -> Self {
        Self { what: what.into(), error, explanation: None }
    }
    /// The error number.
    pub fn errno(&self) -> Option<i32> {
        self.error.raw_os_error()
    }
}

/// One request: header, fixed part and attributes.
#[derive(Debug, Clone)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A request of `kind` (`RTM_…`) with `flags` (`NLM_F_…`) beside `NLM_F_REQUEST`.
    pub fn new(kind: u16, flags: i32, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes.extend(fixed);
        Self { bytes }.padded()
    }

    fn padded(mut self) -> Self {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// Appends an attribute.
    #[must_use]
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.bytes.extend(((value.len() + 4) as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.padded()
    }

    /// Appends a text with the zero that ends it.
    #[must_use]
    pub fn text(self, kind: u16, value: &str) -> Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Appends an attribute that holds what `fill` appends.
    #[must_use]
    pub fn nest(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        let mut filled = fill(self);
        let length = (filled.bytes.len() - start) as u16;
        filled.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        filled
    }

    /// The attributes behind a fixed part of this size.
    #[cfg(test)]
    pub(crate) fn attributes(&self, fixed: usize) -> &[u8] {
        &self.bytes[HEADER + fixed..]
    }

    fn add_flags(&mut self, flags: i32) {
        let flags = read_u16(&self.bytes, 6) | flags as u16;
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    }
}

/// One message of a dump: its kind and what follows the header.
#[derive(Debug, Clone)]
pub struct Reply {
    /// `RTM_…`.
    pub kind: u16,
    /// The fixed part and the attributes.
    pub payload: Vec<u8>,
}

/// A message from the kernel with its header taken apart.
struct Received {
    kind: u16,
    flags: u16,
    sequence: u32,
    payload: Vec<u8>,
}

/// The attributes in `bytes`, as kind and value; stops at the first that is not whole.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        // The two top bits mark nesting and byte order.
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The attribute of this kind.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// A number at `offset` in host order, 0 where the bytes end before.
pub fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..offset + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// Likewise, of 64 bits.
pub fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..offset + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

pub(crate) fn read_u16(bytes: &[u8], offset: usize) -> u16 {
    bytes.get(offset..offset + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

/// A text attribute up to its zero.
pub fn text(value: &[u8]) -> String {
    CStr::from_bytes_until_nul(value)
        .map_or_else(|_| String::from_utf8_lossy(value).into_owned(), |text| text.to_string_lossy().into_owned())
}

/// A route-netlink socket of the namespace that the opening thread was in.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens one, with the kernel's extended error messages.
    pub fn open() -> Result<Self, NetlinkError> {
        // SAFETY: plain system call; the result is checked before it is owned.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
        if fd < 0 {
            return Err(NetlinkError::new("open a netlink socket", io::Error::last_os_error()));
        }
        // SAFETY: `fd` is a new descriptor that nothing else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            let on: libc::c_int = 1;
            // SAFETY: the option is an int and its size is given. Kernels without it refuse, which only costs words.
            unsafe {
                libc::setsockopt(
                    fd.as_raw_fd(),
                    libc::SOL_NETLINK,
                    option,
                    (&raw const on).cast(),
                    size_of::<libc::c_int>() as libc::socklen_t,
                )
            };
        }
        Ok(Self { fd, sequence: 0, buffer: vec![0; RECEIVE] })
    }

    /// Sends all of `batch`, in as few system calls as fit, and waits until the kernel has done them.
    ///
    /// Every message is tried also after one has failed; the first failure is returned.
    pub fn request(&mut self, what: &str, mut batch: Vec<Message>) -> Result<(), NetlinkError> {
        let mut failure = None;
        let mut rest = batch.as_mut_slice();
        while !rest.is_empty() {
            let mut size = 0;
            let fits = rest.iter().take_while(|m| {
                size += m.bytes.len();
                size <= SEND_MAX
            });
            let count = fits.count().max(1);
            let (now, later) = rest.split_at_mut(count);
            if let Err(error) = self.send_and_wait(what, now) {
                failure.get_or_insert(error);
            }
            rest = later;
        }
        failure.map_or(Ok(()), Err)
    }

    fn send_and_wait(&mut self, what: &str, batch: &mut [Message]) -> Result<(), NetlinkError> {
        if let Some(last) = batch.last_mut() {
            last.add_flags(libc::NLM_F_ACK);
        }
        let mut wire = Vec::with_capacity(batch.iter().map(|m| m.bytes.len()).sum());
        for message in batch {
            self.number(message);
            wire.extend(&message.bytes);
        }
        let last = self.sequence;
        self.send(what, &wire)?;
        let mut failure = None;
        loop {
            for Received { kind, flags, sequence, payload } in self.receive(what)? {
                if kind != libc::NLMSG_ERROR as u16 {
                    continue;
                }
                let code = read_u32(&payload, 0) as i32;
                if code != 0 && failure.is_none() {
                    failure = Some(NetlinkError {
                        what: what.into(),
                        error: io::Error::from_raw_os_error(-code),
                        explanation: explanation(flags, &payload),
                    });
                }
                if sequence == last {
                    return failure.map_or(Ok(()), Err);
                }
            }
        }
    }

    /// Sends a dump request and returns all that the kernel lists.
    pub fn dump(&mut self, what: &str, mut request: Message) -> Result<Vec<Reply>, NetlinkError> {
        request.add_flags(libc::NLM_F_DUMP);
        self.number(&mut request);
        self.send(what, &request.bytes)?;
        let mut replies = Vec::new();
        loop {
            for Received { kind, flags, sequence, payload } in self.receive(what)? {
                if sequence != self.sequence {
                    continue;
                }
                match i32::from(kind) {
                    libc::NLMSG_DONE => return Ok(replies),
                    libc::NLMSG_ERROR => {
                        return Err(NetlinkError {
                            what: what.into(),
                            error: io::Error::from_raw_os_error(-(read_u32(&payload, 0) as i32)),
                            explanation: explanation(flags, &payload),
                        });
                    }
                    _ => replies.push(Reply { kind, payload }),
                }
            }
        }
    }

    /// Requests one object with each message of `batch`, which has `NLM_F_ECHO`, and returns those that exist. A batch
    /// of 32 fits the socket's buffer.
    pub fn get(&mut self, what: &str, batch: &mut [Message]) -> Result<Vec<Reply>, NetlinkError> {
        let mut replies = Vec::new();
        for part in batch.chunks_mut(GET_MAX) {
            if let Some(last) = part.last_mut() {
                last.add_flags(libc::NLM_F_ACK);
            }
            let mut wire = Vec::new();
            for message in part {
                self.number(message);
                wire.extend(&message.bytes);
            }
            self.send(what, &wire)?;
            self.collect(what, &mut replies)?;
        }
        Ok(replies)
    }

    /// Receives replies up to the acknowledgement of the last request.
    fn collect(&mut self, what: &str, replies: &mut Vec<Reply>) -> Result<(), NetlinkError> {
        loop {
            for Received { kind, flags, sequence, payload } in self.receive(what)? {
                if kind != libc::NLMSG_ERROR as u16 {
                    replies.push(Reply { kind, payload });
                    continue;
                }
                let code = read_u32(&payload, 0) as i32;
                if code != 0 && code != -libc::ENOENT {
                    return Err(NetlinkError {
                        what: what.into(),
                        error: io::Error::from_raw_os_error(-code),
                        explanation: explanation(flags, &payload),
                    });
                }
                if sequence == self.sequence {
                    return Ok(());
                }
            }
        }
    }

    fn number(&mut self, message: &mut Message) {
        self.sequence = self.sequence.wrapping_add(1);
        let length = message.bytes.len() as u32;
        message.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        message.bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
    }

    fn send(&self, what: &str, wire: &[u8]) -> Result<(), NetlinkError> {
        // SAFETY: `wire` is readable for its length; an unconnected netlink socket sends to the kernel.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), wire.as_ptr().cast(), wire.len(), 0) };
        if sent == wire.len() as isize { Ok(()) } else { Err(NetlinkError::new(what, io::Error::last_os_error())) }
    }

    /// The messages of one datagram.
    fn receive(&mut self, what: &str) -> Result<Vec<Received>, NetlinkError> {
        let size = loop {
            // SAFETY: the buffer is writable for its length.
            let size =
                unsafe { libc::recv(self.fd.as_raw_fd(), self.buffer.as_mut_ptr().cast(), self.buffer.len(), 0) };
            if let Ok(size) = usize::try_from(size) {
                break size;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(NetlinkError::new(what, error));
            }
        };
        Ok(received(&self.buffer[..size]))
    }
}

/// The messages of a datagram.
fn received(mut rest: &[u8]) -> Vec<Received> {
    let mut messages = Vec::new();
    while rest.len() >= HEADER {
        let length = read_u32(rest, 0) as usize;
        let Some(payload) = rest.get(HEADER..length) else { break };
        messages.push(Received {
            kind: read_u16(rest, 4),
            flags: read_u16(rest, 6),
            sequence: read_u32(rest, 8),
            payload: payload.to_vec(),
        });
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    messages
}

/// Messages that the kernel sends to all members of a group, in the namespace of the thread that subscribed.
#[derive(Debug)]
pub(crate) struct Notifications {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl Notifications {
    /// Subscribes to groups (`RTMGRP_*`).
    pub(crate) fn subscribe(groups: u32) -> Result<Self, NetlinkError> {
        let what = "subscribe to changes of interfaces";
        let socket = Socket::open()?;
        // SAFETY: all zeros is a valid sockaddr_nl.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = groups;
        let size = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: the address is alive during the call, and its size is given.
        if unsafe { libc::bind(socket.fd.as_raw_fd(), (&raw const address).cast(), size) } != 0 {
            return Err(NetlinkError::new(what, io::Error::last_os_error()));
        }
        // Bytes that may wait: some thousand messages.
        let waiting: libc::c_int = 4 << 20;
        // A refusal leaves a smaller queue, whose overflow is handled.
        // SAFETY: the option is an int and its size is given.
        unsafe {
            libc::setsockopt(
                socket.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                (&raw const waiting).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        Ok(Self { fd: socket.fd, buffer: socket.buffer })
    }

    /// A file that is readable while messages wait.
    pub(crate) fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// All messages that wait, and whether others were lost.
    pub(crate) fn read(&mut self) -> Result<(Vec<Reply>, bool), NetlinkError> {
        let (mut messages, mut are_lost) = (Vec::new(), false);
        loop {
            let (fd, room) = (self.fd.as_raw_fd(), self.buffer.len());
            // SAFETY: the buffer is writable for its length.
            let size = unsafe { libc::recv(fd, self.buffer.as_mut_ptr().cast(), room, libc::MSG_DONTWAIT) };
            match usize::try_from(size) {
                Ok(size) => {
                    let received = received(&self.buffer[..size]).into_iter();
                    messages.extend(received.map(|Received { kind, payload, .. }| Reply { kind, payload }));
                }
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::WouldBlock => return Ok((messages, are_lost)),
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error if error.raw_os_error() == Some(libc::ENOBUFS) => are_lost = true,
                    error => return Err(NetlinkError::new("read changes of interfaces", error)),
                },
            }
        }
    }
}

/// The kernel's explanation of an error.
fn explanation(flags: u16, payload: &[u8]) -> Option<String> {
    /// linux/netlink.h: attributes follow; the request was left out of the reply; the attribute with the text.
    const NLM_F_ACK_TLVS: u16 = 0x200;
    const NLM_F_CAPPED: u16 = 0x100;
    const NLMSGERR_ATTR_MSG: u16 = 1;
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let request = if flags & NLM_F_CAPPED != 0 { HEADER } else { read_u32(payload, 4) as usize };
    payload.get(4 + request..).and_then(|attributes| attribute(attributes, NLMSGERR_ATTR_MSG)).map(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_attributes_with_padding_and_nesting() {
        let message =
            Message::new(40, 0, &[1, 2, 3, 4]).text(1, "htb").nest(2, |m| m.attribute(5, &7u32.to_ne_bytes()));
        let body = &message.bytes[HEADER + 4..];
        assert_eq!(attribute(body, 1).map(text).as_deref(), Some("htb"));
        let nested = attribute(body, 2).expect("nested");
        assert_eq!(attribute(nested, 5).map(|v| read_u32(v, 0)), Some(7));
        assert_eq!(attribute(body, 3), None);
        assert_eq!(message.bytes.len() % 4, 0);
    }

    #[test]
    fn parsing_ends_at_damaged_attributes() {
        for bytes in [&[][..], &[0], &[4, 0, 1], &[0, 0, 1, 0], &[200, 0, 1, 0, 9], &[3, 0, 1, 0, 9, 9, 9, 9]] {
            assert_eq!(attributes(bytes).count(), 0, "{bytes:?}");
        }
    }
}
