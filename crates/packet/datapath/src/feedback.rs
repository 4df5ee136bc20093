//! [`Feedback`]: a receive meter's rate on the wire.
//!
//! The format, its tag and its order are in `datapath/feedback.h`; the kernel's programs write and
//! check it. This module serves tests, captures and tools.
//!
//! Worked example: `feedback.body(source, destination, &key)` returns 56 bytes, from which
//! [`Feedback::read`] with the same addresses and key returns the same feedback, and with any other
//! addresses or key `None`.

use crate::abi;
use std::fmt;

const FEEDBACK_WORDS: usize = abi::FEEDBACK_WORDS as usize;
/// Bytes of a feedback packet after its UDP header.
pub const FEEDBACK_BYTES: usize = abi::FEEDBACK_BYTES as usize;

/// An address in network byte order; IPv4 is `::ffff:a.b.c.d`.
pub type Address = [u64; 2];

/// A key of SipHash-2-4, which `Debug` does not print.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SipKey(abi::SipKey);

impl SipKey {
    /// From its 16 bytes.
    pub fn new(bytes: [u8; 16]) -> Self {
        let half = |from: usize| {
            let half: [u8; 8] = bytes[from..from + 8].try_into().expect("eight of sixteen bytes");
            u64::from_le_bytes(half)
        };
        Self(abi::SipKey { first: half(0), second: half(8) })
    }

    /// The structure that the kernel's programs read.
    pub fn raw(&self) -> abi::SipKey {
        self.0
    }

    /// The tag of at most 16 words in memory order.
    ///
    /// # Panics
    /// With more words.
    pub fn tag(&self, words: &[u64]) -> u64 {
        assert!(words.len() <= abi::SIP_WORDS_MAX as usize, "{} words", words.len());
        // SAFETY: reads `words.len()` words.
        unsafe { abi::siphash(&self.0, words.as_ptr(), words.len() as u32) }
    }
}

impl fmt::Debug for SipKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SipKey(secret)")
    }
}

/// The content of a feedback packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feedback(pub abi::Feedback);

impl Feedback {
    /// The body of the feedback datagram from the receiver `source` to the sender `destination`.
    pub fn body(&self, source: &Address, destination: &Address, key: &SipKey) -> [u8; FEEDBACK_BYTES] {
        self.write(abi::KIND_FEEDBACK, source, destination, key)
    }

    /// The body of the ECN capability message from the sender `source` to the receiver `destination`.
    pub fn ecn_capability(&self, source: &Address, destination: &Address, key: &SipKey) -> [u8; FEEDBACK_BYTES] {
        self.write(abi::KIND_ECN_CAPABILITY, source, destination, key)
    }

    fn write(&self, kind: u32, source: &Address, destination: &Address, key: &SipKey) -> [u8; FEEDBACK_BYTES] {
        let mut words = [0; FEEDBACK_WORDS];
        abi::feedback_write_as(kind, &mut words, &self.0, source, destination, &key.0);
        bytes(words)
    }

    /// The content of a body sent from `source` to `destination`; `None` unless it is feedback of
    /// this version with a valid tag.
    pub fn read(body: &[u8], source: &Address, destination: &Address, key: &SipKey) -> Option<Self> {
        let words = words(body)?;
        if abi::control_kind(words[0]) != abi::FEEDBACK_GOOD as i32 {
            return None;
        }
        let tag = words[FEEDBACK_WORDS - 1];
        let mut raw = abi::Feedback::default();
        abi::feedback_read(&words, &mut raw);
        (abi::feedback_tag(&words, source, destination, &key.0) == tag).then_some(Self(raw))
    }

    /// The packet that triggered this feedback, as its sender classifies it; `carrier` is the parsed feedback packet.
    pub fn subject(&self, carrier: &abi::Packet) -> abi::Packet {
        let mut subject = abi::Packet::default();
        abi::feedback_subject(&self.0, carrier, &mut subject);
        subject
    }

    /// Whether this is newer than the last feedback of the same destination, by (epoch, sequence).
    pub fn is_newer(&self, last: (u64, u64)) -> bool {
        abi::feedback_newer(self.0.epoch, self.0.sequence, last.0, last.1) != 0
    }
}

fn bytes(words: [u64; FEEDBACK_WORDS]) -> [u8; FEEDBACK_BYTES] {
    let mut bytes = [0; FEEDBACK_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn words(body: &[u8]) -> Option<[u64; FEEDBACK_WORDS]> {
    let body: &[u8; FEEDBACK_BYTES] = body.try_into().ok()?;
    let mut words = [0; FEEDBACK_WORDS];
    for (word, chunk) in words.iter_mut().zip(body.chunks_exact(8)) {
        *word = u64::from_ne_bytes(chunk.try_into().expect("chunks of eight"));
    }
    Some(words)
}

/// The IP and UDP headers of feedback over IPv4.
pub fn headers_ipv4(source: &Address, destination: &Address) -> [u8; 28] {
    let mut headers = [0; 28];
    abi::feedback_ipv4(&mut headers, source, destination);
    headers
}

/// The IP and UDP headers of feedback over IPv6.
///
/// # Panics
/// If the body has another length than [`FEEDBACK_BYTES`].
pub fn headers_ipv6(source: &Address, destination: &Address, body: &[u8]) -> [u8; 48] {
    let mut headers = [0; 48];
    abi::feedback_ipv6(&mut headers, source, destination, &words(body).expect("a body"));
    headers
}
